"""The gate, from recorded requests and files: after a staged edit the model is stopped on every kind of endpoint."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from app.agent.gate import GateClosingPolicy
from app.agent.updates import GateOpenedOrClosed
from app.conversation.events import CallOutcome, ProposalStaged, RequestFailed, ToolResult, UserNotice
from tests.wire import templates
from tests.wire.bench import FILE, Bench, bench, edit, of_role
from tests.wire.endpoints import ENDPOINTS, FAILS_CALLS, IGNORES_TOOL_CHOICE, Behaviour
from tests.wire.replies import Call, Turn
from tests.wire.server import Request, WireServer


def eager(server: WireServer, closing: Callable[[Request], Turn | None] = lambda request: None) -> None:
    """A model that calls an edit tool whenever it is asked, each time another edit, but where it says this."""
    numbers = itertools.count()
    current = ["'Hello '"]

    def model(request: Request) -> Turn:
        if (turn := closing(request)) is not None:
            return turn
        old, current[0] = current[0], f"'Hello {next(numbers)} '"
        return Turn("Editing.", calls=(Call(*edit(old, current[0])),))

    server.model(model)


def refused(on: Bench) -> list[ToolResult]:
    return [event for event in on.events if isinstance(event, ToolResult) and event.outcome is CallOutcome.REFUSED]


async def test_the_closing_request_allows_no_calls_and_a_decision_opens_the_gate(
    server: WireServer, on: Bench
) -> None:
    await on.say("Be less formal", edit())
    first, closing = server.requests
    assert closing.body["tool_choice"] == "none"
    assert "tool_choice" not in first.body
    assert closing.body["tools"] == first.body["tools"]
    assert [message["role"] for message in closing.messages][-2:] == ["tool", "system"]
    instruction = str(closing.messages[-1]["content"])
    assert "P1" in instruction and "Do not call tools" in instruction
    result = of_role(closing, "tool")[-1]
    assert "staged" in result and "P1" in result and '"applied": false' in result.replace('":false', '": false')
    assert (on.stopped, on.file, on.session.gate.is_closed) == ("staged", FILE, True)
    await on.say("Thanks", last="You are welcome.")
    assert "tool_choice" not in server.last.body
    told = of_role(server.last, "system")[1:]
    assert not any("Do not call tools" in text for text in told), "the instruction is in one request only"
    assert sum("P1" in text and "await" in text for text in told) == 1
    await on.session.approve("P1")
    assert not on.session.gate.is_closed
    assert [update.closed for update in on.updates if isinstance(update, GateOpenedOrClosed)] == [True, False]


@pytest.mark.parametrize("behaviour", [*ENDPOINTS, FAILS_CALLS], ids=lambda behaviour: behaviour.name)
async def test_the_gate_ends_within_one_request(server: WireServer, tmp_path: Path, behaviour: Behaviour) -> None:
    server.behave(behaviour)
    eager(server)
    async with bench(server, tmp_path) as on:
        await on.say("Be less formal")
        staged = [event for event in on.events if isinstance(event, ProposalStaged)]
        assert len(staged) == 1
        assert on.file == FILE
        assert not on.session.is_busy
        assert on.stopped in ("staged", "refused")
        assert on.session.gate.is_closed
        answered = [request for request in server.requests if request.closing or request.number > 0]
        # A refused placement is corrected and sent again at once, and a failure is retried once; the model is
        # let speak at most once.
        assert 1 <= len(answered) <= 3


async def test_calls_under_a_closed_gate_never_run(server: WireServer, on: Bench) -> None:
    server.behave(IGNORES_TOOL_CHOICE)
    eager(server)
    await on.say("Be less formal")
    assert (len(server.requests), len(refused(on)), on.stopped) == (2, 1, "refused")
    assert [proposal.id for proposal in on.runtime.service.pending()] == ["P1"]


async def test_a_call_refused_by_the_endpoint_ends_the_turn_as_staged(server: WireServer, on: Bench) -> None:
    server.behave(FAILS_CALLS)
    eager(server)
    await on.say("Be less formal")
    assert on.stopped == "staged"
    assert not any(isinstance(event, RequestFailed) for event in on.events)
    (notice,) = [event.text for event in on.events if isinstance(event, UserNotice)]
    assert notice == "The model called a tool although it was told to stop; the server refused the call."
    assert [request.closing for request in server.requests] == [False, True]


async def test_the_result_of_a_call_after_the_step_limit_mentions_no_edit(server: WireServer, tmp_path: Path) -> None:
    server.behave(IGNORES_TOOL_CHOICE)
    server.always(Turn(calls=(Call("read_file", {"path": "greet.py"}),)))
    async with bench(server, tmp_path, max_steps=1) as on:
        await on.say("Look around")
        (result,) = refused(on)
        assert "staged" not in result.text
        server.always(Turn("Right."))
        await on.say("Go on", last="Right.")
        assert of_role(server.last, "tool")[-1] == result.text
        assert not any("staged" in text for text in of_role(server.last, "system")[1:])


async def test_a_gate_policy_is_in_the_prompt_and_closes_after_its_steps(server: WireServer, on: Bench) -> None:
    await on.say("Hello", last="Hello.")
    assert "Once an edit is staged, stop" in of_role(server.last, "system")[0]
    on.session.set_gate_policy(GateClosingPolicy("chain", 3))
    eager(server)
    await on.say("Be less formal")
    assert [request.closing for request in server.requests] == [False, False, False, False, True]
    assert len([event for event in on.events if isinstance(event, ProposalStaged)]) == 3
    assert "P1, P2, P3" in str(server.last.messages[-1]["content"])
    assert on.file == FILE
    assert "up to 3 steps" in of_role(server.last, "system")[0]
    *_, second, last = [json.loads(text)["next"] for text in of_role(server.last, "tool")]
    assert "one more step" in second and "hand control back" in second
    assert last == "awaiting approval; do not call tools; hand control back"


async def test_all_edits_of_one_response_are_one_proposal(server: WireServer, on: Bench) -> None:
    server.turn(
        calls=[
            edit(),
            ("write_file", {"path": "new.py", "content": "x = 1\n"}),
            ("delete_file", {"path": "missing.py"}),
        ]
    )
    await on.say("Change things", last="Have a look.")
    (proposal,) = on.runtime.service.pending()
    assert sorted(change.path for change in proposal.files) == ["greet.py", "new.py"]
    outcomes = [event.outcome for event in on.events if isinstance(event, ToolResult)]
    assert sorted(outcomes) == [CallOutcome.ERROR, CallOutcome.STAGED, CallOutcome.STAGED]
    assert not (on.root / "new.py").exists()
    await on.session.approve(proposal.id)
    assert on.file == FILE.replace("Hello", "Hi")
    assert (on.root / "new.py").read_text() == "x = 1\n"


GATE = "awaiting approval by the user"
READ = Turn(calls=(Call("read_file", {"path": "greet.py"}),))


@pytest.mark.parametrize(("template", "status"), templates.REFUSALS)
async def test_the_closing_instruction_reaches_the_model_through_every_template(
    server: WireServer, on: Bench, template: templates.Template, status: int
) -> None:
    """A model that hands back once it reads that it should, and calls on where it does not: soon it reads it."""
    server.behave(IGNORES_TOOL_CHOICE)
    server.insist(templates.refusal(template, status))

    def closing(request: Request) -> Turn | None:
        return Turn("Have a look.") if GATE in template(request.messages) else READ if request.closing else None

    eager(server, closing)
    ends = []
    for _ in range(3):
        await on.say("Be less formal")
        ends.append(on.stopped)
    assert ends[-1] == "staged" and GATE in template(server.last.messages)
    assert len([event for event in on.events if isinstance(event, ProposalStaged)]) == 3


async def test_a_model_that_ignores_the_gate_gets_no_words_of_the_users(server: WireServer, on: Bench) -> None:
    """For a month, all that the program said went out in the user's name, the system prompt too."""
    server.behave(IGNORES_TOOL_CHOICE)
    eager(server, lambda request: READ if request.closing else None)
    for _ in range(6):
        await on.say("Be less formal")
        assert on.stopped == "refused"
    told = [request for request in server.requests if request.closing]
    places = ["user" if any(GATE in text for text in of_role(one, "user")) else "system" for one in told]
    assert places == ["system", "system", "user", "system", "system", "system"]
    assert on.session.ports.model.profile.mid_system == "inline"
    assert told[-1].said[-1][0] == "system" and GATE in told[-1].said[-1][1]
