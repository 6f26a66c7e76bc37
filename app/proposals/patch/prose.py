"""What stands around a patch, and how it is told from the patch: mails, code fences, lists, quoted headers."""

import re
from collections.abc import Sequence

_SIGNATURE_FOLLOWER = re.compile(r"^\d+(\.\w+)+")
_MAIL = re.compile(r"^From [0-9a-f]{40,64} ")
_BULLET = re.compile(r"^[-+] (?:\*\*|[^\s*])")
_RULE = re.compile(r"^-{2,3}\s*$")
_NEW_SECTION = re.compile(r"^(?:diff |Index: |Only in |commit |From |={7})")
_MARKED = ("+", "-")


def is_header_pair(lines: Sequence[str], at: int) -> bool:
    """Whether a `---` line with its `+++` line stands here: names of a file, or two changed lines of a body."""
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def begins_file(lines: Sequence[str], at: int) -> bool:
    """Whether a `---` line with its `+++` line stands above a hunk here, rather than in prose."""
    if not is_header_pair(lines, at):
        return False
    after = skip_blank(lines, at + 2)
    if after == len(lines):
        return False
    return lines[after].startswith("@@") or (after == at + 2 and lines[after][:1] in (*_MARKED, " "))


def is_new_section(line: str) -> bool:
    """Whether the line ends what the patch says of one file."""
    return bool(_NEW_SECTION.match(line))


def is_fence(line: str) -> bool:
    """Whether the line opens or closes a block of code in prose."""
    return line.startswith(("```", "~~~"))


def is_signature(lines: Sequence[str], at: int) -> bool:
    """Whether the line is the `-- ` above git's version at the end of a mail."""
    if lines[at].rstrip("\r") not in ("-- ", "--"):
        return False
    after = lines[at + 1] if at + 1 < len(lines) else ""
    return not after or bool(_SIGNATURE_FOLLOWER.match(after))


def begins_mail(line: str) -> bool:
    """Whether the line begins a mail as `git format-patch` writes it."""
    return bool(_MAIL.match(line))


def is_blank(line: str) -> bool:
    """Whether the line is empty but for the end of a CRLF."""
    return line in ("", "\r")


def skip_blank(lines: Sequence[str], at: int) -> int:
    """The first line from `at` on that is not empty."""
    while at < len(lines) and is_blank(lines[at]):
        at += 1
    return at


def list_end(lines: Sequence[str], at: int) -> int | None:
    """Where text around the patch ends that begins at `at` and has a list in it; None if it has none, or changes too.

    A list item is a mark, one space and a word, so a removed line that begins with just one space looks like it; only
    after a hunk that is complete by its own counts may the two be told apart by this.
    """
    found = False
    while at < len(lines):
        line = lines[at]
        if is_new_section(line) or is_fence(line) or is_signature(lines, at):
            break
        if line.startswith("@@") or begins_file(lines, at):
            break
        if is_header_pair(lines, at):
            found = True
            at += 1
        elif line[:1] in _MARKED:
            if not is_list_line(line):
                return None
            found = True
        at += 1
    return at if found else None


def is_list_line(line: str) -> bool:
    """Whether a line with a change mark can be an item of a list in prose, or a rule."""
    return bool(_BULLET.match(line) or _RULE.match(line))


def ends_file(line: str) -> bool:
    """Whether a line says of the one before it that the file ends there without a newline, in whichever language."""
    return line.startswith("\\ ") or line.lower().startswith("\\no newline")
