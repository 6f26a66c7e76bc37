"""One turn: asks the ladder for the next action and carries it out, until the ladder stops the turn.

Every failure (a failed request, a tool that raises, Escape at any time) is recorded in the log. Only errors of the
store and the end of the program leave `Turn.run` as exceptions.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Literal

from msgspec import Struct, field

from app.agent import interventions
from app.agent.context import ContextCompactor
from app.agent.gate import TurnStagingGate
from app.agent.ladder import (
    CompactContext,
    EndTurn,
    LastEntryKind,
    RunToolCalls,
    SendClosingRequest,
    SendRequest,
    WaitForAnswer,
    choose_action,
)
from app.agent.limits import SessionCostAndTimeMeter, TurnBudget
from app.agent.ports import ModelPort, TurnSettings
from app.agent.request_payload import RequestFactory, RequestPayloadCache
from app.agent.tool_call_executor import ToolCallExecutor
from app.agent.trace import make_next_action_event
from app.agent.turn_state import TurnState, make_next_action_inputs
from app.agent.updates import (
    CallStreamed,
    ChatTemplateCheckFinished,
    PhaseChanged,
    ReasoningStreamed,
    SessionPhase,
    StreamDiscarded,
    TextStreamed,
    Update,
)
from app.concurrency import Interrupter, WaitInterrupted
from app.conversation.events import (
    AssistantMessage,
    CallOutcome,
    Event,
    InterventionKind,
    LimitName,
    RequestFailed,
    RequestSent,
    ToolCall,
    ToolResult,
    TurnEnded,
    UserNotice,
)
from app.conversation.log import EventLog
from app.conversation.payload.compaction_plan import is_nearly_full
from app.conversation.payload.tool_calls import ABORTED_BEFORE
from app.llm.failures.request_errors import FailureKind, RequestError
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import (
    AttemptDiscarded,
    CallProgress,
    MessagePlacementChecked,
    Payload,
    ProfileCorrected,
    ReasoningDelta,
    ResponseCompleted,
    RetryScheduled,
    StreamUpdate,
    TextDelta,
)

_STALL_SECONDS = 2.0
"""Seconds without data after which a closing request is cut off if the user has sent the next message."""
_NOTICE_DELAY_SECONDS = 0.3
"""Seconds after which the user is shown what the turn waits for before its first request."""
_REFUSED_BY_SERVER = "The model called a tool although it was told to stop; the server refused the call."

Cause = Literal["message", "feedback", "answer", "continue"]


class _PartialResponse(Struct):
    """The part of a response received so far."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    records: list[Event] = field(default_factory=list)
    """Events to record together with the response: discarded attempts and notices."""
    completed: ResponseCompleted | None = None
    calls: dict[int, int] = field(default_factory=dict)
    """Characters received of each unfinished call, by index."""
    size: int = 0
    """Bytes of text and reasoning, including those of discarded attempts."""
    latest: float = field(default_factory=time.monotonic)
    """Monotonic time of the latest update."""


class ConversationState(Struct, frozen=True):
    """The log of a session, and what is computed from it, as a turn needs it."""

    log: EventLog
    gate: TurnStagingGate
    turn: TurnState
    context: ContextCompactor
    usage: SessionCostAndTimeMeter


class Turn:
    """Runs one turn of a session."""

    def __init__(
        self,
        conversation: ConversationState,
        model: ModelPort,
        executor: ToolCallExecutor,
        requests: RequestFactory,
        settings: Callable[[], TurnSettings],
        interrupter: Interrupter,
        publish: Callable[[Update], None],
    ) -> None:
        self._log = conversation.log
        self._gate = conversation.gate
        self._state = conversation.turn
        self._context = conversation.context
        self._usage = conversation.usage
        self._model = model
        self._executor = executor
        self._tools = executor.tools
        self._requests = requests
        self._settings = settings
        self._interrupter = interrupter
        self._publish = publish
        self._announced_unavailable: set[str] = set()
        """Notes about unavailable tools that the model got in this turn."""
        self._compaction_tried = False
        """Compaction was tried since the last good response, successfully or not."""
        self._first_request_tokens = 0
        """Tokens of the turn's first request; 0 without a cost limit."""

    async def run(self) -> None:
        """Carry out the ladder's decisions until it stops the turn."""
        await self._reload_tools()
        budget = await self._make_budget()
        while True:
            # Tool calls cost nothing: they may run if the closing request is still affordable after them.
            reached = budget.find_reached_limit(before_request=self._state.last is not LastEntryKind.CALLS)
            state = make_next_action_inputs(
                self._state,
                self._gate,
                step_limit=self._settings().max_steps,
                aborted=self._interrupter.is_stopped,
                room_needed=is_nearly_full(self._context.used_tokens, self._model.profile.context_window),
                compaction_tried=self._compaction_tried,
                limit=reached,
            )
            move = choose_action(state)
            self._log.append_deferred(make_next_action_event(state, move))
            match move.action:
                case EndTurn(stopped=stopped, message=message, limit=limit):
                    await self._end(stopped, message, limit)
                    return
                case WaitForAnswer():
                    await self._end("question", "")
                    return
                case SendClosingRequest(kind=kind):
                    await self._send_closing_request(kind)
                case CompactContext():
                    try:
                        await self._make_room(budget)
                    except RequestError as error:
                        await self._log.append(RequestFailed(kind=error.kind, message=str(error)))
                case RunToolCalls():
                    response = self._state.last_message
                    assert response is not None, "calls come with a response"
                    await self._executor.run_calls(response, self._interrupter, self._gate, budget)
                case SendRequest(nudge=kind):
                    if kind is not None:
                        calls_cut = self._state.last is LastEntryKind.CUT_CALLS
                        await self._log.append(
                            interventions.nudge_instruction(
                                kind, calls_cut_off=calls_cut, progress=self._turn_progress
                            )
                        )
                    if notes := [*self._unavailable_tool_events(), *self._limit_warnings(budget)]:
                        await self._log.append(*notes)
                    await self._send_request(budget)

    async def _make_budget(self) -> TurnBudget:
        """Return the budget of the turn; with a cost limit, look up the price of the model."""
        limits, price = self._settings().limits, None
        if limits.max_cost is not None:
            with contextlib.suppress(WaitInterrupted):
                price = await self._interrupter.wait_for(self._model.find_price())
            inputs, events = await self._requests.payload_inputs(self._model), self._log.events_with_audience()
            self._first_request_tokens = await asyncio.to_thread(
                lambda: self._context.count_tokens(self._context.project(events, self._model.profile, inputs))
            )
        return TurnBudget(
            self._usage,
            limits,
            self._model.endpoint.model,
            price,
            lambda: self._context.used_tokens if self._state.steps else self._first_request_tokens,
        )

    def _limit_warnings(self, budget: TurnBudget) -> list[Event]:
        """Return the events that warn the user and the model about limits that are nearly used up."""
        uses = budget.find_newly_near_limits(self._state.steps, self._settings().max_steps)
        return [
            event
            for use in uses
            for event in (
                UserNotice(text=f"Nearly at a limit: {use.description}."),
                interventions.limit_near_note(use),
            )
        ]

    async def _reload_tools(self) -> None:
        """Load the tools that are available now; they do not change until the end of the turn."""

        def publish_waiting() -> None:
            self._publish(PhaseChanged(SessionPhase.WAITING, self._tools.startup_wait_label or "MCP servers"))

        notice_timer = asyncio.get_running_loop().call_later(_NOTICE_DELAY_SECONDS, publish_waiting)
        try:
            with contextlib.suppress(WaitInterrupted):
                await self._interrupter.wait_for(self._tools.reload(self._model.profile.context_window))
        finally:
            notice_timer.cancel()

    def _unavailable_tool_events(self, *, ends: bool = False) -> list[Event]:
        """Return the events about unavailable tools: one for the user, and one for the model in each turn."""
        events: list[Event] = [UserNotice(text=line, level="warning") for line in self._tools.new_notices()]
        sentences = [] if ends else [tool.instruction for tool in self._tools.unavailable if tool.instruction]
        new_sentences = [sentence for sentence in sentences if sentence not in self._announced_unavailable]
        self._announced_unavailable.update(new_sentences)
        return [*events, interventions.unavailable_tools_note(new_sentences)] if new_sentences else events

    async def compact(self) -> None:
        """Compact the context at the user's request."""
        try:
            if not await self._make_room(None) and not self._interrupter.is_stopped:
                await self._log.append(UserNotice(text="There is nothing to compact: the context is small already."))
        except RequestError as error:
            text = f"The older messages stay, as they could not be summarised. {error}"
            await self._log.append(UserNotice(text=text, level="warning"))

    @property
    def _turn_progress(self) -> interventions.TurnProgress:
        return self._state.progress(self._settings().max_steps)

    async def _end(
        self,
        stopped: Literal["answer", "staged", "question", "refused", "aborted", "failed"],
        message: str,
        limit: LimitName | None = None,
    ) -> None:
        aborted = [
            ToolResult(
                call=call.uid, outcome=CallOutcome.ABORTED, text=ABORTED_BEFORE, summary="not run: interrupted"
            )
            for call in self._state.unfinished_calls
            if stopped == "aborted" and call.uid not in self._state.open_questions
        ]
        ended = TurnEnded(stopped=stopped, message=message, limit=limit)
        await self._log.append(*aborted, *self._unavailable_tool_events(ends=True), ended)

    async def _send_closing_request(self, kind: InterventionKind) -> None:
        """Send the closing request, which allows no tool calls, and refuse the calls in the response."""
        gate = self._gate
        await self._log.append(
            interventions.closing_instruction(
                kind, gate.staged_proposals, gate.staged_paths, self._turn_progress, gate.unread
            )
        )
        await self._send_request(None)
        if calls := self._state.unfinished_calls:
            await self._executor.refuse_calls(calls)

    async def _make_room(self, budget: TurnBudget | None) -> bool:
        """Shorten the context and return whether it changed; without a budget, the user has asked for it."""
        self._publish(PhaseChanged(SessionPhase.COMPACTING))
        by_hand = budget is None
        forced = by_hand or bool(self._state.failure) or self._state.last is LastEntryKind.NO_ROOM
        with contextlib.suppress(WaitInterrupted):
            changed = await self._context.make_room(
                self._model,
                self._requests,
                self._interrupter,
                until=budget.wait_for_time_limit if budget is not None else None,
                forced=forced,
                by_hand=by_hand,
            )
            self._compaction_tried = True
            return changed
        return False

    async def _send_request(self, budget: TurnBudget | None) -> None:
        """Send one request and record its outcome; without a budget, send the closing request."""
        closing = budget is None
        request = await self._record_request(closing=closing)
        self._publish(PhaseChanged(SessionPhase.REQUESTING))
        received = _PartialResponse()
        started = time.monotonic()
        try:
            until = budget.wait_for_time_limit if budget is not None else lambda: self._wait_for_stall(received)
            await self._interrupter.wait_for(self._receive(request.build_for_sending, received, budget), until=until)
        except WaitInterrupted:
            cut = not closing and not self._interrupter.is_stopped
            await self._record_message(
                self._partial_message("truncated" if cut else "interrupted", received, started), received
            )
        except RequestError as error:
            if not closing and error.partial is not None and self._executor.has_question(error.partial.calls):
                received.completed = error.partial
                await self._record_response(received, started, closing=False)
            else:
                await self._record_failure(error, received, started, closing=closing)
        else:
            await self._record_response(received, started, closing=closing)

    async def _record_failure(
        self, error: RequestError, received: _PartialResponse, started: float, *, closing: bool
    ) -> None:
        partial = self._partial_message("truncated", received, started)
        failed: Event = RequestFailed(kind=error.kind, message=str(error))
        if closing and error.kind is FailureKind.TOOL_USE_FAILED:
            # Expected in a closing request: the endpoint refused the call before the executor did.
            failed = UserNotice(text=_REFUSED_BY_SERVER)
        await self._log.append(*received.records, *((partial,) if partial else ()), failed)

    async def _record_response(self, received: _PartialResponse, started: float, *, closing: bool) -> None:
        message = self._complete_message(received, started)
        # The calls of a closing response are refused, whether they are truncated or not.
        cut = message.calls if message.state == "truncated" and not closing else ()
        await self._record_message(message, received, *self._executor.truncated_call_results(cut))

    async def _record_request(self, *, closing: bool) -> RequestPayloadCache:
        """Record the next request as sent and return it; its payload has all events before that record."""
        inputs = await self._requests.payload_inputs(self._model, closing=closing)
        events = self._log.events_with_audience()
        request = self._requests.prepare(lambda profile: self._context.project(events, profile, inputs), inputs.model)
        # On a thread, as the payload may be long.
        payload = await asyncio.to_thread(request.payload, self._model.profile)
        tokens = await asyncio.to_thread(self._context.count_tokens, payload)
        record = RequestSent(closing=closing, messages=len(payload.messages), estimated_tokens=tokens)
        (sent,) = await self._log.append(record)
        events_before = self._log.events_with_audience(before=sent.id)
        if len(events_before) > len(events):
            # The user has decided on a proposal while the record was written, here or in another process.
            request = self._requests.prepare(
                lambda profile: self._context.project(events_before, profile, inputs), inputs.model
            )
        return request

    async def _receive(
        self, build: Callable[[EndpointProfile], Payload], received: _PartialResponse, budget: TurnBudget | None
    ) -> None:
        """Receive the response and publish its updates. Write no event: this may be cancelled at any point.

        Raises:
            WaitInterrupted: the response has become longer than the cost limit allows.
        """
        closing = budget is None
        async with contextlib.aclosing(self._model.stream(build, closing=closing)) as updates:
            await self._handle_updates(updates, received, budget)

    async def _handle_updates(
        self, updates: AsyncIterator[StreamUpdate], received: _PartialResponse, budget: TurnBudget | None
    ) -> None:
        streaming, closing = False, budget is None
        async for update in updates:
            received.latest = time.monotonic()
            if not streaming and isinstance(update, TextDelta | ReasoningDelta | CallProgress):
                streaming = True
                self._publish(PhaseChanged(SessionPhase.STREAMING))
            match update:
                case TextDelta(text=text):
                    received.text.append(text)
                    received.size += len(text.encode("utf-8", "replace"))
                    self._publish(TextStreamed(text))
                case ReasoningDelta(text=text):
                    received.reasoning.append(text)
                    received.size += len(text.encode("utf-8", "replace"))
                    self._publish(ReasoningStreamed(text))
                case CallProgress():
                    received.calls[update.index] = update.characters
                    self._publish(CallStreamed(update.index, update.name, update.characters))
                case RetryScheduled():
                    streaming = False
                    until = time.monotonic() + update.delay
                    self._publish(PhaseChanged(SessionPhase.RETRYING, update.reason, until))
                case AttemptDiscarded() if not closing and self._executor.has_question(update.calls):
                    # A question to the user ends the turn: don't repeat the request.
                    received.completed = ResponseCompleted(
                        update.text, "".join(received.reasoning), update.calls, None, True, None, ""
                    )
                    return
                case AttemptDiscarded():
                    self._discard_attempt(update, received)
                case MessagePlacementChecked():
                    self._publish(ChatTemplateCheckFinished(update.server, update.placement or ""))
                case ProfileCorrected():
                    received.records.append(UserNotice(text=update.notice))
                case ResponseCompleted():
                    received.completed = update
                    return
            if budget is not None and not budget.allows_output(received.size + sum(received.calls.values())):
                raise WaitInterrupted

    async def _wait_for_stall(self, received: _PartialResponse) -> None:
        """Return once the user has sent the next message and the closing response has stalled.

        The proposal is already on screen, so the user's message is more important than the rest of the response.
        """
        await self._interrupter.user_input_arrived.wait()
        while True:
            silent_seconds = time.monotonic() - received.latest
            if silent_seconds >= _STALL_SECONDS:
                return
            await asyncio.sleep(_STALL_SECONDS - silent_seconds)

    def _discard_attempt(self, update: AttemptDiscarded, received: _PartialResponse) -> None:
        received.records.append(self._make_message("discarded", "".join(received.text), ""))
        received.text.clear()
        received.reasoning.clear()
        # The provider bills them.
        received.size += sum(received.calls.values())
        received.calls.clear()
        self._publish(StreamDiscarded(update.reason))

    def _partial_message(
        self, state: Literal["interrupted", "truncated"], received: _PartialResponse, started: float
    ) -> AssistantMessage | None:
        """Return the received part of an unfinished response; None if nothing was received."""
        text, reasoning = "".join(received.text), "".join(received.reasoning)
        calls = sum(received.calls.values()) if state == "truncated" else 0
        if not text and not reasoning and not calls:
            return None
        message = self._make_message(state, text, reasoning)
        return message.model_copy(update={"duration": time.monotonic() - started, "unfinished_calls": calls})

    def _complete_message(self, received: _PartialResponse, started: float) -> AssistantMessage:
        completed = received.completed
        assert completed is not None, "a stream ends with ResponseCompleted or raises"
        number = self._state.responses + sum(isinstance(record, AssistantMessage) for record in received.records) + 1
        calls = tuple(
            ToolCall(uid=f"c{number}.{position}", **dict(call)) for position, call in enumerate(completed.calls)
        )
        return AssistantMessage(
            text=completed.text,
            reasoning=completed.reasoning,
            calls=calls,
            finish_reason=completed.finish_reason,
            state="truncated" if completed.truncated else "complete",
            usage=completed.usage,
            endpoint=self._model.endpoint.base_url,
            # Not the dated alias that some servers return: opaque fields are sent back only to this model name.
            model=self._model.endpoint.model,
            extras=completed.extras,
            duration=time.monotonic() - started,
        )

    def _make_message(
        self, state: Literal["interrupted", "truncated", "discarded"], text: str, reasoning: str
    ) -> AssistantMessage:
        endpoint = self._model.endpoint
        return AssistantMessage(
            text=text, reasoning=reasoning, state=state, endpoint=endpoint.base_url, model=endpoint.model
        )

    async def _record_message(
        self, message: AssistantMessage | None, received: _PartialResponse, *more: Event
    ) -> None:
        await self._log.append(*received.records, *((message,) if message else ()), *more)
        self._compaction_tried = self._compaction_tried and message is None
