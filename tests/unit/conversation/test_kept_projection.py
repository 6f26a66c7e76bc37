"""What is kept of a projection is given up where something changes what was said before."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from app.conversation.events import (
    AssistantMessage,
    Compacted,
    Event,
    Outcome,
    Pruned,
    RequestSent,
    ToolCall,
    ToolResult,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    UserMessage,
)
from app.conversation.payload.projection import Facts, KeptProjection, project
from app.images.image import Image
from app.llm.capabilities.profile import Profile

IMAGE = Image(name="a.png", media_type="image/png", width=9, height=9, size=3, sha256="a" * 64)
FACTS = Facts("prompt", [], images={"a" * 64: "YQ=="}, endpoint="e", model="m")
State = tuple[list[Event], Profile, Facts]


def log() -> list[Event]:
    """Two turns, of which the first has an image and a tool's result."""
    call = ToolCall(uid="c1.0", wire_id="call_0", name="read_file", arguments={"path": "a.py"})
    events: list[Event] = [
        TurnStarted(cause="message"),
        UserMessage(text="look", images=(IMAGE,)),
        RequestSent(),
        AssistantMessage(text="", calls=(call,)),
        ToolStarted(call="c1.0"),
        ToolResult(call="c1.0", outcome=Outcome.OK, text="some output"),
        RequestSent(),
        AssistantMessage(text="an answer"),
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
    "compaction": appended(Compacted(upto=9, summary="so far", method="summary")),
    "truncation": appended(Compacted(upto=9, summary="", method="truncation")),
    "pruned result": appended(Pruned(results=(6,))),
    "pruned image": appended(Pruned(images=(2,))),
    "image gone": lambda state: (state[0], state[1], replace(state[2], images={})),
    "image refused": lambda state: (state[0], Profile(refused_images=["a" * 64]), state[2]),
    "profile": lambda state: (state[0], Profile(single_call_turns=True, tool_id="alnum9"), state[2]),
    "other log": lambda state: (
        numbered([*state[0][:1], UserMessage(text="other words"), *state[0][2:]]),
        state[1],
        state[2],
    ),
}


@pytest.mark.parametrize("change", list(CHANGES))
def test_what_changes_the_beginning_is_projected_anew(change: str) -> None:
    state: State = (log(), Profile(images_supported=True), FACTS)
    kept = KeptProjection()
    before = kept.project(*state)
    assert kept.project(*state) == before == project(*state)
    events, profile, facts = CHANGES[change](state)
    fresh = project(events, profile, facts)
    assert fresh.messages[: len(before.messages) - 1] != before.messages[:-1], "the change reaches the beginning"
    assert kept.project(events, profile, facts) == fresh
