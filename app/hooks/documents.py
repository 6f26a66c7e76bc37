"""What a hook gets on its standard input; this model is its schema and its documentation."""

from collections.abc import Sequence
from functools import partial

from pydantic import BaseModel, ConfigDict

from app.config.hook_table import HookEventName
from app.conversation.events import Event, ProposalDecided, Question, TurnEnded
from app.proposals.facts import FileStat
from app.proposals.models import Proposal

_LONGEST_TEXT = 20_000
"""Characters of feedback or a question."""


class HookFile(BaseModel):
    """A file of a proposal, in numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str
    op: str
    """create, edit, delete, rename or mode."""
    added: int
    removed: int


class HookDocument(BaseModel):
    """One event. Fields that are not about its kind are empty."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    event: HookEventName
    workspace: str
    """The folder, which is where the hook runs."""
    session: str = ""
    """The session's id; empty for what others propose."""
    time: float
    """Unix time in seconds."""
    proposal: str = ""
    """Of `staged` and `decided`: its id, such as P7."""
    summary: str = ""
    """Of `staged`: what it is about."""
    origin: str = ""
    """Of `staged`: whose edits they are: `signoff`, `claude`, `patch`, `command` …"""
    files: list[HookFile] = []
    """Of `staged` and `decided`: all files, or those that were decided on."""
    decision: str = ""
    """Of `decided`: approved, partly_approved, denied, undone, redone, reopened or edited."""
    feedback: str = ""
    """Of `decided`: the user's words."""
    still_pending: bool = False
    """Of `decided`: whether hunks of it still wait."""
    stopped: str = ""
    """Of `turn_ended`: answer, staged, question, refused, aborted or failed."""
    message: str = ""
    """Of `turn_ended`: why, where it failed. Of `question`: the question."""
    options: list[str] = []
    """Of `question`: what there is to choose from."""


def of_proposal(proposal: Proposal, workspace: str) -> HookDocument:
    """That a proposal was staged."""
    return HookDocument(
        event="staged",
        workspace=workspace,
        session=proposal.session,
        time=proposal.created,
        proposal=proposal.id,
        summary=proposal.summary,
        origin=proposal.origin.label,
        files=_files([change.stat for change in proposal.files]),
    )


def of_event(event: Event, session: str, workspace: str, now: float) -> HookDocument | None:
    """What hooks are told of an event in a log; None for one that they are not told of."""
    told = partial(HookDocument, workspace=workspace, session=session, time=event.time or now)
    match event:
        case ProposalDecided():
            return told(
                event="decided",
                proposal=event.proposal,
                decision=event.decision,
                feedback=event.feedback[:_LONGEST_TEXT],
                still_pending=event.still_pending,
                files=_files(event.files),
            )
        case TurnEnded():
            return told(event="turn_ended", stopped=event.stopped, message=event.message)
        case Question():
            return told(event="question", message=event.text[:_LONGEST_TEXT], options=list(event.options))
    return None


def _files(stats: Sequence[FileStat]) -> list[HookFile]:
    return [HookFile(path=one.path, op=one.op, added=one.added, removed=one.removed) for one in stats]
