"""Recovery after a crash: every open record is finished or rolled back before anything else is written."""

from collections.abc import Callable, Sequence

from app.proposals.journal.apply import describe_os_error
from app.proposals.journal.rollback import Rollback
from app.proposals.values.models import Proposal, ProposalState
from app.proposals.values.proposal_states import compute_state, set_state
from app.proposals.values.proposal_store import JournalRecord, ProposalStore

_WORDS = {"apply": "approval", "undo": "undo", "redo": "redo"}
_SHOWN = 5


def recover_records(store: ProposalStore, rollback: Rollback) -> list[str]:
    """Finish open records; the workspace lock is held.

    A record that was carried out to its last file is closed as done; else everything goes back to where it was. What
    others changed meanwhile stays as it is.

    Returns:
        One line for each record that was rolled back or forward, or could not be yet.
    """
    lines = clear_leftovers(store, rollback)
    # Earlier versions left records blocked where a file had been changed by others.
    for state in ("open", "blocked"):
        lines += [_finish(store, rollback, record) for record in reversed(store.journal(state=state))]
    return lines


def clear_leftovers(store: ProposalStore, rollback: Rollback) -> list[str]:
    """Remove what a crash has left of the latest record after it was closed; the workspace lock is held.

    Called before each new record, it leaves nothing of the older ones.

    Returns:
        A sentence for each thing that stays.
    """
    latest = [record for record in store.journal(limit=1) if record.state in ("done", "rolled_back")]
    return [line for record in latest for line in _tidied(rollback, record)]


def _finish(store: ProposalStore, rollback: Rollback, record: JournalRecord) -> str:
    name = f"The {_WORDS[record.action]} of {record.proposal}"
    try:
        record = rollback.recognised_record(record)
        if rollback.is_carried_out(record):
            return _complete(store, rollback, record, name)
        kept = rollback.run(record, {entry.path for entry in record.entries})
        closed = record.model_copy(update={"state": "rolled_back"})
        changed = rollback.changed_elsewhere(closed)
        outcome = f"{name} had been cut off: it was rolled back, every {{}} is as before."
        unrecorded = _close(store, closed, lambda: _as_before(store.proposal(record.proposal), record))
        return _told(outcome, changed, kept, unrecorded)
    except Exception as error:
        return (
            f"{name} was cut off and is not put right yet ({describe_os_error(error)}); start signoff again to retry."
        )


def _complete(store: ProposalStore, rollback: Rollback, record: JournalRecord, name: str) -> str:
    done = record.model_copy(update={"state": "done"})
    changed = rollback.changed_elsewhere(done)
    outcome = f"{name} had been cut off after the last file: it was completed, every {{}} is new."
    unrecorded = _close(store, done, lambda: Proposal.model_validate_json(record.after_proposal))
    return _told(outcome, changed, [] if unrecorded else _tidied(rollback, done), unrecorded)


def _close(store: ProposalStore, record: JournalRecord, proposal: Callable[[], Proposal | None]) -> str:
    """Record how it ended; what to say if that can't be done, for the files are right all the same."""
    try:
        store.journal_close(record, proposal())
    except Exception as error:
        return f"This could not be recorded yet ({describe_os_error(error)}); signoff does so at its next start."
    return ""


def _tidied(rollback: Rollback, record: JournalRecord) -> list[str]:
    try:
        return rollback.tidy(rollback.recognised_record(record))
    except OSError:
        return []


def _told(outcome: str, changed: Sequence[str], kept: Sequence[str], unrecorded: str) -> str:
    """One line: what became of it, what others have changed, where things are kept, and what is still to be done."""
    line = outcome.format("other file" if changed else "file")
    if changed:
        more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        line += f" Somebody else changed {', '.join(changed[:_SHOWN])}{more}; that stays as it is."
    return " ".join(filter(None, (line, *kept, unrecorded)))


def _as_before(stored: Proposal | None, record: JournalRecord) -> Proposal | None:
    """The proposal where it stood when the record was opened."""
    if stored is None or stored.state is not ProposalState.FAILED:
        return stored
    return set_state(stored, ProposalState.UNDONE if record.action == "redo" else compute_state(stored))
