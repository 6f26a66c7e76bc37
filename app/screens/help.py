"""Help: what signoff is, all keys as they are in force, all commands. Made from the registry and the keymap."""

from collections.abc import Iterable, Mapping
from typing import ClassVar

from textual import events, on
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from app.actions import ACTIONS, Action, Scope, in_scope
from app.keymap import key_name, keys_of
from app.screens.dialog import Dialog

SCOPES: tuple[tuple[Scope, str], ...] = (
    ("review", "Review · decide (diff or approvals in focus)"),
    ("diff", "Review · read the diff"),
    ("approval", "Review · the list of what waits"),
    ("composer", "Composer"),
    ("chat", "Transcript"),
    ("app", "Everywhere"),
)
"""The order of the groups: what people look for first comes first."""

_IN_SHORT = """\
The model proposes, you sign off. Nothing on disk changes before you approve it.
Write in the composer; what the model wants to change appears at the right. F3 goes to the diff, F4 to the \
approvals; there y writes it, n discards it, r sends it back with your words. Typing in the composer never decides."""


class HelpScreen(Dialog[None]):
    """Everything that can be done, searchable."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("f1", "leave", "Close", show=False)]
    HEADING = "Help"
    KEYS = "type to search · ↑ ↓ scroll · Esc closes"

    DEFAULT_CSS = """
    HelpScreen {
        #help-text { padding: 0 1; height: 1fr; margin-top: 1; }
        #help-text Static { height: auto; }
    }
    """

    def __init__(self, keymap: Mapping[str, str]) -> None:
        """`keymap` is the user's, by action id."""
        super().__init__()
        self._keymap = keymap

    def body(self) -> Iterable[Widget]:
        """Search field and text."""
        yield Input(placeholder="Search keys and commands")
        with VerticalScroll(id="help-text", can_focus=False):
            yield Static(id="help-content")

    def on_mount(self) -> None:
        """All of it."""
        self.query_one(Input).focus()
        self._show("")

    @on(Input.Changed)
    def search(self, event: Input.Changed) -> None:
        """Show what matches."""
        self._show(event.value)

    def on_resize(self) -> None:
        """The columns follow the width."""
        self._show(self.query_one(Input).value)

    def on_key(self, event: events.Key) -> None:
        """The text scrolls while the field has the focus."""
        scroll = self.query_one("#help-text", VerticalScroll)
        steps = {"up": -1, "down": 1, "pageup": -(scroll.size.height - 1), "pagedown": scroll.size.height - 1}
        if event.key in steps:
            event.stop()
            scroll.scroll_relative(y=steps[event.key], animate=False)

    def _show(self, query: str) -> None:
        words = query.casefold().split()
        width = max(30, self.query_one("#help-text").size.width - 3)
        parts = [] if words else [Content(_IN_SHORT)]
        parts += [
            self._group(title, [self._row(action, width) for action in in_scope(scope) if self._fits(action, words)])
            for scope, title in SCOPES
        ]
        commands = [action for action in ACTIONS if action.command and self._fits(action, words)]
        parts.append(
            self._group("Commands (in the composer, or by Ctrl+P)", [_command(one, width) for one in commands])
        )
        shown = [part for part in parts if part.plain]
        text = Content("\n\n").join(shown) if shown else Content.styled("Nothing matches.", "$foreground 60%")
        self.query_one("#help-content", Static).update(text)

    def _fits(self, action: Action, words: Iterable[str]) -> bool:
        keys = " ".join(key_name(key) for key in keys_of(action, self._keymap))
        text = f"{action.id} {action.title} {action.help} {keys} /{action.command}".casefold()
        return all(word in text for word in words)

    def _row(self, action: Action, width: int) -> Content | None:
        keys = keys_of(action, self._keymap)
        if not keys:
            return None
        moved = action.id in self._keymap
        return _columns("  ".join(key_name(key) for key in keys), action.help or action.title, width, moved=moved)

    def _group(self, title: str, rows: Iterable[Content | None]) -> Content:
        lines = [row for row in rows if row is not None]
        if not lines:
            return Content("")
        return Content("\n").join([Content.styled(title, "bold $text-primary"), *lines])


def _command(action: Action, width: int) -> Content:
    return _columns(f"/{action.command} {action.argument}".rstrip(), action.help, width)


def _columns(left: str, right: str, width: int, *, moved: bool = False) -> Content:
    """Two columns; the right one is wrapped within itself."""
    indent = 27 if width >= 70 else 20
    lines: list[str] = [""]
    for word in right.split():
        if lines[-1] and len(lines[-1]) + len(word) + 1 > width - indent - 2:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    first = left.ljust(indent)
    gap = f"\n{' ' * (indent + 2)}"
    return Content.assemble(
        "  ",
        (first, "bold $text-warning" if moved else "bold $text-accent"),
        gap if len(left) > indent else "",
        gap.join(lines),
    )
