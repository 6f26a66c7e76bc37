"""Records what an agent reads, if its hook can see it: path, lines, version, and hashes of the lines.

Only files of the workspace are recorded, and none that looks like a secret. Calls that may show files without the
hook's knowledge, for example shell commands, are recorded as unseen: from then on it is unknown what the agent has
read.
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
from app.storage.captured_edit_store import CapturedReadOrPrompt
from app.text.line_hash import pack_nonblank_line_hashes
from app.workspace.path_rules import WorkspaceError
from app.workspace.paths import Workspace
from app.workspace.secrets import secret_reason

_MAX_PROMPT_CHARACTERS = 100_000
"""Characters of a prompt that are stored; the rest is recorded as unseen."""
_MAX_READ_CHARACTERS = 60_000
"""Maximum characters for which line hashes are stored: agents refuse or cut longer reads."""
_MAX_SEARCH_FILES = 200
"""Maximum number of files of one search."""
_COMMAND_WITHOUT_FILE_TEXT = re.compile(r"(?:cd|date|git (?:branch|status)|ls|mkdir|pwd|true|which)(?: [\w./~=-]+)*")
"""A command that shows no line of a file."""
_NAME_PATTERN = re.compile(r"(?:\\b|def |class )?([A-Za-z_]\w{3,})(?:\\b|\\?\()?")
"""A search pattern for one name."""
_SEARCH_RESULT_LINE = re.compile(r"(?:(.+?)[:-])??(?:L)?(\d+)(?:[:-] ?(.*))?")
"""A line of a search result: `a.py:12:text`, a context line `a.py-13-text`, a count `a.py:2`, or `L12: text`."""


def reads_of_call(workspace: Workspace, call: HookCall) -> list[CapturedReadOrPrompt]:
    """Return the reads that a call of the hook shows; none for an agent whose reads are not recorded."""
    agent = find_agent(call.agent)
    if not agent.reads:
        return []
    if call.event in SESSION_START_EVENTS:
        return [CapturedReadOrPrompt("start")] if call.source in ("startup", "clear") else []
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
        if all(map(_COMMAND_WITHOUT_FILE_TEXT.fullmatch, commands)):
            return []
    return [_unseen_read(f"it has called {call.tool}, and what that shows is not seen.")]


def find_attached_file_reads(call: HookCall, paths: Iterable[str]) -> list[CapturedReadOrPrompt]:
    """Return a read note for each of these files that Claude Code has attached to the conversation."""
    if call.agent != "claude":
        return []
    return [CapturedReadOrPrompt("attached", path) for path in find_claude_attachments(call.transcript, list(paths))]


def _unseen_read(words: str) -> CapturedReadOrPrompt:
    return CapturedReadOrPrompt("unseen", words=words)


def _prompt_reads(text: str) -> Iterator[CapturedReadOrPrompt]:
    yield CapturedReadOrPrompt("prompt", words=text[:_MAX_PROMPT_CHARACTERS])
    if len(text) > _MAX_PROMPT_CHARACTERS:
        yield _unseen_read("a prompt was too long to be kept.")
    if text.startswith(("/", "!")):
        yield _unseen_read("a command of yours may have shown it files.")


def _file_reads(workspace: Workspace, call: HookCall) -> Iterator[CapturedReadOrPrompt]:
    named = call.arguments.get("file_path")
    if not isinstance(named, str) or not named:
        yield _unseen_read(f"signoff does not understand this call of {call.tool}.")
        return
    found = _read_recordable_file(workspace, call.folder, named)
    if found is None:
        return
    path, data = found
    lines = data.decode("utf-8", "replace").splitlines()
    first, last = find_agent(call.agent).reads[call.tool].shown_line_range(call.arguments, len(lines))
    shown = lines[first - 1 : last]
    words = f"{len(lines)} lines" if len(shown) == len(lines) else f"lines {first}-{last} of {len(lines)}"
    hashes = pack_nonblank_line_hashes(shown) if sum(map(len, shown)) <= _MAX_READ_CHARACTERS else b""
    yield CapturedReadOrPrompt("read", path, words, sha256(data).hexdigest(), hashes)


def _search_reads(workspace: Workspace, call: HookCall) -> Iterator[CapturedReadOrPrompt]:
    given = call.arguments.get("path") or call.arguments.get("dir_path") or ""
    searched = str(given) if str(given).startswith("/") else f"{call.folder}/{given}".rstrip("/")
    found = _matches_in_result(call.result, searched)
    pattern = _NAME_PATTERN.fullmatch(str(call.arguments.get("pattern", "")))
    name = pattern[1] if pattern is not None else ""
    if len(found) > _MAX_SEARCH_FILES:
        yield _unseen_read("a search has found too many files.")
        return
    for named, lines in found.items():
        if not any(_exists_in_workspace(workspace, folder, named) for folder in (searched, call.folder)):
            yield _unseen_read(f"signoff does not understand what {call.tool} has found.")
            return
        for folder in (searched, call.folder):
            if file := _read_recordable_file(workspace, folder, named):
                yield CapturedReadOrPrompt(
                    "found", file[0], name, sha256(file[1]).hexdigest(), pack_nonblank_line_hashes(lines)
                )
                break


def _matches_in_result(result: object, searched: str) -> dict[str, list[str]]:
    """Return the files that a search has found, each with the lines that it shows.

    Args:
        result: The result of the search tool.
        searched: Path that was searched; if it is a file, result lines don't name it.
    """
    match result:
        case {"mode": "files_with_matches", "filenames": [*names]}:
            return {str(name): [] for name in names}
        case {"mode": str(), "content": str(text)}:
            return _matches_in_text(text.splitlines(), searched)
        case {"returnDisplay": {"matches": [dict(), *_] as matches}, "llmContent": str(text)}:
            # The text also has the context lines.
            shown = [one[3] or "" for line in text.splitlines() if (one := _SEARCH_RESULT_LINE.fullmatch(line))]
            return {str(match.get("absolutePath")): shown for match in matches}
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
        elif (one := _SEARCH_RESULT_LINE.fullmatch(line)) is None:
            # A search that shows only file names.
            found.setdefault(line, [])
        else:
            found.setdefault(one[1] or file, []).append(one[3] or "")
    return found


def _exists_in_workspace(workspace: Workspace, folder: str, named: str) -> bool:
    """Return whether a path leads to a file in the workspace; True for paths outside."""
    path = named if named.startswith("/") else f"{folder}/{named}"
    if workspace.relative_path(path) is None:
        return True
    with suppress(OSError, WorkspaceError):
        return workspace.kind(workspace.resolve_both_paths(path)[1]) == "file"
    return False


def _read_recordable_file(workspace: Workspace, folder: str, named: str) -> tuple[str, bytes] | None:
    """Return the real path and the bytes of a file; None if it may not be recorded, or can't be read."""
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
