"""SIGKILL at random instants: every operation reported as done is kept, and no child process continues."""

import asyncio
import os
import random
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path

import pytest

from app.conversation.events import Event, UserMessage
from app.conversation.payload.projection import PayloadInputs, project
from app.llm.values.endpoint import EndpointProfile
from app.proposals.values.models import ProposalState
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from app.runtime.unfinished_work import recover_interrupted_work
from app.sandbox.confinement import CommandWriteMode
from app.sandbox.sandbox import Sandbox
from app.workspace.paths import Workspace
from tests.forking import Forking
from tests.unit.conversation.validity import violations
from tests.unit.sandbox.test_scripts import make, state
from tests.unit.tools.processes import new_mark
from tests.wire.endpoints import OBEYS
from tests.wire.replies import Call, Turn
from tests.wire.server import Request, WireServer

ROOT = Path(__file__).resolve().parents[2]


def is_running(mark: str, place: Path) -> bool:
    """Return whether a process of a command still runs: the command, its children or its watcher."""
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark.encode() in (folder / "cmdline").read_bytes():
                return True
            # A child of a killed shell has no mark in its command line; it is found by its folder.
            if (folder / "cwd").readlink().is_relative_to(place):
                return True
    return False


@pytest.mark.parametrize("mode", list(CommandWriteMode))
@pytest.mark.parametrize("instants", [3, pytest.param(50, marks=pytest.mark.marathon)])
def test_killed_command_is_rolled_back_and_no_process_remains(
    processes: Forking, tmp_path: Path, mode: CommandWriteMode, instants: int
) -> None:
    root, runs = tmp_path / "ws", tmp_path / "runs"
    make(root)
    before = state(root)
    dice = random.Random(7)
    for _ in range(instants):
        mark = new_mark()
        command = (
            f"env -i setsid sleep {mark} & i=0; while :; do i=$((i+1)); echo $i >> a.txt; rm -rf d/e; "
            f"mkdir -p d/e/$i; "
            f"echo $i > d/e/$i/new; ln -sfn $i link; mv d/x d/x2; mv d/x2 d/x; done"
        )
        ours, theirs = socket.socketpair()
        words = ("tests.processes.one_run", str(root), str(runs), mode, command)
        process = processes.start_module(*words, folder=ROOT, environment=os.environ, talk=theirs)
        with ours, ours.makefile("rb") as output:
            assert output.readline() == b"ready\n"
            time.sleep(dice.random() / 4)
            process.kill()
            assert process.wait() == -signal.SIGKILL
        deadline = time.monotonic() + 60
        # A process that forks and dies during a check can be missed, therefore several checks.
        clear_checks = 0
        while clear_checks < 5 and time.monotonic() < deadline:
            clear_checks = 0 if is_running(mark, tmp_path) else clear_checks + 1
            time.sleep(0.02)
        assert clear_checks == 5, Path("/proc/loadavg").read_text()
        sandbox = Sandbox(Workspace(root), runs, own_folders=())
        sandbox.restore_after_crash()
        assert state(root) == before
        asyncio.run(sandbox.probe())
        assert not [path for path in runs.iterdir() if path.name.startswith("run-")]
        assert str(tmp_path) not in Path("/proc/self/mountinfo").read_text()


def test_ignore_rules_written_by_a_killed_command_are_not_used(processes: Forking, tmp_path: Path) -> None:
    """Restoring uses the ignore rules from before the command: files that they ignored stay as the command wrote
    them.
    """
    root, runs, talk = tmp_path / "ws", tmp_path / "runs", socket.socketpair()
    make(root)
    (root / ".gitignore").write_text("*.log\n")
    before = state(root)
    rules = "rm -r d; mkdir new; for each in . new; do echo '*' > $each/.gitignore; echo x > $each/code.py; done"
    mark = new_mark()
    command = f"echo 1 > a.log; {rules}; echo > a.txt; echo > end.log; sleep {mark}"
    words = ("tests.processes.one_run", str(root), str(runs), CommandWriteMode.IN_PLACE, command)
    process = processes.start_module(*words, folder=ROOT, environment=os.environ, talk=talk[1])
    with talk[0]:
        deadline = time.monotonic() + 60
        while not (root / "end.log").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    assert (root / "new/code.py").exists() and not (root / "d").exists()
    while is_running(mark, tmp_path) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert "cut off" in Sandbox(Workspace(root), runs, own_folders=()).restore_after_crash()
    assert (root / "a.log").read_text() == "1\n"
    for name in ("a.log", "end.log"):
        (root / name).unlink()
    assert state(root) == before


def writer(request: Request) -> Turn:
    """A model that reads, and then rewrites two files in one response."""
    number = request.number
    if number % 3 == 0:
        return Turn("Looking.", calls=(Call("read_file", {"path": "a.txt"}), Call("list_files", {})))
    text = f"version {number}\n" * 40
    return Turn(
        "Writing.",
        calls=(
            Call("write_file", {"path": "a.txt", "content": "a " + text}),
            Call("write_file", {"path": "b.txt", "content": "b " + text}),
        ),
    )


def run_and_kill(processes: Forking, root: Path, server: WireServer, seed: int, home: Path) -> list[str]:
    """Run the session until it has done a random number of operations, and kill it; return its output lines."""
    dice = random.Random(seed)
    operations = dice.randint(0, 5)
    ours, theirs = socket.socketpair()
    child = processes.start_module(
        "tests.processes.crashing_session",
        *(str(root), server.base_url, str(seed)),
        folder=root,
        environment={**os.environ, "SIGNOFF_HOME": str(home)},
        talk=theirs,
    )
    with ours, ours.makefile("rb", buffering=0) as output:
        data = b""
        try:
            while data.count(b"\n") <= operations:
                data += output.read(65536)
                assert child.poll() is None, data
            # Kill it in the middle of the next operation.
            time.sleep(dice.random() * 0.05)
        finally:
            child.kill()
            data += output.readall()
        assert child.wait() == -signal.SIGKILL, data
    return [line.decode() for line in data.split(b"\n")[:-1]]


def check(runtime: OpenWorkspace, done: list[str]) -> None:
    """Assert that the state on disk agrees with all operations reported as done."""
    recovered = recover_interrupted_work(runtime, grace_seconds=-1)
    assert not any("blocked" in line for line in recovered), recovered
    latest = runtime.sessions.latest()
    events: list[Event] = runtime.sessions.events(latest.id) if latest else []
    payload = project(events, EndpointProfile(), PayloadInputs("system", []))
    assert violations(payload.messages) == []
    decided = {(record.decided.decision.value, record.decided.proposal) for record in runtime.sessions.decisions()}
    decided_ids = {proposal for _, proposal in decided}
    for proposal in runtime.service.all():
        undecided = proposal.state.is_pending or proposal.state is ProposalState.SUPERSEDED
        assert undecided or proposal.id in decided_ids, proposal
    messages = {event.text for event in events if isinstance(event, UserMessage)}
    for line in done:
        verb, _, rest = line.partition(" ")
        if verb in ("approved", "denied"):
            assert (verb, rest) in decided, line
            state = runtime.service.get(rest).state
            assert state is (ProposalState.APPLIED if verb == "approved" else ProposalState.DENIED), (line, state)
        elif verb == "said":
            assert rest in messages, line
    a, b = (runtime.workspace.root / name for name in ("a.txt", "b.txt"))
    assert a.exists() == b.exists()
    if a.exists():
        assert a.read_text()[2:] == b.read_text()[2:], "both files are of one version"
    leftovers = [path.name for path in runtime.workspace.root.iterdir() if path.name not in ("a.txt", "b.txt")]
    assert leftovers == []


@pytest.mark.parametrize(
    "kills", [5, pytest.param(100, marks=[pytest.mark.soak, pytest.mark.timeout(1200)])], ids=["some", "100"]
)
def test_reported_operations_survive_repeated_sigkill(
    processes: Forking, server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    home, root = tmp_path / "home", tmp_path / "workspace"
    root.mkdir()
    monkeypatch.setenv("SIGNOFF_HOME", str(home))
    server.behave(OBEYS)
    server.model(writer)
    all_lines: list[str] = []
    for seed in range(kills):
        all_lines += run_and_kill(processes, root, server, seed, home)
        runtime = open_workspace(root, {}, {})
        try:
            check(runtime, all_lines[-200:])
        finally:
            runtime.close()
    kinds = {line.split(" ")[0] for line in all_lines}
    assert "said" in kinds and kinds & {"approved", "denied"}, "the kills came before anything happened"
