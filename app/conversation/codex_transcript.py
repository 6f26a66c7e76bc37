"""Codex's rollout files as messages in OpenAI's form.

A line wraps an item of the Responses API, or in early releases is one. Items of role `user` hold what the user typed
and what the program says of itself; the events beside them have what was typed.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from app.conversation.imported_messages import text_of

_WRAPPED = ("response_item", "session_meta", "turn_context", "event_msg", "compacted")
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_PROGRAM_TEXT = re.compile(
    r"<(?:environment_context|user_instructions|turn_aborted|permissions instructions|INSTRUCTIONS|skill"
    r"|subagent_notification|collaboration_mode|model_switch|user_shell_command)\b|# AGENTS\.md instructions for "
)
_TAG = re.compile(r"<[A-Za-z_][\w -]*>")
_LEFT_OUT = "texts of the other program"


def is_codex(lines: Sequence[Mapping[str, Any]]) -> bool:
    """Whether these are lines of a rollout."""
    return any(
        (line.get("type") in _WRAPPED and isinstance(line.get("payload"), dict)) or line.get("type") in _CALLS
        for line in lines
    )


def codex_messages(lines: Sequence[Mapping[str, Any]], repairs: Counter[str]) -> list[dict[str, Any]]:
    """The messages of a rollout; `repairs` is that of `import_messages`."""
    typed = {text.strip() for kind, item in _items(lines) if (text := _typed(kind, item))}
    messages: list[dict[str, Any]] = []
    for kind, item in _items(lines):
        if kind == "thread_rolled_back":
            _roll_back(messages, item.get("num_turns"), repairs)
        elif kind == "message":
            _add_message(messages, item, typed, repairs)
        elif kind in _CALLS:
            _response(messages)["tool_calls"].append(_call(kind, item))
        elif kind in _OUTPUTS:
            content = _output(item.get("output"))
            messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": content})
    return messages


def _items(lines: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Items and events, with their types."""
    for line in lines:
        payload = line.get("payload")
        item = payload if line.get("type") in _WRAPPED and isinstance(payload, dict) else line
        if line.get("type") != "compacted":
            yield item.get("type"), item


def _typed(kind: Any, event: Mapping[str, Any]) -> str:
    """What the user typed, if the event says that; two ways, by release."""
    item = event.get("item")
    if kind == "item_completed" and isinstance(item, dict) and item.get("type") == "UserMessage":
        return text_of(item.get("content"))
    return text_of(event.get("message")) if kind == "user_message" else ""


def _add_message(
    messages: list[dict[str, Any]], item: Mapping[str, Any], typed: set[str], repairs: Counter[str]
) -> None:
    text = text_of(item.get("content"))
    if item.get("role") == "assistant":
        response = _response(messages)
        if response["tool_calls"]:
            response = _new_response(messages)
        response["content"] = "\n\n".join(filter(None, (response["content"], text)))
        return
    if item.get("role") != "user":
        repairs[_LEFT_OUT] += 1
        return
    content = item.get("content")
    parts = [text_of([part]) for part in content] if isinstance(content, list) else [text]
    said = [part for part in parts if part.strip() and not _is_of_program(part.strip(), typed)]
    repairs[_LEFT_OUT] += len(said) < len(parts)
    if said:
        messages.append({"role": "user", "content": "\n".join(said)})


def _is_of_program(text: str, typed: set[str]) -> bool:
    return text not in typed and bool(_PROGRAM_TEXT.match(text) or (typed and _TAG.match(text)))


def _response(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The response that an item belongs to: the last message, or a new one."""
    if messages and messages[-1]["role"] == "assistant":
        return messages[-1]
    return _new_response(messages)


def _new_response(messages: list[dict[str, Any]]) -> dict[str, Any]:
    messages.append({"role": "assistant", "content": "", "tool_calls": []})
    return messages[-1]


def _call(kind: str, item: Mapping[str, Any]) -> dict[str, Any]:
    if kind == "custom_tool_call":
        arguments: Any = {"input": item.get("input")}
    else:
        arguments = item.get("action") if kind == "local_shell_call" else item.get("arguments")
    name = "local_shell" if kind == "local_shell_call" else item.get("name")
    return {"id": item.get("call_id"), "type": "function", "function": {"name": name, "arguments": arguments}}


def _output(output: Any) -> str:
    """The text of an output, which some releases wrap in JSON with facts about it."""
    if isinstance(output, str) and output.startswith('{"output":'):
        try:
            output = json.loads(output)
        except (ValueError, RecursionError):
            return text_of(output)
    if isinstance(output, dict):
        output = output.get("output", output.get("content", ""))
    return text_of(output)


def _roll_back(messages: list[dict[str, Any]], turns: Any, repairs: Counter[str]) -> None:
    """Take back the last turns, as the user did."""
    starts = [number for number, message in enumerate(messages) if message["role"] == "user"]
    if isinstance(turns, int) and 0 < turns <= len(starts):
        first = starts[-turns]
        repairs["messages that the user went back from"] += len(messages) - first
        del messages[first:]
