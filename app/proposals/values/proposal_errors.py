"""Errors of the proposals engine: decisions that cannot be carried out, and edits that are refused.

An edit is refused if its place is not certain. The text is for the model: it says what was searched, where it nearly
matched, and what to send instead, in at most `MESSAGE_LIMIT` bytes.
"""

MESSAGE_LIMIT = 2_048
"""Maximum bytes (UTF-8) of one message."""

MAX_PROPOSAL_FILES = 5_000
"""Files of one proposal that a person can review; more are refused."""

_CUT_MARK = "\n[cut]"


def shorten_to_byte_limit(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """Return the text in at most `limit` bytes of UTF-8, cut between characters and marked if it was longer."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode("utf-8")
    return data[: limit - len(_CUT_MARK)].decode("utf-8", "ignore") + _CUT_MARK


class EditRefused(Exception):
    """An edit that was not made.

    Args:
        fact: Why it was not made, for any reader.
        advice: Advice for a model only: the nearest text of the file, how to try again.
    """

    def __init__(self, fact: str, advice: str = "") -> None:
        super().__init__(shorten_to_byte_limit(f"{fact} {advice}" if advice else fact))
        self.fact = fact
        self.advice = advice

    @property
    def message(self) -> str:
        """Return the text for the model, with what it should do next."""
        return str(self.args[0])


class NoMatch(EditRefused):
    """The text to replace is not in the file, not even on a tolerant level."""


class AmbiguousMatch(EditRefused):
    """Several places match equally well."""


class AlreadyApplied(EditRefused):
    """The file already has the result of the edit."""


class OverlappingEdits(EditRefused):
    """Two edits of one call change the same text."""


class NotEditable(EditRefused):
    """The file cannot be edited as text: binary, too large, or the new text cannot be written in its encoding."""


class ElidedText(EditRefused):
    """The edit abbreviates text with `...`."""


class PointlessEdit(EditRefused):
    """The edit itself makes no sense: nothing to replace, or nothing changed."""


class MalformedPatch(EditRefused):
    """A patch text of which some part cannot be parsed."""


class UnsupportedPatch(EditRefused):
    """A patch part of an unsupported kind: binary, combined, symlink, submodule, copy."""


class ProposalError(Exception):
    """An operation failed; the proposal is unchanged, and the message says why and what to do."""


class UnknownProposal(ProposalError):
    """There is no proposal with this id."""


class NoSuchPendingHunk(ProposalError):
    """The proposal does not have this hunk, or the hunk is already decided."""


class NotPending(ProposalError):
    """The proposal does not await a decision, or not any more."""


class StaleProposal(ProposalError):
    """The files have changed and cannot be merged."""


class ChangedSinceShown(ProposalError):
    """An approval would write something other than what was shown."""


class DependsOnPendingProposal(ProposalError):
    """The proposal builds on another one that is still pending."""


class NothingToUndo(ProposalError):
    """The proposal has written nothing to undo, or nothing was undone that a redo could write."""


class UndoConflict(ProposalError):
    """The files have changed in the same places since."""


class ApplyFailed(ProposalError):
    """The change set could not be written; every file is as it was before."""


class RecoveryNeeded(ProposalError):
    """An apply broke off and could not be rolled back at once; `recover` finishes it."""


class DecisionMadeButNotRecorded(ProposalError):
    """The decision was carried out and stays, but could not be recorded."""


class RequiredCheckFailed(ProposalError):
    """A check that is required before a write has failed."""


class TooManyUnreadLinesToStage(ProposalError):
    """More unread lines are pending than the user's reading budget allows; nothing was staged."""

    def __init__(self, lines: int) -> None:
        super().__init__(f"The reviewer has {lines:,} lines to read; stop here, or wait.")
        self.lines = lines


class WorkspaceBusy(ProposalError):
    """Another process is writing in this workspace."""


class UnexportablePatch(ProposalError):
    """The change cannot be written as a patch that every program reads in the same way."""


class NothingToStage(ProposalError):
    """There is nothing to propose, for instance because the edits cancel out."""


class InvalidTransition(ProposalError):
    """A proposal cannot change from the one state to the other."""


class MissingContent(ProposalError, KeyError):
    """The store has lost content that a proposal needs."""

    def __str__(self) -> str:
        """Return the message as it is; KeyError would quote it."""
        return str(self.args[0])


class DiskFailed(ProposalError):
    """The disk could not be read or written; nothing has changed."""


class PatchRefused(ProposalError):
    """A patch is malformed, does not fit this workspace, or was staged before."""


class InvalidUserEdit(ProposalError):
    """The text that the user gives for a file cannot take the place of the proposed content."""


class GitCommitFailed(ProposalError):
    """Git did not commit what was applied; the files themselves are written."""
