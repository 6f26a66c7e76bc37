"""The decision ladder: decides the next action of a turn, as a pure function of a small state.

The turn calls `choose_action` before each request, after each response and after each batch of calls. The rules, in
order: control flow (the user's stop, an open question, the closed gate, a closing request already sent, the limits),
room in the context, a failed request, the finish reason and shape of the last response. No other code decides.
"""

from enum import StrEnum
from typing import Literal

from msgspec import Struct

from app.conversation.events import InterventionKind, LimitName
from app.text.quantities import format_count

NO_PROGRESS_REPEATS = 3
"""The model is warned after this many identical calls in a turn."""
NO_PROGRESS_FRUITLESS_STEPS = 4
"""The model is warned after this many steps in a row without any effect."""
NO_PROGRESS_PATIENCE = 2
"""The turn is closed after this many more of them following the warning."""
NUDGES = 1
"""Number of empty or truncated responses in a row that are answered with a nudge."""


class LastEntryKind(StrEnum):
    """Kind of the conversation's last entry (user input, results, calls, text, empty …), for `choose_action`."""

    USER = "user"
    """An action of the user (message, answer, feedback, continue); the model has not responded yet."""
    RESULTS = "results"
    """All calls of the last response have results."""
    CALLS = "calls"
    """Complete calls, some of which have not run."""
    CUT_CALLS = "cut_calls"
    """Calls in a truncated response; they must not run."""
    TEXT = "text"
    CUT_TEXT = "cut_text"
    EMPTY = "empty"
    REASONING_ONLY = "reasoning_only"
    NO_ROOM = "no_room"
    """No output because the context was full (`length` without output)."""


class NextActionInputs(Struct, frozen=True):
    """The facts about the turn from which `choose_action` chooses the next action."""

    last: LastEntryKind = LastEntryKind.USER
    aborted: bool = False
    """The user has interrupted, or the program is ending."""
    question_open: bool = False
    """A question of the model waits for the user."""
    gate_closed: bool = False
    unread: int = 0
    """Unread lines because of which the gate is closed; 0 if it has another reason."""
    closing_sent: bool = False
    """The closing request of this turn has been sent."""
    steps: int = 0
    """Requests sent in this turn, without the closing one."""
    step_limit: int = 50
    limit: LimitName | None = None
    """The user's cost or time limit that allows at most the closing request."""
    limit_message: str = ""
    closed_by: LimitName | None = None
    """The limit for which the closing request was sent."""
    failure: str = ""
    """`app.llm.failures.request_errors.FailureKind` of the last request if it failed and was not retried."""
    failure_message: str = ""
    room_needed: bool = False
    """The next request is estimated to overflow the context."""
    compacted: bool = False
    """Compaction was tried since the last good response, successfully or not."""
    finish_reason: str | None = None
    repeats: int = 0
    """Calls in this turn that equal the most repeated call of the last step."""
    fruitless_steps: int = 0
    no_progress_nudges: int = 0
    empty_nudges: int = 0
    truncated_nudges: int = 0


class EndTurn(Struct, frozen=True):
    """End the turn and return control to the user."""

    stopped: Literal["answer", "staged", "refused", "aborted", "failed"]
    message: str = ""
    """One line for the user; may be empty."""
    limit: LimitName | None = None
    """The limit that ended the turn."""


class WaitForAnswer(Struct, frozen=True):
    """End the turn until the user answers the open question."""


class SendClosingRequest(Struct, frozen=True):
    """Send a closing request, which allows no tool calls, and refuse all open calls."""

    kind: InterventionKind


class CompactContext(Struct, frozen=True):
    """Compact the context, then call the ladder again."""


class RunToolCalls(Struct, frozen=True):
    """Run the calls of the last response."""


class SendRequest(Struct, frozen=True):
    """Send a request to the model, after the given intervention if there is one."""

    nudge: InterventionKind | None = None


LadderAction = EndTurn | WaitForAnswer | SendClosingRequest | CompactContext | RunToolCalls | SendRequest


class LadderRule(StrEnum):
    """The rule that made the decision."""

    USER_STOP = "user stop"
    OPEN_QUESTION = "open question"
    CLOSING_REQUEST = "closing request"
    """A closing request was sent; the turn ends, whatever its result."""
    CLOSED_GATE = "closed gate"
    FULL_CONTEXT = "full context"
    FAILED_REQUEST = "failed request"
    LAST_RESPONSE = "last response"
    """Its finish reason and shape; also used when the user continues the turn."""
    STEP_LIMIT = "step limit"
    SPENDING_LIMIT = "spending limit"
    """A limit of cost or time."""
    NO_PROGRESS = "no progress"


class ChosenNextAction(Struct, frozen=True):
    """The next action and the rule that chose it."""

    rung: LadderRule
    action: LadderAction


def choose_action(state: NextActionInputs) -> ChosenNextAction:
    """Return the next action of a turn, and the rule that chose it; a pure function of the state."""
    if (move := _control_flow(state)) is not None:
        return move
    if state.failure == "context_full" or state.last is LastEntryKind.NO_ROOM:
        return _within_limits(state, ChosenNextAction(LadderRule.FULL_CONTEXT, _on_full_context(state)))
    if state.failure:
        move = ChosenNextAction(LadderRule.FAILED_REQUEST, _after_failure(state))
    else:
        move = ChosenNextAction(LadderRule.LAST_RESPONSE, _after_response(state))
    return _within_limits(
        state, _check_request(state, move, move.action) if isinstance(move.action, SendRequest) else move
    )


def _control_flow(state: NextActionInputs) -> ChosenNextAction | None:
    if state.aborted:
        return ChosenNextAction(LadderRule.USER_STOP, EndTurn("aborted"))
    if state.question_open:
        return ChosenNextAction(LadderRule.OPEN_QUESTION, WaitForAnswer())
    if state.closing_sent:
        return ChosenNextAction(LadderRule.CLOSING_REQUEST, _after_closing(state))
    if state.gate_closed:
        kind = InterventionKind.UNREAD if state.unread else InterventionKind.STAGED
        return ChosenNextAction(LadderRule.CLOSED_GATE, SendClosingRequest(kind))
    return None


def _within_limits(state: NextActionInputs, move: ChosenNextAction) -> ChosenNextAction:
    """Return `move`, or the end of the turn if `move` sends a request that a cost or time limit forbids."""
    if state.limit is None or not isinstance(move.action, SendRequest | CompactContext):
        return move
    # If the context is full, a closing request does not fit either.
    if not state.steps or state.failure == "context_full" or state.last is LastEntryKind.NO_ROOM:
        return ChosenNextAction(LadderRule.SPENDING_LIMIT, EndTurn("failed", state.limit_message, state.limit))
    kind = InterventionKind.COST_LIMIT if state.limit == "cost" else InterventionKind.TIME_LIMIT
    return ChosenNextAction(LadderRule.SPENDING_LIMIT, SendClosingRequest(kind))


def _on_full_context(state: NextActionInputs) -> LadderAction:
    if not state.compacted:
        return CompactContext()
    if state.failure_message:
        return EndTurn("failed", f"{_COMPACTION_FAILED_PREFIX} {state.failure_message}")
    return EndTurn("failed", _STILL_FULL_MESSAGE)


def _after_closing(state: NextActionInputs) -> EndTurn:
    """Return the end of the turn; a turn has only one closing request."""
    limit = state.closed_by
    # With tool choice "none", an endpoint may report a tool call as an error: the call did not run.
    failed = state.failure not in ("", "tool_use_failed")
    message = state.failure_message if failed else ""
    called_tools = not state.failure and state.last in (
        LastEntryKind.CALLS,
        LastEntryKind.CUT_CALLS,
        LastEntryKind.RESULTS,
    )
    if called_tools and state.gate_closed:
        return EndTurn("refused", _CALLED_TOOLS_MESSAGE, limit)
    if state.unread:
        return EndTurn("refused", message or _UNREAD_MESSAGE.format(unread=state.unread))
    if state.gate_closed:
        return EndTurn("staged", message)
    reason = _NO_PROGRESS_MESSAGE
    if limit == "steps":
        reason = _STEP_LIMIT_MESSAGE.format(steps=format_count(state.step_limit, "step"))
    elif limit is not None:
        reason = state.limit_message or _LIMIT_MESSAGE.format(limit=limit)
    if called_tools:
        return EndTurn("refused", f"{reason} {_CALLED_TOOLS_MESSAGE}", limit)
    return EndTurn("failed", message, limit) if failed else EndTurn("answer", reason, limit)


def _after_failure(state: NextActionInputs) -> LadderAction:
    if state.failure == "tool_use_failed" and state.truncated_nudges < NUDGES:
        return SendRequest(InterventionKind.TRUNCATED)
    return EndTurn("failed", state.failure_message)


def _after_response(state: NextActionInputs) -> LadderAction:
    action: LadderAction = SendRequest()
    match state.last:
        case LastEntryKind.CALLS:
            action = RunToolCalls()
        case LastEntryKind.TEXT:
            action = EndTurn("answer")
        case LastEntryKind.CUT_TEXT if state.finish_reason == "content_filter":
            action = EndTurn("answer", "The server's content filter cut the answer.")
        case LastEntryKind.CUT_CALLS | LastEntryKind.CUT_TEXT if state.truncated_nudges < NUDGES:
            action = SendRequest(InterventionKind.TRUNCATED)
        case LastEntryKind.CUT_CALLS | LastEntryKind.CUT_TEXT:
            message = _CUT_TWICE_MESSAGES.get(state.finish_reason, _CUT_TWICE_MESSAGE)
            action = EndTurn("answer" if state.last is LastEntryKind.CUT_TEXT else "failed", message)
        case LastEntryKind.EMPTY | LastEntryKind.REASONING_ONLY if state.finish_reason == "content_filter":
            action = EndTurn("failed", "The server's content filter blocked the answer. Ask in other words.")
        case LastEntryKind.EMPTY | LastEntryKind.REASONING_ONLY if state.empty_nudges < NUDGES:
            action = SendRequest(InterventionKind.EMPTY_RESPONSE)
        case LastEntryKind.EMPTY | LastEntryKind.REASONING_ONLY:
            action = EndTurn("failed", _EMPTY_TWICE_MESSAGE)
    return action


def _check_request(state: NextActionInputs, move: ChosenNextAction, request: SendRequest) -> ChosenNextAction:
    """Return `move`, or another decision if the step limit, missing progress or a full context forbids a request."""
    if state.steps >= state.step_limit:
        return ChosenNextAction(LadderRule.STEP_LIMIT, SendClosingRequest(InterventionKind.STEP_LIMIT))
    if state.last is LastEntryKind.RESULTS and request.nudge is None:
        stuck = max(state.repeats - NO_PROGRESS_REPEATS, state.fruitless_steps - NO_PROGRESS_FRUITLESS_STEPS)
        if stuck >= NO_PROGRESS_PATIENCE:
            return ChosenNextAction(LadderRule.NO_PROGRESS, SendClosingRequest(InterventionKind.NO_PROGRESS))
        if stuck >= 0 and state.no_progress_nudges < NUDGES:
            move = ChosenNextAction(LadderRule.NO_PROGRESS, SendRequest(InterventionKind.NO_PROGRESS))
    if state.room_needed and not state.compacted:
        return ChosenNextAction(LadderRule.FULL_CONTEXT, CompactContext())
    return move


_COMPACTION_FAILED_PREFIX = "Making room did not help; start a new session."
_STILL_FULL_MESSAGE = "The context is full, and making room did not help. Start a new session."
_CUT_TWICE_MESSAGE = "The response was cut off twice. Raise the output limit, or ask for less at a time."
_BROKEN_OFF_TWICE_MESSAGE = (
    "The response broke off twice: the server or the connection ended it before the model did."
)
_CUT_TWICE_MESSAGES = {
    None: _BROKEN_OFF_TWICE_MESSAGE,
    "error": _BROKEN_OFF_TWICE_MESSAGE,
    "model_context_window_exceeded": "The response was cut off twice, as the context is full. Start a new session.",
}
"""Messages by finish reason; `_CUT_TWICE_MESSAGE` for all others."""
_CALLED_TOOLS_MESSAGE = "The model called tools although it was told to stop; they did not run."
_NO_PROGRESS_MESSAGE = "The turn was ended because it made no progress."
_STEP_LIMIT_MESSAGE = (
    "The turn has used its {steps}. Go on in a new turn, or raise max_steps (signoff run: --max-steps)."
)
_LIMIT_MESSAGE = "The {limit} limit of the session is reached."
_UNREAD_MESSAGE = "The model was stopped: {unread:,} lines wait for you to read."
_EMPTY_TWICE_MESSAGE = "The model returned an empty response twice. Send a message to go on."
