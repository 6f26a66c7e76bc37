"""The turns of a session: one at a time, however many callers ask for one at once."""

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
    """Fold: the queued messages, oldest first; they are in the log, so they survive any exit."""

    def __init__(self) -> None:
        self._waiting: dict[int, MessageQueued] = {}
        self._withdrawn: set[int] = set()
        """Given back to the user, which is yet to be recorded."""

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
        """Return the queued messages to the user."""
        texts = self.texts
        self._withdrawn.update(self._waiting)
        return texts

    def withdrawal_event(self) -> QueueTaken | None:
        """Return the event that records the withdrawal; None if it is recorded."""
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
    """Another process runs the turns of this session; the message says in one line what to do."""


class _Spoken:
    """Fold that calls `tell` for each message and decision of the user, whichever process it was made in."""

    def __init__(self, tell: Callable[[], None]) -> None:
        self._tell = tell

    def apply(self, event: Event) -> None:
        if isinstance(event, MessageQueued | ProposalDecided):
            self._tell()


class TurnRunner:
    """Starts turns and sees them through.

    Whoever wants a turn comes through one door, behind which it is decided whether there is to be one: what was true
    before the door may not be true any more.

    Args:
        brief: Composes what the program tells the model at the beginning of a turn.
        owned: Called when the claim has become ours: no turn runs anywhere then, whatever the log says.
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
        """The turn that runs, or the last one."""
        self.feedback = log.attach(UnansweredDenials())
        """The user's feedback that no request has carried yet."""
        self._queue = log.attach(MessageQueue())
        self._opened_at = log.last_id
        self._door = asyncio.Lock()
        self._interrupter = Interrupter()
        log.attach(_Spoken(lambda: self._interrupter.spoken.set()))
        self._starting = False
        self._going_on = False
        """The user wants the model to go on after the turn that runs."""
        self._turn: asyncio.Task[None] | None = None
        self._following: set[asyncio.Task[None]] = set()
        self._closing = False

    @property
    def is_busy(self) -> bool:
        """Return whether a turn is running here."""
        return self._starting or (self._turn is not None and not self._turn.done())

    @property
    def question(self) -> Question | None:
        """The oldest question that awaits an answer."""
        return self.state.question

    @property
    def queue(self) -> tuple[str, ...]:
        """Messages that wait for the turn to end, oldest first."""
        return self._queue.texts

    # Who runs turns

    async def claim_turns(self) -> bool:
        """Return whether turns may run here; the claim of a dead process is taken over."""
        if self._claim.is_held or self._closing:
            return True
        if not await asyncio.to_thread(self._claim.acquire):
            return False
        await self._log.load_external_events()
        self._owned()
        return True

    # What begins a turn

    async def send_message(
        self, text: str, command: CommandInvocation | None = None, images: Sequence[Image] = ()
    ) -> None:
        """Take a message: the answer to an open question, queued while a turn runs, else the start of a turn.

        `command` is the one that has made it.
        """
        await self._own()
        if self.question is not None:
            await self.answer(text, images=images)
            return
        async with self._door:
            await self._say(text, command, images)

    async def answer(self, text: str, call: str = "", images: Sequence[Image] = ()) -> None:
        """The answer to the open question, or to that of this call.

        Words that come when the question is answered already are a message, unless they are that very answer.
        """
        await self._own()
        call = call or (self.question.call if self.question else "")
        while not await self._answer(text, call, images):
            # The turn that asked is still being closed: the answer belongs after its end.
            await self.wait_until_idle()

    async def continue_turn(self) -> None:
        """Let the model continue without a message, after the running turn; an open question has to be answered
        first.
        """
        await self._own()
        async with self._door:
            if self.is_busy:
                self._going_on = True
                self._interrupter.spoken.set()
            elif not self._closing and self.question is None:
                await self._go_on()

    async def compact(self) -> None:
        """Make room in the context now."""
        await self._own()
        async with self._door:
            if not self.is_busy and not self._closing:
                self._interrupter = Interrupter()
                self._start(lambda turn: turn.compact())

    async def record_decision(self, event: Event, *, speaks: bool) -> None:
        """Record a decision; one with words for the model starts a turn if nothing prevents it."""
        may_begin = speaks and await self.claim_turns()
        async with self._door:
            if may_begin and not self.is_busy and self.question is None:
                await self._begin("feedback", event)
            else:
                await self._log.append(event)

    async def deliver_feedback(self) -> None:
        """Start a turn for feedback that arrived from elsewhere since the session was opened."""
        if not self._feedback_waits or not await self.claim_turns():
            return
        async with self._door:
            if self._feedback_waits and not self.is_busy and self.question is None:
                await self._begin("feedback")

    # What ends one

    def interrupt(self) -> tuple[str, ...]:
        """Stop the turn at once; returns the messages that were queued."""
        self._going_on = False
        if self.is_busy:
            self._interrupter.stop()
        return self.take_back_queue()

    def take_back_queue(self) -> tuple[str, ...]:
        """Empty the queue; returns the messages that waited. They are kept on disk until `confirm_queue_taken`."""
        if not self._claim.is_held:
            return ()
        texts = self._queue.take_back()
        if texts:
            self._publish(QueueChanged(()))
        return texts

    async def confirm_queue_taken(self) -> None:
        """Record that the withdrawn messages have left the queue: the composer has stored them."""
        if (taken := self._queue.withdrawal_event()) is not None:
            await self._log.append(taken)

    async def wait_until_idle(self) -> None:
        """Wait until no turn is running."""
        while running := [task for task in (self._turn, *self._following) if task is not None and not task.done()]:
            await asyncio.wait(running)

    async def close(self) -> None:
        """Stop the running turn and wait until its events are stored; queued messages stay queued."""
        self._closing = True
        if self.is_busy:
            self._interrupter.stop()
        async with self._door:
            # Who was at the door has been let in, or will be told.
            pass
        await self.wait_until_idle()
        self._claim.release()

    # Behind the door

    async def _own(self) -> None:
        if not await self.claim_turns():
            raise SessionOpenElsewhere(
                "This session is open in another window, which alone can go on with it. Go on there, or /fork to go "
                "on with a copy; once it is closed there, you can go on here."
            )

    async def _answer(self, text: str, call: str, images: Sequence[Image]) -> bool:
        """Take an answer; False if it has to wait for the turn that asked."""
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
        """Open the gate and start a turn; the user's action and the notes for the model are stored together."""
        if self._closing:
            await self._log.append(*events)
            return
        self._starting, self._going_on = True, False
        self._interrupter = Interrupter()
        try:
            briefing = await self._brief(events)
            await self._log.append(TurnStarted(cause=cause), *briefing, *events)
            # What begins the turn is no word that waits for its end.
            self._interrupter.spoken.clear()
            self._start(lambda turn: turn.run())
        finally:
            self._starting = False

    async def _go_on(self) -> None:
        """Start a turn with the queued messages, or continue without any."""
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
                # Feedback would run into the same defect, again and again.
                heeds = not failed and not self._interrupter.is_stopped
                following = asyncio.create_task(self._follow(asyncio.current_task(), heeds=heeds))
                self._following.add(following)
                following.add_done_callback(self._following.discard)

    async def _ended_early(self, error: Exception) -> None:
        """The store failed, or signoff has a defect: the log is valid up to its last event all the same."""
        message = f"The turn ended early: {error or type(error).__name__}"
        try:
            if self.state.running:
                await self._log.append(TurnEnded(stopped="failed", message=message))
                return
        except Exception:
            # Still no store.
            pass
        self._publish(SessionFailed(message))

    async def _follow(self, ended: asyncio.Task[Any] | None, *, heeds: bool) -> None:
        """Start the next turn after one has ended: with feedback that came during it, else with queued messages.

        After one that the user stopped (it `heeds` no feedback then), only what was said since: the queue was taken
        back with the stop.
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
        """Whether feedback waits for a turn; where a limit has ended one since, the next would end likewise."""
        return self.feedback.undelivered and self.feedback.latest > self.state.limit_end

    @property
    def _feedback_waits(self) -> bool:
        return self._has_fresh_feedback and self.feedback.latest > self._opened_at

    def _answered(self, call: str, text: str) -> bool:
        """Whether a question was answered with these very words: a key or a click that came twice."""
        return any(isinstance(one, Answer) and one.call == call and one.text == text for one in self._log.events)
