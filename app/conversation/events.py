"""The events of a session's log: immutable facts, told apart by their `type`.

An event is written once and never edited. Everything else that signoff shows or sends (the payload of a
request, the transcript, the state of the gate) is computed from the log, so no other copy can disagree with it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from app.conversation.todos import Todo
from app.images.image import Image
from app.llm.values.requests_and_updates import ReceivedCall, TokenUsage
from app.proposals.values.decision_facts import FileStat, HunkOutcome, LineComment
from app.proposals.values.origin import Origin


class EventSource(StrEnum):
    """The author of an event: user, model, tool or program."""

    USER = "user"
    MODEL = "model"
    TOOL = "tool"
    PROGRAM = "program"


class Audience(StrEnum):
    """Who may read an event's text: only a text for both goes into payloads."""

    USER = "user"
    BOTH = "both"
    """The user and the model."""
    NOBODY = "nobody"
    """It is in the log for whoever looks there: no payload and no transcript has it."""


class EventValue(BaseModel):
    """A frozen value inside an event; unknown fields are an error, so that a newer log is noticed."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class EventBase(EventValue):
    """Fields of every event."""

    id: int = 0
    """Position in the store, growing; 0 until the store has taken the event."""
    time: float = 0.0
    """Unix time in seconds; 0 until the store has taken the event."""
    source: EventSource
    audience: Audience

    @property
    def sender_and_receiver(self) -> str:
        """Return sender and receiver, for the user: `signoff → model`."""
        return f"{_NAMES.get(self.source, self.source)} → {_NAMES.get(self.audience, self.audience)}"


_NAMES = {EventSource.PROGRAM: "signoff", Audience.USER: "you", Audience.BOTH: "model"}


class ThreadAnchor(NamedTuple):
    """The proposal, file and hunk that a side thread is about."""

    proposal: str
    path: str
    hunk: str = ""
    """`Hunk.id`; empty for the file as a whole."""


class SideQuestion(EventBase):
    """A question of the user about a hunk, outside the conversation."""

    type: Literal["side_question"] = "side_question"
    source: Literal[EventSource.USER] = EventSource.USER
    audience: Literal[Audience.USER] = Audience.USER
    uid: str
    """The same in the copy that a fork has."""
    proposal: str
    path: str
    hunk: str = ""
    number: int = 0
    """Of the hunk, as the user knows it; 0 where there is none, or none any more."""
    picked: str = ""
    """The lines that the user picked, with their `+`, `-` or space; empty for all of the hunk."""
    text: str

    @property
    def place(self) -> ThreadAnchor:
        """Its thread."""
        return ThreadAnchor(self.proposal, self.path, self.hunk)

    @property
    def subject(self) -> str:
        """Return the subject in words: `hunk 2 of P7 in a.py`."""
        hunk = f"hunk {self.number} of " if self.number else ""
        return f"{'lines of ' if self.picked else ''}{hunk}{self.proposal} in {self.path}"


class SideAnswer(EventBase):
    """The model's answer to a side question, or why there is none."""

    type: Literal["side_answer"] = "side_answer"
    source: Literal[EventSource.MODEL] = EventSource.MODEL
    audience: Literal[Audience.USER] = Audience.USER
    question: str
    """`SideQuestion.uid`."""
    proposal: str
    text: str = ""
    state: Literal["complete", "interrupted", "truncated", "failed"] = "complete"
    note: str = ""
    """A line of the program: what went wrong and how to ask again, or what was ignored."""
    usage: TokenUsage | None = None
    model: str = ""
    duration: float = 0.0
    """Seconds from the request to the end of the stream."""


@dataclass(frozen=True, slots=True)
class SideExchange:
    """A question with its answer, as far as there is one."""

    question: SideQuestion
    answer: SideAnswer | None = None

    @property
    def answer_text(self) -> str:
        """Return the model's answer; empty if there is none."""
        return self.answer.text.strip() if self.answer is not None else ""


def find_side_thread(events: Iterable[EventBase], number: int) -> ThreadAnchor | None:
    """Return the thread of the side question or answer with this id; None for other events."""
    places: dict[str, ThreadAnchor] = {}
    for event in events:
        match event:
            case SideQuestion():
                places[event.uid] = event.place
                if event.id == number:
                    return event.place
            case SideAnswer() if event.id == number:
                return places.get(event.question)
    return None


def collect_side_exchanges(events: Iterable[EventBase]) -> tuple[SideExchange, ...]:
    """Return the side questions with their answers, in the order in which they were asked."""
    asked: dict[str, SideExchange] = {}
    for event in events:
        match event:
            case SideQuestion() if event.uid not in asked:
                asked[event.uid] = SideExchange(event)
            case SideAnswer() if event.question in asked and asked[event.question].answer is None:
                asked[event.question] = SideExchange(asked[event.question].question, event)
    return tuple(asked.values())


class CommandInvocation(EventValue):
    """The custom command that the user called, and its arguments; its text became the message."""

    typed: str
    model: str = ""
    """The model that the command wants for its turn; empty for the one in use."""
    effort: str = ""
    """The same of the reasoning effort."""


class UserMessage(EventBase):
    """A message that the user typed, or the text of a custom command that they called."""

    type: Literal["user_message"] = "user_message"
    source: Literal[EventSource.USER] = EventSource.USER
    audience: Literal[Audience.BOTH] = Audience.BOTH
    text: str
    command: CommandInvocation | None = None
    images: tuple[Image, ...] = ()

    @property
    def typed_text(self) -> str:
        """Return the text as the user typed it."""
        return self.command.typed if self.command else self.text


class MessageQueued(EventBase):
    """A message that the user typed while a turn ran; it is sent as a `UserMessage` after that turn."""

    type: Literal["message_queued"] = "message_queued"
    source: Literal[EventSource.USER] = EventSource.USER
    audience: Literal[Audience.USER] = Audience.USER
    text: str
    command: CommandInvocation | None = None
    images: tuple[Image, ...] = ()

    @property
    def typed_text(self) -> str:
        """Return the text as the user typed it."""
        return self.command.typed if self.command else self.text


class QueueTaken(EventBase):
    """Queued messages left the queue: they were sent, or the user took them back to edit them."""

    type: Literal["queue_taken"] = "queue_taken"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.USER] = Audience.USER
    messages: tuple[int, ...]
    """Ids of `MessageQueued` events."""


class ToolCall(ReceivedCall):
    """One call that the model made."""

    uid: str
    """signoff's own id, unique in the session whatever the server sent (`c12.0`: response 12, first call)."""


class AssistantMessage(EventBase):
    """One response of the model, as far as it came."""

    type: Literal["assistant_message"] = "assistant_message"
    source: Literal[EventSource.MODEL] = EventSource.MODEL
    audience: Literal[Audience.BOTH] = Audience.BOTH
    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    state: Literal["complete", "interrupted", "truncated", "discarded"] = "complete"
    """`interrupted`: the user stopped it; `truncated`: the stream or the length limit cut it;
    `discarded`: an attempt that failed and was repeated, never sent again."""
    usage: TokenUsage | None = None
    endpoint: str = ""
    model: str = ""
    extras: dict[str, Any] = Field(default_factory=dict)
    """Opaque fields echoed to the same endpoint and model only (`reasoning_details`)."""
    duration: float = 0.0
    """Seconds from the request to the end of the stream."""
    unfinished_calls: int = 0
    """Characters of calls that were being written when a limit cut the response; they are not kept."""


class CallOutcome(StrEnum):
    """How a tool call ended."""

    OK = "ok"
    ERROR = "error"
    """The tool could not do it and says why."""
    STAGED = "staged"
    """The edit is part of a proposal; nothing on disk has changed."""
    REFUSED = "refused"
    """The executor did not run it: the gate was closed, or a question stopped the turn."""
    REJECTED = "rejected"
    """The user said no (a command that was not allowed), or nobody could be asked."""
    ABORTED = "aborted"
    """The user interrupted it."""
    INVALID = "invalid"
    """Unknown tool, or arguments that are malformed or were cut off; nothing ran."""


class ToolStarted(EventBase):
    """A call begins to run."""

    type: Literal["tool_started"] = "tool_started"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.USER] = Audience.USER
    call: str
    """`ToolCall.uid`."""


class ToolResult(EventBase):
    """Result of a call; there is at most one per call."""

    type: Literal["tool_result"] = "tool_result"
    source: Literal[EventSource.TOOL] = EventSource.TOOL
    audience: Literal[Audience.BOTH] = Audience.BOTH
    call: str
    """`ToolCall.uid`."""
    outcome: CallOutcome
    text: str
    """What the model reads."""
    summary: str = ""
    """What the user reads in the transcript's one line (`42 lines`, `3 matches in 2 files`)."""
    proposal: str = ""
    """The proposal that a staged edit is part of."""
    reads: dict[str, str] = Field(default_factory=dict)
    """Files that the model saw by this call: workspace path to version (SHA-256 hex)."""
    failed: bool = False
    """It ran, and what it ran failed: a command that did not exit with 0."""
    duration: float = 0.0
    """Seconds, without those that it waited for the user."""
    waited: float = 0.0
    """Seconds that it waited for the user's permission."""
    todos: tuple[Todo, ...] | None = None
    """The model's to-do list from here on; None where the call was not about it."""
    images: tuple[Image, ...] = ()
    """What a tool has answered with besides text."""
    unread: int = 0
    """Lines that waited unread, where the user's reading budget had no room for the call."""


class Question(EventBase):
    """`ask_user`: the model asks, and the turn is over. The answer becomes the result of the call."""

    type: Literal["question"] = "question"
    source: Literal[EventSource.MODEL] = EventSource.MODEL
    audience: Literal[Audience.USER] = Audience.USER
    call: str
    text: str
    options: tuple[str, ...] = ()


class Answer(EventBase):
    """The user's answer to a question."""

    type: Literal["answer"] = "answer"
    source: Literal[EventSource.USER] = EventSource.USER
    audience: Literal[Audience.BOTH] = Audience.BOTH
    call: str
    text: str
    images: tuple[Image, ...] = ()


LimitName = Literal["cost", "time", "steps"]
"""A limit of the user's that can end a turn."""


class InterventionKind(StrEnum):
    """Why the program speaks to the model."""

    STAGED = "staged"
    """An edit was staged: stop and hand control back (the closing request)."""
    PENDING = "pending"
    """What is pending, told when the gate opens again."""
    EMPTY_RESPONSE = "empty_response"
    NO_PROGRESS = "no_progress"
    STEP_LIMIT = "step_limit"
    REPEATED_DENIALS = "repeated_denials"
    FILES_CHANGED = "files_changed"
    """The user changed files since the model read them."""
    TRUNCATED = "truncated"
    """The last response was cut off."""
    UNREAD = "unread"
    """The reading budget has no room for another edit: stop (the closing request)."""
    PLAN = "plan"
    """The model is to plan and to change nothing."""
    LIMIT_NEAR = "limit_near"
    """Most of a limit is used."""
    COST_LIMIT = "cost_limit"
    TIME_LIMIT = "time_limit"
    FACT = "fact"
    """Anything else that happened and the model has to know (an undo, an edit by the user)."""


class Intervention(EventBase):
    """An instruction that the program gives the model: `role: system` on the wire, never `user`."""

    type: Literal["intervention"] = "intervention"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.BOTH] = Audience.BOTH
    kind: InterventionKind
    text: str
    scope: Literal["request", "turn", "lasting"] = "lasting"
    """`request`: in the next request only; `turn`: until this turn ends; `lasting`: stays in the history."""
    files: dict[str, str] = Field(default_factory=dict)
    """For `files_changed`: the files it speaks of, path to the version they have now (empty for a deleted file)."""
    limit: str = ""
    """For `limit_near`: the limit, with its value."""


class ProposalStaged(EventBase):
    """The edits of one step became a proposal."""

    type: Literal["proposal_staged"] = "proposal_staged"
    source: Literal[EventSource.MODEL] = EventSource.MODEL
    audience: Literal[Audience.BOTH, Audience.USER] = Audience.BOTH
    """USER in logs of earlier versions."""
    proposal: str
    summary: str
    files: tuple[FileStat, ...]
    calls: tuple[str, ...]
    """`ToolCall.uid` of the edits in it."""
    supersedes: str = ""
    """The proposal that this one answers the feedback of, if any."""
    origin: Origin | None = None
    """Whose edits they are; None in logs of earlier versions."""
    versions: dict[str, str] = Field(default_factory=dict)
    """What the edits made of files: path to version (SHA-256 hex, empty for a file that they delete or move away)."""


class DecisionKind(StrEnum):
    """The kind of a decision on a proposal."""

    APPROVED = "approved"
    """Everything that was pending in it was written."""
    PARTLY_APPROVED = "partly_approved"
    DENIED = "denied"
    UNDONE = "undone"
    REDONE = "redone"
    REOPENED = "reopened"
    """A denial was taken back: the proposal awaits a decision again."""
    EDITED = "edited"
    """The user changed the proposed text."""


class ProposalDecided(EventBase):
    """The user decided. The facts go to the model as system, the feedback as the user's words."""

    type: Literal["proposal_decided"] = "proposal_decided"
    source: Literal[EventSource.USER] = EventSource.USER
    audience: Literal[Audience.BOTH] = Audience.BOTH
    proposal: str
    decision: DecisionKind
    files: tuple[FileStat, ...] = ()
    hunks: tuple[HunkOutcome, ...] = ()
    """Every hunk of the decision, where it was not the whole proposal."""
    feedback: str = ""
    comments: tuple[LineComment, ...] = ()
    images: tuple[Image, ...] = ()
    """What the user attached to these words."""
    still_pending: bool = False
    """Some hunks of the proposal still await a decision."""
    stale: str = ""
    """Why it could not be approved, with what its files held, where a stale proposal was denied."""
    denied_in_part: bool = False
    """Nothing of the proposal waits any more: some of it was approved, the rest denied, maybe one after the other."""
    on_disk: bool = False
    """It was on disk before it was decided on: what was denied was taken back off the disk."""
    number: int = 0
    """`LastDecision.number`; 0 where it is not counted among the decisions on the proposal."""
    origin: Origin | None = None
    """Where the proposal comes from; None in logs of earlier versions."""


Spoken = UserMessage | Answer | ProposalDecided
"""What the user says to the model, perhaps with images."""


class CallDenied(EventBase):
    """The user's words with a denial of a tool call; a denial without words makes no such event."""

    type: Literal["call_denied"] = "call_denied"
    source: Literal[EventSource.USER] = EventSource.USER
    audience: Literal[Audience.BOTH] = Audience.BOTH
    call: str
    """`ToolCall.uid`."""
    asked: Literal["command", "secret", "changes", "server", "ignored"]
    """`PermissionRequest.kind`."""
    subject: str
    """The command, the path, or the tool of a server: one line."""
    feedback: str


class ProposalChanged(EventBase):
    """A pending proposal was re-based or turned stale, because files changed."""

    type: Literal["proposal_changed"] = "proposal_changed"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.BOTH, Audience.USER] = Audience.BOTH
    """USER in logs of earlier versions."""
    proposal: str
    state: str
    reason: str = ""


class RequestSent(EventBase):
    """A request went out."""

    type: Literal["request_sent"] = "request_sent"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.USER] = Audience.USER
    closing: bool = False
    """True for the closing request, the one with `tool_choice: "none"`."""
    messages: int = 0
    estimated_tokens: int = 0


class RequestFailed(EventBase):
    """A request ended without a usable response."""

    type: Literal["request_failed"] = "request_failed"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.USER] = Audience.USER
    kind: str
    """`app.llm.failures.request_errors.FailureKind`."""
    message: str
    """One line that says what to do."""


class TurnStarted(EventBase):
    """The user did something that starts a turn of the model; the gate is open."""

    type: Literal["turn_started"] = "turn_started"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.USER] = Audience.USER
    cause: Literal["message", "feedback", "answer", "continue"]


class TurnEnded(EventBase):
    """Control is back with the user."""

    type: Literal["turn_ended"] = "turn_ended"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.USER] = Audience.USER
    stopped: Literal["answer", "staged", "question", "refused", "aborted", "failed"]
    """`proposal_staged`: a proposal waits; `refused`: calls came back under a closed gate and did not run."""
    message: str = ""
    limit: LimitName | None = None
    """The limit that has ended it."""


class LadderMove(EventBase):
    """A decision of the ladder in a turn, and the facts that it was based on."""

    type: Literal["ladder_move"] = "ladder_move"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.NOBODY] = Audience.NOBODY
    rung: str
    """The value of an `app.agent.ladder.LadderRung`."""
    move: str
    """What comes next: `run calls`, `request`, `closing request (staged)`."""
    facts: dict[str, str | int] = Field(default_factory=dict)
    """The fields of `app.agent.ladder.LadderState` that are set, without the message texts."""

    @property
    def description(self) -> str:
        """`last response → run calls (last calls, steps 3, step_limit 50)`."""
        facts = ", ".join(f"{name} {value}" for name, value in self.facts.items())
        return f"{self.rung} → {self.move} ({facts})"


class Compacted(EventBase):
    """Older history is represented by a summary from here on; the log itself keeps everything."""

    type: Literal["compacted"] = "compacted"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.BOTH] = Audience.BOTH
    upto: int
    """Id of the last event that the summary stands for."""
    summary: str
    """Empty when history was cut off without one (the last resort)."""
    method: Literal["summary", "truncation"]
    tokens_before: int = 0
    tokens_after: int = 0
    usage: TokenUsage | None = None
    """Of the request for the summary."""


class Pruned(EventBase):
    """The texts of these old tool results, or these images, are left out of payloads from here on."""

    type: Literal["pruned"] = "pruned"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.BOTH] = Audience.BOTH
    results: tuple[int, ...] = ()
    """Ids of `ToolResult` events."""
    images: tuple[int, ...] = ()
    """Ids of events with images."""
    tokens_before: int = 0
    tokens_after: int = 0


class Notice(EventBase):
    """A line for the user alone (a profile was corrected, a crash was recovered from)."""

    type: Literal["notice"] = "notice"
    source: Literal[EventSource.PROGRAM] = EventSource.PROGRAM
    audience: Literal[Audience.USER] = Audience.USER
    text: str
    level: Literal["info", "warning", "error"] = "info"


Event = Annotated[
    UserMessage
    | MessageQueued
    | QueueTaken
    | AssistantMessage
    | ToolStarted
    | ToolResult
    | Question
    | Answer
    | Intervention
    | ProposalStaged
    | ProposalDecided
    | CallDenied
    | ProposalChanged
    | RequestSent
    | RequestFailed
    | TurnStarted
    | TurnEnded
    | LadderMove
    | Compacted
    | Pruned
    | SideQuestion
    | SideAnswer
    | Notice,
    Field(discriminator="type"),
]
"""Any event of the log."""

EVENT_JSON: TypeAdapter[Event] = TypeAdapter(Event, config=ConfigDict(defer_build=True))
"""Reads and writes events as JSON: `EVENT_JSON.validate_json(line)`, `event.model_dump_json()`."""


def event_images(event: Event) -> tuple[Image, ...]:
    """Return the images of an event: the user's, or those of a tool."""
    return event.images if isinstance(event, Spoken | ToolResult) else ()
