"""Hosts the session of an open app: opens and switches it, and follows changes by other processes and on disk.

It does not depend on the UI: the app passes a subscriber and calls methods; tests use it without a screen.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from app.agent.decision_service import DecisionService, unrecorded_decision_error
from app.agent.gate import GateClosingPolicy
from app.agent.session import Session
from app.agent.updates import EventRecorded, ProposalsChanged, SessionFailed, Update
from app.config.settings import Settings
from app.conversation.events import ProposalDecided, TurnStarted, UserNotice
from app.copies import replace
from app.llm.client import ModelClient
from app.proposals.files.file_change_watcher import FileChangeWatcher
from app.proposals.proposal_service import ProposalService
from app.proposals.values.models import DecisionResult, Proposal
from app.proposals.values.proposal_errors import UnknownProposal
from app.runtime.mcp_manager import McpManager
from app.runtime.model_connection import (
    NO_SESSION,
    ModelNotConfigured,
    connect_model,
    create_or_resume_session,
    make_commit_function,
    make_session_limits,
    make_turn_settings,
)
from app.runtime.open_workspace import OpenWorkspace
from app.runtime.unfinished_work import (
    INTERRUPTED_NOTICE,
    PATIENCE,
    append_decision_and_resulting_changes,
    has_unreported_interruption,
    record_unrecorded_decisions,
    recover_interrupted_work,
    stage_hook_edits_and_list_failures,
)
from app.storage import StorageError
from app.storage.session_store import SessionRecord, SessionStore

_GATHER_SECONDS = 0.3
"""Seconds for which changes are collected before a draft is written, even while the user types."""
_DRAFT_KEY_PREFIX = "draft:"


class StoredComposerDraft(BaseModel):
    """The unsent text in the composer of one session, as it is stored."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    draft: str
    """The text of the composer."""
    process: int = 0
    """Id of the process whose composer contains the draft."""
    time: float = 0.0
    """Unix time of the write."""


class ComposerDraftStore:
    """Stores the composer drafts of a workspace's sessions; belongs to one event loop."""

    def __init__(self, sessions: SessionStore, failed: Callable[[str], None]) -> None:
        self._sessions = sessions
        self._notify_failure = failed
        self._drafts: dict[str, str] = {}
        self._changed_ids: set[str] = set()
        self._writer: asyncio.Task[None] | None = None
        self._write_now = asyncio.Event()

    async def load(self, session_id: str, *, fresh: bool = False) -> str:
        """Return the stored draft of a session.

        Args:
            fresh: Whether the session is new; it then takes over the draft that a dead process left in a session
                without messages.
        """
        await self.flush()
        draft = await asyncio.to_thread(self._adopt_orphaned_draft if fresh else self._load_draft, session_id)
        self._drafts[session_id] = draft
        return draft

    def save(self, session_id: str, draft: str) -> None:
        """Store a changed draft within `_GATHER_SECONDS`."""
        if draft == self._drafts.get(session_id, ""):
            return
        self._drafts[session_id] = draft
        self._changed_ids.add(session_id)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write_changed(), name="drafts")

    async def flush(self) -> None:
        """Write all changed drafts now."""
        if self._writer is not None:
            self._write_now.set()
            await asyncio.wait({self._writer})

    async def _write_changed(self) -> None:
        try:
            while self._changed_ids:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._write_now.wait(), _GATHER_SECONDS)
                changed_ids, self._changed_ids = self._changed_ids, set()
                await asyncio.to_thread(
                    self._store_drafts, {session_id: self._drafts[session_id] for session_id in changed_ids}
                )
        except StorageError as error:
            self._notify_failure(f"What you write is not kept for a restart: {error}")
        finally:
            self._writer = None
            self._write_now.clear()

    # These run on a thread.

    def _store_drafts(self, drafts: dict[str, str]) -> None:
        for session_id, draft in drafts.items():
            stored_draft = StoredComposerDraft(draft=draft, process=os.getpid(), time=time.time())
            self._sessions.set_setting(
                _DRAFT_KEY_PREFIX + session_id, stored_draft.model_dump_json() if draft else None
            )

    def _load_draft(self, session_id: str) -> str:
        value = self._sessions.setting(_DRAFT_KEY_PREFIX + session_id)
        return _parse_draft(value).draft if value else ""

    def _adopt_orphaned_draft(self, session_id: str) -> str:
        drafts_by_key = {
            key: _parse_draft(value) for key, value in self._sessions.settings(_DRAFT_KEY_PREFIX).items()
        }
        for key, stored_draft in sorted(drafts_by_key.items(), key=lambda key_and_draft: -key_and_draft[1].time):
            if not _is_process_alive(stored_draft.process) and not self._sessions.last_events(
                key.removeprefix(_DRAFT_KEY_PREFIX), 1
            ):
                self._sessions.rename_setting(key, _DRAFT_KEY_PREFIX + session_id)
                return stored_draft.draft
        return ""


def _parse_draft(value: str) -> StoredComposerDraft:
    try:
        return StoredComposerDraft.model_validate_json(value)
    except ValidationError:
        # Earlier versions stored the bare text.
        return StoredComposerDraft(draft=value)


def _is_process_alive(process: int) -> bool:
    if process <= 0:
        return False
    try:
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


_MAX_PAUSE_SECONDS = 60.0
"""Longest pause in seconds between two attempts."""


class UnrecordedDecisionRecorder:
    """Records decisions of any process that have no record yet; tries again while the store fails.

    Args:
        current_session_id: Returns the id of the session that records decisions on proposals without a session.
        patience: Seconds that a living process has between a decision and its record.
    """

    def __init__(
        self, runtime: OpenWorkspace, current_session_id: Callable[[], str], patience: float = PATIENCE
    ) -> None:
        self._runtime = runtime
        self._current_session_id = current_session_id
        self._patience = patience
        self._check_requested = asyncio.Event()

    def request_check(self) -> None:
        """Make `run` look for unrecorded decisions."""
        self._check_requested.set()

    async def run(self, recorded: Callable[[list[str]], Awaitable[None]]) -> None:
        """Record decisions after each `request_check`, and pass a line for each to `recorded`. Never returns."""
        while True:
            await self._check_requested.wait()
            self._check_requested.clear()
            pause = self._patience
            while await asyncio.to_thread(self._has_unrecorded):
                await asyncio.sleep(pause)
                pause = min(2 * pause, _MAX_PAUSE_SECONDS)
                if lines := await asyncio.to_thread(self._record_decisions):
                    await recorded(lines)

    def _has_unrecorded(self) -> bool:
        try:
            return bool(self._runtime.proposals.unrecorded_decisions())
        except StorageError:
            return True

    def _record_decisions(self) -> list[str]:
        try:
            return record_unrecorded_decisions(
                self._runtime, patience=self._patience, current_session=self._current_session_id()
            )
        except StorageError:
            return []


class SessionlessDecisionService(DecisionService):
    """Carries out decisions while no session is open; the agent or session of the proposal reads them later.

    Args:
        commit: Returns the function that commits an approved proposal; None if commits are not configured.
        changed: Called with the ids of changed proposals.
        notify: Receives lines for the user.
    """

    def __init__(
        self,
        runtime: OpenWorkspace,
        commit: Callable[[], Callable[[Proposal], str] | None],
        changed: Callable[[tuple[str, ...]], None],
        notify: Callable[[str], None],
    ) -> None:
        self._runtime = runtime
        self._make_commit_function = commit
        self._publish_changed = changed
        self._notify = notify

    @property
    def proposal_service(self) -> ProposalService:
        """Return the proposal service of the workspace."""
        return self._runtime.service

    @property
    def commit_function(self) -> Callable[[Proposal], str] | None:
        """Return the function that commits an approved proposal; None if commits are not configured."""
        return self._make_commit_function()

    async def _record_decision(self, result: DecisionResult, event: ProposalDecided) -> None:
        try:
            await asyncio.to_thread(append_decision_and_resulting_changes, self._runtime, event, result.changed)
        except Exception as error:
            raise unrecorded_decision_error(result, error) from error
        finally:
            self._publish_changed((result.proposal.id, *(other.id for other in result.changed)))

    async def _notify_commit(self, text: str, *, failed: bool) -> None:
        if failed:
            self._notify(text)


Subscriber = Callable[[Update], None]
_MAX_TOOLS_WAIT_SECONDS = 5.0
"""Seconds that a turn waits for the tools of an MCP server after its start."""
_MAX_HOOKS_WAIT_SECONDS = 1.0
"""Seconds that hooks may still run after the user quits."""


class SessionHost:
    """Opens and closes the session and the model connection of a workspace (one each) for the user interface."""

    def __init__(self, runtime: OpenWorkspace, settings: Settings, subscriber: Subscriber) -> None:
        self.runtime = runtime
        self.settings = settings
        self._subscriber = subscriber
        self._unsubscribe: Callable[[], None] = lambda: None
        self.model: ModelClient | None = None
        self._former_models: list[ModelClient] = []
        """Models that the running turn may still use."""
        self.session: Session | None = None
        self._demo_server = AsyncExitStack()
        self._tasks: set[asyncio.Task[None]] = set()
        self._seen_versions: dict[str, tuple[int, str, bool, str]] = {}
        self._seen_line_count = 0
        """Number of seen lines in the store at the latest check."""
        self._open_lock = asyncio.Lock()
        self._rewatch_requested = asyncio.Event()
        self._watcher = FileChangeWatcher(runtime.workspace.root)
        runtime.hook_dispatcher.patience = _MAX_HOOKS_WAIT_SECONDS
        self.drafts = ComposerDraftStore(runtime.sessions, lambda line: subscriber(SessionFailed(line)))
        """The stored composer draft of each session."""
        self.mcp = McpManager(runtime, lambda line: subscriber(SessionFailed(line)), _MAX_TOOLS_WAIT_SECONDS)
        """The MCP servers; all sessions share their tools."""
        self._reported_lines: set[str] = set()
        """Lines that were already reported while a session was opened."""
        self.unrecorded_decisions = UnrecordedDecisionRecorder(
            runtime, lambda: self.session.id if self.session else ""
        )
        """Records decisions that have no record yet."""
        self._shown_proposals: list[str] = []
        """Ids of older decided proposals that the user has opened."""

    @property
    def decisions(self) -> DecisionService:
        """Return the service that carries out decisions: the open session, or `SessionlessDecisionService`."""
        if self.session is not None:
            return self.session
        return SessionlessDecisionService(
            self.runtime,
            commit=lambda: make_commit_function(self.runtime, self.settings),
            changed=lambda ids: self._publish(ProposalsChanged(ids)),
            notify=lambda line: self._subscriber(SessionFailed(line)),
        )

    async def start(self) -> list[str]:
        """Recover after a crash, re-base pending proposals, and start the background tasks; return lines for the
        user."""
        loop = asyncio.get_running_loop()

        def notify(line: str) -> None:
            loop.call_soon_threadsafe(self._subscriber, SessionFailed(line))

        service = await asyncio.to_thread(lambda: self.runtime.service)
        service.notify = self.runtime.hook_dispatcher.notify = notify
        lines = await asyncio.to_thread(recover_interrupted_work, self.runtime)
        if lines and (session := self.session) is not None:
            await session.load_external_events()
        await asyncio.to_thread(self.runtime.service.rebase_pending)
        self._seen_versions = _proposal_versions(await self.proposals())
        self._rewatch_requested.set()
        self.unrecorded_decisions.request_check()
        self._spawn(self.unrecorded_decisions.run(self._announce_recorded_decisions))
        self._spawn(self.mcp.refresh(self.settings))
        self._spawn(self._follow_other_processes())
        self._spawn(self._update_watched_files())
        self._spawn(self._rebase_on_disk_changes())
        return lines

    async def preload_turn(self) -> None:
        """Import the modules for the first request on a thread; errors are ignored."""
        if self.model is None or self.session is None:
            return
        tools = self.session.ports.tools
        await asyncio.to_thread(lambda: tools.schemas)
        # The request reports a failure.
        await asyncio.to_thread(self.model.preload_sdk().exception)

    async def connect(self, settings: Settings) -> None:
        """Use another endpoint or model from the next turn on. Raises ModelNotConfigured."""
        model = connect_model(self.runtime, settings)
        previous, self.model, self.settings = self.model, model, settings
        if self.session is not None:
            record = await asyncio.to_thread(self.runtime.sessions.get, self.session.id)
            self.session.use_model(model, await asyncio.to_thread(make_turn_settings, self.runtime, settings, record))
        if previous is not None:
            self._former_models.append(previous)
            self._spawn(self._close_former_models())

    async def _close_former_models(self) -> None:
        """Close the connections of former models once no running turn can use them."""
        if self.session is not None:
            await self.session.wait_until_idle()
        while self._former_models:
            await self._former_models.pop().aclose()

    @property
    def effort(self) -> str:
        """Return the reasoning effort in requests; `off` also if the model refuses the configured effort."""
        if self.model is None:
            return "off"
        return self.model.endpoint.options.without_refused(self.model.profile.refused).effort

    async def open(self, record: SessionRecord | None = None) -> Session:
        """Open a session, a new one if `record` is None; close the previous one, which stays in the store.

        If the session cannot be opened, the previous one stays open. Raises ModelNotConfigured.
        """
        if self.model is None:
            raise ModelNotConfigured(NO_SESSION)
        async with self._open_lock:
            if self.session is not None and record is not None and record.id == self.session.id:
                await self._close_session()
            session = await asyncio.to_thread(
                create_or_resume_session,
                self.runtime,
                self.model,
                record,
                self.settings,
                attended=True,
                source=self.mcp,
                notify=self._notify_once(asyncio.get_running_loop()),
            )
            await self._close_session()
            self._unsubscribe = session.subscribe(self._publish)
            self.session = session
            if not session.is_follower and has_unreported_interruption(session.log.events):
                await session.notify_user(UserNotice(text=INTERRUPTED_NOTICE, level="warning"))
        return session

    async def start_demo(self) -> tuple[str, str]:
        """Start the demo model in the background; return its base URL and model. Raises DemoServerCannotListen."""
        from app.demo.demo_server import demo_server

        settings = await self._demo_server.enter_async_context(demo_server())
        return settings["base_url"], settings["model"]

    async def close(self) -> None:
        """End the turn, stop the background tasks, store the drafts, and close the connections."""
        self.runtime.workspace.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._close_session()
        await self._close_former_models()
        await self.drafts.flush()
        await self.mcp.close()
        if self.model is not None:
            await self.model.aclose()
        await self._demo_server.aclose()

    def apply_settings(self, settings: Settings) -> None:
        """Apply changed settings except those of the endpoint, which `connect` applies."""
        if (settings.mcp, settings.mcp_of_others) != (self.settings.mcp, self.settings.mcp_of_others):
            self._spawn(self.mcp.refresh(settings))
        self.settings = settings
        if self.session is None:
            return
        self.session.ports = replace(self.session.ports, commit=make_commit_function(self.runtime, settings))
        policy = GateClosingPolicy(settings.gate, settings.chain_steps)
        self.session.settings = replace(
            self.session.settings,
            max_steps=settings.max_steps,
            plan=settings.plan,
            limits=make_session_limits(settings),
        )
        if policy != self.session.gate.policy:
            self.session.set_gate_policy(policy)

    async def proposals(self) -> list[Proposal]:
        """Return pending, recently decided and explicitly opened proposals, oldest first."""

        def read() -> list[Proposal]:
            store = self.runtime.proposals
            proposals_by_id = {proposal.id: proposal for proposal in store.recent_proposals()}
            for proposal_id in self._shown_proposals:
                if proposal_id not in proposals_by_id and (proposal := store.proposal(proposal_id)) is not None:
                    proposals_by_id[proposal.id] = proposal
            return sorted(proposals_by_id.values(), key=lambda proposal: proposal.number)

        return await asyncio.to_thread(read)

    async def show_proposal(self, proposal_id: str) -> None:
        """Add a proposal of any age to the review. Raises UnknownProposal."""
        if await asyncio.to_thread(self.runtime.proposals.proposal, proposal_id) is None:
            raise UnknownProposal(f"{proposal_id} is not in the store any more.")
        if proposal_id not in self._shown_proposals:
            self._shown_proposals = [*self._shown_proposals[-4:], proposal_id]

    async def take_queue_into_draft(self, draft: str) -> None:
        """Store the draft that contains the queued messages, and only then remove them from the queue."""
        if self.session is not None:
            self.drafts.save(self.session.id, draft)
            await self.drafts.flush()
            await self.session.confirm_queue_taken()

    def _notify_once(self, loop: asyncio.AbstractEventLoop) -> Callable[[str], None]:
        """Return a function that reports each line to the user only once; it may be called on any thread."""

        def notify(line: str) -> None:
            if line not in self._reported_lines:
                self._reported_lines.add(line)
                loop.call_soon_threadsafe(self._subscriber, SessionFailed(line))

        return notify

    async def _close_session(self) -> None:
        if self.session is not None:
            await self.session.close()
            self._unsubscribe()
            self.session = None
            self.runtime.signal.send()

    def _publish(self, update: Update) -> None:
        match update:
            case ProposalsChanged():
                self._rewatch_requested.set()
                self.unrecorded_decisions.request_check()
            case EventRecorded(event=TurnStarted()) if self.model is not None:
                # Loading certificates takes longest between a message and its request: start it now.
                self.model.preload_sdk()
        self._subscriber(update)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._handle_task_end)

    def _handle_task_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._subscriber(SessionFailed(f"signoff no longer notices changes from outside: {error}"))

    async def _follow_other_processes(self) -> None:
        """Publish changes by other processes in this workspace."""
        former_counter = await asyncio.to_thread(self.runtime.database.foreign_write_counter)
        async for _ in self.runtime.signal.listen():
            if self.session is not None and self.session.is_follower:
                # The signal file is also touched when another process closes its session.
                await self.session.take_over_turns()
            # The signal also comes for writes of this process; the counter shows whether another process wrote.
            counter = await asyncio.to_thread(self.runtime.database.foreign_write_counter)
            if counter == former_counter:
                continue
            former_counter = counter
            for line in await asyncio.to_thread(stage_hook_edits_and_list_failures, self.runtime):
                self._subscriber(SessionFailed(line))
            if self.session is not None:
                await self.session.load_external_events()
            await self.publish_proposal_changes()

    async def publish_proposal_changes(self) -> None:
        """Publish which proposals have changed since the last call, in any process."""
        versions = _proposal_versions(await self.proposals())
        changed = tuple(sorted({key for key, _ in versions.items() ^ self._seen_versions.items()}))
        self._seen_versions, former_count = versions, self._seen_line_count
        self._seen_line_count = await asyncio.to_thread(self.runtime.seen_lines_store.seen_line_count)
        if changed or self._seen_line_count != former_count:
            self._publish(ProposalsChanged(changed))

    async def _announce_recorded_decisions(self, lines: list[str]) -> None:
        if (session := self.session) is None:
            for line in lines:
                self._subscriber(SessionFailed(line))
            return
        await session.load_external_events()
        for line in lines:
            await session.notify_user(UserNotice(text=line))

    async def _update_watched_files(self) -> None:
        """Watch exactly the files of the pending proposals."""
        while True:
            await self._rewatch_requested.wait()
            self._rewatch_requested.clear()
            self._watcher.watch(await asyncio.to_thread(self.runtime.service.watched_paths))

    async def _rebase_on_disk_changes(self) -> None:
        """Re-base pending proposals when one of their files changes on disk."""
        async with aclosing(self._watcher.changes()) as changes:
            async for paths in changes:
                if self.session is not None:
                    await self.session.rebase_after_disk_change(paths)
                else:
                    await asyncio.to_thread(self.runtime.service.rebase_pending, paths)
                await self.publish_proposal_changes()


def _proposal_versions(proposals: list[Proposal]) -> dict[str, tuple[int, str, bool, str]]:
    return {
        proposal.id: (proposal.revision, proposal.state, proposal.is_reproduced, proposal.summary)
        for proposal in proposals
    }
