"""What is kept of a projection is given up where something changes what was said before."""

from collections.abc import Callable

import pytest

from app.conversation.events import (
    AssistantMessage,
    CallOutcome,
    ContentPruned,
    Event,
    HistoryCompacted,
    Intervention,
    InterventionKind,
    Question,
    RequestFailed,
    RequestSent,
    ToolCall,
    ToolResult,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from app.conversation.payload.projection import CachedPayloadBuilder, PayloadInputs, SideQuestionInputs, project
from app.copies import replace
from app.images.image import Image
from app.llm.values.endpoint import EndpointProfile

IMAGE = Image(name="a.png", media_type="image/png", width=9, height=9, size=3, sha256="a" * 64)
FACTS = PayloadInputs("prompt", [], images={"a" * 64: "YQ=="}, endpoint="e", model="m")
State = tuple[list[Event], EndpointProfile, PayloadInputs]


def log() -> list[Event]:
    """Two turns, of which the first has an image and a tool's result."""
    call = ToolCall(uid="c1.0", wire_id="call_0", name="read_file", arguments={"path": "a.py"})
    events: list[Event] = [
        TurnStarted(cause="message"),
        UserMessage(text="look", images=(IMAGE,)),
        RequestSent(),
        AssistantMessage(text="", calls=(call,)),
        ToolStarted(call="c1.0"),
        ToolResult(call="c1.0", outcome=CallOutcome.OK, text="some output"),
        RequestSent(),
        AssistantMessage(text="an answer", reasoning="a thought", endpoint="e", model="m"),
        TurnEnded(stopped="answer"),
        TurnStarted(cause="message"),
        UserMessage(text="go on"),
        RequestSent(),
        AssistantMessage(text="another answer"),
        TurnEnded(stopped="answer"),
        TurnStarted(cause="message"),
    ]
    return numbered(events)


def numbered(events: list[Event]) -> list[Event]:
    return [event.model_copy(update={"id": number}) for number, event in enumerate(events, 1)]


def appended(event: Event) -> Callable[[State], State]:
    return lambda state: (numbered([*state[0], event]), state[1], state[2])


CHANGES: dict[str, Callable[[State], State]] = {
    "compaction": appended(HistoryCompacted(upto=9, summary="so far", method="summary")),
    "truncation": appended(HistoryCompacted(upto=9, summary="", method="truncation")),
    "pruned result": appended(ContentPruned(results=(6,))),
    "pruned image": appended(ContentPruned(images=(2,))),
    "image gone": lambda state: (state[0], state[1], replace(state[2], images={})),
    "image refused": lambda state: (state[0], EndpointProfile(refused_images=["a" * 64]), state[2]),
    "profile": lambda state: (state[0], state[1].model_copy(update={"tool_id": "alnum9"}), state[2]),
    "endpoint": lambda state: (state[0], state[1], replace(state[2], endpoint="other")),
    "model": lambda state: (state[0], state[1], replace(state[2], model="other")),
    "system prompt": lambda state: (state[0], state[1], replace(state[2], system_prompt="other")),
    "other log": lambda state: (
        numbered([*state[0][:1], UserMessage(text="other words"), *state[0][2:]]),
        state[1],
        state[2],
    ),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_change_of_the_beginning_is_projected_anew(change: str) -> None:
    profile = EndpointProfile(images_supported=True, mid_system="fold_user", reasoning_echo="same_model")
    state: State = (log(), profile, FACTS)
    kept = CachedPayloadBuilder()
    before = kept.project(*state)
    assert kept.project(*state) == before == project(*state)
    events, profile, facts = CHANGES[change](state)
    fresh = project(events, profile, facts)
    assert fresh.messages[: len(before.messages) - 1] != before.messages[:-1], "the change reaches the beginning"
    assert kept.project(events, profile, facts) == fresh


CALL = ToolCall(uid="c9.0", wire_id="call_9", name="read_file", arguments={"path": "a.py"})
UNSETTLED: dict[str, list[Event]] = {
    "a note for one request": [
        Intervention(kind=InterventionKind.FACT, text="for this request", scope="request"),
        RequestSent(),
        RequestFailed(kind="network", message="broke off"),
        RequestSent(),
    ],
    "words while a request is out": [RequestSent(), UserMessage(text="and this"), RequestSent()],
    "a call without a result": [
        RequestSent(),
        AssistantMessage(text="", calls=(CALL,)),
        TurnStarted(cause="message"),
    ],
    "a question": [
        RequestSent(),
        AssistantMessage(text="", calls=(CALL,)),
        Question(call="c9.0", text="which?"),
        TurnEnded(stopped="question"),
        TurnStarted(cause="message"),
        UserMessage(text="never mind"),
    ],
    "a closing request": [
        RequestSent(closing=True),
        RequestFailed(kind="network", message="broke off"),
        RequestSent(),
        AssistantMessage(text="", calls=(CALL,)),
    ],
    "a late result": [
        RequestSent(),
        AssistantMessage(text="", calls=(CALL,)),
        ToolResult(call="c9.0", outcome=CallOutcome.OK, text="some output"),
        RequestSent(),
        AssistantMessage(text="read"),
        ToolResult(call="c9.0", outcome=CallOutcome.OK, text="other output"),
    ],
    "a note for one turn": [
        Intervention(kind=InterventionKind.FACT, text="for this turn", scope="turn"),
        RequestSent(),
        AssistantMessage(text="heard"),
        TurnEnded(stopped="answer"),
    ],
    "a note on files that were read since": [
        Intervention(kind=InterventionKind.FACT, text="a.py has changed", scope="lasting", files={"a.py": "0"}),
        RequestSent(),
        AssistantMessage(text="", calls=(CALL,)),
        ToolResult(call="c9.0", outcome=CallOutcome.OK, text="some output", reads={"a.py": "1"}),
    ],
    "a cut": [HistoryCompacted(upto=15, summary="so far", method="summary"), RequestSent()],
}


@pytest.mark.parametrize("name", list(UNSETTLED))
def test_open_parts_of_a_projection_are_not_cached(name: str) -> None:
    """The log grows event by event: what is open at a request is projected again with what comes after it."""
    events, profile = numbered([*log(), *UNSETTLED[name]]), EndpointProfile(images_supported=True)
    kept = CachedPayloadBuilder()
    for length in range(len(log()), len(events) + 1):
        for _ in range(2):
            assert kept.project(events[:length], profile, FACTS) == project(events[:length], profile, FACTS)


def test_room_made_on_trial_and_a_side_question_leave_nothing() -> None:
    events, profile = log(), EndpointProfile(images_supported=True)
    asked = replace(FACTS, side_request=SideQuestionInputs("of a hunk", "why?", (("and before?", "because"),)))
    for aside in (
        ([*events, ContentPruned(results=(6,))], profile, FACTS),
        ([*events, HistoryCompacted(upto=9, summary="so far", method="summary")], profile, FACTS),
        (events, profile, asked),
    ):
        kept = CachedPayloadBuilder()
        for state in (aside, (events, profile, FACTS)) * 2:
            assert kept.project(*state) == project(*state)


def test_cached_messages_are_reused_also_after_a_side_question() -> None:
    events, profile = log(), EndpointProfile(images_supported=True)
    asked = replace(FACTS, side_request=SideQuestionInputs("of a hunk", "why?"))
    kept = CachedPayloadBuilder()
    kept.project(events, profile, FACTS)
    second, aside, third = (kept.project(events, profile, facts) for facts in (FACTS, asked, FACTS))
    assert len(second.messages) > 5
    for payload in (aside, third):
        assert all(one is other for one, other in zip(second.messages[1:5], payload.messages[1:5], strict=True))
