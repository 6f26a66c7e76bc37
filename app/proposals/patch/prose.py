"""Distinguish a patch from the text around it: mails, code fences, lists, quoted headers."""

import re
from collections.abc import Sequence

from msgspec import Struct

from app.proposals.values.proposal_errors import MalformedPatch

_NUMBERED_HEADER = re.compile(r"^@@+ *-(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? *@@+ ?(.*)$")
_PLACEHOLDER = re.compile(r"^[-+.,\s\dxXyYnNaAbB…?]*$|^-.*\+.*$")
_HEADER_RANGE = re.compile(r"^@@.?-\d+(?:,\d+)? |\+\d+(?:,\d+)? *@@")
"""One of the two ranges, in a line that is not a complete header with numbers."""
_MAX_DIGITS = 12


class HunkHeader(Struct, frozen=True):
    """The numbers that a hunk header states; they may be wrong."""

    old_start: int | None = None
    """First line on the old side, from 1; None if the header states no numbers."""
    old_count: int | None = None
    new_start: int | None = None
    new_count: int | None = None
    section_heading: str = ""
    """The line above the hunk that a header without numbers names."""
    damaged: bool = False
    """Whether it seems to be a damaged header with numbers."""


def parse_hunk_header(line: str, at: int) -> HunkHeader:
    """Parse a line that begins with `@@`, line `at` (from 0) of its patch; raises MalformedPatch."""
    line = line.rstrip("\r")
    if numbers := _NUMBERED_HEADER.match(line):
        if any(len(digits or "") > _MAX_DIGITS for digits in numbers.groups()[:4]):
            raise MalformedPatch(f"Line {at + 1}: this hunk header states more lines than any file has.")
        return HunkHeader(
            int(numbers[1]),
            1 if numbers[2] is None else int(numbers[2]),
            int(numbers[3]),
            1 if numbers[4] is None else int(numbers[4]),
        )
    text = line.lstrip("@").removeprefix(" ")
    if text.rstrip().endswith("@@"):
        text = text.rstrip().rstrip("@").rstrip()
    damaged = _HEADER_RANGE.search(line) is not None
    return HunkHeader(section_heading="" if damaged or _PLACEHOLDER.match(text) else text, damaged=damaged)


def is_damaged_hunk_header(text: str) -> bool:
    """Return whether a line without its mark looks like a damaged hunk header."""
    return _DAMAGED_HEADER.match(text) is not None


_DAMAGED_HEADER = re.compile(r"@{1,2} ?-\d+(?:,\d+)? \+\d+(?:,\d+)? @@")


_GIT_VERSION = re.compile(r"^\d+(\.\w+)+")
_FORMAT_PATCH_START = re.compile(r"^From [0-9a-f]{40,64} ")
_LIST_ITEM = re.compile(r"^[-+] (?:\*\*|[^\s*])")
_HORIZONTAL_RULE = re.compile(r"^-{2,3}\s*$")
_FILE_PART_END = re.compile(r"^(?:diff |Index: |Only in |commit |From |={7})")
_CHANGE_MARKS = ("+", "-")


def looks_like_file_header(lines: Sequence[str], at: int) -> bool:
    """Return whether a `---` line with its `+++` line is here: names of a file, or two changed lines of a body."""
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def is_file_header_with_hunk(lines: Sequence[str], at: int) -> bool:
    """Return whether a `---` line with its `+++` line and a hunk begins here, rather than prose."""
    if not looks_like_file_header(lines, at):
        return False
    after = skip_blank_lines(lines, at + 2)
    if after == len(lines):
        return False
    return lines[after].startswith("@@") or (after == at + 2 and lines[after][:1] in (*_CHANGE_MARKS, " "))


def begins_next_patch_part(line: str) -> bool:
    """Return whether the line ends a file's part of a patch, since it begins the next part, a commit or a mail."""
    return bool(_FILE_PART_END.match(line))


def is_code_fence(line: str) -> bool:
    """Return whether the line opens or closes a block of code in prose."""
    return line.startswith(("```", "~~~"))


def is_mail_signature(lines: Sequence[str], at: int) -> bool:
    """Return whether the line is the `-- ` above git's version at the end of a mail."""
    if lines[at].rstrip("\r") not in ("-- ", "--"):
        return False
    after = lines[at + 1] if at + 1 < len(lines) else ""
    return not after or bool(_GIT_VERSION.match(after))


def is_format_patch_start(line: str) -> bool:
    """Return whether the line begins a mail as `git format-patch` writes it."""
    return bool(_FORMAT_PATCH_START.match(line))


def is_empty_line(line: str) -> bool:
    """Return whether the line is empty, apart from the end of a CRLF."""
    return line in ("", "\r")


def skip_blank_lines(lines: Sequence[str], at: int) -> int:
    """Return the first line from `at` on that is not empty."""
    while at < len(lines) and is_empty_line(lines[at]):
        at += 1
    return at


def find_prose_list_end(lines: Sequence[str], at: int) -> int | None:
    """Return the end of prose with a list that begins at `at`; None if it has no list, or changes of a diff.

    A list item is a mark, one space and a word. A removed line that begins with just one space looks like it, so this
    works only after a hunk that is complete by its own counts.
    """
    has_list = False
    while at < len(lines):
        line = lines[at]
        if begins_next_patch_part(line) or is_code_fence(line) or is_mail_signature(lines, at):
            break
        if line.startswith("@@") or is_file_header_with_hunk(lines, at):
            break
        if looks_like_file_header(lines, at):
            has_list = True
            at += 1
        elif line[:1] in _CHANGE_MARKS:
            if not can_be_prose_list_line(line):
                return None
            has_list = True
        at += 1
    return at if has_list else None


def can_be_prose_list_line(line: str) -> bool:
    """Return whether a line with a change mark could also be a list item or a rule in prose."""
    return bool(_LIST_ITEM.match(line) or _HORIZONTAL_RULE.match(line))


def is_no_newline_marker(line: str) -> bool:
    """Return whether the line marks the end of the file as without a newline, in any language."""
    return line.startswith("\\ ") or line.lower().startswith("\\no newline")
