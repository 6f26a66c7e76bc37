"""What can go wrong with a proposal; every message is one line for the user that says what to do next."""


class ProposalError(Exception):
    """The proposal is as it was before; the message says why and what to do."""


class UnknownProposal(ProposalError):
    """There is no proposal with this id."""


class UnknownHunk(ProposalError):
    """The proposal has no such hunk, or it was decided before."""


class NotPending(ProposalError):
    """The proposal does not await a decision (any more)."""


class StaleProposal(ProposalError):
    """The disk has moved on in a way that cannot be merged."""


class ChangedSinceSeen(ProposalError):
    """What an approval would write is not what was shown."""


class StackedProposal(ProposalError):
    """The proposal builds on another one that still waits."""


class NothingToUndo(ProposalError):
    """The proposal has written nothing that could be taken back (or put back, for a redo)."""


class UndoConflict(ProposalError):
    """The files have changed since in the same places."""


class ApplyFailed(ProposalError):
    """The disk would not take the change set; every file is as it was before."""


class RecoveryNeeded(ProposalError):
    """An apply broke off and could not be taken back at once; `recover` finishes it."""


class NotRecorded(ProposalError):
    """The decision is carried out and stands, only the record of it could not be written."""


class CheckFailed(ProposalError):
    """A check that is run before it is written speaks against it."""


class WorkspaceBusy(ProposalError):
    """Another process is writing in this workspace."""


class UnreadablePatch(ProposalError):
    """The change can't be written as a patch that every reader takes for the same."""


class NothingStaged(ProposalError):
    """The edits cancel out: there is nothing to propose."""


class InvalidTransition(ProposalError):
    """A proposal cannot go from this state to that."""


class MissingContent(ProposalError, KeyError):
    """The store has lost a content that a proposal needs."""

    def __str__(self) -> str:
        """The message as it is; a KeyError would quote it."""
        return str(self.args[0])


class DiskFailed(ProposalError):
    """The disk would not answer; nothing has changed."""


class PatchRefused(ProposalError):
    """A patch from elsewhere does not fit this workspace."""


class EditRejected(ProposalError):
    """The text that the user gave can't be the proposed content."""


class CommitFailed(ProposalError):
    """Git would not commit what was applied; the files themselves are written."""
