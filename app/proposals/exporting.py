"""A proposal as a patch that other programs read."""

from app.proposals.document import decode
from app.proposals.models import FileChange, HunkState, Proposal
from app.proposals.overlay import Contents, undecided
from app.proposals.unified import RenderFile, render


def as_patch(contents: Contents, proposal: Proposal) -> str:
    """What awaits a decision, or, once all is decided, what was written; for one that was denied, what it wanted.

    Bytes that are not UTF-8 come as U+DC80..U+DCFF: write the text with `surrogateescape`.
    """
    return decode(render([_file(contents, change) for change in _shown(proposal)]))


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
    )
