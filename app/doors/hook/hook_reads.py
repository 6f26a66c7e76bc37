"""Notes what an agent reads, as far as its hook sees it: path, lines and version, and hashes of the lines.

Only files of the workspace are noted, and none that looks like a secret. What may show files in a way that the hook
does not see, as the output of a shell command, is noted as such: what the agent had read is unknown from then on.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from hashlib import sha256

from app.doors.hook.agents import find_agent
from app.doors.hook.hook_messages import (
    AFTER_TOOL_EVENTS,
    BEFORE_PROMPT_EVENTS,
    BEFORE_TOOL_EVENTS,
    SESSION_START_EVENTS,
    HookCall,
)
from app.doors.hook.transcripts import find_claude_attachments
from app.storage.captured_edit_store import AgentRead
from app.text.line_hash import pack_line_hashes
from app.workspace.path_rules import WorkspaceError
from app.workspace.paths import Workspace
from app.workspace.secrets import secret_reason

_LONGEST_PROMPT = 100_000
"""Characters of a prompt that are kept; what a longer one shows is unknown."""
_LONGEST_READ = 60_000
"""Characters of which the lines are noted: agents refuse to show more at a time, or cut it."""
_MAX_SEARCH_FILES = 200
"""Files of one search."""
_SHOWS_NO_LINE = re.compile(r"(?:cd|date|git (?:branch|status)|ls|mkdir|pwd|true|which)(?: [\w./~=-]+)*")
"""A command that shows no line of a file."""
_NAME = re.compile(r"(?:\\b|def |class )?([A-Za-z_]\w{3,})(?:\\b|\\?\()?")
"""A pattern that looks for one name."""
_FOUND_LINE = re.compile(r"(?:(.+?)[:-])??(?:L)?(\d+)(?:[:-] ?(.*))?")
"""A line of a search: `a.py:12:text`, of the lines beside it `a.py-13-text`, of a count `a.py:2`; `L12: text`."""


def reads_of_call(workspace: Workspace, call: HookCall) -> list[AgentRead]:
    """Return what a call of the hook tells of what its agent reads; none for an agent whose reads are not noted."""
    agent = find_agent(call.agent)
    if not agent.reads:
        return []
    if call.event in SESSION_START_EVENTS:
        return [AgentRead("start")] if call.source in ("startup", "clear") else []
    if call.event in BEFORE_PROMPT_EVENTS:
        return list(_prompt_reads(call.prompt_text))
    if call.event in AFTER_TOOL_EVENTS:
        return list(_search_reads(workspace, call)) if call.tool in agent.searches else []
    if call.event not in BEFORE_TOOL_EVENTS or call.tool in (*agent.searches, *agent.shows_nothing):
        return []
    if call.tool in agent.reads:
        return list(_file_reads(workspace, call))
    if call.tool in agent.shells:
        commands = re.split(r" *(?:&&|\|\||;) *", str(call.arguments.get("command", "")).strip())
        if all(map(_SHOWS_NO_LINE.fullmatch, commands)):
            return []
    return [_unseen(f"it has called {call.tool}, and what that shows is not seen.")]


def attachments_as_reads(call: HookCall, paths: Iterable[str]) -> list[AgentRead]:
    """Return those of the files that the program of an agent has shown it by itself before it edits them."""
    if call.agent != "claude":
        return []
    return [AgentRead("attached", path) for path in find_claude_attachments(call.transcript, list(paths))]


def _unseen(words: str) -> AgentRead:
    return AgentRead("unseen", words=words)


def _prompt_reads(text: str) -> Iterator[AgentRead]:
    kept = text[:_LONGEST_PROMPT].encode("utf-8", "replace").decode("utf-8")
    yield AgentRead("prompt", words=kept)
    if len(text) > _LONGEST_PROMPT:
        yield _unseen("a prompt was too long to be kept.")
    if text.startswith(("/", "!")):
        yield _unseen("a command of yours may have shown it files.")


def _file_reads(workspace: Workspace, call: HookCall) -> Iterator[AgentRead]:
    named = call.arguments.get("file_path")
    if not isinstance(named, str) or not named:
        yield _unseen(f"signoff does not understand this call of {call.tool}.")
        return
    found = _readable(workspace, call.folder, named)
    if found is None:
        return
    path, data = found
    lines = data.decode("utf-8", "replace").splitlines()
    first, last = find_agent(call.agent).reads[call.tool].find_lines(call.arguments, len(lines))
    shown = lines[first - 1 : last]
    words = f"{len(lines)} lines" if len(shown) == len(lines) else f"lines {first}-{last} of {len(lines)}"
    hashes = pack_line_hashes(shown) if sum(map(len, shown)) <= _LONGEST_READ else b""
    yield AgentRead("read", path, words, sha256(data).hexdigest(), hashes)


def _search_reads(workspace: Workspace, call: HookCall) -> Iterator[AgentRead]:
    given = call.arguments.get("path") or call.arguments.get("dir_path") or ""
    searched = str(given) if str(given).startswith("/") else f"{call.folder}/{given}".rstrip("/")
    found = _matches(call.result, searched)
    pattern = _NAME.fullmatch(str(call.arguments.get("pattern", "")))
    name = pattern[1] if pattern is not None else ""
    if len(found) > _MAX_SEARCH_FILES:
        yield _unseen("a search has found too many files.")
        return
    for named, lines in found.items():
        if not any(_exists(workspace, folder, named) for folder in (searched, call.folder)):
            yield _unseen(f"signoff does not understand what {call.tool} has found.")
            return
        for folder in (searched, call.folder):
            if file := _readable(workspace, folder, named):
                yield AgentRead("found", file[0], name, sha256(file[1]).hexdigest(), pack_line_hashes(lines))
                break


def _matches(result: object, searched: str) -> dict[str, list[str]]:
    """Return the files that a search has found, each with the lines that it shows.

    Args:
        searched: What was searched: its name is left out where it is a file.
    """
    match result:
        case {"mode": "files_with_matches", "filenames": [*names]}:
            return {str(name): [] for name in names}
        case {"mode": str(), "content": str(text)}:
            return _matches_in_text(text.splitlines(), searched)
        case {"returnDisplay": {"matches": [dict(), *_] as matches}, "llmContent": str(text)}:
            # The text has the lines around as well.
            shown = [one[3] or "" for line in text.splitlines() if (one := _FOUND_LINE.fullmatch(line))]
            return {str(one.get("absolutePath")): shown for one in matches}
        case {"llmContent": str(text)} if "\n" in text:
            return _matches_in_text(text.splitlines()[1:], searched)
        case _:
            return {}


def _matches_in_text(lines: Iterable[str], searched: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    file = searched
    for line in lines:
        if line in ("--", "---", ""):
            continue
        if line.startswith("File: "):
            file = line.removeprefix("File: ")
            found.setdefault(file, [])
        elif (one := _FOUND_LINE.fullmatch(line)) is None:
            # The names alone.
            found.setdefault(line, [])
        else:
            found.setdefault(one[1] or file, []).append(one[3] or "")
    return found


def _exists(workspace: Workspace, folder: str, named: str) -> bool:
    """Whether a path leads to a file, of the workspace or outside it."""
    path = named if named.startswith("/") else f"{folder}/{named}"
    if workspace.relative_path(path) is None:
        return True
    with suppress(OSError, WorkspaceError):
        return workspace.kind(workspace.resolve_both_paths(path)[1]) == "file"
    return False


def _readable(workspace: Workspace, folder: str, named: str) -> tuple[str, bytes] | None:
    """The real path and the bytes of a file; None if it may not be noted, or can't be read."""
    path = named if named.startswith("/") else f"{folder}/{named}"
    if workspace.relative_path(path) is None:
        return None
    try:
        real = workspace.resolve_both_paths(path)[1]
        data = workspace.read(real)
        if secret_reason(real, data) or secret_reason(named) or workspace.find_secret_hard_link(real):
            return None
    except (OSError, WorkspaceError):
        return None
    return real, data
