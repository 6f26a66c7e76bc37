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
from pathlib import Path
from typing import Any

from msgspec import Struct

from app.conversation.events import AssistantMessage, Event, ToolResult, UserMessage
from app.conversation.imports.message_import import content_text, import_messages
from app.conversation.payload.tool_calls import replace_surrogates
from app.workspace.reading import read_regular_file

_WRAPPER_TYPES = ("response_item", "session_meta", "turn_context", "event_msg", "compacted")
_CALL_TYPES = ("function_call", "custom_tool_call", "local_shell_call")
_OUTPUT_TYPES = ("function_call_output", "custom_tool_call_output")
_CODEX_PROGRAM_TEXT = re.compile(
    r"<(?:environment_context|user_instructions|turn_aborted|permissions instructions|INSTRUCTIONS|skill"
    r"|subagent_notification|collaboration_mode|model_switch|user_shell_command)\b|# AGENTS\.md instructions for "
)
_OPENING_TAG = re.compile(r"<[A-Za-z_][\w -]*>")


def is_codex_transcript(lines: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether these lines are a rollout of Codex."""
    return any(
        (line.get("type") in _WRAPPER_TYPES and isinstance(line.get("payload"), dict))
        or line.get("type") in _CALL_TYPES
        for line in lines
    )


def convert_codex_messages(lines: Sequence[Mapping[str, Any]], repairs: Counter[str]) -> list[dict[str, Any]]:
    """Return a Codex session as OpenAI-style messages, and count in `repairs` what is left out."""
    typed = {text.strip() for kind, item in _iterate_items(lines) if (text := _codex_user_text(kind, item))}
    messages: list[dict[str, Any]] = []
    for kind, item in _iterate_items(lines):
        if kind == "thread_rolled_back":
            _roll_back(messages, item.get("num_turns"), repairs)
        elif kind == "message":
            _add_message(messages, item, typed, repairs)
        elif kind in _CALL_TYPES:
            _last_response(messages)["tool_calls"].append(_codex_call(kind, item))
        elif kind in _OUTPUT_TYPES:
            content = _output_text(item.get("output"))
            messages.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": content})
    return messages


def _iterate_items(lines: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
    """Yield the items and events of the lines with their types."""
    for line in lines:
        payload = line.get("payload")
        item = payload if line.get("type") in _WRAPPER_TYPES and isinstance(payload, dict) else line
        if line.get("type") != "compacted":
            yield item.get("type"), item


def _codex_user_text(kind: Any, event: Mapping[str, Any]) -> str:
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
        response = _last_response(messages)
        if response["tool_calls"]:
            response = _new_response(messages)
        response["content"] = "\n\n".join(filter(None, (response["content"], text)))
        return
    if item.get("role") != "user":
        repairs[_PROGRAM_TEXTS_REPAIR] += 1
        return
    content = item.get("content")
    parts = [content_text([part]) for part in content] if isinstance(content, list) else [text]
    user_parts = [part for part in parts if part.strip() and not _is_program_text(part.strip(), typed)]
    repairs[_PROGRAM_TEXTS_REPAIR] += len(user_parts) < len(parts)
    if user_parts:
        messages.append({"role": "user", "content": "\n".join(user_parts)})


def _is_program_text(text: str, typed: set[str]) -> bool:
    return text not in typed and bool(_CODEX_PROGRAM_TEXT.match(text) or (typed and _OPENING_TAG.match(text)))


def _last_response(messages: list[dict[str, Any]]) -> dict[str, Any]:
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


def _output_text(output: Any) -> str:
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


_PROGRAM_FLAGS = ("isMeta", "isSidechain", "isCompactSummary", "isVisibleInTranscriptOnly", "isApiErrorMessage")
_CLAUDE_PROGRAM_TEXT = re.compile(
    r"<(?:local-command-stdout|local-command-stderr|local-command-caveat|bash-stdout|bash-stderr|task-notification"
    r"|system-reminder|user-prompt-submit-hook)\b|\[Request interrupted by user"
    r"|Caveat: The messages below were generated by the user while running local commands"
)
_REMINDER_START, _REMINDER_END = "<system-reminder>", "</system-reminder>"
_PROGRAM_TEXTS_REPAIR = "texts of the other program"
_IMAGE_PLACEHOLDER = "[image]"


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
    """Return a Claude Code session as OpenAI-style messages: only the branch on which it ended.

    Args:
        lines: Lines of the file, or `{"message": …}` for each message.
        repairs: Counter to update with what is left out, by description.
    """
    messages: list[dict[str, Any]] = []
    responses: dict[str, dict[str, Any]] = {}
    for line in _select_last_branch(lines, repairs):
        message = line.get("message")
        # Lines of other types repeat requests as they were sent.
        if not isinstance(message, dict) or line.get("type", message.get("role")) != message.get("role"):
            continue
        if any(line.get(mark) is True for mark in _PROGRAM_FLAGS):
            repairs[_PROGRAM_TEXTS_REPAIR] += 1
            continue
        content = message.get("content")
        blocks = content if isinstance(content, list) else [content]
        if message.get("role") == "user":
            user_texts = [*_iterate_user_texts(blocks, messages, repairs)]
            if user_texts:
                # Later lines with the same message id belong to a new response.
                responses.clear()
                messages.append({"role": "user", "content": "\n\n".join(user_texts)})
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


def _select_last_branch(lines: Sequence[Mapping[str, Any]], repairs: Counter[str]) -> list[Mapping[str, Any]]:
    """Return the lines without abandoned branches; each line names its parent line."""
    positions = {line["uuid"]: number for number, line in enumerate(lines) if isinstance(line.get("uuid"), str)}
    message_lines = [
        number for number, line in enumerate(lines) if _is_message_line(line) and isinstance(line.get("uuid"), str)
    ]
    if not message_lines:
        return list(lines)
    path: set[int] = set()
    number: int | None = message_lines[-1]
    while number is not None and number not in path:
        path.add(number)
        parent = lines[number].get("parentUuid") or lines[number].get("logicalParentUuid")
        number = positions.get(parent) if isinstance(parent, str) else None
    first = min(path)
    response_ids = {_message_id(lines[number]) for number in path} - {""}
    kept: list[Mapping[str, Any]] = []
    for number, line in enumerate(lines):
        # Parallel calls and their results also fork the chain: keep them (results without a call are dropped later).
        belongs_to_response = _message_id(line) in response_ids or has_anthropic_blocks(line.get("message") or {})
        if (
            number < first
            or number in path
            or belongs_to_response
            or not _is_message_line(line)
            or "uuid" not in line
        ):
            kept.append(line)
        else:
            repairs["messages that the user went back from"] += 1
    return kept


def _is_message_line(line: Mapping[str, Any]) -> bool:
    is_message = line.get("type") in ("user", "assistant") and isinstance(line.get("message"), dict)
    return is_message and line.get("isSidechain") is not True


def _message_id(line: Mapping[str, Any]) -> str:
    message = line.get("message")
    name = message.get("id") if isinstance(message, dict) else None
    return name if isinstance(name, str) else ""


def _iterate_user_texts(
    blocks: Sequence[Any], messages: list[dict[str, Any]], repairs: Counter[str]
) -> Iterator[str]:
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
            yield _IMAGE_PLACEHOLDER
        else:
            text = content_text(block if isinstance(block, str) else [block]).strip()
            if typed_text := _typed_part(text, repairs):
                yield typed_text


def _typed_part(text: str, repairs: Counter[str]) -> str:
    """Return the part of a text that the user typed; the other program may have generated or extended the text."""
    if command := _element_content(text, "command-name"):
        return f"{command} {_element_content(text, 'command-args')}".strip()
    if text.startswith("<bash-input>"):
        return f"! {_element_content(text, 'bash-input')}"
    typed_text = _without_reminders(text)
    if typed_text != text or _CLAUDE_PROGRAM_TEXT.match(typed_text):
        repairs[_PROGRAM_TEXTS_REPAIR] += 1
    return "" if _CLAUDE_PROGRAM_TEXT.match(typed_text) else typed_text


def _without_reminders(text: str) -> str:
    parts: list[str] = []
    position = 0
    while (start := text.find(_REMINDER_START, position)) >= 0 and (end := text.find(_REMINDER_END, start)) >= 0:
        parts.append(text[position:start])
        position = end + len(_REMINDER_END)
    return "".join((*parts, text[position:])).strip()


def _element_content(text: str, tag: str) -> str:
    """Return the content of the element `tag` if the text starts with an element; else an empty string."""
    if not text.startswith("<"):
        return ""
    _, opening, rest = text.partition(f"<{tag}>")
    content, closing, _ = rest.partition(f"</{tag}>")
    return content.strip() if opening and closing else ""


def _add_blocks(response: dict[str, Any], blocks: Sequence[Any]) -> None:
    """Add the blocks of a line to a response; each block of a response may be on a separate line."""
    for block in blocks:
        kind = block.get("type") if isinstance(block, dict) else ""
        if kind == "tool_use":
            function = {"name": block.get("name"), "arguments": block.get("input")}
            response["tool_calls"].append({"id": block.get("id"), "type": "function", "function": function})
        elif kind == "thinking":
            _append_text(response, "reasoning_content", content_text(block.get("thinking")))
        elif kind != "redacted_thinking":
            _append_text(
                response, "content", content_text(block) if isinstance(block, str) else content_text([block])
            )


def _append_text(response: dict[str, Any], field: str, text: str) -> None:
    response[field] = "\n\n".join(filter(None, (response[field], text)))


MAX_TRANSCRIPT_BYTES = 128 * 1024 * 1024
"""Largest file."""
MAX_DOCUMENT_BYTES = 16 * 1024 * 1024
"""Largest line, or file that is one JSON document."""
_MAX_MESSAGES = 100_000
_MAX_TEXT_CHARACTERS = 32_000_000
"""Maximum number of imported characters."""
_MAX_RESULT_CHARACTERS = 100_000
"""Maximum number of characters of a tool result."""
_MAX_DEPTH = 32
"""Maximum number of levels of nesting; deeper values are replaced by null."""
_MAX_VALUES = 5_000_000
"""Maximum number of JSON values in all lines."""
_MAX_CONTAINERS = 1_000_000
"""Maximum number of brackets and braces in a line."""
_IMPORTED_FIELDS = (
    "role",
    "content",
    "tool_calls",
    "function_call",
    "reasoning_content",
    "name",
    "refusal",
    "tool_call_id",
)
_CALL_FIELDS = ("id", "type", "function")
_UNKNOWN_FORMAT = (
    "is no transcript that signoff reads: a session of Claude Code or a rollout of Codex (JSONL), or JSON with a "
    "list of messages"
)


class TranscriptError(Exception):
    """The transcript cannot be imported; the message is one line for the user."""


class ImportedTranscript(Struct, frozen=True):
    """The events of an imported transcript, the program that wrote it, and the repairs that were made."""

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
        data, _ = read_regular_file(os.path.realpath(path), MAX_TRANSCRIPT_BYTES)
    except OSError as error:
        why = error.strerror or str(error)
        if error.errno == errno.EFBIG:
            why = f"it is larger than {MAX_TRANSCRIPT_BYTES // 1024**2} MB"
        raise TranscriptError(f"Cannot read {path}: {why}.") from error
    except ValueError as error:
        raise TranscriptError(f"Cannot read {path}: {error}.") from error
    repairs: Counter[str] = Counter()
    program, messages = _TranscriptFile(path, data, repairs).messages()
    events = import_messages(_limit_messages(path, messages, repairs), repairs=repairs)
    if not any(isinstance(event, UserMessage | AssistantMessage) for event in events):
        left_out = "".join(
            f"; left out: {description} ({count:,})" for description, count in repairs.items() if "MB" in description
        )
        raise TranscriptError(f"{path} {_UNKNOWN_FORMAT}{left_out}.")
    nonzero_repairs = {description: number for description, number in sorted(repairs.items()) if number}
    return ImportedTranscript(program, [event.model_copy(update={"id": 0}) for event in events], nonzero_repairs)


class _TranscriptFile:
    """Reads the bytes of a file as JSON values.

    Args:
        repairs: Counter of the skipped values.
    """

    def __init__(self, path: Path, data: bytes, repairs: Counter[str]) -> None:
        self._path = path
        self._data = data
        self._repairs = repairs
        self._values_left = _MAX_VALUES

    def messages(self) -> tuple[str, list[dict[str, Any]]]:
        """Return the name of the program and its messages in OpenAI's format."""
        lines = self._read_values()
        mappings = [line for line in lines if isinstance(line, dict)]
        if is_codex_transcript(mappings):
            return "Codex", convert_codex_messages(mappings, self._repairs)
        if is_claude_transcript(mappings):
            return "Claude Code", convert_claude_messages(mappings, self._repairs)
        if sum(isinstance(line.get("messages"), list) for line in mappings) > 1:
            raise TranscriptError(
                f"{self._path} holds several conversations, one a line: give a file with one of them."
            )
        entries = lines
        if len(lines) == 1:
            holder = lines[0].get("messages") if isinstance(lines[0], dict) else lines[0]
            entries = holder if isinstance(holder, list) else lines
            if holder is not lines[0] and "system" in lines[0]:
                entries = [{"role": "system", "content": lines[0]["system"]}, *entries]
        messages = [
            message for message in entries if isinstance(message, dict) and isinstance(message.get("role"), str)
        ]
        self._repairs["entries that are no messages"] += len(entries) - len(messages)
        if any(map(has_anthropic_blocks, messages)):
            wrapped = [{"message": message} for message in messages]
            return "Anthropic messages", convert_claude_messages(wrapped, self._repairs)
        return "OpenAI messages", messages

    def _read_values(self) -> list[Any]:
        """Return the file's single JSON document, or else the values of its lines."""
        if len(self._data) <= MAX_DOCUMENT_BYTES and (document := self._parse(self._data)) is not None:
            return [document]
        if self._data.lstrip()[:1] == b"[":
            size = f"{MAX_DOCUMENT_BYTES // 1024**2} MB"
            raise TranscriptError(f"{self._path} is one JSON document that is damaged or larger than {size}.")
        return list(self._iterate_line_values())

    def _iterate_line_values(self) -> Iterator[Any]:
        start = 0
        while start < len(self._data):
            end = self._data.find(b"\n", start)
            end = len(self._data) if end < 0 else end
            if end - start > MAX_DOCUMENT_BYTES:
                self._repairs[f"lines of more than {MAX_DOCUMENT_BYTES // 1024**2} MB"] += 1
            elif line := self._data[start:end].strip():
                value = self._parse(line)
                if value is None:
                    self._repairs["lines that are no JSON"] += 1
                else:
                    yield value
            start = end + 1

    def _parse(self, data: bytes) -> Any:
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
        return self._clean(value, 0)

    def _clean(self, value: Any, depth: int) -> Any:
        """Return the value without lone surrogates, infinite numbers and levels deeper than `_MAX_DEPTH`."""
        self._values_left -= 1
        if self._values_left < 0:
            raise TranscriptError(f"{self._path} holds more than {_MAX_VALUES:,} JSON values.")
        match value:
            case str():
                return replace_surrogates(value)
            case float():
                return value if math.isfinite(value) else str(value)
            case int() | None:
                return value
            case dict() | list() if depth >= _MAX_DEPTH:
                self._repairs["values that were nested too deeply"] += 1
                return None
            case dict():
                return {replace_surrogates(key): self._clean(item, depth + 1) for key, item in value.items()}
        return [self._clean(item, depth + 1) for item in value]


def _is_damaged(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return True
    return False


def _limit_messages(path: Path, messages: list[dict[str, Any]], repairs: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yield the messages with the fields that are imported; raise TranscriptError if they exceed a limit."""
    if len(messages) > _MAX_MESSAGES:
        raise TranscriptError(f"{path} holds more than {_MAX_MESSAGES:,} messages.")
    characters_left = _MAX_TEXT_CHARACTERS
    for message in messages:
        imported = {name: message[name] for name in _IMPORTED_FIELDS if name in message}
        content = imported.get("content")
        if (
            message["role"] in ("tool", "function")
            and isinstance(content, str)
            and len(content) > _MAX_RESULT_CHARACTERS
        ):
            imported["content"] = (
                f"{content[:_MAX_RESULT_CHARACTERS]}\n[… {len(content) - _MAX_RESULT_CHARACTERS:,} characters more]"
            )
            repairs["tool results that were cut"] += 1
        if isinstance(calls := imported.get("tool_calls"), list):
            mappings = [call for call in calls if isinstance(call, Mapping)]
            imported["tool_calls"] = [
                {name: call[name] for name in _CALL_FIELDS if name in call} for call in mappings
            ]
        characters_left -= len(json.dumps(imported, ensure_ascii=False))
        if characters_left < 0:
            raise TranscriptError(f"{path} holds more than {_MAX_TEXT_CHARACTERS:,} characters of conversation.")
        yield imported
