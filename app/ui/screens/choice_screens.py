"""Dialogs to choose the gate policy or the theme."""

import asyncio
from collections.abc import Iterable

from textual import on, work
from textual.content import Content
from textual.theme import Theme
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.ui.screens.dialog import Dialog, DialogKey
from app.ui.themes.first_theme import STANDARD_THEME
from app.ui.themes.theme_files import OWN_THEME_PREFIX
from widgets.common.input_order import is_handling_input, wait_until_input_painted
from widgets.common.search_list import ListChoice, SearchList

_CHAIN_STEPS = (2, 3, 5, 10)


class GatePolicyPickerScreen(Dialog[tuple[str, int | None]]):
    """A dialog to pick the gate policy; the result is the policy and, for a chain, its number of steps."""

    HEADING = "Gate policy"
    KEYS = (
        DialogKey("up,down", "choose"),
        DialogKey("enter", "select"),
        DialogKey("escape", "cancel"),
        DialogKey("", "/gate chain N takes 1 to 50"),
    )

    DEFAULT_CSS = """
    GatePolicyPickerScreen {
        & > #dialog { width: 84; }
        OptionList { height: auto; margin-top: 1; text-wrap: nowrap; text-overflow: ellipsis; }
    }
    """

    def __init__(self, kind: str, steps: int) -> None:
        super().__init__(classes="-small")
        numbers = sorted({*_CHAIN_STEPS, steps}) if kind == "chain" else list(_CHAIN_STEPS)
        self._choices: list[tuple[str, int | None]] = [
            ("every-edit", None),
            *(("chain", number) for number in numbers),
        ]
        self._current_choice = ("every-edit", None) if kind == "every-edit" else ("chain", steps)

    def compose_body(self) -> Iterable[Widget]:
        yield Static(
            "When the gate closes, the model must stop and wait for you: it cannot call tools until you decide or "
            "send a message.",
            classes="text quiet",
        )
        yield OptionList(
            *(Option(_policy_label(choice, choice == self._current_choice)) for choice in self._choices), markup=False
        )

    def on_mount(self) -> None:
        options = self.query_one(OptionList)
        options.highlighted = self._choices.index(self._current_choice)
        options.focus()

    @on(OptionList.OptionSelected)
    def return_policy(self, event: OptionList.OptionSelected) -> None:
        """Close with the chosen policy."""
        event.stop()
        self.dismiss(self._choices[event.option_index])


def _policy_label(choice: tuple[str, int | None], is_current: bool) -> Content:
    kind, steps = choice
    name = kind if steps is None else f"{kind} {steps}"
    explanation = "after each proposal" if steps is None else f"after {steps} proposals in a row"
    mark = "●" if is_current else " "
    return Content.assemble((f"{mark} ", "$text-accent"), (name.ljust(12), "bold"), (explanation, "$foreground 65%"))


_PREVIEW_DELAY_SECONDS = 0.12
"""Seconds that the cursor rests on a theme before the preview."""


class ThemePickerScreen(Dialog[str]):
    """A list of all themes with a preview of the highlighted one; the result is the picked theme."""

    HEADING = "Theme"
    KEYS = (DialogKey("up,down", "preview"), DialogKey("enter", "select"), DialogKey("escape", "cancel"))

    DEFAULT_CSS = """
    ThemePickerScreen {
        align: right middle;
        background: transparent;
        & > #dialog { width: 52; height: 32; }
        OptionList { text-wrap: nowrap; text-overflow: ellipsis; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._former_theme = ""

    def compose_body(self) -> Iterable[Widget]:
        yield SearchList("Search themes")
        yield Static(_SAMPLE_CONTENT, id="theme-sample", classes="text gap")

    def on_mount(self) -> None:
        self._former_theme = self.app.theme
        themes = sorted(self.app.available_themes.values(), key=lambda theme: (_theme_sort_key(theme), theme.name))
        self.query_one(SearchList).set_choices(
            [_theme_choice(theme, theme.name == self._former_theme) for theme in themes], self._former_theme
        )
        self.show_status(f"{len(themes)} themes")

    @on(SearchList.Highlighted)
    def preview_theme(self, event: SearchList.Highlighted) -> None:
        """Preview the highlighted theme, unless the cursor moves on."""
        if event.choice is not None and self._former_theme:
            self._apply_after_delay(event.choice.key)

    @work(group="try on", exclusive=True, exit_on_error=False, description="try on a theme")
    async def _apply_after_delay(self, name: str) -> None:
        """Apply the theme once the user stops typing: it repaints the whole screen."""
        await asyncio.sleep(_PREVIEW_DELAY_SECONDS)
        while is_handling_input(self.app):
            await wait_until_input_painted(self.app)
        self.app.theme = name
        self.query_one("#theme-sample", Static).update(_SAMPLE_CONTENT)

    @on(SearchList.Picked)
    def close_with_theme(self, event: SearchList.Picked) -> None:
        """Close with the name of the picked theme; the caller saves it."""
        if event.choice is not None:
            self.dismiss(event.choice.key)

    def action_leave(self) -> None:
        self.app.theme = self._former_theme
        self.dismiss(None)


_STANDARD_THEMES = (STANDARD_THEME, "signoff-light")

_SAMPLE_CONTENT = Content("\n").join(
    [
        Content.assemble(("● model must wait", "bold $text-warning"), "  ", ("1 waiting", "bold $text-accent")),
        Content.assemble(
            (" - ", "$diff-removed-color"), ("low = high()  ", "$foreground on $diff-removed-background")
        ),
        Content.assemble((" + ", "$diff-added-color"), ("low = high() / 2", "$foreground on $diff-added-background")),
        Content.assemble(("link ", "$text-primary"), ("code ", "$text-secondary"), ("quiet", "$foreground 65%")),
    ]
)


def _theme_sort_key(theme: Theme) -> tuple[bool, bool, bool]:
    """Return the sort key: signoff's themes first, the standard pair before all; themes in terminal colours last."""
    return (not theme.name.startswith(OWN_THEME_PREFIX), theme.name not in _STANDARD_THEMES, theme.ansi)


def _theme_choice(theme: Theme, is_current: bool) -> ListChoice:
    kind = "dark" if theme.dark else "light"
    label = Content.assemble(
        ("● " if is_current else "  ", "$text-accent"),
        theme.name.ljust(22),
        (kind.ljust(6), "$foreground 65%"),
        ("terminal's", "$foreground 65%") if theme.ansi else _colour_swatch(theme),
    )
    return ListChoice(theme.name, label, f"{theme.name} {kind}{' terminal' if theme.ansi else ''}")


def _colour_swatch(theme: Theme) -> Content:
    """Return a few of the theme's colours on its background."""
    palette = theme.to_color_system().generate()
    colours = ("foreground", "primary", "accent", "success", "error")
    blocks = [("■ ", f"{palette[name]} on {palette['background']}") for name in colours]
    return Content.assemble((" ", f"on {palette['background']}"), *blocks)
