"""Start-up against a bare Textual app that shows one Input, in the same run, in a real terminal.

Run with `pytest -n0 -s tests/benchmarks/test_start_speed.py`. A first run compiles all Python files and does not
count. The runs are interleaved, and a figure is the quickest of them: what else the machine does only ever adds.
"""

import contextlib
import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from app.conversation.events import AssistantMessage, ProposalStaged, TurnEnded, TurnStarted, UserMessage
from app.proposals.facts import FileStat
from app.proposals.models import FileChange, FileVersion, Hunk, HunkState, Op, Proposal, ProposalState
from app.runtime.workspace import Runtime, open_runtime

ROOT = Path(__file__).resolve().parents[2]
RUNS = 11
MESSAGES = 2_000
PROPOSALS = 200
LIMIT = 30.0
NOISE = 1.05
"""By how much the quickest of some runs still differs from one time to the next."""

BARE = """
from textual.app import App
from textual.widgets import Input
class Bare(App):
    def compose(self):
        yield Input(placeholder="One can type now")
Bare().run()
"""


def command_of(*words: str) -> list[str]:
    return [sys.executable, "-c", "import sys; from app.cli.main import main; sys.exit(main(sys.argv[1:]))", *words]


def start(command: list[str], marker: str, environment: dict[str, str]) -> tuple[float, float]:
    """Seconds until the marker is on the screen, and the memory at that moment in MB."""
    begun = time.perf_counter()
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        with contextlib.suppress(OSError):
            os.execve(command[0], command, environment)
        os._exit(127)
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    seen = b""
    wanted = marker.encode()
    try:
        while wanted not in seen:
            ready, _, _ = select.select([terminal], [], [], LIMIT)
            assert ready, f"{marker!r} did not come: {seen[-300:]!r}"
            seen = seen[-200_000:] + os.read(terminal, 2**16)
        took = time.perf_counter() - begun
        status = Path(f"/proc/{pid}/status").read_text()
        memory = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    return took, memory


def quickest(starts: dict[str, Callable[[], tuple[float, float]]]) -> dict[str, tuple[float, float]]:
    """The least time of each, and the median of its memory."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in starts}
    for run in range(RUNS + 1):
        for name, one in starts.items():
            result = one()
            if run:
                found[name].append(result)
    return {
        name: (min(took for took, _ in all_), statistics.median(memory for _, memory in all_))
        for name, all_ in found.items()
    }


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "a.py").write_text("a = 1\n")
    return folder


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OPENAI", "SIGNOFF"))}
    return {
        **kept,
        "SIGNOFF_HOME": str(tmp_path / "home"),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "SIGNOFF_MODEL": "none",
        "PYTHONPATH": str(ROOT),
    }


def test_a_cold_start_is_near_that_of_a_bare_app(workspace: Path, environment: dict[str, str]) -> None:
    found = quickest(
        {
            "bare": lambda: start([sys.executable, "-c", BARE], "ne can type now", environment),
            "signoff": lambda: start(command_of(str(workspace)), "sk for a change", environment),
        }
    )
    (bare, bare_memory), (ours, our_memory) = found["bare"], found["signoff"]
    print(f"\nbare {bare * 1000:.0f} ms {bare_memory:.0f} MB, signoff {ours * 1000:.0f} ms {our_memory:.0f} MB")
    assert ours <= 1.5 * bare
    assert our_memory <= 2 * bare_memory


def test_sessions_are_on_the_screen_soon_after_a_cold_start(workspace: Path, environment: dict[str, str]) -> None:
    empty = workspace.parent / "empty"
    empty.mkdir()
    fill(workspace)
    found = quickest(
        {
            "cold": lambda: start(command_of(str(workspace)), "sk for a change", environment),
            "empty": lambda: start(command_of(str(empty)), "othing waits for you", environment),
            "long": lambda: start(command_of(str(workspace), "--continue"), "very last answer", environment),
        }
    )
    (cold, _), (panes, _), (end, memory) = found["cold"], found["empty"], found["long"]
    print(
        f"\ncold start {cold * 1000:.0f} ms, an empty one {panes * 1000:.0f} ms ({panes / cold:.2f}),"
        f" the end of a long one {end * 1000:.0f} ms ({end / cold:.2f}) {memory:.0f} MB"
    )
    assert end <= 2.0 * NOISE * cold
    assert panes <= 2.5 * NOISE * cold


def fill(workspace: Path) -> None:
    """A session of many messages and proposals, as the store keeps them."""
    runtime = open_runtime(workspace, {}, {})
    try:
        record = runtime.sessions.create(model="none")
        old = [f"line_{number} = {number}" for number in range(40)]
        new = [f"{line}  # changed" if number % 2 else line for number, line in enumerate(old)]
        base, result = (_kept(runtime, lines) for lines in (old, new))
        hunks = tuple(
            Hunk(id=f"h{at}", number=at, old_start=at, old_count=1, new_start=at, new_count=1, state=HunkState.DENIED)
            for at in range(1, 40, 2)
        )
        events = []
        for number in range(MESSAGES // 2):
            events += [
                TurnStarted(cause="message"),
                UserMessage(text=f"Message {number}: " + "please change this and that. " * 5),
                AssistantMessage(text=f"Answer {number}.\n\n" + "A sentence of an answer with `code` in it. " * 12),
            ]
            if number % (MESSAGES // 2 // PROPOSALS) == 0:
                name = runtime.proposals.next_proposal_id()
                change = FileChange(
                    path="a.py", op=Op.EDIT, base=base, result=result, hunks=hunks, added=1, removed=1
                )
                runtime.proposals.save_proposal(
                    Proposal(
                        id=name,
                        workspace=str(workspace),
                        session=record.id,
                        created=time.time(),
                        summary="Change a",
                        state=ProposalState.DENIED,
                        files=(change,),
                    )
                )
                stat = FileStat(path="a.py", op="edit", added=1, removed=1)
                events.append(ProposalStaged(proposal=name, summary="Change a", files=(stat,), calls=()))
            events.append(TurnEnded(stopped="answer"))
        events.append(AssistantMessage(text="This is the very last answer."))
        runtime.sessions.append(record.id, events)
    finally:
        runtime.close()


def _kept(runtime: Runtime, lines: list[str]) -> FileVersion:
    data = "".join(f"{line}\n" for line in lines).encode()
    return FileVersion(sha256=runtime.proposals.put_blobs([data])[0], size=len(data))
