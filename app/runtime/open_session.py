"""Hosts the session of an open app: opens and switches it, and hears what the world does meanwhile.

UI-free: the app gives it a subscriber and calls its methods; tests drive it without a screen.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from app.agent.decision_service import DecisionService, not_recorded_message
from app.agent.gate import GatePolicy
from app.agent.session import Session
from app.agent.updates import ProposalsChanged, Recorded, SessionFailed, Update
from app.config.settings import Settings
from app.conversation.events import Notice, ProposalDecided, TurnStarted
from app.llm.capabilities.model_list import ListedModel
from app.llm.client import ModelClient
from app.proposals.files.proposal_watcher import ProposalWatcher
from app.proposals.proposal_service import ProposalService
from app.proposals.values.decision_results import DecisionResult
from app.proposals.values.models import Proposal
from app.proposals.values.proposal_errors import UnknownProposal
from app.runtime.mcp_manager import McpManager
from app.runtime.model_connection import committer, connect, list_models, open_session, turn_settings
from app.runtime.open_workspace import OpenWorkspace
from app.runtime.workspace_recovery import BROKE_OFF, PATIENCE, broke_off, record_decision, record_left_over, recover
from app.storage.session_store import SessionRecord, SessionStore
from app.storage.storage_errors import StorageError

_GATHER_SECONDS = 0.3
"""How long keys are gathered before they are written, also while the user types without a pause."""
_PREFIX = "draft:"


class StoredDraft(BaseModel):
    """The draft of one session, as it is stored."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    draft: str
    """As the composer keeps it."""
    process: int = 0
    """Whose composer it stands in."""
    time: float = 0.0
    """When it was written, in Unix time."""


class DraftStore:
    """Keeps the drafts of the sessions of one workspace; use it on one event loop."""

    def __init__(self, sessions: SessionStore, failed: Callable[[str], None]) -> None:
        """Nothing is read yet.

        Args:
            sessions: the store.
            failed: called with a line for the user when a draft could not be kept.
        """
        self._sessions = sessions
        self._failed = failed
        self._now: dict[str, str] = {}
        self._due: set[str] = set()
        self._writer: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    async def recall(self, session_id: str, *, fresh: bool = False) -> str:
        """What was being written in a session.

        Args:
            session_id: the session.
            fresh: it is a new one; it takes over what a process that is gone left in one in which nothing was said.
        """
        await self.settled()
        kept = await asyncio.to_thread(self._adopted if fresh else self._stored, session_id)
        self._now[session_id] = kept
        return kept

    def keep(self, session_id: str, draft: str) -> None:
        """The composer has changed."""
        if draft == self._now.get(session_id, ""):
            return
        self._now[session_id] = draft
        self._due.add(session_id)
        if self._writer is None:
            self._writer = asyncio.create_task(self._write(), name="drafts")

    async def settled(self) -> None:
        """Have everything written now."""
        if self._writer is not None:
            self._hurry.set()
            await asyncio.wait({self._writer})

    async def _write(self) -> None:
        try:
            while self._due:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._hurry.wait(), _GATHER_SECONDS)
                due, self._due = self._due, set()
                await asyncio.to_thread(self._store, {session_id: self._now[session_id] for session_id in due})
        except StorageError as error:
            self._failed(f"What you write is not kept for a restart: {error}")
        finally:
            self._writer = None
            self._hurry.clear()

    # On a thread

    def _store(self, drafts: dict[str, str]) -> None:
        for session_id, draft in drafts.items():
            kept = StoredDraft(draft=draft, process=os.getpid(), time=time.time())
            self._sessions.set_setting(_PREFIX + session_id, kept.model_dump_json() if draft else None)

    def _stored(self, session_id: str) -> str:
        value = self._sessions.setting(_PREFIX + session_id)
        return _parsed(value).draft if value else ""

    def _adopted(self, session_id: str) -> str:
        found = {key: _parsed(value) for key, value in self._sessions.settings(_PREFIX).items()}
        for key, kept in sorted(found.items(), key=lambda each: -each[1].time):
            if not _is_alive(kept.process) and not self._sessions.last_events(key.removeprefix(_PREFIX), 1):
                self._sessions.rename_setting(key, _PREFIX + session_id)
                return kept.draft
        return ""


def _parsed(value: str) -> StoredDraft:
    try:
        return StoredDraft.model_validate_json(value)
    except ValidationError:
        # Earlier versions stored the bare text.
        return StoredDraft(draft=value)


def _is_alive(process: int) -> bool:
    if process <= 0:
        return False
    try:
        os.kill(process, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


_LONGEST_PAUSE = 60.0
"""Seconds between two attempts, once many have failed."""


class UnrecordedDecisions:
    """Decisions of any process that stand without a record. Nothing tells when a store works again: it is tried."""

    def __init__(self, runtime: OpenWorkspace, here: Callable[[], str], patience: float = PATIENCE) -> None:
        """Nothing is looked for yet.

        Args:
            runtime: the open workspace.
            here: the session whose model is told of proposals that come from none.
            patience: seconds that a living process has between a decision and its record.
        """
        self._runtime = runtime
        self._here = here
        self._patience = patience
        self._decided = asyncio.Event()

    def look(self) -> None:
        """Something may have been decided."""
        self._decided.set()

    async def record(self, recorded: Callable[[list[str]], Awaitable[None]]) -> None:
        """Record what is left over, whenever anything is, and say so, a line for each."""
        while True:
            await self._decided.wait()
            self._decided.clear()
            pause = self._patience
            while await asyncio.to_thread(self._is_any):
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                if lines := await asyncio.to_thread(self._try):
                    await recorded(lines)

    def _is_any(self) -> bool:
        try:
            return bool(self._runtime.proposals.unrecorded())
        except StorageError:
            return True

    def _try(self) -> list[str]:
        try:
            return record_left_over(self._runtime, patience=self._patience, here=self._here())
        except StorageError:
            return []


class SessionlessDecisions(DecisionService):
    """Decisions that are recorded for whoever proposed: an agent reads them, a session when it is resumed."""

    def __init__(
        self,
        runtime: OpenWorkspace,
        commit: Callable[[], Callable[[Proposal], str] | None],
        changed: Callable[[tuple[str, ...]], None],
        tell: Callable[[str], None],
    ) -> None:
        """Nothing is decided yet.

        Args:
            runtime: The open workspace.
            commit: Gives what makes a git commit of an approved proposal, if the settings ask for that.
            changed: Takes the ids of proposals that are different now.
            tell: Takes a line for the user.
        """
        self._runtime = runtime
        self._commits = commit
        self._changed = changed
        self._tell = tell

    @property
    def proposal_service(self) -> ProposalService:
        """That of the workspace."""
        return self._runtime.service

    @property
    def committer(self) -> Callable[[Proposal], str] | None:
        """By the settings in force."""
        return self._commits()

    async def _record_decision(self, result: DecisionResult, event: ProposalDecided) -> None:
        try:
            await asyncio.to_thread(record_decision, self._runtime, event, result.changed)
        except Exception as error:
            raise not_recorded_message(result, error) from error
        finally:
            self._changed((result.proposal.id, *(other.id for other in result.changed)))

    async def _tell_commit(self, text: str, *, failed: bool) -> None:
        if failed:
            self._tell(text)


Subscriber = Callable[[Update], None]
_PATIENCE = 5.0
"""Seconds from the start of an MCP server that a user waits for its tools."""
_HOOKS_AT_THE_END = 1.0
"""Seconds that hooks have left when the user leaves."""


class OpenSession:
    """One workspace, one session at a time, one model at a time."""

    def __init__(self, runtime: OpenWorkspace, settings: Settings, subscriber: Subscriber) -> None:
        """Nothing is opened yet.

        Args:
            runtime: the open workspace.
            settings: the merged settings; replaced by `connect`.
            subscriber: gets every update of whichever session is open.
        """
        self.runtime = runtime
        self.settings = settings
        self._subscriber = subscriber
        self._unsubscribe: Callable[[], None] = lambda: None
        self.model: ModelClient | None = None
        self.session: Session | None = None
        self._demo = AsyncExitStack()
        self._tasks: set[asyncio.Task[None]] = set()
        self._known: dict[str, tuple[int, str]] = {}
        self._opening = asyncio.Lock()
        self._rewatch = asyncio.Event()
        self._watcher = ProposalWatcher(runtime.workspace.root)
        runtime.hooked.patience = _HOOKS_AT_THE_END
        self.drafts = DraftStore(runtime.sessions, lambda line: subscriber(SessionFailed(line)))
        """What stands in the composer, session by session."""
        self.served = McpManager(runtime, lambda line: subscriber(SessionFailed(line)), _PATIENCE)
        """The MCP servers, whose tools every session has."""
        self._told: set[str] = set()
        """Lines that opening a session brought up."""
        self.left_over = UnrecordedDecisions(runtime, lambda: self.session.id if self.session else "")
        """Decisions without a record."""
        self._brought_up: list[str] = []
        """Decided proposals that the user opened although they are not recent."""

    @property
    def decisions(self) -> DecisionService:
        """What carries out the user's decisions: the session, or, while there is none, what does without."""
        if self.session is not None:
            return self.session
        return SessionlessDecisions(
            self.runtime,
            commit=lambda: committer(self.runtime, self.settings),
            changed=lambda ids: self._pass_on(ProposalsChanged(ids)),
            tell=lambda line: self._subscriber(SessionFailed(line)),
        )

    async def start(self) -> list[str]:
        """Recover what a crash left, re-base what waits, and begin to watch. Returns lines for the user."""
        loop = asyncio.get_running_loop()

        def tell(line: str) -> None:
            loop.call_soon_threadsafe(self._subscriber, SessionFailed(line))

        service = await asyncio.to_thread(lambda: self.runtime.service)
        service.tell = self.runtime.hooked.tell = tell
        lines = await asyncio.to_thread(recover, self.runtime)
        if lines and (session := self.session) is not None:
            await session.catch_up()
        await asyncio.to_thread(self.runtime.service.refresh)
        self._known = _versions(await self.proposals())
        self._rewatch.set()
        self.left_over.look()
        self._spawn(self.left_over.record(self._left_over_recorded))
        self._spawn(self.served.look(self.settings))
        self._spawn(self._hear_others())
        self._spawn(self._keep_watching())
        self._spawn(self._watch_disk())
        return lines

    async def expect_turn(self) -> None:
        """Load on a thread what the first request of a turn needs; returns once it is there, or cannot be loaded."""
        if self.model is None or self.session is None:
            return
        tools = self.session.ports.tools
        await asyncio.to_thread(lambda: tools.schemas)
        # A failure is told when a request is made.
        await asyncio.to_thread(self.model.expect_request().exception)

    async def connect(self, settings: Settings) -> None:
        """Talk to another endpoint or model from now on; raises `NotConnected`."""
        model = connect(self.runtime, settings)
        previous, self.model, self.settings = self.model, model, settings
        if self.session is not None:
            record = await asyncio.to_thread(self.runtime.sessions.get, self.session.id)
            self.session.use_model(model, await asyncio.to_thread(turn_settings, self.runtime, settings, record))
        if previous is not None:
            await previous.aclose()

    @property
    def effort(self) -> str:
        """How much the model is asked to reason; `off` also where it is known to refuse what the user wants."""
        if self.model is None:
            return "off"
        return self.model.endpoint.wishes.without(self.model.profile.refused).effort

    async def open(self, record: SessionRecord | None = None) -> Session:
        """Open a session, a new one if none is given; the one before is closed and stays in the store."""
        assert self.model is not None, "connect first"
        async with self._opening:
            await self._leave()
            session = await asyncio.to_thread(
                open_session,
                self.runtime,
                self.model,
                record,
                self.settings,
                attended=True,
                source=self.served,
                tell=self._tell_once(asyncio.get_running_loop()),
            )
            self._unsubscribe = session.subscribe(self._pass_on)
            self.session = session
            if not session.is_follower and broke_off(session.log.events):
                await session.notify_user(Notice(text=BROKE_OFF, level="warning"))
        return session

    async def start_demo(self) -> tuple[str, str]:
        """Start the demo model beside the app; returns its base URL and model. Raises DemoServerFailed."""
        from app.demo.demo_server import demo_server

        settings = await self._demo.enter_async_context(demo_server())
        return settings["base_url"], settings["model"]

    async def close(self) -> None:
        """End the turn, stop watching and looking through the workspace, close the connections."""
        self.runtime.workspace.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._leave()
        await self.drafts.settled()
        await self.served.close()
        if self.model is not None:
            await self.model.aclose()
        await self._demo.aclose()

    async def list_models(self, settings: Settings) -> list[ListedModel]:
        """The models of the endpoint that these settings name; raises RequestError or NotConnected."""
        return await list_models(self.runtime, settings)

    def apply(self, settings: Settings) -> None:
        """Put changed settings in force: gate policy, limits of a turn, commits; the endpoint is `connect`'s."""
        if (settings.mcp, settings.mcp_of_others) != (self.settings.mcp, self.settings.mcp_of_others):
            self._spawn(self.served.look(settings))
        self.settings = settings
        if self.session is None:
            return
        self.session.ports = replace(self.session.ports, commit=committer(self.runtime, settings))
        policy = GatePolicy(settings.gate, settings.chain_steps)
        self.session.settings = replace(self.session.settings, max_steps=settings.max_steps, plan=settings.plan)
        if policy != self.session.gate.policy:
            self.session.set_policy(policy)

    async def proposals(self) -> list[Proposal]:
        """What waits, what was decided lately, and what the user brought up, oldest first."""

        def read() -> list[Proposal]:
            store = self.runtime.proposals
            found = {one.id: one for one in store.recent()}
            for wanted in self._brought_up:
                if wanted not in found and (one := store.proposal(wanted)) is not None:
                    found[one.id] = one
            return sorted(found.values(), key=lambda one: int(one.id[1:]))

        return await asyncio.to_thread(read)

    async def bring_up(self, proposal_id: str) -> None:
        """Keep a proposal in the review, however old; raises UnknownProposal."""
        if await asyncio.to_thread(self.runtime.proposals.proposal, proposal_id) is None:
            raise UnknownProposal(f"{proposal_id} is not in the store any more.")
        if proposal_id not in self._brought_up:
            self._brought_up = [*self._brought_up[-4:], proposal_id]

    async def keep_taken(self, draft: str) -> None:
        """What was queued is in the draft now: keep that, and only then let go of the queue."""
        if self.session is not None:
            self.drafts.keep(self.session.id, draft)
            await self.drafts.settled()
            await self.session.confirm_taken()

    def _tell_once(self, loop: asyncio.AbstractEventLoop) -> Callable[[str], None]:
        """What takes lines for the user on any thread, and says each only once."""

        def tell(line: str) -> None:
            if line not in self._told:
                self._told.add(line)
                loop.call_soon_threadsafe(self._subscriber, SessionFailed(line))

        return tell

    async def _leave(self) -> None:
        if self.session is not None:
            await self.session.close()
            self._unsubscribe()
            self.session = None
            self.runtime.signal.send()

    def _pass_on(self, update: Update) -> None:
        match update:
            case ProposalsChanged():
                self._rewatch.set()
                self.left_over.look()
            case Recorded(event=TurnStarted()) if self.model is not None:
                # Reading certificates takes longer than all else between a message and its request.
                self.model.expect_request()
        self._subscriber(update)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()):
            self._subscriber(SessionFailed(f"signoff no longer notices changes from outside: {error}"))

    async def _hear_others(self) -> None:
        """Take in what other processes wrote to this workspace."""
        seen = await asyncio.to_thread(self.runtime.database.foreign_writes)
        async for _ in self.runtime.signal.heard():
            if self.session is not None and self.session.is_follower:
                # It rings, too, when a session is closed.
                await self.session.take_over()
            # What this process wrote rings too; the database tells whether anyone else did.
            now = await asyncio.to_thread(self.runtime.database.foreign_writes)
            if now == seen:
                continue
            seen = now
            for line in await asyncio.to_thread(_stage_captured, self.runtime):
                self._subscriber(SessionFailed(line))
            if self.session is not None:
                await self.session.catch_up()
            await self.notice_proposals()

    async def notice_proposals(self) -> None:
        """Tell of what is different in the proposals, whoever made it so."""
        now = _versions(await self.proposals())
        changed = tuple(
            sorted(key for key in now.keys() | self._known.keys() if now.get(key) != self._known.get(key))
        )
        self._known = now
        if changed:
            self._pass_on(ProposalsChanged(changed))

    async def _left_over_recorded(self, lines: list[str]) -> None:
        if (session := self.session) is None:
            for line in lines:
                self._subscriber(SessionFailed(line))
            return
        await session.catch_up()
        for line in lines:
            await session.notify_user(Notice(text=line))

    async def _keep_watching(self) -> None:
        """Watch the files of what waits, and only those."""
        while True:
            await self._rewatch.wait()
            self._rewatch.clear()
            self._watcher.watch(await asyncio.to_thread(self.runtime.service.watched_paths))

    async def _watch_disk(self) -> None:
        """Re-base what waits whenever one of its files changes on disk."""
        async with aclosing(self._watcher.changes()) as changes:
            async for paths in changes:
                if self.session is not None:
                    await self.session.disk_changed(paths)
                else:
                    await asyncio.to_thread(self.runtime.service.refresh, paths)
                await self.notice_proposals()


def _stage_captured(runtime: OpenWorkspace) -> list[str]:
    # What it needs is loaded once another process has written.
    from app.runtime.workspace_recovery import stage_captured

    return stage_captured(runtime)


def _versions(proposals: list[Proposal]) -> dict[str, tuple[int, str]]:
    return {proposal.id: (proposal.revision, proposal.state) for proposal in proposals}
