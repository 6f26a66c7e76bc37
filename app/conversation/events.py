"""The events of a session's log: immutable, distinguished by their `type`.

An event is written once and never edited. Everything else that signoff shows or sends (the payload of a request, the
transcript, the state of the gate) is computed from the log.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Struct
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from app.conversation.todos import Todo
from app.images.image import Image
from app.llm.values.requests_and_updates import ReceivedToolCall, TokenUsage
from app.proposals.values.decision_facts import FileDiffStat, HunkOutcome, LineComment
from app.proposals.values.origin import ProposalOrigin


class EventSource(StrEnum):
    """The author of an event: user, model, tool or program."""

    USER = "user"
    MODEL = "model"
    TOOL = "tool"
    PROGRAM = "program"


class Audience(StrEnum):
    """Who may read an event's text: the user, user and model, or nobody; only `BOTH` is sent to the model."""

    USER = "user"
    BOTH = "both"
    """The user and the model."""
    NOBODY = "nobody"
    """For the log only: neither requests nor the transcript contain it."""


class EventModel(BaseModel):
    """Base model of events and their parts: frozen; unknown fields (a log of a newer version) are an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class EventBase(EventModel):
    """Fields of every event."""

    id: int = 0
    """Position in the store, increasing; 0 before the event is stored."""
    time: float = 0.0
    """Unix time in seconds; 0 before the event is stored."""
    source: EventSource
    audience: Audience

    @property
    def sender_and_receiver(self) -> str:
        """Return sender and receiver for the user, e.g. `signoff → model`."""
        return f"{_PARTY_NAMES.get(self.source, self.source)} → {_PARTY_NAMES.get(self.audience, self.audience)}"


_PARTY_NAMES = {EventSource.PROGRAM: "signoff", Audience.USER: "you", Audience.BOTH: "model"}


class ProposalLocation(NamedTuple):
    """The place that a thread of side questions is about: proposal, file and hunk."""

    proposal: str
    path: str
    hunk: str = ""
    """`Hunk.id`; empty for the whole file."""


class SideQuestion(EventBase):
    """A question of the user about a hunk, outside the conversation."""

    type: Literal["side_question"] = "side_question"
    source: Literal[EventSource.USER] = EventSource.USER
    audience: Literal[Audience.USER] = Audience.USER
    uid: str
    """The copy in a fork has the same uid."""
    proposal: str
    path: str
    hunk: str = ""
    number: int = 0
    """Number of the hunk as shown to the user; 0 for the whole file or if the hunk does not exist any more."""
    picked: str = ""
    """The lines that the user selected, each with `+`, `-` or space; empty for the whole hunk."""
    text: str

    @property
    def place(self) -> ProposalLocation:
        """The thread of the question."""
        return ProposalLocation(self.proposal, self.path, self.hunk)

    @property
    def subject(self) -> str:
        """Return a description of the subject, e.g. `hunk 2 of P7 in a.py`."""
        hunk = f"hunk {self.number} of " if self.number else ""
        return f"{'lines of ' if self.picked else ''}{hunk}{self.proposal} in {self.path}"


class SideAnswer(EventBase):
    """The model's answer to a side question, or the reason why there is none."""

    type: Literal["side_answer"] = "side_answer"
    source: Literal[EventSource.MODEL] = EventSource.MODEL
    audience: Literal[Audience.USER] = Audience.USER
    question: str
    """`SideQuestion.uid`."""
    proposal: str
    text: str = ""
    state: Literal["complete", "interrupted", "truncated", "failed"] = "complete"
    note: str = ""
    """One line of the program: the error and how to ask again, or what was ignored."""
    usage: TokenUsage | None = None
    model: str = ""
    duration: float = 0.0
    """Seconds from the request to the end of the stream."""


class SideExchange(Struct, frozen=True):
    """A side question of the user with the model's answer, if it has one."""

    question: SideQuestion
    answer: SideAnswer | None = None

    @property
    def answer_text(self) -> str:
        """Return the model's answer; empty if there is none."""
        return self.answer.text.strip() if self.answer is not None else ""


def find_side_event_location(events: Iterable[EventBase], event_id: int) -> ProposalLocation | None:
    """Return the place that the side question or answer with this id is about; None for other events."""
    threads: dict[str, ProposalLocation] = {}
    for event in events:
        match event:
            case SideQuestion():
                threads[event.uid] = event.place
                if event.id == event_id:
                    return event.place
            case SideAnswer() if event.id == event_id:
                return threads.get(event.question)
    return None


def collect_side_exchanges(events: Iterable[EventBase]) -> tuple[SideExchange, ...]:
    """Return the side questions with their answers, in the order in which they were asked."""
    exchanges: dict[str, SideExchange] = {}
    for event in events:
        match event:
            case SideQuestion() if event.uid not in exchanges:
                exchanges[event.uid] = SideExchange(event)
            case SideAnswer() if event.question in exchanges and exchanges[event.question].answer is None:
                exchanges[event.question] = SideExchange(exchanges[event.question].question, event)
    return tuple(exchanges.values())


class CustomCommandInvocation(EventModel):
    """The custom command that the user called, with its arguments; its text became the message."""

    typed: str
    model: str = ""
    """The model for the turn, as the command requests; empty for the current one."""
    effort: str = ""
    """The reasoning effort for the turn, as the command requests; empty for the current one."""


class UserMessage(EventBase):
    """A message that the user typed, or the text of a custom command that they called."""

    type: Literal["user_message"] = "user_message"
    source: Literal[EventSource.USER] = EventSource.USER
    audience: Literal[Audience.BOTH] = Audience.BOTH
    text: str
    command: CustomCommandInvocation | None = None
    images: tuple[Image, ...] = ()

    @property
    def typed_text(self) -> str:
        """Return the text as the user typed it."""
        return self.command.typed if self.command else self.text


class MessageQueued(EventBase):
    """A message that the user typed during a turn; it is sent as a `UserMessage` after that turn."""

    type: Literal["message_queued"] = "message_queued"
    source: Literal[EventSource.USER] = EventSource.USER
    audience: Literal[Audience.USER] = Audience.USER
    text: str
    command: CustomCommandInvocation | None = None
    images: tuple[Image, ...] = ()

    @property
    def typed_text(self) -> str:
        """Return the text as the user typed it."""
        return self.command.typed if self.command else self.text


class MessagesDequeued(EventBase):
    """Queued messages left the queue: they were sent, or the user took them back to edit them."""

    type: Literal["queue_taken"] = "queue_taken"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.USER] = Audience.USER
    messages: tuple[int, ...]
    """Ids of `MessageQueued` events."""


class ToolCall(ReceivedToolCall):
    """One tool call in a response."""

    uid: str
    """signoff's id, unique in the session (`c12.0`: response 12, first call); servers may repeat their ids."""


class AssistantMessage(EventBase):
    """One response of the model, or the received part of it."""

    type: Literal["assistant_message"] = "assistant_message"
    source: Literal[EventSource.MODEL] = EventSource.MODEL
    audience: Literal[Audience.BOTH] = Audience.BOTH
    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    state: Literal["complete", "interrupted", "truncated", "discarded"] = "complete"
    """`interrupted`: stopped by the user; `truncated`: cut off by the stream's end or a length limit;
    `discarded`: a failed attempt that was repeated; not sent to the model."""
    usage: TokenUsage | None = None
    endpoint: str = ""
    model: str = ""
    extras: dict[str, Any] = Field(default_factory=dict)
    """Opaque fields that are sent back only to the same endpoint and model (`reasoning_details`)."""
    duration: float = 0.0
    """Seconds from the request to the end of the stream."""
    unfinished_calls: int = 0
    """Characters of calls that were being received when a limit cut off the response; the calls are not stored."""


class CallOutcome(StrEnum):
    """How a tool call ended."""

    OK = "ok"
    ERROR = "error"
    """The tool failed; the text says why."""
    STAGED = "staged"
    """The edit is part of a proposal; nothing on disk has changed."""
    REFUSED = "refused"
    """The executor did not run it, for example because the gate was closed or a question stopped the turn."""
    REJECTED = "rejected"
    """The user denied permission, or no user could be asked."""
    ABORTED = "aborted"
    """The user interrupted the turn."""
    INVALID = "invalid"
    """Unknown tool, or malformed or truncated arguments; nothing ran."""


class ToolStarted(EventBase):
    """A call starts to run."""

    type: Literal["tool_started"] = "tool_started"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.USER] = Audience.USER
    call: str
    """`ToolCall.uid`."""


class ToolResult(EventBase):
    """The result of a call; each call has at most one."""

    type: Literal["tool_result"] = "tool_result"
    source: Literal[EventSource.TOOL] = EventSource.TOOL
    audience: Literal[Audience.BOTH] = Audience.BOTH
    call: str
    """`ToolCall.uid`."""
    outcome: CallOutcome
    text: str
    """Text for the model."""
    summary: str = ""
    """One line for the user in the transcript (`42 lines`, `3 matches in 2 files`)."""
    proposal: str = ""
    """The proposal that a staged edit is part of."""
    reads: dict[str, str] = Field(default_factory=dict)
    """Files whose content the model got from this call: workspace path to version (SHA-256 hex)."""
    failed: bool = False
    """The call ran, but for example its command did not exit with 0."""
    duration: float = 0.0
    """Seconds of work, without the time spent waiting for the user."""
    waited: float = 0.0
    """Seconds spent waiting for the user's permission."""
    todos: tuple[Todo, ...] | None = None
    """The model's new to-do list; None if the call did not change it."""
    images: tuple[Image, ...] = ()
    """Images in the tool's answer."""
    unread: int = 0
    """Number of unread lines if the user's reading budget had no room for the call; else 0."""


class Question(EventBase):
    """A question of the model (`ask_user`), which ends the turn. The answer becomes the result of the call."""

    type: Literal["question"] = "question"
    source: Literal[EventSource.MODEL] = EventSource.MODEL
    audience: Literal[Audience.USER] = Audience.USER
    call: str
    text: str
    options: tuple[str, ...] = ()


class UserAnswer(EventBase):
    """The user's answer to a question."""

    type: Literal["answer"] = "answer"
    source: Literal[EventSource.USER] = EventSource.USER
    audience: Literal[Audience.BOTH] = Audience.BOTH
    call: str
    text: str
    images: tuple[Image, ...] = ()


LimitName = Literal["cost", "time", "steps"]
"""A limit that can end a turn."""


class InterventionKind(StrEnum):
    """The reason why the program sends a message to the model."""

    STAGED = "staged"
    """An edit was staged: stop and return control to the user (the closing request)."""
    PENDING = "pending"
    """List of pending proposals, sent when the gate opens again."""
    EMPTY_RESPONSE = "empty_response"
    NO_PROGRESS = "no_progress"
    STEP_LIMIT = "step_limit"
    REPEATED_DENIALS = "repeated_denials"
    FILES_CHANGED = "files_changed"
    """Files have changed since the model read them."""
    TRUNCATED = "truncated"
    """The last response was truncated."""
    UNREAD = "unread"
    """The reading budget has no room for another edit: stop (the closing request)."""
    PLAN = "plan"
    """Plan mode: plan and change nothing."""
    LIMIT_NEAR = "limit_near"
    """A limit is nearly used up."""
    COST_LIMIT = "cost_limit"
    TIME_LIMIT = "time_limit"
    FACT = "fact"
    """Other facts for the model (an undo, an edit by the user)."""


class Intervention(EventBase):
    """A message of the program to the model: `role: system` on the wire, never `user`."""

    type: Literal["intervention"] = "intervention"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.BOTH] = Audience.BOTH
    kind: InterventionKind
    text: str
    scope: Literal["request", "turn", "lasting"] = "lasting"
    """`request`: only in the next request; `turn`: until this turn ends; `lasting`: stays in the history."""
    files: dict[str, str] = Field(default_factory=dict)
    """For `files_changed`: path to current version of each changed file (empty for a deleted file)."""
    limit: str = ""
    """For `limit_near`: the limit and its value (`LimitUse.key`)."""


class ProposalStaged(EventBase):
    """The edits of one step were staged as a proposal."""

    type: Literal["proposal_staged"] = "proposal_staged"
    source: Literal[EventSource.MODEL] = EventSource.MODEL
    audience: Literal[Audience.BOTH, Audience.USER] = Audience.BOTH
    """USER in logs of earlier versions."""
    proposal: str
    summary: str
    files: tuple[FileDiffStat, ...]
    calls: tuple[str, ...]
    """`ToolCall.uid` of its edits."""
    supersedes: str = ""
    """The denied proposal whose feedback this proposal answers, if any."""
    origin: ProposalOrigin | None = None
    """Author of the edits; None in logs of earlier versions."""
    versions: dict[str, str] = Field(default_factory=dict)
    """Versions after the edits: path to SHA-256 hex (empty for a file that they delete or move away)."""


class DecisionKind(StrEnum):
    """What was decided on a proposal: approved, partly approved, denied, undone, redone, reopened or edited."""

    APPROVED = "approved"
    """All its pending changes were written to disk."""
    PARTLY_APPROVED = "partly_approved"
    DENIED = "denied"
    UNDONE = "undone"
    REDONE = "redone"
    REOPENED = "reopened"
    """A denial was undone: the proposal is pending again."""
    EDITED = "edited"
    """The user edited the proposed text."""


class ProposalDecided(EventBase):
    """A decision of the user. The model gets the facts as a system message and the feedback as a user message."""

    type: Literal["proposal_decided"] = "proposal_decided"
    source: Literal[EventSource.USER] = EventSource.USER
    audience: Literal[Audience.BOTH] = Audience.BOTH
    proposal: str
    decision: DecisionKind
    files: tuple[FileDiffStat, ...] = ()
    hunks: tuple[HunkOutcome, ...] = ()
    """The decided hunks; empty for a decision on the whole proposal."""
    feedback: str = ""
    comments: tuple[LineComment, ...] = ()
    images: tuple[Image, ...] = ()
    """Images that the user attached to the feedback."""
    still_pending: bool = False
    """Some hunks of the proposal are still pending."""
    stale: str = ""
    """For the denial of a stale proposal: why it could not be approved, with the content of its files."""
    denied_in_part: bool = False
    """The proposal has no pending hunks left; some were approved and some denied, possibly in several decisions."""
    on_disk: bool = False
    """The change was on disk before the decision; denied parts were reverted on disk."""
    number: int = 0
    """`LastDecision.number`; 0 if the decision is not counted."""
    origin: ProposalOrigin | None = None
    """Origin of the proposal; None in logs of earlier versions."""


Spoken = UserMessage | UserAnswer | ProposalDecided
"""Events with words of the user for the model, possibly with images."""


class CallDeniedWithFeedback(EventBase):
    """The user denied a tool call with feedback; a denial without feedback has no such event."""

    type: Literal["call_denied"] = "call_denied"
    source: Literal[EventSource.USER] = EventSource.USER
    audience: Literal[Audience.BOTH] = Audience.BOTH
    call: str
    """`ToolCall.uid`."""
    asked: Literal["command", "secret", "changes", "server", "ignored"]
    """`PermissionRequest.kind`."""
    subject: str
    """The command, the path, or the tool of a server; one line."""
    feedback: str


class ProposalChanged(EventBase):
    """A pending proposal was rebased or became stale: files changed, or another proposal was decided."""

    type: Literal["proposal_changed"] = "proposal_changed"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.BOTH, Audience.USER] = Audience.BOTH
    """USER in logs of earlier versions."""
    proposal: str
    state: str
    reason: str = ""


class RequestSent(EventBase):
    """A request was sent to the model."""

    type: Literal["request_sent"] = "request_sent"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.USER] = Audience.USER
    closing: bool = False
    """Whether it is the closing request, which has `tool_choice: "none"`."""
    messages: int = 0
    estimated_tokens: int = 0


class RequestFailed(EventBase):
    """A request failed without a usable response."""

    type: Literal["request_failed"] = "request_failed"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.USER] = Audience.USER
    kind: str
    """`app.llm.failures.request_errors.FailureKind`."""
    message: str
    """One line that says what the user can do."""


class TurnStarted(EventBase):
    """A turn of the model starts after an action of the user; the gate is open."""

    type: Literal["turn_started"] = "turn_started"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.USER] = Audience.USER
    cause: Literal["message", "feedback", "answer", "continue"]


class TurnEnded(EventBase):
    """A turn has ended; the user has control."""

    type: Literal["turn_ended"] = "turn_ended"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.USER] = Audience.USER
    stopped: Literal["answer", "staged", "question", "refused", "aborted", "failed"]
    """`staged`: a proposal waits; `refused`: the model made calls while the gate was closed, which did not run."""
    message: str = ""
    limit: LimitName | None = None
    """The limit that ended the turn."""


class NextActionChosen(EventBase):
    """The next action that a rule (rung) of the ladder chose in a turn, with its facts; for the log only."""

    type: Literal["ladder_move"] = "ladder_move"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.NOBODY] = Audience.NOBODY
    rung: str
    """The value of an `app.agent.ladder.LadderRule`."""
    move: str
    """The next action: `run calls`, `request`, `closing request: staged`."""
    facts: dict[str, str | int] = Field(default_factory=dict)
    """The fields of `app.agent.ladder.NextActionInputs` that are set, without message texts."""

    @property
    def description(self) -> str:
        """Return e.g. `last response → run calls (last calls, steps 3, step_limit 50)`."""
        facts = ", ".join(f"{name} {value}" for name, value in self.facts.items())
        return f"{self.rung} → {self.move} ({facts})"


class HistoryCompacted(EventBase):
    """From here on a summary replaces older history in payloads; the log keeps all events."""

    type: Literal["compacted"] = "compacted"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.BOTH] = Audience.BOTH
    upto: int
    """Id of the last event that the summary replaces."""
    summary: str
    """Empty if history was cut off without a summary (the last resort)."""
    method: Literal["summary", "truncation"]
    tokens_before: int = 0
    tokens_after: int = 0
    usage: TokenUsage | None = None
    """Usage of the request for the summary, also if its response was unusable."""


class ContentPruned(EventBase):
    """From here on payloads leave out the texts of these old tool results and these images."""

    type: Literal["pruned"] = "pruned"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.BOTH] = Audience.BOTH
    results: tuple[int, ...] = ()
    """Ids of `ToolResult` events."""
    images: tuple[int, ...] = ()
    """Ids of events with images."""
    tokens_before: int = 0
    tokens_after: int = 0


class UserNotice(EventBase):
    """One line for the user only (a profile was corrected, a crash was recovered from)."""

    type: Literal["notice"] = "notice"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.USER] = Audience.USER
    text: str
    level: Literal["info", "warning", "error"] = "info"


Event = Annotated[
    UserMessage
    | MessageQueued
    | MessagesDequeued
    | AssistantMessage
    | ToolStarted
    | ToolResult
    | Question
    | UserAnswer
    | Intervention
    | ProposalStaged
    | ProposalDecided
    | CallDeniedWithFeedback
    | ProposalChanged
    | RequestSent
    | RequestFailed
    | TurnStarted
    | TurnEnded
    | NextActionChosen
    | HistoryCompacted
    | ContentPruned
    | SideQuestion
    | SideAnswer
    | UserNotice,
    Field(discriminator="type"),
]
"""Any event of the log."""

EVENT_JSON: TypeAdapter[Event] = TypeAdapter(Event, config=ConfigDict(defer_build=True))
"""Reads and writes events as JSON: `EVENT_JSON.validate_json(line)`, `event.model_dump_json()`."""


def event_images(event: Event) -> tuple[Image, ...]:
    """Return the images of an event, attached by the user or returned by a tool."""
    return event.images if isinstance(event, Spoken | ToolResult) else ()
