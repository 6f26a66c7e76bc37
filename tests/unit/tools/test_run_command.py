"""`run_command`: nothing unasked, nothing left running, nothing leaked."""

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from app.tools.command import process_tree
from app.tools.contract import ConfirmationAnswer, Rejected, ToolError
from tests.unit.tools.memory_draft import Bench


@pytest.fixture
def allowed(bench: Bench) -> Bench:
    bench.answer = ConfirmationAnswer(True)
    return bench


def alive(pid: int) -> bool:
    """Whether the process runs; a zombie doesn't."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return True


async def gone(*pids: int) -> bool:
    """Wait until none of them runs; killing takes effect when the kernel gets to it."""
    for _ in range(500):
        if not any(alive(pid) for pid in pids):
            return True
        await asyncio.sleep(0.01)
    for pid in pids:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return False


def _words(path: Path) -> list[str]:
    return path.read_text().split()


async def written(path: Path, lines: int = 1) -> list[int]:
    """Process ids that a command has written to a file, once they are all there."""
    for _ in range(1000):
        with suppress(OSError):
            found = _words(path)
            if len(found) >= lines:
                return [int(pid) for pid in found]
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path} was not written")


async def test_shows_exactly_what_would_run_and_where(bench: Bench) -> None:
    (bench.workspace.root / "sub").mkdir()
    bench.answer = ConfirmationAnswer(False, feedback="not now;\nuse make")
    with pytest.raises(Rejected) as raised:
        await bench.call("run_command", command="echo a && touch ran", folder="./sub/")
    [asked] = bench.asked
    assert (asked.kind, asked.detail, asked.folder) == ("command", "echo a && touch ran", "sub")
    assert str(raised.value) == (
        "The user did not allow this command. It did not run.\nThe user says:\nnot now;\nuse make"
    )
    assert not (bench.workspace.root / "sub/ran").exists()


async def test_gives_output_and_exit_code(allowed: Bench) -> None:
    (allowed.workspace.root / "sub").mkdir()
    output = await allowed.call("run_command", command="pwd; echo oops >&2; exit 3", folder="sub")
    first, *rest = output.text.split("\n")
    assert first.startswith("[exit code 3; ")
    assert rest == [str(allowed.workspace.root / "sub"), "oops", ""]
    assert output.summary == "exit 3, 2 lines"
    assert output.failed
    assert "".join(allowed.live) == "\n".join(rest)


async def test_says_when_there_was_no_output(allowed: Bench) -> None:
    output = await allowed.call("run_command", command="true")
    assert output.text.endswith("[no output]")
    assert not output.failed


async def test_names_the_signal_that_ended_it(allowed: Bench) -> None:
    assert "[ended by signal SIGSEGV" in (await allowed.call("run_command", command="kill -SEGV $$")).text


async def test_has_no_input_no_terminal_and_no_colours(allowed: Bench) -> None:
    command = r"cat; test -t 0 || echo no tty; ps -o tty= -p $$; printf '\033[31mred\033[0m\033]0;title\007\n'"
    text = (await allowed.call("run_command", command=command)).text
    assert [row.strip() for row in text.split("\n")[1:]] == ["no tty", "?", "red", ""]


async def test_keeps_secrets_of_the_environment(allowed: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "hunter2")
    monkeypatch.setenv("SOME_TOKEN", "hunter2")
    monkeypatch.setenv("ORDINARY", "passed on")
    text = (await allowed.call("run_command", command="env")).text
    assert "hunter2" not in text
    assert "ORDINARY=passed on" in text


async def test_runs_no_startup_file(allowed: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "startup").write_text("echo evil\n")
    for name in ("BASH_ENV", "ENV"):
        monkeypatch.setenv(name, str(tmp_path / "startup"))
    assert "evil" not in (await allowed.call("run_command", command="echo good")).text


async def test_long_output_keeps_both_ends(allowed: Bench) -> None:
    text = (await allowed.call("run_command", command="seq 1 200000")).text
    assert len(text) < 40_000
    assert "\n1\n2\n3\n" in text
    assert text.endswith("\n199999\n200000\n")
    assert "newlines left out]" in text


async def test_binary_output_does_no_harm(allowed: Bench) -> None:
    output = await allowed.call("run_command", command="head -c 100000 /dev/urandom")
    output.text.encode()


async def test_a_time_limit_ends_the_whole_tree(allowed: Bench) -> None:
    pids = allowed.workspace.root / "pids"
    command = f"echo started; (sleep 1000 & echo $! >> {pids}; wait) & echo $$ >> {pids}; sleep 1000"
    output = await allowed.call("run_command", command=command, timeout_seconds=1)
    assert output.text.startswith("[stopped after 1 s, its time limit")
    assert "started" in output.text
    assert await gone(*await written(pids, 2))


async def cancelled(bench: Bench, command: str, pids: Path, lines: int) -> list[int]:
    """Run a command, cancel the call once it has written its process ids, and give those."""
    task = asyncio.create_task(bench.call("run_command", command=command))
    found = await written(pids, lines)
    assert all(alive(pid) for pid in found)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return found


async def test_cancelling_ends_the_whole_tree(allowed: Bench) -> None:
    pids = allowed.workspace.root / "pids"
    command = f"(sleep 1000 & echo $! >> {pids}; wait) & echo $$ >> {pids}; wait"
    assert await gone(*await cancelled(allowed, command, pids, 2))


@pytest.mark.parametrize("platform", [sys.platform, "no /proc"])
async def test_a_process_that_ignores_sigterm_is_killed(
    allowed: Bench, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    monkeypatch.setattr(process_tree, "GRACE", 0.2)
    monkeypatch.setattr(process_tree, "PLATFORM", platform)
    pids = allowed.workspace.root / "pids"
    command = f"trap '' TERM; echo $$ >> {pids}; while true; do sleep 0.05; done"
    assert await gone(*await cancelled(allowed, command, pids, 1))


async def test_a_process_may_clean_up(allowed: Bench) -> None:
    root = allowed.workspace.root
    command = f"trap 'touch {root}/cleaned; exit' TERM; echo $$ >> {root}/pids; while true; do sleep 0.05; done"
    await cancelled(allowed, command, root / "pids", 1)
    assert (root / "cleaned").exists()


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="strays are found through /proc")
async def test_a_process_that_left_the_group_is_found(allowed: Bench) -> None:
    pids = allowed.workspace.root / "pids"
    command = f"setsid sh -c 'echo $$ >> {pids}; exec sleep 1000' & echo $$ >> {pids}; wait; sleep 1000"
    assert await gone(*await cancelled(allowed, command, pids, 2))


async def test_what_it_leaves_running_is_ended_with_it(allowed: Bench) -> None:
    pids = allowed.workspace.root / "pids"
    output = await allowed.call("run_command", command=f"sleep 1000 & echo $! > {pids}; echo done")
    assert output.text.startswith("[exit code 0; ")
    assert "[processes that it left running were ended]\ndone" in output.text
    assert await gone(*await written(pids))


async def test_live_output_comes_while_it_runs(allowed: Bench) -> None:
    root = allowed.workspace.root
    os.mkfifo(root / "go")
    task = asyncio.create_task(allowed.call("run_command", command="echo first; cat go; echo last"))
    while not allowed.live:
        assert not task.done()
        await asyncio.sleep(0.01)
    assert "".join(allowed.live) == "first\n"
    await asyncio.to_thread((root / "go").write_text, "between\n")
    await task
    assert "".join(allowed.live) == "first\nbetween\nlast\n"


@pytest.mark.parametrize(
    ("folder", "message"), [("..", "leads out"), ("nope", "does not exist"), ("file", "is not a folder")]
)
async def test_runs_only_in_folders_of_the_workspace(allowed: Bench, folder: str, message: str) -> None:
    (allowed.workspace.root / "file").touch()
    with pytest.raises(ToolError, match=message):
        await allowed.call("run_command", command="true", folder=folder)
    assert allowed.asked == []


async def test_a_command_with_a_nul_is_refused(allowed: Bench) -> None:
    with pytest.raises(ToolError, match="NUL"):
        await allowed.call("run_command", command="a\0b")


async def test_cancelling_while_the_user_is_asked_runs_nothing(bench: Bench) -> None:
    asked = asyncio.Event()

    async def confirm(confirmation: object) -> ConfirmationAnswer:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    bench.confirm = confirm  # type: ignore[method-assign, assignment]
    task = asyncio.create_task(bench.call("run_command", command="touch ran"))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not (bench.workspace.root / "ran").exists()


@pytest.mark.parametrize(
    ("becomes", "message"), [("gone", "does not exist"), ("file", "is not a folder"), ("link", "leads out")]
)
async def test_the_folder_is_looked_at_again_after_the_yes(allowed: Bench, becomes: str, message: str) -> None:
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
        await allowed.call("run_command", command=f"touch {allowed.workspace.root}/ran", folder="sub")
    assert not (allowed.workspace.root / "ran").exists()


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
