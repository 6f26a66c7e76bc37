"""One conversation in one workspace: takes what the user does, runs turns, and tells its subscribers.

Nothing here decides what the model does next (the ladder does), nor what goes over the wire (the projection
does). A session belongs to one event loop; the desk's work happens on threads.
"""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.agent import interventions
from app.agent.allowances import Allowances, FormStore
from app.agent.confirmations import Confirmations
from app.agent.context import ContextKeeper
from app.agent.deciding import approval, decided, not_recorded, redone, undone
from app.agent.executor import Executor
from app.agent.feedback import Feedback
from app.agent.gate import Gate, GatePolicy
from app.agent.interrupt import Interrupter
from app.agent.interventions import FilesSeen
from app.agent.model_port import ModelPort
from app.agent.spending import Spending
from app.agent.turn import Cause, Turn, TurnSettings
from app.agent.turn_state import TurnState
from app.agent.updates import (
    Failed,
    GateChanged,
    Phase,
    PhaseChanged,
    ProposalsChanged,
    QueueChanged,
    Recorded,
    Update,
)
from app.conversation.events import (
    Answer,
    Decision,
    Event,
    Intervention,
    LineComment,
    Notice,
    ProposalChanged,
    ProposalDecided,
    Question,
    TurnStarted,
    UserMessage,
)
from app.conversation.log import EventLog, EventSink
from app.conversation.pending import PendingProposals
from app.llm.types import Payload
from app.proposals.desk import DecisionResult, ProposalDesk
from app.proposals.errors import ProposalError
from app.proposals.models import Proposal
from app.tools.contract import ConfirmationAnswer
from app.tools.registry import ToolSet
from app.workspace.paths import Workspace

Subscriber = Callable[[Update], None]


@dataclass(frozen=True, slots=True)
class Ports:
    """What a session works with; the runtime makes it."""

    sink: EventSink
    desk: ProposalDesk
    tools: ToolSet
    workspace: Workspace
    model: ModelPort
    commit: Callable[[Proposal], str] | None = None
    """Makes a git commit of an approved proposal and returns its id; None if the user has not asked for that."""
    allowed: FormStore | None = None
    """Forms of commands that are allowed for good; None where nobody is there to have allowed them."""


class _Publisher:
    """A fold that shows each stored event to the subscribers."""

    def __init__(self, publish: Subscriber) -> None:
        self._publish = publish
        self.live = False

    def apply(self, event: Event) -> None:
        if self.live:
            self._publish(Recorded(event))


class Session:
    """A conversation; every public method may be called at any time, whatever the session is doing."""

    def __init__(self, session_id: str, ports: Ports, settings: TurnSettings, events: Sequence[Event] = ()) -> None:
        """Open a session.

        Args:
            session_id: its id in the store.
            ports: what it works with.
            settings: limits, gate policy and prompt.
            events: the log so far.
        """
        self.id = session_id
        self.ports = ports
        self.settings = settings
        self.log = EventLog(ports.sink, events)
        self.gate = self.log.attach(Gate(settings.policy))
        # A crash may have left a turn without its end; none runs now.
        self.gate.turn_runs = False
        self.state = self.log.attach(TurnState())
        self.pending = self.log.attach(PendingProposals())
        self.context = ContextKeeper(self.log)
        self.spent = self.log.attach(Spending())
        self._seen = self.log.attach(FilesSeen())
        self._feedback = self.log.attach(Feedback())
        self._subscribers: list[Subscriber] = []
        self.log.attach(publisher := _Publisher(self._publish))
        publisher.live = True
        self.confirmations = Confirmations(self._publish, Allowances(ports.allowed))
        self._executor = Executor(
            log=self.log,
            desk=ports.desk,
            tools=ports.tools,
            workspace=ports.workspace,
            session_id=session_id,
            publish=self._publish,
            confirm=self.confirmations.ask,
        )
        self._turn: asyncio.Task[None] | None = None
        self._follow: asyncio.Task[None] | None = None
        self._interrupter = Interrupter()
        self._queue: list[str] = []
        self._going_on = False
        """The user wants the model to go on after the turn that runs."""
        self._phase = Phase.IDLE
        self.last_payload: Payload | None = None
        """What the last request said, for the wire view."""
        self._gate_shown = self.gate.closed
        self._starting = False
        self._closing = False

    # What others look at

    @property
    def busy(self) -> bool:
        """Whether a turn is running."""
        return self._starting or (self._turn is not None and not self._turn.done())

    @property
    def phase(self) -> Phase:
        """What the session is doing."""
        return self._phase

    @property
    def question(self) -> Question | None:
        """The oldest question that awaits an answer."""
        return self.state.question

    @property
    def queue(self) -> tuple[str, ...]:
        """Messages that wait for the turn to end, oldest first."""
        return tuple(self._queue)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with each update, on the event loop, until the returned function is called."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    # What the user does

    async def send(self, text: str) -> None:
        """Say something. While a turn runs the message waits for its end; an open question takes it as its answer."""
        if self.busy:
            self._queue.append(text)
            self._publish(QueueChanged(self.queue))
        elif self.question is not None:
            await self.answer(text)
        else:
            await self._begin("message", UserMessage(text=text))

    async def answer(self, text: str, call: str = "") -> None:
        """Answer the open question (or the one of this call); the text becomes the result of that call."""
        call = call or (self.question.call if self.question else "")
        if call not in self.state.open_questions:
            await self.send(text)
            return
        if self.busy:
            # The turn that asked is still being closed: the answer belongs after its end.
            await self.settled()
        await self._begin("answer", Answer(call=call, text=text))

    async def resume(self) -> None:
        """`continue`: open the gate and let the model go on, without saying anything; after the turn, if one runs.

        While a question is open nothing happens: its answer lets the model go on.
        """
        if self.busy:
            self._going_on = True
        elif self.question is None:
            await self._begin("continue")

    async def approve(
        self,
        proposal_id: str,
        hunks: Collection[str] | None = None,
        revision: int | None = None,
        feedback: str = "",
        comments: Sequence[LineComment] = (),
    ) -> DecisionResult:
        """Write a proposal, or some hunks of it, to disk. With words of the user the model goes on at once.

        Raises:
            NotRecorded: it is written all the same, and stands; so it is with the other decisions.
            ProposalError: nothing is written then, and nothing said.
        """
        result = await asyncio.to_thread(self.ports.desk.approve, proposal_id, hunks, revision)
        said = approval(result, partial=hunks is not None, feedback=feedback, comments=tuple(comments))
        try:
            await self._decided(result, said)
        finally:
            await self._commit(result.proposal)
        return result

    async def deny(
        self,
        proposal_id: str,
        hunks: Collection[str] | None = None,
        feedback: str = "",
        comments: Sequence[LineComment] = (),
    ) -> DecisionResult:
        """Discard a proposal, or some hunks. With feedback the model goes on at once, with the user's words."""
        result = await asyncio.to_thread(self.ports.desk.deny, proposal_id, hunks, feedback)
        await self._decided(result, decided(result, Decision.DENIED, feedback=feedback, comments=tuple(comments)))
        return result

    async def undo(self, proposal_id: str) -> DecisionResult:
        """Undo an applied proposal, or have a denied one wait again. Raises `ProposalError` where that conflicts."""
        result = await asyncio.to_thread(self.ports.desk.undo, proposal_id)
        await self._decided(result, undone(result))
        return result

    async def redo(self, proposal_id: str) -> DecisionResult:
        """Apply an undone proposal again, or deny again one whose denial was undone."""
        result = await asyncio.to_thread(self.ports.desk.redo, proposal_id)
        await self._decided(result, redone(result))
        return result

    async def edit_proposal(self, proposal_id: str, path: str, text: str) -> Proposal:
        """Replace the proposed text of a file by the user's; the model is told as a fact."""
        proposal = await asyncio.to_thread(self.ports.desk.replace_result, proposal_id, path, text)
        await self.log.append(ProposalDecided(proposal=proposal.id, decision=Decision.EDITED, still_pending=True))
        self._publish(ProposalsChanged((proposal.id,)))
        return proposal

    def confirm(self, key: str, answer: ConfirmationAnswer) -> None:
        """Answer a tool that asks before it goes on."""
        self.confirmations.answer(key, answer)

    def interrupt(self) -> tuple[str, ...]:
        """Stop the model at once. Returns the messages that were queued, for the composer to take back."""
        self._going_on = False
        if self.busy:
            self._interrupter.stop()
            self.confirmations.withdraw()
        return self.take_back()

    def take_back(self) -> tuple[str, ...]:
        """Empty the queue; returns the messages that waited, for the composer."""
        queued, self._queue = self.queue, []
        if queued:
            self._publish(QueueChanged(()))
        return queued

    async def compact(self) -> None:
        """Make room in the context now, by a summary of the older history."""
        if not self.busy:
            self._start(lambda turn: turn.compact())

    def set_policy(self, policy: GatePolicy) -> None:
        """Change when the gate closes, from the next staged edit on."""
        self.settings = self.settings.with_policy(policy)
        self.gate.policy = policy
        self._publish_gate()

    def use_model(self, model: ModelPort, settings: TurnSettings) -> None:
        """Talk to another model from the next turn on."""
        self.ports = replace(self.ports, model=model)
        self.settings = settings

    async def absorb(self, foreign: Sequence[Event]) -> None:
        """Take in events that another process wrote to this session; feedback among them starts a turn."""
        fresh = self.log.extend(foreign)
        changed = tuple({event.proposal for event in fresh if isinstance(event, ProposalDecided)})
        if changed:
            self._publish(ProposalsChanged(changed))
        self._publish_gate()
        if self._feedback.undelivered and not self.busy:
            await self._begin("feedback")

    async def disk_changed(self, paths: Collection[str]) -> tuple[Proposal, ...]:
        """Re-base what waits onto files that changed on disk; returns the proposals that are different now."""
        changed = await asyncio.to_thread(self.ports.desk.refresh, paths)
        await self._tell_changed(changed)
        return tuple(changed)

    async def settled(self) -> None:
        """Wait until no turn runs."""
        while running := [task for task in (self._turn, self._follow) if task is not None and not task.done()]:
            await asyncio.wait(running)
            # The end of a turn may schedule the next one.
            await asyncio.sleep(0)

    async def close(self) -> None:
        """Stop what runs and wait for its records; the session can be opened again later."""
        self._closing = True
        self.interrupt()
        await self.settled()

    # Turns

    async def _begin(self, cause: Cause, *events: Event) -> None:
        """Open the gate and start a turn: what the user did and what the model has to know are one record."""
        if self._closing:
            return
        self._starting, self._going_on = True, False
        self._interrupter = Interrupter()
        try:
            opening = await self._opening()
            await self.log.append(TurnStarted(cause=cause), *opening, *events)
            self._publish_gate()
            self._start(lambda turn: turn.run())
        finally:
            self._starting = False

    async def _opening(self) -> list[Intervention]:
        """What the program tells the model as the gate opens."""
        waiting = await asyncio.to_thread(self.ports.desk.waiting)
        seen = dict(self._seen.versions)
        current = await asyncio.to_thread(self._versions, seen)
        found = (
            interventions.pending(waiting),
            interventions.repeated_denials(self.pending.denials_in_row),
            interventions.files_changed(seen, current),
        )
        return [intervention for intervention in found if intervention is not None]

    def _versions(self, paths: Iterable[str]) -> dict[str, str | None]:
        """What a read of these files would show now; None for a file that is gone."""
        draft = self.ports.desk.draft(self.id)
        versions: dict[str, str | None] = {}
        for path in paths:
            with contextlib.suppress(OSError, ValueError):
                file = draft.read(path)
                versions[path] = file.version if file.content is not None else None
        return versions

    def _start(self, work: Callable[[Turn], Coroutine[Any, Any, None]]) -> None:
        turn = Turn(
            log=self.log,
            model=self.ports.model,
            executor=self._executor,
            gate=self.gate,
            state=self.state,
            context=self.context,
            tools=self.ports.tools,
            settings=self.settings,
            interrupter=self._interrupter,
            publish=self._publish,
            gate_changed=self._publish_gate,
            supersedes=lambda: self._feedback.proposal,
            sent=self._keep_payload,
        )
        self._turn = asyncio.create_task(self._run(work(turn)), name=f"turn of session {self.id}")

    async def _run(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:
            # The store failed, or signoff has a defect: the log is valid up to its last event all the same.
            self._publish(Failed(f"The turn ended early: {error}"))
        finally:
            self.confirmations.withdraw()
            self._set_phase(Phase.ASKING if self.question else Phase.IDLE)
            self._publish_gate()
            if not self._closing and not self._interrupter.stopped:
                # A task of its own: this one has to be done before the next turn may start.
                asyncio.get_running_loop().call_soon(self._after_turn)

    def _after_turn(self) -> None:
        if self.busy or self._closing or self.question is not None:
            return
        if self._feedback.undelivered:
            self._follow_up(self._begin("feedback"))
        elif self._queue:
            texts, self._queue = self.queue, []
            self._publish(QueueChanged(()))
            self._follow_up(self._begin("message", *(UserMessage(text=text) for text in texts)))
        elif self._going_on:
            self._follow_up(self._begin("continue"))

    def _follow_up(self, work: Coroutine[Any, Any, None]) -> None:
        async def begin() -> None:
            try:
                await work
            except Exception as error:
                self._publish(Failed(f"The turn could not start: {error}"))

        self._follow = asyncio.create_task(begin())

    # Decisions

    async def _decided(self, result: DecisionResult, event: ProposalDecided) -> None:
        """Record what was carried out; raises NotRecorded."""
        speaks = bool(event.feedback.strip() or event.comments)
        try:
            if speaks and not self.busy and self.question is None:
                await self._begin("feedback", event)
            else:
                await self.log.append(event)
                self._publish_gate()
        except Exception as error:
            raise not_recorded(result, error) from error
        finally:
            self._publish(ProposalsChanged((result.proposal.id, *(other.id for other in result.changed))))
        await self._tell_changed(result.changed)

    async def _commit(self, proposal: Proposal) -> None:
        if (commit := self.ports.commit) is None:
            return
        try:
            name = await asyncio.to_thread(commit, proposal)
        except ProposalError as error:
            await self._note(Notice(text=str(error), level="warning"))
        else:
            await self._note(Notice(text=f"{proposal.id} is committed as {name[:10]}."))

    async def _note(self, notice: Notice) -> None:
        """Say something to the user, also if it can't be recorded."""
        try:
            await self.log.append(notice)
        except Exception:
            self._publish(Failed(notice.text))

    async def _tell_changed(self, changed: Sequence[Proposal]) -> None:
        if not changed:
            return
        await self.log.append(
            *(ProposalChanged(proposal=one.id, state=one.state, reason=one.reason) for one in changed)
        )
        self._publish(ProposalsChanged(tuple(one.id for one in changed)))

    # Telling

    def _keep_payload(self, payload: Payload) -> None:
        self.last_payload = payload

    def _publish(self, update: Update) -> None:
        if isinstance(update, PhaseChanged):
            self._phase = update.phase
        for subscriber in tuple(self._subscribers):
            subscriber(update)

    def _set_phase(self, phase: Phase) -> None:
        self._publish(PhaseChanged(phase))

    def _publish_gate(self) -> None:
        if self.gate.closed != self._gate_shown:
            self._gate_shown = self.gate.closed
            self._publish(GateChanged(self.gate.closed))
