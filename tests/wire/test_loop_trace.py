"""What the program decides is in the log, in `--debug`'s file and in no request; the notes on a turn without an end
say what happened in it."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from app.agent.trace import TraceFileWriter
from app.agent.updates import PermissionRequested, Update
from app.conversation.events import NextActionChosen, RequestSent, ToolResult
from app.copies import replace
from app.tools.base.contract import PermissionAnswer
from tests.wire.bench import Bench, bench, edit, of_role
from tests.wire.driving import FAST
from tests.wire.replies import Call, Turn, error
from tests.wire.server import WireServer

READ = ("read_file", {"path": "greet.py"})


def moves(on: Bench) -> list[tuple[str, str]]:
    return [(one.rung, one.move) for one in on.events if isinstance(one, NextActionChosen)]


async def test_each_decision_of_a_turn_is_logged_in_order(server: WireServer, on: Bench) -> None:
    await on.say("Be less formal", READ, edit())
    assert moves(on) == [
        ("last response", "request"),
        ("last response", "run calls"),
        ("last response", "request"),
        ("last response", "run calls"),
        ("closed gate", "closing request: staged"),
        ("closing request", "stop: staged"),
    ]
    kinds = [one.type for one in on.events if isinstance(one, NextActionChosen | RequestSent | ToolResult)]
    assert kinds[:5] == ["ladder_move", "request_sent", "ladder_move", "tool_result", "ladder_move"]
    facts = [one.facts for one in on.events if isinstance(one, NextActionChosen)][2]
    assert facts == {"last": "results", "steps": 1, "step_limit": 50, "finish_reason": "tool_calls", "repeats": 1}


async def test_a_logged_decision_has_the_time_at_which_it_was_made(server: WireServer, on: Bench) -> None:
    """Not that of the write, for which a command waits until the user has allowed it."""
    asked: list[float] = []

    def answer(update: Update) -> None:
        if isinstance(update, PermissionRequested):
            asked.append(time.time())
            on.session.answer_permission_request(update.key, PermissionAnswer(allowed=False))

    on.session.subscribe(answer)
    await on.say("Run it", ("run_command", {"command": "true"}))
    kept = [one for one in on.runtime.sessions.events(on.session.id) if isinstance(one, NextActionChosen)]
    assert kept[1].move == "run calls" and kept[1].time <= asked[0] <= kept[2].time


async def test_the_trace_writes_and_sends_nothing(
    server: WireServer, on: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[list[str]] = []
    append = on.session.log._sink.append

    async def watched(events: Any, after: int) -> Any:
        written.append([event.type for event in events])
        return await append(events, after)

    made: list[Any] = []
    whole = on.session.context.project

    def counted(*given: Any) -> Any:
        made.append(given)
        return whole(*given)

    monkeypatch.setattr(on.session.log._sink, "append", watched)
    monkeypatch.setattr(on.session.context, "project", counted)
    await on.say("What does it do?", READ)
    assert len(moves(on)) == 4
    assert not [batch for batch in written if set(batch) == {"ladder_move"}]
    assert len(made) == len(server.requests) == 2


async def test_the_debug_file_has_times_but_no_texts(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path, retry=FAST) as on:
        debug = TraceFileWriter(tmp_path / "debug.jsonl")
        on.session.subscribe(debug)
        server.script(
            [
                error(429, "Quota of SECRETPLAN exceeded, slow down"),
                Turn("SECRETANSWER", calls=(Call(*READ),), reasoning="SECRETTHOUGHT"),
                Turn("SECRETEND"),
            ]
        )
        await on.say("SECRETQUESTION about SECRETFILE")
        debug.close()
        text = (tmp_path / "debug.jsonl").read_text()
        lines = [json.loads(line) for line in text.splitlines()]
        assert "SECRET" not in text and "greet" not in text and "Hello" not in text
        kinds = [line["type"] for line in lines]
        assert {"ladder_move", "request_sent", "retry", "first_piece", "assistant_message", "tool_result"} <= {*kinds}
        assert kinds[0] == "turn_started" and kinds[-1] == "turn_ended"
        answered = next(line for line in lines if line["type"] == "assistant_message")
        assert answered["calls"] == ["read_file"] and answered["duration"] >= 0
        assert next(line for line in lines if line["type"] == "retry")["in"] >= 0
        assert all(line["time"] > 1_000_000_000 for line in lines)


async def test_a_repeated_call_is_sent_with_its_count_and_no_trace_is(server: WireServer, on_wire: Bench) -> None:
    await on_wire.say("Look", ("list_files", {}), *[READ] * 5, last="I am stuck.")
    (nudge,) = [text for text in of_role(server.requests[4], "system") if "makes no progress" in text]
    assert "Step 4 of 50." in nudge
    assert 'Called 3 times in this turn: read_file {"path": "greet.py"}.' in nudge
    assert "was step 2: read_file" in nudge
    assert server.last.closing
    closing = server.last.said[-1][1]
    assert "Step 6 of 50." in closing and "Called 5 times" in closing
    assert moves(on_wire)
    body = json.dumps(server.last.body)
    assert "ladder" not in body and "last response" not in body and "run calls" not in body


async def test_at_the_step_limit_the_model_is_told_its_last_new_step(server: WireServer, on_wire: Bench) -> None:
    on_wire.session.settings = replace(on_wire.session.settings, max_steps=3)
    await on_wire.say("Look", READ, ("read_file", {"path": "none.py"}), ("read_file", {"path": "nothing.py"}))
    closing = server.last.said[-1][1]
    assert server.last.closing and "step limit" in closing and "Step 3 of 3." in closing
    assert 'The last step that brought anything new was step 1: read_file {"path": "greet.py"}.' in closing
    assert "No call of the last 2 steps succeeded." in closing
