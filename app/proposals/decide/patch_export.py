"""A proposal for readers: both texts of a file for the review, a patch for other programs."""

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from app.proposals.overlay.overlay import Contents, is_undecided
from app.proposals.patch.unified import PatchFileContent, has_hunks, render_diff, split_kinds
from app.proposals.text.diff import LineChange
from app.proposals.text.document import Document, decode, display_pair, split_lines
from app.proposals.text.hunks import has_effect
from app.proposals.values.attention_reason import Reason
from app.proposals.values.models import FileChange, FileDiff, HunkState, Proposal
from app.proposals.values.proposal_errors import UnreadablePatch
from app.sandbox.captured_changes import Leaf, PathChange

if TYPE_CHECKING:
    from unidiff.patch import Hunk, PatchedFile


LONGEST = 1_000_000
"""Characters of a patch that are read again, in some tenths of a second; a longer one goes out on our word alone."""
_NO_NEWLINE = "\\"


def check_patch(text: str, files: Sequence[PatchFileContent]) -> None:
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


def as_patch(contents: Contents, proposal: Proposal) -> str:
    """Return the pending changes as a patch; of a decided proposal what was written, of a denied one what it wanted.

    Bytes that are not UTF-8 come as U+DC80..U+DCFF: write the text with `surrogateescape`. Raises UnreadablePatch if
    another reader would make something else of it.
    """
    files = [part for change in _shown(proposal) for part in split_kinds(_file(contents, change))]
    text = decode(render_diff(files))
    check_patch(text, files)
    return text


def as_changes(contents: Contents, proposal: Proposal) -> list[PathChange]:
    """Return the same changes by path with all bytes; a moved file is deleted in one place and new in another."""
    found: list[PathChange] = []
    for change in _shown(proposal):
        before, after = (
            None if version is None else Leaf(contents.get(version), version.mode)
            for version in (change.base, change.result)
        )
        if change.old_path:
            found.append(PathChange(change.old_path, before, None))
            before = None
        found.append(PathChange(change.path, before, after))
    return found


def file_diff(contents: Contents, change: FileChange, reasons: Iterable[Reason] = ()) -> FileDiff:
    """Both texts of one file as the review draws them; no lines for a binary one or a link.

    Of the reasons, which may be of a whole proposal, it gets its own.
    """
    own = tuple(reason for reason in reasons if reason.path == change.path)
    if change.binary or change.links:
        return FileDiff(change=change, old=(), new=(), reasons=own)
    old, new = Document(contents.get(change.base)), Document(contents.get(change.result))
    old_lines, new_lines = display_pair(old, new)
    return FileDiff(
        change=change,
        old=old_lines,
        new=new_lines,
        old_final_newline=old.final_newline,
        new_final_newline=new.final_newline,
        reasons=own,
    )


def _shown(proposal: Proposal) -> list[FileChange]:
    if proposal.state.is_pending:
        return [change for change in proposal.files if is_undecided(change) and not change.already_applied]
    applied = [change for change in proposal.files if change.state is HunkState.APPLIED]
    return applied or list(proposal.files)


def _file(contents: Contents, change: FileChange) -> PatchFileContent:
    base, result = change.base, change.result
    return PatchFileContent(
        path=change.path,
        old=None if base is None else contents.get(base),
        new=None if result is None else contents.get(result),
        old_path=change.old_path,
        old_mode=base.mode if base else 0o644,
        new_mode=result.mode if result else 0o644,
        changes=_changes(change),
    )


def _changes(change: FileChange) -> list[LineChange] | None:
    """The line changes that the hunks of a change are; None for a link, which has none."""
    if change.links:
        return None
    return [
        LineChange(hunk.old_start, hunk.old_start + hunk.old_count, hunk.new_start, hunk.new_start + hunk.new_count)
        for hunk in change.hunks
        if has_effect(hunk)
    ]
