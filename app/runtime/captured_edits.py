"""Makes proposals of the edits that the hooks of other agents have taken: done by whoever looks at a workspace."""

from collections.abc import Iterator
from contextlib import suppress

from app.proposals.files.filesystem import default_mode
from app.proposals.values.models import Proposal, ProposalState
from app.proposals.values.origin import Origin, OriginKind
from app.proposals.values.proposal_errors import NothingStaged, ProposalError
from app.runtime.open_workspace import OpenWorkspace
from app.sandbox.captured_changes import Leaf, PathChange
from app.storage.captured_edit_store import AgentTurn, CapturedFile
from app.storage.storage_errors import StorageError
from app.workspace.path_rules import WorkspaceError


def stage_captured(runtime: OpenWorkspace) -> list[str]:
    """Stage what is not staged yet.

    Returns:
        A line for the user for each that could not be; it is tried again whenever somebody looks.
    """
    lines = []
    try:
        for name in runtime.captured.to_stage():
            try:
                _stage(runtime, name)
            except (ProposalError, WorkspaceError, OSError) as error:
                lines.append(f"{name}, which another agent proposed, can't be staged: {error}")
    except StorageError as error:
        lines.append(f"What other agents proposed can't be staged: {error}")
    return lines


def _stage(runtime: OpenWorkspace, name: str) -> None:
    captured = runtime.captured
    turn, files = captured.of_proposal(name), captured.files(name)
    assert turn is not None, "a turn is kept for as long as what was captured in it"
    known = runtime.proposals.proposal(name)
    # What the user has begun to decide on stays as it is; the rest of the turn's edits stands beside it.
    own = known is None or (known.state is ProposalState.PENDING and known.last is None)
    draft = runtime.service.draft("", name if own else "")
    draft.origin = Origin(
        kind=OriginKind.AGENT, agent=turn.agent, model=turn.model, session=turn.session, prompt=turn.prompt
    )
    draft.take([_change(file) for file in files])
    became = name
    with suppress(NothingStaged):
        became = runtime.service.stage(draft, "", [each.id for each in _unanswered(runtime, turn)]).id
    captured.staged(name, became, files)


def _unanswered(runtime: OpenWorkspace, turn: AgentTurn) -> Iterator[Proposal]:
    """Proposals of the same agent's session that the user has denied with words, the latest first."""
    for turn_before in reversed(runtime.captured.of_session(turn.agent, turn.session)):
        earlier = runtime.proposals.proposal(turn_before.proposal)
        if earlier and earlier.state is ProposalState.DENIED and earlier.feedback and not earlier.superseded_by:
            yield earlier


def _change(file: CapturedFile) -> PathChange:
    before = None if file.before is None else Leaf(file.before, file.before_mode)
    after = None if file.after is None else Leaf(file.after, file.before_mode or default_mode())
    return PathChange(file.path, before, after)
