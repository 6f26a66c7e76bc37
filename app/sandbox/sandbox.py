"""Chooses, once for a workspace, how commands run on it, and opens the runs."""

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path

from app.sandbox.changes import Leaf, Pending
from app.sandbox.enclosed import StepFailed
from app.sandbox.guard import Guard, guard_of
from app.sandbox.in_place_run import InPlaceRun
from app.sandbox.keeping import Keeping
from app.sandbox.limits import Limits, limits
from app.sandbox.mode import ProbeResult, Run, SandboxMode
from app.sandbox.overlay_run import OverlayRun
from app.sandbox.own_process import can_filter, confine_steps, landlock_version
from app.sandbox.places import DEVICES, access, without_workspace
from app.sandbox.process import StartFailed
from app.sandbox.run_folders import clear_left_over, run_folder
from app.sandbox.standing_layer import StandingLayer
from app.sandbox.uncancelled import to_its_end
from app.workspace.paths import Workspace


class Sandbox:
    """Of one workspace; to be used on one event loop."""

    def __init__(
        self,
        workspace: Workspace,
        state: Path,
        *,
        own: Sequence[Path],
        writable: Sequence[str] = (),
        modes: Sequence[SandboxMode] = tuple(SandboxMode),
        bounds: Limits | None = None,
    ) -> None:
        """Nothing is tried yet.

        Args:
            workspace: Whose commands.
            state: A folder for what exists as long as a run.
            own: signoff's own folders, which no command sees.
            writable: What the user lets commands write besides the usual.
            modes: What may be chosen from; in place is always possible.
            bounds: Of the memory and the processes of each program; the usual if not given.
        """
        self._workspace = workspace
        self._state = state
        self._own = tuple(own)
        self._writable = tuple(writable)
        self._modes = tuple(modes)
        self.limits = bounds or limits()
        self._probing = asyncio.Lock()
        self._probed: ProbeResult | None = None

    @property
    def writable(self) -> tuple[Path, ...]:
        """What commands may write outside the workspace."""
        return access(self._writable, self._own).writable

    async def probe(self) -> ProbeResult:
        """How commands run here; found out when first asked."""
        async with self._probing:
            if self._probed is None:
                await asyncio.to_thread(clear_left_over, self._state)
                self._probed = await self._probe()
            return self._probed

    @asynccontextmanager
    async def open(self, pending: Pending) -> AsyncIterator[Run]:
        """The workspace with these changes over it; what is not read or written through is gone at the end.

        Raises:
            OSError: There is no room for it.
        """
        opened: AbstractAsyncContextManager[Run] = (
            self._overlay(pending) if (await self.probe()).mode is SandboxMode.OVERLAY else self._in_place(pending)
        )
        async with opened as run:
            yield run

    @asynccontextmanager
    async def stand(self, writable: Sequence[str] = ()) -> AsyncIterator[StandingLayer]:
        """A layer for a program that runs for long; only where commands run on an overlay.

        Args:
            writable: What else this program may write outside the workspace.

        Raises:
            OSError: There is no room for it.
        """
        with ExitStack() as stack:
            folder = await to_its_end(asyncio.to_thread(stack.enter_context, run_folder(self._state)))
            may = access((*self._writable, *writable), self._own)
            layer = StandingLayer(self._workspace, folder, may)
            await to_its_end(asyncio.to_thread(layer.prepare))
            try:
                yield layer
            finally:
                await asyncio.to_thread(stack.close)

    def read_only_steps(self, writable: Sequence[str] = ()) -> list[str]:
        """The steps by which a program can write nothing of the workspace; none where the kernel lacks Landlock."""
        if not landlock_version():
            return []
        may = without_workspace(access((*self._writable, *writable), self._own), self._workspace.root)
        # The user has chosen the program: it may talk to others.
        return confine_steps(may.writable, DEVICES, self._unreadable, sockets=True)

    @property
    def _unreadable(self) -> tuple[Path, ...]:
        """What a program in no namespace may not read: signoff's own folders."""
        return tuple(Path(os.path.realpath(path)) for path in self._own if path.exists())

    @asynccontextmanager
    async def _in_place(self, pending: Pending) -> AsyncIterator[InPlaceRun]:
        guard, keeping = self._guard(), Keeping(self._workspace, pending)
        with ExitStack() as stack:
            await to_its_end(asyncio.to_thread(stack.enter_context, guard.held()))
            try:
                await to_its_end(asyncio.to_thread(guard.keep, keeping, pending))
                yield InPlaceRun(guard, keeping, self.writable, self._unreadable, self.limits)
            finally:
                await to_its_end(asyncio.to_thread(guard.restore, keeping))

    def put_back(self, *, patient: bool = True) -> str:
        """Put back what a command in place has changed that was cut off; a line for the user if there was one.

        Args:
            patient: Wait for one that is just ending.

        Raises:
            Busy: It is running.
            OSError: The disk would not.
        """
        return self._guard().left_over(lambda pending: Keeping(self._workspace, pending), patient=patient)

    def _guard(self) -> Guard:
        return guard_of(self._workspace.root, self._state)

    @asynccontextmanager
    async def _overlay(self, pending: Pending) -> AsyncIterator[OverlayRun]:
        with ExitStack() as stack:
            folder = await to_its_end(asyncio.to_thread(stack.enter_context, run_folder(self._state)))
            run = OverlayRun(self._workspace, folder, access(self._writable, self._own), pending, self.limits)
            await to_its_end(asyncio.to_thread(run.prepare))
            try:
                yield run
            finally:
                # There may be much of it to remove.
                await asyncio.to_thread(stack.close)

    async def _probe(self) -> ProbeResult:
        if SandboxMode.OVERLAY not in self._modes:
            return ProbeResult(SandboxMode.IN_PLACE, "it is not wanted", landlock_version(), can_filter())
        if why_not := await self._why_no_overlay():
            return ProbeResult(SandboxMode.IN_PLACE, why_not, landlock_version(), can_filter())
        return ProbeResult(SandboxMode.OVERLAY)

    async def _why_no_overlay(self) -> str:
        try:
            async with self._overlay({_PROBE: Leaf(b"", 0o644)}) as run:
                ended = await run.execute(["/bin/sh", "-c", _TRIAL], folder=".", seconds=10, output=lambda _: None)
                found = await run.changes()
        except StepFailed as failed:
            return _WHY_NOT.get(failed.step, str(failed))
        except (OSError, StartFailed) as error:
            return str(error)
        if ended.code or [each.path for each in found.touched] != [_PROBE, f"{_PROBE}.2/file"]:
            return "a layer over this file system does not hold what is written"
        return ""


_PROBE = ".signoff-probe"
_TRIAL = f"mkdir {_PROBE}.1 && echo > {_PROBE}.1/file && mv {_PROBE}.1 {_PROBE}.2 && echo > {_PROBE}"
_NO_NAMESPACES = "the system does not let users make namespaces"
_WHY_NOT = {
    "namespaces": _NO_NAMESPACES,
    "bind": _NO_NAMESPACES,
    "read-only": "the kernel is older than 5.12, or does not let a mount be made read-only",
    "overlay": "the system does not let users mount an overlay here",
    "start": "the system does not let users mount a /proc of their own",
}
"""By the step that was refused."""
