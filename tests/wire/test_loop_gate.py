"""The gate, from recorded requests and files: after a staged edit the model is stopped on every kind of endpoint."""

import json
from pathlib import Path

import pytest

from app.agent.gate import GatePolicy
from app.agent.updates import GateChanged
from app.conversation.events import CallOutcome, ProposalStaged, RequestFailed, ToolResult, UserNotice
from tests.wire import templates
from tests.wire.bench import FILE, Bench, bench, edit, of_role
from tests.wire.endpoints import ENDPOINTS, FAILS_CALLS, IGNORES_TOOL_CHOICE, OBEYS, Behaviour
from tests.wire.replies import Call, Turn
from tests.wire.server import Request, WireServer


def eager(server: WireServer, limit: int = 10) -> None:
    """A model that calls an edit tool whenever it is asked, each time another edit."""
    names = iter(f"'Hello {number} '" for number in range(limit))
    current = ["'Hello '"]

    def model(_: object) -> Turn:
        old, current[0] = current[0], next(names)
        return Turn("Editing.", calls=(Call(*edit(old, current[0])),))

    server.model(model)


async def test_the_closing_request_has_tool_choice_none_and_a_decision_opens_the_gate(
    server: WireServer, on: Bench
) -> None:
    eager(server)
    await on.say("Be less formal")
    first, closing = server.requests
    assert closing.body["tool_choice"] == "none"
    assert "tool_choice" not in first.body
    assert closing.body["tools"] == first.body["tools"]
    assert [message["role"] for message in closing.messages][-2:] == ["tool", "system"]
    instruction = str(closing.messages[-1]["content"])
    assert "P1" in instruction and "Do not call tools" in instruction
    result = of_role(closing, "tool")[-1]
    assert "staged" in result and "P1" in result and '"applied": false' in result.replace('":false', '": false')
    assert on.stopped == "staged"
    assert on.file == FILE
    on.check()
    assert on.session.gate.is_closed
    await on.session.approve("P1")
    assert not on.session.gate.is_closed
    assert [update.closed for update in on.updates if isinstance(update, GateChanged)] == [True, False]


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
    assert len(server.requests) == 2
    refused = [event for event in on.events if isinstance(event, ToolResult) and event.outcome is CallOutcome.REFUSED]
    assert len(refused) == 1
    assert on.stopped == "refused"
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
        refused = [
            event for event in on.events if isinstance(event, ToolResult) and event.outcome is CallOutcome.REFUSED
        ]
        assert len(refused) == 1 and "staged" not in refused[0].text
        server.say("Right.")
        server.always(Turn("Right."))
        await on.say("Go on")
        assert of_role(server.last, "tool")[-1] == refused[0].text
        assert not any("staged" in text for text in of_role(server.last, "system")[1:])


async def test_the_closing_instruction_is_in_one_request_only(server: WireServer, on: Bench) -> None:
    server.turn(calls=[edit()])
    server.say("Done, have a look.")
    server.say("You are welcome.")
    await on.say("Be less formal")
    await on.say("Thanks")
    after = server.requests[-1]
    assert "tool_choice" not in after.body
    assert not any("Do not call tools" in text for text in of_role(after, "system")[1:])
    assert sum("P1" in text and "await" in text for text in of_role(after, "system")) == 1


async def test_the_chain_policy_closes_the_gate_after_its_steps(server: WireServer, tmp_path: Path) -> None:
    server.behave(OBEYS)
    eager(server)
    async with bench(server, tmp_path, gate="chain", chain_steps=3) as on:
        await on.say("Be less formal")
        assert [request.closing for request in server.requests] == [False, False, False, True]
        assert len([event for event in on.events if isinstance(event, ProposalStaged)]) == 3
        assert "P1, P2, P3" in str(server.last.messages[-1]["content"])
        assert on.file == FILE


async def test_a_changed_gate_policy_is_in_prompt_and_results(server: WireServer, on: Bench) -> None:
    await on.say("Hello", last="Hello.")
    assert "Once an edit is staged, stop" in of_role(server.last, "system")[0]
    on.session.set_gate_policy(GatePolicy("chain", 2))
    eager(server)
    await on.say("Be less formal")
    assert "up to 2 steps" in of_role(server.last, "system")[0]
    said = [json.loads(text)["next"] for text in of_role(server.last, "tool")]
    assert len(said) == 2
    assert "one more step" in said[0] and "hand control back" in said[0]
    assert said[1] == "awaiting approval; do not call tools; hand control back"


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


@pytest.mark.parametrize("status", [400, 500])
@pytest.mark.parametrize("template", templates.TEMPLATES, ids=lambda template: template.__name__)
async def test_the_closing_instruction_reaches_the_model_through_every_template(
    server: WireServer, on: Bench, template: templates.Template, status: int
) -> None:
    """A model that hands back once it reads that it should, and calls on where it does not: soon it reads it."""
    server.behave(IGNORES_TOOL_CHOICE)
    server.insist(templates.refusal(template, status))
    names = iter(f"'Hello {number} '" for number in range(20))
    current = ["'Hello '"]

    def model(request: Request) -> Turn:
        if GATE in template(request.messages):
            return Turn("Have a look.")
        if request.closing:
            return Turn(calls=(Call("read_file", {"path": "greet.py"}),))
        old, current[0] = current[0], next(names)
        return Turn(calls=(Call(*edit(old, current[0])),))

    server.model(model)
    ends = []
    for _ in range(3):
        await on.say("Be less formal")
        ends.append(on.stopped)
    assert ends[-1] == "staged" and GATE in template(server.last.messages)
    assert len([event for event in on.events if isinstance(event, ProposalStaged)]) == 3


async def test_a_model_that_ignores_the_gate_is_not_instructed_in_the_users_name(
    server: WireServer, on: Bench
) -> None:
    """For a month, all that the program said went out in the user's name, the system prompt too."""
    server.behave(IGNORES_TOOL_CHOICE)
    names = iter(f"'Hello {number} '" for number in range(20))
    current = ["'Hello '"]

    def model(request: Request) -> Turn:
        if request.closing:
            return Turn(calls=(Call("read_file", {"path": "greet.py"}),))
        old, current[0] = current[0], next(names)
        return Turn(calls=(Call(*edit(old, current[0])),))

    server.model(model)
    for _ in range(6):
        await on.say("Be less formal")
        assert on.stopped == "refused"
    on.check()
    told = [request for request in server.requests if request.closing]
    places = ["user" if any(GATE in text for text in of_role(one, "user")) else "system" for one in told]
    assert places == ["system", "system", "user", "system", "system", "system"]
    assert on.session.ports.model.profile.mid_system == "inline"
    assert told[-1].said[-1][0] == "system" and GATE in told[-1].said[-1][1]
