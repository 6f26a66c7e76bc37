"""What the scanner made of a patch, written with right counts and held by unidiff, checked to say the same."""

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from app.proposals.locate.carry_over import ScriptLine
from app.proposals.models import Op
from app.proposals.patch.names import NO_FILE, quoted
from app.proposals.patch.parts import FilePatch, PatchHunk
from app.proposals.refusals import MalformedPatch

if TYPE_CHECKING:
    from unidiff.patch import PatchedFile, PatchSet

_NO_NEWLINE = "\\ No newline at end of file\n"


def canonical_text(files: Sequence[FilePatch]) -> str:
    """The patch as a unified diff whose counts come from its bodies.

    A hunk without a line number is numbered as if it stood right after the one before; a file without hunks has no
    part.
    """
    return "".join(_file(file) for file in files if file.hunks)


def canonical(files: Sequence[FilePatch]) -> "PatchSet":
    """The patch as unidiff holds it; raises MalformedPatch if unidiff does not read back every line of it."""
    from unidiff.errors import UnidiffParseError
    from unidiff.patch import PatchSet

    try:
        held = PatchSet(io.StringIO(canonical_text(files), newline="\n"))
    except UnidiffParseError as error:
        raise MalformedPatch(f"The patch can't be written as a plain unified diff: {error}") from error
    with_hunks = [file for file in files if file.hunks]
    if len(held) != len(with_hunks):
        raise MalformedPatch(f"The patch has {len(with_hunks)} files, but unidiff reads {len(held)}.")
    for file, held_file in zip(with_hunks, held, strict=True):
        if _lines_of(held_file) != [_written(line) for hunk in file.hunks for line in hunk.lines]:
            raise MalformedPatch(f"The part for {file.path} does not read back as it was written.")
    return held


def _lines_of(held: "PatchedFile") -> list[tuple[str, str]]:
    return [(line.line_type, line.value) for hunk in held for line in hunk if line.line_type in (" ", "-", "+")]


def _written(line: ScriptLine) -> tuple[str, str]:
    return line.step.value, line.text + (line.ending or "\n")


def _file(file: FilePatch) -> str:
    old = NO_FILE if file.op is Op.CREATE else quoted(f"a/{file.old_path or file.path}")
    new = NO_FILE if file.op is Op.DELETE else quoted(f"b/{file.path}")
    parts = [f"--- {old}\n", f"+++ {new}\n"]
    old_at = new_at = 1
    for hunk in file.hunks:
        old_at = _start(hunk.old_start, old_at, hunk.old_side)
        new_at = _start(hunk.new_start, new_at, hunk.new_side)
        parts.append(_hunk(hunk, old_at, new_at))
        old_at, new_at = max(old_at, 1) + len(hunk.old_side), max(new_at, 1) + len(hunk.new_side)
    return "".join(parts)


def _start(claimed: int | None, follows: int, side: Sequence[ScriptLine]) -> int:
    """The line to write into the header: of an empty side, the one before the place."""
    if claimed is not None:
        return max(claimed, 1) if side else claimed
    return follows if side else follows - 1


def _hunk(hunk: PatchHunk, old_at: int, new_at: int) -> str:
    lines = [f"@@ -{old_at},{len(hunk.old_side)} +{new_at},{len(hunk.new_side)} @@\n"]
    for line in hunk.lines:
        lines.append(line.step.value + line.text + (line.ending or "\n"))
        if line.ending == "":
            lines.append(_NO_NEWLINE)
    return "".join(lines)
