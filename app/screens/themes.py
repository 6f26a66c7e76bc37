"""Choice of a theme, shown at once on the whole screen behind it."""

from collections.abc import Iterable

from textual import on
from textual.content import Content
from textual.theme import Theme
from textual.widget import Widget
from textual.widgets import Static

from app.screens.dialog import Dialog
from app.theme_files import OWN_THEME_PREFIX
from widgets.common.search_list import Choice, SearchList


class ThemeScreen(Dialog[str]):
    """Own themes first, then the user's and Textual's; the cursor tries each on."""

    HEADING = "Theme"
    KEYS = "↑ ↓ try on · Enter keeps and saves · Esc goes back"

    DEFAULT_CSS = """
    ThemeScreen {
        align: right middle;
        background: transparent;
        & > #dialog { width: 44; height: 26; }
        #theme-sample { height: auto; margin: 1 1 0 1; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._before = ""

    def body(self) -> Iterable[Widget]:
        """The list, and a sample in the theme's colours."""
        yield SearchList("Search themes")
        yield Static(id="theme-sample")

    def on_mount(self) -> None:
        """Begin at the theme in force."""
        self._before = self.app.theme
        themes = sorted(self.app.available_themes.values(), key=lambda theme: (_rank(theme), theme.name))
        self.query_one(SearchList).set_choices([_choice(theme) for theme in themes], self._before)
        self.say(str(len(themes)))

    @on(SearchList.Highlighted)
    def try_on(self, event: SearchList.Highlighted) -> None:
        """Show it."""
        if event.choice is not None and self._before:
            self.app.theme = event.choice.key
            self.query_one("#theme-sample", Static).update(_SAMPLE)

    @on(SearchList.Picked)
    def keep(self, event: SearchList.Picked) -> None:
        """Keep it."""
        if event.choice is not None:
            self.dismiss(event.choice.key)

    def action_leave(self) -> None:
        """Everything as it was."""
        self.app.theme = self._before
        self.dismiss(None)


_SAMPLE = Content("\n").join(
    [
        Content.assemble(("● gate closed", "bold $text-warning"), "  ", ("1 waiting", "bold $text-accent")),
        Content.assemble(
            (" - ", "$diff-removed-color"), ("low = high()  ", "$foreground on $diff-removed-background")
        ),
        Content.assemble((" + ", "$diff-added-color"), ("low = high() / 2", "$foreground on $diff-added-background")),
        Content.assemble(("link ", "$text-primary"), ("code ", "$text-secondary"), ("quiet", "$foreground 60%")),
    ]
)


def _rank(theme: Theme) -> int:
    if theme.name.startswith(OWN_THEME_PREFIX):
        return 0
    return 2 if theme.ansi else 1


def _choice(theme: Theme) -> Choice:
    kind = "terminal's own colours" if theme.ansi else "dark" if theme.dark else "light"
    label = Content.assemble(theme.name.ljust(24), (kind, "$foreground 60%"))
    return Choice(theme.name, label, f"{theme.name} {kind}")
