"""The decision ladder: what happens next in a turn, as a pure function of a small state.

It is asked before every request and after every response and batch of calls. The rungs, in order: control flow (the
user's stop, an open question, the closed gate, a closing request already made, the limits), room in the context,
a failed request, the finish reason and the shape of what came last. No other code decides.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from app.conversation.events import InterventionKind, LimitName
from app.llm.failures.request_errors import COMPACT

NO_PROGRESS_REPEATS = 3
"""The same call this often in a turn: the model is told."""
NO_PROGRESS_FRUITLESS_STEPS = 4
"""This many steps in a row without any effect: the model is told."""
NO_PROGRESS_PATIENCE = 2
"""After it was told, this many more before the turn is closed."""
NUDGES = 1
"""How many responses in a row that are empty or cut off are answered with a nudge."""


class LastStep(StrEnum):
    """The last thing in the conversation, as far as it matters for the next move."""

    USER = "user"
    """The user's move (a message, an answer, feedback, continue): nothing of the model yet."""
    RESULTS = "results"
    """All calls of the last response have results."""
    CALLS = "calls"
    """Whole calls that have not all been run."""
    CUT_CALLS = "cut_calls"
    """Calls in a response that was cut off: not to be run."""
    TEXT = "text"
    CUT_TEXT = "cut_text"
    EMPTY = "empty"
    REASONING_ONLY = "reasoning_only"
    NO_ROOM = "no_room"
    """Nothing at all because the context was full (`length` without output)."""


@dataclass(frozen=True, slots=True)
class LadderState:
    """Everything on which the decision depends."""

    last: LastStep = LastStep.USER
    aborted: bool = False
    """The user has interrupted, or the program is ending."""
    question_open: bool = False
    """A question of the model waits for the user."""
    gate_closed: bool = False
    unread: int = 0
    """Lines that wait unread, where the gate is closed for them."""
    closing_sent: bool = False
    """This turn's closing request has been made."""
    steps: int = 0
    """Requests made in this turn, without the closing one."""
    step_limit: int = 50
    limit: LimitName | None = None
    """The user's limit that allows no request but the closing one, or not even that."""
    limit_message: str = ""
    closed_by: LimitName | None = None
    """The limit for which the closing request was made."""
    failure: str = ""
    """`app.llm.failures.request_errors.FailureKind` of the last request, if it failed and was not made again."""
    failure_message: str = ""
    room_needed: bool = False
    """By measure, the next request would overflow the context."""
    compacted: bool = False
    """Making room was tried since the last good response, with success or without."""
    finish_reason: str | None = None
    repeats: int = 0
    """How often the most repeated call of the last step was made in this turn."""
    fruitless_steps: int = 0
    no_progress_nudges: int = 0
    empty_nudges: int = 0
    truncated_nudges: int = 0


@dataclass(frozen=True, slots=True)
class EndTurn:
    """The turn is over; control is with the user."""

    stopped: Literal["answer", "staged", "refused", "aborted", "failed"]
    message: str = ""
    """One line for the user, where there is something to say."""
    limit: LimitName | None = None
    """The limit that has ended the turn."""


@dataclass(frozen=True, slots=True)
class WaitForUser:
    """A question is open: the turn is over until the user answers."""


@dataclass(frozen=True, slots=True)
class SendClosingRequest:
    """Send a closing request, in which no tool is allowed, and refuse all calls that are still open."""

    kind: InterventionKind


@dataclass(frozen=True, slots=True)
class CompactContext:
    """Make room in the context, then ask the ladder again."""


@dataclass(frozen=True, slots=True)
class RunCalls:
    """Run the calls of the last response."""


@dataclass(frozen=True, slots=True)
class SendRequest:
    """Ask the model, after the given intervention if any."""

    nudge: InterventionKind | None = None


Action = EndTurn | WaitForUser | SendClosingRequest | CompactContext | RunCalls | SendRequest


class LadderRung(StrEnum):
    """The rule that decided."""

    USER_STOP = "user stop"
    OPEN_QUESTION = "open question"
    CLOSING_REQUEST = "closing request"
    """It was made: whatever came of it, the turn ends."""
    CLOSED_GATE = "closed gate"
    FULL_CONTEXT = "full context"
    FAILED_REQUEST = "failed request"
    LAST_RESPONSE = "last response"
    """Its finish reason and shape, or that the user has the model go on."""
    STEP_LIMIT = "step limit"
    SPENDING_LIMIT = "spending limit"
    """Of cost or time."""
    NO_PROGRESS = "no progress"


@dataclass(frozen=True, slots=True)
class LadderDecision:
    """The next action, and the rung that decided it."""

    rung: LadderRung
    action: Action


def decide(state: LadderState) -> LadderDecision:
    """Return the next move."""
    if (move := _control_flow(state)) is not None:
        return move
    if state.failure == "context_full" or state.last is LastStep.NO_ROOM:
        return _within_limits(state, LadderDecision(LadderRung.FULL_CONTEXT, _no_room(state)))
    if state.failure:
        move = LadderDecision(LadderRung.FAILED_REQUEST, _after_failure(state))
    else:
        move = LadderDecision(LadderRung.LAST_RESPONSE, _by_shape(state))
    return _within_limits(state, _request(state, move, move.action) if isinstance(move.action, SendRequest) else move)


def _control_flow(state: LadderState) -> LadderDecision | None:
    if state.aborted:
        return LadderDecision(LadderRung.USER_STOP, EndTurn("aborted"))
    if state.question_open:
        return LadderDecision(LadderRung.OPEN_QUESTION, WaitForUser())
    if state.closing_sent:
        return LadderDecision(LadderRung.CLOSING_REQUEST, _after_closing(state))
    if state.gate_closed:
        kind = InterventionKind.UNREAD if state.unread else InterventionKind.STAGED
        return LadderDecision(LadderRung.CLOSED_GATE, SendClosingRequest(kind))
    return None


def _within_limits(state: LadderState, move: LadderDecision) -> LadderDecision:
    """Return the move, or the end of the turn where it is a request that a limit of cost or time does not allow."""
    if state.limit is None or not isinstance(move.action, SendRequest | CompactContext):
        return move
    # Where there is no room, a closing request has none either.
    if not state.steps or state.failure == "context_full" or state.last is LastStep.NO_ROOM:
        return LadderDecision(LadderRung.SPENDING_LIMIT, EndTurn("failed", state.limit_message, state.limit))
    kind = InterventionKind.COST_LIMIT if state.limit == "cost" else InterventionKind.TIME_LIMIT
    return LadderDecision(LadderRung.SPENDING_LIMIT, SendClosingRequest(kind))


def _no_room(state: LadderState) -> Action:
    if not state.compacted:
        return CompactContext()
    said = state.failure_message.removesuffix(f" {COMPACT}")
    return EndTurn("failed", f"{_NO_HELP} {said}" if said else _STILL_FULL)


def _after_closing(state: LadderState) -> EndTurn:
    """Stop the turn: there is only one closing request in a turn."""
    limit = state.closed_by
    # An endpoint may answer a call under "none" with an error: the gate has held all the same.
    failed = state.failure not in ("", "tool_use_failed")
    message = state.failure_message if failed else ""
    if not state.failure and state.last in (LastStep.CALLS, LastStep.CUT_CALLS, LastStep.RESULTS):
        return EndTurn("refused", "The model called tools although it was told to stop; they did not run.", limit)
    if state.unread:
        return EndTurn("refused", message or _UNREAD.format(unread=state.unread))
    if state.gate_closed:
        return EndTurn("staged", message)
    if failed:
        return EndTurn("failed", message, limit)
    return EndTurn(
        "answer", (limit and state.limit_message) or "The turn was ended before the model was done.", limit
    )


def _after_failure(state: LadderState) -> Action:
    if state.failure == "tool_use_failed" and state.truncated_nudges < NUDGES:
        return SendRequest(InterventionKind.TRUNCATED)
    return EndTurn("failed", state.failure_message)


def _by_shape(state: LadderState) -> Action:
    action: Action = SendRequest()
    match state.last:
        case LastStep.CALLS:
            action = RunCalls()
        case LastStep.TEXT:
            action = EndTurn("answer")
        case LastStep.CUT_TEXT if state.finish_reason == "content_filter":
            action = EndTurn("answer", "The server's content filter cut the answer.")
        case LastStep.CUT_CALLS | LastStep.CUT_TEXT if state.truncated_nudges < NUDGES:
            action = SendRequest(InterventionKind.TRUNCATED)
        case LastStep.CUT_CALLS | LastStep.CUT_TEXT:
            said = _BROKEN_OFF_AGAIN if state.finish_reason in (None, "error") else _CUT_AGAIN
            action = EndTurn("answer" if state.last is LastStep.CUT_TEXT else "failed", said)
        case LastStep.EMPTY | LastStep.REASONING_ONLY if state.empty_nudges < NUDGES:
            action = SendRequest(InterventionKind.EMPTY_RESPONSE)
        case LastStep.EMPTY | LastStep.REASONING_ONLY:
            action = EndTurn("failed", _EMPTY_AGAIN)
    return action


def _request(state: LadderState, move: LadderDecision, request: SendRequest) -> LadderDecision:
    """Whether the model may be asked once more, and whether there is room to."""
    if state.steps >= state.step_limit:
        return LadderDecision(LadderRung.STEP_LIMIT, SendClosingRequest(InterventionKind.STEP_LIMIT))
    if state.last is LastStep.RESULTS and request.nudge is None:
        stuck = max(state.repeats - NO_PROGRESS_REPEATS, state.fruitless_steps - NO_PROGRESS_FRUITLESS_STEPS)
        if stuck >= NO_PROGRESS_PATIENCE:
            return LadderDecision(LadderRung.NO_PROGRESS, SendClosingRequest(InterventionKind.NO_PROGRESS))
        if stuck >= 0 and state.no_progress_nudges < NUDGES:
            move = LadderDecision(LadderRung.NO_PROGRESS, SendRequest(InterventionKind.NO_PROGRESS))
    if state.room_needed and not state.compacted:
        return LadderDecision(LadderRung.FULL_CONTEXT, CompactContext())
    return move


_NO_HELP = "Making room did not help; start a new session."
_STILL_FULL = "The context is full, and making room did not help. Start a new session."
_CUT_AGAIN = "The response was cut off twice. Raise the output limit, or ask for less at a time."
_BROKEN_OFF_AGAIN = "The response broke off twice: the server or the connection ended it before the model did."
_UNREAD = "The model was stopped: {unread:,} lines wait for you to read."
_EMPTY_AGAIN = "The model returned an empty response twice. Send a message to go on."
