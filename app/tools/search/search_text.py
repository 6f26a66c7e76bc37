"""`search_text`: finds matching lines in all files or in some."""

import asyncio
import json
import re
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct, field
from pydantic import Field

from app.proposals.text.document import WIDE_MARKS, Document
from app.sandbox.environment import environment_without_workspace
from app.text.quantities import format_count, join_first
from app.tools.base.contract import Tool, ToolArguments, ToolContext, ToolError, ToolOutput
from app.tools.base.targets import (
    ask_before_reading_secret_files,
    find_secret_reason,
    os_errors_as_tool_errors,
    pending_secret_reason,
    resolve_real_path,
    walked_file_looks_secret,
)
from app.tools.search.list_files import compile_path_matcher, list_disk_and_added_files, run_with_time_limit
from app.tools.search.required_texts import find_required_alternatives
from app.workspace.path_rules import WorkspaceError
from app.workspace.paths import PathBecameLink, WalkedFileContent
from app.workspace.secrets import secret_path_reason

LineMatch = tuple[int, int, str]
"""The number of a matching line (from 0), the column of its first match, and its text without line ending."""
FindMatch = Callable[[str, int], re.Match[str] | None]
"""Finds the first match in a text at or after an index."""

_CASE_VARIANTS = tuple(letter.encode() for letter in "\u0130\u0131\u017f\u212a")
"""Non-ASCII letters that match i, s or k if case is ignored (see the documentation of re.IGNORECASE)."""

REGEX_WORKER_FILE = Path(__file__).with_name("regex_worker.py")
_MAX_WORKER_SECONDS = 60
"""Seconds after which the worker ends by itself; much longer than a search may take."""


class MatcherStopped(Exception):
    """The matcher was stopped during its work."""


class MatchingLineFinder(ABC):
    """Finds matching lines; `prepare` and `find_hits` block, and `stop` may be called from another thread."""

    max_batch_files = 1
    """Best number of files for one call of `find_hits`."""
    can_match: Callable[[bytes], bool]
    """Returns whether a line of a file may match, by a quick check of its bytes."""

    def prepare(self) -> None:  # noqa: B027
        """Prepare for matching; raises ToolError for an invalid pattern, and MatcherStopped."""

    @abstractmethod
    def find_hits(self, documents: Sequence[Document]) -> list[list[LineMatch]]:
        """Return the matching lines of each file; raises MatcherStopped."""

    def stop(self) -> None:  # noqa: B027
        """Stop; a waiting caller gets MatcherStopped."""

    def close(self) -> None:  # noqa: B027
        """Release all resources; nothing may be called after this."""


class LiteralMatcher(MatchingLineFinder):
    """Matches a literal string, quickly and in one step."""

    def __init__(self, pattern: str, ignore_case: bool) -> None:
        self.can_match = _make_content_filter(pattern, regex=False, ignore_case=ignore_case)
        self._search = re.compile(re.escape(pattern), re.IGNORECASE if ignore_case else 0).search

    def find_hits(self, documents: Sequence[Document]) -> list[list[LineMatch]]:
        return [find_matching_lines(document.text, self._search) for document in documents]


class RegexMatcher(MatchingLineFinder):
    """Matches a regular expression in Python's dialect, in a worker process."""

    max_batch_files = 64
    """A request to the worker costs as much time as the search of a small file."""

    def __init__(self, pattern: str, ignore_case: bool, root: Path) -> None:
        self._pattern = pattern
        self._ignore_case = ignore_case
        self.can_match = lambda content: True
        self._find_required: FindMatch | None = None
        """Finds lines that contain a required literal; None if no literal is known."""
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(REGEX_WORKER_FILE), str(_MAX_WORKER_SECONDS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment_without_workspace(root),
            encoding="utf-8",
            start_new_session=True,
        )

    def prepare(self) -> None:
        """Compile the expression in the worker."""
        error = self._request({"pattern": self._pattern, "ignore_case": self._ignore_case})
        if error is not None:
            raise ToolError(f"{self._pattern!r} is not a regular expression in Python's dialect: {error}.")
        self.can_match = _make_content_filter(self._pattern, regex=True, ignore_case=self._ignore_case)
        texts, ignore_case = find_required_alternatives(self._pattern, regex=True, ignore_case=self._ignore_case)
        if texts:
            flags = re.IGNORECASE if ignore_case else 0
            self._find_required = re.compile("|".join(map(re.escape, sorted(texts))), flags).search

    def find_hits(self, documents: Sequence[Document]) -> list[list[LineMatch]]:
        candidate_lines = [self._lines_that_may_match(document) for document in documents]
        hits: list[list[LineMatch]] = [[] for _ in documents]
        if not any(candidate_lines):
            return hits
        answer = self._request([[line for _, _, line in lines] for lines in candidate_lines])
        assert isinstance(answer, list)
        for file, index, column in answer:
            number, _, line = candidate_lines[file][index]
            hits[file].append((number, column, line))
        return hits

    def _lines_that_may_match(self, document: Document) -> list[LineMatch]:
        if self._find_required is None:
            return [(number, 0, line) for number, line in enumerate(document.line_texts)]
        return find_matching_lines(document.text, self._find_required)

    def stop(self) -> None:
        """Kill the worker."""
        self._process.kill()

    def close(self) -> None:
        """Kill the worker and wait for its end."""
        self._process.kill()
        with suppress(OSError):
            self._process.communicate()

    def _request(self, request: object) -> object:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except OSError as error:
            raise MatcherStopped from error
        if not answer:
            raise MatcherStopped
        return json.loads(answer)


def find_matching_lines(text: str, search: FindMatch) -> list[LineMatch]:
    """Return the lines that match; the expression must not match line feeds or empty text."""
    matches: list[LineMatch] = []
    position = number = 0
    while match := search(text, position):
        start = text.rfind("\n", position, match.start()) + 1 or position
        end = text.find("\n", match.end())
        number += text.count("\n", position, start)
        matches.append((number, match.start() - start, text[start:end] if end >= 0 else text[start:]))
        if end < 0:
            break
        position = end + 1
        number += 1
    return matches


def _make_content_filter(pattern: str, *, regex: bool, ignore_case: bool) -> Callable[[bytes], bool]:
    """Return a predicate on a file's bytes; if it returns False, no line of the file matches."""
    texts, ignore_case = find_required_alternatives(pattern, regex=regex, ignore_case=ignore_case)
    if not texts:
        return lambda content: True
    needed = [(text.lower() if ignore_case else text).encode() for text in sorted(texts)]
    exceptions = _CASE_VARIANTS if ignore_case else ()

    def can_match(content: bytes) -> bool:
        searched = content.lower() if ignore_case else content
        return (
            any(text in searched for text in needed)
            or content.startswith(WIDE_MARKS)
            or (not content.isascii() and any(letter in content for letter in exceptions))
        )

    return can_match


MAX_SHOWN_LINES = 200
"""Maximum number of matching lines in one result."""
MAX_LINE_CHARACTERS = 300
"""Maximum number of characters of one line, around its first match."""
BATCH_BYTES = 1_000_000
"""A batch for the matcher is complete when its files have this many bytes."""


class SearchMatches(Struct):
    """The matches of a search so far, with counts and the files that were left out."""

    files: list[tuple[str, list[tuple[int, str]]]] = field(default_factory=list)
    """Paths with the lines to show: number (from 1) and text."""
    lines_shown: int = 0
    lines_found: int = 0
    files_found: int = 0
    files_searched: int = 0
    secrets: list[str] = field(default_factory=list)
    """Files left out because they look like secrets."""
    unreadable: list[str] = field(default_factory=list)
    """Files left out because they are too large or can't be read."""
    cut_short: bool = False
    """The search was stopped before its end."""


class _SearchedFile(Struct, frozen=True):
    """A file that may have matching lines."""

    path: str
    document: Document
    on_disk: WalkedFileContent | None
    """The file on disk; None if the document contains pending edits."""


class StoppableTextSearch(Struct):
    """One search for matching lines in files; `run` blocks, `stop` may be called from another thread."""

    context: ToolContext
    root_path: str
    glob: str
    matcher: MatchingLineFinder
    allowed_secret: str = ""
    """A file that the model named: the user was already asked for it if it looks like a secret."""
    findings: SearchMatches = field(default_factory=SearchMatches)
    _stopped: bool = False

    def run(self) -> SearchMatches:
        """Search; raises ToolError for an invalid path or pattern."""
        try:
            self.matcher.prepare()
            with self.context.workspace.walked_file_reader() as read:
                for batch in self._iterate_batches(read):
                    for file, hits in zip(
                        batch, self.matcher.find_hits([file.document for file in batch]), strict=True
                    ):
                        if hits:
                            self._add_hits(file, hits)
        except MatcherStopped:
            pass
        finally:
            self.matcher.close()
        self.findings.cut_short = self._stopped
        return self.findings

    def stop(self) -> None:
        """Make `run` return soon with its results so far."""
        self._stopped = True
        self.matcher.stop()

    def _iterate_root_paths(self) -> Iterator[str]:
        """Yield the files to search, without those that look like secrets by their path."""
        prefix = "" if self.root_path == "." else f"{self.root_path}/"
        matches = compile_path_matcher(self.glob) if self.glob else None
        for path, _ in list_disk_and_added_files(self.context, self.root_path, lambda: self._stopped):
            if matches and not (matches(path.removeprefix(prefix)) or matches(path)):
                continue
            if path != self.allowed_secret and secret_path_reason(path):
                self.findings.secrets.append(path)
                continue
            self.findings.files_searched += 1
            yield path

    def _iterate_batches(self, read: Callable[[str], WalkedFileContent]) -> Iterator[list[_SearchedFile]]:
        """Yield the files that may have matching lines, in batches.

        The first batches are small: if an expression takes too long in one file, the matches in its batch are lost,
        and a batch is at most as large as all batches before it.
        """
        batch: list[_SearchedFile] = []
        size, max_files = 0, 1
        touched = self.context.draft.touched_paths()
        for path in self._iterate_root_paths():
            if self._stopped:
                return
            file = self._read_staged(path) if path in touched else self._read_on_disk(path, read)
            if file is None:
                continue
            batch.append(file)
            size += len(file.document.data)
            if len(batch) >= max_files or size >= BATCH_BYTES:
                yield batch
                batch, size, max_files = [], 0, min(2 * max_files, self.matcher.max_batch_files)
        if batch:
            yield batch

    def _read_on_disk(self, path: str, read: Callable[[str], WalkedFileContent]) -> _SearchedFile | None:
        try:
            file = read(path)
        except PathBecameLink:
            # The link's target is searched, or left out, under its real name.
            return None
        except (OSError, WorkspaceError):
            self.findings.unreadable.append(path)
            return None
        return self._make_searched_file(path, file.content, file)

    def _read_staged(self, path: str) -> _SearchedFile | None:
        """Return a file with the pending edits, unless its content needs the user's permission."""
        try:
            file = self.context.draft.read(path)
        except (OSError, WorkspaceError):
            self.findings.unreadable.append(path)
            return None
        if path != self.allowed_secret and pending_secret_reason(file):
            self.findings.secrets.append(path)
            return None
        return None if file.content is None else self._make_searched_file(path, file.content, None)

    def _make_searched_file(
        self, path: str, content: bytes, on_disk: WalkedFileContent | None
    ) -> _SearchedFile | None:
        if not self.matcher.can_match(content):
            return None
        document = Document(content)
        return None if document.is_binary else _SearchedFile(path, document, on_disk)

    def _add_hits(self, file: _SearchedFile, hits: Sequence[LineMatch]) -> None:
        """Add the matching lines of a file, unless it looks like a secret."""
        path = file.path
        if file.on_disk is None and self._is_link(path):
            return
        if path != self.allowed_secret and self._looks_secret(file):
            self.findings.secrets.append(path)
            return
        findings = self.findings
        findings.files_found += 1
        findings.lines_found += len(hits)
        if lines_left := MAX_SHOWN_LINES - findings.lines_shown:
            shown = [(number + 1, _clip_line(line, column)) for number, column, line in hits[:lines_left]]
            findings.files.append((path, shown))
            findings.lines_shown += len(shown)

    def _looks_secret(self, file: _SearchedFile) -> bool:
        if file.on_disk is not None:
            return walked_file_looks_secret(file.path, file.on_disk)
        return bool(find_secret_reason(self.context.workspace, file.path, file.document.data))

    def _is_link(self, path: str) -> bool:
        """Return whether the path is a link: its target is searched, or left out, under its real name."""
        try:
            return path != self.root_path and self.context.workspace.resolve(path) != path
        except (OSError, WorkspaceError):
            return True


def _clip_line(line: str, column: int) -> str:
    """Return the part of a long line around its match."""
    start = max(0, min(column - MAX_LINE_CHARACTERS // 3, len(line) - MAX_LINE_CHARACTERS))
    end = start + MAX_LINE_CHARACTERS
    return f"{'…' if start else ''}{line[start:end]}{'…' if end < len(line) else ''}"


SEARCH_SECONDS = 20.0
"""Time limit; matches found until then are the result."""
_MAX_NAMED_PATHS = 5
"""Maximum number of files named in a note."""


class SearchTextArguments(ToolArguments):
    """Arguments of `search_text`."""

    pattern: str = Field(
        min_length=1,
        max_length=1_000,
        description="The text to find in a line, taken literally unless `regex` is true.",
    )
    path: str | None = Field(
        default=None, description="A folder or file to search in, relative to the workspace root. Default: the root."
    )
    glob: str | None = Field(default=None, description="Only files that match: *.py, src/**/*.{ts,tsx}.")
    regex: bool = Field(default=False, description="Take the pattern as a regular expression (Python's dialect).")
    ignore_case: bool = Field(default=False, description="Let upper and lower case match each other.")


class SearchText(Tool):
    """Searches files with the pending edits applied."""

    name = "search_text"
    kind = "read"
    Arguments = SearchTextArguments
    description = (
        "Find lines in the files of the workspace. The result has each file's path, then its matching lines with "
        "their numbers; where there are too many, the first of them and the true count. Ignored files, binary files, "
        "files that look like secrets and files whose names are not UTF-8 are left out. Staged edits are searched in "
        "place of what is on disk."
    )

    async def run(self, arguments: SearchTextArguments, context: ToolContext) -> ToolOutput:
        if "\n" in arguments.pattern or "\0" in arguments.pattern:
            raise ToolError("The search goes line by line: the pattern must be one line of text.")
        root_path = resolve_real_path(context.workspace, arguments.path)
        with os_errors_as_tool_errors(root_path):
            is_folder = context.workspace.kind(root_path) == "folder"
        allowed_secret = ""
        if not is_folder:
            await ask_before_reading_secret_files(context, root_path)
            allowed_secret = root_path
        pattern, ignore_case = arguments.pattern, arguments.ignore_case
        matcher = (
            await asyncio.to_thread(RegexMatcher, pattern, ignore_case, context.workspace.root)
            if arguments.regex
            else LiteralMatcher(pattern, ignore_case)
        )
        search = StoppableTextSearch(
            context,
            root_path,
            arguments.glob or "",
            matcher,
            allowed_secret,
        )
        return _format_report(arguments.pattern, await run_with_time_limit(search.run, search.stop, SEARCH_SECONDS))


def _format_report(pattern: str, result: SearchMatches) -> ToolOutput:
    lines: list[str] = []
    for path, matches in result.files:
        lines.append(path)
        lines += [f"  {number}: {text}" for number, text in matches]
    counted = (
        f"{format_count(result.lines_found, 'matching line')} in {format_count(result.files_found, 'file')}"
        if result.lines_found
        else "no matches"
    )
    if not result.lines_found:
        lines.append(f"No line matches {pattern!r} in {format_count(result.files_searched, 'file')}.")
    elif result.lines_shown < result.lines_found:
        lines.append(f"[{result.lines_shown} of {counted} shown; narrow the search with path, glob or pattern]")
    else:
        lines.append(f"[{counted}]")
    if result.cut_short:
        lines.append(f"[stopped after {SEARCH_SECONDS:.0f} s, before all files were searched; narrow the search]")
    if result.secrets:
        lines.append(f"[not searched, since they look like secrets: {join_first(result.secrets, _MAX_NAMED_PATHS)}]")
    if result.unreadable:
        lines.append(f"[could not be searched: {join_first(result.unreadable, _MAX_NAMED_PATHS)}]")
    return ToolOutput("\n".join(lines), f"{counted}{', cut short' if result.cut_short else ''}")
