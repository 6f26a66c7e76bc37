"""Patch texts: unified diffs (git's and plain ones) and the `*** Begin Patch` form."""

import re
from collections.abc import Collection, Iterator, Sequence

from app.proposals.patch.parts import FilePatch
from app.proposals.patch.prose import begins_file, is_signature
from app.proposals.patch.scan_begin_patch import BeginPatchScanner, is_begin_patch
from app.proposals.patch.scan_unified import UnifiedScanner
from app.proposals.refusals import MalformedPatch, UnsupportedPatch
from app.proposals.text.document import MOST_COMPARED, decode

MAX_CHARACTERS = 64 * 1024 * 1024
"""Longest patch text that is read."""
MOST_LINES = 2 * MOST_COMPARED
"""Of a patch: as many as it takes to replace each line of the longest file that is compared."""

NO_PATCH = "This is no patch: it has neither `--- a/PATH` and `+++ b/PATH` lines nor `*** Begin Patch`."
_ANY_HEADER = re.compile(r"^[^\w\n]*(?:diff |---|\+\+\+|@@|\*\*\*)", re.MULTILINE)
"""What any patch has, so that a text which is none is refused before it is taken apart."""
_COLOURED = re.compile(r"^(?:\x1b\[[\d;]*m)+(?:diff |--- |@@ )", re.MULTILINE)
_CONTEXT_DIFF = re.compile(r"^\*\*\* \d+(?:,\d+)? \*\*\*\*")
_BEGINS = re.compile(r"^\s*\*\*\* (?:Begin Patch|(?:Add|Update|Delete) File: )")
_HEADERS = ("diff --git ", "--- ", "+++ ", "@@", "*** ")


def scan_patch(text: str | bytes, *, whole: bool = True) -> list[FilePatch]:
    """Read a patch.

    Args:
        text: The patch; bytes that are no UTF-8 come through as they are. Prose and code fences around it are passed
            over.
        whole: It is known not to be cut off, as the argument of a tool is; not what came through a pipe.

    Returns:
        Its files in order; one file may come twice, as in a series of commits.

    Raises:
        MalformedPatch: Part of it can't be understood or is missing, or a change mark stands outside every hunk.
        UnsupportedPatch: It has a binary, combined, symlink, submodule or copy part.
    """
    if isinstance(text, bytes):
        text = decode(text)
    if len(text) > MAX_CHARACTERS:
        raise UnsupportedPatch(
            f"The patch has {len(text):,} characters; the most that is read is {MAX_CHARACTERS:,}."
        )
    if (count := text.count("\n")) > MOST_LINES:
        raise UnsupportedPatch(f"The patch has {count:,} lines; the most that is read is {MOST_LINES:,}.")
    if _COLOURED.search(text):
        raise MalformedPatch("The patch has a terminal's colours in it. Make it without: `git diff --no-color`.")
    if not _ANY_HEADER.search(text):
        raise MalformedPatch(NO_PATCH)
    lines = text.removeprefix("\ufeff").split("\n")
    open_end = bool(lines[-1])
    if not open_end:
        lines.pop()
    lines = _without_carriage_returns(lines)
    if is_begin_patch(lines):
        begin_scanner = BeginPatchScanner(lines, whole=whole)
        files = begin_scanner.scan()
        check_conservation(files, _without(lines, begin_scanner.prose), 0)
        return files
    if any(_CONTEXT_DIFF.match(line) for line in lines):
        raise UnsupportedPatch("This is a context diff. Make a unified diff (`diff -u`, `git diff`).")
    scanner = UnifiedScanner(lines, whole=whole, open_end=open_end)
    files = scanner.scan()
    check_conservation(files, _without(lines, scanner.prose), scanner.header_pairs)
    if files and all(file.left_out for file in files):
        names = ", ".join(file.path for file in files[:5])
        raise UnsupportedPatch(f"The patch has nothing but {names}: {files[0].left_out}.")
    return files


def _without(lines: Sequence[str], prose: Collection[int]) -> list[str]:
    """The lines with those blanked that a scanner took for text around the patch."""
    return ["" if at in prose else line for at, line in enumerate(lines)]


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
    in_sections = is_begin_patch(lines)
    for at, line in enumerate(lines):
        if line.startswith("diff --git ") or (in_sections and _BEGINS.match(line)) or begins_file(lines, at):
            inside = True
        elif line.startswith(("From ", "commit ")) or is_signature(lines, at):
            inside = False
        if inside and line[:1] in ("+", "-"):
            yield line
