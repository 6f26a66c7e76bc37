"""A patch that a person stages: drafted, or refused in words for a person."""

from collections.abc import Callable, Sequence
from contextlib import suppress

from app.proposals.disk.apply import reason_of
from app.proposals.draft import Draft
from app.proposals.errors import PatchRefused, ProposalError
from app.proposals.overlay import Contents
from app.proposals.patch.parts import ReadPatch
from app.proposals.patch.reversing import made_of_disk, on_disk_already
from app.proposals.refusals import EditRefused
from app.proposals.reports import EditReport
from app.proposals.stacking import related
from app.proposals.staging import compile_changes, outcome_of
from app.proposals.store import ProposalStore
from app.sandbox.changes import Change
from app.workspace.path_rules import WorkspaceError


class PatchOnDisk(Exception):
    """A patch was made of what is on disk."""

    def __init__(self, changes: Sequence[Change], patch: ReadPatch) -> None:
        """`changes` are from what it was made of to what is on disk."""
        super().__init__()
        self.changes = changes
        self.left_out = [part.path for part in patch.parts if part.left_out]


def taken(draft: Draft, text: str, folder: str, disk_draft: Callable[[], Draft], store: ProposalStore) -> EditReport:
    """Make a patch in a draft.

    Args:
        draft: An empty one.
        text: The patch.
        folder: Where the workspace lies in its repository.
        disk_draft: Makes an empty one over the disk alone.
        store: Has what waits.

    Raises:
        PatchOnDisk: what it changes is on disk as it changes it.
        PatchRefused: it is no patch, one for another tree, or one that was staged before.
    """
    try:
        patch = draft.read_patch(text, folder, whole=False)
    except (EditRefused, WorkspaceError) as error:
        raise PatchRefused(f"The patch was not taken: {_first_sentence(error)}") from error
    # Lines that a patch without context adds could be added twice; git's ids of both contents tell.
    if made_of_disk(disk_draft(), patch) and (changes := on_disk_already(disk_draft(), patch)):
        raise PatchOnDisk(changes, patch)
    try:
        return draft.patch(patch)
    except (EditRefused, WorkspaceError) as error:
        if name := waiting_with(store, disk_draft(), patch):
            raise PatchRefused(
                f"{name} already waits with this very change; `signoff show {name}` shows it."
            ) from error
        if changes := on_disk_already(disk_draft(), patch):
            raise PatchOnDisk(changes, patch) from error
        raise PatchRefused(f"The patch was not taken: {_first_sentence(error)}") from error
    except OSError as error:
        raise PatchRefused(f"The patch was not taken: {reason_of(error)}.") from error


def waiting_with(store: ProposalStore, draft: Draft, patch: ReadPatch) -> str:
    """The waiting proposal that makes of the disk what a patch would make of it; empty if there is none.

    Args:
        store: Has what waits.
        draft: An empty one over the disk alone.
        patch: What was staged.
    """
    with suppress(EditRefused, WorkspaceError, ProposalError, OSError):
        draft.patch(patch)
        wanted = outcome_of(compile_changes(Contents(store), draft.held))
        for proposal in related(store, draft.held.keys()):
            if outcome_of(proposal.files) == wanted:
                return proposal.id
    return ""


def _first_sentence(error: Exception) -> str:
    """Why a patch was refused, without what is for a model that tries again; a sentence also where it leads on."""
    first = (error.fact if isinstance(error, EditRefused) else str(error)).splitlines()[0].removesuffix(":")
    return first if first.endswith((".", "?")) else f"{first}."
