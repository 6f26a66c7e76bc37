"""What all dialogs share: a frame with its title, the keys at the bottom, and the ways out."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, TextArea

from app.text.safe_text import visible
from widgets.common.input_order import TOGETHER, JoinedKey
from widgets.common.key_hints import KeyHint, KeyHints
from widgets.common.sight import Sight

Result = TypeVar("Result")


def shown_path(path: Path) -> str:
    """A path as people write it, with ~ for their home."""
    home = Path.home()
    return f"~/{path.relative_to(home).as_posix()}" if path.is_relative_to(home) else str(path)


class Dialog(ModalScreen[Result | None], Generic[Result]):
    """A screen over the workbench that can always be left, by Escape or a click beside it, with None as its result.

    Its widgets begin in one column: lists and fields reach from frame to frame and pad their text by one; whatever
    is plain text carries the class `text`, which does the same.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Close")]
    HEADING: ClassVar[str] = ""
    KEYS: ClassVar[tuple[KeyHint, ...]] = (KeyHint("escape", "close"),)
    """The bottom line: what the keys do."""
    VERTICAL_BREAKPOINTS = [(0, "-short"), (30, "-tall")]  # noqa: RUF012

    DEFAULT_CSS = """
    Dialog {
        align: center middle;
        background: $background 60%;

        & > #dialog {
            width: 100;
            max-width: 100%;
            height: 36;
            max-height: 100%;
            padding: 1 1 0 1;
            background: $surface;
            color: $foreground;
            border: round $primary 80%;
            border-title-color: $text-accent;
            border-title-style: bold;
            border-subtitle-color: $foreground 65%;
        }
        &.-short > #dialog { padding: 0 1; }
        &.-small > #dialog { height: auto; }
        &.-large > #dialog { width: 100%; height: 100%; }
        KeyHints { margin-top: 1; }
        .text { height: auto; padding: 0 1; }
        .gap { margin-top: 1; }
        .quiet { color: $foreground 65%; }
        .warning { color: $text-warning; }
        OptionList {
            border: none;
            padding: 0;
            background: $surface;
            scrollbar-size-vertical: 1;
            & > .option-list--option { padding: 0 1; }
            &:ansi > .option-list--option-highlighted {
                background: ansi_blue;
                color: ansi_bright_white;
                text-style: bold;
            }
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

    def __init__(self, *, classes: str | None = None) -> None:
        """`classes` choose its size."""
        super().__init__(classes=classes)
        self._sight = Sight()

    def compose(self) -> ComposeResult:
        """Frame, body, keys."""
        with Vertical(id="dialog") as frame:
            frame.border_title = Content(f" {visible(self.heading(), keep='')} ")
            yield from self.body()
            yield KeyHints(self.key_hints())

    def heading(self) -> str:
        """The title."""
        return self.HEADING

    def key_hints(self) -> Sequence[KeyHint]:
        """The bottom line."""
        return self.KEYS

    def body(self) -> Iterable[Widget]:
        """The widgets between title and keys."""
        return ()

    def say(self, text: str) -> None:
        """A word in the frame, at the bottom right: how many, what is going on."""
        said = visible(text, keep="")
        self.query_one("#dialog").border_subtitle = Content(f" {said} ") if said else Content("")

    @on(events.Mount)
    def _await_picture(self) -> None:
        self.call_after_refresh(self._sight.gain)

    def on_key(self, event: events.Key) -> None:
        """A key that came before the dialog was on the screen answers nothing; what is written in a field is kept.

        Nor does a letter that came in one read with others: that is a text.
        """
        if event.key == "escape":
            return
        is_text = (
            isinstance(event, JoinedKey) and event.is_printable and not isinstance(self.focused, Input | TextArea)
        )
        if is_text or not self._sight.had(event.time):
            event.stop()
            event.prevent_default()
            self.say(TOGETHER if is_text else "A key came before this was on the screen. Press it again.")

    def on_click(self, event: events.Click) -> None:
        """A click beside the frame leaves, as Escape does."""
        if event.widget is self:
            self.action_leave()

    def action_leave(self) -> None:
        """Close without a result."""
        self.dismiss(None)
