"""The request in which the model summarises the older part of a conversation.

It is the conversation itself, with long texts clipped, and an instruction of the program at its end: so no text of
the program is sent in the user's name, and the beginning of the prompt stays in the server's cache.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from app.conversation.compaction.cuts import compaction_marks
from app.conversation.compaction.plan import Budget, Summarise, event_tokens, images_tokens
from app.conversation.events import (
    AssistantMessage,
    Compacted,
    Event,
    Intervention,
    InterventionKind,
    Pruned,
    ToolCall,
    ToolResult,
)
from app.conversation.payload.projection import Facts, project
from app.llm.capabilities.profile import Profile
from app.llm.types import Payload

INSTRUCTION = (
    "Summarise this conversation for yourself; the summary will replace these messages, and you go on with only "
    "it, the user's own messages and what comes after. Call no tools and address nobody. Write, under short "
    "headings: the user's goals and every requirement or preference still in force; decisions made and why; what "
    "was read, found and changed, with exact paths, names and commands; which images the user attached and what "
    "you saw in them; which proposals were approved, denied (with the reasons) or are pending; what is unfinished "
    "and the next step. Take over what is still true from an earlier summary. Leave out pleasantries, and do not "
    "invent."
)
_RESULT_CHARACTERS = 1_200
_ARGUMENT_CHARACTERS = 600
_FIT = 0.7
"""Share of the window that this request may take."""


def summary_payload(
    events: Sequence[Event], step: Summarise, budget: Budget, profile: Profile, facts: Facts
) -> Payload:
    """The payload that asks for the summary of a plan.

    Args:
        events: the whole log.
        step: what is to be summarised.
        budget: the one that the plan was made with.
        profile: of the endpoint.
        facts: as for any request; tools stay the same and may not be called.
    """
    covered = [_clipped(event) for event in events if 0 < event.id <= step.upto]
    # What the model has said of images stands for them.
    unseen = Pruned(images=tuple(event.id for event in covered if images_tokens(event)))
    covered = _fitting(covered, int(_FIT * (budget.window or budget.used) / budget.factor))
    instruction = Intervention(kind=InterventionKind.FACT, text=INSTRUCTION, scope="request")
    return project([*covered, unseen, instruction], profile, replace(facts, closing=True))


def _fitting(events: list[Event], tokens: int) -> list[Event]:
    """Without the oldest events that do not fit; what was summarised before keeps its summary."""
    room = tokens
    for position in range(len(events) - 1, -1, -1):
        room -= event_tokens(events[position]) - images_tokens(events[position])
        if room < 0:
            cut = max(position, compaction_marks(events).cut)
            return [*events, Compacted(upto=events[cut].id, summary="", method="truncation")]
    return events


def _clipped(event: Event) -> Event:
    match event:
        case ToolResult():
            return event.model_copy(update={"text": _shortened(event.text, _RESULT_CHARACTERS)})
        case AssistantMessage() if event.calls:
            return event.model_copy(update={"calls": tuple(_clipped_call(call) for call in event.calls)})
    return event


def _clipped_call(call: ToolCall) -> ToolCall:
    if call.arguments is None:
        return call
    return call.model_copy(update={"arguments": {key: _clipped_value(item) for key, item in call.arguments.items()}})


def _clipped_value(value: Any) -> Any:
    match value:
        case str():
            return _shortened(value, _ARGUMENT_CHARACTERS)
        case list():
            return [_clipped_value(item) for item in value]
        case dict():
            return {key: _clipped_value(item) for key, item in value.items()}
    return value


def _shortened(text: str, characters: int) -> str:
    if len(text) <= characters:
        return text
    head, tail = characters * 2 // 3, characters // 3
    return f"{text[:head]}\n[… {len(text) - head - tail} characters left out …]\n{text[-tail:]}"
