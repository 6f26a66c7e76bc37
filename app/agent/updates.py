"""Updates that a running session sends to its subscribers: the screen, and `signoff run`."""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING

from app.conversation.events import Event

if TYPE_CHECKING:
    from app.tools.base.contract import PermissionRequest


class SessionPhase(StrEnum):
    """Phases of a session."""

    IDLE = "idle"
    WAITING = "waiting"
    """Something that tools come from is waited for; the detail names it."""
    REQUESTING = "requesting"
    """The request is out, nothing has come back."""
    STREAMING = "streaming"
    RUNNING = "running"
    """Tools run."""
    RETRYING = "retrying"
    COMPACTING = "compacting"
    ASKING = "asking"
    """A question waits for its answer."""


@dataclass(frozen=True, slots=True)
class EventRecorded:
    """An event is on disk."""

    event: Event


@dataclass(frozen=True, slots=True)
class TextStreamed:
    """More of the answer that is being written."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningStreamed:
    """More of the reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStreamed:
    """A tool call is being written."""

    index: int
    name: str
    characters: int


@dataclass(frozen=True, slots=True)
class StreamDiscarded:
    """The text streamed since the request began is discarded; the request is repeated."""

    reason: str


@dataclass(frozen=True, slots=True)
class PhaseChanged:
    """The session has entered another phase."""

    phase: SessionPhase
    detail: str = ""
    """`read_file app.py`, `rate limited`."""
    until: float = 0.0
    """Monotonic time at which a wait ends, for a count-down; 0 if there is none."""


@dataclass(frozen=True, slots=True)
class GateChanged:
    """The gate closed or opened."""

    closed: bool


@dataclass(frozen=True, slots=True)
class ProposalsChanged:
    """These proposals are new or different."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class QueueChanged:
    """Messages that wait for the turn to end, oldest first."""

    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommandOutput:
    """Live output of a running command."""

    call: str
    text: str


@dataclass(frozen=True, slots=True)
class PermissionRequested:
    """A tool waits for the user's permission: answer with `Session.answer_permission_request(key, answer)`."""

    key: str
    call: str
    """The tool call that waits."""
    permission_request: "PermissionRequest"


@dataclass(frozen=True, slots=True)
class PermissionResolved:
    """The request was answered, or its turn is over."""

    key: str
    call: str


@dataclass(frozen=True, slots=True)
class SideAnswerStreamed:
    """More of the answer to a side question."""

    question: str
    """`SideQuestion.uid`."""
    text: str


@dataclass(frozen=True, slots=True)
class SideAnswerDiscarded:
    """The text streamed for a side answer is discarded."""

    question: str
    over: bool = False
    """Nothing more comes, and nothing of it could be kept."""


@dataclass(frozen=True, slots=True)
class TemplateCheckFinished:
    """The chat template of the server was checked by letting it render conversations."""

    server: str
    """As in `app.llm.values.requests_and_updates.ChatTemplateChecked`."""
    placement: str
    """Where its chat template keeps system messages; empty if that could not be told."""


@dataclass(frozen=True, slots=True)
class SessionFailed:
    """A failure that no event records, such as a store that cannot be written."""

    message: str


Update = (
    EventRecorded
    | TextStreamed
    | ReasoningStreamed
    | CallStreamed
    | StreamDiscarded
    | PhaseChanged
    | GateChanged
    | ProposalsChanged
    | QueueChanged
    | CommandOutput
    | PermissionRequested
    | PermissionResolved
    | SideAnswerStreamed
    | SideAnswerDiscarded
    | TemplateCheckFinished
    | SessionFailed
)


SideUpdate = EventRecorded | SideAnswerStreamed | SideAnswerDiscarded
"""What there is to tell of a side question; `EventRecorded` with an event of it."""


def merge_updates(updates: Iterable[Update]) -> list[Update]:
    """Merge neighbouring pieces of the same stream."""
    together: list[Update] = []
    for _, group in groupby(updates, _stream):
        pieces = list(group)
        match pieces[-1]:
            case TextStreamed() if len(pieces) > 1:
                together.append(TextStreamed(_text(pieces)))
            case ReasoningStreamed() if len(pieces) > 1:
                together.append(ReasoningStreamed(_text(pieces)))
            case SideAnswerStreamed(question=question) if len(pieces) > 1:
                together.append(SideAnswerStreamed(question, _text(pieces)))
            case CommandOutput(call=call) if len(pieces) > 1:
                together.append(CommandOutput(call, _text(pieces)))
            case last:
                # Of a call that is being written, each piece says how much of it there is by now.
                together.append(last)
    return together


def _stream(update: Update) -> Hashable:
    """Return the key of the stream that an update continues; a unique one for an update that stands alone."""
    match update:
        case TextStreamed() | ReasoningStreamed():
            return (type(update),)
        case CallStreamed(index=number) | CommandOutput(call=number):
            return (type(update), number)
        case SideAnswerStreamed(question=question):
            return (type(update), question)
    return id(update)


def _text(pieces: Iterable[Update]) -> str:
    streamed = (TextStreamed, ReasoningStreamed, CommandOutput, SideAnswerStreamed)
    return "".join([one.text for one in pieces if isinstance(one, streamed)])
