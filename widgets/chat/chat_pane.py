"""The chat pane: transcript, status line and open question, updated by a session."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from textual import events, on
from textual.app import ComposeResult
from textual.message import Message
from textual.worker import Worker

from app.agent.updates import (
    CallStreamed,
    CommandOutput,
    EventRecorded,
    PhaseChanged,
    QueueChanged,
    ReasoningStreamed,
    SessionPhase,
    SideAnswerDiscarded,
    SideAnswerStreamed,
    TextStreamed,
    Update,
    merge_updates,
)
from app.conversation.events import Event, TurnEnded
from app.conversation.log import skip_to_first_turn
from app.images.mentions import Mention
from widgets.chat.chat_bars import QuestionBar, TodoBar, TurnStatusLine
from widgets.chat.composer import PLACEHOLDER, Composer
from widgets.chat.entries.entry_base import EntryAddedOrReplaced, EntryChange
from widgets.chat.entry_builder import EntryBuilder, entry_key_of_event
from widgets.chat.markdown.markdown_document import preload_parsers
from widgets.chat.transcript import Transcript
from widgets.common.containers import Column
from widgets.common.input_order import is_handling_input

_INTERVAL = 1 / 30
"""Minimum seconds between two refreshes."""
KEY_FIRST_SECONDS = 0.01
"""Seconds that streamed text waits after a key, so that the key is painted first."""
_LONGEST_PAUSE = 0.1
"""Maximum seconds of this delay while the user types without a pause."""
_FLOOD, _EBB = 40_000, 20_000
"""Characters per second from which a flood begins, and below which it ends; `_FLOOD` is twice the rate of the fastest
models. A flood is drawn less often, because no user can read it. It ends at the lower rate, because text arrives more
slowly while other programs use the CPU.
"""
_LEAST = 0.05
"""Minimum seconds over which the rate is computed: one chunk right after a refresh is not a flood."""
_REST, _FLOOD_REST = 1.0, 16.0
"""Pause after a refresh, as a multiple of its duration; leaves time to read updates and for other programs.
"""
_LONGEST_REST, _LONGEST_FLOOD_REST = 0.1, 0.4
"""Maximum seconds between two refreshes."""


class RefreshTimer:
    """Decides when the streamed text is drawn next.

    Args:
        clock: Returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting = 0
        """Characters received since the last refresh."""
        self._written = 0
        """Characters of the tool call that the model is writing."""
        self._taken = -math.inf
        self._flooded = False
        """Whether the last refresh was during a flood."""
        self._picture_took = 0.0
        self._typed = -math.inf

    def add_characters(self, characters: int) -> None:
        """Count streamed characters."""
        self._waiting += characters

    def set_call_length(self, characters: int) -> None:
        """Set the length of the tool call that the model is writing; a smaller number means a new call."""
        self._waiting += characters - self._written if characters >= self._written else characters
        self._written = characters

    def start_refresh(self) -> None:
        """Record that a refresh with the collected text starts."""
        self._flooded = self.is_flooded
        self._waiting = 0
        self._taken = self._clock()

    def end_refresh(self) -> None:
        """Record that the refresh is on the screen."""
        self._picture_took = self._clock() - self._taken

    def record_key_press(self) -> None:
        """Record that the user pressed a key."""
        self._typed = self._clock()

    @property
    def is_flooded(self) -> bool:
        """Return whether text arrives faster than anyone can read."""
        return self._waiting > (_EBB if self._flooded else _FLOOD) * max(_LEAST, self._clock() - self._taken)

    def should_yield_to_keys(self, *, is_handling_key: bool) -> bool:
        """Return whether the refresh must wait `KEY_FIRST_SECONDS` for keys.

        Args:
            is_handling_key: Whether the app is handling a key now.
        """
        now = self._clock()
        typing = is_handling_key or now - self._typed < KEY_FIRST_SECONDS
        return typing and now - self._taken < _LONGEST_PAUSE

    @property
    def seconds_left(self) -> float:
        """Return the seconds until the next check; 0 if a refresh is due."""
        share, longest = (_FLOOD_REST, _LONGEST_FLOOD_REST) if self.is_flooded else (_REST, _LONGEST_REST)
        between = max(_INTERVAL, min(self._picture_took * (1 + share), longest))
        # A burst is not a flood, so check again soon.
        return min(max(0.0, self._taken + between - self._clock()), _INTERVAL)


_SLICE_INTERVAL = 0.004
"""Seconds between two steps of a long layout, for key presses."""
_END = 300
"""Events of a long session that are shown at once; the earlier ones follow."""
_SLICE_EVENTS = 50
"""Events that are processed between two checks for keys, in about half a millisecond."""


class ChatPane(Column):
    """Shows a session and receives the user's messages to it; independent of how the session works.

    Args:
        composer: The composer for this chat; its parent is the chat column.
    """

    DEFAULT_CSS = """
    ChatPane {
        height: 1fr;
        width: 1fr;
        background: $background;
    }
    """

    @dataclass
    class QuestionAnswered(Message):
        """The user has answered the model's question."""

        call: str
        text: str
        mentions: tuple[Mention, ...] = ()

    class TurnFinished(Message):
        """The turn is over: the model has answered, asked, staged or failed."""

    def __init__(self, composer: Composer) -> None:
        super().__init__()
        self.transcript = Transcript()
        self.todo_bar = TodoBar()
        self.status_line = TurnStatusLine()
        self.question_bar = QuestionBar()
        self.composer = composer
        self.composer.steer_elsewhere = self.question_bar.handle_option_key
        self._entry_builder = EntryBuilder()
        self._shown_from: Event | None = None
        """The first shown event of a log."""
        self._filling: list[Update] | None = None
        """Updates that arrive while a long log is laid out; None if no layout runs."""
        self._sought = ""
        """Key of the entry to scroll to when the whole log is shown."""
        self._streamed: list[Update] = []
        self._pace = RefreshTimer()
        self._flush_due: asyncio.TimerHandle | None = None
        self._reader: Worker[None] | None = None
        """Loads the Markdown parsers."""

    def compose(self) -> ComposeResult:
        yield self.transcript
        yield self.todo_bar
        yield self.status_line
        yield self.question_bar

    @property
    def has_question(self) -> bool:
        """Return whether the model waits for the answer to a question."""
        return self._entry_builder.open_question is not None

    @property
    def has_more_to_show(self) -> bool:
        """Return whether changes wait that will be shown soon."""
        return self._flush_due is not None or self._filling is not None

    def focus_composer(self) -> None:
        """Focus the composer."""
        self.screen.set_focus(self.composer.editor)

    # Session

    def show_session(self, log: Sequence[Event]) -> None:
        """Show a session: the end of its log at once, the rest of a long log in the background.

        If its end is already shown, the visible part does not move.
        """
        self._stop_flushing()
        self._take_streamed()
        self._filling, self._sought = None, ""
        self.status_line.show_phase(SessionPhase.IDLE)
        self.composer.set_queued_messages(())
        if not self._shows_end_of(log):
            end = log if len(log) <= _END else skip_to_first_turn(log[-_END:])
            self._shown_from = end[0] if end else None
            self._entry_builder, layout = EntryBuilder(), self.transcript.make_empty_layout()
            for change in self._entry_builder.changes_of_log(end):
                layout.apply_change(change)
            self.transcript.show_layout(layout)
            self._after_events()
            if len(end) == len(log):
                return
        self._filling = []
        fill: Callable[[], Awaitable[None]] = partial(self._fill, tuple(log), self._filling)
        self.run_worker(fill, group="fill", exclusive=True, description="fill")

    async def show_event(self, log: Sequence[Event], event_id: int) -> None:
        """Scroll to an event of the open log when it is shown."""
        self._sought = await asyncio.to_thread(entry_key_of_event, tuple(log), event_id)
        if self._filling is None:
            self._go_to_sought()

    def _go_to_sought(self) -> None:
        if self._sought:
            self.transcript.go_to_entry(self._sought)
            self._sought = ""

    def _shows_end_of(self, log: Sequence[Event]) -> bool:
        """Return whether the end of this log is shown."""
        first = self._shown_from
        return first is not None and first == next((event for event in reversed(log) if event.id <= first.id), None)

    async def _fill(self, log: Sequence[Event], meanwhile: list[Update]) -> None:
        """Show the whole log above its end; `meanwhile` collects the updates that arrive during this."""
        builder, layout = EntryBuilder(), self.transcript.make_empty_layout()
        for at in range(0, len(log), _SLICE_EVENTS):
            for change in builder.changes_of_log(log[at : at + _SLICE_EVENTS]):
                layout.apply_change(change)
            await asyncio.sleep(0)
        if self._filling is not meanwhile:
            return
        self.show_streamed_text()
        for update in merge_updates(meanwhile):
            for change in builder.changes_of_update(update):
                layout.apply_change(change)
        self._filling = None
        self._shown_from, self._entry_builder = log[0], builder
        self.transcript.extend_layout(layout)
        self._after_events()
        self._go_to_sought()

    def apply_update(self, update: Update) -> None:
        """Apply an update of the running session; streamed text is drawn at most thirty times per second."""
        if self._filling is not None:
            self._filling.append(update)
        match update:
            case TextStreamed(text) | ReasoningStreamed(text) | CommandOutput(text=text):
                self._pace.add_characters(len(text))
                self._collect(update)
            case CallStreamed(characters=so_far):
                self._pace.set_call_length(so_far)
                self._collect(update)
            case PhaseChanged(phase, detail, until):
                if phase is SessionPhase.REQUESTING:
                    self._load_reader()
                self.status_line.show_phase(phase, detail, until)
            case QueueChanged(texts):
                self.composer.set_queued_messages(texts)
            case SideAnswerStreamed() | SideAnswerDiscarded():
                pass
            case EventRecorded(event):
                self.show_streamed_text()
                self._show(self._entry_builder.changes_of_event(event))
                self._after_events()
                if isinstance(event, TurnEnded):
                    self._show_end(event)
                    self.post_message(self.TurnFinished())
            case _:
                self.show_streamed_text()
                self._show(self._entry_builder.changes_of_update(update))

    def _after_events(self) -> None:
        self.todo_bar.show_todos(self._entry_builder.todos)
        question = self._entry_builder.open_question
        self.question_bar.show_question(question)
        if question is None:
            self.composer.set_placeholder(PLACEHOLDER)
        elif question.options:
            self.composer.set_placeholder(f"Press 1–{len(question.options)}, or write your own answer")
        else:
            self.composer.set_placeholder("Write your answer")

    def _show_end(self, event: TurnEnded) -> None:
        match event.stopped:
            case "aborted":
                self.status_line.show_turn_end("Interrupted", "goes on")
            case "failed":
                self.status_line.show_turn_end(event.message or "The request failed.", "sends it again")
            case "answer" if event.message:
                self.status_line.show_turn_end(event.message, "goes on")
            case _:
                self.status_line.show_turn_end("")

    # Streaming

    def _load_reader(self) -> None:
        """Load the Markdown parsers once, in a thread, because an answer may come soon."""
        if self._reader is None:
            self._reader = self.run_worker(
                asyncio.to_thread(preload_parsers), exit_on_error=False, description="preload"
            )

    def _collect(self, update: Update) -> None:
        # Thousands of updates may arrive per second, so only store them here.
        self._streamed.append(update)
        if self._flush_due is None:
            self._flush_soon(self._pace.seconds_left)

    def _take_streamed(self) -> list[Update]:
        taken, self._streamed = merge_updates(self._streamed), []
        self._pace.start_refresh()
        return taken

    def _flush_and_go_on(self) -> None:
        self._flush_due = None
        loading = self._reader is not None and not self._reader.is_finished
        if loading or self._pace.should_yield_to_keys(is_handling_key=is_handling_input(self.app)):
            self._flush_soon(KEY_FIRST_SECONDS)
        elif not (rest := self._pace.seconds_left):
            self.show_streamed_text()
        elif not self.transcript.continue_layout():
            self._flush_soon(_SLICE_INTERVAL)
        elif self._streamed:
            self._flush_soon(rest)

    def show_streamed_text(self) -> None:
        """Show streamed text, or continue an unfinished layout."""
        if updates := self._take_streamed():
            self.status_line.add_characters(sum(len(one.text) for one in updates if isinstance(one, _SPOKEN)))
            changes = [change for update in updates for change in self._entry_builder.changes_of_update(update)]
            if self._show(changes, streams=True):
                self.call_after_refresh(self._pace.end_refresh)
        elif not self.transcript.continue_layout():
            self._flush_soon(_SLICE_INTERVAL)

    def _show(self, changes: list[EntryChange], *, streams: bool = False) -> bool:
        # If an entry has several values, lay out only the last one.
        last = {change.entry.key: change for change in changes if isinstance(change, EntryAddedOrReplaced)}
        shown = [
            change
            for change in changes
            if not isinstance(change, EntryAddedOrReplaced) or last[change.entry.key] is change
        ]
        done = self.transcript.apply_changes(shown, is_streaming=streams)
        if not done:
            self._flush_soon(_SLICE_INTERVAL)
        return done

    def _flush_soon(self, delay: float) -> None:
        # A one-shot timer of Textual is lost if the process is blocked for longer than its delay when it starts. Then
        # no text would ever be shown again.
        if self._flush_due is None and self.is_mounted:
            loop = asyncio.get_running_loop()
            self._flush_due = loop.call_later(delay, self.call_next, self._flush_and_go_on)

    @on(events.Unmount)
    def _stop_flushing(self) -> None:
        if self._flush_due is not None:
            self._flush_due.cancel()
            self._flush_due = None

    # Handlers

    def handle_submitted(self, event: Composer.Submitted) -> None:
        """Answer an open question with the message; otherwise the message goes on to the app."""
        self.transcript.follow_end()
        question = self._entry_builder.open_question
        if question is not None:
            event.stop()
            self.call_next(self._answer, question.call, event.text, event.mentions)

    def _answer(self, call: str, text: str, mentions: tuple[Mention, ...]) -> None:
        # Called in a separate step: a message bubbles only up to the widget whose handler posts it.
        self.post_message(self.QuestionAnswered(call, text, mentions))

    def record_typing(self) -> None:
        """Record the time of a key, and load the parsers, because the user may send a message soon."""
        self._pace.record_key_press()
        if not self.composer.is_empty:
            self._load_reader()

    @on(QuestionBar.OptionPicked)
    def answer_with_option(self, event: QuestionBar.OptionPicked) -> None:
        """Send the selected option as the answer."""
        event.stop()
        if (question := self.question_bar.question) is not None:
            self.transcript.follow_end()
            self.post_message(self.QuestionAnswered(question.call, event.option))

    @on(Transcript.FollowChanged)
    def show_following(self, event: Transcript.FollowChanged) -> None:
        """Show whether there is more text below."""
        event.stop()
        self.status_line.show_following(event.following, event.unseen)

    @on(TurnStatusLine.NewestWanted)
    def show_newest(self, event: TurnStatusLine.NewestWanted) -> None:
        """Scroll to the end of the transcript."""
        event.stop()
        self.transcript.follow_end()


_SPOKEN = (TextStreamed, ReasoningStreamed)
