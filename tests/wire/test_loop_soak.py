"""A long scripted session with random faults: it ends with a valid history, no leaked task and flat memory."""

import asyncio
import gc
import random
from pathlib import Path
from typing import Any

import pytest

from app.agent.session import Session
from app.conversation.events import TurnEnded, TurnStarted
from app.llm.failures.request_errors import RetryPolicy
from app.proposals.values.proposal_errors import ProposalError
from tests.examples import scale_examples
from tests.oracles.reading import VIOLATIONS
from tests.wire.bench import Bench, bench
from tests.wire.endpoints import IGNORES_TOOL_CHOICE
from tests.wire.replies import CUT, STALL, Call, Reply, Turn, error, stream
from tests.wire.server import Request, WireServer, rendered

SEED = 20_240_229
GARBAGE = (
    b"data: {broken\n\n",
    b"data: [[]]\n\n",
    b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n',
    b'data: {"type": "response.output_text.delta", "output_index": [], "delta": "x"}\n\n',
    b'data: {"type": "message", "content": 5, "usage": {"input_tokens": -Infinity, "cost": 1e999}}\n\n',
    b"data: {\xff\xfe}\n\n",
)
IMPATIENT = RetryPolicy(attempts=2, base=0.01, cap=0.02)


class Chaos:
    """A model and an endpoint that do anything, by a seeded generator."""

    def __init__(self, random_source: random.Random) -> None:
        self._random = random_source
        self._count = 0

    def __call__(self, request: Request) -> Turn | Reply:
        self._count += 1
        roll = self._random.random()
        if roll < 0.06:
            return error(self._random.choice((400, 401, 404, 429, 500)), "no", headers={"retry-after": "0.01"})
        if roll < 0.10:
            return self._broken(request, CUT)
        if roll < 0.11:
            return self._broken(request, STALL)
        if roll < 0.13:
            return self._broken(request, self._random.choice(GARBAGE))
        if roll < 0.16:
            return Turn("", finish=self._random.choice(("stop", "length", None)))
        if roll < 0.22:
            return Turn("half", calls=(Call("edit_file", '{"path": "greet.py", "ed'),), finish="length")
        if roll < 0.5:
            return Turn(f"Answer {self._count}.")
        return Turn("", calls=tuple(self._call() for _ in range(self._random.randint(1, 3))))

    def _broken(self, request: Request, end: Any) -> Reply:
        """The beginning of a response, and something else."""
        whole = rendered(Turn("I was about to", calls=(self._call(),), reasoning="Hm."), request)
        return stream(*whole.parts[: self._random.randint(0, len(whole.parts) - 1)], end)

    def _call(self) -> Call:
        name = f"file{self._random.randint(0, 3)}.txt"
        return self._random.choice(
            (
                Call("read_file", {"path": "greet.py"}),
                Call("read_file", {"path": name}),
                Call("list_files", {}),
                Call("write_file", {"path": name, "content": f"{self._count}\n" * self._random.randint(1, 5)}),
                Call("edit_file", {"path": "greet.py", "edits": [{"old": "Hello", "new": f"Hello{self._count}"}]}),
                Call("edit_file", {"path": "greet.py", "edits": [{"old": "not there", "new": "x"}]}),
                Call("delete_file", {"path": name}),
                Call("ask_user", {"question": "Which?"}),
                Call("run_command", {"command": "true"}),
                Call("no_such_tool", {}),
                Call("read_file", '{"path": ' + '{"a": ' * 150 + "1" + "}" * 151),
                Call("read_file", {"path": "../../etc/passwd"}, id="same"),
            )
        )


async def act(on: Bench, source: random.Random) -> None:
    """One thing that a user does, and the turn that follows from it."""
    session = on.session
    waiting = on.runtime.service.pending()
    roll = source.random()
    if session.question is not None:
        await session.answer(f"answer {roll}")
    elif waiting and roll < 0.35:
        proposal = source.choice(waiting)
        await _decide(session, proposal.id, source)
    elif roll < 0.4:
        await session.resume()
    else:
        await session.send(f"message {roll}\nof two lines")
    if roll > 0.9:
        session.interrupt()
    elif roll > 0.8:
        await asyncio.sleep(source.random() * 0.02)
        session.interrupt()
    try:
        async with asyncio.timeout(0.5):
            await session.wait_until_idle()
    except TimeoutError:
        session.interrupt()
        await session.wait_until_idle()


async def _decide(session: Session, proposal: str, source: random.Random) -> None:
    try:
        if source.random() < 0.4:
            await session.approve(proposal)
        else:
            await session.deny(proposal, feedback="No.\nOtherwise." if source.random() < 0.5 else "")
    except ProposalError:
        pass  # Stale, or built on one that still waits: the user sees the line and goes on.


@pytest.mark.parametrize("wire", VIOLATIONS)
@pytest.mark.parametrize(
    "turns",
    [scale_examples(20), pytest.param(200, marks=[pytest.mark.soak, pytest.mark.timeout(600)])],
    ids=["some", "many"],
)
async def test_many_turns_with_random_faults_keep_history_and_memory_sound(
    server: WireServer, tmp_path: Path, turns: int, wire: str
) -> None:
    source = random.Random(SEED)
    server.behave(IGNORES_TOOL_CHOICE)
    server.model(Chaos(random.Random(SEED)))
    async with bench(server, tmp_path, wire=wire, max_steps=8, retry=IMPATIENT) as on:
        on.allow_everything()
        tasks = len(asyncio.all_tasks())
        kept: list[tuple[int, int]] = []
        for turn in range(1, turns + 1):
            await act(on, source)
            assert not on.session.is_busy
            on.check()
            on.updates.clear()
            server.requests.clear()
            on.session.requests.last_sent = None
            if turn in (turns // 2, turns // 2 * 2):
                gc.collect()
                kept.append((len(gc.get_objects()), len(on.events)))
        assert len(asyncio.all_tasks()) <= tasks + 1, asyncio.all_tasks()
        started = sum(isinstance(event, TurnStarted) for event in on.events)
        ended = sum(isinstance(event, TurnEnded) for event in on.events)
        assert started == ended >= turns // 2
        # The log is kept in memory and grows. Little else is: what loads late is 700 objects, an event 2 to 5.
        (objects, events), (more_objects, more_events) = kept
        assert more_objects - objects < 12 * (more_events - events) + 2_000
