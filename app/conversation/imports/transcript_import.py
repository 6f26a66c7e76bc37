"""Import transcripts of other programs: detect the format, limit the size, and count repairs.

The file is untrusted. Lines, file, imported text and number of messages are limited; deeply nested values and invalid
JSON are skipped and counted.
"""

import errno
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.conversation.events import AssistantMessage, Event, ToolResult, UserMessage
from app.conversation.imports.message_import import content_text, import_messages
from app.conversation.payload.tool_calls import replace_surrogates
from app.workspace.reading import read_file

_WRAPPED = ("response_item", "session_meta", "turn_context", "event_msg", "compacted")
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
_CODEX_PROGRAM_TEXT = re.compile(
    r"<(?:environment_context|user_instructions|turn_aborted|permissions instructions|INSTRUCTIONS|skill"
    r"|subagent_notification|collaboration_mode|model_switch|user_shell_command)\b|# AGENTS\.md instructions for "
)
_TAG = re.compile(r"<[A-Za-z_][\w -]*>")


def is_codex_transcript(lines: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether these lines are a rollout of Codex."""
    return any(
        (line.get("type") in _WRAPPED and isinstance(line.get("payload"), dict)) or line.get("type") in _CALLS
        for line in lines
    )


def convert_codex_messages(lines: Sequence[Mapping[str, Any]], repairs: Counter[str]) -> list[dict[str, Any]]:
    """Return the messages of a rollout, and count in `repairs` what is left out."""
    typed = {text.strip() for kind, item in _items(lines) if (text := _codex_typed(kind, item))}
    messages: list[dict[str, Any]] = []
    for kind, item in _items(lines):
        if kind == "thread_rolled_back":
            _roll_back(messages, item.get("num_turns"), repairs)
        elif kind == "message":
            _add_message(messages, item, typed, repairs)
        elif kind in _CALLS:
            _response(messages)["tool_calls"].append(_codex_call(kind, item))
        elif kind in _OUTPUTS:
            content = _output(item.get("output"))
            messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": content})
    return messages


def _items(lines: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Yield the items and events of the lines with their types."""
    for line in lines:
        payload = line.get("payload")
        item = payload if line.get("type") in _WRAPPED and isinstance(payload, dict) else line
        if line.get("type") != "compacted":
            yield item.get("type"), item


def _codex_typed(kind: Any, event: Mapping[str, Any]) -> str:
    """Return the text that the user typed in an event of Codex, in either of its two formats; empty if none."""
    item = event.get("item")
    if kind == "item_completed" and isinstance(item, dict) and item.get("type") == "UserMessage":
        return content_text(item.get("content"))
    return content_text(event.get("message")) if kind == "user_message" else ""


def _add_message(
    messages: list[dict[str, Any]], item: Mapping[str, Any], typed: set[str], repairs: Counter[str]
) -> None:
    text = content_text(item.get("content"))
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
    parts = [content_text([part]) for part in content] if isinstance(content, list) else [text]
    said = [part for part in parts if part.strip() and not _is_of_program(part.strip(), typed)]
    repairs[_LEFT_OUT] += len(said) < len(parts)
    if said:
        messages.append({"role": "user", "content": "\n".join(said)})


def _is_of_program(text: str, typed: set[str]) -> bool:
    return text not in typed and bool(_CODEX_PROGRAM_TEXT.match(text) or (typed and _TAG.match(text)))


def _response(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the last message if it is a response, else append a new response and return it."""
    if messages and messages[-1]["role"] == "assistant":
        return messages[-1]
    return _new_response(messages)


def _new_response(messages: list[dict[str, Any]]) -> dict[str, Any]:
    messages.append({"role": "assistant", "content": "", "tool_calls": []})
    return messages[-1]


def _codex_call(kind: str, item: Mapping[str, Any]) -> dict[str, Any]:
    if kind == "custom_tool_call":
        arguments: Any = {"input": item.get("input")}
    else:
        arguments = item.get("action") if kind == "local_shell_call" else item.get("arguments")
    name = "local_shell" if kind == "local_shell_call" else item.get("name")
    return {"id": item.get("call_id"), "type": "function", "function": {"name": name, "arguments": arguments}}


def _output(output: Any) -> str:
    """Return the text of an output; some releases of Codex wrap it in JSON with metadata."""
    if isinstance(output, str) and output.startswith('{"output":'):
        try:
            output = json.loads(output)
        except (ValueError, RecursionError):
            return content_text(output)
    if isinstance(output, dict):
        output = output.get("output", output.get("content", ""))
    return content_text(output)


def _roll_back(messages: list[dict[str, Any]], turns: Any, repairs: Counter[str]) -> None:
    """Remove the messages of the last `turns` turns, which the user rolled back."""
    starts = [number for number, message in enumerate(messages) if message["role"] == "user"]
    if isinstance(turns, int) and 0 < turns <= len(starts):
        first = starts[-turns]
        repairs["messages that the user went back from"] += len(messages) - first
        del messages[first:]


_BY_THE_PROGRAM = ("isMeta", "isSidechain", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
_PROGRAM_TEXT = re.compile(
    r"<(?:local-command-stdout|local-command-stderr|local-command-caveat|bash-stdout|bash-stderr|task-notification"
    r"|system-reminder|user-prompt-submit-hook)\b|\[Request interrupted by user"
    r"|Caveat: The messages below were generated by the user while running local commands"
)
_REMINDER, _REMINDER_END = "<system-reminder>", "</system-reminder>"
_LEFT_OUT = "texts of the other program"
_IMAGE = "[image]"


def is_claude_transcript(lines: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether these lines are a session of Claude Code."""
    return any(
        line.get("type") in ("user", "assistant") and isinstance(line.get("message"), dict) and "role" not in line
        for line in lines
    )


def has_anthropic_blocks(message: Mapping[str, Any]) -> bool:
    """Return whether a message has tool calls or results in Anthropic's format."""
    content = message.get("content")
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") in ("tool_use", "tool_result") for block in content
    )


def convert_claude_messages(lines: Sequence[Mapping[str, Any]], repairs: Counter[str]) -> list[dict[str, Any]]:
    """Return the messages of the branch on which the session ended.

    Args:
        lines: Lines of the file, or `{"message": …}` for each message.
        repairs: Counter to update with what is left out, by description.
    """
    messages: list[dict[str, Any]] = []
    responses: dict[str, dict[str, Any]] = {}
    for line in _last_branch(lines, repairs):
        message = line.get("message")
        # Lines of other types repeat requests as they were sent.
        if not isinstance(message, dict) or line.get("type", message.get("role")) != message.get("role"):
            continue
        if any(line.get(mark) is True for mark in _BY_THE_PROGRAM):
            repairs[_LEFT_OUT] += 1
            continue
        content = message.get("content")
        blocks = content if isinstance(content, list) else [content]
        if message.get("role") == "user":
            said = [*_said(blocks, messages, repairs)]
            if said:
                # Later lines with the same message id belong to a new response.
                responses.clear()
                messages.append({"role": "user", "content": "\n\n".join(said)})
        elif message.get("role") == "assistant":
            name = message.get("id")
            response = responses.get(name) if isinstance(name, str) else None
            if response is None:
                response = {"role": "assistant", "content": "", "reasoning_content": "", "tool_calls": []}
                messages.append(response)
                if isinstance(name, str):
                    responses[name] = response
            _add_blocks(response, blocks)
        elif isinstance(message.get("role"), str):
            messages.append({"role": message["role"], "content": content_text(content)})
    return messages


def _last_branch(lines: Sequence[Mapping[str, Any]], repairs: Counter[str]) -> list[Mapping[str, Any]]:
    """Return the lines without abandoned branches; each line names its parent line."""
    at = {line["uuid"]: number for number, line in enumerate(lines) if isinstance(line.get("uuid"), str)}
    spoken = [number for number, line in enumerate(lines) if _is_spoken(line) and isinstance(line.get("uuid"), str)]
    if not spoken:
        return list(lines)
    path: set[int] = set()
    number: int | None = spoken[-1]
    while number is not None and number not in path:
        path.add(number)
        parent = lines[number].get("parentUuid") or lines[number].get("logicalParentUuid")
        number = at.get(parent) if isinstance(parent, str) else None
    first = min(path)
    named = {_message_id(lines[number]) for number in path} - {""}
    kept: list[Mapping[str, Any]] = []
    for number, line in enumerate(lines):
        # Parallel calls and their results also fork the chain: keep them (results without a call are dropped later).
        beside = _message_id(line) in named or has_anthropic_blocks(line.get("message") or {})
        if number < first or number in path or beside or not _is_spoken(line) or "uuid" not in line:
            kept.append(line)
        else:
            repairs["messages that the user went back from"] += 1
    return kept


def _is_spoken(line: Mapping[str, Any]) -> bool:
    is_message = line.get("type") in ("user", "assistant") and isinstance(line.get("message"), dict)
    return is_message and line.get("isSidechain") is not True


def _message_id(line: Mapping[str, Any]) -> str:
    message = line.get("message")
    name = message.get("id") if isinstance(message, dict) else None
    return name if isinstance(name, str) else ""


def _said(blocks: Sequence[Any], messages: list[dict[str, Any]], repairs: Counter[str]) -> Iterator[str]:
    """Yield the user's texts in a line; append the tool results in it to `messages`."""
    for block in blocks:
        if isinstance(block, dict) and block.get("type") == "tool_result":
            messages.append(
                {
                    "role": "tool",
                    "tool_call_id": block.get("tool_use_id"),
                    "content": content_text(block.get("content")),
                }
            )
        elif isinstance(block, dict) and block.get("type") == "image":
            repairs["images"] += 1
            yield _IMAGE
        else:
            text = content_text(block if isinstance(block, str) else [block]).strip()
            if words := _typed(text, repairs):
                yield words


def _typed(text: str, repairs: Counter[str]) -> str:
    """Return the part of a text that the user typed; the other program may have generated or extended the text."""
    if command := _between(text, "command-name"):
        return f"{command} {_between(text, 'command-args')}".strip()
    if text.startswith("<bash-input>"):
        return f"! {_between(text, 'bash-input')}"
    words = _without_reminders(text)
    if words != text or _PROGRAM_TEXT.match(words):
        repairs[_LEFT_OUT] += 1
    return "" if _PROGRAM_TEXT.match(words) else words


def _without_reminders(text: str) -> str:
    parts: list[str] = []
    at = 0
    while (start := text.find(_REMINDER, at)) >= 0 and (end := text.find(_REMINDER_END, start)) >= 0:
        parts.append(text[at:start])
        at = end + len(_REMINDER_END)
    return "".join((*parts, text[at:])).strip()


def _between(text: str, tag: str) -> str:
    """Return the content of the element `tag` if the text starts with an element; else an empty string."""
    if not text.startswith("<"):
        return ""
    _, found, rest = text.partition(f"<{tag}>")
    inside, closed, _ = rest.partition(f"</{tag}>")
    return inside.strip() if found and closed else ""


def _add_blocks(response: dict[str, Any], blocks: Sequence[Any]) -> None:
    """Add the blocks of a line to a response; each block of a response may be on a separate line."""
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else ""
        if kind == "tool_use":
            function = {"name": block.get("name"), "arguments": block.get("input")}
            response["tool_calls"].append({"id": block.get("id"), "type": "function", "function": function})
        elif kind == "thinking":
            _join(response, "reasoning_content", content_text(block.get("thinking")))
        elif kind != "redacted_thinking":
            _join(response, "content", content_text(block) if isinstance(block, str) else content_text([block]))


def _join(response: dict[str, Any], field: str, text: str) -> None:
    response[field] = "\n\n".join(filter(None, (response[field], text)))


MAX_TRANSCRIPT_BYTES = 128 * 1024 * 1024
"""Largest file."""
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
"""Largest line, or file that is one JSON document."""
_MAX_MESSAGES = 100_000
_MAX_TEXT = 32_000_000
"""Maximum number of imported characters."""
_LONGEST_RESULT = 100_000
"""Maximum number of characters of a tool result."""
_DEEPEST = 32
"""Maximum number of levels of nesting; deeper values are replaced by null."""
_MAX_VALUES = 5_000_000
"""Maximum number of JSON values in all lines."""
_MAX_CONTAINERS = 1_000_000
"""Maximum number of brackets and braces in a line."""
_READ = ("role", "content", "tool_calls", "function_call", "reasoning_content", "name", "refusal", "tool_call_id")
_UNKNOWN = (
    "is no transcript that signoff reads: a session of Claude Code or a rollout of Codex (JSONL), or JSON with a "
    "list of messages"
)


class TranscriptError(Exception):
    """The transcript cannot be imported; the message is one line for the user."""


@dataclass(frozen=True, slots=True)
class ImportedTranscript:
    """Content of an imported file."""

    program: str
    """`Claude Code`, `Codex`, `Anthropic messages` or `OpenAI messages`."""
    events: list[Event]
    repairs: dict[str, int]
    """Number of repairs and omissions by description, e.g. `calls without a result`."""

    def count_events(self, kind: type[UserMessage | AssistantMessage | ToolResult]) -> int:
        """Return the number of events of a kind."""
        return sum(isinstance(event, kind) for event in self.events)


def read_transcript(path: Path) -> ImportedTranscript:
    """Read and convert a transcript; raise TranscriptError if it cannot be imported."""
    try:
        data, _ = read_file(os.path.realpath(path), MAX_TRANSCRIPT_BYTES)
    except OSError as error:
        why = error.strerror or str(error)
        if error.errno == errno.EFBIG:
            why = f"it is larger than {MAX_TRANSCRIPT_BYTES // 1024**2} MB"
        raise TranscriptError(f"Cannot read {path}: {why}.") from error
    except ValueError as error:
        raise TranscriptError(f"Cannot read {path}: {error}.") from error
    repairs: Counter[str] = Counter()
    program, messages = _File(path, data, repairs).messages()
    events = import_messages(_bounded(path, messages, repairs), repairs=repairs)
    if not any(isinstance(event, UserMessage | AssistantMessage) for event in events):
        left_out = "".join(f"; left out: {what} ({count:,})" for what, count in repairs.items() if "MB" in what)
        raise TranscriptError(f"{path} {_UNKNOWN}{left_out}.")
    counted = {what: number for what, number in sorted(repairs.items()) if number}
    return ImportedTranscript(program, [event.model_copy(update={"id": 0}) for event in events], counted)


class _File:
    """Reads the bytes of a file as JSON values.

    Args:
        repairs: Counter of the skipped values.
    """

    def __init__(self, path: Path, data: bytes, repairs: Counter[str]) -> None:
        self._path = path
        self._data = data
        self._repairs = repairs
        self._left = _MAX_VALUES

    def messages(self) -> tuple[str, list[dict[str, Any]]]:
        """Return the name of the program and its messages in OpenAI's format."""
        lines = self._values()
        mappings = [line for line in lines if isinstance(line, dict)]
        if is_codex_transcript(mappings):
            return "Codex", convert_codex_messages(mappings, self._repairs)
        if is_claude_transcript(mappings):
            return "Claude Code", convert_claude_messages(mappings, self._repairs)
        if sum(isinstance(line.get("messages"), list) for line in mappings) > 1:
            raise TranscriptError(
                f"{self._path} holds several conversations, one a line: give a file with one of them."
            )
        listed = lines
        if len(lines) == 1:
            holder = lines[0].get("messages") if isinstance(lines[0], dict) else lines[0]
            listed = holder if isinstance(holder, list) else lines
        found = [message for message in listed if isinstance(message, dict) and isinstance(message.get("role"), str)]
        self._repairs["entries that are no messages"] += len(listed) - len(found)
        if any(map(has_anthropic_blocks, found)):
            wrapped = [{"message": message} for message in found]
            return "Anthropic messages", convert_claude_messages(wrapped, self._repairs)
        return "OpenAI messages", found

    def _values(self) -> list[Any]:
        """Return the file's single JSON document, or else the values of its lines."""
        if len(self._data) <= MAX_DOCUMENT_BYTES and (document := self._parsed(self._data)) is not None:
            return [document]
        if self._data.lstrip()[:1] == b"[":
            size = f"{MAX_DOCUMENT_BYTES // 1024**2} MB"
            raise TranscriptError(f"{self._path} is one JSON document that is damaged or larger than {size}.")
        return list(self._lines())

    def _lines(self) -> Iterator[Any]:
        start = 0
        while start < len(self._data):
            end = self._data.find(b"\n", start)
            end = len(self._data) if end < 0 else end
            if end - start > MAX_DOCUMENT_BYTES:
                self._repairs[f"lines of more than {MAX_DOCUMENT_BYTES // 1024**2} MB"] += 1
            elif line := self._data[start:end].strip():
                value = self._parsed(line)
                if value is None:
                    self._repairs["lines that are no JSON"] += 1
                else:
                    yield value
            start = end + 1

    def _parsed(self, data: bytes) -> Any:
        """Return the cleaned JSON value; None if it is invalid."""
        if data.count(b"{") + data.count(b"[") > _MAX_CONTAINERS:
            # Parsed containers take far more memory than their bytes here.
            raise TranscriptError(f"{self._path} holds more than {_MAX_CONTAINERS:,} JSON values in one line.")
        try:
            value = json.loads(data.decode("utf-8-sig", "replace"))
        except (ValueError, RecursionError):
            return None
        if isinstance(value, dict):
            # Claude Code stores the result of a call a second time for its screen.
            value.pop("toolUseResult", None)
        self._repairs["lines that are no UTF-8"] += _is_damaged(data)
        return self._plain(value, 0)

    def _plain(self, value: Any, depth: int) -> Any:
        """Return the value without lone surrogates, infinite numbers and levels deeper than `_DEEPEST`."""
        self._left -= 1
        if self._left < 0:
            raise TranscriptError(f"{self._path} holds more than {_MAX_VALUES:,} JSON values.")
        match value:
            case str():
                return replace_surrogates(value)
            case float():
                return value if math.isfinite(value) else str(value)
            case int() | None:
                return value
            case dict() | list() if depth >= _DEEPEST:
                self._repairs["values that were nested too deeply"] += 1
                return None
            case dict():
                return {replace_surrogates(key): self._plain(item, depth + 1) for key, item in value.items()}
        return [self._plain(item, depth + 1) for item in value]


def _is_damaged(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return True
    return False


def _bounded(path: Path, messages: list[dict[str, Any]], repairs: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yield the messages with the fields that are imported; raise TranscriptError if they exceed a limit."""
    if len(messages) > _MAX_MESSAGES:
        raise TranscriptError(f"{path} holds more than {_MAX_MESSAGES:,} messages.")
    left = _MAX_TEXT
    for message in messages:
        kept = {name: message[name] for name in _READ if name in message}
        content = kept.get("content")
        if message["role"] in ("tool", "function") and isinstance(content, str) and len(content) > _LONGEST_RESULT:
            kept["content"] = f"{content[:_LONGEST_RESULT]}\n[… {len(content) - _LONGEST_RESULT:,} characters more]"
            repairs["tool results that were cut"] += 1
        if isinstance(calls := kept.get("tool_calls"), list):
            kept["tool_calls"] = [_call(call) for call in calls if isinstance(call, Mapping)]
        left -= len(json.dumps(kept, ensure_ascii=False))
        if left < 0:
            raise TranscriptError(f"{path} holds more than {_MAX_TEXT:,} characters of conversation.")
        yield kept


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    return {name: call[name] for name in ("id", "type", "function") if name in call}
