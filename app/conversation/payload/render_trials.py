"""Short conversations in which a mark stands wherever the program says something, for a server to render.

They take the way of every payload, so what they find holds for real ones: a first turn with the gate's words after a
tool result, and a later one with notes after a result, after an answer, and at the end.
"""

from functools import partial
from typing import Any

from app.conversation.events import AssistantMessage, ToolCall
from app.conversation.payload.history import History, Item, Note, Response, Words
from app.conversation.payload.missing_results import CallRecord
from app.conversation.payload.placement import place
from app.conversation.payload.wire_ids import WireIds
from app.llm.capabilities.profile import Profile
from app.llm.capabilities.template_check import RenderTrial
from app.llm.types import Payload
from app.llm.wires.registry import wire_of

_TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Reads a file.",
        "parameters": {
            "type": "object",
            "properties": {"path": {"type": "string", "description": "Where it is."}},
            "required": ["path"],
        },
    },
}
PROMPT = "You work on files. Their mark is amber heron."
EARLIER = "Approved. The mark is copper finch."
BETWEEN = "Denied. The mark is silver plover."
GATE = "Wait for approval. The mark is violet curlew."
WORDS = "Look at the next file, marked golden thrush."


def render_trials(profile: Profile) -> list[RenderTrial]:
    """The conversations in the form that the profile wants."""
    ids = WireIds(profile.tool_id)
    called = partial(_called, ids)
    first: list[Item] = [Words(WORDS), called("", 1)]
    later: list[Item] = [
        *(Words("Hello."), called("", 2), Note(EARLIER), Words("Go on."), Response("Yes.", AssistantMessage())),
        *(Note(BETWEEN), Words(WORDS), called("I look.", 3)),
    ]
    more: list[Item] = [called("", 4, 5)]
    return [
        _trial(profile, first, PROMPT),
        _trial(profile, later, PROMPT, EARLIER, BETWEEN),
        _trial(profile, later + more, PROMPT, EARLIER, BETWEEN),
    ]


def _called(ids: WireIds, text: str, *numbers: int) -> Response:
    calls = [ToolCall(uid=f"c{at}.0", name="read_file", arguments={"path": f"{at}.txt"}) for at in numbers]
    records = [CallRecord(call, ids.assign(call), answer="It is empty.") for call in calls]
    return Response(text, AssistantMessage(text=text, calls=tuple(calls)), records)


def _trial(profile: Profile, items: list[Item], *marks: str) -> RenderTrial:
    history = History(items, [GATE], frozenset())
    wire = wire_of(profile)
    messages, system = wire.written(place(history, PROMPT, profile, "", ""), profile)
    return RenderTrial(Payload(messages, [_TOOL], "none", system=system), (*marks, WORDS, GATE))
