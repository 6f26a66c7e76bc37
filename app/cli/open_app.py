"""Opens the app: the screen first, then, behind it, the workspace and the demo if asked for."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.arguments import AppArguments, flags_of
from app.right_of_way import WatchedSelector
from app.storage.places import places
from app.ui.start import Opened

if TYPE_CHECKING:
    from app.runtime.workspace import Runtime
    from app.storage.sessions import SessionRecord

_SWITCH_INTERVAL = 0.0005
"""Seconds after which a thread that works lets another have the interpreter. A key comes in on one thread and goes
out on a third; at Python's 5 ms a busy second one would hold it up at each step: 15 ms in all."""


def open_app(arguments: AppArguments) -> int:
    """Run the app until the user leaves; returns the exit code.

    Raises:
        CommandError, ConfigError, StorageError: the workspace, the session or the demo cannot be opened.
    """
    sys.setswitchinterval(_SWITCH_INTERVAL)
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(WatchedSelector())) as runner:
        return runner.run(_run(arguments))


async def _run(arguments: AppArguments) -> int:
    from app.runtime.leaving import leaving_on_signals
    from app.ui.app import SignoffApp
    from app.ui.themes.first import first_theme

    async with AsyncExitStack() as stack:

        async def open_behind() -> Opened:
            return await _open(arguments, stack)

        where = places()
        theme = first_theme(arguments.theme, os.environ, Path(arguments.workspace or "."), where)
        app = SignoffApp(open_behind, where.log, theme)
        with leaving_on_signals(app.leave_soon, lambda: app.attention.has_terminal) as end_if_stuck:
            app.end_if_stuck = end_if_stuck
            await app.run_async()
        if app.failure is not None:
            raise app.failure
        if report := app.crash_report.getvalue():
            _report_crash(report, where.log)
        elif app.left_waiting is not None and (arguments.workspace or not arguments.demo):
            # The sample repository of the demo is gone by now, and its session with it.
            _tell_the_way_back(arguments, app.left_waiting)
        return app.return_code or 0


def _tell_the_way_back(arguments: AppArguments, waiting: int) -> None:
    """How to go on with the session that was left, and what waits meanwhile."""
    import shlex

    from app.cli.output import print_line

    folder = f" {shlex.quote(arguments.workspace)}" if arguments.workspace else ""
    back = f"`signoff{folder}{' --demo' if arguments.demo else ''} --continue` goes on where you were."
    if not waiting:
        print_line(back)
        return
    where = f" --workspace {shlex.quote(arguments.workspace)}" if arguments.workspace else ""
    what = "1 proposal waits" if waiting == 1 else f"{waiting} proposals wait"
    print_line(f"{what} for you: `signoff proposals{where}`. {back}")


def _report_crash(report: str, log: Path) -> None:
    """Keep the details of a crash to the user's own log, and say where they are."""
    from app.cli.output import print_error
    from app.ui.problems import keep

    where = f" Details are in {log}." if keep(report, log) else ""
    print_error(f"A defect in signoff ended it.{where} Nothing is lost: `signoff --continue` goes on where you were.")


async def _open(arguments: AppArguments, stack: AsyncExitStack) -> Opened:
    """Open the workspace; the stack closes it again."""
    from app.cli.output import debug_file

    root, flags = Path(arguments.workspace or "."), dict(flags_of(arguments))
    if arguments.demo:
        root, demo = await _demo(arguments.workspace, stack)
        flags |= demo
    runtime = await asyncio.to_thread(_open_workspace, root, flags)
    stack.callback(runtime.close)
    runtime.debug = stack.enter_context(debug_file(arguments.debug))
    return await asyncio.to_thread(_opened, runtime, arguments)


async def _demo(workspace: str | None, stack: AsyncExitStack) -> tuple[Path, dict[str, object]]:
    """The demo model, and its sample repository unless a folder was given."""
    from app.cli.demo_server import demo_endpoint
    from app.cli.output import CommandError
    from app.demo.sample import SAMPLE_CHECK, create_sample

    flags = await stack.enter_async_context(demo_endpoint())
    if workspace:
        return Path(workspace), flags
    # The sample's own check, which needs no trust: it comes with signoff, as the sample does.
    flags["check"] = (SAMPLE_CHECK,)
    try:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="signoff-demo-", ignore_cleanup_errors=True))
        return await asyncio.to_thread(create_sample, Path(folder)), flags
    except OSError as error:
        why = f"The sample repository can't be written: {error.strerror}."
        raise CommandError(f"{why} Set TMPDIR to a folder with room, or name a workspace.") from error


def _open_workspace(root: Path, flags: Mapping[str, Any]) -> "Runtime":
    from app.runtime.workspace import open_runtime

    return open_runtime(root, flags)


def _opened(runtime: "Runtime", arguments: AppArguments) -> Opened:
    return Opened(runtime, runtime.settings, _record(runtime, arguments), arguments.demo)


def _record(runtime: "Runtime", arguments: AppArguments) -> "SessionRecord | None":
    from app.cli.output import CommandError, Exit

    if arguments.session:
        return runtime.sessions.get(arguments.session)
    if not arguments.resume:
        return None
    latest = runtime.sessions.latest()
    if latest is None:
        raise CommandError("There is no session to continue here.", Exit.USAGE)
    return latest
