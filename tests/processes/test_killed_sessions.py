"""SIGKILL at random instants, again and again over one session: nothing that was said to be done is lost."""

import os
import random
import signal
import socket
import time
from pathlib import Path

import pytest

from app.conversation.events import Event, UserMessage
from app.conversation.payload.projection import PayloadInputs, project
from app.llm.values.profile import Profile
from app.proposals.values.models import ProposalState
from app.runtime.open_workspace import OpenWorkspace, open_runtime
from app.runtime.workspace_recovery import recover
from tests.forking import Forking
from tests.unit.conversation.validity import violations
from tests.wire.endpoints import OBEYS
from tests.wire.replies import Call, Turn
from tests.wire.server import Request, WireServer


def writer(request: Request) -> Turn:
    """A model that reads, and then rewrites two files in one step."""
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
    """Run the session until it has done a random number of things and a moment more; what it said was done."""
    source = random.Random(seed)
    things = source.randint(0, 5)
    ours, theirs = socket.socketpair()
    child = processes.start_module(
        "tests.processes.crashing_session",
        *(str(root), server.base_url, str(seed)),
        folder=root,
        environment={**os.environ, "SIGNOFF_HOME": str(home)},
        talk=theirs,
    )
    with ours, ours.makefile("rb", buffering=0) as said:
        data = b""
        try:
            while data.count(b"\n") <= things:
                data += said.read(65536)
                assert child.poll() is None, data
            # Into the middle of whatever comes next.
            time.sleep(source.random() * 0.05)
        finally:
            child.kill()
            data += said.readall()
        assert child.wait() == -signal.SIGKILL, data
    return [line.decode() for line in data.split(b"\n")[:-1]]


def check(runtime: OpenWorkspace, done: list[str]) -> None:
    """The state on disk agrees with everything that was said to be done."""
    recovered = recover(runtime, patience=-1)
    assert not any("blocked" in line for line in recovered), recovered
    latest = runtime.sessions.latest()
    events: list[Event] = runtime.sessions.events(latest.id) if latest else []
    payload = project(events, Profile(), PayloadInputs("system", []))
    assert violations(payload.messages) == []
    decided = {(one.decided.decision.value, one.decided.proposal) for one in runtime.sessions.decisions()}
    told = {proposal for _, proposal in decided}
    for proposal in runtime.service.all():
        undecided = proposal.state.is_pending or proposal.state is ProposalState.SUPERSEDED
        assert undecided or proposal.id in told, proposal
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
def test_sigkill_again_and_again(
    processes: Forking, server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kills: int
) -> None:
    home, root = tmp_path / "home", tmp_path / "workspace"
    root.mkdir()
    monkeypatch.setenv("SIGNOFF_HOME", str(home))
    server.behave(OBEYS)
    server.model(writer)
    everything: list[str] = []
    for seed in range(kills):
        everything += run_and_kill(processes, root, server, seed, home)
        runtime = open_runtime(root, {}, {})
        try:
            check(runtime, everything[-200:])
        finally:
            runtime.close()
    kinds = {line.split(" ")[0] for line in everything}
    assert "said" in kinds and kinds & {"approved", "denied"}, "the kills came before anything happened"
