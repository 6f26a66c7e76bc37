"""Appends entries to the record's hash chain, in the transaction that writes the recorded fact."""

import hashlib
import sqlite3
from typing import TypeVar, cast

from pydantic import BaseModel, ValidationError

from app.conversation.events import ProposalDecided
from app.proposals.values.record_entries import (
    DecisionRecordEntry,
    RecordChainEnd,
    SessionEventRecordEntry,
    feedback_hash,
)

_Record = TypeVar("_Record", bound=BaseModel)


def read_record_chain_end(connection: sqlite3.Connection, workspace: str) -> RecordChainEnd:
    """Return number and digest of the last entry in a workspace's record chain, for the next entry."""
    return RecordChainEnd(*connection.execute(_SELECT_CHAIN_END, {"workspace": workspace}).fetchone())


_SELECT_CHAIN_END = """
    SELECT number, sha256 FROM record_ends WHERE workspace = :workspace
    UNION ALL SELECT coalesce(max(number), 0), '' FROM record WHERE workspace = :workspace
    ORDER BY number DESC, sha256 DESC LIMIT 1
"""
"""If record_ends does not have the last entry, the next one follows none, and verification always finds that."""


def append_record_chain_entry(
    connection: sqlite3.Connection, workspace: str, entry: DecisionRecordEntry | SessionEventRecordEntry
) -> None:
    """Append an entry to the record chain of a workspace; call it within a transaction."""
    body = entry.model_dump_json().encode()
    link = (workspace, entry.number, hashlib.sha256(body).hexdigest())
    connection.execute("INSERT INTO record (workspace, number, sha256, body) VALUES (?, ?, ?, ?)", (*link, body))
    connection.execute("INSERT OR REPLACE INTO record_ends VALUES (?, ?, ?)", link)


def append_decision_event_to_record_chain(
    connection: sqlite3.Connection, workspace: str, session: str, event: ProposalDecided, *, earlier: bool = False
) -> None:
    """Append the entry for an event about a decision, in the transaction that writes the event."""
    end = read_record_chain_end(connection, workspace)
    entry = SessionEventRecordEntry(
        number=end.number + 1,
        before=end.digest,
        time=event.time,
        proposal=event.proposal,
        count=event.number,
        decision=event.decision,
        session=session,
        files=tuple(file.path for file in event.files),
        origin=event.origin,
        words=feedback_hash(event.feedback, event.comments, event.images),
        event=hash_decision_event(event),
        earlier=earlier,
    )
    append_record_chain_entry(connection, workspace, entry)


def store_and_chain_decision_event(
    connection: sqlite3.Connection, workspace: str, session: str, event: ProposalDecided
) -> None:
    """Store the event of a decision with its feedback, append its entry, and remove it from the unrecorded ones."""
    append_decision_event_to_record_chain(connection, workspace, session, event)
    connection.execute(
        "INSERT INTO decisions (workspace, proposal, session, time, body) VALUES (?, ?, ?, ?, ?)",
        (workspace, event.proposal, session, event.time, event.model_dump_json()),
    )
    connection.execute(
        "DELETE FROM unrecorded WHERE workspace = ? AND proposal = ? AND number = ?",
        (workspace, event.proposal, event.number),
    )


def chain_events_of_older_versions(connection: sqlite3.Connection) -> None:
    """Append entries for the events that earlier versions stored without; skip unreadable ones."""
    rows = connection.execute("SELECT workspace, session, time, body FROM decisions ORDER BY id").fetchall()
    for workspace, session, time, body in rows:
        if (event := parse_record(ProposalDecided, body)) is not None:
            append_decision_event_to_record_chain(
                connection, workspace, session, event.model_copy(update={"time": time}), earlier=True
            )


def parse_record(kind: type[_Record], body: object) -> _Record | None:
    """Return the record that a JSON text holds; None if it is unreadable."""
    try:
        return kind.model_validate_json(cast(str | bytes, body))
    except (ValidationError, UnicodeDecodeError, TypeError):
        return None


def hash_decision_event(event: ProposalDecided) -> str:
    """Return the SHA-256 of an event, without the feedback, which only one session has, and without its event id."""
    left_out = {"id", "feedback", "comments", "images"}
    # Leave out default values: fields that a later version adds do not change the hash.
    text = event.model_dump_json(exclude=left_out, exclude_defaults=True)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
