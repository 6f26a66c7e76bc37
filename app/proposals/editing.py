"""The user's own text in the place of what a proposal would write.

Kept apart: the only way by which a text of the user's gets into a proposal.
"""

from app.proposals.attention.looking import looked_through
from app.proposals.changes import next_number, recompared
from app.proposals.errors import EditRejected
from app.proposals.locate.rewrite import rewrite
from app.proposals.models import Proposal
from app.proposals.overlay import Contents, same, undecided
from app.proposals.refusals import EditRefused
from app.proposals.text.document import Document


def with_text(contents: Contents, proposal: Proposal, path: str, text: str) -> Proposal:
    """The proposal with another result for one file; lines that stay keep their bytes and hunks that stay their ids.

    Raises:
        EditRejected: the file is not text, is not in the proposal, or nothing is left of the change.
    """
    change = next((each for each in proposal.files if each.path == path and undecided(each)), None)
    if change is None or change.result is None or change.binary or change.links:
        raise EditRejected(f"{proposal.id} has no text to edit at {path}.")
    if change.on_disk:
        raise EditRejected(f"{path} is on disk as {proposal.id} has it; edit the file itself, {proposal.id} follows.")
    try:
        data = rewrite(Document(contents.get(change.result)), text)
    except EditRefused as error:
        raise EditRejected(f"{path} was not changed: {error.fact}") from error
    result = contents.add(data, change.result.mode)
    if same(result, change.result):
        return proposal
    if same(result, change.base) and not change.old_path:
        raise EditRejected(f"That leaves {path} as it is on disk; deny the change instead.")
    edited = change.model_copy(
        update={"result": result, "origin_base": change.base, "origin_result": result, "edited": True}
    )
    edited = recompared(contents, edited, next_number=next_number(proposal.files))
    files = tuple(edited if each is change else each for each in proposal.files)
    after = proposal.model_copy(update={"files": files, "revision": proposal.revision + 1})
    return looked_through(contents, after) if proposal.order else after
