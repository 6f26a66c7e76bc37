"""Runs the turns of a session one at a time, also if several callers start one at once."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from app.agent.gate import UnansweredDenials
from app.agent.ports import TurnClaim
from app.agent.turn import Cause, Turn
from app.agent.turn_state import TurnState
from app.agent.updates import PhaseChanged, QueueChanged, SessionFailed, SessionPhase, Update
from app.concurrency import Interrupter
from app.conversation.events import (
    Answer,
    CommandInvocation,
    Event,
    MessageQueued,
    ProposalDecided,
    Question,
    QueueTaken,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from app.conversation.log import EventLog
from app.images.image import Image


class MessageQueue:
    """Fold over the queued messages, oldest first; they are in the log, so they survive any exit."""

    def __init__(self) -> None:
        self._waiting: dict[int, MessageQueued] = {}
        self._withdrawn: set[int] = set()
        """Ids of messages returned to the user, whose removal is not recorded yet."""

    @property
    def texts(self) -> tuple[str, ...]:
        """The messages as the user typed them, oldest first."""
        return tuple(one.typed_text for number, one in self._waiting.items() if number not in self._withdrawn)

    def message_events(self) -> tuple[Event, ...]:
        """Return the events that send all queued messages."""
        waiting = {number: one for number, one in self._waiting.items() if number not in self._withdrawn}
        if not waiting:
            return ()
        said = (UserMessage(text=one.text, command=one.command, images=one.images) for one in waiting.values())
        return (QueueTaken(messages=tuple(waiting)), *said)

    def take_back(self) -> tuple[str, ...]:
        """Remove all messages from the queue and return their texts to the user."""
        texts = self.texts
        self._withdrawn.update(self._waiting)
        return texts

    def withdrawal_event(self) -> QueueTaken | None:
        """Return the event that records the removal by `take_back`; None if there is nothing to record."""
        return QueueTaken(messages=tuple(sorted(self._withdrawn))) if self._withdrawn else None

    def apply(self, event: Event) -> None:
        """Update the state from the next event."""
        match event:
            case MessageQueued():
                self._waiting[event.id] = event
            case QueueTaken():
                for number in event.messages:
                    self._waiting.pop(number, None)
                    self._withdrawn.discard(number)


class SessionOpenElsewhere(Exception):
    """Another process runs the turns of this session; the message is one line that says what to do."""


class _Spoken:
    """Fold that calls `tell` for each queued message and decision of the user, from any process."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def apply(self, event: Event) -> None:
        if isinstance(event, MessageQueued | ProposalDecided):
            self._tell()


class TurnRunner:
    """Starts turns and waits for their end.

    All turn starts are serialised by the lock `_door`; preconditions are checked again while it is held.

    Args:
        brief: Composes the program's messages to the model at the start of a turn.
        owned: Called when this process has acquired the claim: then no turn runs, whatever the log says.
    """

    def __init__(
        self,
        log: EventLog,
        claim: TurnClaim,
        make: Callable[[Interrupter], Turn],
        brief: Callable[[Sequence[Event]], Awaitable[Sequence[Event]]],
        publish: Callable[[Update], None],
        owned: Callable[[], None],
    ) -> None:
        self._log = log
        self._claim = claim
        self._make = make
        self._brief = brief
        self._publish = publish
        self._owned = owned
        self.state = log.attach(TurnState())
        """The running turn, or the last one."""
        self.feedback = log.attach(UnansweredDenials())
        """The denials whose feedback no request has contained yet."""
        self._queue = log.attach(MessageQueue())
        self._opened_at = log.last_id
        self._door = asyncio.Lock()
        self._interrupter = Interrupter()
        log.attach(_Spoken(lambda: self._interrupter.spoken.set()))
        self._starting = False
        self._going_on = False
        """The user wants the model to continue after the running turn."""
        self._turn: asyncio.Task[None] | None = None
        self._following: set[asyncio.Task[None]] = set()
        self._closing = False

    @property
    def is_busy(self) -> bool:
        """Return whether a turn runs in this process."""
        return self._starting or (self._turn is not None and not self._turn.done())

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
        if self._claim.is_held or self._closing:
            return True
        if not await asyncio.to_thread(self._claim.acquire):
            return False
        await self._log.load_external_events()
        self._owned()
        return True

    # Start of a turn

    async def send_message(
        self, text: str, command: CommandInvocation | None = None, images: Sequence[Image] = ()
    ) -> None:
        """Handle a message: answer the open question, queue it while a turn runs, or start a turn.

        Args:
            command: the custom command that produced the message.
        """
        await self._own()
        if self.question is not None:
            await self.answer(text, images=images)
            return
        async with self._door:
            await self._say(text, command, images)

    async def answer(self, text: str, call: str = "", images: Sequence[Image] = ()) -> None:
        """Answer the oldest open question, or the question of this call.

        If the question is already answered, the text is handled as a message; an identical answer is ignored.
        """
        await self._own()
        call = call or (self.question.call if self.question else "")
        while not await self._answer(text, call, images):
            # The turn that asked has not ended yet: answer after its end.
            await self.wait_until_idle()

    async def continue_turn(self) -> None:
        """Let the model continue without a message, after the running turn; do nothing while a question is open."""
        await self._own()
        async with self._door:
            if self.is_busy:
                self._going_on = True
                self._interrupter.spoken.set()
            elif not self._closing and self.question is None:
                await self._go_on()

    async def compact(self) -> None:
        """Compact the context now; do nothing while a turn runs."""
        await self._own()
        async with self._door:
            if not self.is_busy and not self._closing:
                self._interrupter = Interrupter()
                self._start(lambda turn: turn.compact())

    async def record_decision(self, event: Event, *, speaks: bool) -> None:
        """Record a decision; if it has feedback (`speaks`) and no turn runs, start a turn."""
        may_begin = speaks and await self.claim_turns()
        async with self._door:
            if may_begin and not self.is_busy and self.question is None:
                await self._begin("feedback", event)
            else:
                await self._log.append(event)

    async def deliver_feedback(self) -> None:
        """Start a turn for feedback that another process recorded since the session was opened."""
        if not self._feedback_waits or not await self.claim_turns():
            return
        async with self._door:
            if self._feedback_waits and not self.is_busy and self.question is None:
                await self._begin("feedback")

    # End of a turn

    def interrupt(self) -> tuple[str, ...]:
        """Stop the turn at once; return the queued messages."""
        self._going_on = False
        if self.is_busy:
            self._interrupter.stop()
        return self.take_back_queue()

    def take_back_queue(self) -> tuple[str, ...]:
        """Empty the queue and return its messages. They stay on disk until `confirm_queue_taken`."""
        if not self._claim.is_held:
            return ()
        texts = self._queue.take_back()
        if texts:
            self._publish(QueueChanged(()))
        return texts

    async def confirm_queue_taken(self) -> None:
        """Record that the taken messages have left the queue; call it when the composer has stored them."""
        if (taken := self._queue.withdrawal_event()) is not None:
            await self._log.append(taken)

    async def wait_until_idle(self) -> None:
        """Wait until no turn runs."""
        while running := [task for task in (self._turn, *self._following) if task is not None and not task.done()]:
            await asyncio.wait(running)

    async def close(self) -> None:
        """Stop the running turn and wait until its events are stored; queued messages stay queued."""
        self._closing = True
        if self.is_busy:
            self._interrupter.stop()
        async with self._door:
            # Wait for callers that hold the lock; later ones see `_closing`.
            pass
        await self.wait_until_idle()
        self._claim.release()

    # Called while `_door` is held, except `_own` and `_answer`

    async def _own(self) -> None:
        if not await self.claim_turns():
            raise SessionOpenElsewhere(
                "This session is open in another window, which alone can go on with it. Go on there, or /fork to go "
                "on with a copy; once it is closed there, you can go on here."
            )

    async def _answer(self, text: str, call: str, images: Sequence[Image]) -> bool:
        """Handle an answer; return False if it must wait for the end of the turn that asked."""
        async with self._door:
            if call not in self.state.open_questions:
                if not self._answered(call, text):
                    await self._say(text, images=images)
                return True
            if self.is_busy:
                return False
            await self._begin("answer", Answer(call=call, text=text, images=tuple(images)))
            return True

    async def _say(self, text: str, command: CommandInvocation | None = None, images: Sequence[Image] = ()) -> None:
        attached = tuple(images)
        if self.is_busy or self._closing:
            await self._log.append(MessageQueued(text=text, command=command, images=attached))
        elif (question := self.question) is not None:
            await self._begin("answer", Answer(call=question.call, text=text, images=attached))
        else:
            said = UserMessage(text=text, command=command, images=attached)
            await self._begin("message", *self._queue.message_events(), said)

    async def _begin(self, cause: Cause, *events: Event) -> None:
        """Open the gate and start a turn; store the user's events and the messages to the model in one batch."""
        if self._closing:
            await self._log.append(*events)
            return
        self._starting, self._going_on = True, False
        self._interrupter = Interrupter()
        try:
            briefing = await self._brief(events)
            await self._log.append(TurnStarted(cause=cause), *briefing, *events)
            # The events that start the turn must not count as messages that arrive during it.
            self._interrupter.spoken.clear()
            self._start(lambda turn: turn.run())
        finally:
            self._starting = False

    async def _go_on(self) -> None:
        """Start a turn with the queued messages; if there are none, let the model continue."""
        queued = self._queue.message_events()
        await self._begin("message" if queued else "continue", *queued)

    def _start(self, work: Callable[[Turn], Coroutine[Any, Any, None]]) -> None:
        self._turn = asyncio.create_task(self._run(work(self._make(self._interrupter))), name="turn")

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        failed = False
        try:
            await work
        except Exception as error:
            failed = True
            await self._ended_early(error)
        finally:
            self._publish(PhaseChanged(SessionPhase.ASKING if self.question else SessionPhase.IDLE))
            if not self._closing:
                # After an error, a turn for feedback would fail again in the same way.
                heeds = not failed and not self._interrupter.is_stopped
                following = asyncio.create_task(self._follow(asyncio.current_task(), heeds=heeds))
                self._following.add(following)
                following.add_done_callback(self._following.discard)

    async def _ended_early(self, error: Exception) -> None:
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

    async def _follow(self, ended: asyncio.Task[Any] | None, *, heeds: bool) -> None:
        """Start the next turn after one has ended: with feedback given during it, else with queued messages.

        Args:
            heeds: whether feedback may start a turn; False if the user stopped the ended turn or it failed.
        """
        try:
            if ended is not None:
                await asyncio.wait({ended})
            async with self._door:
                if self.is_busy or self._closing or self.question is not None:
                    return
                if self._has_fresh_feedback and heeds:
                    await self._begin("feedback")
                elif self.queue or self._going_on:
                    await self._go_on()
        except Exception as error:
            self._publish(SessionFailed(f"The turn could not start: {error}"))

    @property
    def _has_fresh_feedback(self) -> bool:
        """Whether feedback waits for a turn; False if a limit has ended a turn since: the next would end too."""
        return self.feedback.undelivered and self.feedback.latest > self.state.limit_end

    @property
    def _feedback_waits(self) -> bool:
        return self._has_fresh_feedback and self.feedback.latest > self._opened_at

    def _answered(self, call: str, text: str) -> bool:
        """Return whether the question has exactly this answer already, for example after a double click."""
        return any(isinstance(one, Answer) and one.call == call and one.text == text for one in self._log.events)
