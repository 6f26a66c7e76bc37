"""What goes wrong while the app runs: nothing is lost, and one clear line says what happened."""

import asyncio
import contextlib
import io
import sqlite3
import stat
import tempfile
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from textual.widgets import OptionList

from app.cli import open_app as opening
from app.cli.command_output import CommandError
from app.llm import endpoint_doctor
from app.runtime.open_workspace import open_workspace
from app.ui.app import SignoffApp
from app.ui.screens.setup_screens import ModelSetupScreen
from app.ui.startup import WorkspaceWithOptions
from tests.pictures import paint_everything
from tests.ui.running_app import Running, running, staged
from tests.ui.test_app_decisions import APPROVED
from tests.waiting import MAX_WAIT_SECONDS, until
from tests.wire.server import WireServer
from widgets.common.workbench_bars import StatusBar

SECRET = "the-secret-of-the-user"


@contextlib.contextmanager
def broken(run: Running, message: str) -> Iterator[None]:
    """Make SQLite fail in the middle of the transaction: any writer may find the disk full."""
    with contextlib.closing(sqlite3.connect(run.runtime.database.path)) as other:
        other.execute(f"CREATE TRIGGER broken BEFORE INSERT ON events BEGIN SELECT RAISE(ABORT, '{message}'); END")
        yield
        other.execute("DROP TRIGGER broken")


async def test_what_cannot_be_stored_returns_to_the_composer_or_is_reported_as_written(
    tmp_path: Path, server: WireServer
) -> None:
    async with staged(tmp_path, server) as run:
        before = len(server.requests)
        with broken(run, "disk is full"):
            await run.submit("keep me")
            await run.until(
                lambda: "could not be used: disk is full" in " ".join(run.text.replace("▌", "").split()), "the reason"
            )
            await run.until(lambda: run.app.workbench.composer.draft == "keep me", "the message in the composer")
            assert len(server.requests) == before
        server.say("Here I am.")
        run.app.clear_notifications()
        await run.pilot.press("enter")
        await run.see("Here I am.")
        await run.settled()
        # An approval is reported as written although it is not recorded.
        with broken(run, "disk I/O error"):
            await run.review("y")
            await run.until(lambda: run.file == APPROVED, "the file")
            outcome = run.app.workbench.review.approval_pane.query_one("#outcome")
            await run.until(lambda: "Don't repeat it" in str(outcome.render()), "what to do")
            await run.see("P1 is applied, all its files are written", "1 decided")


async def test_local_models_are_offered(tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.models = ["a-model", "local-model"]
    port = urlsplit(server.base_url).port
    monkeypatch.setattr(endpoint_doctor, "USUAL_PORTS", (port,))
    # A busy machine may not answer within the half second that the screen waits.
    monkeypatch.setattr(
        endpoint_doctor,
        "find_local_servers",
        partial(endpoint_doctor.find_local_servers, max_wait_seconds=MAX_WAIT_SECONDS),
    )
    async with running(tmp_path) as run:
        await run.screen("ModelSetupScreen")
        await run.see("local-model", f"127.0.0.1:{port}", "The demo model", "2 models on this machine")
        assert isinstance(run.app.screen, ModelSetupScreen)
        await run.pilot.press("down", "enter")
        await run.until(lambda: run.app.current_session is not None, "the session")
        assert run.app.settings.base_url == f"http://127.0.0.1:{port}/v1"
        assert run.app.settings.model == "local-model"
    async with running(tmp_path) as run:
        await run.screen("ModelSetupScreen")
        await run.see("2 models on this machine")
        assert run.app.screen.query_one(OptionList).highlighted == 1, "the one of the last time"
        await run.pilot.press("ctrl+p")
        await run.see("Escape closes this first.")


async def test_a_crash_report_after_a_render_error_has_no_data(
    tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: StatusBar) -> str:
        inside = SECRET
        raise LookupError(f"lost {len(inside)}")

    paint_everything(monkeypatch)
    with pytest.raises(LookupError):
        async with running(tmp_path, server) as run:
            app = run.app
            monkeypatch.setattr(StatusBar, "render", broken)
            app.workbench.query_one(StatusBar).refresh()
            await until(lambda: not app.is_running, "the end of the app")
    assert "LookupError" in app.crash_report.getvalue()
    log = tmp_path / "state" / "signoff.log"
    errors = io.StringIO()
    monkeypatch.setattr("sys.stderr", errors)
    opening._report_crash(app.crash_report.getvalue(), log)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert "LookupError" in log.read_text()
    said = errors.getvalue()
    assert str(log) in said and "--continue" in said
    assert SECRET not in said and "Traceback" not in said and len(said.splitlines()) == 1


async def test_a_demo_without_a_temporary_folder_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    async with contextlib.AsyncExitStack() as stack:
        with pytest.raises(CommandError, match=r"^The sample repository can't be written: No such .* Set TMPDIR to"):
            await opening._start_demo(None, stack)


async def test_concurrent_requests_open_one_session(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        first = run.app.require_session()
        run.app.current.host.session = None
        chosen = asyncio.Event()

        async def ask_twice() -> None:
            await asyncio.gather(
                run.app.controllers.connector.connect_or_choose(), run.app.controllers.connector.connect_or_choose()
            )
            chosen.set()

        before = run.runtime.database.query_rows("SELECT count(*) FROM sessions")[0][0]
        run.app.run_background(ask_twice)
        await run.until(chosen.is_set, "the session")
        assert run.runtime.database.query_rows("SELECT count(*) FROM sessions")[0][0] == int(str(before)) + 1
        await first.close()


async def test_the_app_can_be_quit_while_proposals_are_loaded(tmp_path: Path, server: WireServer) -> None:
    flags = {"base_url": server.base_url, "model": "test-model", "api_key": "key"}
    runtime = open_workspace(tmp_path, flags, {})

    async def opener() -> WorkspaceWithOptions:
        return WorkspaceWithOptions(runtime, runtime.settings, None)

    app = SignoffApp(opener, runtime.dirs.log)
    gone, loop = threading.Event(), asyncio.get_running_loop()
    try:
        async with app.run_test() as pilot:
            await Running(app, runtime, pilot).until(lambda: app.current_session is not None, "the session")
            await pilot.pause()
            # All threads of the loop are busy until there is no screen any more.
            busy = [loop.run_in_executor(None, gone.wait) for _ in range(64)]
            shown = asyncio.create_task(app.show_proposals())
            await asyncio.sleep(0)
        gone.set()
        await shown
        await asyncio.gather(*busy)
    finally:
        gone.set()
        runtime.close()
