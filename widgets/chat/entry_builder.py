"""Builds transcript entries from events and updates; a live session and its log give the same entries."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from app.agent.updates import (
    CallStreamed,
    CommandOutput,
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
    Answer,
    AssistantMessage,
    CallDenied,
    Compacted,
    DecisionKind,
    Event,
    Intervention,
    Notice,
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
    UserMessage,
)
from app.conversation.todos import Todo
from app.conversation.token_totals import TokenTotals
from app.proposals.risk.change_summary import is_command_summary
from app.proposals.values.origin import OriginKind
from widgets.chat.entries.entry_base import EntryAddedOrReplaced, EntryChange, EntryRemoved, TranscriptEntry
from widgets.chat.entries.message_entries import (
    AnswerEntry,
    CommandEntry,
    CompactionEntry,
    InterventionEntry,
    NoticeEntry,
    QuestionEntry,
    ReasoningEntry,
    TurnEndEntry,
    UserEntry,
)
from widgets.chat.entries.tool_entries import DecisionEntry, ProposalEntry, ToolEntry, call_target

_LONGEST_OUTPUT = 20_000
"""Maximum characters of live output that a tool entry keeps; the end is kept."""

_DECIDED = {
    DecisionKind.APPROVED: "applied",
    DecisionKind.PARTLY_APPROVED: "partly_approved",
    DecisionKind.DENIED: "denied",
    DecisionKind.UNDONE: "undone",
    DecisionKind.REDONE: "applied",
    DecisionKind.REOPENED: "pending",
    DecisionKind.EDITED: "pending",
}


_EDITS = frozenset({"edit_file", "write_file", "delete_file", "rename_file", "apply_patch"})
"""Tools whose result is the change that they stage."""


class EntryBuilder:
    """Builds entry changes from events and updates; an entry has the same key in a live session and from a log."""

    def __init__(self) -> None:
        self._events = 0
        self._turn = ""
        """Prefix of the keys of a response; the same if only the end of a log is read."""
        self._response = 0
        self._answer = ""
        self._reasoning = ""
        self._writing: dict[int, str] = {}
        self._discarded: list[str] = []
        """Keys of the answers of discarded attempts, until their events arrive; empty for an attempt without text."""
        self._streaming: dict[str, None] = {}
        """Keys of the entries that are being streamed, in the order of their start."""
        self._overtaken = False
        """Whether another entry was recorded since the stream began; it is before the stream in the log."""
        self._tools: dict[str, ToolEntry] = {}
        self._questions: dict[str, QuestionEntry] = {}
        self._proposals: dict[str, ProposalEntry] = {}
        self.folded: dict[str, str] = {}
        """Keys of the edits that a proposal card replaces, with the key of the card."""
        self._asking: set[str] = set()
        self.todos: Sequence[Todo] = ()
        """The model's to-do list."""
        self._turn_began = 0.0
        self._turn_waited = 0.0
        """Seconds of the turn in which a tool waited for the user."""
        self._turn_calls = 0
        self._turn_spent = TokenTotals()
        self._failure = ("", "")
        """Key and text of the entry of the last failed request."""
        self._interrupted = False
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
                self._answer += text
                self._streaming[self._key("answer")] = None
                return [*ended, EntryAddedOrReplaced(AnswerEntry(self._key("answer"), self._answer, "streaming"))]
            case ReasoningStreamed(text):
                self._reasoning += text
                self._streaming[self._key("reasoning")] = None
                return [EntryAddedOrReplaced(ReasoningEntry(self._key("reasoning"), self._reasoning, streaming=True))]
            case CallStreamed(index, name, characters):
                return [*self._end_reasoning(), *self._call_streamed(index, name, characters)]
            case StreamDiscarded():
                return self._discard()
            case CommandOutput() | PermissionRequested() | PermissionResolved():
                return self._called_out(update)
            case SessionFailed(message):
                self._events += 1
                return [EntryAddedOrReplaced(NoticeEntry(f"failed{self._events}", message, "error"))]
            case _:
                return []

    def changes_of_event(self, event: Event) -> list[EntryChange]:
        """Return the changes of one event."""
        self._events += 1
        key = f"e{event.id or -self._events}"
        match event:
            case AssistantMessage():
                changes = self._assistant(event)
            case ToolStarted(call=call):
                changes = self._set_tool(call, status="running")
            case ToolResult():
                changes = self._result(event)
            case Question(call=call, text=text, options=options):
                self._questions[call] = QuestionEntry(key, call, text, options)
                changes = [EntryAddedOrReplaced(self._questions[call])]
            case Answer(call=call, text=text, images=images):
                changes = [
                    *self._answered(call, text),
                    EntryAddedOrReplaced(UserEntry(key, text, answers=True, images=images)),
                ]
            case ProposalStaged() | ProposalDecided() | ProposalChanged():
                changes = self._proposal(event, key)
            case TurnStarted(time=time):
                self._turn, self._response = f"{event.id or -self._events}.", 0
                self._turn_began, self._turn_waited, self._turn_calls, self._turn_spent = time, 0.0, 0, TokenTotals()
                changes = []
            case RequestFailed(message=message):
                self._failure = (key, message)
                self._overtaken = bool(self._streaming)
                changes = [EntryAddedOrReplaced(NoticeEntry(key, message, "error"))]
            case TurnEnded():
                changes = self._drop_stream()
                if event.stopped != "question":
                    changes.extend(self._turn_end(event, key))
            case _:
                changes = [EntryAddedOrReplaced(entry) for entry in _told(event, key)]
                self._overtaken = self._overtaken or bool(changes and self._streaming)
        return changes

    # Streamed response

    def _key(self, part: str) -> str:
        return f"{part}{self._turn}{self._response}"

    def _end_reasoning(self) -> list[EntryChange]:
        if not self._reasoning or self._answer or self._writing:
            return []
        return [EntryAddedOrReplaced(ReasoningEntry(self._key("reasoning"), self._reasoning))]

    def _call_streamed(self, index: int, name: str, characters: int) -> list[EntryChange]:
        key = self._key(f"writing{index}.")
        self._writing[index] = key
        self._streaming[key] = None
        return [EntryAddedOrReplaced(ToolEntry(key, name, status="writing", characters=characters))]

    def _discard(self) -> list[EntryChange]:
        changes = self._drops(kept={self._key("answer")})
        self._discarded.append(self._key("answer") if self._answer else "")
        kept: list[EntryChange] = []
        if self._answer:
            kept.append(EntryAddedOrReplaced(AnswerEntry(self._key("answer"), self._answer, "discarded")))
            self._response += 1
        self._forget_stream()
        return [*changes, *kept]

    def _drop_stream(self) -> list[EntryChange]:
        """Remove the streamed entries that were never recorded."""
        changes = self._drops(kept=())
        self._forget_stream()
        return changes

    def _drops(self, kept: Collection[str]) -> list[EntryChange]:
        # Remove the last entry first: then no later entry must be renumbered.
        return [EntryRemoved(key) for key in reversed(self._streaming) if key not in kept]

    def _forget_stream(self) -> None:
        self._answer = self._reasoning = ""
        self._writing = {}
        self._streaming = {}
        self._overtaken = False

    def _assistant(self, event: AssistantMessage) -> list[EntryChange]:
        if event.state == "discarded":
            return self._assistant_discarded(event)
        entries: list[TranscriptEntry] = []
        if event.reasoning.strip():
            entries.append(ReasoningEntry(self._key("reasoning"), event.reasoning))
        if event.text.strip() or event.state != "complete":
            entries.append(AnswerEntry(self._key("answer"), event.text, event.state))
        kept = set() if self._overtaken else {entry.key for entry in entries}
        changes = self._drops(kept)
        changes += [EntryAddedOrReplaced(entry) for entry in entries]
        for call in event.calls:
            changes.extend(self._called(call))
        self._turn_calls += sum(1 for call in event.calls if call.name != "ask_user")
        self._interrupted = event.state == "interrupted"
        self._turn_spent = self._turn_spent.add(event.usage)
        self._response += 1
        self._forget_stream()
        return changes

    def _assistant_discarded(self, event: AssistantMessage) -> list[EntryChange]:
        """Return the entry of a failed attempt; its event is recorded together with the successful one."""
        key = self._discarded.pop(0) if self._discarded else None
        if key is None and event.text:
            key = self._key("answer")
            self._response += 1
        return [EntryAddedOrReplaced(AnswerEntry(key, event.text, "discarded"))] if key and event.text else []

    # Tools

    def _called(self, call: ToolCall) -> list[EntryChange]:
        if call.name == "ask_user" and not call.invalid:
            self._asking.add(call.uid)
            return []
        entry = ToolEntry(
            f"tool{call.uid}",
            call.name,
            call_target(call.name, call.arguments or {}),
            arguments=call.arguments,
            raw_arguments=call.raw_arguments if call.arguments is None else "",
        )
        self._tools[call.uid] = entry
        return [EntryAddedOrReplaced(entry)]

    def _set_tool(self, call: str, **fields: object) -> list[EntryChange]:
        entry = self._tools.get(call)
        if entry is None:
            return []
        self._tools[call] = replace(entry, **fields)  # type: ignore[arg-type]
        return [EntryAddedOrReplaced(self._tools[call])]

    def _called_out(self, update: CommandOutput | PermissionRequested | PermissionResolved) -> list[EntryChange]:
        """Return the changes for a call before its result."""
        entry = self._tools.get(update.call)
        if entry is None:
            return []
        match update:
            case CommandOutput(text=text):
                return self._set_tool(update.call, output=(entry.output + text)[-_LONGEST_OUTPUT:])
            case PermissionRequested():
                return self._set_tool(update.call, status="asking")
        # An interrupted call may already have its result.
        return self._set_tool(update.call, status="running") if entry.status == "asking" else []

    def _result(self, event: ToolResult) -> list[EntryChange]:
        if event.call in self._asking and event.call in self._questions:
            return []
        self._turn_waited += event.waited
        if event.todos is not None:
            self.todos = event.todos
        if event.call not in self._tools and event.call in self._asking:
            # A question that was never asked is shown like any other call.
            self._tools[event.call] = ToolEntry(f"tool{event.call}", "ask_user")
        return self._set_tool(
            event.call,
            status="error" if event.failed else event.outcome.value,
            summary=event.summary,
            duration=event.duration,
            output=event.text,
            proposal=event.proposal,
        )

    def _answered(self, call: str, text: str) -> list[EntryChange]:
        question = self._questions.get(call)
        if question is None:
            return []
        self._questions[call] = replace(question, answer=text)
        return [EntryAddedOrReplaced(self._questions[call])]

    # Proposals and turns

    def _proposal(self, event: ProposalStaged | ProposalDecided | ProposalChanged, key: str) -> list[EntryChange]:
        match event:
            case ProposalStaged():
                of_command = event.origin is not None and event.origin.kind is OriginKind.COMMAND
                card = ProposalEntry(
                    key,
                    event.proposal,
                    event.summary,
                    event.files,
                    supersedes=event.supersedes,
                    is_command=of_command and is_command_summary(event.summary),
                )
                self._proposals[event.proposal] = card
                former = self._proposals.get(event.supersedes)
                replaced = former is not None and former.state in ("pending", "stale")
                return [
                    *(self._set_card(event.supersedes, "superseded", "") if replaced else ()),
                    *self._fold_edits(event.calls, key),
                    EntryAddedOrReplaced(card),
                ]
            case ProposalChanged():
                return self._set_card(event.proposal, event.state, event.reason)
            case ProposalDecided():
                state = _DECIDED[event.decision]
                if event.denied_in_part:
                    state = "denied_in_part"
                elif event.decision is DecisionKind.DENIED and event.still_pending:
                    state = "pending"
                return [
                    *self._set_card(event.proposal, state, ""),
                    EntryAddedOrReplaced(
                        DecisionEntry(
                            key,
                            event.proposal,
                            event.decision,
                            event.files,
                            event.hunks,
                            event.feedback,
                            event.comments,
                            event.images,
                            event.still_pending,
                            event.on_disk,
                        )
                    ),
                ]

    def _fold_edits(self, calls: Sequence[str], card: str) -> list[EntryChange]:
        """Remove the edit calls of a step, because the proposal's card shows their files."""
        changes: list[EntryChange] = []
        for call in calls:
            entry = self._tools.get(call)
            if entry is not None and entry.name in _EDITS and entry.status == "staged":
                del self._tools[call]
                self.folded[entry.key] = card
                changes.append(EntryRemoved(entry.key))
        # Remove the last entry first: then no later entry must be renumbered.
        return changes[::-1]

    def _set_card(self, proposal: str, state: str, reason: str) -> list[EntryChange]:
        card = self._proposals.get(proposal)
        if card is None:
            return []
        self._proposals[proposal] = replace(card, state=state, reason=reason)
        return [EntryAddedOrReplaced(self._proposals[proposal])]

    def _turn_end(self, event: TurnEnded, key: str) -> list[EntryChange]:
        duration = event.time - self._turn_began - self._turn_waited if event.time and self._turn_began else 0.0
        calls, spent = self._turn_calls, self._turn_spent
        self._turn_began, self._turn_calls, self._turn_spent = 0.0, 0, TokenTotals()
        stopped, message = event.stopped, event.message
        if stopped == "aborted" and self._interrupted:
            # The interrupted answer shows this already.
            stopped, message = "answer", ""
        self._interrupted = False
        entry = TurnEndEntry(key, stopped, message, duration, calls, spent)
        failure, failed = self._failure
        self._failure = ("", "")
        if failed and event.message.endswith(failed) and stopped != "answer":
            # The entry of the turn's end shows the failure and what to do about it.
            return [EntryRemoved(failure), EntryAddedOrReplaced(entry)]
        return [EntryAddedOrReplaced(entry)] if entry.facts or message or stopped in ("aborted", "failed") else []


def entry_key_of_event(log: Iterable[Event], event_id: int) -> str:
    """Return the key of the entry that shows an event; empty for a hidden event."""
    builder, found = EntryBuilder(), ""
    for event in log:
        changes = builder.changes_of_event(event)
        if event.id == event_id:
            found = next(
                (change.entry.key for change in reversed(changes) if isinstance(change, EntryAddedOrReplaced)), ""
            )
    return builder.folded.get(found, found)


def _told(event: Event, key: str) -> list[TranscriptEntry]:
    """Return the entries of an event that depends on no other events."""
    match event:
        case UserMessage(text=text, command=command, images=images) if command is not None:
            wished = " · ".join(filter(None, (command.model, command.effort)))
            return [CommandEntry(key, command.typed, expansion=text, wished=wished, images=images)]
        case UserMessage(text=text, images=images):
            return [UserEntry(key, text, images=images)]
        case CallDenied(feedback=feedback):
            return [UserEntry(key, feedback)]
        case Intervention(kind=kind, text=text):
            return [InterventionEntry(key, kind, text, event.sender_and_receiver)]
        case Compacted(summary=summary, tokens_before=before, tokens_after=after):
            return [CompactionEntry(key, summary, before, after)]
        case Notice(text=text, level=level):
            return [NoticeEntry(key, text, level)]
    return []
