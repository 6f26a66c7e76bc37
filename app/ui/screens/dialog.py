"""Base of all dialogs: a frame with a title, keys at the bottom, and ways to close it."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from app.text.safe_text import escape_unsafe
from widgets.common.input_order import TOGETHER, JoinedKey, OnScreenClock
from widgets.common.key_hints import KeyHint, KeyHints
from widgets.common.search_list import SearchList

Result = TypeVar("Result")


def display_path(path: Path) -> str:
    """Return a path with ~ for the user's home."""
    home = Path.home()
    return f"~/{path.relative_to(home).as_posix()}" if path.is_relative_to(home) else str(path)


class Dialog(ModalScreen[Result | None], Generic[Result]):
    """A screen over the workbench; Escape or a click beside it closes it with None.

    Its widgets begin in one column: lists and fields reach from frame to frame and pad their text by one; plain text
    has the class `text`, which does the same.

    Args:
        classes: Choose its size.
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
        super().__init__(classes=classes)
        self._sight = OnScreenClock()

    def compose(self) -> ComposeResult:
        """Frame, body, keys."""
        with Vertical(id="dialog") as frame:
            frame.border_title = Content(f" {escape_unsafe(self.heading(), keep='')} ")
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
        """Show a short text in the frame, at the bottom right: a count, or progress."""
        said = escape_unsafe(text, keep="")
        self.query_one("#dialog").border_subtitle = Content(f" {said} ") if said else Content("")

    @on(events.Mount)
    def _await_picture(self) -> None:
        self.call_after_refresh(self._sight.gain)

    def on_key(self, event: events.Key) -> None:
        """Ignore a key that came before the dialog was on the screen, and letters of a pasted text, unless a field
        has the focus.

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


class PreviewDialog(Dialog[Result]):
    """A searchable list with a preview beside it; in a narrow terminal, below it."""

    DEFAULT_CSS = """
    PreviewDialog {
        & > #dialog { width: 130; }
        #panes { height: 1fr; }
        SearchList { width: 5fr; }
        OptionList { text-wrap: nowrap; text-overflow: ellipsis; }
        #preview { width: 6fr; height: 1fr; padding: 0 1; border-left: vkey $foreground 15%; }
        #preview-text { height: auto; }
        &.-narrow {
            #panes { layout: vertical; }
            SearchList { width: 1fr; height: 1fr; }
            #preview { width: 1fr; height: 40%; border-left: none; border-top: solid $foreground 15%; }
        }
    }
    """
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (96, "-wide")]  # noqa: RUF012

    def search_list(self) -> SearchList:
        """The list, as yet empty."""
        raise NotImplementedError

    def body(self) -> Iterable[Widget]:
        """List and preview."""
        with Horizontal(id="panes"):
            yield self.search_list()
            with VerticalScroll(id="preview", can_focus=False):
                yield Static(id="preview-text", markup=False)

    def show_preview(self, content: Content | str, *, end: bool = False) -> None:
        """Show this beside the list, from its top or from its end; a string is filtered for the terminal."""
        self.query_one("#preview-text", Static).update(
            content if isinstance(content, Content) else Content(escape_unsafe(content))
        )
        preview = self.query_one("#preview", VerticalScroll)
        if end:
            preview.scroll_end(animate=False)
        else:
            preview.scroll_home(animate=False)


class AskScreen(Dialog[bool]):
    """A yes/no question: `y` means yes, any other way of closing means no.

    Args:
        heading: What it is about.
        question: What would happen, in whole sentences; shown as it is.
        yes: What `y` does, as a verb.
        no: What `n` does, as a verb.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n", "answer(False)", "No"),
    ]

    DEFAULT_CSS = """
    AskScreen {
        & > #dialog { width: 64; border: round $warning; border-title-color: $text-warning; }
    }
    """

    def __init__(self, heading: str, question: str, yes: str, no: str) -> None:
        super().__init__(classes="-small")
        self._heading = heading
        self._question = question
        self._answers = (KeyHint("y", yes), KeyHint("n,escape", no))

    def heading(self) -> str:
        """Return the subject of the question."""
        return self._heading

    def key_hints(self) -> Sequence[KeyHint]:
        """Both answers."""
        return self._answers

    def body(self) -> Iterable[Widget]:
        """The question."""
        yield Static(Content(escape_unsafe(self._question)), classes="text")

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(yes)
