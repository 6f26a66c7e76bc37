"""Short conversations with a mark in each message of the program, for a server to render.

They are built like every payload, so the results hold for real payloads: a first turn with the closing instruction
after a tool result, and later ones with notes after a result, after a response, and at the end.
"""

from functools import partial
from typing import Any

from app.conversation.events import AssistantMessage, ToolCall
from app.conversation.payload.history import History, HistoryItem, ModelResponse, ProgramNote, UserHistoryItem
from app.conversation.payload.projection import make_request_items
from app.conversation.payload.tool_calls import CallRecord, WireIds
from app.llm.capabilities.template_check import ChatTemplateProbe
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Payload
from app.llm.wires.wire_registry import wire_for

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


def make_chat_template_trials(profile: EndpointProfile) -> list[ChatTemplateProbe]:
    """Return short conversations that test a server's chat template, in the form that the profile requires."""
    ids = WireIds(profile.tool_id)
    make_tool_response = partial(_make_tool_response, ids)
    first: list[HistoryItem] = [UserHistoryItem(WORDS), make_tool_response("", 1)]
    later: list[HistoryItem] = [
        *(
            UserHistoryItem("Hello."),
            make_tool_response("", 2),
            ProgramNote(EARLIER),
            UserHistoryItem("Go on."),
            ModelResponse("Yes.", AssistantMessage()),
        ),
        *(ProgramNote(BETWEEN), UserHistoryItem(WORDS), make_tool_response("I look.", 3)),
    ]
    last_items: list[HistoryItem] = [make_tool_response("", 4, 5)]
    return [
        _make_trial(profile, first, PROMPT),
        _make_trial(profile, later, PROMPT, EARLIER, BETWEEN),
        _make_trial(profile, later + last_items, PROMPT, EARLIER, BETWEEN),
    ]


def _make_tool_response(ids: WireIds, text: str, *numbers: int) -> ModelResponse:
    calls = [
        ToolCall(uid=f"c{number}.0", name="read_file", arguments={"path": f"{number}.txt"}) for number in numbers
    ]
    records = [CallRecord(call, ids.assign_id(call), answer="It is empty.") for call in calls]
    return ModelResponse(text, AssistantMessage(text=text, calls=tuple(calls)), records)


def _make_trial(profile: EndpointProfile, items: list[HistoryItem], *marks: str) -> ChatTemplateProbe:
    history = History(items, [GATE], frozenset())
    wire = wire_for(profile)
    messages, system = wire.make_messages(make_request_items(history, PROMPT, profile, "", ""), profile)
    return ChatTemplateProbe(Payload(messages, [_TOOL], "none", system=system), (*marks, WORDS, GATE))
