"""State of the running turn as a fold over the log: the facts that the ladder needs, at constant cost per event."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping

from app.agent.gate import Gate
from app.agent.interventions import TurnProgress
from app.agent.ladder import LadderState, LastStep
from app.agent.limits import ReachedLimit
from app.conversation.events import (
    Answer,
    AssistantMessage,
    CallOutcome,
    CommandInvocation,
    Compacted,
    Event,
    Intervention,
    InterventionKind,
    LimitName,
    ProposalStaged,
    Pruned,
    Question,
    RequestFailed,
    RequestSent,
    ToolCall,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UserMessage,
)

_FRUITLESS = frozenset(
    {CallOutcome.ERROR, CallOutcome.INVALID, CallOutcome.REFUSED, CallOutcome.REJECTED, CallOutcome.ABORTED}
)
_LIMITS: dict[InterventionKind, LimitName] = {
    InterventionKind.COST_LIMIT: "cost",
    InterventionKind.TIME_LIMIT: "time",
    InterventionKind.STEP_LIMIT: "steps",
}
_LONGEST_CALL = 160
"""Characters of a call as the model is reminded of it."""
_CUT_REASONS = frozenset({"length", "model_context_window_exceeded"})


def classify_response(message: AssistantMessage) -> LastStep:
    """Return the shape of a response as the ladder distinguishes them."""
    cut = message.state == "truncated"
    if message.calls and message.state != "interrupted":
        return LastStep.CUT_CALLS if cut else LastStep.CALLS
    if message.text.strip():
        return LastStep.CUT_TEXT if cut else LastStep.TEXT
    if message.finish_reason in _CUT_REASONS and not message.reasoning.strip():
        return LastStep.NO_ROOM
    return LastStep.REASONING_ONLY if message.reasoning.strip() else LastStep.EMPTY


class TurnState:
    """Fold: the running turn, or the last one."""

    def __init__(self) -> None:
        self.running = False
        """Whether a turn has started and not ended."""
        self.responses = 0
        """Responses of the model in the whole session, discarded ones too; numbers the call uids."""
        self.open_questions: dict[str, Question] = {}
        """Questions by their call's uid that the user has neither answered nor passed over with a message."""
        self.limit_end = 0
        """Id of the latest event that ended a turn for a limit of the user's."""
        self._reset()

    def _reset(self) -> None:
        self.command: CommandInvocation | None = None
        """The command of the user's own, the last if there are several, whose message began the turn."""
        self.steps = 0
        """Requests sent in this turn, without the closing one."""
        self.closing_sent = False
        self.closed_by: LimitName | None = None
        """The limit for which the closing request is made."""
        self.last = LastStep.USER
        self.finish_reason: str | None = None
        self.failure = ""
        self.failure_message = ""
        self.compacted = False
        """Room was made since the last good response."""
        self.repeats = 0
        """How often the most repeated call of the last step was made in this turn, since an edit was staged."""
        self._repeated = ""
        """That call."""
        self._effect = (0, "")
        """The last step that brought anything new, and by which call."""
        self.fruitless_steps = 0
        """Steps in a row in which no call achieved anything."""
        self.nudges: Counter[InterventionKind] = Counter()
        """Interventions of this turn, by kind, since the last response that was as it should be."""
        self.last_message: AssistantMessage | None = None
        self._open_calls: set[str] = set()
        self._fruitful = False
        self._made: Counter[str] = Counter()
        self._signatures: dict[str, str] = {}
        """Those of the last response's calls, by their uids."""
        self._succeeded: set[str] = set()

    @property
    def question(self) -> Question | None:
        """The oldest question that waits for the user."""
        return next(iter(self.open_questions.values()), None)

    @property
    def unfinished_calls(self) -> tuple[ToolCall, ...]:
        """Calls of the last response without a result, in order."""
        if self.last_message is None:
            return ()
        return tuple(call for call in self.last_message.calls if call.uid in self._open_calls)

    def progress(self, step_limit: int) -> TurnProgress:
        """Return the progress report for the model at the step limit of a turn."""
        step, effect = self._effect
        return TurnProgress(
            self.steps,
            step_limit,
            _shortened(self._repeated),
            self.repeats,
            self.fruitless_steps,
            _shortened(effect),
            step,
        )

    def apply(self, event: Event) -> None:
        """Update the state from the next event."""
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
            case Answer():
                self.open_questions.pop(event.call, None)
                self._finished(event.call, fruitful=True)
            case ToolResult():
                self._finished(event.call, fruitful=event.outcome not in _FRUITLESS)
            case AssistantMessage():
                self._response(event)
            case _:
                self._apply_rare(event)

    def _apply_rare(self, event: Event) -> None:
        match event:
            case RequestSent():
                self.failure = self.failure_message = ""
                if event.closing:
                    self.closing_sent = True
                    # What came before it has been dealt with; whatever comes now is its answer.
                    self.last = LastStep.USER
                else:
                    self.steps += 1
            case RequestFailed():
                self.failure, self.failure_message = event.kind, event.message
            case Intervention():
                self.nudges[event.kind] += 1
                self.closed_by = _LIMITS.get(event.kind, self.closed_by)
            case ProposalStaged():
                self._made.clear()
                self.nudges.pop(InterventionKind.NO_PROGRESS, None)
            case Compacted() | Pruned():
                self._made.clear()
                self.compacted = True
                if self.failure == "context_full":
                    self.failure = self.failure_message = ""
                if self.last is LastStep.NO_ROOM:
                    self.last = LastStep.USER

    def _response(self, message: AssistantMessage) -> None:
        self.responses += 1
        if message.state == "discarded":
            return
        self.last = classify_response(message)
        self.finish_reason = message.finish_reason
        self.last_message = message
        self._open_calls = {call.uid for call in message.calls} if message.state != "interrupted" else set()
        self._fruitful = False
        if self.last is not LastStep.NO_ROOM:
            self.compacted = False
        if self.last in (LastStep.CALLS, LastStep.TEXT):
            self.nudges.pop(InterventionKind.TRUNCATED, None)
            self.nudges.pop(InterventionKind.EMPTY_RESPONSE, None)
        self._signatures = {call.uid: _signature(call.name, call.arguments) for call in message.calls}
        self._made.update(self._signatures.values())
        self._repeated = max(self._signatures.values(), key=self._made.__getitem__, default="")
        self.repeats = self._made[self._repeated]

    def _finished(self, call: str, *, fruitful: bool) -> None:
        if call not in self._open_calls:
            return
        self._open_calls.discard(call)
        self._fruitful = self._fruitful or fruitful
        signature = self._signatures.get(call, "")
        if fruitful and signature not in self._succeeded:
            self._succeeded.add(signature)
            self._effect = (self.steps, signature)
        if not self._open_calls:
            if self.last is LastStep.CALLS:
                self.last = LastStep.RESULTS
            self.fruitless_steps = 0 if self._fruitful else self.fruitless_steps + 1


def open_question(events: Iterable[Event]) -> Question | None:
    """Return the oldest question in these events that the user has neither answered nor passed over."""
    state = TurnState()
    for event in events:
        state.apply(event)
    return state.question


def make_ladder_state(
    turn: TurnState,
    gate: Gate,
    *,
    step_limit: int,
    aborted: bool = False,
    room_needed: bool = False,
    compaction_tried: bool = False,
    limit: ReachedLimit | None = None,
) -> LadderState:
    """Return the state on which the ladder decides.

    Args:
        compaction_tried: making room was tried for this very request and found nothing to remove, which leaves no
            event in the log.
        limit: the limit of cost or time that allows no further request.
    """
    return LadderState(
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


def _shortened(signature: str) -> str:
    return signature if len(signature) <= _LONGEST_CALL else f"{signature[:_LONGEST_CALL]}…"


def _signature(name: str, arguments: Mapping[str, object] | None) -> str:
    return f"{name} {json.dumps(arguments, sort_keys=True, default=str)}"
