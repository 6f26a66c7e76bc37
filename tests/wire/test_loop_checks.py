"""Checks that answer the staging step: what the model is told, once, and that the gate is as closed as ever."""

import asyncio
from pathlib import Path

import pytest

from app.agent.updates import EventRecorded, Update
from app.config.settings import CheckTable
from app.conversation.events import (
    CallOutcome,
    ProposalStaged,
    Question,
    ToolResult,
    TurnEnded,
    TurnStarted,
    UserAnswer,
)
from app.proposals.decide.workspace_versions import FilesToCheckBeforeAndAfter
from app.proposals.values.attention_reason import ReasonKind
from app.proposals.values.models import ProposalState
from tests.ui.test_app_checks import TABLE, facts, prepared
from tests.unit.tools.processes import new_mark, running
from tests.waiting import until
from tests.wire.bench import Bench, bench, edit, of_role
from tests.wire.replies import Call, Turn
from tests.wire.server import WireServer


@pytest.mark.layer
async def test_a_failed_check_is_sent_once_and_keeps_the_gate_closed(server: WireServer, tmp_path: Path) -> None:
    root = prepared(tmp_path, TABLE + "feed = true\n")
    before = facts(root)
    async with bench(server, tmp_path) as on:
        await on.say("Change it", edit())
        closing = server.last
        (told,) = of_role(closing, "tool")
        assert "greet.py:2: says Hi" in told and "1 failed, 0 before" in told and '"staged"' in told
        assert closing.body["tool_choice"] == "none"
        assert not [text for role in ("system", "user") for text in of_role(closing, role) if "says Hi" in text]
        results = [event for event in on.events if isinstance(event, ToolResult)]
        assert [result.outcome for result in results] == [CallOutcome.STAGED]
        assert on.session.gate.is_closed
        assert len(server.requests) == 2
        assert sum(isinstance(event, ProposalStaged) for event in on.events) == 1
        assert [one.state for one in on.runtime.service.all()] == [ProposalState.PENDING]
        assert facts(root) == before
        on.check()


@pytest.mark.parametrize("tables", [TABLE, TABLE + 'feed = true\nwhen = "asked"\n', ""])
async def test_checks_without_feed_or_trust_send_the_model_nothing(
    server: WireServer, tmp_path: Path, tables: str
) -> None:
    seen = tmp_path / "ran"
    if tables:
        prepared(tmp_path, tables)
    else:
        prepared(tmp_path, TABLE + "feed = true\n", f"echo > {seen}; exit 1", trusted=False)
    async with bench(server, tmp_path) as on:
        await on.say("Change it", edit())
        assert "says Hi" not in str(server.last.messages) and not seen.exists()


@pytest.mark.layer
async def test_an_answer_during_the_checks_waits_for_them(server: WireServer, tmp_path: Path) -> None:
    prepared(tmp_path, TABLE + "feed = true\n")
    async with bench(server, tmp_path) as on:
        early: list[asyncio.Task[None]] = []

        def answer(update: Update) -> None:
            if isinstance(update, EventRecorded) and isinstance(update.event, Question):
                early.append(asyncio.create_task(on.session.answer("Both")))

        on.session.subscribe(answer)
        await on.say("Change it", [edit(), ("ask_user", {"question": "Which?"})])
        await asyncio.gather(*early)
        await on.session.wait_until_idle()
        kinds = (ToolResult, UserAnswer, TurnStarted, TurnEnded)
        found = [type(event) for event in on.events if isinstance(event, kinds)]
        assert found == [TurnStarted, ToolResult, TurnEnded, TurnStarted, UserAnswer, TurnEnded]
        on.check()


@pytest.mark.layer
async def test_escape_ends_the_check_and_keeps_the_edit(server: WireServer, tmp_path: Path) -> None:
    mark = new_mark()
    prepared(tmp_path, TABLE + "feed = true\n", f"setsid sleep {mark} & sleep {mark}")
    async with bench(server, tmp_path) as on:
        server.turn(calls=[edit()])
        await on.session.send("Change it")
        await until(lambda: running(mark), "the check")
        on.session.interrupt()
        await on.session.wait_until_idle()
        assert not running(mark)
        assert [one.state for one in on.runtime.service.all()] == [ProposalState.PENDING]
        await on.say("Go on", last="Stopped.")
        on.check()


@pytest.mark.layer
async def test_a_step_waits_briefly_for_a_check_of_the_user(server: WireServer, tmp_path: Path) -> None:
    mark = new_mark()
    prepared(tmp_path, TABLE + "feed = true\nseconds = 0.1\n")
    async with bench(server, tmp_path) as on:
        hangs = CheckTable(name="hangs", run=f"sleep {mark}", seconds=600)
        asked = asyncio.create_task(on.runtime.checks.run_check(hangs, FilesToCheckBeforeAndAfter({}, {}, (), ())))
        await until(lambda: running(mark), "the check")
        await on.say("Change it", edit())
        assert running(mark) and "says Hi" not in str(server.last.messages)
        asked.cancel()
        await asyncio.wait({asked})


RUNS = "import os\n\n\ndef say(text):\n    os.system(text)\n"


@pytest.mark.parametrize(("asked", "unasked"), [("Greet by greet.py", ["say.py"]), ("Greet less formally", [])])
async def test_attention_marks_files_that_the_user_did_not_ask_for(
    server: WireServer, on: Bench, asked: str, unasked: list[str]
) -> None:
    calls = (Call(*edit()), Call("write_file", {"path": "say.py", "content": RUNS}))
    server.model(lambda _: Turn("Done.", calls=calls))
    await on.say(asked)
    stored = on.runtime.proposals.proposal("P1")
    assert stored is not None
    assert [change.path for change in stored.files] == ["greet.py", "say.py"], "its files stay by path"
    assert stored.order == ("say.py", "greet.py")
    assert [each.path for each in stored.reasons if each.kind is ReasonKind.UNASKED] == unasked
    assert "adds os.system, which runs code" in [reason.description for reason in stored.reasons]
    diff = on.runtime.service.unified_diff("P1")
    assert diff.index("b/greet.py") < diff.index("b/say.py"), "a patch is by path"
    edited = on.runtime.service.replace_proposed_text("P1", "say.py", "def say(text):\n    print(text)\n")
    kinds = [reason.kind for reason in edited.reasons if reason.path == "say.py"]
    assert kinds == [ReasonKind.UNASKED] * len(unasked)
    assert edited.order == stored.order, "nothing moves under the eye"
