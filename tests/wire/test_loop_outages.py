"""What a session works with fails, the store or git: what the user is told, and that it goes on afterwards."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.agent.updates import Recorded, SessionFailed, Update
from app.conversation.events import Notice, TurnEnded, UserMessage
from app.tools.tool_registry import ExtraTools, ToolSource
from tests.wire.bench import FILE, Bench, bench, edit
from tests.wire.replies import Turn
from tests.wire.server import Request, WireServer


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))


def rename(on: Bench, old: str, new: str) -> None:
    with on.runtime.database.transaction() as connection:
        connection.execute(f"ALTER TABLE {old} RENAME TO {new}")


@contextmanager
def without_events(on: Bench) -> Iterator[None]:
    """No event can be recorded."""
    rename(on, "events", "lost")
    yield
    rename(on, "lost", "events")


def failures(on: Bench) -> list[str]:
    return [update.message for update in on.updates if isinstance(update, SessionFailed)]


async def test_a_notice_that_cannot_be_recorded_is_shown_all_the_same(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path) as on:
        with without_events(on):
            await on.session.notify_user(Notice(text="Mind the gap."))
        assert failures(on) == ["Mind the gap."]


async def test_a_turn_whose_end_cannot_be_recorded_either_says_why_it_ended(
    server: WireServer, tmp_path: Path
) -> None:
    async with bench(server, tmp_path) as on:

        def lose(request: Request) -> Turn:
            rename(on, "events", "lost")
            return Turn("Done.")

        server.model(lose)
        await on.say("Do it")
        (said,) = failures(on)
        assert said.startswith("The turn ended early: ") and not on.session.busy
        rename(on, "lost", "events")
        server.model(lambda request: Turn("Done."))
        await on.say("Once more")
        assert on.stopped == "answer"
        on.check()


async def test_what_is_queued_stays_so_when_its_turn_cannot_begin(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path) as on:

        def lose(update: Update) -> None:
            if isinstance(update, Recorded) and isinstance(update.event, TurnEnded):
                leave()
                rename(on, "events", "lost")

        leave = on.session.subscribe(lose)
        server.always(Turn("Done."))
        await on.session.send("Do it")
        await on.session.send("And that")
        await on.session.wait_until_idle()
        (said,) = failures(on)
        assert said.startswith("The turn could not start: ") and on.session.queue == ("And that",)
        rename(on, "lost", "events")
        await on.say("Go on")
        assert [event.text for event in on.events if isinstance(event, UserMessage)] == ["Do it", "And that", "Go on"]


async def test_a_commit_that_git_refuses_is_said_and_the_approval_stands(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path, commit=True) as on:
        server.turn(calls=[edit()])
        server.say("Have a look.")
        await on.say("Change it")
        await on.session.approve("P1")
        assert on.file != FILE
        (notice,) = [event for event in on.events if isinstance(event, Notice)]
        assert notice.level == "warning" and "not a git repository" in notice.text


class Silent(ToolSource):
    """A source of tools that never comes to an answer."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def offered_tools(self, window: int | None) -> ExtraTools:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError


async def test_servers_that_do_not_answer_are_waited_for_until_the_user_stops(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with bench(server, tmp_path) as on:
        source = Silent()
        monkeypatch.setattr(on.session.ports.tools, "_source", source)
        await on.session.send("Do it")
        await source.asked.wait()
        on.session.interrupt()
        await on.session.wait_until_idle()
        assert (on.stopped, failures(on), server.requests) == ("aborted", [], [])
