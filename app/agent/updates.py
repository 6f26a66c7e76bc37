"""Updates that a running session sends to its subscribers: the screen, and `signoff run`."""

from collections.abc import Hashable, Iterable
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING

from msgspec import Struct

from app.conversation.events import Event
from app.copies import replace

if TYPE_CHECKING:
    from app.tools.base.contract import PermissionRequest


class SessionPhase(StrEnum):
    """What a session does now: idle, requesting, streaming, running tools, retrying, compacting, asking …."""

    IDLE = "idle"
    WAITING = "waiting"
    """The turn waits for a source of tools; the detail names it."""
    REQUESTING = "requesting"
    """The request is sent; no data has arrived."""
    STREAMING = "streaming"
    RUNNING = "running"
    """Tools or checks run."""
    RETRYING = "retrying"
    COMPACTING = "compacting"
    ASKING = "asking"
    """A question waits for the user's answer."""


class EventRecorded(Struct, frozen=True):
    """An event was stored."""

    event: Event


class TextStreamed(Struct, frozen=True):
    """More text of the response being received."""

    text: str


class ReasoningStreamed(Struct, frozen=True):
    """More reasoning of the response being received."""

    text: str


class CallStreamed(Struct, frozen=True):
    """More of a tool call has been received."""

    index: int
    name: str
    characters: int


class StreamDiscarded(Struct, frozen=True):
    """The text streamed since the start of the request is discarded; the request is repeated."""

    reason: str


class PhaseChanged(Struct, frozen=True):
    """The session has entered another phase."""

    phase: SessionPhase
    detail: str = ""
    """For example `read_file app.py` or `rate limited`."""
    until: float = 0.0
    """Monotonic time at which a wait ends, for a countdown; 0 if there is none."""


class GateOpenedOrClosed(Struct, frozen=True):
    """The gate closed or opened."""

    closed: bool


class ProposalsChanged(Struct, frozen=True):
    """These proposals are new or have changed."""

    ids: tuple[str, ...]


class QueuedMessagesChanged(Struct, frozen=True):
    """The queued messages have changed; `texts` are oldest first."""

    texts: tuple[str, ...]


class CommandOutputStreamed(Struct, frozen=True):
    """Live output of a running command."""

    call: str
    text: str


class PermissionRequested(Struct, frozen=True):
    """A tool waits for the user's permission: answer it with `Session.answer_permission_request(key, answer)`."""

    key: str
    call: str
    """The waiting tool call."""
    permission_request: "PermissionRequest"


class PermissionResolved(Struct, frozen=True):
    """The permission request was answered, or its turn has ended."""

    key: str
    call: str


class SideAnswerStreamed(Struct, frozen=True):
    """More text of the answer to a side question."""

    question: str
    """`SideQuestion.uid`."""
    text: str


class SideAnswerDiscarded(Struct, frozen=True):
    """The text streamed for a side answer is discarded."""

    question: str
    over: bool = False
    """The answer has ended and could not be recorded."""


class ChatTemplateCheckFinished(Struct, frozen=True):
    """The test of how the server's chat template places system messages has finished."""

    server: str
    """As in `app.llm.values.requests_and_updates.MessagePlacementChecked`."""
    placement: str
    """Where the chat template puts system messages; empty if unknown."""


class SessionFailed(Struct, frozen=True):
    """The session failed, and no event records it, for example because the store failed."""

    message: str


Update = (
    EventRecorded
    | TextStreamed
    | ReasoningStreamed
    | CallStreamed
    | StreamDiscarded
    | PhaseChanged
    | GateOpenedOrClosed
    | ProposalsChanged
    | QueuedMessagesChanged
    | CommandOutputStreamed
    | PermissionRequested
    | PermissionResolved
    | SideAnswerStreamed
    | SideAnswerDiscarded
    | ChatTemplateCheckFinished
    | SessionFailed
)


SideUpdate = EventRecorded | SideAnswerStreamed | SideAnswerDiscarded
"""Updates about a side question; `EventRecorded` only with `SideQuestion` or `SideAnswer`."""


_TextUpdate = TextStreamed | ReasoningStreamed | CommandOutputStreamed | SideAnswerStreamed


def merge_updates(updates: Iterable[Update]) -> list[Update]:
    """Merge neighbouring updates of the same stream into one."""
    merged: list[Update] = []
    for _, group in groupby(updates, _stream_key):
        *earlier, last = group
        # Each CallStreamed has the total of characters, so the last one is enough.
        if earlier and isinstance(last, _TextUpdate):
            pieces = [update.text for update in (*earlier, last) if isinstance(update, _TextUpdate)]
            last = replace(last, text="".join(pieces))
        merged.append(last)
    return merged


def _stream_key(update: Update) -> Hashable:
    """Return the key of the stream that an update continues; a unique key for any other update."""
    match update:
        case TextStreamed() | ReasoningStreamed():
            return (type(update),)
        case CallStreamed(index=number) | CommandOutputStreamed(call=number):
            return (type(update), number)
        case SideAnswerStreamed(question=question):
            return (type(update), question)
    return id(update)
