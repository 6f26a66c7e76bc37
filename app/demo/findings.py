"""What the tools have told: files, folders and matches, taken out of the text of their results.

A model has to read such text as it comes, so this takes the usual ways of numbering lines and of listing matches.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from app.demo.history import Call
from app.demo.reply import NewCall

_NUMBERED = re.compile(r"^ {0,9}(\d+)(?:\t|\||│|→)(.*)$")
_MORE = re.compile(r"^\[.*start_line[ =](\d+).*\]$", re.MULTILINE)
_NO_FINAL_NEWLINE = re.compile(r"^\[no newline at the end", re.MULTILINE)
_VERSION = re.compile(r"^\S.*\(version (\w+)", re.MULTILINE)
_UNDER_HEADING = re.compile(r"^ +(\d+)(?::|\t|\|) ?(.*)$")
_NO_MATCH = re.compile(r"^\W*(?:no\b|0\b|nothing)", re.IGNORECASE)
_CUT_SEARCH = re.compile(r"^\[.*\b(?:narrow|stopped after)\b.*\]$", re.MULTILINE)
_MATCH = re.compile(r"^(?P<path>[^\s:\[][^:\n]*):(?P<line>\d+)[:\t] ?(?P<text>.*)$")
_MARK = re.compile(r" {2,}\[.*\]$")
"""What `list_files` puts behind a path: `[staged, not on disk yet]`."""


@dataclass(frozen=True, slots=True)
class Match:
    """A line that a search found."""

    path: str
    line: int
    """Counted from 1."""
    text: str


class Findings:
    """What a series of calls has brought to light; where a file was read twice, the last reading counts."""

    def __init__(self, calls: Iterable[Call]) -> None:
        self.paths: list[str] | None = None
        """The files of the last listing, or None if nothing was listed."""
        self.matches: list[Match] | None = None
        """The matches of the last search, or None if nothing was searched."""
        self.search_error = ""
        """What the last search said where it neither found something nor said that there is nothing."""
        self.search_was_cut = False
        """Whether the last search found more than it showed."""
        self.texts: dict[str, str] = {}
        """Path to content, of files that were read to the end."""
        self.versions: dict[str, str] = {}
        """Path to version, as `edit_file` takes it."""
        self.asked: set[str] = set()
        """Paths that a reading was tried of, also in vain."""
        self._begun: dict[str, str] = {}
        """Path to content so far, of long files that come in pages."""
        self._next_line: dict[str, int] = {}
        for call in calls:
            if call.void:
                continue
            match call.name:
                case "list_files":
                    self.paths = listed_paths(call.result)
                case "search_text":
                    self.matches = found_matches(call.result)
                    failed = not self.matches and not _NO_MATCH.search(call.result)
                    self.search_error = call.result if failed else ""
                    self.search_was_cut = bool(_CUT_SEARCH.search(call.result))
                case "read_file":
                    self._take_page(call)

    def _take_page(self, call: Call) -> None:
        path = str(call.arguments.get("path", ""))
        first = call.arguments.get("start_line")
        start = first if isinstance(first, int) else 1
        self.asked.add(path)
        page = file_text(call.result, start)
        if page is None or (start > 1 and start != self._next_line.get(path)):
            return
        text = (self._begun.pop(path, "") if start > 1 else "") + page
        if version := _VERSION.search(call.result):
            self.versions[path] = version[1]
        self._next_line.pop(path, None)
        if more := _MORE.search(call.result):
            self._begun[path], self._next_line[path] = text, int(more[1])
        else:
            self.texts[path] = text

    def readings(self, paths: Iterable[str]) -> list[NewCall]:
        """The calls that are still needed to have read `paths` to their ends."""
        calls: list[NewCall] = []
        for path in dict.fromkeys(paths):
            if path in self._next_line:
                calls.append(NewCall("read_file", {"path": path, "start_line": self._next_line[path]}))
            elif path not in self.asked:
                calls.append(NewCall("read_file", {"path": path}))
        return calls


def file_text(result: str, start: int = 1) -> str | None:
    """The content of a file in the result of `read_file`: the lines numbered from `start` on.

    None if there are none, as in an error or for an empty file.
    """
    lines: list[str] = []
    for line in result.split("\n"):
        numbered = _NUMBERED.match(line)
        if numbered and int(numbered[1]) == start + len(lines):
            lines.append(numbered[2])
        elif lines:
            break
    if not lines:
        return None
    return "\n".join(lines) + ("" if _NO_FINAL_NEWLINE.search(result) else "\n")


def listed_paths(result: str) -> list[str]:
    """The files in the result of `list_files`, one a line; folders and remarks are left out."""
    names = (_MARK.sub("", line).strip() for line in result.splitlines())
    return [name for name in names if name and name[0] != "[" and not name.endswith((".", "/", ")"))]


def found_matches(result: str) -> list[Match]:
    """The matches in the result of `search_text`: `path:line: text`, or a path with numbered lines under it."""
    matches: list[Match] = []
    heading = ""
    for line in result.splitlines():
        if (numbered := _UNDER_HEADING.match(line)) and heading:
            matches.append(Match(heading, int(numbered[1]), numbered[2]))
        elif found := _MATCH.match(line):
            matches.append(Match(found["path"], int(found["line"]), found["text"]))
        elif line and line[0] not in " [":
            heading = _MARK.sub("", line).rstrip(":")
    return matches
