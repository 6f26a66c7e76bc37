"""Hosts the session of an open app: opens and switches it, and hears what the world does meanwhile.

UI-free: the app gives it a subscriber and calls its methods; tests drive it without a screen.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import Any

from app.agent.deciding import Decisions
from app.agent.gate import GatePolicy
from app.agent.session import Session
from app.agent.updates import Failed, ProposalsChanged, Recorded, Update
from app.config.settings import Settings
from app.conversation.events import Notice, TurnStarted
from app.llm.capabilities.model_list import ListedModel
from app.llm.client import ModelClient
from app.proposals.disk.watching import ProposalWatcher
from app.proposals.errors import UnknownProposal
from app.proposals.models import Proposal
from app.runtime.connection import committer, connect, list_models, open_session, turn_settings
from app.runtime.deciding import SessionlessDecisions
from app.runtime.drafts import Drafts
from app.runtime.left_over import LeftOver
from app.runtime.recovery import BROKE_OFF, broke_off, recover
from app.runtime.served import Served
from app.runtime.workspace import Runtime
from app.storage.sessions import SessionRecord

Subscriber = Callable[[Update], None]
_PATIENCE = 5.0
"""Seconds from the start of an MCP server that a user waits for its tools."""
_HOOKS_AT_THE_END = 1.0
"""Seconds that hooks have left when the user leaves."""


class OpenSession:
    """One workspace, one session at a time, one model at a time."""

    def __init__(self, runtime: Runtime, settings: Settings, subscriber: Subscriber) -> None:
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
        self.drafts = Drafts(runtime.sessions, lambda line: subscriber(Failed(line)))
        """What stands in the composer, session by session."""
        self.served = Served(runtime, lambda line: subscriber(Failed(line)), _PATIENCE)
        """The MCP servers, whose tools every session has."""
        self._told: set[str] = set()
        """Lines that opening a session brought up."""
        self.left_over = LeftOver(runtime, lambda: self.session.id if self.session else "")
        """Decisions without a record."""
        self._brought_up: list[str] = []
        """Decided proposals that the user opened although they are not recent."""

    @property
    def decisions(self) -> Decisions:
        """What carries out the user's decisions: the session, or, while there is none, what does without."""
        if self.session is not None:
            return self.session
        return SessionlessDecisions(
            self.runtime,
            commit=lambda: committer(self.runtime, self.settings),
            changed=lambda ids: self._pass_on(ProposalsChanged(ids)),
            tell=lambda line: self._subscriber(Failed(line)),
        )

    async def start(self) -> list[str]:
        """Recover what a crash left, re-base what waits, and begin to watch. Returns lines for the user."""
        loop = asyncio.get_running_loop()

        def tell(line: str) -> None:
            loop.call_soon_threadsafe(self._subscriber, Failed(line))

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
            if not session.follows and broke_off(session.log.events):
                await session.note(Notice(text=BROKE_OFF, level="warning"))
        return session

    async def start_demo(self) -> tuple[str, str]:
        """Start the demo model beside the app; returns its base URL and model. Raises DemoServerFailed."""
        from app.demo.server import demo_server

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
            await self.session.forget_taken()

    def _tell_once(self, loop: asyncio.AbstractEventLoop) -> Callable[[str], None]:
        """What takes lines for the user on any thread, and says each only once."""

        def tell(line: str) -> None:
            if line not in self._told:
                self._told.add(line)
                loop.call_soon_threadsafe(self._subscriber, Failed(line))

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
            self._subscriber(Failed(f"signoff no longer notices changes from outside: {error}"))

    async def _hear_others(self) -> None:
        """Take in what other processes wrote to this workspace."""
        seen = await asyncio.to_thread(self.runtime.database.foreign_writes)
        async for _ in self.runtime.signal.heard():
            if self.session is not None and self.session.follows:
                # It rings, too, when a session is closed.
                await self.session.take_over()
            # What this process wrote rings too; the database tells whether anyone else did.
            now = await asyncio.to_thread(self.runtime.database.foreign_writes)
            if now == seen:
                continue
            seen = now
            for line in await asyncio.to_thread(_stage_captured, self.runtime):
                self._subscriber(Failed(line))
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
                self._subscriber(Failed(line))
            return
        await session.catch_up()
        for line in lines:
            await session.note(Notice(text=line))

    async def _keep_watching(self) -> None:
        """Watch the files of what waits, and only those."""
        while True:
            await self._rewatch.wait()
            self._rewatch.clear()
            self._watcher.watch(await asyncio.to_thread(self.runtime.service.watched))

    async def _watch_disk(self) -> None:
        """Re-base what waits whenever one of its files changes on disk."""
        async with aclosing(self._watcher.changes()) as changes:
            async for paths in changes:
                if self.session is not None:
                    await self.session.disk_changed(paths)
                else:
                    await asyncio.to_thread(self.runtime.service.refresh, paths)
                await self.notice_proposals()


def _stage_captured(runtime: Runtime) -> list[str]:
    # What it needs is loaded once another process has written.
    from app.runtime.captured import stage_captured

    return stage_captured(runtime)


def _versions(proposals: list[Proposal]) -> dict[str, tuple[int, str]]:
    return {proposal.id: (proposal.revision, proposal.state) for proposal in proposals}
