"""A field for a comment on a line or for feedback. No key in it decides on a proposal."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static, TextArea

from app.keys.actions import actions_in_scopes, make_key_bindings_of_scopes
from app.keys.keymap import effective_keys
from widgets.common.input_order import PossiblyPastedKey
from widgets.common.key_hints import KeyHint, WrappedKeyHints
from widgets.common.workbench_bars import HasChangingKeyTitles

TransformPaste = Callable[[str], Awaitable[str]]
"""Returns the text to insert for a pasted text."""


async def _keep_paste(text: str) -> str:
    return text


class WritingFieldTextArea(TextArea, HasChangingKeyTitles):
    """The text area of a `WritingField`; posts a message when the user presses the send or the close key."""

    BINDINGS: ClassVar[list[BindingType]] = [*make_key_bindings_of_scopes("writing")]

    class SendPressed(Message):
        """The user wants to send the text."""

    class ClosePressed(Message):
        """The user wants to close the field."""

    def __init__(self, send_title: str) -> None:
        super().__init__(soft_wrap=True, show_line_numbers=False)
        self._send_title = send_title
        self.pasted: TransformPaste = _keep_paste

    def title_of(self, action: str) -> str:
        """Return a special title of a key; empty for the default title of the action."""
        return self._send_title if action == "send" else ""

    async def on_key(self, event: events.Key) -> None:
        """Send on Enter before the text area handles it; an Enter that arrived together with other keys is text."""
        if event.key != "enter" or isinstance(event, PossiblyPastedKey):
            return
        bound = self.screen.active_bindings.get(event.key)
        if bound is not None and bound.node is self:
            event.stop()
            event.prevent_default()
            await self.app.run_action(bound.binding.action, bound.node)

    async def on_paste(self, event: events.Paste) -> None:
        """Insert the transformed paste; keys that are typed during the transformation come after it."""
        event.prevent_default()
        event.stop()
        text = (await self.pasted(event.text)).replace("\r\n", "\n").replace("\r", "\n")
        result = self.replace(text, *self.selection, maintain_selection_offset=False)
        self.move_cursor(result.end_location)

    def action_send(self) -> None:
        self.post_message(self.SendPressed())

    def action_newline(self) -> None:
        self.replace("\n", *self.selection, maintain_selection_offset=False)

    def action_close(self) -> None:
        self.post_message(self.ClosePressed())


class WritingField(Vertical):
    """A titled text area, with the keys that send the text and close the field.

    Args:
        verb: The action of the send key, for the hint.
    """

    DEFAULT_CSS = """
    WritingField {
        height: auto;
        max-height: 60%;
        display: none;
        background: $surface;
        padding: 0 1;

        &.shown { display: block; }
        .writing--title { height: auto; text-style: bold; color: $foreground; }
        .writing--context { height: auto; max-height: 6; color: $foreground 65%; }
        WrappedKeyHints { padding: 0; visibility: hidden; }
        /* The keys work only in the field. */
        &:focus-within WrappedKeyHints { visibility: visible; }
        &:focus-within { height: auto; }
        WritingFieldTextArea {
            height: auto;
            min-height: 4;
            max-height: 30vh;
            border: none;
            padding: 0;
            background: $boost;
        }
        WritingFieldTextArea:focus { border: none; }
    }
    """

    @dataclass
    class FieldMessage(Message):
        """A message about the text of a field."""

        field: "WritingField"
        subject: str

        @property
        def control(self) -> "WritingField":
            return self.field

    @dataclass
    class Typed(FieldMessage):
        """The text has changed."""

        text: str

    @dataclass
    class Sent(FieldMessage):
        """The user sent the text."""

        text: str

    @dataclass
    class Closed(FieldMessage):
        """The user closed the field; the receiver keeps the draft."""

        draft: str

    def __init__(self, verb: str, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._verb = verb
        self.subject = ""
        """Key of the item that the text is about."""

    def compose(self) -> ComposeResult:
        yield Static(classes="writing--title", markup=False)
        yield Static(classes="writing--context", markup=False)
        yield WritingFieldTextArea(self._verb.split(" ", 1)[0].capitalize())
        yield WrappedKeyHints(self._key_hints({}))

    def set_paste_handler(self, transform_paste: TransformPaste) -> None:
        """Set the function that returns the text to insert for a paste."""
        self.query_one(WritingFieldTextArea).pasted = transform_paste

    def override_keys(self, keys: Mapping[str, str]) -> None:
        """Override the keys in the hints, by action id."""
        self.query_one(WrappedKeyHints).hints = self._key_hints(keys)
        self.query_one(WrappedKeyHints).refresh(layout=True)

    def _key_hints(self, keys: Mapping[str, str]) -> tuple[KeyHint, ...]:
        labels = {"send": self._verb, "newline": "new line", "close": "close, the draft is kept"}
        return tuple(
            KeyHint(effective_keys(action, keys)[0], labels[action.handler])
            for action in actions_in_scopes("writing")
            if action.handler in labels
        )

    @property
    def is_open(self) -> bool:
        """Return whether the field is shown."""
        return self.has_class("shown")

    def open(self, subject: str, title: Content, draft: str = "", context: Sequence[Content] = ()) -> None:
        """Show the field with a draft, and focus it."""
        self.subject = subject
        self.set_title(title)
        lines = self.query_one(".writing--context", Static)
        lines.update(Content("\n").join(context))
        lines.display = bool(context)
        self.set_text(draft)
        self.add_class("shown")
        self.screen.set_focus(self.query_one(WritingFieldTextArea))

    def set_text(self, text: str) -> None:
        """Replace the text, and put the cursor at its end."""
        area = self.query_one(WritingFieldTextArea)
        area.text = text
        area.move_cursor(area.document.end)

    def set_title(self, title: Content) -> None:
        """Set the title above the text."""
        self.query_one(".writing--title", Static).update(title)

    def close(self) -> str:
        """Hide the field and return its text."""
        draft = self.query_one(WritingFieldTextArea).text
        self.remove_class("shown")
        return draft

    @on(TextArea.Changed)
    def _post_typed(self, event: TextArea.Changed) -> None:
        event.stop()
        if self.is_open:
            self.post_message(self.Typed(self, self.subject, event.text_area.text))

    @on(WritingFieldTextArea.SendPressed)
    def _post_sent(self, event: WritingFieldTextArea.SendPressed) -> None:
        event.stop()
        self.post_message(self.Sent(self, self.subject, self.close()))

    @on(WritingFieldTextArea.ClosePressed)
    def _post_closed(self, event: WritingFieldTextArea.ClosePressed) -> None:
        event.stop()
        self.post_message(self.Closed(self, self.subject, self.close()))
