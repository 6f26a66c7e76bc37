"""Patch texts: unified diffs (git's and plain ones) and the `*** Begin Patch` form."""

import re
from collections.abc import Iterator, Sequence

from app.proposals.document import decode
from app.proposals.patch_parts import FilePatch
from app.proposals.refusals import MalformedPatch, UnsupportedPatch
from app.proposals.scan_begin_patch import BeginPatchScanner, is_begin_patch
from app.proposals.scan_unified import UnifiedScanner

MAX_CHARACTERS = 64 * 1024 * 1024
"""Longest patch text that is read."""

NO_PATCH = "This is no patch: it has neither `--- a/PATH` and `+++ b/PATH` lines nor `*** Begin Patch`."
_ANY_HEADER = re.compile(r"^\W*(?:diff |---|\+\+\+|@@|\*\*\*)", re.MULTILINE)
"""What any patch has, so that a text which is none is refused before it is taken apart."""
_HEADERS = ("diff --git ", "--- ", "+++ ", "@@", "*** ")


def scan_patch(text: str | bytes) -> list[FilePatch]:
    """Read a patch.

    Args:
        text: The patch; bytes that are no UTF-8 come through as they are. Prose and code fences around it are passed
        over.

    Returns:
        Its files in order; one file may come twice, as in a series of commits.

    Raises:
        MalformedPatch: Part of it can't be understood, or a change mark stands outside every hunk.
        UnsupportedPatch: It has a binary, combined, symlink, submodule or copy part.
    """
    if isinstance(text, bytes):
        text = decode(text)
    if len(text) > MAX_CHARACTERS:
        raise UnsupportedPatch(
            f"The patch has {len(text):,} characters; the most that is read is {MAX_CHARACTERS:,}."
        )
    if not _ANY_HEADER.search(text):
        raise MalformedPatch(NO_PATCH)
    lines = text.removeprefix("\ufeff").split("\n")
    if not lines[-1]:
        lines.pop()
    lines = _without_carriage_returns(lines)
    if is_begin_patch(lines):
        files = BeginPatchScanner(lines).scan()
        check_conservation(files, lines, 0)
        return files
    if any(line.startswith("***************") for line in lines):
        raise UnsupportedPatch("This is a context diff. Make a unified diff (`diff -u`, `git diff`).")
    scanner = UnifiedScanner(lines)
    files = scanner.scan()
    check_conservation(files, lines, scanner.header_pairs)
    return files


def _without_carriage_returns(lines: list[str]) -> list[str]:
    """The lines as they were before the whole text was given CRLF endings, if it was: its headers tell."""
    headers = [line for line in lines if line.startswith(_HEADERS)]
    if headers and all(line.endswith("\r") for line in headers):
        return [line.removesuffix("\r") for line in lines]
    return lines


def check_conservation(files: Sequence[FilePatch], lines: Sequence[str], header_pairs: int) -> None:
    """Count once more, apart from the scanners: no change mark of the text may be missing in what they made of it.

    `header_pairs` is how many `---` lines with their `+++` lines are headers; raises MalformedPatch.
    """
    if not files:
        raise MalformedPatch(NO_PATCH)
    marked = list(_marked_lines(lines))
    for mark, found in (("-", sum(file.removed for file in files)), ("+", sum(file.added for file in files))):
        written = sum(line[0] == mark for line in marked) - header_pairs
        if found < written:
            raise MalformedPatch(
                f"Of {written} lines that begin with `{mark}` only {found} belong to a hunk. Nothing was applied."
            )


def _marked_lines(lines: Sequence[str]) -> Iterator[str]:
    """Every line with a change mark from the first file on, without the prose between the commits of a series."""
    inside = False
    for at, line in enumerate(lines):
        if line.startswith(("diff --git ", "*** ")) or (
            line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")
        ):
            inside = True
        elif line.startswith(("From ", "commit ")) or line.rstrip("\r") in ("-- ", "--"):
            inside = False
        if inside and line[:1] in ("+", "-"):
            yield line
