"""What the tools have told: files, folders and matches, taken out of the text of their results."""

import re
from collections.abc import Iterable

from app.demo.conversation import Call
from app.demo.words import NewCall

_NUMBERED = re.compile(r"^(\d+)\t(.*)$")
_MORE = re.compile(r"^\[.*start_line=(\d+)\]$", re.MULTILINE)
_NO_FINAL_NEWLINE = re.compile(r"^\[no newline at the end", re.MULTILINE)
_VERSION = re.compile(r"^\S.*\(version (\w+)")
_MATCH = re.compile(r"^ +(\d+): (.*)$")
_MARK = re.compile(r" {2,}\[.*\]$")
"""What `list_files` puts behind a path: `[staged, not on disk yet]`."""

Match = tuple[str, int, str]
"""A line that a search found: its path, number and text."""


class Findings:
    """What a series of calls has brought to light; where a file was read twice, the last reading counts."""

    def __init__(self, calls: Iterable[Call]) -> None:
        self.paths: list[str] | None = None
        """The files of the last listing, or None if nothing was listed."""
        self.matches: list[Match] | None = None
        """The matches of the last search, or None if nothing was searched."""
        self.search_error = ""
        """What the last search said where it neither found something nor said that there is nothing."""
        self.texts: dict[str, str] = {}
        """Path to content, of files that were read to the end."""
        self.versions: dict[str, str] = {}
        self.asked: set[str] = set()
        """Paths that a reading was tried of, also in vain."""
        self._begun: dict[str, tuple[str, int]] = {}
        """Of long files that come in pages: path to content so far and the next line."""
        for call in calls:
            match call.name:
                case "list_files" if call.result:
                    self.paths = listed_paths(call.result)
                case "search_text" if call.result:
                    self.matches = found_matches(call.result)
                    self.search_error = "" if self.matches or call.result.startswith("No line") else call.result
                case "read_file" if call.result:
                    self._take_page(call)

    def _take_page(self, call: Call) -> None:
        path, first = str(call.arguments.get("path", "")), call.arguments.get("start_line")
        start = first if isinstance(first, int) else 1
        self.asked.add(path)
        before, expected = self._begun.get(path, ("", 1)) if start > 1 else ("", start)
        page = file_text(call.result, start)
        if page is None or start != expected:
            return
        self._begun.pop(path, None)
        if version := _VERSION.search(call.result):
            self.versions[path] = version[1]
        if more := _MORE.search(call.result):
            self._begun[path] = before + page, int(more[1])
        else:
            self.texts[path] = before + page

    def readings(self, paths: Iterable[str]) -> list[NewCall]:
        """The calls that are still needed to have read `paths` to their ends."""
        pages = [(path, self._begun.get(path)) for path in dict.fromkeys(paths)]
        return [
            NewCall("read_file", {"path": path, "start_line": begun[1]} if begun else {"path": path})
            for path, begun in pages
            if begun or path not in self.asked
        ]

    def read(self, paths: Iterable[str]) -> dict[str, str]:
        """Path to content, of those of `paths` that could be read."""
        return {path: self.texts[path] for path in paths if path in self.texts}


def file_text(result: str, start: int = 1) -> str | None:
    """The content of a file in a result of `read_file`: its lines from `start` on; None if it has none."""
    lines: list[str] = []
    for line in result.split("\n"):
        if (numbered := _NUMBERED.match(line)) and int(numbered[1]) == start + len(lines):
            lines.append(numbered[2])
    return "\n".join(lines) + ("" if _NO_FINAL_NEWLINE.search(result) else "\n") if lines else None


def listed_paths(result: str) -> list[str]:
    """The files in a result of `list_files`, one a line; folders and remarks are left out."""
    names = (_MARK.sub("", line).strip() for line in result.splitlines())
    return [name for name in names if name and name[0] != "[" and not name.endswith((".", "/", ")"))]


def found_matches(result: str) -> list[Match]:
    """The matches in a result of `search_text`: a path, and numbered lines under it."""
    matches, path = list[Match](), ""
    for line in result.splitlines():
        if (found := _MATCH.match(line)) and path:
            matches.append((path, int(found[1]), found[2]))
        elif not line.startswith((" ", "[")):
            path = line
    return matches
