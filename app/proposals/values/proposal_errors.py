"""Errors of the proposals engine: decisions that cannot be carried out, and edits that are refused.

A refused edit is the normal answer to an edit that cannot be placed beyond doubt. Its text is for the model: it says
what was looked for, where it nearly matched, and what to send instead, in at most `MESSAGE_LIMIT` bytes."""

MESSAGE_LIMIT = 2_048
"""Bytes of UTF-8 in one message."""

MAX_PROPOSAL_FILES = 5_000
"""Files of one proposal that a person can review; more are refused."""

_CUT = "\n[cut]"


def shorten_bytes(text: str, limit: int = MESSAGE_LIMIT) -> str:
    """The text, cut at a character boundary so that it fits into `limit` bytes of UTF-8 with a mark at the end."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode("utf-8")
    return data[: limit - len(_CUT)].decode("utf-8", "ignore") + _CUT


class EditRefused(Exception):
    """An edit that was not made.

    Args:
        fact: Why, for whoever reads it.
        advice: What only a model can use: the nearest text of the file, how to ask again.
    """

    def __init__(self, fact: str, advice: str = "") -> None:
        super().__init__(shorten_bytes(f"{fact} {advice}" if advice else fact))
        self.fact = fact
        self.advice = advice

    @property
    def message(self) -> str:
        """Return the text for the model, with what it should do next."""
        return str(self.args[0])


class NoMatch(EditRefused):
    """The text to replace is not in the file, not even by a tolerant rung."""


class AmbiguousMatch(EditRefused):
    """Several places match equally well."""


class AlreadyApplied(EditRefused):
    """The file already reads as the edit wants it."""


class OverlappingEdits(EditRefused):
    """Two edits of one call change the same text."""


class NotEditable(EditRefused):
    """The file can't be edited as text: binary, too large, or the new text can't be written in its encoding."""


class ElidedText(EditRefused):
    """The edit abbreviates text with `...`."""


class MalformedEdit(EditRefused):
    """The edit itself makes no sense: nothing to replace, or nothing changed."""


class MalformedPatch(EditRefused):
    """A patch text of which some part can't be understood."""


class UnsupportedPatch(EditRefused):
    """A patch part of a kind that is not taken: binary, combined, symlink, submodule, copy."""


class ProposalError(Exception):
    """The proposal is unchanged; the message says why and what to do."""


class UnknownProposal(ProposalError):
    """There is no proposal with this id."""


class UnknownHunk(ProposalError):
    """The proposal has no such hunk, or the hunk is already decided."""


class NotPending(ProposalError):
    """The proposal does not await a decision (any more)."""


class StaleProposal(ProposalError):
    """The disk has moved on in a way that cannot be merged."""


class ChangedSinceShown(ProposalError):
    """An approval would write something other than what was shown."""


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
    """The decision was carried out and stays, but could not be recorded."""


class CheckFailed(ProposalError):
    """A check that is run before it is written speaks against it."""


class TooMuchUnread(ProposalError):
    """More lines wait unread than the user's reading budget allows; nothing was staged."""

    def __init__(self, lines: int) -> None:
        super().__init__(f"The reviewer has {lines:,} lines to read; stop here, or wait.")
        self.lines = lines


class WorkspaceBusy(ProposalError):
    """Another process is writing in this workspace."""


class UnexportablePatch(ProposalError):
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


class InvalidUserText(ProposalError):
    """The text that the user gave can't be the proposed content."""


class CommitFailed(ProposalError):
    """Git would not commit what was applied; the files themselves are written."""
