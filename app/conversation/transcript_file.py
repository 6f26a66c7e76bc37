"""Reads the transcript of another program as events of a session: tells formats apart, bounds all, says what it did.

The file may come from anyone. A line, the file, the text that is kept and the number of messages have limits; what is
nested deeply or is no JSON is left out and counted.
"""

import errno
import json
import math
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.conversation.claude_transcript import claude_messages, has_blocks, is_claude
from app.conversation.codex_transcript import codex_messages, is_codex
from app.conversation.events import AssistantMessage, Event, ToolResult, UserMessage
from app.conversation.imported_messages import import_messages
from app.conversation.payload.wire_arguments import replace_surrogates
from app.workspace.reading import read_file

LARGEST_FILE = 128 * 1024 * 1024
"""Bytes."""
LARGEST_DOCUMENT = 16 * 1024 * 1024
"""Bytes of a line, or of a file that is one document."""
_MOST_MESSAGES = 100_000
_MOST_TEXT = 32_000_000
"""Characters of all that is kept."""
_LONGEST_RESULT = 100_000
"""Characters of a tool's result."""
_DEEPEST = 32
"""Levels of a JSON document; deeper ones are replaced by their absence."""
_MOST_VALUES = 5_000_000
"""JSON values in all lines."""
_MOST_CONTAINERS = 1_000_000
"""Brackets and braces in a line."""
_READ = ("role", "content", "tool_calls", "function_call", "reasoning_content", "name", "refusal", "tool_call_id")
_UNKNOWN = (
    "is no transcript that signoff reads: a session of Claude Code or a rollout of Codex (JSONL), or JSON with a "
    "list of messages"
)


class TranscriptError(Exception):
    """Why nothing can be imported, as a line for the user."""


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was read of a file."""

    program: str
    """`Claude Code`, `Codex` or `OpenAI messages`."""
    events: list[Event]
    repairs: dict[str, int]
    """What was put right or left out, and how often: `calls without a result`."""

    def count(self, kind: type[UserMessage | AssistantMessage | ToolResult]) -> int:
        """How many events of a kind there are."""
        return sum(isinstance(event, kind) for event in self.events)


def read_transcript(path: Path) -> Transcript:
    """Read a transcript; raises TranscriptError."""
    try:
        data, _ = read_file(os.path.realpath(path), LARGEST_FILE)
    except OSError as error:
        why = error.strerror or str(error)
        if error.errno == errno.EFBIG:
            why = f"it is larger than {LARGEST_FILE // 1024**2} MB"
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
    return Transcript(program, [event.model_copy(update={"id": 0}) for event in events], counted)


class _File:
    """The bytes of a file as JSON values.

    Args:
        path: For errors.
        data: The bytes.
        repairs: Counts what is left out.
    """

    def __init__(self, path: Path, data: bytes, repairs: Counter[str]) -> None:
        self._path = path
        self._data = data
        self._repairs = repairs
        self._left = _MOST_VALUES

    def messages(self) -> tuple[str, list[dict[str, Any]]]:
        """The name of the program, and its messages in OpenAI's form."""
        lines = self._values()
        mappings = [line for line in lines if isinstance(line, dict)]
        if is_codex(mappings):
            return "Codex", codex_messages(mappings, self._repairs)
        if is_claude(mappings):
            return "Claude Code", claude_messages(mappings, self._repairs)
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
        if any(map(has_blocks, found)):
            wrapped = [{"message": message} for message in found]
            return "Anthropic messages", claude_messages(wrapped, self._repairs)
        return "OpenAI messages", found

    def _values(self) -> list[Any]:
        """The file as one JSON document, or else its lines."""
        if len(self._data) <= LARGEST_DOCUMENT and (document := self._parsed(self._data)) is not None:
            return [document]
        if self._data.lstrip()[:1] == b"[":
            size = f"{LARGEST_DOCUMENT // 1024**2} MB"
            raise TranscriptError(f"{self._path} is one JSON document that is damaged or larger than {size}.")
        return list(self._lines())

    def _lines(self) -> Iterator[Any]:
        start = 0
        while start < len(self._data):
            end = self._data.find(b"\n", start)
            end = len(self._data) if end < 0 else end
            if end - start > LARGEST_DOCUMENT:
                self._repairs[f"lines of more than {LARGEST_DOCUMENT // 1024**2} MB"] += 1
            elif line := self._data[start:end].strip():
                value = self._parsed(line)
                if value is None:
                    self._repairs["lines that are no JSON"] += 1
                else:
                    yield value
            start = end + 1

    def _parsed(self, data: bytes) -> Any:
        """The JSON value, in a form that can be kept; None for none."""
        if data.count(b"{") + data.count(b"[") > _MOST_CONTAINERS:
            # Each takes far more memory than it takes bytes here.
            raise TranscriptError(f"{self._path} holds more than {_MOST_CONTAINERS:,} JSON values in one line.")
        try:
            value = json.loads(data.decode("utf-8-sig", "replace"))
        except (ValueError, RecursionError):
            return None
        if isinstance(value, dict):
            # Of Claude Code: the result of a call once more, for its screen.
            value.pop("toolUseResult", None)
        self._repairs["lines that are no UTF-8"] += _is_damaged(data)
        return self._plain(value, 0)

    def _plain(self, value: Any, depth: int) -> Any:
        """The value with no half surrogates, no infinite numbers, and no deeper levels than are kept."""
        self._left -= 1
        if self._left < 0:
            raise TranscriptError(f"{self._path} holds more than {_MOST_VALUES:,} JSON values.")
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
    """The messages with the fields that are read; raises TranscriptError where they are too many or too long."""
    if len(messages) > _MOST_MESSAGES:
        raise TranscriptError(f"{path} holds more than {_MOST_MESSAGES:,} messages.")
    left = _MOST_TEXT
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
            raise TranscriptError(f"{path} holds more than {_MOST_TEXT:,} characters of conversation.")
        yield kept


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    return {name: call[name] for name in ("id", "type", "function") if name in call}
