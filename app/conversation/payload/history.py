"""Fold the log into the history for the model: call groups, user messages, notes of the program.

One pass over the events, in order. Each call group contains all results of its calls, wherever they are in the log.
Notes that no longer apply are left out. Compaction cuts between groups, never inside one.
"""

from collections.abc import Sequence

from msgspec import Struct, field

from app.conversation.events import (
    AssistantMessage,
    CallDeniedWithFeedback,
    ContentPruned,
    Event,
    HistoryCompacted,
    Intervention,
    InterventionKind,
    ProposalDecided,
    Question,
    RequestSent,
    Spoken,
    ToolResult,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserAnswer,
    UserMessage,
)
from app.conversation.payload.tool_calls import (
    ANSWERED_OTHERWISE,
    CallRecord,
    MissingResultCircumstances,
    WireIds,
    missing_result_reason,
)
from app.conversation.proposal_reports import (
    PendingAndDeniedTracker,
    PendingProposal,
    format_call_denial,
    format_decision_facts,
    format_feedback,
)
from app.conversation.todos import Todo
from app.images.image import Image, join_quoted_names
from app.llm.wires.wire import AttachedImage

_CLOSING_KINDS = frozenset({InterventionKind.STAGED, InterventionKind.UNREAD})


class HistoryOmissions(Struct, frozen=True):
    """The parts of a history that compaction and pruning leave out of payloads."""

    cut: int = -1
    """Position of the last omitted event; -1 if there is none."""
    summary: str = ""
    """Summary of the omitted events, or of the older ones among them."""
    truncated: bool = False
    """Events after the summarised ones were left out without a replacement."""
    pruned: frozenset[int] = frozenset()
    """Ids of results whose texts are left out."""
    pruned_images: frozenset[int] = frozenset()
    """Ids of events whose images are left out."""


def read_omissions(events: Sequence[Event]) -> HistoryOmissions:
    """Return what the compactions and prunings of a log leave out, in any order of these events."""
    compacted: HistoryCompacted | None = None
    pruned: set[int] = set()
    images: set[int] = set()
    summaries: list[HistoryCompacted] = []
    for event in events:
        match event:
            case ContentPruned():
                pruned.update(event.results)
                images.update(event.images)
            case HistoryCompacted():
                if compacted is None or event.upto >= compacted.upto:
                    compacted = event
                if event.summary.strip():
                    summaries.append(event)
    cut = -1
    if compacted is not None:
        for position, event in enumerate(events):
            if event is compacted or not 0 < event.id <= compacted.upto:
                break
            cut = position
    if compacted is None or cut < 0:
        return HistoryOmissions(pruned=frozenset(pruned), pruned_images=frozenset(images))
    summary = max(summaries, key=lambda compaction: compaction.upto, default=None)
    return HistoryOmissions(
        cut=cut,
        summary=summary.summary.strip() if summary else "",
        truncated=summary is None or summary.upto < compacted.upto,
        pruned=frozenset(pruned),
        pruned_images=frozenset(images),
    )


OMITTED = "(earlier work left out here)"


class KeptUserMessage(Struct, frozen=True):
    """A user message of the compacted part, kept verbatim."""

    text: str
    lead: str = OMITTED
    """Text of the assistant message between it and the previous user message."""

    @staticmethod
    def select_newest(words: Sequence["KeptUserMessage"], characters: int) -> list["KeptUserMessage"]:
        """Return the newest messages that fit, in order; always the last one, in full."""
        kept: list[KeptUserMessage] = []
        characters_left = characters
        for message in reversed(words):
            characters_left -= len(message.text)
            if kept and characters_left < 0:
                break
            kept.append(message)
        kept.reverse()
        return kept


def compacted_history_message(
    summary: str,
    truncated: bool,
    pending: Sequence[PendingProposal],
    todos: Sequence[Todo],
    user_messages_follow: bool,
    images: Sequence[Image] = (),
) -> str:
    """Return the system message that replaces the compacted part.

    Args:
        summary: summary of that part or of its beginning; may be empty.
        truncated: the summary does not cover the end of that part.
        pending: proposals that were pending at the cut.
        user_messages_follow: the user's own messages from that part follow.
    """
    parts: list[str] = []
    if summary:
        parts += [
            "The older part of this conversation is represented by this summary; its messages are no longer shown.",
            summary,
        ]
    if truncated:
        where = "What came between the summary and here" if summary else "The older part of this conversation"
        parts.append(
            f"{where} was left out to make room; nothing stands for it. "
            "Read files again instead of relying on what you may have seen."
        )
    if pending:
        items = "".join(f"\n- {proposal.describe()}" for proposal in pending)
        parts.append(f"At that point these proposals awaited the user's decision:{items}")
    if todos:
        items = "".join(f"\n- {todo.status}: {todo.content}" for todo in todos)
        parts.append(f"Your to-do list at that point:{items}")
    if images:
        parts.append(
            f"Images that the user attached in that part are left out: {join_quoted_names(images)}. "
            "If you need to see one, ask the user to attach it again."
        )
    if user_messages_follow:
        parts.append("What the user wrote in that part follows in the user's own words, oldest first.")
    return "\n\n".join(parts).strip()


INTERRUPTED = "The user interrupted your response above before it was done."
CLOSING_RESPONSE_CUT = "Your response above was cut off before it was done."
"""Of a closing response: also a decision or a message of the user ends one that has stalled."""
CONTINUE = "The user told you to go on."


class UserHistoryItem(Struct):
    """A user message with its images."""

    text: str
    images: tuple[Image, ...] = ()
    pruned: bool = False
    """Whether the images are left out to save room."""
    attachments: tuple[AttachedImage, ...] = ()
    """The images that are sent."""
    mid_turn: bool = False
    """Whether the user wrote it while the calls of a response ran."""


class ProgramNote(Struct):
    """A note of the program for the model."""

    text: str
    applies: bool = True
    introduces: bool = False
    """Whether the user's own words about it are the next item."""


class ModelResponse(Struct):
    """A response of the model with its calls."""

    text: str
    message: AssistantMessage
    records: list[CallRecord] = field(default_factory=list)


class HistoryGap(Struct):
    """A gap in the history; its text is sent only if two user messages would otherwise be adjacent."""

    text: str


HistoryItem = UserHistoryItem | ProgramNote | ModelResponse | HistoryGap


class History(Struct):
    """The history to send to the model: its items in order, and notes for this request only."""

    items: list[HistoryItem]
    tail: list[str]
    """Notes for this request only, after all items."""
    pruned: frozenset[int]
    """Ids of results whose texts are left out."""


def fold_history(events: Sequence[Event], ids: WireIds, kept_characters: int) -> History:
    """Fold a log into the history to send; accepts any sequence of events, takes linear time.

    Args:
        kept_characters: maximum number of characters of user messages before a compaction that are kept verbatim.
    """
    reader = HistoryBuilder(read_omissions(events), ids, kept_characters)
    for position, event in enumerate(events):
        reader.apply(position, event)
    return reader.finish_history()


class HistoryBuilderState(Struct):
    """State of a `HistoryBuilder` from which another one can continue in the middle of a log."""

    calls: set[str] = field(default_factory=set)
    """Uids of all calls; each has its result."""
    turn_notes: list[ProgramNote] = field(default_factory=list)
    """Notes of the running turn."""
    changed_notes: list[tuple[ProgramNote, set[str]]] = field(default_factory=list)
    """Notes about changed files, each with the files that were not read since."""


class HistoryBuilder:
    """Builds the history for the model from the events, one after the other.

    Args:
        omissions: what the compactions and prunings of the whole log leave out.
        kept_characters: the same as for `fold_history`.
        earlier: facts about the events before the first one, if that is not the first of the log; the first one must
            come after the cut.
    """

    def __init__(
        self,
        omissions: HistoryOmissions,
        ids: WireIds,
        kept_characters: int,
        earlier: HistoryBuilderState | None = None,
    ) -> None:
        self.changed_earlier = False
        """An event changes the part that `earlier` describes: the whole log must be read again."""
        self.ids = ids
        self._kept_characters = kept_characters
        self._omissions = omissions
        self._earlier = earlier or HistoryBuilderState()
        self._items: list[HistoryItem] = []
        self._arrived_during_request: list[HistoryItem] | None = None
        """Items that arrived after the request was sent, so it did not contain them; None if no request is open."""
        self._is_before_cut = omissions.cut >= 0 and earlier is None
        self._cut_messages: list[KeptUserMessage] = []
        self._cut_images: list[Image] = []
        self._pending_at_cut = PendingAndDeniedTracker()
        self._todos_at_cut: tuple[Todo, ...] = ()
        """The to-do list at the cut."""
        self._records: dict[str, CallRecord] = {}
        self._response: ModelResponse | None = None
        """The last response with calls, until its missing results are explained."""
        self._questions: list[CallRecord] = []
        """Questions that the user has not answered or skipped."""
        self._is_closing_sent = False
        self._response_is_closing = False
        self._request_notes: list[tuple[InterventionKind, str]] = []
        self._turn_notes = list(self._earlier.turn_notes)
        self._changed_notes = [(note, set(files)) for note, files in self._earlier.changed_notes]

    @property
    def is_settled(self) -> bool:
        """Return whether a next event that starts a turn or a request would leave all items unchanged.

        A later event can still change an item; the reader of that event then sets `changed_earlier`.
        """
        if self._is_before_cut or self._arrived_during_request or self._request_notes or self._is_closing_sent:
            return False
        calls = [*self._questions, *(self._response.records if self._response else ())]
        return not any(record.is_open for record in calls)

    def checkpoint(self) -> tuple[list[HistoryItem], HistoryBuilderState]:
        """Return the settled items and the facts for a reader of the later events."""
        calls = self._earlier.calls | self._records.keys()
        return self._items, HistoryBuilderState(calls, self._turn_notes, self._changed_notes)

    def finish_history(self) -> History:
        """Return the history after all events were applied."""
        self._explain_missing_results(None)
        if self._is_before_cut:
            self._finish_cut()
        self._close_request()
        # The instruction to return control to the user comes last.
        ordered = sorted(self._request_notes, key=lambda note: note[0] in _CLOSING_KINDS)
        return History(self._items, [text for _, text in ordered], self._omissions.pruned)

    def apply(self, position: int, event: Event) -> None:
        if self._is_before_cut:
            if position > self._omissions.cut:
                self._finish_cut()
            else:
                self._apply_before_cut(event)
        match event:
            case ToolStarted():
                if record := self._find_record(event.call):
                    record.started = True
            case ToolResult():
                self._apply_result(event)
            case AssistantMessage():
                self._apply_response(event)
            case UserMessage() | UserAnswer() | Question():
                self._apply_exchange(event)
            case Intervention():
                self._apply_intervention(event)
            case ProposalDecided():
                feedback = format_feedback(event)
                self._add_item(ProgramNote(format_decision_facts(event), introduces=bool(feedback)))
                self._add_user_text(feedback, event)
            case CallDeniedWithFeedback():
                self._apply_denial(event)
            case TurnStarted() | TurnEnded() | RequestSent():
                self._apply_boundary(event)

    def _find_record(self, call: str) -> CallRecord | None:
        record = self._records.get(call)
        self.changed_earlier |= record is None and call in self._earlier.calls
        return record

    def _withdraw(self, note: ProgramNote) -> None:
        """Remove a note that no longer applies."""
        self.changed_earlier |= any(
            note is earlier_note
            for earlier_note in (
                *self._earlier.turn_notes,
                *(changed_note for changed_note, _ in self._earlier.changed_notes),
            )
        )
        note.applies = False

    def _apply_before_cut(self, event: Event) -> None:
        self._pending_at_cut.apply(event)
        if isinstance(event, ToolResult) and event.todos is not None:
            self._todos_at_cut = event.todos

    def _add_item(self, item: HistoryItem) -> None:
        if self._is_before_cut:
            return
        if self._arrived_during_request is None or isinstance(item, ModelResponse):
            self._items.append(item)
        else:
            self._arrived_during_request.append(item)

    def _close_request(self) -> None:
        """Move items that arrived during a request behind its response, in the order in which the model saw them."""
        if self._arrived_during_request is not None:
            self._items += self._arrived_during_request
            self._arrived_during_request = None

    def _add_user_text(self, text: str, event: Spoken) -> None:
        """Add the user's text with the images of its event."""
        if self._is_before_cut:
            self._cut_images += event.images
            if text.strip():
                self._cut_messages.append(KeptUserMessage(text))
        elif text.strip() or event.images:
            self._add_item(UserHistoryItem(text, event.images, event.id in self._omissions.pruned_images))

    def _apply_denial(self, denied: CallDeniedWithFeedback) -> None:
        """Add the user's feedback on a denied call; the result of the call says that it was denied."""
        if self._is_before_cut:
            self._cut_messages.append(KeptUserMessage(denied.feedback, f"(denied: {denied.subject})"))
        else:
            self._add_item(ProgramNote(format_call_denial(denied), introduces=True))
            self._add_item(UserHistoryItem(denied.feedback, mid_turn=True))

    def _apply_response(self, message: AssistantMessage) -> None:
        if message.state == "discarded":
            return
        self._explain_missing_results(None)
        self._request_notes.clear()
        text = message.text.strip()
        if message.state == "interrupted":
            if text:
                self._add_item(ModelResponse(message.text, message))
                if not self._is_before_cut:
                    # Before the items that arrived during the request.
                    self._items.append(ProgramNote(CLOSING_RESPONSE_CUT if self._is_closing_sent else INTERRUPTED))
        else:
            self._add_response(message, text)
        self._close_request()

    def _add_response(self, message: AssistantMessage, text: str) -> None:
        records = [CallRecord(call, self.ids.assign_id(call)) for call in message.calls]
        response = ModelResponse(message.text if text else "", message, records)
        self._records.update((record.call.uid, record) for record in records)
        self._response = response if records else None
        self._response_is_closing = self._is_closing_sent
        if text or records:
            self._add_item(response)

    def _apply_result(self, result: ToolResult) -> None:
        record = self._find_record(result.call)
        if record is None:
            return
        record.result = result
        # The placeholder of a pruned text also replaces its images.
        record.images = () if result.id in self._omissions.pruned else result.images
        record.images_pruned = result.id in self._omissions.pruned_images
        for path in result.reads:
            for note, unread in self._changed_notes:
                unread.discard(path)
                if not unread and note.applies:
                    self._withdraw(note)
        if self._changed_notes and result.reads:
            self._changed_notes = [pair for pair in self._changed_notes if pair[1]]

    def _apply_exchange(self, event: UserMessage | UserAnswer | Question) -> None:
        match event:
            case UserMessage():
                for question_record in self._questions:
                    question_record.reason = ANSWERED_OTHERWISE
                self._questions.clear()
                self._add_user_text(event.text, event)
            case Question():
                if record := self._find_record(event.call):
                    record.asked = True
                    self._questions.append(record)
            case UserAnswer():
                self._apply_answer(event)

    def _apply_answer(self, answer: UserAnswer) -> None:
        record = self._find_record(answer.call)
        if record is None:
            self._add_user_text(answer.text, answer)
            return
        record.answer = answer.text if record.answer is None else f"{record.answer}\n\n{answer.text}"
        if self._is_before_cut and answer.text.strip():
            self._cut_messages.append(KeptUserMessage(answer.text, _describe_question(record)))
        # On some wires a result can only be text, so the images follow it.
        self._add_user_text("", answer)

    def _apply_intervention(self, event: Intervention) -> None:
        match event.scope:
            case "request":
                self._request_notes.append((event.kind, event.text))
            case "turn":
                note = ProgramNote(event.text)
                self._turn_notes.append(note)
                self._add_item(note)
            case "lasting":
                note = ProgramNote(event.text)
                self._add_item(note)
                if event.files and not self._is_before_cut:
                    self._changed_notes.append((note, set(event.files)))

    def _apply_boundary(self, event: TurnStarted | TurnEnded | RequestSent) -> None:
        self._close_request()
        if isinstance(event, RequestSent):
            self._is_closing_sent = self._is_closing_sent or event.closing
            self._arrived_during_request = []
            return
        self._explain_missing_results(event.stopped if isinstance(event, TurnEnded) else None)
        self._is_closing_sent = False
        self._request_notes.clear()
        for note in self._turn_notes:
            self._withdraw(note)
        self._turn_notes.clear()
        if isinstance(event, TurnStarted) and event.cause == "continue":
            self._add_item(ProgramNote(CONTINUE))

    def _explain_missing_results(self, turn_ended: str | None) -> None:
        """Set the reason for each call that has no result."""
        if self._response is None:
            return
        records = self._response.records
        interruption = MissingResultCircumstances(
            truncated=self._response.message.state == "truncated",
            closing=self._response_is_closing,
            question=any(record.asked for record in records),
            turn_ended=turn_ended,
        )
        for record in records:
            if record.is_open and not record.reason:
                record.reason = missing_result_reason(record, interruption)
        self._response = None

    def _finish_cut(self) -> None:
        """Insert the summary before all items; called when all events up to the cut were applied."""
        self._is_before_cut = False
        self._records.clear()
        kept = KeptUserMessage.select_newest(self._cut_messages, self._kept_characters)
        self._items.append(
            ProgramNote(
                compacted_history_message(
                    self._omissions.summary,
                    self._omissions.truncated,
                    self._pending_at_cut.pending,
                    self._todos_at_cut,
                    bool(kept),
                    self._cut_images,
                )
            )
        )
        for message in kept:
            self._items += [HistoryGap(message.lead), UserHistoryItem(message.text)]
        self._items += [HistoryGap(OMITTED), *self._turn_notes]


def _describe_question(record: CallRecord) -> str:
    question = (record.call.arguments or {}).get("question")
    return f"(asked: {question})" if isinstance(question, str) and question.strip() else OMITTED
