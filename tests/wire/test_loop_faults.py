"""A fault at every place where a turn waits, on each wire: the session goes on, and what goes out next is valid.

A turn of everything at once (parallel calls, a server's tool, an image, edits, a question, a side question) is begun
again and again. Each time something goes wrong at the next place at which one of its tasks waits: the user stops it,
the program ends, which cancels all tasks, or a write to the disk fails.
"""

import asyncio
import weakref
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from app.agent.session import Session
from app.conversation.events import Event, ProposalStaged, RequestSent, TurnEnded, UserMessage
from app.conversation.log import EventStoreInterface
from app.copies import replace
from app.images.image_files import load_and_store_images
from app.images.mentions import find_mentioned_files
from app.storage import StorageError
from app.tools.base.contract import Tool, ToolContext, ToolOutput, UnvalidatedMcpToolArguments
from app.tools.tool_registry import AdditionalTools, ToolSet, ToolSource
from tests.examples import scale_step
from tests.oracles.reading import VIOLATIONS
from tests.unit.images.pictures import png
from tests.waiting import MAX_WAIT_SECONDS
from tests.wire.bench import FILE, Bench, bench
from tests.wire.driving import FAST
from tests.wire.replies import Call, Turn
from tests.wire.server import Request, WireServer
from tests.wire.test_side_questions import place_of

STEPS = 600
"""More places than a turn has at which it waits."""
FAULTS = ("stop", "end", "disk")


class Look(Tool):
    """A tool of a server's."""

    name = "mcp__box__look"
    description = "Looks into the box."
    kind = "command"
    parameters = {"type": "object", "properties": {"where": {"type": "string"}}}  # noqa: RUF012

    async def run(self, arguments: UnvalidatedMcpToolArguments, context: ToolContext) -> ToolOutput:
        await asyncio.sleep(0)
        return ToolOutput("A cat.", "a cat")


class Box(ToolSource):
    """A source of tools that has to be waited for."""

    async def offered_tools(self, window: int | None) -> AdditionalTools:
        await asyncio.sleep(0)
        return AdditionalTools(listed=(Look(),))


class Disk:
    """A store that fails when it is told to."""

    def __init__(self, sink: EventStoreInterface, writes: Callable[[], None]) -> None:
        self._sink = sink
        self._writes = writes

    async def append(self, events: Sequence[Event], after: int) -> Sequence[Event]:
        self._writes()
        return await self._sink.append(events, after)

    async def read_after(self, after: int) -> Sequence[Event]:
        return await self._sink.read_after(after)


class Model:
    """Does what the latest message asks for: an edit, a question, both, or looking only; then it hands back."""

    def __init__(self) -> None:
        self.wants = ""
        self.number = 0

    def __call__(self, request: Request) -> Turn:
        self.number += 1
        users = [text for role, text in request.said if role == "user"]
        if request.closing or not any(self.wants in text for text in users[-2:]):
            return Turn(f"Words {self.number}.", reasoning="So.")
        looks = (Call("read_file", {"path": "greet.py"}), Call("mcp__box__look", {"where": "in"}))
        if self.wants.startswith("look") and request.said[-1][0] == "tool":
            return Turn(f"I have looked {self.number}.")
        edits = Call("write_file", {"path": f"file{self.number % 3}.txt", "content": f"{self.number}\n"})
        asks = Call("ask_user", {"question": "Which?"})
        calls = {"edit": (*looks, edits), "ask": (*looks, asks), "both": (edits, *looks, asks, edits), "look": looks}
        return Turn("Working.", calls=calls[self.wants.split()[0]], reasoning="Hm.", pieces=1)


class Stepped(Coroutine[Any, Any, Any]):
    """Tells of each place at which a task waits. What cancels it before it begins reaches its work, too."""

    def __init__(self, work: Coroutine[Any, Any, Any], waits: Callable[[], None]) -> None:
        self._work = work
        self._waits = waits

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._work.__await__()

    def send(self, value: Any) -> Any:
        waited = self._work.send(value)
        self._waits()
        return waited

    def throw(self, *problem: Any) -> Any:
        waited = self._work.throw(*problem)
        self._waits()
        return waited

    def close(self) -> None:
        self._work.close()


class Faults:
    """Counts where the tasks of a turn wait, and has something go wrong at one of these places."""

    def __init__(self) -> None:
        self.at = 0
        self.seen = 0
        self.happen: Callable[[], None] = lambda: None
        self.tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()

    def arm(self, at: int, happen: Callable[[], None]) -> None:
        self.at, self.seen, self.happen = at, 0, happen

    def tick(self) -> None:
        self.seen += 1
        if self.seen == self.at:
            self.happen()

    def factory(self, loop: asyncio.AbstractEventLoop, work: Any, **more: Any) -> Any:
        task = asyncio.Task(Stepped(work, self.tick), loop=loop, **more)
        self.tasks.add(task)
        return task


class Play:
    def __init__(self, on: Bench, model: Model) -> None:
        self.on = on
        self.model = model
        self.faults = Faults()
        self.disk = Faults()
        self.said: list[str] = []
        self.reopen()

    def reopen(self) -> None:
        """The session as another process would find it."""
        old = self.on.session
        tools = ToolSet(tuple(old.ports.tools), Box())
        ports = replace(old.ports, sink=Disk(old.ports.sink, self.disk.tick), tools=tools)
        self.session = Session(old.id, ports, old.settings, self.on.runtime.sessions.events(old.id))

    async def go(self, text: str, *, image: bool = False) -> None:
        """Say something, answer what is asked, and wait until control is back."""
        self.model.wants = text

        async def meant(_: object) -> bool:
            return True

        wire = self.session.ports.model.profile.wire
        found = await load_and_store_images(
            self.on.runtime.workspace,
            self.on.runtime.proposals.put_blobs,
            find_mentioned_files("@shot.png" if image else ""),
            wire,
            meant,
        )
        answering = self.session.question is not None
        await self.session.send(text, images=found)
        self.said += [] if answering else [text]

    async def settled(self) -> None:
        async with asyncio.timeout(MAX_WAIT_SECONDS):
            await self.session.wait_until_idle()
            await self.session.side_questions.wait_until_idle()

    async def ask_aside(self) -> None:
        waiting = self.on.runtime.service.pending()
        if waiting and not self.session.side_questions.is_answer_awaited(place := place_of(waiting[-1])):
            await self.session.side_questions.ask(place, "Why?")

    def check(self) -> None:
        """All that went out was valid; each thing that the user said is in it once; the gate's word is the last."""
        requests, self.on.server.requests = self.on.server.requests, []
        for request in requests:
            assert VIOLATIONS[request.wire](request.body) == []
            if request.closing and "Side question" not in str(request.said[-2:]):
                said = [text for role, text in request.said if role == "system"]
                assert "Do not call tools" in said[-1] and "P" in said[-1]
            assert not any("Do not call tools" in text for role, text in request.said if role == "user")
        words = [text for role, text in requests[-1].said if role == "user"]
        recorded = [event.text for event in self.session.log.events if isinstance(event, UserMessage)]
        assert set(self.said) <= set(recorded)
        for text in recorded:
            assert sum(text in one for one in words) == 1, (text, words[-8:])


async def play(server: WireServer, folder: Path, wire: str, fault: str, places: range) -> None:
    """Begin the turn for each place, have the fault happen there, and look at what goes out after it."""
    root = folder / "workspace"
    root.mkdir()
    (root / "greet.py").write_text(FILE)
    (root / "shot.png").write_bytes(png(30, 20))
    model = Model()
    server.model(model)
    loop = asyncio.get_running_loop()
    kinds = ("edit", "ask", "both", "look")
    async with bench(server, folder, wire=wire, retry=FAST, max_steps=4, template_checked=True) as on:
        playing = Play(on, model)
        over = 0
        for number, at in enumerate(places):

            def happen() -> None:
                match fault:
                    case "stop":
                        playing.session.interrupt()
                    case "end":
                        for task in playing.faults.tasks:
                            task.cancel()
                    case _:
                        raise StorageError("The disk is full.")

            armed = playing.disk if fault == "disk" else playing.faults
            loop.set_task_factory(playing.faults.factory)
            armed.arm(at, happen)
            with suppress(StorageError, asyncio.CancelledError):
                await playing.go(f"{kinds[number % 4]} {number} of {at}.", image=number % 5 == 0)
            with suppress(StorageError, asyncio.CancelledError):
                await playing.ask_aside()
            await playing.settled()
            loop.set_task_factory(None)
            over = 0 if armed.seen >= at else over + 1
            armed.arm(0, lambda: None)
            if fault == "end":
                playing.reopen()
            # All is well again: the session goes on.
            await playing.go(f"look {number} after that.")
            await playing.settled()
            if playing.session.question is not None:
                await playing.session.send("This one.")
                await playing.settled()
            ends = [event for event in playing.session.log.events if isinstance(event, TurnEnded)]
            assert ends[-1].stopped in ("answer", "staged"), ends[-1]
            playing.check()
            if over == len(kinds):
                break
        else:
            assert len(places) < STEPS - 1, "the turn has more places than that"
        events = playing.session.log.events
        assert any(isinstance(event, ProposalStaged) for event in events)
        assert any(isinstance(event, RequestSent) and event.closing for event in events)
        await playing.session.close()
    # What is on the disk is as good as what was in memory.
    async with bench(server, folder, wire=wire, retry=FAST) as on:
        playing = Play(on, model)
        await playing.go("look again.")
        await playing.settled()
        playing.check()


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("wire", VIOLATIONS)
async def test_a_fault_leaves_a_usable_session(server: WireServer, tmp_path: Path, wire: str, fault: str) -> None:
    places = range(1, 40, scale_step(1)) if fault == "disk" else range(1, STEPS, scale_step(7))
    await play(server, tmp_path, wire, fault, places)


@pytest.mark.soak
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("wire", VIOLATIONS)
async def test_any_fault_leaves_a_usable_session(server: WireServer, tmp_path: Path, wire: str, fault: str) -> None:
    await play(server, tmp_path, wire, fault, range(1, STEPS))
