"""`list_files`: lists files with pending edits applied, within a time limit."""

import asyncio
import re
from collections.abc import Callable, Iterator
from heapq import merge
from typing import TypeVar

from msgspec import Struct, field
from pydantic import Field

from app.text.quantities import format_count
from app.tools.base.contract import Tool, ToolArguments, ToolContext, ToolError, ToolOutput
from app.tools.base.targets import os_errors_as_tool_errors, resolve_real_path
from app.workspace.path_rules import MAX_PATH_CHARACTERS
from app.workspace.wildmatch import ignore_rule_regex, parse_ignore_rule

_BRACE_GROUP = re.compile(r"\{([^{}]*)\}")
_MAX_EXPANDED_PATTERNS = 64
"""Maximum number of patterns that a pattern with braces may expand to."""


def compile_path_matcher(pattern: str) -> Callable[[str], bool]:
    """Return a predicate for paths by a gitignore pattern.

    A pattern without a slash matches in any folder; `**` matches across folders; a folder matches everything in it.

    Raises:
        ToolError: The pattern is invalid.
    """
    expressions: list[str] = []
    for alternative in _expand_braces(pattern.strip()):
        literal = "\\" + alternative if alternative.startswith(("!", "#")) else alternative
        rule = parse_ignore_rule(literal.removeprefix("./"))
        translated = ignore_rule_regex(rule) if rule and len(rule.text) <= MAX_PATH_CHARACTERS else None
        if rule is None or translated is None:
            raise ToolError(f"{pattern!r} is not a usable pattern; write one like *.py or src/**/*.ts.")
        any_folder = "" if rule.anchored else "(?:.*/)?"
        inner_paths = "/.+" if rule.folders_only else "(?:/.+)?"
        expressions.append(f"{any_folder}(?:{translated}){inner_paths}")
    compiled = re.compile("|".join(expressions), re.DOTALL)
    return lambda path: compiled.fullmatch(path) is not None


def _expand_braces(pattern: str) -> list[str]:
    """Return the expansions of a pattern with `{a,b}`."""
    expanded: list[str] = []
    remaining = [pattern]
    while remaining and len(remaining) + len(expanded) <= _MAX_EXPANDED_PATTERNS:
        single = remaining.pop()
        if match := _BRACE_GROUP.search(single):
            remaining.extend(
                single[: match.start()] + choice + single[match.end() :] for choice in match[1].split(",")
            )
        else:
            expanded.append(single)
    if remaining:
        raise ToolError(f"{pattern!r} stands for too many patterns; write a simpler one.")
    return expanded


_Result = TypeVar("_Result")


def list_disk_and_added_files(
    context: ToolContext, folder: str, is_stopped: Callable[[], bool]
) -> Iterator[tuple[str, bool]]:
    """Yield all files of a folder that are not ignored, sorted, each with whether only pending edits add it.

    For a file, yield the file itself. The disk is read during the iteration: do it on a thread. The iteration ends
    when `is_stopped` returns True.

    Raises:
        ToolError: The file or folder does not exist, neither on disk nor pending.
    """
    added, removed = context.draft.added_and_removed_paths()
    added = {path for path in added if folder in (".", path) or path.startswith(f"{folder}/")}
    with os_errors_as_tool_errors(folder):
        nothing_there = bool(added) and context.workspace.kind(folder) == "missing"
        on_disk = iter(()) if nothing_there else context.workspace.walk_files(folder, is_stopped)
    if not added and folder in removed:
        raise ToolError(f"{folder} does not exist any more: a staged edit deletes or renames it.")
    disk_files = ((path, False) for path in on_disk if path not in removed and path not in added)
    return merge(disk_files, ((path, True) for path in sorted(added)))


async def run_with_time_limit(run: Callable[[], _Result], stop: Callable[[], None], seconds: float) -> _Result:
    """Call `run` on a thread; after `seconds` call `stop`, so that it returns soon with the results so far."""
    running = asyncio.ensure_future(asyncio.to_thread(run))
    try:
        await asyncio.wait({running}, timeout=seconds)
    finally:
        if not running.done():
            stop()
            # The thread ends soon; ignore its result and its exception.
            running.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await running


MAX_LISTED_FILES = 500
"""Maximum number of lines in one result."""
LIST_SECONDS = 20.0
"""Time limit; files found until then are the result."""


class ListFilesArguments(ToolArguments):
    """Arguments of `list_files`."""

    path: str | None = Field(
        default=None, description="The folder, relative to the workspace root. Default: the root."
    )
    pattern: str | None = Field(
        default=None,
        description="Only files that match: *.py in any folder below, src/**/*.{ts,tsx} from `path` down.",
    )


class ListFiles(Tool):
    """Lists the files that are not ignored, with the pending edits applied."""

    name = "list_files"
    kind = "read"
    Arguments = ListFilesArguments
    description = (
        "List the files of the workspace or of one folder, at any depth, one path per line, sorted. Ignored files "
        f"and names that are not UTF-8 are left out. Where there are more than {MAX_LISTED_FILES}, folders come with "
        "the number of files in them instead: go on with `path` or `pattern`."
    )

    async def run(self, arguments: ListFilesArguments, context: ToolContext) -> ToolOutput:
        folder = resolve_real_path(context.workspace, arguments.path)
        listing = _FileListing(folder, arguments.pattern or "", context)
        return await run_with_time_limit(listing.run, listing.stop, LIST_SECONDS)


class _FileListing(Struct):
    """One listing.

    Up to `MAX_LISTED_FILES` paths are kept; if there are more files, only the folders with the number of their files.
    """

    folder: str
    pattern: str
    context: ToolContext
    _stopped: bool = False
    _files: int = 0
    _shown: list[str] = field(default_factory=list)
    _by_folder: dict[str, tuple[int, str]] = field(default_factory=dict)
    """For each file directly in the folder and each subfolder: the number of files, and the line of the last one."""

    def run(self) -> ToolOutput:
        """List all files, or those found until `stop`."""
        prefix = "" if self.folder == "." else f"{self.folder}/"
        matches = compile_path_matcher(self.pattern) if self.pattern else None
        for path, added in list_disk_and_added_files(self.context, self.folder, lambda: self._stopped):
            if self._stopped:
                break
            inner = path.removeprefix(prefix)
            if matches is None or matches(inner) or matches(path):
                self._add_file(prefix, inner, f"{path}  [staged, not on disk yet]" if added else path)
        return self._make_output()

    def stop(self) -> None:
        self._stopped = True

    def _add_file(self, prefix: str, inner: str, line: str) -> None:
        self._files += 1
        if self._files <= MAX_LISTED_FILES:
            self._shown.append(line)
        name, slash, _ = inner.partition("/")
        count, _ = self._by_folder.get(f"{prefix}{name}{slash}", (0, ""))
        self._by_folder[f"{prefix}{name}{slash}"] = (count + 1, line)

    def _make_output(self) -> ToolOutput:
        total = format_count(self._files, "file")
        stopped_note = f"[stopped after {LIST_SECONDS:.0f} s, before all files were seen; list one folder]"
        notes = [stopped_note] if self._stopped else []
        if not self._files and not notes:
            message = f"No file matches {self.pattern!r}" if self.pattern else "There are no files"
            return ToolOutput(f"{message} in {'the workspace' if self.folder == '.' else self.folder}.", "no files")
        summary = f"{total}, cut short" if notes else total
        if self._files <= MAX_LISTED_FILES:
            return ToolOutput("\n".join([*self._shown, *notes]), summary)
        lines = [
            f"{name} ({count:,})" if name.endswith("/") else shown for name, (count, shown) in self._by_folder.items()
        ]
        if len(lines) > MAX_LISTED_FILES:
            hidden_entries = len(lines) - MAX_LISTED_FILES
            lines = [*lines[:MAX_LISTED_FILES], f"[{hidden_entries:,} more entries not shown]"]
        head = f"[{total}; folders with the number of files in them]"
        return ToolOutput("\n".join([head, *lines, *notes]), summary)
