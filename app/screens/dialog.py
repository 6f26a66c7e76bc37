"""What all dialogs share: a frame in the middle of the screen, a title, and the keys at the bottom."""

from collections.abc import Iterable
from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static

from app.safe_text import visible

Result = TypeVar("Result")


class Dialog(ModalScreen[Result | None], Generic[Result]):
    """A screen over the workbench that can always be left by Escape, with None as its result."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Close")]
    HEADING: ClassVar[str] = ""
    KEYS: ClassVar[str] = "Esc closes"
    """The bottom line: what the keys do."""

    DEFAULT_CSS = """
    Dialog {
        align: center middle;
        background: $background 60%;

        & > #dialog {
            width: 100;
            max-width: 100%;
            height: 36;
            max-height: 100%;
            padding: 0 1;
            background: $surface;
            color: $foreground;
            border: round $primary 60%;
        }
        &.-small > #dialog { height: auto; }
        &.-large > #dialog { width: 100%; height: 100%; }
        #dialog-head { height: 1; margin: 0 1 1 1; }
        #dialog-title { width: 1fr; text-style: bold; color: $text-accent; }
        #dialog-aside { width: auto; color: $text-muted; }
        #dialog-keys { height: auto; margin: 1 1 0 1; color: $text-muted; }
        .quiet { color: $text-muted; }
        .warning { color: $text-warning; }
        .section { color: $text-primary; text-style: bold; }
        OptionList {
            border: none;
            padding: 0;
            background: $surface;
            scrollbar-size-vertical: 1;
            &:focus { border: none; background: $surface; background-tint: 0%; }
        }
        Input {
            border: none;
            height: 1;
            padding: 0 1;
            background: $foreground 7%;
            &:focus { border: none; background: $foreground 10%; background-tint: 0%; }
        }
        VerticalScroll { scrollbar-size-vertical: 1; }
    }
    """

    def compose(self) -> ComposeResult:
        """Title, body, keys."""
        with Vertical(id="dialog"):
            with Horizontal(id="dialog-head"):
                yield Static(Content(visible(self.heading(), keep="")), id="dialog-title")
                yield Static("", id="dialog-aside", markup=False)
            yield from self.body()
            yield Static(Content(self.keys_line()), id="dialog-keys")

    def heading(self) -> str:
        """The title."""
        return self.HEADING

    def keys_line(self) -> str:
        """The bottom line."""
        return self.KEYS

    def body(self) -> Iterable[Widget]:
        """The widgets between title and keys."""
        return ()

    def say(self, text: str) -> None:
        """A word at the right of the title: how many, what is going on."""
        self.query_one("#dialog-aside", Static).update(Content(visible(text, keep="")))

    def action_leave(self) -> None:
        """Close without a result."""
        self.dismiss(None)
