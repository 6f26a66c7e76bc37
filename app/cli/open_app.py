"""Opens the app: first the screen, then the workspace and, with `--demo`, the demo model."""

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.app_arguments import AppArguments, settings_from_flags
from app.cli.command_output import (
    CommandError,
    OutputNotWritten,
    open_debug_file,
    print_error,
    print_line,
    session_from_arguments,
)
from app.concurrency import IdleTrackingSelector, delay_thread_imports_while_loop_busy
from app.storage.app_dirs import find_app_dirs
from app.ui.startup import WorkspaceWithOptions

if TYPE_CHECKING:
    from app.runtime.open_workspace import OpenWorkspace
    from app.ui.context.current_session import ExitedSession

_THREAD_SWITCH_SECONDS = 0.0005
"""Seconds after which a busy thread lets another one run. A key passes three threads; with Python's default of 5 ms,
a busy one would delay it by 15 ms.
"""


def open_app(arguments: AppArguments) -> int:
    """Run the app until the user quits; return the exit code.

    Raises:
        CommandError, ConfigError, StorageError: The workspace, the session or the demo cannot be opened.
    """
    sys.setswitchinterval(_THREAD_SWITCH_SECONDS)
    delay_thread_imports_while_loop_busy()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(IdleTrackingSelector())) as runner:
        return runner.run(_run_app(arguments))


async def _run_app(arguments: AppArguments) -> int:
    from app.runtime.shutdown import exit_on_signals_even_if_stuck
    from app.runtime.terminal_at_start import save_first_picture
    from app.ui.app import SignoffApp
    from app.ui.themes.first_theme import load_configured_theme

    async with AsyncExitStack() as stack:
        where = find_app_dirs()

        async def open_behind() -> WorkspaceWithOptions:
            size, picture = app.size, app.notifier.take_first_picture()
            opened = await open_workspace_for_app(arguments, stack)
            if picture:
                await asyncio.to_thread(save_first_picture, where.first_pictures, arguments.theme, size, picture)
            return opened

        theme = load_configured_theme(arguments.theme, os.environ, Path(arguments.workspace or "."), where)
        app = SignoffApp(open_behind, where.log, theme)
        with exit_on_signals_even_if_stuck(app.exit_soon, lambda: app.notifier.has_terminal) as end_if_stuck:
            app.end_if_stuck = end_if_stuck
            await app.run_async()
        if app.failure is not None:
            raise app.failure
        if report := app.crash_report.getvalue():
            _report_crash(report, where.log)
        elif app.closed_session is not None:
            left = await asyncio.to_thread(app.closed_session.with_latest_flag, app.controllers.runtime.sessions)
            with suppress(OutputNotWritten):  # the terminal may be closed
                _print_resume_command(arguments, left)
        return app.return_code or 0


def _print_resume_command(arguments: AppArguments, left: "ExitedSession") -> None:
    """Print the command that continues the closed session, and the number of pending proposals."""
    import shlex

    if arguments.demo and not arguments.workspace:
        print_line(
            "The demo's sample repository is removed, and this session with it; one in a folder of yours stays: "
            "signoff FOLDER --demo"
        )
        return
    folder = shlex.quote(arguments.workspace) if arguments.workspace else ""
    which = "--continue" if left.is_latest else f"--session {left.id}"
    words = " ".join(filter(None, ("signoff", folder, "--demo" if arguments.demo else "", which)))
    waits = ""
    if left.waiting:
        what = "1 proposal waits" if left.waiting == 1 else f"{left.waiting} proposals wait"
        waits = f"   ({what}: signoff proposals{f' --workspace {folder}' if folder else ''})"
    print_line(f"To go on with this session: {words}{waits}")


def _report_crash(report: str, log: Path) -> None:
    """Write the details of a crash to the user's log, and print its path."""
    from app.ui.context.app_context import append_to_error_log

    where = f" Details are in {log}." if append_to_error_log(report, log) else ""
    print_error(f"A defect in signoff ended it.{where} Nothing is lost: `signoff --continue` goes on where you were.")


async def open_workspace_for_app(arguments: AppArguments, stack: AsyncExitStack) -> WorkspaceWithOptions:
    """Open the workspace, with `--demo` also the demo model; the stack closes them again."""
    root, flags = Path(arguments.workspace or "."), dict(settings_from_flags(arguments))
    if arguments.demo:
        root, demo = await _start_demo(arguments.workspace, stack)
        flags |= demo
    runtime = await asyncio.to_thread(_open_workspace, root, flags)
    stack.callback(runtime.close)
    if arguments.debug is not None:
        runtime.trace_file = await asyncio.to_thread(stack.enter_context, open_debug_file(arguments.debug))
    # On a thread: this imports modules and reads files, also for `runtime.settings`.
    return await asyncio.to_thread(
        lambda: WorkspaceWithOptions(
            runtime, runtime.settings, session_from_arguments(runtime, arguments), arguments.demo
        )
    )


async def _start_demo(workspace: str | None, stack: AsyncExitStack) -> tuple[Path, dict[str, object]]:
    """Start the demo model, and create the sample repository unless a folder is given; return folder and settings."""
    from app.cli.mcp_and_demo_servers import serve_demo_endpoint
    from app.demo.demo_server import SAMPLE_CHECK, create_sample_workspace

    if workspace:
        return Path(workspace), await stack.enter_async_context(serve_demo_endpoint())
    try:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="signoff-demo-", ignore_cleanup_errors=True))
        sample = await asyncio.to_thread(create_sample_workspace, Path(folder))
    except OSError as error:
        why = f"The sample repository can't be written: {error.strerror}."
        raise CommandError(f"{why} Set TMPDIR to a folder with room, or name a workspace.") from error
    flags = await stack.enter_async_context(serve_demo_endpoint(sample_workspace=sample))
    # The sample's own check needs no trust: it is part of signoff, as is the sample.
    flags["check"] = (SAMPLE_CHECK,)
    return sample, flags


def _open_workspace(root: Path, flags: Mapping[str, Any]) -> "OpenWorkspace":
    from app.runtime.open_workspace import open_workspace

    return open_workspace(root, flags)
