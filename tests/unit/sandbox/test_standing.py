"""A program that stays, and its layer: nothing is left of either, at whatever moment they are given up."""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from app.sandbox import enclosed_process as standing_module
from app.sandbox.captured_changes import FileOrLink
from app.sandbox.confinement import ConfiguredCommandAccess
from app.sandbox.enclosed_process import PersistentProcess, process_limits, start_persistent_process
from app.sandbox.outside_access import find_outside_access
from app.sandbox.overlay_layer import OverlayFolders, PersistentProcessOverlay
from app.sandbox.process import MARKER_VARIABLE, StartFailed, run_shielded
from app.sandbox.run_folders import FailedWriteBackStore, create_cache_overlay_folders
from app.sandbox.sandbox import Sandbox
from app.workspace.paths import Workspace
from tests.unit.tools.processes import new_mark, running
from tests.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def standing(*program: str, folder: Path, steps: Sequence[str] = ()) -> PersistentProcess:
    environment = {"PATH": os.environ["PATH"], MARKER_VARIABLE: new_mark()}
    return await start_persistent_process(
        list(steps), program, folder=folder, environment=environment, root=folder, limits=process_limits()
    )


async def told_of_end(process: PersistentProcess) -> str:
    await process.terminate()
    await process.discard_output()
    return await process.wait_for_end()


async def test_a_cancelled_or_failed_start_leaves_no_process_and_no_descriptor(tmp_path: Path) -> None:
    # What asyncio opens once for all is open by then.
    await told_of_end(await standing("/bin/true", folder=tmp_path))
    before = open_files()
    for steps in range(12):
        program = ["/bin/sleep", new_mark()]
        starting = asyncio.ensure_future(standing(*program, folder=tmp_path))
        for _ in range(steps):
            await asyncio.sleep(0)
        starting.cancel()
        await asyncio.wait({starting})
        if not starting.cancelled():
            await told_of_end(starting.result())
        await until(lambda: not running(program[1]))  # noqa: B023
    for _ in range(8):
        with pytest.raises(StartFailed, match="Argument list too long"):
            await standing("/bin/true", "x" * 200_000, folder=tmp_path)
    await until(lambda: open_files() <= before)


async def test_an_abandoned_layer_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "workspace").mkdir()
    state = tmp_path / "state"
    sandbox = Sandbox(Workspace(tmp_path / "workspace"), state, own_folders=())
    begun, go, made = threading.Event(), threading.Event(), threading.Event()
    make = tempfile.mkdtemp

    def slow(*arguments: Any, **more: Any) -> str:
        begun.set()
        go.wait()
        folder: str = make(*arguments, **more)
        made.set()
        return folder

    monkeypatch.setattr(tempfile, "mkdtemp", slow)

    async def stand() -> None:
        async with sandbox.open_persistent("server"):
            raise AssertionError("it was given up")

    standing = asyncio.ensure_future(stand())
    await asyncio.to_thread(begun.wait)
    standing.cancel()
    await asyncio.sleep(0)
    go.set()
    await asyncio.wait({standing})
    assert standing.cancelled()
    await asyncio.to_thread(made.wait)
    await until(lambda: not list(state.glob("run-*")))


async def test_the_name_of_a_server_leads_to_no_other_folder(tmp_path: Path) -> None:
    for folder in ("workspace", "precious"):
        (tmp_path / folder).mkdir()
    (tmp_path / "precious/file").touch()
    sandbox = Sandbox(Workspace(tmp_path / "workspace"), tmp_path / "state", own_folders=())
    for open_server in (sandbox.open_persistent, sandbox.open_confined):
        async with open_server("x/../../../../precious"):
            assert [path.name for path in (tmp_path / "precious").iterdir()] == ["file"]


async def test_without_a_wrapper_it_is_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing_module, "PLATFORM", "darwin")
    process = await standing("/bin/sh", "-c", "echo $$; read line; exit 3", folder=tmp_path)
    assert int(await process.stdout.readline()) == process.pid
    with pytest.raises(ProcessLookupError, match="it has ended"):
        await process.remount_layer()
    process.stdin.write(b"\n")
    assert await process.wait_for_end() == "exit code 3"
    await told_of_end(process)


async def test_ended_and_silent_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing_module, "PAUSE_SECONDS", 0.1)
    process = await standing("/bin/sh", "-c", "echo; cat", folder=tmp_path, steps=["namespaces"])
    if not await process.stdout.readline():
        pytest.skip(await process.wait_for_end())
    os.kill(process.pid, signal.SIGSTOP)
    with pytest.raises(TimeoutError, match="does not answer"):
        await process.remount_layer()
    os.kill(process.pid, signal.SIGCONT)
    await told_of_end(process)
    with pytest.raises(ProcessLookupError, match=r"^it has ended$"):
        await process.remount_layer()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"fresh 5\n", "Input/output error"),
        (b"exit 0 0 none\n", "it has ended"),
        (b"fresh 0 more\n", "it has ended"),
        (b"", "it has ended"),
    ],
)
async def test_an_answer_that_is_no_yes_is_an_error(answer: bytes, error: str) -> None:
    pipe = asyncio.subprocess.PIPE
    script = "trap '' USR2; echo; cat"
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", "-c", script, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
    )
    report = asyncio.StreamReader()
    report.feed_data(answer)
    report.feed_eof()
    around = PersistentProcess(process, new_mark(), report, process_limits())
    await around.stdout.readline()
    with pytest.raises(OSError, match=error):
        await around.remount_layer()
    await told_of_end(around)


async def test_program_that_ends_while_stopped_is_not_resumed(tmp_path: Path) -> None:
    process = await standing("/bin/sh", "-c", "echo; cat", folder=tmp_path, steps=["namespaces"])
    if not await process.stdout.readline():
        pytest.skip(await process.wait_for_end())
    async with process.paused():
        await process.terminate()
    await told_of_end(process)


@pytest.mark.skipif(os.geteuid() != 0, reason="nobody else opens a pipe of a process that has made namespaces")
async def test_a_pipe_held_open_is_not_read_forever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    process = await standing("/bin/sh", "-c", "echo; cat", folder=tmp_path)
    await process.stdout.readline()
    held = os.open(f"/proc/{process.pid}/fd/1", os.O_WRONLY)
    await process.terminate()
    monkeypatch.setattr(standing_module, "PAUSE_SECONDS", 0.1)
    await process.discard_output()
    os.close(held)
    assert await process.stdout.read() == b""


@pytest.mark.layer
async def test_a_program_writes_nothing_more_to_ignored_files_that_were_written_back(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    for name in ("in", "old.log", "user.log"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    (root / ".gitignore").write_text("build\n*.log\n")
    sandbox = Sandbox(Workspace(root), tmp_path / "state", own_folders=(), kept=tmp_path / "kept")
    await sandbox.probe()
    script = (
        "exec 3> new.log 4> old.log 5> user.log; mkdir build; cd build; echo once | tee /dev/fd/3 /dev/fd/4 >&5\n"
        "echo; read line; echo late | tee -a /dev/fd/3 /dev/fd/4 late >&5; echo; read line"
    )
    async with sandbox.open_persistent("server") as layer:
        process = await standing("/bin/sh", "-c", script, folder=root, steps=layer.mount_steps())
        assert await process.stdout.readline()
        (root / "user.log").write_text("the user's")
        async with process.paused():
            report = await layer.write_back((await layer.find_changes()).ignored_paths)
        process.stdin.write(b"\n")
        await process.stdout.readline()
        await told_of_end(process)
    assert (root / "new.log").read_text() == (root / "old.log").read_text() == "once\n"
    assert report.kept_folder and (report.kept_folder / "user.log").read_text() == "once\n"
    assert (root / "user.log").read_text() == "the user's" and list((root / "build").iterdir()) == []


def layer_without_mount(tmp_path: Path) -> tuple[PersistentProcessOverlay, Path]:
    (tmp_path / "workspace/d").mkdir(parents=True)
    (tmp_path / "run/upper").mkdir(parents=True)
    folders = OverlayFolders(
        tmp_path / "run", tmp_path / "run/upper", tmp_path, create_cache_overlay_folders(tmp_path / "caches")
    )
    kept = FailedWriteBackStore(tmp_path / "kept")
    may = find_outside_access(ConfiguredCommandAccess(), ())
    layer = PersistentProcessOverlay(Workspace(tmp_path / "workspace"), folders, may, {}, kept, process_limits(), {})
    layer.write_pending()
    return layer, folders.upper


async def test_file_gone_with_its_folder_is_not_reported(tmp_path: Path) -> None:
    layer, _ = layer_without_mount(tmp_path)
    layer.replace_contents({"d/e/file": FileOrLink(b"waits\n", 0o644)})
    layer.mark_seen()
    assert layer.unseen_paths() == []
    shutil.rmtree(tmp_path / "run/upper/d/e")
    assert layer.unseen_paths() == ["d/e/file"]


async def test_ignored_files_written_outside_of_a_call_are_named_too(tmp_path: Path) -> None:
    layer, upper = layer_without_mount(tmp_path)
    (tmp_path / "workspace/.gitignore").write_text("build/\n*.log\n")
    (upper / "build/in").mkdir(parents=True)
    (upper / "seen.log").touch()
    layer.mark_seen()
    assert layer.unseen_paths() == []
    (upper / "late.log").symlink_to("/")
    (upper / "build/in/late").touch()
    assert layer.unseen_paths() == ["build", "late.log"]


async def test_an_error_wins_over_a_cancellation() -> None:
    go = asyncio.Event()

    async def fail() -> None:
        await go.wait()
        raise OSError("no room")

    work = asyncio.ensure_future(run_shielded(fail()))
    await asyncio.sleep(0)
    work.cancel()
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(OSError, match="no room"):
        await work
