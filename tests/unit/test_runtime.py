"""An open workspace without a screen: what is not there, what fails, and what is left as it is."""

import asyncio
import os
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from app.agent.updates import PhaseChanged, SessionFailed, SessionPhase, TextStreamed, Update
from app.config.settings import ConfigError
from app.conversation.events import Event, SideExchange, SideQuestion, UserMessage
from app.proposals.values.proposal_errors import UnknownProposal
from app.proposals.values.record_entries import SessionEventRecordEntry
from app.runtime import shutdown, terminal_at_start
from app.runtime.mcp_manager import McpManager
from app.runtime.model_connection import (
    LearnedProfileStore,
    OtherSessionEventLogWriter,
    SessionEventStoreOnThread,
    create_or_resume_session,
    make_commit_function,
    read_picked_model,
    save_picked_model,
)
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from app.runtime.review_report import describe_recorded_decision, side_answer_heading
from app.runtime.session_host import SessionHost
from app.storage import StorageError
from app.storage.app_dirs import find_app_dirs
from app.storage.process_coordination import is_session_open
from app.storage.record_store import DecisionFeedback, DecisionOrUserEdit
from app.tools.tool_registry import AdditionalTools
from app.ui.context.current_session import UpdateBuffer


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


@pytest.fixture
def runtime(root: Path) -> Iterator[OpenWorkspace]:
    opened = open_workspace(root, {}, {})
    yield opened
    opened.close()


def test_a_session_that_cannot_be_read_is_not_left_open(runtime: OpenWorkspace) -> None:
    record = runtime.sessions.create(model="m")
    with runtime.database.transaction() as connection:
        connection.execute("ALTER TABLE events RENAME TO lost")
    model: Any = None
    with pytest.raises(StorageError):
        create_or_resume_session(runtime, model, record)
    assert not is_session_open(runtime.dirs.session_lock(record.id))


def test_a_folder_for_state_that_cannot_be_used_is_named(root: Path) -> None:
    locks = find_app_dirs().locks
    locks.parent.mkdir(parents=True, exist_ok=True)
    locks.write_text("in the way")
    with pytest.raises(StorageError, match=r"cannot be used: .* Set SIGNOFF_HOME to a folder that you own"):
        open_workspace(root, {}, {})


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors")
def test_a_workspace_that_cannot_be_opened_leaves_nothing_open(root: Path) -> None:
    def open_files() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    open_workspace(root, {}, {}).close()
    (root / ".signoff.toml").write_text("nonsense")
    kept: list[Exception] = []
    before = open_files()
    for _ in range(3):
        with pytest.raises(ConfigError) as raised:
            open_workspace(root, {}, {})
        kept.append(raised.value)
    assert open_files() <= before


async def test_a_begun_write_is_finished(runtime: OpenWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    record, begun, go = runtime.sessions.create(), threading.Event(), threading.Event()
    append = runtime.sessions.append_events

    def slow(session: str, events: Sequence[Event], *after: Any) -> Any:
        begun.set()
        go.wait(10)
        return append(session, events, *after)

    monkeypatch.setattr(runtime.sessions, "append_events", slow)
    keeping = asyncio.create_task(
        SessionEventStoreOnThread(runtime.sessions, record.id).append([UserMessage(text="kept")], 0)
    )
    await asyncio.to_thread(begun.wait, 10)
    keeping.cancel()
    await asyncio.sleep(0)
    assert not keeping.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await keeping
    assert [event.text for event in runtime.sessions.events(record.id) if isinstance(event, UserMessage)] == ["kept"]


async def test_a_missing_session_records_nothing(runtime: OpenWorkspace) -> None:
    assert await OtherSessionEventLogWriter(runtime).record("none", []) is None


def test_unreadable_learned_profile_is_learned_anew(runtime: OpenWorkspace) -> None:
    learned = LearnedProfileStore(runtime.sessions)
    learned["a"] = {"x": 1}
    assert learned.get("a") == {"x": 1} and learned.get("b") is None
    runtime.sessions.set_setting("profile:a", "{cut off", shared=True)
    assert learned.get("a") is None


def test_a_picked_model_that_cannot_be_stored_is_ignored(runtime: OpenWorkspace) -> None:
    save_picked_model(runtime.sessions, "http://a", "m")
    with runtime.database.transaction() as connection:
        connection.execute("ALTER TABLE settings RENAME TO gone")
    save_picked_model(runtime.sessions, "http://a", "n")
    assert read_picked_model(runtime.sessions, "http://a") == ""


async def test_without_a_model_and_a_session_nothing_is_opened(runtime: OpenWorkspace) -> None:
    opened = SessionHost(runtime, runtime.settings, lambda update: None)
    assert opened.effort == "off"
    with pytest.raises(UnknownProposal, match="P9 is not in the store any more"):
        await opened.show_proposal("P9")
    assert make_commit_function(runtime, runtime.settings) is None, "nor is anything committed without the setting"
    assert make_commit_function(runtime, runtime.settings.model_copy(update={"commit": True})) is not None


def test_an_end_that_fails_is_one_all_the_same() -> None:
    program = (
        "import time; from app.runtime import shutdown\nshutdown.PATIENCE = 0.01\n"
        "shutdown.force_exit_soon(7, lambda: 1 / 0)\ntime.sleep(60)"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=False).returncode == 7


def test_a_limited_number_of_first_pictures_is_kept(tmp_path: Path) -> None:
    for columns in range(80, 100):
        terminal_at_start.save_first_picture(tmp_path, None, (columns, 24), f"{columns} columns")
    terminal_at_start.save_first_picture(tmp_path, "../light", (99, 24), "light")
    kept = [picture.read_text() for picture in tmp_path.iterdir()]
    assert len(kept) == 12
    assert {"light", "99 columns"} <= set(kept)


async def test_without_a_terminal_none_is_read_or_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Path(os.devnull).open("r+") as nothing:
        monkeypatch.setattr(sys, "__stderr__", nothing)
        with shutdown.exit_on_signals_even_if_stuck(lambda code: None, lambda: True):
            assert signal.getsignal(signal.SIGTERM) is not before
        monkeypatch.setattr(sys, "__stdin__", nothing)
        with terminal_at_start.hold_terminal_and_show_first_picture(Path(os.devnull)):
            assert terminal_at_start.pop_typed_lines() == ""
    assert signal.getsignal(signal.SIGTERM) is before


def test_lines_typed_after_ctrl_d_are_kept_and_a_closed_terminal_is_not_restored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, theirs = os.openpty()
    # It is not that of the tests.
    monkeypatch.setattr(os, "tcgetpgrp", lambda terminal: os.getpgrp())
    with os.fdopen(theirs) as terminal:
        monkeypatch.setattr(sys, "__stdin__", terminal)
        os.write(ours, b"one\r\x04two\rthree")
        with terminal_at_start.hold_terminal_and_show_first_picture(Path(os.devnull)):
            assert terminal_at_start.pop_typed_lines() == "one\ntwo\n"
            assert not termios.tcgetattr(theirs)[3] & termios.ICANON
            os.close(ours)


async def test_a_request_waits_briefly_for_servers(runtime: OpenWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.runtime.mcp_manager._MAX_CONFIGURATION_WAIT_SECONDS", 0.01)
    told: list[str] = []
    served = McpManager(runtime, told.append)
    assert await served.offered_tools(None) == AdditionalTools()
    (late,) = served.unavailable_servers
    assert "It is not known yet which MCP servers there are" in late.instruction
    served.found.set()
    assert served.unavailable_servers == ()
    (runtime.workspace.root / ".mcp.json").write_text('{"mcpServers": {"a": {"command": "true"}}}')
    await served.close()
    await served.refresh(runtime.settings)
    assert told == [] and served.configured is None, "once closed it starts no server"


def test_staging_imports_neither_settings_nor_sandbox(root: Path) -> None:
    """Each takes longer than all else that a command does."""
    code = f"""
import sys
from pathlib import Path
from app.runtime.open_workspace import open_workspace
def stage(name):
    runtime.service.stage_patch(f"--- /dev/null\\n+++ b/{{name}}\\n@@ -0,0 +1 @@\\n+a\\n")
    later = {{"app.config.settings", "app.sandbox.workspace_backup", "app.sandbox.sandbox"}}
    print(*sorted(sys.modules.keys() & later))
runtime = open_workspace(Path({str(root)!r}))
stage("a")
runtime.dirs.runs.mkdir()
stage("b")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\napp.sandbox.workspace_backup\n"


def test_unreadable_hook_settings_are_reported(runtime: OpenWorkspace) -> None:
    told: list[str] = []
    runtime.hook_dispatcher.notify = told.append
    (runtime.workspace.root / ".signoff.toml").write_text("nonsense")
    assert runtime.service.stage_patch("--- /dev/null\n+++ b/a\n@@ -0,0 +1 @@\n+a\n").id == "P1"
    (line,) = told
    assert line.startswith("Hooks could not be told: ConfigError: .signoff.toml")


def test_a_report_says_what_is_missing() -> None:
    question = SideQuestion(uid="u", proposal="P1", path="a.txt", text="why?")
    assert side_answer_heading(SideExchange(question)) == "No answer came"
    event = SessionEventRecordEntry(
        number=1, before="", time=0.0, proposal="P1", count=1, decision="approved", files=("a.txt",), event=""
    )
    assert describe_recorded_decision(DecisionOrUserEdit(None, event, DecisionFeedback(), words_lost=False)) == [
        "a.txt"
    ]
    lost = ["a.txt", "the stored feedback is missing or was changed"]
    assert describe_recorded_decision(DecisionOrUserEdit(None, event, DecisionFeedback(), words_lost=True)) == lost


def test_the_update_buffer_notifies_the_screen_once_per_batch() -> None:
    hears, told = True, 0

    def tell() -> bool:
        nonlocal told
        told += 1
        return hears

    inbox = UpdateBuffer(tell)
    for _ in range(1000):
        inbox.put(TextStreamed("a"))
    inbox.put(PhaseChanged(SessionPhase.IDLE))
    assert told == 1
    assert list(inbox.take_updates()) == [TextStreamed("a" * 1000), PhaseChanged(SessionPhase.IDLE)]
    assert list(inbox.take_updates()) == []
    hears = False
    inbox.put(TextStreamed("a"))
    hears = True
    inbox.put(TextStreamed("b"))
    assert told == 3, "it has not heard the first time"
    assert list(inbox.take_updates()) == [TextStreamed("ab")]


async def test_slow_updates_are_shown_in_slices_in_order() -> None:
    shown: list[Update] = []
    slices = 0

    def show() -> bool:
        nonlocal slices
        slices += 1
        for update in inbox.take_updates():
            shown.append(update)
            if len(shown) == 1:
                inbox.put(SessionFailed("later"))
            sum(range(20_000))
        return True

    inbox = UpdateBuffer(lambda: bool(asyncio.get_running_loop().call_soon(show)))
    said = [SessionFailed(str(number)) for number in range(500)]
    for update in said:
        inbox.put(update)
    await inbox.wait_until_empty()
    assert shown == [*said, SessionFailed("later")]
    assert slices > 3


async def test_updates_wait_only_for_the_one_being_shown() -> None:
    shown: list[Update] = []
    doing, done = asyncio.Event(), asyncio.Event()
    tasks: set[asyncio.Task[None]] = set()

    async def do() -> None:
        doing.set()
        await done.wait()

    def show() -> bool:
        for update in inbox.take_updates():
            shown.append(update)
            if update == SessionFailed("first"):
                tasks.add(asyncio.ensure_future(inbox.wrap_to_pause_updates(do)()))
        return True

    inbox = UpdateBuffer(lambda: bool(asyncio.get_running_loop().call_soon(show)))
    inbox.put(SessionFailed("first"))
    inbox.put(SessionFailed("second"))
    await doing.wait()
    inbox.put(SessionFailed("third"))
    assert shown == [SessionFailed("first")]
    done.set()
    await inbox.wait_until_empty()
    assert shown == [SessionFailed("first"), SessionFailed("second"), SessionFailed("third")]
