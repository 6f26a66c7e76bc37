"""Waits until the user has decided on a proposal, in any app, window or command line.

Only the database and the file that every write touches are looked at: a command that waits loads nothing of what
stages and decides, and nobody polls.
"""

import threading
import time
from dataclasses import dataclass

from app.proposals.values.proposal_errors import UnknownProposal
from app.storage.change_signals import ChangeSignal, ChangeWatch
from app.storage.database import Database

PATIENCE = 2.0
"""Seconds to wait until a decision is recorded with the text of its hunks; the user's words are stored earlier."""
_WAITS_FOR_THE_USER = ("pending", "partly_approved")
_FOREVER = 365 * 86_400.0


@dataclass(frozen=True, slots=True)
class DecisionStatus:
    """The state of a proposal and of the user's decisions on it."""

    state: str
    """`app.proposals.values.models.ProposalState`."""
    decisions: int
    """How many decisions the user has made on it: the number of the last one."""
    has_feedback: bool
    """Whether a decision that was not reported yet has words of the user."""
    recorded: bool
    """Whether all decisions are recorded with the state of each hunk; false only briefly, or after a crash."""

    @property
    def decided(self) -> bool:
        """Whether its author can go on: nothing of it is pending, or the user has given feedback.

        Feedback counts though other hunks wait, as it does for signoff's own model, which goes on at once.
        """
        return self.has_feedback or self.state not in _WAITS_FOR_THE_USER

    @property
    def denied_without_feedback(self) -> bool:
        """Whether it was denied without feedback that is still to be reported: then the user speaks next."""
        return self.state == "denied" and not self.has_feedback


def decision_status(database: Database, workspace: str, proposal: str, reported: int = 0) -> DecisionStatus:
    """Read the status once.

    Args:
        database: Open.
        workspace: What the store calls it (`OpenWorkspace.name`).
        proposal: Its id.
        reported: The number of the last decision that was reported of.

    Raises:
        UnknownProposal: there is none of this id.
        StorageError: the database cannot be read.
    """
    digits = proposal.strip()[1:]
    number = int(digits[:15]) if proposal.strip()[:1] in "Pp" and digits.isascii() and digits.isdigit() else 0
    values = {"workspace": workspace, "number": number, "id": f"P{number}", "reported": reported}
    rows = database.rows(_STANDING, values)
    if not rows:
        raise UnknownProposal(f"There is no proposal {proposal.strip()[:40] or '(empty)'} in this workspace.")
    state, decisions, has_feedback, unrecorded = rows[0]
    return DecisionStatus(str(state), int(str(decisions)), bool(has_feedback), not unrecorded)


def wait(
    database: Database,
    workspace: str,
    signal: ChangeSignal,
    proposal: str,
    *,
    reported: int = 0,
    seconds: float | None = None,
    stop: threading.Event | None = None,
) -> DecisionStatus:
    """Wait until a proposal is decided (`DecisionStatus.decided`) and the decision is recorded.

    Args:
        database: Open.
        workspace: What the store calls it (`OpenWorkspace.name`).
        signal: The workspace's (`OpenWorkspace.signal`).
        proposal: Its id.
        reported: The number of the last decision that was reported of.
        seconds: No longer than that; None for as long as it takes.
        stop: Ends it when it is set.

    Returns:
        The status when the wait ends, for any reason.

    Raises:
        UnknownProposal: there is none of this id.
        StorageError: the database cannot be read.
        OSError: the system does not let the file be watched.
    """
    end = time.monotonic() + (_FOREVER if seconds is None else min(seconds, _FOREVER))
    with ChangeWatch(signal) as watch:
        patient_until = 0.0
        while True:
            # Looked for once the watch is in place: what is written after this look is heard.
            now = decision_status(database, workspace, proposal, reported)
            until = end
            if now.decided:
                patient_until = patient_until or time.monotonic() + PATIENCE
                until = min(end, patient_until)
            if (now.decided and now.recorded) or time.monotonic() >= until or (stop is not None and stop.is_set()):
                return now
            watch.wait(until - time.monotonic(), stop)


_STANDING = """
    SELECT
        state,
        coalesce(json_extract(body, '$.last.number'), 0),
        EXISTS (
            SELECT 1 FROM decisions WHERE decisions.workspace = :workspace AND decisions.proposal = :id
            AND json_extract(decisions.body, '$.number') > :reported AND (
                trim(json_extract(decisions.body, '$.feedback'), char(9, 10, 11, 12, 13, 32)) != ''
                OR json_array_length(decisions.body, '$.comments') > 0
            )
        ) OR (
            coalesce(json_extract(body, '$.last.number'), 0) > :reported AND (
                trim(json_extract(body, '$.last.feedback'), char(9, 10, 11, 12, 13, 32)) != ''
                OR json_array_length(body, '$.last.comments') > 0
            )
        ),
        EXISTS (SELECT 1 FROM unrecorded WHERE unrecorded.workspace = :workspace AND unrecorded.proposal = :id)
    FROM proposals WHERE workspace = :workspace AND number = :number
"""
