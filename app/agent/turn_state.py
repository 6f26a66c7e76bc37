"""State of the running turn as a fold over the log: the inputs of the ladder, at constant cost per event."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping

from app.agent.gate import TurnStagingGate
from app.agent.interventions import TurnProgress
from app.agent.ladder import LastEntryKind, NextActionInputs
from app.agent.limits import ReachedLimit
from app.conversation.events import (
    AssistantMessage,
    CallOutcome,
    ContentPruned,
    CustomCommandInvocation,
    Event,
    HistoryCompacted,
    Intervention,
    InterventionKind,
    LimitName,
    ProposalStaged,
    Question,
    RequestFailed,
    RequestSent,
    ToolCall,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UserAnswer,
    UserMessage,
)

_FRUITLESS_OUTCOMES = frozenset(
    {CallOutcome.ERROR, CallOutcome.INVALID, CallOutcome.REFUSED, CallOutcome.REJECTED, CallOutcome.ABORTED}
)
_LIMIT_NAMES: dict[InterventionKind, LimitName] = {
    InterventionKind.COST_LIMIT: "cost",
    InterventionKind.TIME_LIMIT: "time",
    InterventionKind.STEP_LIMIT: "steps",
}
_MAX_CALL_CHARACTERS = 160
"""Maximum number of characters of a call in a message to the model."""
_CUT_REASONS = frozenset({"length", "model_context_window_exceeded"})


def classify_response(message: AssistantMessage) -> LastEntryKind:
    """Return the kind of a response that the ladder distinguishes."""
    cut = message.state == "truncated"
    if message.calls and message.state != "interrupted":
        return LastEntryKind.CUT_CALLS if cut else LastEntryKind.CALLS
    if message.text.strip():
        return LastEntryKind.CUT_TEXT if cut else LastEntryKind.TEXT
    if message.finish_reason in _CUT_REASONS and not message.reasoning.strip():
        return LastEntryKind.NO_ROOM
    return LastEntryKind.REASONING_ONLY if message.reasoning.strip() else LastEntryKind.EMPTY


class TurnState:
    """Fold over the running turn, or the last one if none runs."""

    def __init__(self) -> None:
        self.running = False
        """Whether a turn has started and not ended."""
        self.responses = 0
        """Responses of the model in the whole session, including discarded ones; used to number the call uids."""
        self.open_questions: dict[str, Question] = {}
        """Questions, by call uid, that the user has neither answered nor skipped with a message."""
        self.limit_end = 0
        """Id of the latest event that ended a turn because of a limit."""
        self._reset()

    def _reset(self) -> None:
        self.command: CustomCommandInvocation | None = None
        """The custom command that produced the message that started the turn; the last one if there are several."""
        self.steps = 0
        """Requests sent in this turn, without the closing one."""
        self.closing_sent = False
        self.closed_by: LimitName | None = None
        """The limit because of which the closing request is sent."""
        self.last = LastEntryKind.USER
        self.finish_reason: str | None = None
        self.failure = ""
        self.failure_message = ""
        self.compacted = False
        """The context was compacted since the last good response."""
        self.repeats = 0
        """Calls equal to the most repeated call of the last step, in this turn since the last staged edit."""
        self._repeated_call = ""
        """The call that `repeats` counts."""
        self._last_effect = (0, "")
        """The last step with a successful call that had not succeeded before, and that call."""
        self.fruitless_steps = 0
        """Number of latest consecutive steps in which no call succeeded."""
        self.nudges: Counter[InterventionKind] = Counter()
        """Interventions of this turn by kind; a good response resets some of them."""
        self.last_message: AssistantMessage | None = None
        self._open_calls: set[str] = set()
        self._step_fruitful = False
        self._call_counts: Counter[str] = Counter()
        self._signatures: dict[str, str] = {}
        """Signatures of the last response's calls, by call uid."""
        self._succeeded_calls: set[str] = set()

    @property
    def question(self) -> Question | None:
        """The oldest open question to the user."""
        return next(iter(self.open_questions.values()), None)

    @property
    def unfinished_calls(self) -> tuple[ToolCall, ...]:
        """Calls of the last response without a result, in order."""
        if self.last_message is None:
            return ()
        return tuple(call for call in self.last_message.calls if call.uid in self._open_calls)

    def progress(self, step_limit: int) -> TurnProgress:
        """Return the progress of the turn for messages to the model."""
        step, effect = self._last_effect
        return TurnProgress(
            self.steps,
            step_limit,
            _shorten_call(self._repeated_call),
            self.repeats,
            self.fruitless_steps,
            _shorten_call(effect),
            step,
        )

    def apply(self, event: Event) -> None:
        match event:
            case TurnStarted():
                self._reset()
                self.running = True
            case TurnEnded():
                self.running = False
                self.limit_end = event.id if event.limit else self.limit_end
            case UserMessage():
                self.open_questions.clear()
                self.command = event.command or self.command
            case Question():
                self.open_questions[event.call] = event
            case UserAnswer():
                self.open_questions.pop(event.call, None)
                self._finish_call(event.call, fruitful=True)
            case ToolResult():
                self._finish_call(event.call, fruitful=event.outcome not in _FRUITLESS_OUTCOMES)
            case AssistantMessage():
                self._apply_response(event)
            case _:
                self._apply_rare(event)

    def _apply_rare(self, event: Event) -> None:
        match event:
            case RequestSent():
                self.failure = self.failure_message = ""
                if event.closing:
                    self.closing_sent = True
                    # Reset: the next response answers the closing request.
                    self.last = LastEntryKind.USER
                else:
                    self.steps += 1
            case RequestFailed():
                self.failure, self.failure_message = event.kind, event.message
            case Intervention():
                self.nudges[event.kind] += 1
                self.closed_by = _LIMIT_NAMES.get(event.kind, self.closed_by)
            case ProposalStaged():
                self._call_counts.clear()
                self.nudges.pop(InterventionKind.NO_PROGRESS, None)
            case HistoryCompacted() | ContentPruned():
                self._call_counts.clear()
                self.compacted = True
                if self.failure == "context_full":
                    self.failure = self.failure_message = ""
                if self.last is LastEntryKind.NO_ROOM:
                    self.last = LastEntryKind.USER

    def _apply_response(self, message: AssistantMessage) -> None:
        self.responses += 1
        if message.state == "discarded":
            return
        self.last = classify_response(message)
        self.finish_reason = message.finish_reason
        self.last_message = message
        self._open_calls = {call.uid for call in message.calls} if message.state != "interrupted" else set()
        self._step_fruitful = False
        if self.last is not LastEntryKind.NO_ROOM:
            self.compacted = False
        if self.last in (LastEntryKind.CALLS, LastEntryKind.TEXT):
            self.nudges.pop(InterventionKind.TRUNCATED, None)
            self.nudges.pop(InterventionKind.EMPTY_RESPONSE, None)
        self._signatures = {call.uid: _call_signature(call.name, call.arguments) for call in message.calls}
        self._call_counts.update(self._signatures.values())
        self._repeated_call = max(self._signatures.values(), key=self._call_counts.__getitem__, default="")
        self.repeats = self._call_counts[self._repeated_call]

    def _finish_call(self, call: str, *, fruitful: bool) -> None:
        if call not in self._open_calls:
            return
        self._open_calls.discard(call)
        self._step_fruitful = self._step_fruitful or fruitful
        signature = self._signatures.get(call, "")
        if fruitful and signature not in self._succeeded_calls:
            self._succeeded_calls.add(signature)
            self._last_effect = (self.steps, signature)
        if not self._open_calls:
            if self.last is LastEntryKind.CALLS:
                self.last = LastEntryKind.RESULTS
            self.fruitless_steps = 0 if self._step_fruitful else self.fruitless_steps + 1


def find_oldest_open_question(events: Iterable[Event]) -> Question | None:
    """Return the oldest question in these events that the user has neither answered nor skipped."""
    state = TurnState()
    for event in events:
        state.apply(event)
    return state.question


def make_next_action_inputs(
    turn: TurnState,
    gate: TurnStagingGate,
    *,
    step_limit: int,
    aborted: bool = False,
    room_needed: bool = False,
    compaction_tried: bool = False,
    limit: ReachedLimit | None = None,
) -> NextActionInputs:
    """Return the inputs of the ladder.

    Args:
        compaction_tried: compaction was tried for this request and found nothing to remove (the log has no event of
            that).
        limit: the cost or time limit that allows no further request.
    """
    return NextActionInputs(
        last=turn.last,
        aborted=aborted,
        question_open=bool(turn.open_questions),
        gate_closed=gate.is_closed,
        unread=gate.unread,
        closing_sent=turn.closing_sent,
        steps=turn.steps,
        step_limit=step_limit,
        limit=limit.name if limit else None,
        limit_message=limit.message if limit else "",
        closed_by=turn.closed_by,
        failure=turn.failure,
        failure_message=turn.failure_message,
        room_needed=room_needed,
        compacted=turn.compacted or compaction_tried,
        finish_reason=turn.finish_reason,
        repeats=turn.repeats,
        fruitless_steps=turn.fruitless_steps,
        no_progress_nudges=turn.nudges[InterventionKind.NO_PROGRESS],
        empty_nudges=turn.nudges[InterventionKind.EMPTY_RESPONSE],
        truncated_nudges=turn.nudges[InterventionKind.TRUNCATED],
    )


def _shorten_call(signature: str) -> str:
    return signature if len(signature) <= _MAX_CALL_CHARACTERS else f"{signature[:_MAX_CALL_CHARACTERS]}…"


def _call_signature(name: str, arguments: Mapping[str, object] | None) -> str:
    return f"{name} {json.dumps(arguments, sort_keys=True, default=str)}"
