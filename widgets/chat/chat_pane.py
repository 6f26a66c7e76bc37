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
    CommandOutputStreamed,
    EventRecorded,
    PhaseChanged,
    QueuedMessagesChanged,
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
from widgets.chat.chat_bars import QuestionOptionsBar, TodoBar, TurnStatusLine
from widgets.chat.composer import PLACEHOLDER, Composer
from widgets.chat.entries.entry_base import EntryAddedOrReplaced, EntryChange
from widgets.chat.entry_builder import EntryBuilder, entry_key_of_event
from widgets.chat.markdown.markdown_document import preload_markdown_and_code_parsers
from widgets.chat.transcript import Transcript
from widgets.common.containers import Column
from widgets.common.input_order import is_handling_input

_MIN_REFRESH_SECONDS = 1 / 30
"""Minimum seconds between two refreshes."""
KEY_FIRST_SECONDS = 0.01
"""Seconds that streamed text waits after a key, so that the key is painted first."""
_MAX_TYPING_DELAY_SECONDS = 0.1
"""Maximum seconds of this delay while the user types without a pause."""
_FLOOD_START_RATE, _FLOOD_END_RATE = 40_000, 20_000
"""Characters per second at which a flood begins, and below which it ends; the first is twice the rate of the fastest
models. A flood is drawn less often, because no user can read it. It ends at the lower rate, because text arrives more
slowly while other programs use the CPU.
"""
_MIN_RATE_SECONDS = 0.05
"""Minimum seconds over which the rate is computed: one chunk right after a refresh is not a flood."""
_REST_FACTOR, _FLOOD_REST_FACTOR = 1.0, 16.0
"""Pause after a refresh, as a multiple of its duration; leaves time to read updates and for other programs.
"""
_MAX_REST_SECONDS, _MAX_FLOOD_REST_SECONDS = 0.1, 0.4
"""Maximum seconds between two refreshes."""


class StreamRefreshPacer:
    """Decides when the streamed text is drawn next.

    Args:
        clock: Returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting_characters = 0
        """Characters received since the last refresh."""
        self._call_characters = 0
        """Characters of the tool call that the model is writing."""
        self._refreshed_at = -math.inf
        self._was_flooded = False
        """Whether the last refresh was during a flood."""
        self._refresh_seconds = 0.0
        self._key_pressed_at = -math.inf

    def add_characters(self, characters: int) -> None:
        """Count streamed characters."""
        self._waiting_characters += characters

    def set_tool_call_length(self, characters: int) -> None:
        """Set the length of the tool call that the model is writing; a smaller number means a new call."""
        is_same_call = characters >= self._call_characters
        self._waiting_characters += characters - self._call_characters if is_same_call else characters
        self._call_characters = characters

    def start_refresh(self) -> None:
        """Record that a refresh with the collected text starts."""
        self._was_flooded = self.is_flooded
        self._waiting_characters = 0
        self._refreshed_at = self._clock()

    def end_refresh(self) -> None:
        """Record that the refresh is on the screen."""
        self._refresh_seconds = self._clock() - self._refreshed_at

    def record_key_press(self) -> None:
        """Record that the user pressed a key."""
        self._key_pressed_at = self._clock()

    @property
    def is_flooded(self) -> bool:
        """Return whether text arrives faster than anyone can read."""
        return self._waiting_characters > (_FLOOD_END_RATE if self._was_flooded else _FLOOD_START_RATE) * max(
            _MIN_RATE_SECONDS, self._clock() - self._refreshed_at
        )

    def should_yield_to_keys(self, *, is_handling_key: bool) -> bool:
        """Return whether the refresh must wait `KEY_FIRST_SECONDS` for keys.

        Args:
            is_handling_key: Whether the app is handling a key now.
        """
        now = self._clock()
        is_typing = is_handling_key or now - self._key_pressed_at < KEY_FIRST_SECONDS
        return is_typing and now - self._refreshed_at < _MAX_TYPING_DELAY_SECONDS

    @property
    def seconds_left(self) -> float:
        """Return the seconds until the next check; 0 if a refresh is due."""
        rest_factor, max_rest_seconds = (
            (_FLOOD_REST_FACTOR, _MAX_FLOOD_REST_SECONDS) if self.is_flooded else (_REST_FACTOR, _MAX_REST_SECONDS)
        )
        between = max(_MIN_REFRESH_SECONDS, min(self._refresh_seconds * (1 + rest_factor), max_rest_seconds))
        # A burst is not a flood, so check again soon.
        return min(max(0.0, self._refreshed_at + between - self._clock()), _MIN_REFRESH_SECONDS)


_LAYOUT_PAUSE_SECONDS = 0.004
"""Seconds between two steps of a long layout, for key presses."""
_MAX_EVENTS_AT_ONCE = 300
"""Events of a long session that are shown at once; the earlier ones follow."""
_EVENTS_PER_SLICE = 50
"""Events that are processed between two checks for keys, in about half a millisecond."""


class ChatPane(Column):
    """Shows a session and receives the user's messages to it; independent of how the session works.

    Args:
        composer: The composer for this chat; its parent is the chat column.
    """

    DEFAULT_CSS = "ChatPane { height: 1fr; width: 1fr; background: $background; }"

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
        self.question_bar = QuestionOptionsBar()
        self.composer = composer
        self.composer.handle_key_when_empty = self.question_bar.handle_option_key
        self._entry_builder = EntryBuilder()
        self._first_shown_event: Event | None = None
        """The first shown event of a log."""
        self._updates_during_fill: list[Update] | None = None
        """Updates that arrive while a long log is laid out; None if no layout runs."""
        self._target_entry_key = ""
        """Key of the entry to scroll to when the whole log is shown."""
        self._streamed_updates: list[Update] = []
        self._refresh_pacer = StreamRefreshPacer()
        self._flush_timer: asyncio.TimerHandle | None = None
        self._parser_loader: Worker[None] | None = None
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
        return self._flush_timer is not None or self._updates_during_fill is not None

    def focus_composer(self) -> None:
        """Focus the composer."""
        self.screen.set_focus(self.composer.editor)

    # Session

    def show_session(self, log: Sequence[Event]) -> None:
        """Show a session: the end of its log at once, the rest of a long log in the background.

        If its end is already shown, the visible part does not move.
        """
        self._stop_flushing()
        self._pop_streamed()
        self._updates_during_fill, self._target_entry_key = None, ""
        self.status_line.show_phase(SessionPhase.IDLE)
        self.composer.set_queued_messages(())
        if not self._is_end_shown(log):
            end = log if len(log) <= _MAX_EVENTS_AT_ONCE else skip_to_first_turn(log[-_MAX_EVENTS_AT_ONCE:])
            self._first_shown_event = end[0] if end else None
            self._entry_builder, layout = EntryBuilder(), self.transcript.make_empty_layout()
            for change in self._entry_builder.changes_of_log(end):
                layout.apply_change(change)
            self.transcript.show_layout(layout)
            self._update_question_and_todos()
            if len(end) == len(log):
                return
        self._updates_during_fill = []
        fill: Callable[[], Awaitable[None]] = partial(self._show_whole_log, tuple(log), self._updates_during_fill)
        self.run_worker(fill, group="fill", exclusive=True, description="fill")

    async def scroll_to_event(self, log: Sequence[Event], event_id: int) -> None:
        """Scroll to an event of the open log when it is shown."""
        self._target_entry_key = await asyncio.to_thread(entry_key_of_event, tuple(log), event_id)
        if self._updates_during_fill is None:
            self._scroll_to_target_entry()

    def _scroll_to_target_entry(self) -> None:
        if self._target_entry_key:
            self.transcript.go_to_entry(self._target_entry_key)
            self._target_entry_key = ""

    def _is_end_shown(self, log: Sequence[Event]) -> bool:
        """Return whether the end of this log is shown."""
        first = self._first_shown_event
        return first is not None and first == next((event for event in reversed(log) if event.id <= first.id), None)

    async def _show_whole_log(self, log: Sequence[Event], meanwhile: list[Update]) -> None:
        """Show the whole log above its end; `meanwhile` collects the updates that arrive during this."""
        builder, layout = EntryBuilder(), self.transcript.make_empty_layout()
        for first in range(0, len(log), _EVENTS_PER_SLICE):
            for change in builder.changes_of_log(log[first : first + _EVENTS_PER_SLICE]):
                layout.apply_change(change)
            await asyncio.sleep(0)
        if self._updates_during_fill is not meanwhile:
            return
        self.show_streamed_text()
        for update in merge_updates(meanwhile):
            for change in builder.changes_of_update(update):
                layout.apply_change(change)
        self._updates_during_fill = None
        self._first_shown_event, self._entry_builder = log[0], builder
        self.transcript.extend_layout(layout)
        self._update_question_and_todos()
        self._scroll_to_target_entry()

    def apply_update(self, update: Update) -> None:
        """Apply an update of the running session; streamed text is drawn at most thirty times per second."""
        if self._updates_during_fill is not None:
            self._updates_during_fill.append(update)
        match update:
            case TextStreamed(text) | ReasoningStreamed(text) | CommandOutputStreamed(text=text):
                self._refresh_pacer.add_characters(len(text))
                self._collect_streamed(update)
            case CallStreamed(characters=so_far):
                self._refresh_pacer.set_tool_call_length(so_far)
                self._collect_streamed(update)
            case PhaseChanged(phase, detail, until):
                if phase is SessionPhase.REQUESTING:
                    self._load_parsers()
                self.status_line.show_phase(phase, detail, until)
            case QueuedMessagesChanged(texts):
                self.composer.set_queued_messages(texts)
            case SideAnswerStreamed() | SideAnswerDiscarded():
                pass
            case EventRecorded(event):
                self.show_streamed_text()
                self._apply_changes(self._entry_builder.changes_of_event(event))
                self._update_question_and_todos()
                if isinstance(event, TurnEnded):
                    self._show_turn_end(event)
                    self.post_message(self.TurnFinished())
            case _:
                self.show_streamed_text()
                self._apply_changes(self._entry_builder.changes_of_update(update))

    def _update_question_and_todos(self) -> None:
        self.todo_bar.show_todos(self._entry_builder.todos)
        question = self._entry_builder.open_question
        self.question_bar.show_question(question)
        self.composer.set_options_open(question is not None and bool(question.options))
        if question is None:
            self.composer.set_placeholder(PLACEHOLDER)
        elif question.options:
            self.composer.set_placeholder(f"Press 1–{len(question.options)}, or write your own answer")
        else:
            self.composer.set_placeholder("Write your answer")

    def _show_turn_end(self, event: TurnEnded) -> None:
        match event.stopped:
            case "aborted":
                self.status_line.show_turn_end("WaitInterrupted", "goes on")
            case "failed":
                self.status_line.show_turn_end(event.message or "The request failed.", "sends it again")
            case "answer" if event.message:
                self.status_line.show_turn_end(event.message, "goes on")
            case _:
                self.status_line.show_turn_end("")

    # Streaming

    def _load_parsers(self) -> None:
        """Load the Markdown parsers once, in a thread, because an answer may come soon."""
        if self._parser_loader is None:
            self._parser_loader = self.run_worker(
                asyncio.to_thread(preload_markdown_and_code_parsers), exit_on_error=False, description="preload"
            )

    def _collect_streamed(self, update: Update) -> None:
        # Thousands of updates may arrive per second, so only store them here.
        self._streamed_updates.append(update)
        if self._flush_timer is None:
            self._flush_soon(self._refresh_pacer.seconds_left)

    def _pop_streamed(self) -> list[Update]:
        updates, self._streamed_updates = merge_updates(self._streamed_updates), []
        self._refresh_pacer.start_refresh()
        return updates

    def _flush_streamed(self) -> None:
        self._flush_timer = None
        is_loading = self._parser_loader is not None and not self._parser_loader.is_finished
        if is_loading or self._refresh_pacer.should_yield_to_keys(is_handling_key=is_handling_input(self.app)):
            self._flush_soon(KEY_FIRST_SECONDS)
        elif not (seconds_left := self._refresh_pacer.seconds_left):
            self.show_streamed_text()
        elif not self.transcript.continue_layout():
            self._flush_soon(_LAYOUT_PAUSE_SECONDS)
        elif self._streamed_updates:
            self._flush_soon(seconds_left)

    def show_streamed_text(self) -> None:
        """Show streamed text, or continue an unfinished layout."""
        if updates := self._pop_streamed():
            texts = [update.text for update in updates if isinstance(update, TextStreamed | ReasoningStreamed)]
            self.status_line.add_characters(sum(map(len, texts)))
            changes = [change for update in updates for change in self._entry_builder.changes_of_update(update)]
            if self._apply_changes(changes, streams=True):
                self.call_after_refresh(self._refresh_pacer.end_refresh)
        elif not self.transcript.continue_layout():
            self._flush_soon(_LAYOUT_PAUSE_SECONDS)

    def _apply_changes(self, changes: list[EntryChange], *, streams: bool = False) -> bool:
        # If an entry has several values, lay out only the last one.
        last = {change.entry.key: change for change in changes if isinstance(change, EntryAddedOrReplaced)}
        shown = [
            change
            for change in changes
            if not isinstance(change, EntryAddedOrReplaced) or last[change.entry.key] is change
        ]
        done = self.transcript.apply_changes(shown, is_streaming=streams)
        if not done:
            self._flush_soon(_LAYOUT_PAUSE_SECONDS)
        return done

    def _flush_soon(self, delay: float) -> None:
        # A one-shot timer of Textual is lost if the process is blocked for longer than its delay when it starts. Then
        # no text would ever be shown again.
        if self._flush_timer is None and self.is_mounted:
            loop = asyncio.get_running_loop()
            self._flush_timer = loop.call_later(delay, self.call_next, self._flush_streamed)

    @on(events.Unmount)
    def _stop_flushing(self) -> None:
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None

    # Handlers

    def answer_open_question(self, event: Composer.Submitted) -> None:
        """Answer an open question with the message; otherwise the message goes on to the app."""
        self.transcript.follow_end()
        question = self._entry_builder.open_question
        if question is not None:
            event.stop()
            self.call_next(self._post_answer, question.call, event.text, event.mentions)

    def _post_answer(self, call: str, text: str, mentions: tuple[Mention, ...]) -> None:
        # Called in a separate step: a message bubbles only up to the widget whose handler posts it.
        self.post_message(self.QuestionAnswered(call, text, mentions))

    def record_typing(self) -> None:
        """Record the time of a key, and load the parsers, because the user may send a message soon."""
        self._refresh_pacer.record_key_press()
        if not self.composer.is_empty:
            self._load_parsers()

    @on(QuestionOptionsBar.OptionPicked)
    def answer_with_option(self, event: QuestionOptionsBar.OptionPicked) -> None:
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
