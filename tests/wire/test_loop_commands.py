"""A command of the model over the whole session: live output, Escape, and what its environment does not hold."""

import asyncio
import random
from pathlib import Path

import pytest

from app.agent.updates import CommandOutput, ConfirmationRequested, Update
from app.conversation.events import Outcome, ToolResult
from app.tools.contract import ConfirmationAnswer
from tests.unit.tools.processes import running
from tests.wire.bench import Bench, bench, of_role
from tests.wire.server import WireServer


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))


def allow_everything(on: Bench) -> None:
    def answer(update: Update) -> None:
        if isinstance(update, ConfirmationRequested):
            on.session.confirm(update.key, ConfirmationAnswer(allowed=True))

    on.session.subscribe(answer)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
async def test_escape_ends_everything_that_a_command_started(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path) as on:
        allow_everything(on)
        shown: list[str] = []
        both = asyncio.Event()

        def watch(update: Update) -> None:
            if isinstance(update, CommandOutput):
                shown.append(update.text)
                if "".join(shown).count("\n") >= 2:
                    both.set()

        on.session.subscribe(watch)
        mark = f"{random.randrange(10**6, 10**7)}.5"
        command = f"setsid sh -c 'trap \"\" TERM; echo 1; sleep {mark} & wait' & echo 2; sleep {mark}"
        server.turn(calls=[("run_command", {"command": command})])
        await on.session.send("Run it")
        async with asyncio.timeout(20):
            await both.wait()
        assert running(mark)
        on.session.interrupt()
        await on.session.settled()
        assert not running(mark)
        assert on.stopped == "aborted"
        assert [event.outcome for event in on.events if isinstance(event, ToolResult)] == [Outcome.ABORTED]
        server.say("Stopped.")
        await on.say("Why?")
        on.check()


async def test_a_command_does_not_get_the_key(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("DEPLOY_TOKEN", "tok-very-secret")
    monkeypatch.setenv("HARMLESS", "is-passed-on")
    async with bench(server, tmp_path) as on:
        allow_everything(on)
        server.turn(calls=[("run_command", {"command": "env"})])
        server.say("Seen.")
        await on.say("Show the environment")
        told = of_role(server.last, "tool")[-1]
        assert "is-passed-on" in told and "very-secret" not in told
