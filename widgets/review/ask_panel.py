"""The panel below the diff for side questions and their answers; nothing typed in it decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from app.conversation.events import ThreadAnchor
from app.keys.keymap import first_key
from app.keys.registry import bindings
from widgets.chat.composer_field import Editor
from widgets.chat.entries.entry_base import PutEntry, TranscriptEntry
from widgets.chat.folded_pastes import ComposerDraft
from widgets.chat.transcript import Transcript
from widgets.common.containers import Column
from widgets.review.review_wording import safe

_SLICE = 0.004
"""Seconds for the keyboard between two slices of layout that did not fit into one."""


@dataclass(frozen=True, slots=True)
class PanelTopic:
    """What a side question is about."""

    place: ThreadAnchor
    words: str
    """`hunk 2 of P7 in a.py`."""
    picked: str = ""
    """The lines that the user picked, with their signs."""


class Answers(Transcript, can_focus=False):
    """The side thread; it scrolls while the field has the focus."""


class AskPanel(Column):
    """A side thread about a hunk, and the field for the next question."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("asking")]
    DEFAULT_CSS = """
    AskPanel {
        display: none;
        height: auto;
        background: $surface;
        &.shown { display: block; }
        &.-thread { height: 1fr; min-height: 8; }
        Answers { display: none; height: 1fr; background: $surface; }
        &.-thread Answers { display: block; }
        .asking--title {
            height: 1;
            padding: 0 1;
            background: $boost;
            text-wrap: nowrap;
            text-overflow: ellipsis;
        }
        /* Textual looks for what has to be drawn anew only where the pane itself has such a rule. */
        &:focus-within { background: $surface; }
        &:focus-within .asking--title { background: $primary 30%; }
        &:ansi:focus-within .asking--title { background: ansi_blue; color: ansi_bright_white; }
        Editor { padding: 0 1; max-height: 5; background: $boost; }
        Editor:focus { background: $foreground 10%; }
    }
    """

    @dataclass
    class Asked(Message):
        """The user has asked."""

        topic: PanelTopic
        text: str

    @dataclass
    class Stopped(Message):
        """The user does not want to wait for the answer."""

        place: ThreadAnchor

    @dataclass
    class Closed(Message):
        """The user is done with it."""

    @dataclass
    class FeedbackWanted(Message):
        """What was asked and answered last is to become feedback."""

        place: ThreadAnchor

    def __init__(self) -> None:
        super().__init__(id="asking")
        self.topic: PanelTopic | None = None
        """None while it is closed."""
        self._keys: Mapping[str, str] = {}
        self._editor = Editor(self._steer)
        self._answers = Answers()
        self._drafts: dict[ThreadAnchor, ComposerDraft] = {}
        """What is being written, by thread."""
        self._waits = self._answered = False

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield Static(classes="asking--title", markup=False)
        yield self._answers
        yield self._editor

    @property
    def is_open(self) -> bool:
        """Whether it is shown."""
        return self.topic is not None

    @property
    def has_thread(self) -> bool:
        """Whether something was asked there, which takes more room."""
        return self.has_class("-thread")

    @property
    def has_keys(self) -> bool:
        """Whether the user writes in it."""
        return self.is_open and self.screen.focused is self._editor

    def set_keys(self, keys: Mapping[str, str]) -> None:
        """Override the keys that are named, by action id."""
        self._keys = keys
        self._draw_title()

    def open(self, topic: PanelTopic, entries: Sequence[TranscriptEntry], *, waits: bool) -> None:
        """Show a thread and let the user write; a draft that was left there is back."""
        self._put_aside()
        self.topic = topic
        self._editor.show(self._drafts.pop(topic.place, ComposerDraft("")))
        self._editor.placeholder = Content("what calls this? why? is that tested?")
        layout = self._answers.new_layout()
        for entry in entries:
            layout.apply(PutEntry(entry))
        self._answers.show_layout(layout)
        self._take_state(entries, waits=waits)
        self.add_class("shown")
        self.screen.set_focus(self._editor)

    def show(self, entries: Sequence[TranscriptEntry], *, waits: bool) -> None:
        """Show the thread as it is now."""
        shown = {entry.key: entry for entry in self._answers.entries}
        changed = [PutEntry(entry) for entry in entries if shown.get(entry.key) != entry]
        keys = [entry.key for entry in entries]
        if list(shown) != keys[: len(shown)]:
            # Something of it is void.
            layout = self._answers.new_layout()
            for entry in entries:
                layout.apply(PutEntry(entry))
            self._answers.show_layout(layout)
        elif not self._answers.apply(changed):
            self._lay_out_later()
        self._take_state(entries, waits=waits)

    def close(self) -> None:
        """Put it away; what is being written stays with its thread."""
        self._put_aside()
        self.topic = None
        self.remove_class("shown")

    def restore_text(self, place: ThreadAnchor, text: str) -> None:
        """Put the text of a failed question back, unless another is being written."""
        if self.topic is not None and self.topic.place == place and not self._editor.draft.text.strip():
            self._editor.show(ComposerDraft(text))
        elif place not in self._drafts:
            self._drafts[place] = ComposerDraft(text)

    def follow_focus(self) -> None:
        """Say what the keys do, which depends on whether the user writes here."""
        self._draw_title()

    def _put_aside(self) -> None:
        if self.topic is not None and self._editor.draft.text.strip():
            self._drafts[self.topic.place] = self._editor.draft

    def _take_state(self, entries: Sequence[TranscriptEntry], *, waits: bool) -> None:
        self.set_class(bool(entries), "-thread")
        answered = any(entry.key.startswith("answer") for entry in entries)
        if (waits, answered) != (self._waits, self._answered):
            self._waits, self._answered = waits, answered
            self.refresh_bindings()
        self._draw_title()

    def _draw_title(self) -> None:
        if self.topic is None or not self.is_mounted:
            return
        picked = len(self.topic.picked.split("\n")) if self.topic.picked else 0
        lines = f", {picked} picked line{'s' * (picked != 1)}" if picked else ""
        keys = "decides nothing"
        if not self.has_keys:
            keys = "Esc closes it"
        elif self._waits:
            keys = f"{first_key('asking.close', self._keys)} stops the answer"
        about = safe(self.topic.words, "bold $text-accent")
        title = Content.assemble("Ask about ", about, lines, "  ", (keys, "$foreground 65%"))
        self.query_one(".asking--title", Static).update(title)

    def _lay_out_later(self) -> None:
        def go_on() -> None:
            if self.is_mounted and not self._answers.continue_layout():
                self._lay_out_later()

        self.set_timer(_SLICE, go_on)

    # Keys

    def title_of(self, action: str) -> str:
        """What a key means now, if that is not what its action is called."""
        return "Stop" if action == "close" and self._waits else ""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Feedback needs an answer."""
        return self._answered and not self._waits if action == "make_feedback" else True

    def _steer(self, key: str) -> bool:
        """The thread takes the keys of the field that turn pages."""
        if key not in ("page_up", "page_down") or not self.has_thread:
            return False
        getattr(self._answers, f"action_{key}")()
        return True

    def action_send(self) -> None:
        """Ask."""
        if self.topic is None or not (text := self._editor.draft.text.strip()) or self._waits:
            return
        self._editor.show(ComposerDraft(""))
        self.post_message(self.Asked(self.topic, text))

    def action_newline(self) -> None:
        """Start a new line."""
        start, end = self._editor.selection
        self._editor.replace("\n", start, end, maintain_selection_offset=False)

    def action_undo(self) -> None:
        """Take back what was typed last."""
        self._editor.undo()

    def action_close(self) -> None:
        """Stop the answer that is awaited; else go away."""
        if self.topic is not None and self._waits:
            self.post_message(self.Stopped(self.topic.place))
        else:
            self.post_message(self.Closed())

    def action_make_feedback(self) -> None:
        """Make question and answer the user's feedback, to be edited."""
        if self.topic is not None:
            self.post_message(self.FeedbackWanted(self.topic.place))

    def on_click(self, event: events.Click) -> None:
        """A click anywhere in it leads to the field."""
        if self.is_open and not self.has_keys:
            event.stop()
            self.screen.set_focus(self._editor)
