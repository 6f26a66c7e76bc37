"""A patch that a person stages: drafted, or refused in words for a person."""

from collections.abc import Callable
from contextlib import suppress

from app.proposals.disk.apply import reason_of
from app.proposals.draft import Draft
from app.proposals.errors import PatchRefused, ProposalError
from app.proposals.overlay import Contents
from app.proposals.patch.parts import ReadPatch
from app.proposals.refusals import EditRefused
from app.proposals.reports import EditReport
from app.proposals.stacking import related
from app.proposals.staging import compile_changes, outcome_of
from app.proposals.store import ProposalStore
from app.workspace.path_rules import WorkspaceError


def taken(
    draft: Draft,
    text: str,
    folder: str,
    waits_already: Callable[[ReadPatch], str],
    made_of_disk: Callable[[ReadPatch], bool],
) -> EditReport:
    """Make a patch in a draft.

    Args:
        draft: An empty one.
        text: The patch.
        folder: Where the workspace lies in its repository.
        waits_already: Names the proposal that waits with the change of a patch; empty if there is none.
        made_of_disk: Tells a patch that was made of what is on disk.

    Raises:
        PatchRefused: it is no patch, one for another tree, one that was staged before, or one that is on disk.
    """
    try:
        patch = draft.read_patch(text, folder, whole=False)
    except (EditRefused, WorkspaceError) as error:
        raise PatchRefused(f"The patch was not taken: {_first_sentence(error)}") from error
    if made_of_disk(patch):
        # Lines that a patch without context adds can be added twice.
        raise PatchRefused("The patch was not taken: it is on disk already.")
    try:
        return draft.patch(patch)
    except (EditRefused, WorkspaceError) as error:
        if name := waits_already(patch):
            raise PatchRefused(
                f"{name} already waits with this very change; `signoff show {name}` shows it."
            ) from error
        raise PatchRefused(f"The patch was not taken: {_first_sentence(error)}") from error
    except OSError as error:
        raise PatchRefused(f"The patch was not taken: {reason_of(error)}.") from error


def waiting_with(store: ProposalStore, contents: Contents, draft: Draft, patch: ReadPatch) -> str:
    """The waiting proposal that makes of the disk what a patch would make of it; empty if there is none.

    Args:
        store: Has what waits.
        contents: Where the bytes are.
        draft: An empty one over the disk alone.
        patch: What was staged.
    """
    with suppress(EditRefused, WorkspaceError, ProposalError, OSError):
        draft.patch(patch)
        wanted = outcome_of(compile_changes(contents, draft.held))
        for proposal in related(store, draft.held.keys()):
            if outcome_of(proposal.files) == wanted:
                return proposal.id
    return ""


def _first_sentence(error: Exception) -> str:
    """Why a patch was refused, without what is for a model that tries again; a sentence also where it leads on."""
    first = (error.fact if isinstance(error, EditRefused) else str(error)).splitlines()[0].removesuffix(":")
    return first if first.endswith((".", "?")) else f"{first}."
