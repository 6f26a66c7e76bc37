"""Side questions on each wire: what goes out, what comes of it, and that the conversation has none of it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from app.agent.updates import SessionFailed, SideAnswerDiscarded, SideAnswerStreamed, TextStreamed
from app.conversation.events import (
    ContentPruned,
    HistoryCompacted,
    ProposalLocation,
    SideAnswer,
    SideQuestion,
    collect_side_exchanges,
)
from app.conversation.markdown_export import format_session_as_markdown
from app.proposals.values.models import Proposal
from app.proposals.values.proposal_errors import ProposalError
from tests.waiting import until
from tests.wire import strict
from tests.wire.bench import FILE, Bench, bench, edit, of_role
from tests.wire.driving import FAST
from tests.wire.endpoints import FAILS_CALLS, IGNORES_TOOL_CHOICE, LEAKS_CALLS
from tests.wire.replies import CUT, STALL, Call, Reply, Turn, chunk, error, stream
from tests.wire.server import Request, WireServer
from tests.wire.test_loop_context import FULL, LONG
from tests.wire.vendors import NOT_THERE

WIRES = ("chat", "anthropic", "responses")
EDIT = Call(*edit(), id="call_edit")
"""Ids of its own: those of the server count its requests, of which a side question is one."""


@pytest.fixture(params=WIRES)
def wire(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@asynccontextmanager
async def opened(
    server: WireServer, folder: Path, monkeypatch: pytest.MonkeyPatch, wire: str = "chat", **settings: Any
) -> AsyncIterator[Bench]:
    """A session below a folder of its own; all that it sent was valid."""
    folder.mkdir(exist_ok=True)
    monkeypatch.setenv("SIGNOFF_HOME", str(folder / "home"))
    server.wires = {name: None if name == wire else NOT_THERE for name in WIRES}
    async with bench(server, folder, wire=wire, retry=FAST, **settings) as on:
        yield on
        on.check()


async def stage(on: Bench) -> Proposal:
    await on.say("Be less formal", EDIT, last="Have a look.")
    return on.runtime.service.pending()[-1]


def place_of(proposal: Proposal) -> ProposalLocation:
    change = proposal.files[0]
    return ProposalLocation(proposal.id, change.path, change.hunks[0].id)


async def ask(on: Bench, proposal: Proposal, text: str, picked: str = "") -> SideAnswer:
    uid = await on.session.side_questions.ask(place_of(proposal), text, picked)
    await on.session.side_questions.wait_until_idle()
    return next(event for event in on.events if isinstance(event, SideAnswer) and event.question == uid)


def asked_aside(request: Request) -> bool:
    return any(text.startswith("Side question.") or "\n\nSide question." in text for _, text in request.said)


def whole(requests: list[Request]) -> list[str]:
    return [json.dumps(request.body) for request in requests if not asked_aside(request)]


async def test_a_side_question_sends_tools_and_history_but_runs_no_calls(server: WireServer, on_wire: Bench) -> None:
    proposal = await stage(on_wire)
    before, spent = server.last, on_wire.session.token_totals.total
    server.say("Nothing *calls* it.", prompt_tokens=900, completion_tokens=30)
    answer = await ask(on_wire, proposal, "what calls this?", "+    return 'Hi ' + name")
    sent = server.last
    assert sent.closing and sent.body["tools"] == before.body["tools"]
    assert sent.body.get("system") == before.body.get("system")
    notes = [text for role, text in sent.said if role == "system" and text.startswith("Side question.")]
    (note,) = notes
    assert "P1" in note and "Do not call tools" in note and "awaits the user's decision" in note
    assert "-    return 'Hello ' + name\n+    return 'Hi ' + name" in note and "1  def greet(name):" in note
    assert of_role(sent, "user")[-1] == "what calls this?"
    assert [role for role, _ in sent.said[-2:]] in (["system", "user"], ["user", "system"])
    assert [text for role, text in sent.said if role == "assistant"] == ["Have a look."]
    assert (answer.text, answer.state, answer.note) == ("Nothing *calls* it.", "complete", "")
    assert answer.usage is not None and answer.usage.prompt_tokens >= 900
    assert on_wire.session.token_totals.total == spent.add(answer.usage)
    assert on_wire.session.gate.is_closed and on_wire.file == FILE
    assert (
        on_wire.session.requests.last_sent is not None
        and on_wire.session.requests.last_sent.payload.tool_choice == "none"
    )


async def test_a_side_question_does_not_change_the_next_requests(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wire: str
) -> None:
    async def story(folder: str, *replies: Turn | Reply) -> list[str]:
        server.requests.clear()
        async with opened(server, tmp_path / folder, monkeypatch, wire) as on:
            server.behave(IGNORES_TOOL_CHOICE)
            proposal = await stage(on)
            profile = on.session.ports.model.profile
            for number, reply in enumerate(replies):
                server.script([reply])
                await ask(on, proposal, f"why {number}?")
            assert on.session.ports.model.profile == profile and on.session.gate.is_closed
            server.say("I see.")
            await on.settled(on.session.deny(proposal.id, feedback="Keep the old word."))
            await on.say("Go on", last="Fine.")
            assert sum(map(asked_aside, server.requests)) == len(replies), "each went out once"
            return whole(server.requests)

    replies: tuple[Turn | Reply, ...] = (
        Turn("Because it is friendlier."),
        Turn("Let me look.", calls=(Call("read_file", {"path": "greet.py"}),)),
        error(500, "Oops"),
        error(429, "Slow down", headers={"retry-after": "1"}),
        Turn(""),
    )
    assert await story("with", *replies) == await story("without")


async def test_a_follow_up_contains_the_earlier_questions_on_that_hunk(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wire: str
) -> None:
    async with opened(server, tmp_path / "a", monkeypatch, wire) as on:
        proposal = await stage(on)
        server.say("It greets.")
        await ask(on, proposal, "what is it?")
    async with bench(server, tmp_path / "a", wire=wire, retry=FAST) as later:
        server.say("Nobody.")
        await ask(later, proposal, "who calls it?")
        said = server.last.said
        assert [text for role, text in said if role == "user"][-2:] == ["what is it?", "who calls it?"]
        assert [text for role, text in said if role == "assistant"][-1] == "It greets."
        later.check()
        again = collect_side_exchanges(later.runtime.sessions.side_questions(proposal.id))
        assert [(one.question.text, one.answer_text) for one in again] == [
            ("what is it?", "It greets."),
            ("who calls it?", "Nobody."),
        ]
        record = format_session_as_markdown("t", "m", later.events, {})
        assert "who calls it?" in record and "Nobody." in record and "hunk 1 of P1 in greet.py" in record
        fork = later.runtime.sessions.fork(later.session.id)
        assert len(collect_side_exchanges(later.runtime.sessions.side_questions(proposal.id))) == 2, fork.id


@pytest.mark.parametrize(
    ("reply", "state", "said"),
    [
        (Turn("Look.", calls=(Call("read_file", {"path": "greet.py"}),)), "complete", "was not run"),
        (Turn("", calls=(EDIT,)), "failed", "nothing was run"),
        (error(429, "Slow down", headers={"retry-after": "30"}), "failed", "limits the rate"),
        (error(500, "Oops"), "failed", "Ask again"),
        (error(400, "No such thing as this"), "failed", "refuses the request"),
        (Turn(""), "failed", "Ask again"),
        (stream(chunk("Half an"), CUT), "failed", "Ask again"),
    ],
    ids=["text-and-call", "call", "429", "500", "400", "empty", "cut"],
)
async def test_a_failed_side_question_is_reported_in_one_line_and_not_retried(
    server: WireServer, on: Bench, reply: Turn | Reply, state: str, said: str
) -> None:
    proposal = await stage(on)
    server.behave(IGNORES_TOOL_CHOICE)
    before = len(server.requests)
    server.script([reply])
    answer = await ask(on, proposal, "why?")
    assert (answer.state, len(server.requests) - before) == (state, 1)
    assert said in answer.note and "\n" not in answer.note
    assert on.file == FILE and on.session.gate.is_closed and not on.session.is_busy
    assert [one.id for one in on.runtime.service.all()] == ["P1"]
    server.say("Because.")
    assert (await ask(on, proposal, "why?")).text == "Because."
    assert of_role(server.last, "user")[-1] == "why?"


async def test_a_call_in_a_side_answer_is_refused_or_removed_as_text(server: WireServer, on: Bench) -> None:
    proposal = await stage(on)
    server.behave(FAILS_CALLS)
    server.turn(calls=[EDIT])
    answer = await ask(on, proposal, "why?")
    assert answer.state == "failed" and "called a tool instead" in answer.note
    server.behave(LEAKS_CALLS)
    server.turn("Let me see. ", calls=[EDIT])
    answer = await ask(on, proposal, "why?")
    assert answer.text.strip() == "Let me see." and "tool_call" not in answer.text
    assert [one.id for one in on.runtime.service.all()] == ["P1"]


async def test_a_refused_side_question_does_not_change_the_profile(server: WireServer, on_wire: Bench) -> None:
    """Also before the conversation has begun, on a patch that no model of ours has made."""
    patch = "--- a/greet.py\n+++ b/greet.py\n@@ -1,2 +1,2 @@\n def greet(name):\n" + (
        "-    return 'Hello ' + name\n+    return 'Hi ' + name\n"
    )
    server.mid_system = False
    proposal = on_wire.runtime.service.stage_patch(patch)
    profile, learned = on_wire.session.ports.model.profile, on_wire.runtime.sessions.setting
    server.always(Turn("It greets."))
    if profile.wire == "chat":
        server.insist(strict.qwen)
    answer = await ask(on_wire, proposal, "what is it?")
    assert (answer.text, answer.state) == ("It greets.", "complete"), answer.note
    assert any("Side question." in text for role, text in server.last.said if role == "system")
    assert on_wire.session.ports.model.profile == profile
    url = on_wire.session.ports.model.endpoint.base_url
    assert learned(f"profile:{url}|test-model", shared=True) is None
    server.requests.clear()


async def test_the_context_of_a_side_question_is_cut_before_its_history(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(server, tmp_path / "a", monkeypatch, context_window=12_000) as on:
        (on.root / "long.txt").write_text(LONG)
        old, new = "line 1000 of a long", "line one thousand of a long"
        server.turn(calls=[("edit_file", {"path": "long.txt", "edits": [{"old": old, "new": new}]})], prompt_tokens=0)
        server.say("Have a look.", prompt_tokens=0)
        await on.say("Spell it")
        proposal = on.runtime.service.pending()[-1]
        server.always(Turn("Because.", prompt_tokens=0))
        sizes = []
        for _ in range(12):
            assert (await ask(on, proposal, "why?")).text == "Because."
            sizes.append(server.last.said)
            server.say("There is no more.", prompt_tokens=0)
            await on.say("Say more. " + "Words. " * 400)
        assert all("+line one thousand of a long" in str(said) for said in sizes)
        assert {"line 900 of a long file" in str(said) for said in sizes} == {True, False}
        whole = [str(said).count("There is no more.") for said in sizes[:8]]
        assert whole == list(range(8)), "history is left out last"
        assert all(len(str(request.body)) < 12_000 * 4 for request in server.requests)


async def test_an_overflow_repeats_a_side_question_with_less_context(server: WireServer, on: Bench) -> None:
    for number in range(8):
        await on.say(f"Question {number}?", last=f"Answer {number}. " + "Words. " * 300)
    proposal = await stage(on)
    before = len(server.requests)
    server.script([FULL, Turn("Because.")])
    answer = await ask(on, proposal, "why?")
    assert answer.text == "Because." and len(server.requests) == before + 2
    first, second = server.requests[-2:]
    assert len(str(second.body)) < 0.8 * len(str(first.body))
    assert not [event for event in on.events if isinstance(event, ContentPruned | HistoryCompacted)]
    server.script([FULL, FULL])
    answer = await ask(on, proposal, "and now?")
    assert answer.state == "failed" and answer.note and len(server.requests) == before + 4


async def test_a_side_question_does_not_change_compaction(
    server: WireServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wire: str
) -> None:
    async def story(folder: str, *, aside: bool) -> list[str]:
        server.requests.clear()
        server.model(lambda request: _teller(request))
        async with opened(server, tmp_path / folder, monkeypatch, wire, context_window=9_000) as on:
            await on.say("Be less formal")
            proposal = on.runtime.service.pending()[-1]
            for number in range(6):
                if aside:
                    await ask(on, proposal, f"why {number}?")
                await on.say(f"Say more {number}. " + "Words. " * 600)
            assert any(isinstance(event, HistoryCompacted) for event in on.events)
            return whole(server.requests)

    assert await story("with", aside=True) == await story("without", aside=False)


def _teller(request: Request) -> Turn:
    size = len(str(request.body)) // 4
    if asked_aside(request):
        return Turn("Aside, " * 300, prompt_tokens=size)
    edited = any(role == "tool" for role, _ in request.said) or request.closing
    if not edited and "Be less formal" in of_role(request, "user")[-1]:
        return Turn(calls=(EDIT,), prompt_tokens=size)
    return Turn("More. " + "Answer. " * 200, prompt_tokens=size)


async def test_a_side_question_runs_during_a_turn(server: WireServer, on: Bench) -> None:
    proposal = await stage(on)
    server.model(lambda request: stream(chunk("So far"), STALL))
    turn = asyncio.create_task(on.say("Tell me a story"))
    await until(lambda: any(isinstance(one, TextStreamed) and one.text == "So far" for one in on.updates))
    uid = await on.session.side_questions.ask(place_of(proposal), "why?")
    await until(lambda: any(isinstance(one, SideAnswerStreamed) for one in on.updates))
    with pytest.raises(ProposalError, match="still being written"):
        await on.session.side_questions.ask(place_of(proposal), "again?")
    assert on.session.side_questions.stop(uid)
    await on.session.side_questions.wait_until_idle()
    assert on.session.is_busy, "the turn goes on"
    answer = next(event for event in on.events if isinstance(event, SideAnswer))
    assert (answer.state, answer.text) == ("interrupted", "So far")
    await on.session.side_questions.ask(place_of(proposal), "why then?")
    await until(lambda: sum(isinstance(one, SideAnswerStreamed) for one in on.updates) == 2)
    on.session.interrupt()
    await turn
    assert on.stopped == "aborted" and on.session.side_questions.is_answer_awaited(place_of(proposal))
    await on.session.close()
    assert not on.session.side_questions.is_answer_awaited(place_of(proposal)), (
        "what is out ends with the session, and is recorded"
    )
    assert [event.state for event in on.events if isinstance(event, SideAnswer)] == ["interrupted", "interrupted"]


async def test_a_side_question_leaves_running_calls_alone(server: WireServer, on: Bench) -> None:
    proposal = await stage(on)
    server.turn("Running.", calls=[("run_command", {"command": "sleep 60"})])
    turn = asyncio.create_task(on.say("Run it"))
    await until(lambda: bool(on.session.permission_requests.open_requests))
    server.say("Because.")
    await ask(on, proposal, "why?")
    assert "Running." not in str(server.last.body) and "program ended" not in str(server.last.body)
    assert on.session.permission_requests.open_requests, "it still asks"
    on.session.interrupt()
    await turn


async def test_a_side_question_sends_no_secrets(server: WireServer, on: Bench) -> None:
    patch = "--- a/.env\n+++ b/.env\n@@ -1,2 +1,2 @@\n KEEP=hunter2\n-MODE=a\n+MODE=b\n"
    (on.root / ".env").write_text("KEEP=hunter2\nMODE=a\n")
    proposal = on.runtime.service.stage_patch(patch)
    with pytest.raises(ProposalError, match="looks like a secret"):
        await on.session.side_questions.ask(place_of(proposal), "what is it?")
    assert not server.requests and not [one for one in on.events if isinstance(one, SideQuestion)]
    assert not on.session.side_questions.is_answer_awaited(place_of(proposal))


async def test_a_side_question_can_be_about_a_file_or_a_lost_hunk(
    server: WireServer, on: Bench, tmp_path: Path
) -> None:
    place = place_of(await stage(on))
    server.always(Turn("Because."))
    for hunk, words in (("", "is about greet.py as a whole (edit)"), ("gone", "it is no more as it was")):
        await on.session.side_questions.ask(place._replace(hunk=hunk), "why?")
        await on.session.side_questions.wait_until_idle()
        assert words in str(server.last.said)
    with pytest.raises(ProposalError, match=r"other\.py is not in P1 any more"):
        await on.session.side_questions.ask(place._replace(path="other.py"), "why?")
    assert not on.session.side_questions.stop("no question")
    (tmp_path / "elsewhere.py").write_text("outside of the workspace\n")
    proposal = on.runtime.service.stage_patch("--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+a = 1\n")
    (on.root / "new.py").symlink_to(tmp_path / "elsewhere.py")
    assert (await ask(on, proposal, "why?")).text == "Because."
    assert "outside of the workspace" not in str(server.last.body)


async def test_an_answer_that_cannot_be_stored_is_discarded(server: WireServer, on: Bench) -> None:
    place = place_of(await stage(on))

    def lose(request: Request) -> Turn:
        with on.runtime.database.transaction() as connection:
            connection.execute("ALTER TABLE events RENAME TO lost")
        return Turn("Because.")

    server.model(lose)
    uid = await on.session.side_questions.ask(place, "why?")
    await on.session.side_questions.wait_until_idle()
    assert SideAnswerDiscarded(uid, over=True) in on.updates
    (failed,) = [update.message for update in on.updates if isinstance(update, SessionFailed)]
    assert "could not be kept" in failed and not on.session.side_questions.is_answer_awaited(place)


async def test_a_following_window_can_ask_a_side_question(server: WireServer, tmp_path: Path, on: Bench) -> None:
    proposal = await stage(on)
    async with bench(server, tmp_path, retry=FAST) as other:
        assert other.session.is_follower
        server.say("Because.")
        assert (await ask(other, proposal, "why?")).text == "Because."
        assert len(server.last.said) == len(server.requests[-2].said) + 2, "the same conversation, and the question"
    await on.session.load_external_events()
    assert [one.answer_text for one in collect_side_exchanges(on.events)] == ["Because."]
    assert on.session.gate.is_closed and not on.session.is_busy
