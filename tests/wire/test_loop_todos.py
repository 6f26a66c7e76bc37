"""The model's to-do list: kept by a call, part of the log, spared by a compaction, refused by a closed gate."""

import json
from pathlib import Path
from typing import Any

import pytest

from app.conversation.events import CallOutcome, Compacted, ToolResult
from tests.wire.bench import Bench, bench, edit
from tests.wire.endpoints import IGNORES_TOOL_CHOICE
from tests.wire.replies import Call, Turn
from tests.wire.server import WireServer

LIST = [
    {"content": "Read client.py", "status": "completed"},
    {"content": "Bound the loop", "status": "in_progress"},
    {"content": "Say so in the changelog", "status": "pending"},
]


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))


def results(on: Bench) -> list[ToolResult]:
    return [event for event in on.events if isinstance(event, ToolResult)]


async def test_a_list_is_kept_unasked_and_what_came_of_it_told(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path) as on:
        server.turn(calls=[("write_todos", {"todos": LIST})])
        server.say("I begin.")
        await on.say("mend it")
        (result,) = results(on)
        assert result.todos is not None and [todo.model_dump() for todo in result.todos] == LIST
        assert server.last.messages[-1]["content"] == "Kept: 1 of 3 done."
        server.turn(calls=[("write_todos", {"todos": []})])
        server.say("Nothing is left.")
        await on.say("never mind")
        assert server.last.messages[-1]["content"] == "The list is empty."
        assert results(on)[-1].todos == ()
        on.check()


@pytest.mark.parametrize("written", [json.dumps(LIST), LIST])
async def test_a_list_in_quotes_is_taken_all_the_same(server: WireServer, tmp_path: Path, written: Any) -> None:
    async with bench(server, tmp_path) as on:
        server.turn(calls=[("write_todos", {"todos": written})])
        server.say("I begin.")
        await on.say("mend it")
        (result,) = results(on)
        assert result.todos is not None and len(result.todos) == 3


async def test_a_compaction_keeps_the_list_and_says_it_once_as_the_program(
    server: WireServer, tmp_path: Path
) -> None:
    async with bench(server, tmp_path) as on:
        server.turn(calls=[("write_todos", {"todos": LIST[:1]})])
        server.turn(calls=[("write_todos", {"todos": LIST})])
        server.say("I begin.")
        await on.say("mend it")
        for number in range(12):
            server.say(f"Answer {number}. " + "Words. " * 400)
            await on.say(f"Question {number}?")
        server.model(lambda request: Turn("SUMMARY"))
        await on.session.compact()
        await on.session.wait_until_idle()
        assert any(isinstance(event, Compacted) for event in on.events)
        await on.say("go on")
        told = [message for message in server.last.messages if "Bound the loop" in str(message)]
        assert [message["role"] for message in told] == ["system"]
        assert "- in_progress: Bound the loop\n- pending: Say so" in told[0]["content"]
        on.check()


async def test_with_the_gate_closed_no_list_is_taken(server: WireServer, tmp_path: Path) -> None:
    server.behave(IGNORES_TOOL_CHOICE)
    async with bench(server, tmp_path) as on:
        listed = Call("write_todos", {"todos": LIST})
        server.model(lambda request: Turn(calls=(listed if request.closing else Call(*edit()),)))
        await on.say("mend it")
        assert [(result.outcome, result.todos) for result in results(on)] == [
            (CallOutcome.STAGED, None),
            (CallOutcome.REFUSED, None),
        ]
        on.check()
