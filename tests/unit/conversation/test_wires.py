"""What holds for the request of every log on every wire, also where the session has changed its wire or model."""

import json
import math
from collections import Counter
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.conversation.events import (
    AssistantMessage,
    DecisionKind,
    Event,
    HistoryCompacted,
    Intervention,
    InterventionKind,
    ProposalDecided,
    RequestSent,
    UserMessage,
)
from app.conversation.payload.projection import PayloadInputs, project
from app.conversation.payload.tool_calls import dump_arguments_as_json
from app.copies import replace
from app.llm.values.endpoint import EndpointProfile
from app.llm.wires.wire import OPAQUE_BLOCKS
from app.llm.wires.wire_registry import wire_for
from tests.oracles.reading import VIOLATIONS, conversation, misplaced, openai_faults, texts_by_role
from tests.unit.conversation.histories import (
    BLOCK,
    CONTENTS,
    PROMPT,
    Simulation,
    damaged_logs,
    marks,
    profiles,
    sessions,
    words_of,
)
from tests.unit.conversation.test_projection_properties import said_by_user

WireName = Literal["anthropic", "responses"]
TOOLS = [
    {
        "type": "function",
        "function": {"name": "read_file", "description": "Reads.", "parameters": {"type": "object"}},
    }
]
FACTS = PayloadInputs(PROMPT, TOOLS, images=CONTENTS)
thorough = settings(suppress_health_check=list(HealthCheck))
each_wire = pytest.mark.parametrize("wire", ["anthropic", "responses"])


def body_of(events: list[Event], profile: EndpointProfile, facts: PayloadInputs = FACTS) -> dict[str, Any]:
    """The body of the request, as the client makes it."""
    payload = project(events, profile, facts)
    return wire_for(profile).make_body("some-model", profile, payload)


def on(wire: WireName, profile: EndpointProfile) -> EndpointProfile:
    return profile.model_copy(update={"wire": wire})


def violations(body: dict[str, Any], profile: EndpointProfile) -> list[str]:
    return VIOLATIONS[profile.wire](body, mid_system=profile.mid_system == "inline")


def without_breakpoints(value: Any) -> Any:
    match value:
        case dict():
            return {name: without_breakpoints(one) for name, one in value.items() if name != "cache_control"}
        case list():
            return [without_breakpoints(one) for one in value]
    return value


@each_wire
@thorough
@given(session=sessions(), profile=profiles, data=st.data())
def test_any_prefix_is_valid_and_each_text_has_its_role(
    wire: WireName, session: Simulation, profile: EndpointProfile, data: st.DataObject
) -> None:
    profile = on(wire, profile)
    events = session.events[: data.draw(st.integers(0, len(session.events)))]
    # A model that did not make the opaque blocks is as valid as the one that did.
    facts = replace(FACTS, closing=data.draw(st.booleans()), model=data.draw(st.sampled_from(["", "another"])))
    body = body_of(events, profile, facts)
    assert violations(body, profile) == []
    if facts.closing and profile.tool_choice_none != "rejected":
        assert body["tool_choice"] in ("none", {"type": "none"})
    assert body["tools"] == body_of([], profile)["tools"]
    users: list[str] = []
    notes: list[str] = []
    for role, text in texts_by_role(body_of(events, profile)):
        found = marks(text)
        if role == "user":
            spoken = marks(words_of(text))
            assert all(mark.startswith("U") for mark in spoken)
            users += spoken
            for block in BLOCK.findall(text):
                assert not any(mark.startswith("U") for mark in marks(block))
                notes += marks(block)
        else:
            # What is answered to a question is the result of the call that asked.
            users += [mark for mark in found if mark.startswith("U") and role == "tool"]
            assert role == "tool" or not any(mark.startswith("U") for mark in found)
            assert role == "system" or not any(mark.startswith("P") for mark in found)
            notes += [mark for mark in found if mark.startswith("P")]
    assert Counter(users) == Counter(said_by_user(events))
    assert [mark for mark, times in Counter(notes).items() if times > 1] == []
    assert notes.count("P0") == 1


@each_wire
@thorough
@given(events=damaged_logs(), profile=profiles)
def test_a_damaged_log_gives_a_valid_request(wire: WireName, events: list[Event], profile: EndpointProfile) -> None:
    profile = on(wire, profile)
    body = body_of(events, profile)
    assert violations(body, profile) == []
    assert set(said_by_user(events)) <= {mark for _, text in texts_by_role(body) for mark in marks(text)}


@each_wire
@thorough
@given(session=sessions(), inline=st.booleans(), data=st.data())
def test_closing_is_system_at_the_end(wire: WireName, session: Simulation, inline: bool, data: st.DataObject) -> None:
    profile = EndpointProfile(wire=wire, mid_system="inline" if inline else "fold_first")
    sent = [at for at, event in enumerate(session.events) if isinstance(event, RequestSent) and event.closing]
    if not sent:
        return
    at = data.draw(st.sampled_from(sent))
    before = [event for event in session.events[:at] if not _closes(event)]
    note = Intervention(kind=InterventionKind.STAGED, text="⟪P999⟫ hand back", scope="request")
    closing = body_of([*before, note], profile, replace(FACTS, closing=True))
    opened = body_of(before, profile)
    told = [at for at, (role, text) in enumerate(texts_by_role(closing)) if "P999" in text and role == "system"]
    assert violations(closing, profile) == []
    # Folded, and after a turn of the model, it is a marked note: at the front it would change what comes before.
    assert told or (not inline and json.dumps(closing, ensure_ascii=False).count("P999") == 1)
    sent_before = without_breakpoints(conversation(opened))
    if inline and len(sent_before) > 1:
        assert told == [len(texts_by_role(closing)) - 1]
        # What the program says at the very end may be one message with the instruction.
        stable = sent_before if sent_before[-1].get("role") != "system" else sent_before[:-1]
        assert without_breakpoints(conversation(closing))[: len(stable)] == stable
        changed = {name for name in closing if closing[name] != opened.get(name)}
        assert changed <= {"tool_choice", "messages", "input"}


def _closes(event: Event) -> bool:
    return isinstance(event, Intervention) and event.scope == "request"


@thorough
@given(sessions(scoped=False))
def test_cached_messages_stay_a_prefix_with_a_breakpoint(session: Simulation) -> None:
    """Two breakpoints move along: the later one of a request is the earlier one of the next."""
    profile = EndpointProfile(wire="anthropic")
    bodies = [
        body_of([one for one in session.events[:at] if not _closes(one)], profile)
        for at, event in enumerate(session.events)
        if isinstance(event, RequestSent)
    ]
    for body in bodies:
        marked = [at for at, message in enumerate(body["messages"]) if "cache_control" in json.dumps(message)]
        users = [at for at, one in enumerate(body["messages"]) if one["role"] == "user" and _stays(one)]
        assert marked == users[-2:]


def _stays(message: dict[str, Any]) -> bool:
    parts = message["content"]
    return any(part["type"] in ("tool_result", "image") or words_of(part["text"]).strip() for part in parts)


@each_wire
@thorough
@given(session=sessions(), profile=profiles)
def test_opaque_blocks_go_to_their_model_and_wire(
    wire: WireName, session: Simulation, profile: EndpointProfile
) -> None:
    other = "sealed by openai" if wire == "anthropic" else "signed by anthropic"
    assert other not in json.dumps(body_of(session.events, on(wire, profile)))
    foreign = replace(FACTS, model="a third", endpoint="elsewhere")
    for switched_off in (profile.model_copy(update={"opaque_echo": False}), profile):
        facts = FACTS if switched_off is not profile else foreign
        sent = json.dumps(body_of(session.events, on(wire, switched_off), facts))
        assert "sealed by openai" not in sent and "signed by anthropic" not in sent
    assert "sealed by" not in (chat := json.dumps(body_of(session.events, profile))) and "signed by" not in chat


def test_the_text_of_two_messages_has_the_phase_of_the_last() -> None:
    phases = [
        {"wire": "responses", "index": at, "at": 1, "block": {"type": "message", "phase": phase}}
        for at, phase in enumerate(("commentary", "final_answer"))
    ]
    events: list[Event] = [
        UserMessage(text="Go.", id=1),
        AssistantMessage(text="I look.\n\nDone.", extras={OPAQUE_BLOCKS: phases}, id=2),
        UserMessage(text="More.", id=3),
    ]
    sent = body_of(events, on("responses", EndpointProfile()))["input"]
    assert {"role": "assistant", "content": "I look.\n\nDone.", "phase": "final_answer"} in sent


@thorough
@given(sessions(), st.booleans())
def test_chat_completions_requests_are_valid_for_openai(session: Simulation, closing: bool) -> None:
    profile = EndpointProfile(name="openai", max_tokens_field="max_completion_tokens", tool_id="max64")
    assert openai_faults(body_of(session.events, profile, replace(FACTS, closing=closing))) == []


@pytest.mark.parametrize("wire", ["chat", "anthropic", "responses"])
@thorough
@given(session=sessions(), profile=profiles, data=st.data())
def test_a_note_names_the_position_of_the_users_text(
    wire: Literal["chat", "anthropic", "responses"],
    session: Simulation,
    profile: EndpointProfile,
    data: st.DataObject,
) -> None:
    profile = profile.model_copy(update={"wire": wire, "mid_system": "inline"})
    events = session.events[: data.draw(st.integers(0, len(session.events)))]
    assert misplaced(body_of(events, profile)) == []


def test_on_anthropic_feedback_follows_its_note_across_a_gap() -> None:
    """After what was left out, a turn of the model stands between: there the note comes first."""
    events: list[Event] = [
        UserMessage(text="old", id=1),
        HistoryCompacted(upto=1, summary="s", method="summary", id=2),
        ProposalDecided(proposal="P1", decision=DecisionKind.DENIED, feedback="no", id=3),
    ]
    spoken = texts_by_role(body_of(events, EndpointProfile(wire="anthropic")))
    note = next(text for role, text in spoken if role == "system" and "P1" in text)
    assert "words on it follow" in note and spoken.index(("system", note)) < spoken.index(("user", "no"))
    assert [role for role, _ in spoken[-4:]] == ["user", "system", "assistant", "user"]


def test_on_anthropic_notes_name_the_order_of_several_feedbacks() -> None:
    denied = [
        ProposalDecided(proposal=f"P{number}", decision=DecisionKind.DENIED, feedback=f"no {number}", id=number)
        for number in (1, 2)
    ]
    first: list[Event] = [UserMessage(text="go", id=1), AssistantMessage(text="done", id=2)]
    one, two = (body_of([*first, *denied[:count]], EndpointProfile(wire="anthropic"))["messages"] for count in (1, 2))
    assert [message["role"] for message in two] == ["user", "assistant", "user", "system"]
    assert "in the order of these notes" in two[-1]["content"] and "in the order" not in one[-1]["content"]


def nested(depth: int, core: Any) -> dict[str, Any]:
    for _ in range(depth):
        core = [core]
    return {"a": core}


def test_nested_arguments_are_sent_unchanged_cut_or_replaced() -> None:
    assert json.loads(dump_arguments_as_json(nested(60, 1))) == nested(60, 1)
    assert json.loads(dump_arguments_as_json(nested(60, math.nan))) == nested(49, [None]), "what JSON has not"
    assert dump_arguments_as_json(nested(100_000, 1)) == "{}", "too deep"
