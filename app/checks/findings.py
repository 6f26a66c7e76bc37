"""What tools print: places of the form `path:line: text`, and how many things failed."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

MOST = 500
"""Findings that are kept of one check."""
_LONGEST = 1_000
"""Characters of a line that is looked at; a longer one is no finding."""
_PLACE = re.compile(
    r"\s{0,16}(?:--> )?(?P<path>[^\s:][^:\n]{0,500}):(?P<line>\d{1,7})(?::\d{1,7})?(?::\s*|\s+)(?P<text>\S.*)"
)
_COUNTS = (
    (re.compile(r"\b(\d{1,9}) (?:failed|failures?|failing)\b", re.IGNORECASE), "failed"),
    (re.compile(r"\b(\d{1,9}) (?:errors?|problems?|issues?)\b", re.IGNORECASE), "errors"),
    (re.compile(r"\b(?:failures|errors|failed)[=:] ?(\d{1,9})\b", re.IGNORECASE), "failed"),
)
"""As pytest, jest, cargo and go say it; ruff, mypy and eslint; unittest."""
_SUMMARY_LINES = 12
"""Lines at the end in which a tool sums up."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a tool says about a line."""

    path: str
    """Of the workspace."""
    line: int
    """From 1."""
    text: str
    new: bool = True
    """Whether it is not said of the workspace without the proposal."""


def findings(output: str, root: Path) -> tuple[Finding, ...]:
    """The places that a tool names in its output, each once; paths outside the workspace are none."""
    found: dict[Finding, None] = {}
    for line in output.splitlines():
        if len(line) > _LONGEST or ":" not in line or (match := _PLACE.match(line)) is None:
            continue
        if (path := _inside(match["path"], root)) and int(match["line"]):
            found[Finding(path, int(match["line"]), match["text"].strip())] = None
        if len(found) == MOST:
            break
    return tuple(found)


def compared(found: Sequence[Finding], before: Iterable[Finding]) -> tuple[Finding, ...]:
    """The findings, each marked as new unless the same was said before, on whatever line of the file."""
    old = Counter((each.path, each.text) for each in before)
    marked = []
    for each in found:
        is_old = old[each.path, each.text] > 0
        old[each.path, each.text] -= is_old
        marked.append(replace(each, new=not is_old))
    return tuple(marked)


def failures(output: str) -> tuple[int, str] | None:
    """How many things failed, and what the tool calls them, by what it says at the end; None where it doesn't."""
    for line in reversed(output.splitlines()[-_SUMMARY_LINES:]):
        line = line[-_LONGEST:]
        for pattern, noun in _COUNTS:
            if counts := pattern.findall(line):
                # A linter says it again, by kind; a test runner adds up.
                return (int(counts[0]) if noun == "errors" else sum(map(int, counts))), noun
    return None


def _inside(path: str, root: Path) -> str:
    """The path as one of the workspace; empty if it leads out."""
    # By the text alone: what a tool prints is no reason to look at the disk.
    whole = os.path.normpath(root / path)
    return whole.removeprefix(f"{root}/") if whole.startswith(f"{root}/") else ""
