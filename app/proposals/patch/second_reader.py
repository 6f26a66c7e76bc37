"""A second opinion on a patch that goes out: unidiff, which shares no code with ours, must make the same of it."""

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from app.proposals.errors import UnreadablePatch
from app.proposals.patch.unified import RenderFile, has_hunks
from app.proposals.text.document import decode, split_lines

if TYPE_CHECKING:
    from unidiff.patch import Hunk, PatchedFile

LONGEST = 1_000_000
"""Characters of a patch that are read again, in some tenths of a second; a longer one goes out on our word alone."""
_NO_NEWLINE = "\\"


def check_patch(text: str, files: Sequence[RenderFile]) -> None:
    """Raise UnreadablePatch unless unidiff, too, gets from each old content to the new one by `text`.

    Args:
        text: the patch as it goes out.
        files: what it was written from.
    """
    if len(text) > LONGEST:
        return
    from unidiff.errors import UnidiffParseError
    from unidiff.patch import PatchSet

    try:
        # Lines end at \n and nowhere else, as in the contents.
        read = [part for part in PatchSet(io.StringIO(text, newline="\n")) if len(part)]
    except UnidiffParseError as error:
        raise UnreadablePatch(
            f"The patch does not read back ({error}); `show --json` has the same change."
        ) from error
    written = [file for file in files if has_hunks(file)]
    if len(read) != len(written):
        raise UnreadablePatch(
            f"The patch has {len(written)} files but reads back as {len(read)}; `show --json` has the same change."
        )
    for file, part in zip(written, read, strict=True):
        if "".join(_patched(_lines(file.old), part)) != decode(file.new or b""):
            raise UnreadablePatch(
                f"The patch of {file.path} reads back as another; `show --json` has the same change."
            )


def _lines(data: bytes | None) -> list[str]:
    return [decode(line) for line in split_lines(data or b"")]


def _patched(old: Sequence[str], part: "PatchedFile") -> Iterator[str]:
    """The lines that a reader of `part` ends up with; wrong ones where its hunks don't fit."""
    at = 0
    for hunk in part:
        start = hunk.source_start - 1 if hunk.source_length else hunk.source_start
        yield from old[at:start]
        removed, added = _sides(hunk)
        at = start + len(removed)
        yield from added if removed == old[start:at] else ["\0"]
    yield from old[at:]


def _sides(hunk: "Hunk") -> tuple[list[str], list[str]]:
    """The lines before and after, endings included; `\\ No newline` takes the ending of the line above it away."""
    before: list[str] = []
    after: list[str] = []
    above: list[list[str]] = []
    for line in hunk:
        if line.line_type == _NO_NEWLINE:
            for side in above:
                side[-1] = side[-1].removesuffix("\n")
            continue
        above = [side for side, stands in ((before, not line.is_added), (after, not line.is_removed)) if stands]
        for side in above:
            side.append(line.value)
    return before, after
