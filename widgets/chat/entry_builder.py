"""Builds transcript entries from events and updates; a live session and its log give the same entries."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from app.agent.updates import (
    CallStreamed,
    CommandOutputStreamed,
    EventRecorded,
    PermissionRequested,
    PermissionResolved,
    ReasoningStreamed,
    SessionFailed,
    StreamDiscarded,
    TextStreamed,
)
from app.agent.updates import Update as SessionUpdate
from app.conversation.events import (
    AssistantMessage,
    CallDeniedWithFeedback,
    DecisionKind,
    Event,
    HistoryCompacted,
    Intervention,
    ProposalChanged,
    ProposalDecided,
    ProposalStaged,
    Question,
    RequestFailed,
    ToolCall,
    ToolResult,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserAnswer,
    UserMessage,
    UserNotice,
)
from app.conversation.todos import Todo
from app.conversation.token_totals import TokenTotals
from app.copies import replace
from app.proposals.risk.change_summary import is_default_command_summary
from app.proposals.values.origin import OriginKind
from widgets.chat.entries.entry_base import EntryAddedOrReplaced, EntryChange, EntryRemoved, TranscriptEntry
from widgets.chat.entries.message_entries import (
    CompactionEntry,
    CustomCommandEntry,
    ModelAnswerEntry,
    NoticeToUserEntry,
    ProgramMessageToModelEntry,
    QuestionEntry,
    ReasoningEntry,
    TurnEndEntry,
    UserEntry,
)
from widgets.chat.entries.tool_entries import DecisionEntry, ProposalEntry, ToolEntry, tool_call_target

_MAX_OUTPUT_CHARACTERS = 20_000
"""Maximum characters of live output that a tool entry keeps; the end is kept."""

_STATE_AFTER_DECISION = {
    DecisionKind.APPROVED: "applied",
    DecisionKind.PARTLY_APPROVED: "partly_approved",
    DecisionKind.DENIED: "denied",
    DecisionKind.UNDONE: "undone",
    DecisionKind.REDONE: "applied",
    DecisionKind.REOPENED: "pending",
    DecisionKind.EDITED: "pending",
}


_EDIT_TOOLS = frozenset({"edit_file", "write_file", "delete_file", "rename_file", "apply_patch"})
"""Tools whose result is the change that they stage."""


class EntryBuilder:
    """Builds entry changes from events and updates; an entry has the same key in a live session and from a log."""

    def __init__(self) -> None:
        self._event_count = 0
        self._turn_key = ""
        """Prefix of the keys of a response; the same if only the end of a log is read."""
        self._response_number = 0
        self._answer_text = ""
        self._reasoning_text = ""
        self._written_calls: dict[int, str] = {}
        self._discarded_answer_keys: list[str] = []
        """Keys of the answers of discarded attempts, until their events arrive; empty for an attempt without text."""
        self._streamed_keys: dict[str, None] = {}
        """Keys of the entries that are being streamed, in the order of their start."""
        self._is_stream_overtaken = False
        """Whether another entry was recorded since the stream began; it is before the stream in the log."""
        self._tools: dict[str, ToolEntry] = {}
        self._questions: dict[str, QuestionEntry] = {}
        self._proposals: dict[str, ProposalEntry] = {}
        self.card_key_by_edit_key: dict[str, str] = {}
        """Keys of the edits that a proposal card replaces, with the key of the card."""
        self._question_calls: set[str] = set()
        self.todos: Sequence[Todo] = ()
        """The model's to-do list."""
        self._turn_started_at = 0.0
        self._turn_waited_seconds = 0.0
        """Seconds of the turn in which a tool waited for the user."""
        self._turn_call_count = 0
        self._turn_tokens = TokenTotals()
        self._last_failure = ("", "")
        """Key and text of the entry of the last failed request."""
        self._is_interruption_shown = False
        """Whether the last answer already shows that it was interrupted."""

    @property
    def open_question(self) -> QuestionEntry | None:
        """Return the latest question without an answer; None if there is none."""
        return next((entry for entry in reversed(self._questions.values()) if entry.answer is None), None)

    def changes_of_log(self, events: Iterable[Event]) -> Iterator[EntryChange]:
        """Yield the changes of a whole log."""
        for event in events:
            yield from self.changes_of_event(event)

    def changes_of_update(self, update: SessionUpdate) -> list[EntryChange]:
        """Return the changes of one update of a session; an entry contains all text streamed so far."""
        match update:
            case EventRecorded(event):
                return self.changes_of_event(event)
            case TextStreamed(text):
                ended = self._end_reasoning()
                self._answer_text += text
                key = self._key_in_response("answer")
                self._streamed_keys[key] = None
                return [*ended, EntryAddedOrReplaced(ModelAnswerEntry(key, self._answer_text, "streaming"))]
            case ReasoningStreamed(text):
                self._reasoning_text += text
                key = self._key_in_response("reasoning")
                self._streamed_keys[key] = None
                return [EntryAddedOrReplaced(ReasoningEntry(key, self._reasoning_text, streaming=True))]
            case CallStreamed(index, name, characters):
                return [*self._end_reasoning(), *self._streamed_call_changes(index, name, characters)]
            case StreamDiscarded():
                return self._discard_stream()
            case CommandOutputStreamed() | PermissionRequested() | PermissionResolved():
                return self._running_call_changes(update)
            case SessionFailed(message):
                self._event_count += 1
                return [EntryAddedOrReplaced(NoticeToUserEntry(f"failed{self._event_count}", message, "error"))]
            case _:
                return []

    def changes_of_event(self, event: Event) -> list[EntryChange]:
        """Return the changes of one event."""
        self._event_count += 1
        key = f"e{event.id or -self._event_count}"
        match event:
            case AssistantMessage():
                changes = self._assistant_changes(event)
            case ToolStarted(call=call):
                changes = self._update_tool(call, status="running")
            case ToolResult():
                changes = self._result_changes(event)
            case Question(call=call, text=text, options=options):
                self._questions[call] = QuestionEntry(key, call, text, options)
                changes = [EntryAddedOrReplaced(self._questions[call])]
            case UserAnswer(call=call, text=text, images=images):
                entry = UserEntry(key, text, answers=True, images=images)
                changes = [*self._answer_changes(call, text), EntryAddedOrReplaced(entry)]
            case ProposalStaged() | ProposalDecided() | ProposalChanged():
                changes = self._proposal_changes(event, key)
            case TurnStarted(time=time):
                self._turn_key, self._response_number = f"{event.id or -self._event_count}.", 0
                self._turn_started_at, self._turn_waited_seconds = time, 0.0
                self._turn_call_count, self._turn_tokens = 0, TokenTotals()
                changes = []
            case RequestFailed(message=message):
                self._last_failure = (key, message)
                self._is_stream_overtaken = bool(self._streamed_keys)
                changes = [EntryAddedOrReplaced(NoticeToUserEntry(key, message, "error"))]
            case TurnEnded():
                changes = self._drop_stream()
                if event.stopped != "question":
                    changes.extend(self._turn_end_changes(event, key))
            case _:
                changes = [EntryAddedOrReplaced(entry) for entry in _independent_entries(event, key)]
                self._is_stream_overtaken = self._is_stream_overtaken or bool(changes and self._streamed_keys)
        return changes

    # Streamed response

    def _key_in_response(self, part: str) -> str:
        return f"{part}{self._turn_key}{self._response_number}"

    def _end_reasoning(self) -> list[EntryChange]:
        if not self._reasoning_text or self._answer_text or self._written_calls:
            return []
        return [EntryAddedOrReplaced(ReasoningEntry(self._key_in_response("reasoning"), self._reasoning_text))]

    def _streamed_call_changes(self, index: int, name: str, characters: int) -> list[EntryChange]:
        key = self._key_in_response(f"writing{index}.")
        self._written_calls[index] = key
        self._streamed_keys[key] = None
        return [EntryAddedOrReplaced(ToolEntry(key, name, status="writing", characters=characters))]

    def _discard_stream(self) -> list[EntryChange]:
        key = self._key_in_response("answer")
        changes = self._streamed_removals(kept={key})
        self._discarded_answer_keys.append(key if self._answer_text else "")
        if self._answer_text:
            changes.append(EntryAddedOrReplaced(ModelAnswerEntry(key, self._answer_text, "discarded")))
            self._response_number += 1
        self._forget_stream()
        return changes

    def _drop_stream(self) -> list[EntryChange]:
        """Remove the streamed entries that were never recorded."""
        changes = self._streamed_removals(kept=())
        self._forget_stream()
        return changes

    def _streamed_removals(self, kept: Collection[str]) -> list[EntryChange]:
        # Remove the last entry first: then no later entry must be renumbered.
        return [EntryRemoved(key) for key in reversed(self._streamed_keys) if key not in kept]

    def _forget_stream(self) -> None:
        self._answer_text = self._reasoning_text = ""
        self._written_calls = {}
        self._streamed_keys = {}
        self._is_stream_overtaken = False

    def _assistant_changes(self, event: AssistantMessage) -> list[EntryChange]:
        if event.state == "discarded":
            return self._discarded_attempt_changes(event)
        entries: list[TranscriptEntry] = []
        if event.reasoning.strip():
            entries.append(ReasoningEntry(self._key_in_response("reasoning"), event.reasoning))
        if event.text.strip() or event.state != "complete":
            entries.append(ModelAnswerEntry(self._key_in_response("answer"), event.text, event.state))
        kept_keys = set() if self._is_stream_overtaken else {entry.key for entry in entries}
        changes = self._streamed_removals(kept_keys)
        changes += [EntryAddedOrReplaced(entry) for entry in entries]
        for call in event.calls:
            changes.extend(self._call_changes(call))
        self._turn_call_count += sum(1 for call in event.calls if call.name != "ask_user")
        self._is_interruption_shown = event.state == "interrupted"
        self._turn_tokens = self._turn_tokens.add(event.usage)
        self._response_number += 1
        self._forget_stream()
        return changes

    def _discarded_attempt_changes(self, event: AssistantMessage) -> list[EntryChange]:
        """Return the entry of a failed attempt; its event is recorded together with the successful one."""
        key = self._discarded_answer_keys.pop(0) if self._discarded_answer_keys else None
        if key is None and event.text:
            key = self._key_in_response("answer")
            self._response_number += 1
        return [EntryAddedOrReplaced(ModelAnswerEntry(key, event.text, "discarded"))] if key and event.text else []

    # Tools

    def _call_changes(self, call: ToolCall) -> list[EntryChange]:
        if call.name == "ask_user" and not call.invalid:
            self._question_calls.add(call.uid)
            return []
        entry = ToolEntry(
            f"tool{call.uid}",
            call.name,
            tool_call_target(call.name, call.arguments or {}),
            arguments=call.arguments,
            raw_arguments=call.raw_arguments if call.arguments is None else "",
        )
        self._tools[call.uid] = entry
        return [EntryAddedOrReplaced(entry)]

    def _update_tool(self, call: str, **fields: object) -> list[EntryChange]:
        entry = self._tools.get(call)
        if entry is None:
            return []
        self._tools[call] = replace(entry, **fields)  # type: ignore[arg-type]
        return [EntryAddedOrReplaced(self._tools[call])]

    def _running_call_changes(
        self, update: CommandOutputStreamed | PermissionRequested | PermissionResolved
    ) -> list[EntryChange]:
        """Return the changes for a call before its result."""
        entry = self._tools.get(update.call)
        if entry is None:
            return []
        match update:
            case CommandOutputStreamed(text=text):
                return self._update_tool(update.call, output=(entry.output + text)[-_MAX_OUTPUT_CHARACTERS:])
            case PermissionRequested():
                return self._update_tool(update.call, status="asking")
        # An interrupted call may already have its result.
        return self._update_tool(update.call, status="running") if entry.status == "asking" else []

    def _result_changes(self, event: ToolResult) -> list[EntryChange]:
        if event.call in self._question_calls and event.call in self._questions:
            return []
        self._turn_waited_seconds += event.waited
        if event.todos is not None:
            self.todos = event.todos
        if event.call not in self._tools and event.call in self._question_calls:
            # A question that was never asked is shown like any other call.
            self._tools[event.call] = ToolEntry(f"tool{event.call}", "ask_user")
        return self._update_tool(
            event.call,
            status="error" if event.failed else event.outcome.value,
            summary=event.summary,
            duration=event.duration,
            output=event.text,
            proposal=event.proposal,
        )

    def _answer_changes(self, call: str, text: str) -> list[EntryChange]:
        question = self._questions.get(call)
        if question is None:
            return []
        self._questions[call] = replace(question, answer=text)
        return [EntryAddedOrReplaced(self._questions[call])]

    # Proposals and turns

    def _proposal_changes(
        self, event: ProposalStaged | ProposalDecided | ProposalChanged, key: str
    ) -> list[EntryChange]:
        match event:
            case ProposalStaged():
                is_from_command = event.origin is not None and event.origin.kind is OriginKind.COMMAND
                card = ProposalEntry(
                    key,
                    event.proposal,
                    event.summary,
                    event.files,
                    supersedes=event.supersedes,
                    is_command=is_from_command and is_default_command_summary(event.summary),
                )
                self._proposals[event.proposal] = card
                superseded_card = self._proposals.get(event.supersedes)
                replaced = superseded_card is not None and superseded_card.state in ("pending", "stale")
                return [
                    *(self._update_card(event.supersedes, "superseded", "") if replaced else ()),
                    *self._fold_edits(event.calls, key),
                    EntryAddedOrReplaced(card),
                ]
            case ProposalChanged():
                return self._update_card(event.proposal, event.state, event.reason)
            case ProposalDecided():
                state = _STATE_AFTER_DECISION[event.decision]
                if event.denied_in_part:
                    state = "denied_in_part"
                elif event.decision is DecisionKind.DENIED and event.still_pending:
                    state = "pending"
                entry = DecisionEntry(key, event)
                return [*self._update_card(event.proposal, state, ""), EntryAddedOrReplaced(entry)]

    def _fold_edits(self, calls: Sequence[str], card: str) -> list[EntryChange]:
        """Remove the edit calls of a step, because the proposal's card shows their files."""
        changes: list[EntryChange] = []
        for call in calls:
            entry = self._tools.get(call)
            if entry is not None and entry.name in _EDIT_TOOLS and entry.status == "staged":
                del self._tools[call]
                self.card_key_by_edit_key[entry.key] = card
                changes.append(EntryRemoved(entry.key))
        # Remove the last entry first: then no later entry must be renumbered.
        return changes[::-1]

    def _update_card(self, proposal: str, state: str, reason: str) -> list[EntryChange]:
        card = self._proposals.get(proposal)
        if card is None:
            return []
        self._proposals[proposal] = replace(card, state=state, reason=reason)
        return [EntryAddedOrReplaced(self._proposals[proposal])]

    def _turn_end_changes(self, event: TurnEnded, key: str) -> list[EntryChange]:
        seconds = event.time - self._turn_started_at - self._turn_waited_seconds
        duration = seconds if event.time and self._turn_started_at else 0.0
        calls, tokens = self._turn_call_count, self._turn_tokens
        self._turn_started_at, self._turn_call_count, self._turn_tokens = 0.0, 0, TokenTotals()
        message = event.message
        # The interrupted answer may show it already.
        stopped = "interrupted" if event.stopped == "aborted" and self._is_interruption_shown else event.stopped
        self._is_interruption_shown = False
        entry = TurnEndEntry(key, stopped, message, duration, calls, tokens)
        failure_key, failure_text = self._last_failure
        self._last_failure = ("", "")
        if failure_text and event.message.endswith(failure_text) and stopped != "answer":
            # The entry of the turn's end shows the failure and what to do about it.
            return [EntryRemoved(failure_key), EntryAddedOrReplaced(entry)]
        is_shown = entry.facts or message or stopped in ("aborted", "interrupted", "failed")
        return [EntryAddedOrReplaced(entry)] if is_shown else []


def entry_key_of_event(log: Iterable[Event], event_id: int) -> str:
    """Return the key of the entry that shows an event; empty for a hidden event."""
    builder, key = EntryBuilder(), ""
    for event in log:
        changes = builder.changes_of_event(event)
        if event.id == event_id:
            key = next(
                (change.entry.key for change in reversed(changes) if isinstance(change, EntryAddedOrReplaced)), ""
            )
    return builder.card_key_by_edit_key.get(key, key)


def _independent_entries(event: Event, key: str) -> list[TranscriptEntry]:
    """Return the entries of an event that depends on no other events."""
    match event:
        case UserMessage(text=text, command=command, images=images) if command is not None:
            settings = " · ".join(filter(None, (command.model, command.effort)))
            return [CustomCommandEntry(key, command.typed, images=images, expansion=text, model_and_effort=settings)]
        case UserMessage(text=text, images=images):
            return [UserEntry(key, text, images=images)]
        case CallDeniedWithFeedback(feedback=feedback):
            return [UserEntry(key, feedback)]
        case Intervention(kind=kind, text=text):
            return [ProgramMessageToModelEntry(key, kind, text, event.sender_and_receiver)]
        case HistoryCompacted(summary=summary, tokens_before=before, tokens_after=after):
            return [CompactionEntry(key, summary, before, after)]
        case UserNotice(text=text, level=level):
            return [NoticeToUserEntry(key, text, level)]
    return []
