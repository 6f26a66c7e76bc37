"""What holds for the payload of every log, whatever happened in it and wherever it breaks off."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.agent.context import ContextTokenEstimate
from app.agent.gate import GateClosingPolicy, TurnStagingGate, UnansweredFeedback
from app.agent.turn_state import TurnState
from app.conversation.events import (
    EVENT_JSON,
    Audience,
    CallDeniedWithFeedback,
    ContentPruned,
    Event,
    HistoryCompacted,
    Intervention,
    NextActionChosen,
    ProposalDecided,
    Question,
    RequestSent,
    SideAnswer,
    SideQuestion,
    UserAnswer,
    UserMessage,
)
from app.conversation.payload.compaction_plan import (
    CalibratedTokenEstimator,
    CompactionBudget,
    plan_next_compaction_step,
)
from app.conversation.payload.projection import CachedPayloadBuilder, PayloadInputs, SideQuestionInputs, project
from app.copies import replace
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Payload, TokenUsage
from tests.unit.conversation.histories import (
    BLOCK,
    CONTENTS,
    PROMPT,
    Simulation,
    damaged_logs,
    marks,
    profiles,
    rules_for,
    sessions,
    words_of,
)
from tests.unit.conversation.validity import violations

TOOLS = [{"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}]
FACTS = PayloadInputs(PROMPT, TOOLS)
thorough = settings(suppress_health_check=list(HealthCheck))


def said_by_user(events: list[Event]) -> list[str]:
    said: list[str] = []
    for event in events:
        match event:
            case UserMessage() | UserAnswer():
                said += marks(event.text)
            case CallDeniedWithFeedback():
                said += marks(event.feedback)
            case ProposalDecided():
                said += marks(event.feedback)
                for comment in event.comments:
                    said += marks(comment.text)
    return said


@thorough
@given(sessions(), profiles, st.data())
def test_a_prefix_of_a_log_is_valid_and_sends_each_text_once_in_its_role(
    session: Simulation, profile: EndpointProfile, data: st.DataObject
) -> None:
    events = session.events[: data.draw(st.integers(0, len(session.events)))]
    payload = project(events, profile, FACTS)
    messages = payload.messages
    assert violations(messages, rules_for(profile)) == []
    assert payload.tools is TOOLS
    users: list[str] = []
    notes: list[str] = []
    for message in messages:
        content = message.get("content") or ""
        said = [mark for mark in marks(content) if mark.startswith("U")]
        users += said
        assert not said or message["role"] in ("user", "tool")
        if message["role"] == "user":
            words = words_of(content) if profile.mid_system != "inline" else content
            assert all(mark.startswith("U") for mark in marks(words))
            for block in BLOCK.findall(content) if profile.mid_system != "inline" else ():
                assert not any(mark.startswith("U") for mark in marks(block))
                notes += marks(block)
            if profile.mid_system != "inline" and BLOCK.search(content):
                assert content.startswith("<signoff-note>\nWritten by the program signoff, not by the user:\n")
        elif message["role"] in ("assistant", "tool"):
            assert not any(mark.startswith("P") for mark in marks(content))
        else:
            notes += marks(content)
    assert Counter(users) == Counter(said_by_user(events))
    assert [mark for mark, times in Counter(notes).items() if times > 1] == []
    assert PROMPT in messages[0]["content"]
    assert json.dumps(messages, ensure_ascii=False).count(PROMPT) == 1
    if profile.mid_system != "fold_user":
        assert messages[0]["role"] == ("developer" if profile.developer_role else "system")


@thorough
@given(damaged_logs(), profiles)
def test_a_damaged_log_gives_a_valid_payload_with_all_text_of_the_user(
    events: list[Event], profile: EndpointProfile
) -> None:
    messages = project(events, profile, FACTS).messages
    assert violations(messages, rules_for(profile)) == []
    assert set(said_by_user(events)) <= set(marks("\n".join(message.get("content") or "" for message in messages)))
    plain = profile.model_copy(update={"bridge_tool_user": False, "merge_users": False})
    assert violations(project(events, plain, FACTS).messages, rules_for(plain)) == []


@thorough
@given(sessions(), profiles)
def test_the_same_log_gives_the_same_payload_after_a_restart(session: Simulation, profile: EndpointProfile) -> None:
    events = [event for event in session.events if _storable(event)]
    reread = [EVENT_JSON.validate_json(event.model_dump_json()) for event in events]
    before = json.dumps(project(events, profile, FACTS).messages)
    assert json.dumps(project(events, profile, FACTS).messages) == before
    assert json.dumps(project(reread, profile, FACTS).messages) == before


@thorough
@given(sessions(scoped=False), st.booleans())
def test_new_events_change_only_the_end_of_the_payload(session: Simulation, fold_user: bool) -> None:
    profile = EndpointProfile(mid_system="fold_user" if fold_user else "inline")
    sent: list[dict[str, Any]] | None = None
    for position, event in enumerate(session.events):
        if isinstance(event, HistoryCompacted | ContentPruned):
            sent = None
        if isinstance(event, RequestSent):
            messages = project(session.events[:position], profile, FACTS).messages
            # The last message may be joined by what follows it; a note for that request alone goes away.
            if sent is not None:
                assert messages[: len(sent)] == sent
            events = [one for one in session.events[:position] if not _for_one_request(one)]
            sent = project(events, profile, FACTS).messages[:-1]


def _for_one_request(event: Event) -> bool:
    return isinstance(event, Intervention) and event.scope == "request"


def _storable(event: Event) -> bool:
    try:
        event.model_dump_json()
    except ValueError:
        return False
    return True


@thorough
@given(sessions(), profiles, st.data())
def test_side_questions_change_nothing_computed(
    session: Simulation, profile: EndpointProfile, data: st.DataObject
) -> None:
    """Wherever they stand in it, answered or not: the payload, what it takes, and what is done to make room."""
    events: list[Event] = []
    for event in session.events:
        uid = f"q{len(events)}"
        asked = SideQuestion(uid=uid, proposal="P1", path="a.py", text="why?", id=event.id)
        answer = SideAnswer(question=uid, proposal="P1", text="Because. " * 50, usage=TokenUsage(prompt_tokens=9_999))
        events += data.draw(st.sampled_from([[], [asked], [asked, answer.model_copy(update={"id": event.id})]]))
        events.append(event)
    assert project(events, profile, FACTS) == project(session.events, profile, FACTS)
    assert_the_same_is_computed(events, session.events, data)


@thorough
@given(sessions(), profiles, st.sampled_from(["chat", "anthropic", "responses"]), st.data())
def test_only_audience_both_is_sent(
    session: Simulation, profile: EndpointProfile, wire: Any, data: st.DataObject
) -> None:
    """No text of an event with another audience is in a payload; an event for nobody changes nothing at all."""
    events: list[Event] = []
    for event in session.events:
        events.append(_with_marks_for(event))
        if data.draw(st.integers(0, 3)) == 0:
            # Ids are odd, so that there is one between two events.
            events.append(NextActionChosen(rung="⟪P900⟫", move="⟪P901⟫", facts={"⟪P902⟫": 3}, id=event.id + 1))
    profile = profile.model_copy(update={"wire": wire})
    kept: list[Event] = [event for event in events if event.audience is not Audience.NOBODY]
    payload = project(events, profile, FACTS)
    assert payload == project(kept, profile, FACTS)
    sent = json.dumps([payload.messages, payload.system], ensure_ascii=False)
    assert not any(int(mark[1:]) >= 900 for mark in marks(sent))
    assert_the_same_is_computed(events, kept, data)


def _with_marks_for(event: Event) -> Event:
    """The event with marks in all its texts, but for names and ids, if it is not for the model."""
    if event.audience is Audience.BOTH or isinstance(event, Question):
        # The text of a question is that of the call, which is the model's.
        return event
    texts = {"text", "message", "summary", "reason", "state", "note"} & set(type(event).model_fields)
    return event.model_copy(update=dict.fromkeys(texts, "⟪P903⟫"))


def assert_the_same_is_computed(events: Sequence[Event], fewer: Sequence[Event], data: st.DataObject) -> None:
    for fold in (
        CalibratedTokenEstimator,
        lambda: ContextTokenEstimate(CalibratedTokenEstimator()),
        TurnState,
        lambda: TurnStagingGate(GateClosingPolicy()),
        UnansweredFeedback,
    ):
        with_them, without = fold(), fold()
        for event in events:
            with_them.apply(event)
        for event in fewer:
            without.apply(event)
        assert _held(with_them) == _held(without)
    budget = CompactionBudget(used=2_000, target=data.draw(st.integers(0, 2_000)), window=2_000)
    step, plain = plan_next_compaction_step(events, budget), plan_next_compaction_step(fewer, budget)
    assert type(step) is type(plain)
    if step is not None and plain is not None:
        assert step.saved == plain.saved


def _held(fold: Any) -> str:
    """All that a fold knows."""
    return str(
        {
            name: value if not isinstance(value, CalibratedTokenEstimator) else value.factor
            for name, value in vars(fold).items()
        }
    )


@thorough
@given(st.one_of(sessions().map(lambda session: list(session.events)), damaged_logs()), st.data())
def test_cached_and_fresh_projections_are_equal(events: list[Event], data: st.DataObject) -> None:
    """A log grows event by event, while profile, prompt, model and images change now and then."""
    profile, facts = data.draw(profiles), replace(FACTS, images=CONTENTS)
    kept, meter = CachedPayloadBuilder(), CalibratedTokenEstimator()
    before: list[tuple[Payload, Payload]] = []
    length = 0
    while length < len(events):
        length += data.draw(st.integers(1, 4))
        match data.draw(st.integers(0, 30)):
            case 0:
                profile = data.draw(profiles)
            case 1:
                facts = replace(facts, system_prompt=data.draw(st.sampled_from(["", PROMPT, "another"])))
            case 2:
                facts = replace(facts, closing=not facts.closing, model=data.draw(st.sampled_from(["", "m"])))
            case 3:
                facts = replace(facts, images=data.draw(st.sampled_from([{}, CONTENTS])))
            case 4:
                # An event of another process comes between those that were there.
                events = [*events[: length // 2], *events[length // 2 + 1 :]]
        fresh = project(events[:length], profile, facts)
        if data.draw(st.booleans()):
            asked = replace(
                facts,
                side_request=SideQuestionInputs("a note", "why?", data.draw(st.sampled_from([(), (("and", "so"),)]))),
            )
            assert kept.project(events[:length], profile, asked) == project(events[:length], profile, asked)
        if data.draw(st.booleans()):
            # Room is made on trial, and what is left out of the log then is not the same.
            trial = [*events[:length], ContentPruned(results=tuple(range(length // 2)))]
            assert kept.project(trial, profile, facts) == project(trial, profile, facts)
        payload = kept.project(events[:length], profile, facts)
        assert payload == fresh
        assert json.dumps(payload.messages) == json.dumps(fresh.messages)
        assert meter.count_tokens(payload) == CalibratedTokenEstimator().count_tokens(fresh)
        before.append((payload, fresh))
    # What went out before is left as it was.
    assert all(payload == fresh for payload, fresh in before)
