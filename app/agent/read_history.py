"""Determine from the log what the model had read of the workspace before it wrote an edit."""

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct, field

from app.concurrency import iterate_when_event_loop_idle
from app.conversation.events import (
    AssistantMessage,
    Event,
    ProposalStaged,
    ToolCall,
    ToolResult,
    UserAnswer,
    UserMessage,
)
from app.proposals.risk.read_reasons import FileReadHistory, ModelReadsBeforeEdit

_TOOLS_WITHOUT_CONTENT = ("list_files", "ask_user", "write_todos", "read_skill", "find_tools")
"""Tools whose arguments or results may name a file without showing its content."""
_EDIT_TOOLS = ("edit_file", "write_file", "apply_patch", "delete_file", "rename_file")
_NAME_PATTERN = re.compile(r"(?:\\b|def |class )?([A-Za-z_]\w{3,})(?:\\b|\\?\()?")
"""A search pattern for a single name."""
_LINE_NUMBER = re.compile(r"^\d+\t")


class _FileSeen(Struct):
    """What the log shows about one file, up to an event."""

    versions: set[str] = field(default_factory=set)
    pages: list[tuple[str, str]] = field(default_factory=list)
    texts: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    is_known: bool = False

    def add_lines(self, lines: Iterable[str]) -> None:
        """Add lines that the model was shown."""
        self.is_known = True
        self.texts.update(stripped for line in lines if (stripped := line.strip()))


def find_reads_before_message(
    events: Sequence[Event], message: AssistantMessage, paths: Collection[str]
) -> ModelReadsBeforeEdit:
    """Return what the model had read when it wrote `message`; blocks: call it on a thread.

    Args:
        message: The response with the edit calls.
    """
    seen = {path: _FileSeen() for path in paths}
    calls: dict[str, ToolCall] = {}
    read: set[str] = set()
    searches: dict[str, tuple[str, ...]] = {}
    user_lines: set[str] = set()
    request = ""
    for event in iterate_when_event_loop_idle(events):
        if event.id >= message.id:
            break
        match event:
            case UserMessage():
                request = event.typed_text
                user_lines.update(line.strip() for line in event.text.splitlines())
            case UserAnswer():
                user_lines.update(line.strip() for line in event.text.splitlines())
            case AssistantMessage():
                calls |= {call.uid: call for call in event.calls}
                for call in event.calls:
                    _record_arguments(call, seen)
            case ProposalStaged():
                for path in seen.keys() & event.versions.keys():
                    seen[path].versions.add(event.versions[path])
            case ToolResult() if event.call in calls:
                read |= event.reads.keys()
                _record_result(event, calls[event.call], seen, searches)
            case _:
                pass
    edits = [text for call in message.calls if call.name in _EDIT_TOOLS for text in _string_values(call.arguments)]
    return ModelReadsBeforeEdit(
        request,
        {
            path: FileReadHistory(
                frozenset(file_seen.versions),
                tuple(file_seen.pages),
                frozenset(file_seen.texts),
                frozenset(file_seen.written),
                file_seen.is_known,
            )
            for path, file_seen in seen.items()
        },
        frozenset(read),
        searches,
        frozenset(user_lines),
        frozenset(path for path in paths if any(path in text for text in edits)),
    )


def find_reads_before_proposal(
    events: Sequence[Event], proposal: str, paths: Collection[str]
) -> ModelReadsBeforeEdit | None:
    """Return what the model had read when it wrote a proposal; None if it is not in the log; call it on a thread."""
    found = (event for event in reversed(events) if isinstance(event, ProposalStaged) and event.proposal == proposal)
    staged = next(found, None)
    wanted = set(staged.calls) if staged is not None else set()
    for event in events:
        if isinstance(event, AssistantMessage) and wanted.intersection(call.uid for call in event.calls):
            return find_reads_before_message(events, event, paths)
    return None


def _record_arguments(call: ToolCall, seen: dict[str, _FileSeen]) -> None:
    """Note the files that a call names, and the lines that an edit writes to them."""
    if call.name in (*_TOOLS_WITHOUT_CONTENT, "read_file", "search_text"):
        return
    texts = list(_string_values(call.arguments))
    for path, file_seen in seen.items():
        name = path.rpartition("/")[2]
        if any(name in text for text in texts):
            # Remove the diff signs of a patch.
            file_seen.is_known = True
            lines = (line.strip("+- \t") for text in texts for line in text.splitlines())
            file_seen.written.update(line for line in lines if line)


def _record_result(
    result: ToolResult, call: ToolCall, seen: dict[str, _FileSeen], searches: dict[str, tuple[str, ...]]
) -> None:
    for path in seen.keys() & result.reads.keys():
        page = (result.reads[path], result.summary)
        if page not in seen[path].pages:
            seen[path].versions.add(page[0])
            seen[path].pages.append(page)
            seen[path].add_lines(_LINE_NUMBER.sub("", line) for line in result.text.splitlines())
    if call.name == "search_text":
        found: dict[str, list[str]] = {}
        lines: list[str] = []
        for line in result.text.splitlines():
            if line.startswith("  "):
                lines.append(line.partition(": ")[2])
            elif not line.startswith("["):
                lines = found.setdefault(line, [])
        for path in seen.keys() & found.keys():
            seen[path].add_lines(found[path])
        name = _NAME_PATTERN.fullmatch(str((call.arguments or {}).get("pattern", "")))
        if name is not None and any(found.values()):
            searches[name[1]] = tuple(path for path, matches in found.items() if matches)
    elif call.name not in (*_TOOLS_WITHOUT_CONTENT, "read_file"):
        texts = list(_string_values(call.arguments))
        for path, file_seen in seen.items():
            if any(path.rpartition("/")[2] in text for text in texts):
                file_seen.add_lines(result.text.splitlines())


def _string_values(value: Any) -> Iterator[str]:
    """Yield all strings in (nested) arguments."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _string_values(item)
