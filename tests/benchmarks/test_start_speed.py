"""Start and rest against a bare Textual app that shows one Input: from outside, in a pty, with signoff as installed.

Run with `pytest -n0 -s tests/benchmarks/test_start_speed.py` to see the figures. A first run compiles all Python
files and does not count. Figures are CPU seconds and memory, which another process on each core changes by a tenth
or two where the clock on the wall triples; runs are interleaved, and the least of them counts, since what else the
machine does only ever adds. So the limits are what a user would feel, with `NOISE` on top.
"""

import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from app.conversation.events import AssistantMessage, Event, ProposalStaged, TurnEnded, TurnStarted, UserMessage
from app.proposals.values.decision_facts import FileStat
from app.proposals.values.models import (
    FileChange,
    FileOperation,
    FileVersion,
    Hunk,
    HunkState,
    Proposal,
    ProposalState,
)
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from tests.benchmarks.outside import Start

ROOT = Path(__file__).resolve().parents[2]
RUNS, LONG_RUNS = 10, 6
PROPOSALS = 200
NOISE = 1.1
"""By how much the least of some runs still differs from one time to the next, with both cores busy."""

PROMPT = 0.5
"""The most time on the clock until the prompt is on the screen, in units of the bare app: all starts but the first in
a terminal show the picture of an earlier one. 0.053 s was measured where the bare app takes 0.22."""
ECHO = 1.22
"""The most CPU until the first key is on the screen, in units of the bare app."""
READY = 2.75
"""The most CPU until all is loaded, in the same units: 0.53 s where the bare app takes 0.19. What a turn needs comes
once a message is being written in the open session, the review once something waits in it: neither is so here."""
MEGABYTES = {0: 47.0, 2_000: 58.0, 20_000: 85.0}
"""The most memory at rest, all loaded, with a session of so many messages and nothing in it that waits."""
LONG_FIRST = 1.05
"""The most CPU until the first key is on the screen of a session of so many messages, in units of an empty one."""
LONG_ECHO = 2.1
"""The most CPU until the end of a session is on the screen and a key too, in units of an empty session's start."""
LENGTH = 1.15
"""The most that this may be with 20,000 messages, in units of 2,000."""
FIRST = 1.05
"""The most that a start takes when nothing is compiled, in units of the next one, over the same of the bare app."""

PLACEHOLDER, LAST_WORDS = "sk for a change", "very last answer"
BARE = """
from textual.app import App
from textual.widgets import Input
class Bare(App):
    def compose(self):
        yield Input(placeholder="One can type now")
Bare().run()
"""
BARE_MARKER = "ne can type now"

pytestmark = [
    pytest.mark.timeout(400),
    pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="memory is read from /proc"),
]


def signoff_command(*arguments: str) -> list[str]:
    """The command as its installer has put it on the path."""
    return [str(Path(sys.executable).with_name("signoff")), *arguments]


def least(starts: Mapping[str, Callable[[], Start]], runs: int = RUNS) -> dict[str, Start]:
    """The least of every figure of each; a first run of all does not count."""
    found: dict[str, list[Start]] = {name: [] for name in starts}
    for run in range(runs + 1):
        for name, one in starts.items():
            result = one()
            if run:
                found[name].append(result)
    return {
        name: Start(
            min(one.prompt for one in every),
            min(one.echo for one in every),
            min(one.seen for one in every),
            min(one.ready for one in every),
            min(one.memory for one in every),
        )
        for name, every in found.items()
    }


def format_start(name: str, start: Start) -> str:
    return (
        f"{name}: {start.prompt * 1000:.0f} ms on the clock to the prompt,"
        f" {start.echo * 1000:.0f} ms of CPU to the first echo ({start.seen * 1000:.0f} ms on the clock),"
        f" {start.ready * 1000:.0f} ms until all is loaded, {start.memory:.0f} MB at rest"
    )


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "a.py").write_text("a = 1\n")
    return folder


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("OPENAI", "SIGNOFF", "PYTHON"))}
    return {
        **kept,
        "SIGNOFF_HOME": str(tmp_path / "home"),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "OPENAI_BASE_URL": "https://127.0.0.1:9/v1",
        "SIGNOFF_MODEL": "none",
    }


def test_a_start_and_rest_are_near_those_of_a_bare_app(workspace: Path, environment: dict[str, str]) -> None:
    bare_command = [sys.executable, "-c", BARE]
    found = least(
        {
            "bare": lambda: Start.of(bare_command, BARE_MARKER, environment, workspace),
            "signoff": lambda: Start.of(signoff_command(), PLACEHOLDER, environment, workspace),
        }
    )
    bare, ours = found["bare"], found["signoff"]
    echo, ready = ours.echo / bare.echo, ours.ready / bare.ready
    print(f"\n{format_start('bare', bare)}\n{format_start('signoff', ours)}: x{echo:.2f}, x{ready:.2f}")
    assert ours.prompt <= PROMPT * bare.prompt
    assert echo <= ECHO * NOISE
    assert ready <= READY * NOISE
    assert ours.memory <= MEGABYTES[0]


def test_a_long_session_opens_like_a_short_one(workspace: Path, environment: dict[str, str]) -> None:
    folders = {messages: workspace.parent / f"of {messages}" for messages in (2_000, 20_000)}
    for messages, folder in folders.items():
        folder.mkdir()
        fill(folder, messages)
    resume = signoff_command("--continue")
    found = least(
        {
            # With a word, like the others: what reads words is not needed without them.
            "empty": lambda: Start.of(signoff_command("."), PLACEHOLDER, environment, workspace),
            "2,000": lambda: Start.of(resume, LAST_WORDS, environment, folders[2_000]),
            "20,000": lambda: Start.of(resume, LAST_WORDS, environment, folders[20_000]),
            "to type into 20,000": lambda: Start.of(resume, PLACEHOLDER, environment, folders[20_000]),
        },
        LONG_RUNS,
    )
    print("\n" + "\n".join(format_start(f"{name} messages", start) for name, start in found.items()))
    assert found["to type into 20,000"].echo <= LONG_FIRST * NOISE * found["empty"].echo
    assert found["2,000"].echo <= LONG_ECHO * NOISE * found["empty"].echo
    assert found["20,000"].echo <= LENGTH * NOISE * found["2,000"].echo
    assert found["2,000"].memory <= MEGABYTES[2_000]
    assert found["20,000"].memory <= MEGABYTES[20_000]


def test_first_start_compiles_little(workspace: Path, environment: dict[str, str], tmp_path: Path) -> None:
    """Installers such as uv compile nothing, and Textual alone makes a first start more than twice as long.

    The standard library comes compiled.
    """
    cache = tmp_path / "bytecode"
    compiling = {**environment, "PYTHONPYCACHEPREFIX": str(cache)}

    def ratio(name: str, command: list[str], marker: str) -> float:
        firsts, seconds = [], []
        Start.of(command, marker, compiling, workspace)
        for _ in range(3):
            for mirrored in (ROOT, Path(sys.prefix)):
                shutil.rmtree(cache / mirrored.relative_to("/"), ignore_errors=True)
            firsts.append(Start.of(command, marker, compiling, workspace).echo)
            seconds.append(Start.of(command, marker, compiling, workspace).echo)
        first, second = min(firsts), min(seconds)
        figures = f"{first * 1000:.0f} ms of CPU, the second time {second * 1000:.0f} ms: x{first / second:.2f}"
        print(f"\n{name} to the first echo: {figures}")
        return first / second

    bare = ratio("bare", [sys.executable, "-c", BARE], BARE_MARKER)
    assert ratio("signoff", signoff_command(), PLACEHOLDER) <= FIRST * NOISE * bare


def fill(workspace: Path, messages: int) -> None:
    """A session of many messages and proposals, as the store keeps them."""
    runtime = open_workspace(workspace, {}, {})
    try:
        record = runtime.sessions.create(model="none")
        old = [f"line_{number} = {number}" for number in range(40)]
        new = [f"{line}  # changed" if number % 2 else line for number, line in enumerate(old)]
        base, result = (_kept(runtime, lines) for lines in (old, new))
        hunks = tuple(
            Hunk(id=f"h{at}", number=at, old_start=at, old_count=1, new_start=at, new_count=1, state=HunkState.DENIED)
            for at in range(1, 40, 2)
        )
        events: list[Event] = []
        for number in range(messages // 2):
            events += [
                TurnStarted(cause="message"),
                UserMessage(text=f"Message {number}: " + "please change this and that. " * 5),
                AssistantMessage(text=f"Answer {number}.\n\n" + "A sentence of an answer with `code` in it. " * 12),
            ]
            if number % (messages // 2 // PROPOSALS) == 0:
                name = runtime.proposals.reserve_proposal_id()
                change = FileChange(
                    path="a.py", op=FileOperation.EDIT, base=base, result=result, hunks=hunks, added=1, removed=1
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
        runtime.sessions.append_events(record.id, events)
    finally:
        runtime.close()


def _kept(runtime: OpenWorkspace, lines: list[str]) -> FileVersion:
    data = "".join(f"{line}\n" for line in lines).encode()
    return FileVersion(sha256=runtime.proposals.put_blobs([data])[0], size=len(data))
