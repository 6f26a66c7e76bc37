"""A command of the user's own over the wire: its text as the user's words, its model and effort for one turn."""

from pathlib import Path

import pytest

from app.conversation.events import Invocation, UserMessage
from tests.wire.bench import bench, of_role
from tests.wire.replies import STALL, Turn, chunk, stream
from tests.wire.server import WireServer

REVIEW = Invocation(typed="/review greet.py", model="bigger", effort="high")


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))


async def test_model_and_effort_hold_for_one_turn(tmp_path: Path, server: WireServer) -> None:
    server.call("read_file", {"path": "greet.py"})
    server.say("Fine.")
    server.say("Hello.")
    async with bench(server, tmp_path) as table:
        await table.session.send("Look at @greet.py with care.", REVIEW)
        await table.session.wait_until_idle()
        await table.say("Thanks")
        sent = [(one.body["model"], one.body.get("reasoning_effort")) for one in server.requests]
        assert sent == [("bigger", "high"), ("bigger", "high"), ("test-model", None)]
        assert of_role(server.requests[0], "user") == ["Look at @greet.py with care."]
        assert table.runtime.sessions.sent_messages() == ["/review greet.py", "Thanks"]
        assert table.runtime.sessions.get(table.session.id).title == "/review greet.py"
        table.check()


async def test_one_that_waits_its_turn_is_given_back_as_typed_or_said_with_its_wishes(
    tmp_path: Path, server: WireServer
) -> None:
    server.script([stream(chunk(text="Well"), STALL)])
    async with bench(server, tmp_path) as table:
        await table.session.send("hello")
        assert await server.arrived(1)
        await table.session.send("With care.", REVIEW)
        assert table.session.queue == ("/review greet.py",)
        assert table.session.interrupt() == ("/review greet.py",)
        await table.session.wait_until_idle()
        server.script([stream(chunk(text="Well"), STALL), Turn("Fine.")])
        await table.session.send("hello again")
        assert await server.arrived(2)
        await table.session.send("With care.", REVIEW)
        await table.session.close()
    async with bench(server, tmp_path) as table:
        await table.session.resume()
        await table.session.wait_until_idle()
        assert server.requests[-1].body["model"] == "bigger"
        said = [event for event in table.events if isinstance(event, UserMessage)]
        assert said[-1].command == REVIEW and of_role(server.requests[-1], "user")[-1].endswith("With care.")
