"""`signoff mcp` as a process: with the SDK's own client, and between pipes that break."""

import contextlib
import fcntl
import json
import random
import shlex
import signal
import subprocess
import sys
import termios
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from tests.forking import Forking
from tests.hygiene.test_imports import ROOT, modules_after
from tests.terminal.terminal import signoff_command, terminal_environment
from tests.waiting import until

if TYPE_CHECKING:
    from mcp import Client

TEXT = "".join(f"line {number}\n" for number in range(1, 41))
THREE = [{"old": f"line {number}\n", "new": f"LINE {number}\n"} for number in (3, 20, 38)]
TWO_LINES = "Not so.\n  Say goodbye instead."


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (folder := tmp_path / "ws").mkdir()
    (folder / "a.txt").write_text(TEXT)
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    return terminal_environment(tmp_path / "home")


@pytest.fixture
def signoff(root: Path, environment: dict[str, str], processes: Forking) -> Callable[..., str]:
    """A command of the user's, in another process."""

    def run(*words: str) -> str:
        done = processes.run(words, folder=root, environment=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


# The SDK's own client


@contextlib.asynccontextmanager
async def connected(root: Path, environment: dict[str, str], mode: Any) -> AsyncIterator["Client"]:
    # It takes longer to import than anything else here.
    from mcp import Client, StdioServerParameters

    command, *arguments = signoff_command("mcp")
    server = StdioServerParameters(command=command, args=arguments, env=environment, cwd=root)
    async with Client(server, mode=mode) as client:
        yield client


@pytest.mark.parametrize(("mode", "version"), [("legacy", "2025-11-25"), ("auto", "2026-07-28")])
async def test_the_official_client_proposes_waits_and_receives_the_feedback(
    root: Path, environment: dict[str, str], signoff: Callable[..., str], mode: str, version: str
) -> None:
    async with connected(root, environment, mode) as client:
        assert client.protocol_version == version
        assert "nothing is written until" in (client.instructions or "")
        listed = await client.list_tools()
        assert [tool.name for tool in listed.tools] == ["propose_edit", "propose_patch", "proposal_status"]
        told: list[str | None] = []
        waits = anyio.Event()
        found: list[Any] = []

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            told.append(message)
            waits.set()

        async def propose() -> None:
            arguments = {"files": [{"path": "a.txt", "edits": THREE}], "wait_seconds": 600}
            found.append(await client.call_tool("propose_edit", arguments, progress_callback=heard))

        async with anyio.create_task_group() as group:
            group.start_soon(propose)
            await waits.wait()
            # Others are answered while it waits.
            status = await client.call_tool("proposal_status", {})
            assert "P1 waits for the user's decision" in status.content[0].text  # type: ignore[union-attr]
            await anyio.to_thread.run_sync(lambda: signoff("approve", "P1", "--hunks", "2"))
            await anyio.to_thread.run_sync(lambda: signoff("deny", "P1", "-m", TWO_LINES))
        (result,) = found
        assert not result.is_error and told
        assert result.content[0].text.startswith(
            f"P1: hunk 2 written, 1 and 3 denied.\n\nThe user says:\n\n{TWO_LINES}"
        )
    assert (root / "a.txt").read_text() == TEXT.replace("line 20\n", "LINE 20\n")


async def test_the_official_client_receives_errors(root: Path, environment: dict[str, str]) -> None:
    from mcp import MCPError

    async with connected(root, environment, "auto") as client:
        result = await client.call_tool("propose_edit", {"files": [{"path": "a.txt"}]})
        assert result.is_error and "give `edits`" in result.content[0].text  # type: ignore[union-attr]
        with pytest.raises(MCPError, match="The tools are: propose_edit"):
            await client.call_tool("write_file", {})


# Between pipes


class Pipes:
    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process

    def send(self, **message: Any) -> None:
        assert self.process.stdin
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def read(self) -> Any:
        assert self.process.stdout
        return json.loads(self.process.stdout.readline())

    def propose(self, name: int, wait: int = 0) -> None:
        arguments = {"files": [{"path": "a.txt", "edits": THREE}], "wait_seconds": wait}
        meta = {"progressToken": name}
        self.send(
            id=name, method="tools/call", params={"name": "propose_edit", "arguments": arguments, "_meta": meta}
        )

    def leave(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()

    def rest(self) -> list[Any]:
        """What it says until it ends; nothing but messages, and nothing for the user."""
        assert self.process.stdout and self.process.stderr
        lines = self.process.stdout.read().splitlines()
        assert self.process.stderr.read() == b""
        assert self.process.wait(30) == 0
        return [json.loads(line) for line in lines]


@contextlib.contextmanager
def served(root: Path, environment: dict[str, str], *more: str) -> Iterator[Pipes]:
    with subprocess.Popen(
        signoff_command("mcp", *more),
        cwd=root,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield Pipes(process)
        finally:
            process.kill()


def waiting(signoff: Callable[..., str]) -> list[str]:
    return [each["id"] for each in json.loads(signoff("proposals", "--json"))]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, None])
def test_a_waiting_call_is_answered_when_the_host_leaves_or_a_signal_comes(
    root: Path, environment: dict[str, str], signoff: Callable[..., str], number: int | None
) -> None:
    with served(root, environment) as pipes:
        pipes.propose(1, wait=600)
        if number is None:
            pipes.leave()
        else:
            assert pipes.read()["method"] == "notifications/progress"
            pipes.process.send_signal(number)
        *_, answer = pipes.rest()
    assert "P1 awaits the user's decision" in answer["result"]["content"][0]["text"]
    assert waiting(signoff) == ["P1"]
    assert (root / "a.txt").read_text() == TEXT


def test_a_host_that_stops_reading_does_not_block_the_server(
    root: Path, environment: dict[str, str], signoff: Callable[..., str]
) -> None:
    with served(root, environment) as pipes:
        pipes.propose(1, wait=600)
        assert pipes.read()["method"] == "notifications/progress"
        assert pipes.process.stdout and pipes.process.stderr
        pipes.process.stdout.close()
        pipes.send(id=2, method="ping")
        pipes.leave()
        assert (pipes.process.stderr.read(), pipes.process.wait(30)) == (b"", 0)
    assert waiting(signoff) == ["P1"]


async def test_a_signal_ends_the_server_although_the_host_reads_nothing(
    root: Path, environment: dict[str, str]
) -> None:
    with served(root, environment) as pipes:
        assert pipes.process.stdout
        size = fcntl.fcntl(pipes.process.stdout, fcntl.F_GETPIPE_SZ)
        for number in range(100):
            pipes.send(id=number, method="tools/list")
        await until(lambda: unread(pipes.process.stdout) > size // 4)
        pipes.process.send_signal(signal.SIGTERM)
        assert pipes.process.wait(30) == 0


def unread(pipe: Any) -> int:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"    "), sys.byteorder)


TALKATIVE = """
import os, sys
from app.cli.main import main
from app.doors.mcp import proposal_tools as drafting
quiet = drafting.add_file_changes_to_draft
def talks(*arguments):
    print("stray")
    os.system("echo stray")
    return quiet(*arguments)
drafting.add_file_changes_to_draft = talks
sys.exit(main(["mcp"]))
"""


def test_only_the_protocol_is_on_stdout_whatever_prints(root: Path, environment: dict[str, str]) -> None:
    call = {"name": "propose_edit", "arguments": {"files": [{"path": "a.txt", "edits": THREE}]}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    done = subprocess.run(
        [sys.executable, "-c", TALKATIVE],
        input=json.dumps(message),
        cwd=root,
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["result"]["isError"] is False
    assert done.returncode == 0 and done.stderr.split() == ["stray", "stray"]


@pytest.mark.parametrize(("closed", "code"), [("<&-", 2), (">&-", 2), ("2>&-", 0)])
def test_a_host_without_pipes_gets_an_error(root: Path, environment: dict[str, str], closed: str, code: int) -> None:
    command = f"{shlex.join(signoff_command('mcp'))} {closed}"
    done = subprocess.run(
        ["sh", "-c", command], cwd=root, env=environment, input="", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (code, "") and "Traceback" not in done.stderr
    assert ("needs standard input and output" in done.stderr) is (code == 2)


def test_a_wrong_limit_is_refused_at_once(root: Path, environment: dict[str, str], processes: Forking) -> None:
    for limit in ("-1", "soon", "99999999"):
        done = processes.run(("mcp", "--wait", limit), folder=root, environment=environment)
        assert done.returncode == 2 and done.stdout == "" and "give whole seconds" in done.stderr


@pytest.mark.parametrize("kills", [3, pytest.param(50, marks=pytest.mark.soak)])
def test_kills_write_nothing(
    root: Path, environment: dict[str, str], signoff: Callable[..., str], kills: int
) -> None:
    dice = random.Random(16)
    for _ in range(kills):
        with served(root, environment) as pipes:
            pipes.propose(1, wait=600)
            with contextlib.suppress(subprocess.TimeoutExpired):
                pipes.process.wait(dice.uniform(0.02, 1.5))
        assert {path.name: path.read_text() for path in root.iterdir()} == {"a.txt": TEXT}
        # Whatever it left, the user can go on, and the next one finds its way.
        for name in waiting(signoff):
            signoff("deny", name)


def test_mcp_greeting_and_tool_list_import_little(tmp_path: Path) -> None:
    lines: list[dict[str, Any]] = [
        {"id": 0, "method": "initialize", "params": {"protocolVersion": "2025-06-18"}},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/list"},
    ]
    source = tmp_path / "in"
    source.write_text("".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines))
    loaded = modules_after(
        f"import os; os.dup2(os.open({str(source)!r}, os.O_RDONLY), 0)\n"
        "out = os.dup(1); os.dup2(os.open(os.devnull, os.O_WRONLY), 1)\n"
        "from app.cli.main import main\nassert main(['mcp']) == 0\nos.dup2(out, 1)"
    )
    heavy = {"pydantic", "asyncio", "sqlite3", "watchfiles", "textual", "logging", "email", "pathspec"}
    assert "json" in loaded and not loaded & heavy
