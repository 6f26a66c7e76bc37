"""Runs the turns of a session one at a time, also if several callers start one at once."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from app.agent.gate import UnansweredFeedback
from app.agent.ports import TurnClaim
from app.agent.turn import Cause, Turn
from app.agent.turn_state import TurnState
from app.agent.updates import PhaseChanged, QueuedMessagesChanged, SessionFailed, SessionPhase, Update
from app.concurrency import Interrupter
from app.conversation.events import (
    CustomCommandInvocation,
    Event,
    MessageQueued,
    MessagesDequeued,
    ProposalDecided,
    Question,
    TurnEnded,
    TurnStarted,
    UserAnswer,
    UserMessage,
)
from app.conversation.log import EventLog
from app.images.image import Image


class MessageQueue:
    """Fold over the queued messages, oldest first; they are in the log, so they survive any exit."""

    def __init__(self) -> None:
        self._queued: dict[int, MessageQueued] = {}
        self._withdrawn: set[int] = set()
        """Ids of messages returned to the user, whose removal is not recorded yet."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The messages as the user typed them, oldest first."""
        return tuple(message.typed_text for number, message in self._queued.items() if number not in self._withdrawn)

    def message_events(self) -> tuple[Event, ...]:
        """Return the events that send all queued messages."""
        queued = {number: message for number, message in self._queued.items() if number not in self._withdrawn}
        if not queued:
            return ()
        messages = (
            UserMessage(text=message.text, command=message.command, images=message.images)
            for message in queued.values()
        )
        return (MessagesDequeued(messages=tuple(queued)), *messages)

    def take_back(self) -> tuple[str, ...]:
        """Remove all messages from the queue and return their texts to the user."""
        texts = self.texts
        self._withdrawn.update(self._queued)
        return texts

    def withdrawal_event(self) -> MessagesDequeued | None:
        """Return the event that records the removal by `take_back`; None if there is nothing to record."""
        return MessagesDequeued(messages=tuple(sorted(self._withdrawn))) if self._withdrawn else None

    def apply(self, event: Event) -> None:
        match event:
            case MessageQueued():
                self._queued[event.id] = event
            case MessagesDequeued():
                for number in event.messages:
                    self._queued.pop(number, None)
                    self._withdrawn.discard(number)


class SessionOpenElsewhere(Exception):
    """Another process runs the turns of this session; the message is one line that says what to do."""


class _UserInputWatcher:
    """Fold that calls `on_input` for each queued message and decision of the user, from any process."""

    def __init__(self, on_input: Callable[[], None]) -> None:
        self._on_input = on_input

    def apply(self, event: Event) -> None:
        if isinstance(event, MessageQueued | ProposalDecided):
            self._on_input()


class TurnScheduler:
    """Starts the turns of a session one at a time, queues messages meanwhile, and interrupts the running turn.

    All turn starts are serialised by the lock `_start_lock`; preconditions are checked again while it is held.

    Args:
        compose_interventions: Composes the program's messages to the model at the start of a turn.
        on_claimed: Called when this process has acquired the claim: then no turn runs, whatever the log says.
    """

    def __init__(
        self,
        log: EventLog,
        claim: TurnClaim,
        make_turn: Callable[[Interrupter], Turn],
        compose_interventions: Callable[[Sequence[Event]], Awaitable[Sequence[Event]]],
        publish: Callable[[Update], None],
        on_claimed: Callable[[], None],
    ) -> None:
        self._log = log
        self._claim = claim
        self._make_turn = make_turn
        self._compose_interventions = compose_interventions
        self._publish = publish
        self._on_claimed = on_claimed
        self.state = log.attach(TurnState())
        """The running turn, or the last one."""
        self.feedback = log.attach(UnansweredFeedback())
        """The denials whose feedback no request has contained yet."""
        self._queue = log.attach(MessageQueue())
        self._opening_event_id = log.last_id
        self._start_lock = asyncio.Lock()
        self._interrupter = Interrupter()
        log.attach(_UserInputWatcher(lambda: self._interrupter.user_input_arrived.set()))
        self._is_starting = False
        self._continue_requested = False
        """The user wants the model to continue after the running turn."""
        self._turn: asyncio.Task[None] | None = None
        self._follow_up_tasks: set[asyncio.Task[None]] = set()
        self._is_closing = False

    @property
    def is_busy(self) -> bool:
        """Return whether a turn runs in this process."""
        return self._is_starting or (self._turn is not None and not self._turn.done())

    @property
    def question(self) -> Question | None:
        """The oldest question to the user without an answer."""
        return self.state.question

    @property
    def queue(self) -> tuple[str, ...]:
        """Messages that wait for the end of the turn, oldest first."""
        return self._queue.texts

    # Claim

    async def claim_turns(self) -> bool:
        """Return whether turns may run in this process; take over the claim of a process that has ended."""
        if self._claim.is_held or self._is_closing:
            return True
        if not await asyncio.to_thread(self._claim.acquire):
            return False
        await self._log.load_external_events()
        self._on_claimed()
        return True

    # Start of a turn

    async def send_message(
        self, text: str, command: CustomCommandInvocation | None = None, images: Sequence[Image] = ()
    ) -> None:
        """Handle a message: answer the open question, queue it while a turn runs, or start a turn.

        Args:
            command: the custom command that produced the message.
        """
        await self._require_claim()
        if self.question is not None:
            await self.answer(text, images=images)
            return
        async with self._start_lock:
            await self._handle_message(text, command, images)

    async def answer(self, text: str, call: str = "", images: Sequence[Image] = ()) -> None:
        """Answer the oldest open question, or the question of this call.

        If the question is already answered, the text is handled as a message; an identical answer is ignored.
        """
        await self._require_claim()
        call = call or (self.question.call if self.question else "")
        while not await self._try_answer(text, call, images):
            # The turn that asked has not ended yet: answer after its end.
            await self.wait_until_idle()

    async def continue_turn(self) -> None:
        """Let the model continue without a message, after the running turn; do nothing while a question is open."""
        await self._require_claim()
        async with self._start_lock:
            if self.is_busy:
                self._continue_requested = True
                self._interrupter.user_input_arrived.set()
            elif not self._is_closing and self.question is None:
                await self._continue()

    async def compact(self) -> None:
        """Compact the context now; do nothing while a turn runs."""
        await self._require_claim()
        async with self._start_lock:
            if not self.is_busy and not self._is_closing:
                self._interrupter = Interrupter()
                self._start_task(lambda turn: turn.compact())

    async def record_decision(self, event: Event, *, has_feedback: bool) -> None:
        """Record a decision; if it `has_feedback` and no turn runs, start a turn."""
        may_begin = has_feedback and await self.claim_turns()
        async with self._start_lock:
            if may_begin and not self.is_busy and self.question is None:
                await self._begin_turn("feedback", event)
            else:
                await self._log.append(event)

    async def deliver_feedback(self) -> None:
        """Start a turn for feedback that another process recorded since the session was opened."""
        if not self._has_new_feedback or not await self.claim_turns():
            return
        async with self._start_lock:
            if self._has_new_feedback and not self.is_busy and self.question is None:
                await self._begin_turn("feedback")

    # End of a turn

    def interrupt(self) -> tuple[str, ...]:
        """Stop the turn at once; return the queued messages."""
        self._continue_requested = False
        if self.is_busy:
            self._interrupter.stop()
        return self.take_back_queue()

    def take_back_queue(self) -> tuple[str, ...]:
        """Empty the queue and return its messages. They stay on disk until `confirm_queue_taken`."""
        if not self._claim.is_held:
            return ()
        texts = self._queue.take_back()
        if texts:
            self._publish(QueuedMessagesChanged(()))
        return texts

    async def confirm_queue_taken(self) -> None:
        """Record that the taken messages have left the queue; call it when the composer has stored them."""
        if (event := self._queue.withdrawal_event()) is not None:
            await self._log.append(event)

    async def wait_until_idle(self) -> None:
        """Wait until no turn runs."""
        while running := [
            task for task in (self._turn, *self._follow_up_tasks) if task is not None and not task.done()
        ]:
            await asyncio.wait(running)

    async def close(self) -> None:
        """Stop the running turn and wait until its events are stored; queued messages stay queued."""
        self._is_closing = True
        if self.is_busy:
            self._interrupter.stop()
        async with self._start_lock:
            # Wait for callers that hold the lock; later ones see `_is_closing`.
            pass
        await self.wait_until_idle()
        self._claim.release()

    # Called while `_start_lock` is held, except `_require_claim` and `_try_answer`

    async def _require_claim(self) -> None:
        if not await self.claim_turns():
            raise SessionOpenElsewhere(
                "This session is open in another window, which alone can go on with it. Go on there, or /fork to go "
                "on with a copy; once it is closed there, you can go on here."
            )

    async def _try_answer(self, text: str, call: str, images: Sequence[Image]) -> bool:
        """Handle an answer; return False if it must wait for the end of the turn that asked."""
        async with self._start_lock:
            if call not in self.state.open_questions:
                if not self._has_same_answer(call, text):
                    await self._handle_message(text, images=images)
                return True
            if self.is_busy:
                return False
            await self._begin_turn("answer", UserAnswer(call=call, text=text, images=tuple(images)))
            return True

    async def _handle_message(
        self, text: str, command: CustomCommandInvocation | None = None, images: Sequence[Image] = ()
    ) -> None:
        attached = tuple(images)
        if self.is_busy or self._is_closing:
            await self._log.append(MessageQueued(text=text, command=command, images=attached))
        elif (question := self.question) is not None:
            await self._begin_turn("answer", UserAnswer(call=question.call, text=text, images=attached))
        else:
            message = UserMessage(text=text, command=command, images=attached)
            await self._begin_turn("message", *self._queue.message_events(), message)

    async def _begin_turn(self, cause: Cause, *events: Event) -> None:
        """Open the gate and start a turn; store the user's events and the messages to the model in one batch."""
        if self._is_closing:
            await self._log.append(*events)
            return
        self._is_starting, self._continue_requested = True, False
        self._interrupter = Interrupter()
        try:
            interventions = await self._compose_interventions(events)
            await self._log.append(TurnStarted(cause=cause), *interventions, *events)
            # The events that start the turn must not count as messages that arrive during it.
            self._interrupter.user_input_arrived.clear()
            self._start_task(lambda turn: turn.run())
        finally:
            self._is_starting = False

    async def _continue(self) -> None:
        """Start a turn with the queued messages; if there are none, let the model continue."""
        queued = self._queue.message_events()
        await self._begin_turn("message" if queued else "continue", *queued)

    def _start_task(self, work: Callable[[Turn], Coroutine[Any, Any, None]]) -> None:
        self._turn = asyncio.create_task(self._run_turn(work(self._make_turn(self._interrupter))), name="turn")

    async def _run_turn(self, work: Coroutine[Any, Any, None]) -> None:
        failed = False
        try:
            await work
        except Exception as error:
            failed = True
            await self._record_failed_turn(error)
        finally:
            self._publish(PhaseChanged(SessionPhase.ASKING if self.question else SessionPhase.IDLE))
            if not self._is_closing:
                # After an error, a turn for feedback would fail again in the same way.
                use_feedback = not failed and not self._interrupter.is_stopped
                follow_up = asyncio.create_task(
                    self._start_follow_up(asyncio.current_task(), use_feedback=use_feedback)
                )
                self._follow_up_tasks.add(follow_up)
                follow_up.add_done_callback(self._follow_up_tasks.discard)

    async def _record_failed_turn(self, error: Exception) -> None:
        """Record the end of a turn after an error of the store or a defect; if that fails, publish the error."""
        message = f"The turn ended early: {error or type(error).__name__}"
        try:
            if self.state.running:
                await self._log.append(TurnEnded(stopped="failed", message=message))
                return
        except Exception:
            # The store still fails.
            pass
        self._publish(SessionFailed(message))

    async def _start_follow_up(self, ended: asyncio.Task[Any] | None, *, use_feedback: bool) -> None:
        """Start the next turn after one has ended: with feedback given during it, else with queued messages.

        Args:
            use_feedback: whether feedback may start a turn; False if the user stopped the ended turn or it failed.
        """
        try:
            if ended is not None:
                await asyncio.wait({ended})
            async with self._start_lock:
                if self.is_busy or self._is_closing or self.question is not None:
                    return
                if self._has_deliverable_feedback and use_feedback:
                    await self._begin_turn("feedback")
                elif self.queue or self._continue_requested:
                    await self._continue()
        except Exception as error:
            self._publish(SessionFailed(f"The turn could not start: {error}"))

    @property
    def _has_deliverable_feedback(self) -> bool:
        """Whether feedback waits for a turn; False if a limit has ended a turn since: the next would end too."""
        return self.feedback.undelivered and self.feedback.latest > self.state.limit_end

    @property
    def _has_new_feedback(self) -> bool:
        return self._has_deliverable_feedback and self.feedback.latest > self._opening_event_id

    def _has_same_answer(self, call: str, text: str) -> bool:
        """Return whether the question has exactly this answer already, for example after a double click."""
        return any(
            isinstance(event, UserAnswer) and event.call == call and event.text == text for event in self._log.events
        )
