"""Help: the key bindings and all commands, generated from the registry of actions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap

from textual import events, on
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from app.keys.actions import ACTIONS, Action, Scope, actions_in_scope
from app.keys.keymap import effective_keys, key_name
from app.prompts.custom_commands import CommandCatalogue
from app.text.safe_text import escape_unsafe
from app.ui.context.slash_commands import slash_command_usage
from app.ui.screens.dialog import Dialog, DialogKey

_SCOPE_TITLES: tuple[tuple[Scope, str], ...] = (
    ("review", "Review: decide"),
    ("diff", "Review: read the diff"),
    ("files", "Review: the list of files"),
    ("approval", "Review: the list of what waits"),
    ("writing", "Review: comments and feedback"),
    ("asking", "Review: asking aside"),
    ("composer", "Composer"),
    ("chat", "Transcript"),
    ("app", "Everywhere"),
)
"""The order of the groups: those that users look for most come first."""

_IN_SHORT = """\
The model proposes, you sign off: nothing on disk changes before you approve it.
Write in the composer. What the model wants to change appears beside it: F3 goes to the diff, F4 to the approvals. \
There y writes it, n discards it, and r sends it back with your words. What you type in the composer never decides."""

_WIDEST = 164
_TWO_COLUMNS = 132
_GUTTER = 4
_KEYS = 21
_USAGE = 30
_FRAME = 7
"""Columns of border, padding and scrollbar."""


class HelpScreen(Dialog[None]):
    """A searchable list of all actions.

    Args:
        keymap: The user's key changes by action id.
        custom_commands: The user's custom commands.
    """

    HEADING = "Help"
    KEYS = (
        DialogKey("", "type to search"),
        DialogKey("up,down,pageup,pagedown", "scroll"),
        DialogKey("f1", "", "leave"),
        DialogKey("escape", "close"),
    )

    DEFAULT_CSS = f"""
    HelpScreen {{
        & > #dialog {{ width: {_WIDEST}; height: 60; }}
        #help-text {{ padding: 0 1; height: 1fr; margin-top: 1; scrollbar-gutter: stable; }}
        #help-text Static {{ height: auto; width: 1fr; }}
        #help-columns {{ height: auto; }}
        #help-right {{ margin-left: {_GUTTER}; }}
        .-one-column #help-right {{ display: none; }}
        #help-short {{ margin-bottom: 1; }}
    }}
    """

    def __init__(self, keymap: Mapping[str, str], custom_commands: CommandCatalogue) -> None:
        super().__init__()
        self._keymap = keymap
        self._own = custom_commands

    def compose_body(self) -> Iterable[Widget]:
        yield Input(placeholder="Search keys and commands")
        with VerticalScroll(id="help-text", can_focus=False):
            yield Static(_IN_SHORT, id="help-short", markup=False)
            with Horizontal(id="help-columns"):
                yield Static(id="help-left")
                yield Static(id="help-right")

    def on_mount(self) -> None:
        """Focus the search field."""
        self.query_one(Input).focus()

    @on(Input.Changed)
    def search(self, event: Input.Changed) -> None:
        """Show the matching entries."""
        self._show(event.value, self.app.size.width)
        self.query_one("#help-text", VerticalScroll).scroll_home(animate=False)

    def on_resize(self, event: events.Resize) -> None:
        """Fit the columns to the width."""
        self._show(self.query_one(Input).value, event.size.width)

    def on_key(self, event: events.Key) -> None:
        """Scroll the text while the search field has the focus."""
        scroll = self.query_one("#help-text", VerticalScroll)
        steps = {"up": -1, "down": 1, "pageup": -(scroll.size.height - 1), "pagedown": scroll.size.height - 1}
        if event.key in steps:
            event.stop()
            scroll.scroll_relative(y=steps[event.key], animate=False)

    def _show(self, query: str, terminal_width: int) -> None:
        words = query.casefold().split()
        width = max(30, min(_WIDEST, terminal_width) - _FRAME)
        two = terminal_width >= _TWO_COLUMNS and not words
        left, right = _parted(self._groups(words, (width - _GUTTER) // 2 if two else width), two)
        nothing = Content.styled("Nothing matches.", "$foreground 65%")
        self.query_one("#dialog").set_class(not two, "-one-column")
        self.query_one("#help-short").display = not words
        self.query_one("#help-left", Static).update(_joined(left) if left else nothing)
        self.query_one("#help-right", Static).update(_joined(right))

    def _groups(self, words: Sequence[str], width: int) -> list[list[Content]]:
        """Return the lines of each group with matching entries."""
        groups = [
            (
                title,
                [
                    line
                    for action in actions_in_scope(scope)
                    if self._fits(action, words)
                    for line in self._row(action, width)
                ],
            )
            for scope, title in _SCOPE_TITLES
        ]
        commands = [action for action in ACTIONS if action.command and self._fits(action, words)]
        rows = [
            line for action in commands for line in _columns(slash_command_usage(action), action.help, width, _USAGE)
        ]
        groups.append(("Commands, in the composer or by name in the palette", rows))
        groups.append(("Your own commands", [line for row in self._own_rows(words, width) for line in row]))
        return [[Content.styled(title, "bold $text-primary"), *lines] for title, lines in groups if lines]

    def _own_rows(self, words: Sequence[str], width: int) -> Iterator[list[Content]]:
        for command in self._own.commands.values():
            text = f"/{command.name} {command.summary} {command.path}".casefold()
            if all(word in text for word in words):
                told = f"{command.description} ({escape_unsafe(command.path, keep='')})"
                yield _columns(f"/{command.name} {command.argument}".rstrip(), told, width, _USAGE)
        if not words:
            for problem in self._own.all_problems():
                yield [Content.styled(line, "$text-warning") for line in wrap(problem, width)]

    def _fits(self, action: Action, words: Iterable[str]) -> bool:
        keys = " ".join(key_name(key) for key in effective_keys(action, self._keymap))
        text = f"{action.id} {action.title} {action.help} {keys} /{action.command}".casefold()
        return all(word in text for word in words)

    def _row(self, action: Action, width: int) -> list[Content]:
        keys = effective_keys(action, self._keymap)
        if not keys:
            return []
        names = "  ".join(key_name(key) for key in keys)
        return _columns(names, action.help or action.title, width, _KEYS, moved=action.id in self._keymap)


def _parted(groups: list[list[Content]], two: bool) -> tuple[list[list[Content]], list[list[Content]]]:
    """Split the groups into two columns of about the same height, or return all in one."""
    if not two:
        return groups, []
    heights = [len(group) + 1 for group in groups]
    cut = min(range(1, len(groups) + 1), key=lambda at: abs(sum(heights[:at]) - sum(heights[at:])))
    return groups[:cut], groups[cut:]


def _joined(groups: Iterable[list[Content]]) -> Content:
    return Content("\n\n").join([Content("\n").join(lines) for lines in groups])


def _columns(left: str, right: str, width: int, indent: int, *, moved: bool = False) -> list[Content]:
    """Return the lines of a two-column entry; the right column is wrapped."""
    if width < 2 * indent:
        indent = min(indent, _KEYS)
    lines: list[str] = [""]
    for word in right.split():
        if lines[-1] and len(lines[-1]) + len(word) + 1 > width - indent:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    style = "bold $text-warning" if moved else "bold $text-accent"
    if len(left) >= indent:
        return [Content.styled(left, style), *(Content(" " * indent + line) for line in lines)]
    first = Content.assemble((left.ljust(indent), style), lines[0])
    return [first, *(Content(" " * indent + line) for line in lines[1:])]
