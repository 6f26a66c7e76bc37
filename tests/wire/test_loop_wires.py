"""A session on each vendor's wire, before servers that refuse whatever the vendor refuses."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from app.conversation.events import AssistantMessage, CallOutcome, ToolResult
from tests.oracles.reading import VIOLATIONS, conversation, misplaced
from tests.unit.conversation.test_wires import without_breakpoints
from tests.wire.bench import FILE, Bench, bench, edit
from tests.wire.driving import FAST
from tests.wire.endpoints import IGNORES_TOOL_CHOICE
from tests.wire.replies import CUT, Call, Reply, Turn, stream
from tests.wire.server import WireServer
from tests.wire.vendors import NOT_THERE, VENDORS, Vendor, named

pytestmark = pytest.mark.parametrize("vendor", VENDORS.values(), ids=list(VENDORS))
"""Of most tests here."""


@pytest.fixture
async def on(server: WireServer, tmp_path: Path, vendor: Vendor) -> AsyncIterator[Bench]:
    """A session on the vendor's wire; nothing else is spoken there, and all that it sent was taken."""
    server.wires = {name: None if name == vendor.name else NOT_THERE for name in server.wires}
    async with bench(server, tmp_path, wire=vendor.name, retry=FAST) as opened:
        yield opened
        opened.check()


async def test_the_gate_uses_system_text_and_feedback_the_users(server: WireServer, on: Bench) -> None:
    server.turn("Looking.", calls=[("read_file", {"path": "greet.py"}), ("list_files", {})])
    server.turn("Editing.", calls=[edit()])
    await on.say("Be less formal", last="Have a look.")
    first, second, closing = server.requests
    assert [request.closing for request in server.requests] == [False, False, True]
    assert closing.body["tools"] == first.body["tools"]
    role, instruction = closing.said[-1]
    assert role == "system" and "P1" in instruction and "Do not call tools" in instruction
    assert closing.said[-2][0] == "tool" and '"applied": false' in closing.said[-2][1].replace('":false', '": false')
    assert conversation(without_breakpoints(closing.body))[: len(second.messages)] == conversation(
        without_breakpoints(second.body)
    )
    assert closing.body.get("system") == first.body.get("system")
    assert on.stopped == "staged" and on.file == FILE
    answered = [event for event in on.events if isinstance(event, AssistantMessage)]
    assert [message.text for message in answered] == ["Looking.", "Editing.", "Have a look."]
    assert all(message.usage and message.usage.cached_tokens == 4 for message in answered)
    server.say("I see.")
    feedback = "No: two things.\n\n1. Say it in French\n2. <b>keep</b> the name"
    await on.settled(on.session.deny("P1", feedback=feedback))
    said = server.last.said
    assert [role for role, text in said if feedback in text] == ["user"]
    assert sum(text.count("Say it in French") for _, text in said) == 1
    assert any(role == "system" and "P1" in text and "denied" in text for role, text in said)
    assert misplaced(server.last.body) == []
    assert not server.last.closing


async def test_calls_despite_a_closed_gate_never_run(server: WireServer, on: Bench) -> None:
    server.behave(IGNORES_TOOL_CHOICE)
    server.always(Turn("Editing.", calls=(Call(*edit()),)))
    await on.say("Be less formal")
    assert len(server.requests) == 2
    refused = [event for event in on.events if isinstance(event, ToolResult) and event.outcome is CallOutcome.REFUSED]
    assert len(refused) == 1 and on.stopped == "refused" and on.file == FILE
    server.behave(IGNORES_TOOL_CHOICE)
    server.always(Turn("Fine."))
    await on.say("Go on")


async def test_a_refused_system_message_is_moved_and_the_placement_learned(server: WireServer, on: Bench) -> None:
    server.mid_system = False
    await on.say("Be less formal", edit())
    *_, refused, closing = server.requests
    assert refused.said[-1][0] == "system" and closing.said[-1][0] == "tool"
    told = [text for role, text in closing.said if role == "system" and "Do not call tools" in text]
    assert len(told) == 1 and closing.closing
    assert on.session.ports.model.profile.mid_system == "fold_first"
    server.requests.remove(refused)
    await on.say("Thanks", last="Fine.")
    assert VIOLATIONS[closing.wire](server.last.body, mid_system=False) == []


async def test_reasoning_is_returned_only_to_its_model(server: WireServer, on: Bench, vendor: Vendor) -> None:
    server.turn("Looking.", calls=[("read_file", {"path": "greet.py"})], reasoning="hm, greet")
    server.say("It greets.", reasoning="so it greets")
    await on.say("What does it do?")
    seal = {"anthropic": "signed", "responses": "sealed"}[vendor.name]
    assert f"{seal} hm, greet" in str(server.last.body)
    assert next(event.reasoning for event in on.events if isinstance(event, AssistantMessage)) == "hm, greet"
    on.session.ports.model.endpoint = type(on.session.ports.model.endpoint)(server.base_url, "another")
    await on.say("Hello", last="Hello.")
    assert seal not in str(server.last.body)


CUTS: dict[str, Callable[[Vendor], Reply]] = {
    "cut in the text": lambda vendor: stream(*vendor.reply(Turn("Half of it"), 9).parts[:6], CUT),
    "cut in the arguments": lambda vendor: stream(*vendor.reply(Turn(calls=(Call(*edit()),)), 9).parts[:5], CUT),
    "no end": lambda vendor: vendor.reply(Turn(calls=(Call(*edit()),), finish=None), 9),
    "an error": lambda vendor: stream(
        named({"type": "error", "error": {"type": "overloaded_error", "message": "?"}})
    ),
    "overloaded": lambda vendor: (
        vendor.error(529, "Overloaded", "overloaded_error")
        if vendor.name == "anthropic"
        else vendor.error(503, "Overloaded")
    ),
    "nothing": lambda vendor: stream(),
    "a page": lambda vendor: Reply((b"<html>busy</html>",), status=502, content_type="text/html"),
}


@pytest.mark.parametrize("kind", CUTS)
async def test_a_broken_response_is_requested_again(server: WireServer, on: Bench, vendor: Vendor, kind: str) -> None:
    server.script([CUTS[kind](vendor), Turn("Whole.")])
    await on.say("Hello")
    assert len(server.requests) == 2
    assert on.stopped == "answer" and on.file == FILE
    last = [event for event in on.events if isinstance(event, AssistantMessage)][-1]
    assert (last.text, last.calls) == ("Whole.", ())
    assert "Half" not in str(server.last.body)


async def test_calls_cut_by_the_length_limit_do_not_run(server: WireServer, on: Bench, vendor: Vendor) -> None:
    server.turn("Editing.", calls=[edit()], finish=vendor.too_long)
    await on.say("Be less formal", last="I was cut off.")
    assert not on.runtime.service.pending()
    results = [event for event in on.events if isinstance(event, ToolResult)]
    assert [event.outcome for event in results] == [CallOutcome.INVALID]
    assert "cut off" in next(text for role, text in server.requests[1].said if role == "tool")


async def test_a_session_can_change_its_wire_and_back(server: WireServer, tmp_path: Path, vendor: Vendor) -> None:
    """One log over all wires: what one gave is no obstacle to the other."""
    order = ["chat", vendor.name, "chat", *VENDORS]
    for number, wire in enumerate(order):
        async with bench(server, tmp_path, wire=wire, retry=FAST) as on:
            calls = [("read_file", {"path": "greet.py"}), edit("'Hello '", f"'Hello {number}'")]
            server.turn(f"Turn {number}.", calls=calls, reasoning=f"thought {number}")
            await on.say(f"Message {number}", last="Have a look.")
            assert on.stopped == "staged"
            server.say("I see.")
            await on.settled(on.session.deny(f"P{number + 1}", feedback=f"Not {number}"))
            on.check()
    assert [request.wire for request in server.requests] == [wire for wire in order for _ in range(3)]
    users = [text for role, text in server.last.said if role == "user"]
    assert all(sum(f"Message {number}" in text for text in users) == 1 for number in range(len(order)))


@pytest.mark.parametrize("status", [429, 500])
async def test_a_failed_closing_request_ends_the_turn_as_staged(
    server: WireServer, on: Bench, vendor: Vendor, status: int
) -> None:
    server.script([Turn(calls=(Call(*edit()),)), *[vendor.error(status, "Not now")] * 4])
    await on.say("Be less formal")
    assert on.stopped == "staged" and [proposal.id for proposal in on.runtime.service.pending()] == ["P1"]
    await on.say("Thanks", last="Fine.")


async def test_an_overflow_error_says_that_it_does_not_fit(server: WireServer, on: Bench, vendor: Vendor) -> None:
    words = {
        "anthropic": "prompt is too long: 208310 tokens > 200000 maximum",
        "responses": "Your input exceeds the context window of this model. context_length_exceeded",
    }
    server.script([vendor.error(400, words[vendor.name]), Turn("Shorter.")])
    await on.say("Hello")
    assert "does not fit" in str(next(event for event in on.events if event.type == "request_failed"))
