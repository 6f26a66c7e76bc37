"""What a crash left behind: every open record is rolled back or forward before anything else is written."""

from collections.abc import Mapping

from app.proposals.apply import Applier, Standing, reason_of
from app.proposals.models import Proposal, ProposalState
from app.proposals.states import advance, standing
from app.proposals.store import JournalRecord, ProposalStore

_WORDS = {"apply": "approval", "undo": "undo", "redo": "redo"}


def recover(store: ProposalStore, applier: Applier) -> list[str]:
    """Finish what broke off; the workspace lock is held.

    A record of which every file is new is closed as done; else every file gets its old content back. Where a file is
    neither old nor new, nothing at all is touched, and the proposal fails with the reason until that changes.

    Returns:
        One line for each record that was rolled back or forward, or newly found blocked.
    """
    lines = [
        line
        for state in ("open", "blocked")
        for record in reversed(store.journal(state=state))
        if (line := _finish(store, applier, record))
    ]
    for record in store.journal()[:1]:
        if record.state in ("done", "rolled_back"):
            applier.clean_up(record)
    return lines


def _finish(store: ProposalStore, applier: Applier, record: JournalRecord) -> str:
    name = f"The {_WORDS[record.action]} of {record.proposal}"
    stored = store.proposal(record.proposal)
    try:
        standings = applier.standings(record)
        foreign = [path for path, how in standings.items() if how == "other"]
        if foreign:
            return _block(store, record, stored, name, foreign, standings)
        if all(how == "after" for how in standings.values()):
            done = record.model_copy(update={"state": "done"})
            store.journal_close(done, Proposal.model_validate_json(record.after_proposal))
            applier.clean_up(done)
            return f"{name} had been cut off after the last file: it was completed, every file is new."
        applier.roll_back(record, ())
        rolled_back = record.model_copy(update={"state": "rolled_back"})
        store.journal_close(rolled_back, _as_before(stored, record) if stored else None)
    except Exception as error:
        return f"{name} was cut off and can't be put right yet ({reason_of(error)}); start signoff again to retry."
    return f"{name} had been cut off: it was rolled back, every file is as before."


def _block(
    store: ProposalStore,
    record: JournalRecord,
    stored: Proposal | None,
    name: str,
    foreign: list[str],
    standings: Mapping[str, Standing],
) -> str:
    """Touch nothing, say so once."""
    new = sorted(path for path, how in standings.items() if how == "after")
    reason = (
        f"{name} had been cut off, and {', '.join(foreign[:3])} changed since: nothing was touched. "
        f"{len(new)} of {len(standings)} files are new{': ' + ', '.join(new[:5]) if new else ''}. "
        "Put the named file back as it was before or after, and start signoff again."
    )
    if record.state == "blocked":
        return ""
    failed = advance(stored, ProposalState.FAILED, reason) if stored else None
    store.journal_close(record.model_copy(update={"state": "blocked"}), failed)
    return reason


def _as_before(stored: Proposal, record: JournalRecord) -> Proposal:
    """The proposal where it stood when the record was opened."""
    if stored.state is not ProposalState.FAILED:
        return stored
    return advance(stored, ProposalState.UNDONE if record.action == "redo" else standing(stored))
