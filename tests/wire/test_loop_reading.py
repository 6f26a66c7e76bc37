"""The reading budget and signoff's own model: its next edit is refused, and the gate closes until the user acts."""

from pathlib import Path

from app.agent.gate import GateClosingPolicy
from app.agent.updates import GateOpenedOrClosed
from app.conversation.events import CallOutcome, Intervention, InterventionKind, ProposalStaged, ToolResult
from tests.wire.bench import FILE, Bench, bench, edit, of_role
from tests.wire.replies import Call, Turn
from tests.wire.server import WireServer

SENTENCE = "The reviewer has 30 lines to read"


def fill(on: Bench) -> str:
    """Another agent has staged a file of 30 lines; the proposal's id."""
    draft = on.runtime.service.new_draft("")
    draft.write("full.txt", "".join(f"line {number}\n" for number in range(30)))
    return on.runtime.service.stage(draft, "").id


async def test_a_full_reading_budget_refuses_an_edit_and_ends_the_turn(server: WireServer, tmp_path: Path) -> None:
    server.script(
        [
            Turn(calls=(Call("read_file", {"path": "greet.py"}), Call(*edit()), Call(*edit()))),
            Turn("I would greet less formally."),
        ]
    )
    async with bench(server, tmp_path, reading={"unseen_lines": 20}) as on:
        name = fill(on)
        await on.say("Be less formal")
        first, closing = server.requests
        assert closing.body["tool_choice"] == "none" and closing.body["tools"] == first.body["tools"]
        assert [message["role"] for message in closing.messages][-4:] == ["tool", "tool", "tool", "system"]
        assert SENTENCE in of_role(closing, "system")[-1] and "Stop here" in of_role(closing, "system")[-1]
        assert not any("reviewer" in text for text in of_role(closing, "user"))
        assert all(f"{SENTENCE}; stop here, or wait." in text for text in of_role(closing, "tool")[-2:])
        outcomes = [event.outcome for event in on.events if isinstance(event, ToolResult)]
        assert outcomes == [CallOutcome.OK, CallOutcome.REFUSED, CallOutcome.REFUSED]
        assert (on.stopped, on.session.gate.is_closed, on.file) == ("refused", True, FILE)
        assert not any(isinstance(event, ProposalStaged) for event in on.events)
        # The user decides on what waits, and goes on.
        await on.session.deny(name)
        assert not on.session.gate.is_closed and on.updates.count(GateOpenedOrClosed(False)) == 1
        server.script([Turn(calls=(Call(*edit()),)), Turn("Done.")])
        await on.say("Go on")
        assert on.stopped == "staged"
        on.check()


async def test_a_budget_filled_by_another_agent_refuses_the_whole_step(server: WireServer, tmp_path: Path) -> None:
    async with bench(server, tmp_path, reading={"unseen_lines": 20}) as on:
        stage = on.runtime.service.stage

        def filled(*arguments: object) -> object:
            on.runtime.service.stage = stage  # type: ignore[method-assign]
            fill(on)
            return stage(*arguments)  # type: ignore[arg-type]

        on.runtime.service.stage = filled  # type: ignore[method-assign, assignment]
        server.script([Turn(calls=(Call(*edit()),)), Turn("I wait.")])
        await on.say("Be less formal")
        (result,) = [event for event in on.events if isinstance(event, ToolResult)]
        assert (result.outcome, result.unread, result.proposal) == (CallOutcome.REFUSED, 30, "")
        assert on.stopped == "refused" and len(on.runtime.service.pending()) == 1
        on.check()


async def test_a_full_reading_budget_ends_a_chain_and_names_its_edits(server: WireServer, tmp_path: Path) -> None:
    long = "".join(f"x{number} = {number}\n" for number in range(40))
    server.script(
        [
            Turn(calls=(Call("write_file", {"path": "long.py", "content": long}),)),
            Turn(calls=(Call(*edit()),)),
            Turn("The rest later."),
        ]
    )
    async with bench(server, tmp_path, reading={"unseen_lines": 20}, gate="chain", chain_steps=5) as on:
        assert on.session.gate.policy == GateClosingPolicy("chain", 5)
        await on.say("Be less formal")
        (told,) = [event for event in on.events if isinstance(event, Intervention)]
        assert told.kind is InterventionKind.UNREAD and "staged as P1" in told.text and "40 lines" in told.text
        assert on.stopped == "refused" and len(on.runtime.service.pending()) == 1
        on.check()


async def test_without_a_budget_nothing_is_refused(server: WireServer, on: Bench) -> None:
    server.script([Turn(calls=(Call(*edit()),)), Turn("Done.")])
    fill(on)
    await on.say("Be less formal")
    assert on.stopped == "staged"
