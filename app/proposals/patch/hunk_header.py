"""The `@@` line above a hunk: its numbers, or the line of the file that it names instead."""

import re
from dataclasses import dataclass

from app.proposals.refusals import MalformedPatch

_NUMBERS = re.compile(r"^@@+ *-(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? *@@+ ?(.*)$")
_PLACEHOLDER = re.compile(r"^[-+.,\s\dxXyYnNaAbB…?]*$|^-.*\+.*$")
_REMAINS = re.compile(r"^@@.?-\d+(?:,\d+)? |\+\d+(?:,\d+)? *@@")
"""One of the two ranges, where the line as a whole is no header with numbers."""
_MOST_DIGITS = 12


@dataclass(frozen=True, slots=True)
class HunkHeader:
    """What a hunk header states; nothing of it has to be true."""

    old_start: int | None = None
    """First line on the old side, from 1; None if not stated, like all the numbers."""
    old_count: int | None = None
    new_start: int | None = None
    new_count: int | None = None
    names: str = ""
    """The line of the file that a header without numbers names as standing above the hunk."""
    damaged: bool = False
    """Whether it seems to have stated numbers once."""

    @property
    def counted(self) -> bool:
        """Whether it states numbers."""
        return self.old_start is not None


def read_hunk_header(line: str, at: int) -> HunkHeader:
    """Read a line that begins with `@@`, line `at` (from 0) of its patch; raises MalformedPatch."""
    line = line.rstrip("\r")
    if numbers := _NUMBERS.match(line):
        if any(len(digits or "") > _MOST_DIGITS for digits in numbers.groups()[:4]):
            raise MalformedPatch(f"Line {at + 1}: no file has as many lines as this hunk header says.")
        return HunkHeader(
            int(numbers[1]),
            1 if numbers[2] is None else int(numbers[2]),
            int(numbers[3]),
            1 if numbers[4] is None else int(numbers[4]),
        )
    text = line.lstrip("@").removeprefix(" ")
    if text.rstrip().endswith("@@"):
        text = text.rstrip().rstrip("@").rstrip()
    damaged = _REMAINS.search(line) is not None
    return HunkHeader(names="" if damaged or _PLACEHOLDER.match(text) else text, damaged=damaged)


def is_damaged_header(text: str) -> bool:
    """Whether a line without its mark looks as if it had been the header of a hunk."""
    return _DAMAGED.match(text) is not None


_DAMAGED = re.compile(r"@{1,2} ?-\d+(?:,\d+)? \+\d+(?:,\d+)? @@")
