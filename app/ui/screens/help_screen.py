"""Help: the key bindings and all commands, generated from the registry of actions."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap

from textual import events, on
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from app.keys.actions import ACTIONS, Scope, UserAction, actions_in_scopes
from app.keys.keymap import effective_keys, key_display_name
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

_SUMMARY = """\
The model proposes, you sign off: nothing on disk changes before you approve it.
Write in the composer. What the model wants to change appears beside it: F3 goes to the diff, F4 to the approvals. \
There y writes it, n discards it, and r sends it back with your words. What you type in the composer never decides."""

_FIXED_COMPOSER_KEYS = (
    ("up", "In the first line: go back to what you sent before."),
    ("down", "In the last line: return to what you sent later, and to your draft."),
    ("@", "Mention a file."),
    ("/", "List the commands, at the beginning of a message."),
)
"""Keys of the composer that are no actions: they cannot be rebound."""

_MAX_WIDTH = 164
_MIN_WIDTH_FOR_TWO_COLUMNS = 132
_GUTTER_WIDTH = 4
_KEYS_WIDTH = 21
_USAGE_WIDTH = 30
_FRAME_WIDTH = 7
"""Columns of border, padding and scrollbar."""


class HelpScreen(Dialog[None]):
    """A searchable list of all actions."""

    HEADING = "Help"
    KEYS = (
        DialogKey("", "type to search"),
        DialogKey("up,down,pageup,pagedown", "scroll"),
        DialogKey("f1", "", "leave"),
        DialogKey("escape", "close"),
    )

    DEFAULT_CSS = f"""
    HelpScreen {{
        & > #dialog {{ width: {_MAX_WIDTH}; height: 60; }}
        #help-text {{ padding: 0 1; height: 1fr; margin-top: 1; scrollbar-gutter: stable; }}
        #help-text Static {{ height: auto; width: 1fr; }}
        #help-columns {{ height: auto; }}
        #help-right {{ margin-left: {_GUTTER_WIDTH}; }}
        .-one-column #help-right {{ display: none; }}
        #help-short {{ margin-bottom: 1; }}
    }}
    """

    def __init__(self, keymap: Mapping[str, str], custom_commands: CommandCatalogue) -> None:
        super().__init__()
        self._keymap = keymap
        self._custom_commands = custom_commands

    def compose_body(self) -> Iterable[Widget]:
        yield Input(placeholder="Search keys and commands")
        with VerticalScroll(id="help-text", can_focus=False):
            yield Static(_SUMMARY, id="help-short", markup=False)
            with Horizontal(id="help-columns"):
                yield Static(id="help-left")
                yield Static(id="help-right")

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    @on(Input.Changed)
    def search(self, event: Input.Changed) -> None:
        """Show the matching entries."""
        self._show_entries(event.value, self.app.size.width)
        self.query_one("#help-text", VerticalScroll).scroll_home(animate=False)

    def on_resize(self, event: events.Resize) -> None:
        """Fit the columns to the width."""
        self._show_entries(self.query_one(Input).value, event.size.width)

    def on_key(self, event: events.Key) -> None:
        """Scroll the text while the search field has the focus."""
        scroll = self.query_one("#help-text", VerticalScroll)
        steps = {"up": -1, "down": 1, "pageup": -(scroll.size.height - 1), "pagedown": scroll.size.height - 1}
        if event.key in steps:
            event.stop()
            scroll.scroll_relative(y=steps[event.key], animate=False)

    def _show_entries(self, query: str, terminal_width: int) -> None:
        words = query.casefold().split()
        width = max(30, min(_MAX_WIDTH, terminal_width) - _FRAME_WIDTH)
        has_two_columns = terminal_width >= _MIN_WIDTH_FOR_TWO_COLUMNS and not words
        left, right = _split_into_columns(
            self._matching_groups(words, (width - _GUTTER_WIDTH) // 2 if has_two_columns else width), has_two_columns
        )
        no_match = Content.styled("Nothing matches.", "$foreground 65%")
        self.query_one("#dialog").set_class(not has_two_columns, "-one-column")
        self.query_one("#help-short").display = not words
        self.query_one("#help-left", Static).update(_join_groups(left) if left else no_match)
        self.query_one("#help-right", Static).update(_join_groups(right))

    def _matching_groups(self, words: Sequence[str], width: int) -> list[list[Content]]:
        """Return the lines of each group with matching entries."""
        groups = [
            (
                title,
                [
                    line
                    for action in actions_in_scopes(scope)
                    if self._matches_query(action, words)
                    for line in self._action_lines(action, width)
                ],
            )
            for scope, title in _SCOPE_TITLES
        ]
        groups[[scope for scope, _ in _SCOPE_TITLES].index("composer")][1].extend(
            line
            for key, help_text in _FIXED_COMPOSER_KEYS
            if all(word in f"{key} {help_text}".casefold() for word in words)
            for line in _entry_lines(key_display_name(key), help_text, width, _KEYS_WIDTH)
        )
        commands = [action for action in ACTIONS if action.command and self._matches_query(action, words)]
        rows = [
            line
            for action in commands
            for line in _entry_lines(slash_command_usage(action), action.help, width, _USAGE_WIDTH)
        ]
        groups.append(("Commands, in the composer or by name in the palette", rows))
        groups.append(
            ("Your own commands", [line for row in self._custom_command_entries(words, width) for line in row])
        )
        return [[Content.styled(title, "bold $text-primary"), *lines] for title, lines in groups if lines]

    def _custom_command_entries(self, words: Sequence[str], width: int) -> Iterator[list[Content]]:
        for command in self._custom_commands.commands.values():
            text = f"/{command.name} {command.summary} {command.path}".casefold()
            if all(word in text for word in words):
                help_text = f"{command.description} ({escape_unsafe(command.path, keep='')})"
                yield _entry_lines(f"/{command.name} {command.argument}".rstrip(), help_text, width, _USAGE_WIDTH)
        if not words:
            for problem in self._custom_commands.all_problems():
                yield [Content.styled(line, "$text-warning") for line in wrap(problem, width)]

    def _matches_query(self, action: UserAction, words: Iterable[str]) -> bool:
        keys = " ".join(key_display_name(key) for key in effective_keys(action, self._keymap))
        text = f"{action.id} {action.title} {action.help} {keys} /{action.command}".casefold()
        return all(word in text for word in words)

    def _action_lines(self, action: UserAction, width: int) -> list[Content]:
        keys = effective_keys(action, self._keymap)
        if not keys:
            return []
        names = "  ".join(key_display_name(key) for key in keys)
        return _entry_lines(
            names, action.help or action.title, width, _KEYS_WIDTH, is_rebound=action.id in self._keymap
        )


def _split_into_columns(
    groups: list[list[Content]], has_two_columns: bool
) -> tuple[list[list[Content]], list[list[Content]]]:
    """Split the groups into two columns of about the same height, or return all in one."""
    if not has_two_columns:
        return groups, []
    heights = [len(group) + 1 for group in groups]
    first_in_right = min(
        range(1, len(groups) + 1), key=lambda index: abs(sum(heights[:index]) - sum(heights[index:]))
    )
    return groups[:first_in_right], groups[first_in_right:]


def _join_groups(groups: Iterable[list[Content]]) -> Content:
    return Content("\n\n").join([Content("\n").join(lines) for lines in groups])


def _entry_lines(left: str, right: str, width: int, indent: int, *, is_rebound: bool = False) -> list[Content]:
    """Return the lines of a two-column entry; the right column is wrapped."""
    indent = min(indent, width * 3 // 7)
    lines = wrap(right, width - indent, break_long_words=False, break_on_hyphens=False) or [""]
    style = "bold $text-warning" if is_rebound else "bold $text-accent"
    if len(left) >= indent:
        return [Content.styled(left, style), *(Content(" " * indent + line) for line in lines)]
    first = Content.assemble((left.ljust(indent), style), lines[0])
    return [first, *(Content(" " * indent + line) for line in lines[1:])]
