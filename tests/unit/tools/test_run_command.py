"""`run_command`: nothing unasked, nothing left running, nothing leaked."""

import asyncio
import os
import random
import shutil
from pathlib import Path

import pytest

from app.sandbox import enclosed_process
from app.sandbox.confinement import CommandWriteMode, SandboxCapabilities
from app.tools.base.contract import PermissionAnswer, ToolCallNotPermitted, ToolError
from app.workspace.paths import Workspace
from tests.unit.tools.memory_draft import Bench, MemoryDraft
from tests.unit.tools.processes import running
from tests.waiting import until


@pytest.fixture(params=[CommandWriteMode.OVERLAY, CommandWriteMode.IN_PLACE])
def allowed(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """On the layer, and in place."""
    (tmp_path / "ws").mkdir()
    workspace = Workspace(tmp_path / "ws")
    return Bench(workspace, MemoryDraft(workspace), PermissionAnswer(True), modes=[request.param])


def lines_of(path: Path) -> int:
    return len(path.read_text().split()) if path.exists() else 0


@pytest.fixture
def mark() -> str:
    """Seconds that nobody else sleeps for."""
    return f"{random.randrange(10**6, 10**7)}.25"


async def test_the_permission_shows_command_and_folder(bench: Bench) -> None:
    (bench.workspace.root / "sub").mkdir()
    bench.answer = PermissionAnswer(False, feedback="not now;\nuse make")
    with pytest.raises(ToolCallNotPermitted) as raised:
        await bench.call("run_command", command="echo a && touch ../ran", folder="./sub/")
    [asked] = bench.asked
    assert (asked.kind, asked.detail, asked.folder) == ("command", "echo a && touch ../ran", "sub")
    assert str(raised.value) == "The user did not allow this command. It did not run."
    assert not (bench.workspace.root / "ran").exists()


async def test_exit_codes_and_outputs_are_reported(allowed: Bench) -> None:
    (allowed.workspace.root / "sub").mkdir()
    output = await allowed.call("run_command", command="pwd; echo oops >&2; exit 3", folder="sub")
    first, *rest = output.text.split("\n")
    assert first.startswith("[exit code 3; ")
    assert rest == [str(allowed.workspace.root / "sub"), "oops", ""]
    assert output.summary == "exit 3, 2 lines"
    assert output.failed
    assert "".join(allowed.live) == "\n".join(rest)
    output = await allowed.call("run_command", command="true")
    assert output.text.endswith("[no output]")
    assert not output.failed
    assert "[ended by signal SIGSEGV" in (await allowed.call("run_command", command="kill -SEGV $$")).text
    assert "[ended by signal 35;" in (await allowed.call("run_command", command="kill -35 $$")).text
    output = await allowed.call("run_command", command="head -c 100000 /dev/urandom")
    output.text.encode()
    text = (await allowed.call("run_command", command="seq 1 200000")).text
    assert len(text) < 40_000
    assert "\n1\n2\n3\n" in text
    assert text.endswith("\n199999\n200000\n")
    assert "newlines left out]" in text
    if shutil.which("bash"):
        assert "\nfrom bash\n" in (await allowed.call("run_command", command="cat <(echo from bash)")).text


async def test_staged_and_restored_files_are_counted_and_a_folder_that_only_mv_can_rename_is_explained(
    allowed: Bench,
) -> None:
    output = await allowed.call("run_command", command="echo 1 > a; echo 2 > b")
    in_place = "directly on your files" in allowed.asked[0].notes[0]
    assert output.summary == f"exit 0, 2 files {'put back' if in_place else 'changed'} → P1"
    assert list(allowed.workspace.root.iterdir()) == []
    (allowed.workspace.root / "d").mkdir()
    (allowed.workspace.root / "d/file").touch()
    rename = 'python3 -c \'import os; os.rename("d", "e")\'; ls'
    text = (await allowed.call("run_command", command=rename)).text
    assert text.count("mv, which copies, can") == text.count("cross-device") == text.count("\nd\n")


async def test_in_plan_mode_or_if_refused_no_command_is_asked_about(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def probe() -> SandboxCapabilities:
        return SandboxCapabilities(CommandWriteMode.IN_PLACE, "no layer", refusal="as root")

    with monkeypatch.context() as refusing:
        refusing.setattr(bench.sandbox, "probe", probe)
        with pytest.raises(ToolError, match="do not run here: as root"):
            await bench.call("run_command", command="touch ../ran")
    bench.answer, bench.modes, bench.planning = PermissionAnswer(True), [CommandWriteMode.IN_PLACE], True
    bench.__post_init__()
    with pytest.raises(ToolError, match="Plan mode: not on your own files"):
        await bench.call("run_command", command="touch ../ran")
    assert bench.asked == [] and not (bench.workspace.root.parent / "ran").exists()


async def test_in_place_a_refused_socket_and_ignored_files_are_explained(bench: Bench) -> None:
    bench.answer, bench.modes, bench.hold_ignored = PermissionAnswer(True), [CommandWriteMode.IN_PLACE], True
    bench.__post_init__()
    if not (await bench.sandbox.probe()).filters_syscalls:
        pytest.skip("the kernel has no filters")
    (bench.workspace.root / ".gitignore").write_text("*.log\n")
    listen = "python3 -c 'import socket; socket.socket(socket.AF_UNIX)'"
    output = await bench.call("run_command", command=f"echo x > a.log; {listen}")
    assert "command_sockets in config.toml" in output.text
    assert "[also written, ignored by git: a.log]" in output.text and "also written" in output.summary
    assert [each.path for each in bench.draft.ignored] == ["a.log"]
    assert [each.kind for each in bench.asked] == ["command"] and "can't hold" in " ".join(bench.asked[0].notes)


async def test_a_missing_folder_for_runs_is_reported(allowed: Bench) -> None:
    await allowed.sandbox.probe()
    runs = allowed.workspace.root.parent / "runs"
    shutil.rmtree(runs, ignore_errors=True)
    runs.write_text("a file, where there was a folder")
    with pytest.raises(ToolError, match=r"^The command could not be run: .*\.$"):
        await allowed.call("run_command", command="true")


async def test_has_no_input_no_terminal_and_no_colours(allowed: Bench) -> None:
    asks = "(: </dev/tty) 2>/dev/null || echo none to ask"
    command = rf"cat; test -t 0 || echo no tty; {asks}; printf '\033[31mred\033[0m\033]0;title\007\n'"
    text = (await allowed.call("run_command", command=command)).text
    assert text.split("\n")[1:] == ["no tty", "none to ask", "red", ""]


async def test_keeps_secrets_of_the_environment_and_runs_no_startup_file(
    allowed: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "hunter2")
    monkeypatch.setenv("SOME_TOKEN", "hunter2")
    # Where programs of the user listen that act for whoever asks.
    for name in ("TMUX", "STY", "DBUS_SESSION_BUS_ADDRESS", "NVIM", "SSH_AUTH_SOCK", "WSL_INTEROP"):
        monkeypatch.setenv(name, "hunter2")
    monkeypatch.setenv("LC_ORDINARY", "passed on")
    text = (await allowed.call("run_command", command="env")).text
    assert "hunter2" not in text
    assert "LC_ORDINARY=passed on" in text
    (tmp_path / "startup").write_text("echo evil\n")
    for name in ("BASH_ENV", "ENV"):
        monkeypatch.setenv(name, str(tmp_path / "startup"))
    assert "evil" not in (await allowed.call("run_command", command="echo good")).text


async def test_a_time_limit_ends_the_complete_process_tree(allowed: Bench, mark: str) -> None:
    command = f"echo started; (sleep {mark} & wait) & sleep {mark}"
    output = await allowed.call("run_command", command=command, timeout_seconds=1)
    assert output.text.startswith("[stopped after 1 s, its time limit")
    assert "started" in output.text
    assert not running(mark)


async def cancelled(bench: Bench, command: str, begun: Path, lines: int) -> None:
    """Run a command, and cancel the call once it has written lines to a file."""
    task = asyncio.create_task(bench.call("run_command", command=command))
    await until(lambda: lines_of(begun) >= lines, "all that it begins")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_process_that_ignores_sigterm_is_killed(
    allowed: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mark: str
) -> None:
    monkeypatch.setattr(enclosed_process, "GRACE_SECONDS", 0.2)
    begun = allowed.shared / "begun"
    command = f"trap '' TERM; sleep {mark} & echo 1 >> {begun}; while true; do sleep 0.05; done"
    await cancelled(allowed, command, begun, 1)
    assert not running(mark)


async def test_a_process_may_clean_up(allowed: Bench, tmp_path: Path) -> None:
    cleans = f"trap 'touch {allowed.shared}/cleaned; exit' TERM"
    command = f"{cleans}; echo 1 >> {allowed.shared}/begun; while :; do sleep 0.05; done"
    await cancelled(allowed, command, allowed.shared / "begun", 1)
    assert (allowed.shared / "cleaned").exists()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="looks at /proc")
async def test_processes_that_left_the_group_are_ended(allowed: Bench, mark: str) -> None:
    begun = allowed.shared / "begun"
    leave = " ".join(
        f"{leaves} sh -c 'echo 1 >> {begun}; exec sleep {mark}' &"
        for leaves in ("setsid", "env -i setsid", "setsid setsid -f")
    )
    await cancelled(allowed, f"{leave} echo 2 >> {begun}; wait; sleep {mark}", begun, 4)
    assert not running(mark)


async def test_processes_left_running_are_ended_with_the_command(allowed: Bench, mark: str) -> None:
    output = await allowed.call("run_command", command=f"setsid sleep {mark} & echo done")
    assert output.text.startswith("[exit code 0; ")
    assert "[processes that it left running were ended]\ndone" in output.text
    assert not running(mark)


async def test_live_output_arrives_while_the_command_runs(allowed: Bench, tmp_path: Path) -> None:
    os.mkfifo(allowed.shared / "go")
    task = asyncio.create_task(allowed.call("run_command", command=f"echo first; cat {allowed.shared}/go; echo last"))
    await until(lambda: allowed.live or task.done(), "the first line")
    assert not task.done()
    assert "".join(allowed.live) == "first\n"
    await asyncio.to_thread((allowed.shared / "go").write_text, "between\n")
    await task
    assert "".join(allowed.live) == "first\nbetween\nlast\n"


async def test_a_command_that_cannot_be_run_where_or_as_it_is_given_is_reported(allowed: Bench) -> None:
    (allowed.workspace.root / "file").touch()
    for folder, message in (("..", "leads out"), ("nope", "does not exist"), ("file", "is not a folder")):
        with pytest.raises(ToolError, match=message):
            await allowed.call("run_command", command="true", folder=folder)
    assert allowed.asked == []
    too_long = r"^The command could not be started: Argument list too long\.$"
    for command, message in (("a\0b", "NUL"), (f": {'x' * 200_000}", too_long)):
        with pytest.raises(ToolError, match=message):
            await allowed.call("run_command", command=command)


async def test_cancelling_during_the_permission_request_runs_nothing(bench: Bench) -> None:
    asked = asyncio.Event()

    async def confirm(permission_request: object) -> PermissionAnswer:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    bench.confirm = confirm  # type: ignore[method-assign]
    task = asyncio.create_task(bench.call("run_command", command="touch ../ran"))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (bench.workspace.root.parent / "ran").exists()


@pytest.mark.parametrize(
    ("becomes", "message"), [("gone", "does not exist"), ("file", "is not a folder"), ("link", "leads out")]
)
async def test_the_folder_is_checked_again_after_the_permission(allowed: Bench, becomes: str, message: str) -> None:
    folder = allowed.workspace.root / "sub"
    folder.mkdir()

    def change() -> None:
        folder.rmdir()
        if becomes == "file":
            folder.touch()
        elif becomes == "link":
            folder.symlink_to(allowed.workspace.root.parent)

    allowed.on_ask = change
    with pytest.raises(ToolError, match=message):
        await allowed.call("run_command", command=f"touch {allowed.workspace.root.parent}/ran", folder="sub")
    assert not (allowed.workspace.root.parent / "ran").exists()


@pytest.mark.parametrize("path", ["inside", "relative"])
async def test_a_shell_that_lies_in_the_workspace_is_not_run(
    allowed: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, path: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    for folder in (allowed.workspace.root / "bin", elsewhere / "bin"):
        folder.mkdir(parents=True)
        (folder / "bash").write_text("#!/bin/sh\necho evil\n")
        (folder / "bash").chmod(0o755)
    # From a relative path, the file that is found and the one that the command's own folder makes of it differ.
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("PATH", f"{allowed.workspace.root}/bin" if path == "inside" else "bin")
    assert "evil" not in (await allowed.call("run_command", command="echo good")).text
