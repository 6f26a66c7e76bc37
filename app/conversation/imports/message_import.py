"""Convert `messages` lists of other programs, however malformed, to events.

The projection of these events is a valid history. Repaired are: calls without a result, orphan and duplicate
results, empty responses, consecutive user messages, outdated and repeated system prompts, repeated or missing call
ids. No text of the user is lost.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from app.conversation.events import (
    AssistantMessage,
    CallOutcome,
    Event,
    Intervention,
    InterventionKind,
    ToolCall,
    ToolResult,
    UserMessage,
)
from app.conversation.payload.tool_calls import replace_surrogates

NO_RESULT = "No result of this call is in the imported history; whether it ran is unknown."
_USER_ROLES = frozenset({"user", "human"})
_MODEL_ROLES = frozenset({"assistant", "model", "ai"})
_SYSTEM_ROLES = frozenset({"system", "developer"})
_RESULT_ROLES = frozenset({"tool", "function"})
_KNOWN_FIELDS = frozenset({"role", "content", "tool_calls", "function_call", "reasoning_content", "name", "refusal"})


def import_messages(messages: Iterable[Any], *, repairs: Counter[str] | None = None) -> list[Event]:
    """Return the events for a list of OpenAI-style messages; takes linear time and accepts any list.

    A first system message is the old prompt and is skipped. Others become interventions, each distinct text once.

    Args:
        messages: dicts with a `role`; other entries are skipped.
        repairs: counter to update with the number of repairs by description, e.g. `calls without a result`.
    """
    reader = _MessageConverter()
    for message in messages:
        if isinstance(message, Mapping):
            reader.read(message)
    reader.close_calls()
    if repairs is not None:
        repairs.update(reader.repairs)
    return reader.events


class _MessageConverter:
    def __init__(self) -> None:
        self.events: list[Event] = []
        self.repairs: Counter[str] = Counter()
        self._next_id = 1
        self._response_count = 0
        self._conversation_started = False
        self._prompts: set[str] = set()
        """Texts of the system messages so far; repeated ones are skipped."""
        self._open_calls: dict[str, ToolCall] = {}
        """Calls of the last response without a result, by uid, in order."""
        self._uids_by_wire_id: dict[str, list[str]] = {}
        """Uids of the calls in the latest response that used a wire id."""
        self._answered_uids: set[str] = set()

    def read(self, message: Mapping[str, Any]) -> None:
        """Convert the next message."""
        role = message.get("role")
        if not isinstance(role, str):
            return
        text = content_text(message.get("content"))
        if role in _SYSTEM_ROLES:
            self._add_system_message(text)
        elif role in _USER_ROLES:
            self._conversation_started = True
            if text.strip():
                self._add(UserMessage(id=self._next_id, text=text))
        elif role in _MODEL_ROLES:
            self._conversation_started = True
            self._add_response(message, text)
        elif role in _RESULT_ROLES:
            self._add_result(message, text)
        else:
            self.repairs["messages of other roles"] += 1

    def close_calls(self) -> None:
        """Add a result that says "unknown" to each call without a result."""
        for uid in self._open_calls:
            self.repairs["calls without a result"] += 1
            self._add(ToolResult(id=self._next_id, call=uid, outcome=CallOutcome.ABORTED, text=NO_RESULT))
        self._open_calls = {}

    def _add(self, event: Event) -> None:
        self.events.append(event)
        self._next_id += 1

    def _add_system_message(self, text: str) -> None:
        if not text.strip():
            return
        is_prompt = not self._conversation_started and not self._prompts
        if is_prompt or text in self._prompts:
            self._prompts.add(text)
            self.repairs["old or repeated system prompts"] += 1
            return
        self._prompts.add(text)
        self._add(Intervention(id=self._next_id, kind=InterventionKind.FACT, text=text))

    def _add_response(self, message: Mapping[str, Any], text: str) -> None:
        number = self._response_count
        self._response_count += 1
        raw_calls = message.get("tool_calls")
        calls = [
            _make_call(raw, f"c{number}.{ordinal}")
            for ordinal, raw in enumerate(raw_calls if isinstance(raw_calls, list) else [])
            if isinstance(raw, Mapping)
        ]
        legacy = message.get("function_call")
        if not calls and isinstance(legacy, Mapping):
            calls = [_make_call({"function": legacy}, f"c{number}.0")]
        text = text or content_text(message.get("refusal"))
        reasoning = content_text(message.get("reasoning_content"))
        if not text.strip() and not calls:
            self.repairs["empty responses"] += 1
            return
        self.close_calls()
        self.repairs["calls with arguments that are no JSON object"] += sum(call.arguments is None for call in calls)
        extras = {key: value for key, value in message.items() if isinstance(key, str) and key not in _KNOWN_FIELDS}
        self._add(
            AssistantMessage(id=self._next_id, text=text, reasoning=reasoning, calls=tuple(calls), extras=extras)
        )
        self._open_calls = {call.uid: call for call in calls}
        for wire_id in {call.wire_id for call in calls}:
            self._uids_by_wire_id[wire_id] = [call.uid for call in calls if call.wire_id == wire_id]

    def _add_result(self, message: Mapping[str, Any], text: str) -> None:
        uid = self._find_call_uid(message)
        if uid is None:
            self.repairs["results without a call"] += 1
            return
        self.repairs["second results of a call"] += uid in self._answered_uids
        self._open_calls.pop(uid, None)
        self._answered_uids.add(uid)
        self._add(ToolResult(id=self._next_id, call=uid, outcome=CallOutcome.OK, text=text))

    def _find_call_uid(self, message: Mapping[str, Any]) -> str | None:
        """Return the uid of a result's call: by wire id, else the first open call of that name, or of any name."""
        wire_id = message.get("tool_call_id")
        if isinstance(wire_id, str) and wire_id:
            uids = self._uids_by_wire_id.get(wire_id)
            if uids is None:
                return None
            return next((uid for uid in uids if uid not in self._answered_uids), uids[-1])
        name = message.get("name")
        same_name = (uid for uid, call in self._open_calls.items() if call.name == name)
        return next(same_name, None) or next(iter(self._open_calls), None)


def _make_call(raw: Mapping[str, Any], uid: str) -> ToolCall:
    function = raw.get("function")
    function = function if isinstance(function, Mapping) else {}
    arguments, raw_arguments, invalid = _parse_arguments(function.get("arguments"))
    return ToolCall(
        uid=uid,
        wire_id=raw["id"] if isinstance(raw.get("id"), str) else "",
        name=function["name"] if isinstance(function.get("name"), str) else "",
        arguments=arguments,
        raw_arguments=raw_arguments,
        invalid=invalid,
        extras={
            key: value for key, value in raw.items() if isinstance(key, str) and key not in {"id", "type", "function"}
        },
    )


def _parse_arguments(raw: Any) -> tuple[dict[str, Any] | None, str, str]:
    if isinstance(raw, Mapping):
        return {str(key): value for key, value in raw.items()}, "", ""
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return {}, "", ""
    text = raw if isinstance(raw, str) else str(raw)
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        return None, text, f"the arguments are not JSON ({error})"
    if not isinstance(parsed, dict):
        return None, text, "the arguments are not a JSON object"
    return parsed, "", ""


def content_text(content: Any) -> str:
    """Return the text of a `content`: a string, a list of parts, or anything else."""
    match content:
        case None:
            return ""
        case str():
            return replace_surrogates(content)
        case Mapping():
            return _part_text(content)
        case Sequence() if not isinstance(content, bytes):
            return "\n".join(text for text in (_part_text(part) for part in content) if text)
    return str(content)


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return replace_surrogates(part)
    if not isinstance(part, Mapping):
        return ""
    for key in ("text", "content", "refusal"):
        if isinstance(part.get(key), str):
            return replace_surrogates(part[key])
    kind = part.get("type")
    return f"[{kind}]" if isinstance(kind, str) and kind else ""
