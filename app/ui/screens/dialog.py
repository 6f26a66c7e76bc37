"""Base classes of the dialogs: a frame with a title, and keys at the bottom."""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static, TextArea

from app.keys.actions import actions_in_scopes
from app.keys.keymap import effective_keys
from app.text.safe_text import escape_unsafe
from widgets.common.input_order import KEY_BURST_MESSAGE, OnScreenSinceTracker, PossiblyPastedKey
from widgets.common.key_hints import KeyHint, WrappedKeyHints
from widgets.common.search_list import SearchList
from widgets.common.text_view import TextView, TextViewLine

if TYPE_CHECKING:
    from app.runtime.open_workspace import OpenWorkspace
    from app.ui.context.preferences import LiveSettings

Result = TypeVar("Result")


def display_path(path: Path) -> str:
    """Return a path with ~ for the home folder."""
    home = Path.home()
    return f"~/{path.relative_to(home).as_posix()}" if path.is_relative_to(home) else str(path)


def safe_content(text: str, style: str = "") -> Content:
    """Return a text as content on one line, with unsafe characters escaped."""
    return Content.styled(escape_unsafe(text, keep=""), style)


class DialogKey(NamedTuple):
    """A key of a dialog: its text in the bottom line, and its action."""

    keys: str
    """Keys in Textual's notation, separated by commas; empty for a hint without a key."""
    label: str
    """Text in the bottom line; empty for a key that it does not show."""
    action: str = ""
    """Action of the dialog, or one per key separated by `|`; empty if the focused widget handles the keys."""
    priority: bool = False
    """Whether the dialog handles the key before the focused widget."""

    @property
    def hint(self) -> KeyHint:
        """Return the hint for the bottom line."""
        return KeyHint(self.keys, self.label)

    def bindings(self) -> list[Binding]:
        """Return the bindings of the keys."""
        keys = self.keys.split(",") if self.action else []
        actions = self.action.split("|") if "|" in self.action else [self.action] * len(keys)
        return [
            Binding(key, action, self.label, show=False, priority=self.priority)
            for key, action in zip(keys, actions, strict=True)
        ]


class Dialog(ModalScreen[Result | None], Generic[Result]):
    """A screen over the workbench; Escape or a click outside the frame closes it with None.

    Lists and fields reach from frame to frame and pad their text by one column; plain text has the class `text`,
    which does the same.
    """

    HEADING: ClassVar[str] = ""
    KEYS: ClassVar[tuple[DialogKey, ...]] = (DialogKey("escape", "close", "leave"),)
    """The keys of this class in the order of the bottom line; `BINDINGS` is made from them."""
    BINDINGS: ClassVar[list[BindingType]] = [*KEYS[0].bindings()]
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
        WrappedKeyHints { dock: bottom; margin-top: 1; }
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

    def __init_subclass__(cls, **options: Any) -> None:
        """Set `BINDINGS` from `KEYS` before Textual reads it."""
        cls.BINDINGS = [binding for key in cls.__dict__.get("KEYS", ()) for binding in key.bindings()]
        super().__init_subclass__(**options)

    def __init__(self, *, classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self._on_screen_clock = OnScreenSinceTracker()
        self._status = ""

    def compose(self) -> ComposeResult:
        with Vertical(id="dialog") as frame:
            frame.border_title = Content(f" {escape_unsafe(self.frame_title(), keep='')} ")
            yield from self.compose_body()
            yield WrappedKeyHints(self.key_hints())

    def frame_title(self) -> str:
        """Return the title in the frame."""
        return self.HEADING

    def key_hints(self) -> Sequence[KeyHint]:
        """Return the hints in the bottom line, in order."""
        return [key.hint for key in self.KEYS if key.label]

    def hints_of(self, *keys: str) -> list[KeyHint]:
        """Return the hints of these keys in this order."""
        hint_by_keys = {key.keys: key.hint for key in self.KEYS}
        return [hint_by_keys[name] for name in keys]

    def compose_body(self) -> Iterable[Widget]:
        """Yield the widgets between title and keys."""
        return ()

    def show_status(self, text: str) -> None:
        """Show a short text at the bottom right of the frame, such as a count or progress."""
        self._status = text
        self._draw_status(text)

    def _draw_status(self, text: str) -> None:
        status = escape_unsafe(text, keep="")
        self.query_one("#dialog").border_subtitle = Content(f" {status} ") if status else Content("")

    @on(events.Mount)
    def _start_clock_after_paint(self) -> None:
        self.call_after_refresh(self._on_screen_clock.mark_painted)

    def on_key(self, event: events.Key) -> None:
        """Stop a key that was pressed before the dialog was on the screen, and a letter that was read together with
        others, unless a text field has the focus; say so until the next key.

        Letters that arrive in one read are pasted or typed-ahead text, and must not answer a dialog.
        """
        if event.key == "escape":
            return
        is_text = (
            isinstance(event, PossiblyPastedKey)
            and event.is_printable
            and not isinstance(self.focused, Input | TextArea)
        )
        if is_text or not self._on_screen_clock.was_on_screen_at(event.time):
            event.stop()
            event.prevent_default()
            self._draw_status(
                KEY_BURST_MESSAGE if is_text else "A key came before this was on the screen. Press it again."
            )
        else:
            self._draw_status("Escape closes this first." if self._is_key_of_app(event.key) else self._status)

    def _is_key_of_app(self, key: str) -> bool:
        """Return whether a key works everywhere but in a dialog."""
        keymap: Mapping[str, str] = getattr(self.app, "keymap", {})
        keys = (name for action in actions_in_scopes("app") for name in effective_keys(action, keymap))
        return key not in self.active_bindings and key in keys

    def on_click(self, event: events.Click) -> None:
        """Close the dialog on a click outside the frame."""
        if event.widget is self:
            self.action_leave()

    def action_leave(self) -> None:
        self.dismiss(None)


class PreviewedListDialog(Dialog[Result]):
    """A searchable list with a preview beside it; in a narrow terminal, below it."""

    DEFAULT_CSS = """
    PreviewedListDialog {
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

    @abstractmethod
    def search_list(self) -> SearchList:
        """Return the list on the left."""

    def compose_body(self) -> Iterable[Widget]:
        with Horizontal(id="panes"):
            yield self.search_list()
            with VerticalScroll(id="preview", can_focus=False):
                yield Static(id="preview-text", markup=False)

    def show_preview(self, content: Content | str, *, end: bool = False) -> None:
        """Show a content beside the list, scrolled to its top or its end; unsafe characters of a string are
        escaped."""
        self.query_one("#preview-text", Static).update(
            content if isinstance(content, Content) else Content(escape_unsafe(content))
        )
        preview = self.query_one("#preview", VerticalScroll)
        (preview.scroll_end if end else preview.scroll_home)(animate=False)


class TextDialog(Dialog[None]):
    """A large dialog with lines of text."""

    KEYS: ClassVar[tuple[DialogKey, ...]] = (DialogKey("g,G", "top, end"), DialogKey("escape", "close"))
    DEFAULT_CSS = """
    TextDialog {
        TextView { height: 1fr; }
    }
    """

    def __init__(self, heading: str, lines: Sequence[TextViewLine] = ()) -> None:
        super().__init__(classes="-large")
        self._heading = heading
        self._lines = lines

    def frame_title(self) -> str:
        return self._heading

    def compose_body(self) -> Iterable[Widget]:
        yield TextView()

    def on_mount(self) -> None:
        view = self.query_one(TextView)
        view.set_lines(self._lines)
        view.focus()

    def copy_text(self, text: str) -> None:
        """Copy a text to the clipboard, and notify the user."""
        self.app.copy_to_clipboard(text)
        self.notify("Copied.", timeout=2)


class ConfirmScreen(Dialog[bool]):
    """A yes/no question: `y` means yes, any other way of closing means no.

    Args:
        heading: Title of the frame.
        question: The effect of yes, in whole sentences; shown unchanged.
        yes_label: The action of `y`, as a verb.
        no_label: The action of `n`, as a verb.
    """

    KEYS = (DialogKey("y", "", "answer(True)"), DialogKey("n", "", "answer(False)"))
    DEFAULT_CSS = """
    ConfirmScreen {
        & > #dialog { width: 64; border: round $warning; border-title-color: $text-warning; }
    }
    """

    def __init__(self, heading: str, question: str, yes_label: str, no_label: str) -> None:
        super().__init__(classes="-small")
        self._heading = heading
        self._question = question
        self._answer_hints = (KeyHint("y", yes_label), KeyHint("n,escape", no_label))

    def frame_title(self) -> str:
        return self._heading

    def key_hints(self) -> Sequence[KeyHint]:
        return self._answer_hints

    def compose_body(self) -> Iterable[Widget]:
        yield Static(Content(escape_unsafe(self._question)), classes="text")

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(yes)


_MIN_WIDTH_FOR_HELP = 100


class SettingsListDialog(Dialog[None]):
    """A list of settings, and a field below it that edits one of them."""

    KEYS: ClassVar[tuple[DialogKey, ...]] = (
        DialogKey("up,down", "choose"),
        DialogKey("enter", "change"),
        DialogKey("left,right", "previous, next value", "turn(-1)|turn(1)"),
        DialogKey("h", "", "turn(-1)"),
        DialogKey("space,l", "", "turn(1)"),
        DialogKey("escape", "close"),
    )

    DEFAULT_CSS = """
    SettingsListDialog {
        & > #dialog { height: 30; }
        OptionList { height: 1fr; text-wrap: nowrap; text-overflow: ellipsis; }
        #setting-field { display: none; margin-top: 1; }
    }
    """

    def __init__(self, preferences: "LiveSettings", runtime: "OpenWorkspace") -> None:
        super().__init__()
        self._preferences = preferences
        self._runtime = runtime

    def compose_body(self) -> Iterable[Widget]:
        yield OptionList(markup=False)
        yield Input(id="setting-field")
        yield Static(id="setting-state", classes="text gap quiet")

    @abstractmethod
    def draw_list(self) -> None:
        """Draw the list, with the cursor where it is."""

    def on_mount(self) -> None:
        self.draw_list()
        self.query_one(OptionList).focus()
        self.show_status("saved at once")
        self.show_message(f"Saved in {display_path(self._runtime.dirs.config_file)}")

    def on_resize(self) -> None:
        """Fit the columns to the width."""
        self.draw_list()

    @property
    def is_narrow(self) -> bool:
        """Return whether the terminal is too narrow for help texts beside the values."""
        return self.app.size.width < _MIN_WIDTH_FOR_HELP

    @property
    def is_field_open(self) -> bool:
        """Return whether the field is open."""
        return self.query_one("#setting-field", Input).display

    def open_field(self, text: str, placeholder: str, keys: str) -> None:
        """Open the field with a text, and show `keys`, the hint on the keys that close it."""
        field = self.query_one("#setting-field", Input)
        field.value = text
        field.placeholder = placeholder
        field.display = True
        field.focus()
        self.show_message(keys)

    def close_field(self) -> None:
        """Close the field and focus the list."""
        self.query_one("#setting-field", Input).display = False
        self.query_one(OptionList).focus()

    def action_leave(self) -> None:
        """Close the field, or the screen."""
        if self.is_field_open:
            self.close_field()
            self.show_message("Nothing was changed.")
        else:
            self.dismiss(None)

    def show_message(self, text: str, *, problem: bool = False) -> None:
        """Show a result or a hint."""
        state = self.query_one("#setting-state", Static)
        state.set_class(problem, "warning")
        state.set_class(not problem, "quiet")
        state.update(safe_content(text))
