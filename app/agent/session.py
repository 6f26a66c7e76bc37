"""One conversation in one workspace: handles the user's actions, runs turns, and notifies its subscribers.

The ladder decides what the model does next, the projection what is sent, `TurnScheduler` when a turn may start. A
session belongs to one event loop; its proposal service runs on threads.
"""

import asyncio
from collections.abc import Callable, Collection, Sequence

from app.agent.context import ContextCompactor
from app.agent.decision_service import (
    DecisionService,
    changed_proposal_events_by_session,
    delivery_notice,
    has_feedback,
    session_id_of_proposal,
    unrecorded_decision_error,
)
from app.agent.gate import GateClosingPolicy, TurnStagingGate
from app.agent.interventions import TurnStartInterventionBuilder
from app.agent.limits import SessionCostAndTimeMeter
from app.agent.permission_requests import GrantedPermissions, PermissionRequestService
from app.agent.ports import ModelPort, SessionPorts, TurnSettings
from app.agent.request_payload import NextRequestImagesFold, RequestFactory, unseen_images_notice
from app.agent.side_questions import SideQuestionService
from app.agent.tool_call_executor import ToolCallExecutor
from app.agent.turn import ConversationState, Turn
from app.agent.turns import TurnScheduler
from app.agent.updates import (
    EventRecorded,
    GateOpenedOrClosed,
    PhaseChanged,
    ProposalsChanged,
    QueuedMessagesChanged,
    SessionFailed,
    SessionPhase,
    Update,
)
from app.concurrency import Interrupter
from app.conversation.events import (
    AssistantMessage,
    CustomCommandInvocation,
    Event,
    HistoryCompacted,
    MessageQueued,
    MessagesDequeued,
    ProposalDecided,
    Question,
    SideAnswer,
    UserMessage,
    UserNotice,
)
from app.conversation.log import EventLog
from app.conversation.proposal_reports import PendingAndDeniedTracker
from app.conversation.token_totals import TokenTotals
from app.copies import replace
from app.images.image import Image
from app.proposals.proposal_service import ProposalService
from app.proposals.values.models import DecisionResult, Proposal
from app.tools.base.contract import PermissionAnswer

Subscriber = Callable[[Update], None]


class EventPublishingFold:
    """Fold that publishes each stored event and its effect on gate and queue to the subscribers."""

    def __init__(self, gate: TurnStagingGate, queue: Callable[[], tuple[str, ...]], publish: Subscriber) -> None:
        self._gate = gate
        self._queue = queue
        self._publish = publish
        self._published_closed = gate.is_closed

    def apply(self, event: Event) -> None:
        self._publish(EventRecorded(event))
        self.publish_gate_change()
        if isinstance(event, MessageQueued | MessagesDequeued):
            self._publish(QueuedMessagesChanged(self._queue()))

    def publish_gate_change(self) -> None:
        """Publish `GateOpenedOrClosed` if the gate has opened or closed since the last call."""
        if self._gate.is_closed != self._published_closed:
            self._published_closed = self._gate.is_closed
            self._publish(GateOpenedOrClosed(self._gate.is_closed))


def _is_said(event: Event) -> bool:
    """Return whether an event has words of the user or the model that requests contain."""
    return isinstance(event, UserMessage | AssistantMessage) or (
        isinstance(event, ProposalDecided) and has_feedback(event)
    )


class SessionUsageTotals:
    """Fold over tokens and cost of the session."""

    def __init__(self) -> None:
        self.total = TokenTotals()
        """Sum over all requests."""

    def apply(self, event: Event) -> None:
        if isinstance(event, AssistantMessage | HistoryCompacted | SideAnswer):
            self.total = self.total.add(event.usage)


class Session(DecisionService):
    """A conversation with the model and its turns; every public method may be called at any time."""

    def __init__(
        self, session_id: str, ports: SessionPorts, settings: TurnSettings, events: Sequence[Event] = ()
    ) -> None:
        self.id = session_id
        self.ports = ports
        self.settings = settings
        self.log = EventLog(ports.sink, events)
        self.gate = self.log.attach(TurnStagingGate(settings.policy))
        self.pending = self.log.attach(PendingAndDeniedTracker())
        self.context = ContextCompactor(self.log)
        self.token_totals = self.log.attach(SessionUsageTotals())
        self._usage = self.log.attach(SessionCostAndTimeMeter())
        images = self.log.attach(NextRequestImagesFold(ports.read_image))
        self.requests = RequestFactory(ports.tools, images, lambda: self.settings.system_prompt)
        self._subscribers: list[Subscriber] = []
        self.permission_requests = PermissionRequestService(
            self._publish, GrantedPermissions(ports.allowed_forms), self.log
        )
        self._executor = ToolCallExecutor(
            ports,
            self.log,
            session_id,
            self._publish,
            self.permission_requests.ask,
            lambda: self.settings,
            lambda: self._turns.feedback.unanswered,
        )
        turn_start = TurnStartInterventionBuilder(
            self.log, ports.service, session_id, self.pending, lambda: self.settings.plan
        )
        self._turns = TurnScheduler(
            self.log,
            ports.claim,
            self._make_turn,
            turn_start.compose_interventions,
            self._publish,
            self._reset_after_claim,
        )
        self._publisher = self.log.attach_from_now(EventPublishingFold(self.gate, lambda: self.queue, self._publish))
        self.phase = SessionPhase.IDLE
        if ports.claim.is_held:
            self._reset_after_claim()
        self.side_questions = SideQuestionService(
            self.log,
            session_id,
            lambda: self.ports,
            self.requests,
            self.context.project,
            self._find_unfinished_response,
            self._publish,
        )
        """Questions of the user outside the conversation."""

    # State

    @property
    def is_busy(self) -> bool:
        """Whether a turn is running."""
        return self._turns.is_busy

    @property
    def question(self) -> Question | None:
        """The oldest question that awaits an answer."""
        return self._turns.question

    @property
    def has_undelivered_feedback(self) -> bool:
        """Return whether the user gave feedback with a decision that no request has carried yet."""
        return self._turns.feedback.undelivered

    @property
    def queue(self) -> tuple[str, ...]:
        """Messages that wait for the end of the turn, oldest first; they remain when the session is closed."""
        return self._turns.queue

    @property
    def is_follower(self) -> bool:
        """Return whether another process runs the turns of this session; this process can only read and decide."""
        return not self.ports.claim.is_held

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with each update, on the event loop, until the returned function is called."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    # Messages of the user; each raises `SessionOpenElsewhere` if another process runs the turns of this session

    async def send(
        self, text: str, command: CustomCommandInvocation | None = None, images: Sequence[Image] = ()
    ) -> None:
        """Send a message. During a turn it is queued; if a question is open, it is the answer.

        Args:
            command: the user's custom command that produced the message.
        """
        await self._turns.send_message(text, command, images)
        await self._notify_unseen_images(images)

    async def answer(self, text: str, call: str = "", images: Sequence[Image] = ()) -> None:
        """Answer the open question (or the one of this call); the text becomes the result of that call."""
        await self._turns.answer(text, call, images)
        await self._notify_unseen_images(images)

    async def resume(self) -> bool:
        """Let the model continue without a message, after the running turn; an open question must be answered first.

        A request that waits for its retry time is retried at once. Return False, and send nothing, if neither the
        user nor the model has said anything yet: many servers refuse a request that has system messages alone.
        """
        if self.phase is SessionPhase.RETRYING:
            self.ports.model.retry_now()
        elif self.queue or any(map(_is_said, self.log.events)):
            await self._turns.continue_turn()
        else:
            return False
        return True

    async def compact(self) -> None:
        """Compact the context now, with a summary of the older history."""
        await self._turns.compact()

    # Decisions of the user that are not on proposals

    @property
    def proposal_service(self) -> ProposalService:
        """Return the proposal service of the workspace."""
        return self.ports.service

    @property
    def commit_function(self) -> Callable[[Proposal], str] | None:
        """Return the function that commits an approved proposal, as configured when the session was opened."""
        return self.ports.commit

    def answer_permission_request(self, key: str, answer: PermissionAnswer) -> None:
        """Answer a tool's request for permission."""
        self.permission_requests.answer(key, answer)

    # Interrupt and settings

    def interrupt(self) -> tuple[str, ...]:
        """Stop the model at once. Return the queued messages, for the composer."""
        if self.is_busy:
            self.permission_requests.withdraw_all()
        return self._turns.interrupt()

    def take_back_queue(self) -> tuple[str, ...]:
        """Empty the queue; return its messages for the composer. They stay on disk until `confirm_queue_taken`."""
        return self._turns.take_back_queue()

    async def confirm_queue_taken(self) -> None:
        """Record that the taken messages have left the queue; call it when the composer has stored them."""
        await self._turns.confirm_queue_taken()

    def set_gate_policy(self, policy: GateClosingPolicy) -> None:
        """Change when the gate closes, from the next staged edit on; prompt and results name the new policy."""
        self.settings = replace(self.settings, policy=policy)
        self.gate.policy = policy
        self._publisher.publish_gate_change()

    def use_model(self, model: ModelPort, settings: TurnSettings) -> None:
        """Use another model from the next turn on."""
        self.ports = replace(self.ports, model=model)
        self.settings = settings

    # Changes by other processes

    async def load_external_events(self) -> None:
        """Read the events that another process wrote to this session; feedback among them starts a turn."""
        fresh = await self.log.load_external_events()
        changed = tuple({event.proposal for event in fresh if isinstance(event, ProposalDecided)})
        if changed:
            self._publish(ProposalsChanged(changed))
        await self._turns.deliver_feedback()

    async def take_over_turns(self) -> None:
        """Start running the turns of this session if the process that ran them has released it."""
        await self._turns.claim_turns()

    async def rebase_after_disk_change(self, paths: Collection[str]) -> tuple[Proposal, ...]:
        """Rebase pending proposals onto files that changed on disk; return the changed proposals."""
        changed = await asyncio.to_thread(self.ports.service.rebase_pending, paths)
        await self._record_changed_proposals(changed)
        return tuple(changed)

    async def notify_user(self, notice: UserNotice) -> None:
        """Record a notice for the user; if that fails, publish it anyway."""
        try:
            await self.log.append(notice)
        except Exception:
            self._publish(SessionFailed(notice.text))

    async def wait_until_idle(self) -> None:
        """Wait until no turn is running."""
        await self._turns.wait_until_idle()

    async def close(self) -> None:
        """Stop the running turn and wait until its events are stored; the session can be opened again later."""
        self.permission_requests.withdraw_all()
        await asyncio.gather(self.side_questions.close(), self._turns.close())

    # Turns

    def _make_turn(self, interrupter: Interrupter) -> Turn:
        state, model = self._turns.state, self.ports.model
        return Turn(
            ConversationState(self.log, self.gate, state, self.context, self._usage),
            model.with_model_and_effort(state.command.model, state.command.effort) if state.command else model,
            self._executor,
            self.requests,
            lambda: self.settings,
            interrupter,
            self._publish,
        )

    def _find_unfinished_response(self) -> AssistantMessage | None:
        """Return the response of the running turn that has calls without a result."""
        state = self._turns.state
        return state.last_message if self.is_busy and state.unfinished_calls else None

    def _reset_after_claim(self) -> None:
        # A crash may have left a turn without its end event; no turn runs now.
        self.gate.end_turn()
        self._publish(PhaseChanged(SessionPhase.ASKING if self.question else SessionPhase.IDLE))
        self._publish(QueuedMessagesChanged(self.queue))

    # Decisions

    async def _record_decision(self, result: DecisionResult, event: ProposalDecided) -> None:
        try:
            await self._record_for_session(session_id_of_proposal(result.proposal, self.id), event)
        except Exception as error:
            raise unrecorded_decision_error(result, error) from error
        finally:
            self._publish(ProposalsChanged((result.proposal.id, *(other.id for other in result.changed))))
        await self._record_changed_proposals(result.changed)

    async def _record_for_session(self, owner: str, event: ProposalDecided) -> None:
        """Record a decision in the session that made the proposal, even if another process has that session open.

        A fork has the proposals of the original in its log: then the decision is recorded here, for this model. The
        store reports it to all other sessions that have the proposal.
        """
        if owner != self.id and event.proposal not in self.pending.proposed:
            other = await self.ports.other_sessions.record(owner, [event])
            if other is not None:
                await self.log.append(delivery_notice(event, other))
                return
        await self._turns.record_decision(event, has_feedback=has_feedback(event))
        await self._notify_unseen_images(event.images)

    async def _record_changed_proposals(self, changed: Sequence[Proposal]) -> None:
        for owner, events in changed_proposal_events_by_session(changed, self.id).items():
            if owner == self.id or await self.ports.other_sessions.record(owner, events) is None:
                await self.log.append(*events)
        if changed:
            self._publish(ProposalsChanged(tuple(proposal.id for proposal in changed)))

    async def _notify_commit(self, text: str, *, failed: bool) -> None:
        await self.notify_user(UserNotice(text=text, level="warning" if failed else "info"))

    # Notices

    async def _notify_unseen_images(self, images: Sequence[Image]) -> None:
        """Show the user a notice if the model does not accept the attached images."""
        if images and not self.ports.model.profile.accepts_images:
            await self.notify_user(unseen_images_notice(images, self.ports.model.endpoint.model))

    def _publish(self, update: Update) -> None:
        if isinstance(update, PhaseChanged):
            self.phase = update.phase
        for subscriber in tuple(self._subscribers):
            subscriber(update)
