"""A proposal for readers: both texts of a file for the review, a patch for other programs."""

from collections.abc import Iterable

from app.proposals.attention.reason import Reason
from app.proposals.models import FileChange, FileDiff, HunkState, Proposal
from app.proposals.overlay import Contents, undecided
from app.proposals.patch.second_reader import check_patch
from app.proposals.patch.unified import RenderFile, parts, render
from app.proposals.text.diff import Change
from app.proposals.text.document import Document, decode, display_pair
from app.proposals.text.hunks import in_force
from app.sandbox.changes import Change as PathChange
from app.sandbox.changes import Leaf


def as_patch(contents: Contents, proposal: Proposal) -> str:
    """What awaits a decision, or, once all is decided, what was written; for one that was denied, what it wanted.

    Bytes that are not UTF-8 come as U+DC80..U+DCFF: write the text with `surrogateescape`. Raises UnreadablePatch if
    another reader would make something else of it.
    """
    files = [part for change in _shown(proposal) for part in parts(_file(contents, change))]
    text = decode(render(files))
    check_patch(text, files)
    return text


def as_changes(contents: Contents, proposal: Proposal) -> list[PathChange]:
    """The same path by path, with all bytes: a file that moved is gone in one place and new in another."""
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
    if proposal.state.waiting:
        return [change for change in proposal.files if undecided(change) and not change.already_applied]
    applied = [change for change in proposal.files if change.state is HunkState.APPLIED]
    return applied or list(proposal.files)


def _file(contents: Contents, change: FileChange) -> RenderFile:
    base, result = change.base, change.result
    return RenderFile(
        path=change.path,
        old=None if base is None else contents.get(base),
        new=None if result is None else contents.get(result),
        old_path=change.old_path,
        old_mode=base.mode if base else 0o644,
        new_mode=result.mode if result else 0o644,
        changes=_changes(change),
    )


def _changes(change: FileChange) -> list[Change] | None:
    """The line changes that the hunks of a change are; None for a link, which has none."""
    if change.links:
        return None
    return [
        Change(hunk.old_start, hunk.old_start + hunk.old_count, hunk.new_start, hunk.new_start + hunk.new_count)
        for hunk in change.hunks
        if in_force(hunk)
    ]
