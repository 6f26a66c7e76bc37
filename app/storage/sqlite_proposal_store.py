"""The proposals of one workspace in SQLite; implements `app.proposals.values.proposal_store.ProposalStore`."""

import hashlib
import json
import sqlite3
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar, cast
from weakref import WeakValueDictionary

from pydantic import ValidationError

from app.copies import make_memory_saving_copy
from app.proposals.values.decision_facts import LastDecision
from app.proposals.values.models import Proposal
from app.proposals.values.origin import OriginKind
from app.proposals.values.proposal_store import JournalEntry, JournalRecord
from app.storage import StorageError
from app.storage.captured_edit_store import (
    RESERVE_PROPOSAL_NUMBER,
    CapturedAgentTurn,
    delete_old_edits_and_turns,
    insert_turn_if_missing,
)
from app.storage.database import Database
from app.storage.process_coordination import DatabaseChangeSignal
from app.storage.seen_lines_store import raise_if_too_many_unread_lines

if TYPE_CHECKING:
    from app.proposals.values.record_entries import DecisionRecordEntry

FRESH_SECONDS = 86_400.0
"""Pruning spares contents that were put less than this ago: their proposal may be written soon."""

_Record = TypeVar("_Record", Proposal, JournalRecord, LastDecision)


class SqliteProposalStore:
    """Proposals, blobs and the apply journal of one workspace; data is on disk when a method returns.

    Args:
        who: Returns the name of the user who decides.
        unread_limit: Returns how many lines may wait unread before a new proposal is staged; 0 for any number.
    """

    def __init__(
        self,
        database: Database,
        workspace: str,
        signal: DatabaseChangeSignal,
        who: Callable[[], str] = lambda: "",
        unread_limit: Callable[[], int] = lambda: 0,
    ) -> None:
        self._database = database
        self._read_user_name = who
        self._read_unread_limit = unread_limit
        self._workspace = workspace
        self._signal = signal
        self._writes = 0
        self.on_proposal_staged: Callable[[Proposal], None] = lambda proposal: None
        """Called with each new proposal after it is written."""

    def reserve_proposal_id(self) -> str:
        """Reserve the next proposal id."""
        with self._database.transaction() as connection:
            row = connection.execute(RESERVE_PROPOSAL_NUMBER, (self._workspace,)).fetchone()
        return f"P{row[0]}"

    def save_proposal(self, *proposals: Proposal) -> None:
        """Insert or replace all proposals or none; raise TooManyUnreadLinesToStage if a new one has no room.

        With a new one of another agent its turn is stored, which holds the agent at the gate.
        Changes that are already on disk are not limited, nor captured edits, which were counted when they were
        captured.
        """
        limit = self._read_unread_limit() if any(candidate.state.is_pending for candidate in proposals) else 0
        with self._database.transaction() as connection:
            known_ids = {
                candidate.id
                for candidate in proposals
                if connection.execute(_SELECT_KNOWN, self._proposal_row(candidate)[:2]).fetchone()
            }
            if limit and any(
                candidate.id not in known_ids and self._adds_unread_lines(connection, candidate)
                for candidate in proposals
            ):
                raise_if_too_many_unread_lines(connection, self._workspace, limit)
            for proposal in proposals:
                self._write_proposal(connection, proposal)
                origin = proposal.origin
                if origin.kind is OriginKind.AGENT and proposal.id not in known_ids:
                    turn = CapturedAgentTurn(
                        origin.agent, origin.session, origin.prompt, model=origin.model, proposal=proposal.id
                    )
                    insert_turn_if_missing(connection, self._workspace, turn)
                    delete_old_edits_and_turns(connection)
        self._signal.send()
        for proposal in proposals:
            if proposal.id not in known_ids:
                self.on_proposal_staged(proposal)

    def _adds_unread_lines(self, connection: sqlite3.Connection, proposal: Proposal) -> bool:
        """Return whether a proposal adds unread lines: not if it is on disk, from signoff itself, or counted
        before."""
        origin = proposal.origin
        if not proposal.state.is_pending or origin.kind in (OriginKind.DISK, OriginKind.PROGRAM):
            return False
        turn = (self._workspace, origin.agent, origin.session, origin.prompt)
        return not connection.execute(_SELECT_CAPTURED, turn).fetchone()

    def change_counter(self) -> tuple[int, int]:
        """Return a value that changes with each write of a proposal by any process; it may also change without
        one."""
        return self._database.foreign_write_counter(), self._writes

    def proposal(self, proposal_id: str) -> Proposal | None:
        """Return a proposal by its id, ignoring case; None if there is none."""
        number = proposal_id.strip()[1:]
        if proposal_id.strip()[:1] not in ("P", "p") or not (number.isascii() and number.isdigit()):
            return None
        rows = self._database.query_rows(
            "SELECT body FROM proposals WHERE workspace = ? AND number = ?", (self._workspace, int(number[:15]))
        )
        return _parse_proposal(rows[0][0]) if rows else None

    def proposals(self, *, waiting_only: bool = False) -> Sequence[Proposal]:
        """Return all proposals, or the waiting ones, oldest first."""
        rows = self._database.query_rows(
            "SELECT body FROM proposals WHERE workspace = ? AND waiting >= ? ORDER BY number",
            (self._workspace, int(waiting_only)),
        )
        return [_parse_proposal(body) for (body,) in rows]

    def pending_on_paths(self, paths: Collection[str], folders: Collection[str] = ()) -> list[Proposal]:
        """Return waiting proposals that touch one of `paths`, a file below one, or one of `folders`; oldest first."""
        path_lists = {"exact": json.dumps([*paths, *folders]), "above": json.dumps([*paths])}
        rows = self._database.query_rows(_SELECT_WAITING_ON_PATHS, {"workspace": self._workspace, **path_lists})
        return [_parse_proposal(body) for (body,) in rows]

    def decided_on_paths(self, paths: Collection[str]) -> list[Proposal]:
        """Return the latest decided proposals that name one of the paths; oldest first."""
        parameters = {"workspace": self._workspace, "paths": json.dumps([*paths]), "most": _MAX_COMPARED_PROPOSALS}
        rows = self._database.query_rows(_SELECT_DECIDED_ON_PATHS, parameters)
        return [_parse_proposal(body) for (body,) in reversed(rows)]

    def entries_on_paths(self, paths: Collection[str]) -> "list[DecisionRecordEntry]":
        """Return the record entries of all proposals that have a decision about one of the paths; oldest first."""
        # Imported only for changes that were made outside signoff.
        from app.storage.record_store import intact_entries_on_paths

        return intact_entries_on_paths(self._database, self._workspace, paths)

    def recent_proposals(self) -> list[Proposal]:
        """Return the waiting proposals and the newest decided ones, oldest first."""
        rows = self._database.query_rows(
            "SELECT body FROM proposals WHERE workspace = ? AND (waiting = 1 OR number IN"
            " (SELECT number FROM proposals WHERE workspace = ? AND waiting = 0 ORDER BY number DESC LIMIT ?))"
            " ORDER BY number",
            (self._workspace, self._workspace, RECENT),
        )
        return [_parse_proposal(body) for (body,) in rows]

    def unrecorded_decisions(self, seconds: float = 0) -> list[tuple[str, LastDecision]]:
        """Return the decisions that were made more than `seconds` ago and are not recorded, with proposal; oldest
        first."""
        rows = self._database.query_rows(
            "SELECT proposal, body FROM unrecorded WHERE workspace = ? AND time < ? ORDER BY time",
            (self._workspace, time.time() - seconds),
        )
        return [(cast(str, name), _parse_row(LastDecision, body)) for name, body in rows]

    def put_blobs(self, contents: Iterable[bytes]) -> list[str]:
        """Store these contents in one transaction; return the SHA-256 hex digest of each."""
        now = time.time()
        rows = [(hashlib.sha256(data).hexdigest(), data, now) for data in contents]
        if rows:
            with self._database.transaction() as connection:
                connection.executemany(_PUT_BLOB, rows)
        return [name for name, _, _ in rows]

    def read_blob(self, sha256: str) -> bytes:
        """Return a content. Raises KeyError if it is missing or damaged."""
        rows = self._database.query_rows("SELECT data FROM blobs WHERE sha256 = ?", (sha256,))
        if not rows or hashlib.sha256(data := cast(bytes, rows[0][0])).hexdigest() != sha256:
            raise KeyError(sha256)
        return data

    def open_journal_record(self, record: JournalRecord) -> JournalRecord:
        """Write the record of an intended apply; return it with its id."""
        with self._database.transaction() as connection:
            cursor = connection.execute(
                "INSERT INTO journal (workspace, proposal, state, time, body) VALUES (?, ?, ?, ?, ?)",
                (self._workspace, record.proposal, record.state, record.time, record.model_dump_json()),
            )
        return record.model_copy(update={"id": cursor.lastrowid})

    def mark_journal_prepared(self, record: JournalRecord) -> None:
        """Mark an open record as prepared, with the created files."""
        with self._database.transaction() as connection:
            connection.execute(_UPDATE_JOURNAL, _journal_row(record))

    def close_journal_record(self, record: JournalRecord, proposal: Proposal | None) -> None:
        """Write the record's final state and the proposal's new state in one transaction."""
        with self._database.transaction() as connection:
            connection.execute(_UPDATE_JOURNAL, _journal_row(record))
            if proposal:
                self._write_proposal(connection, proposal, record.entries if record.state == "done" else ())
        self._signal.send()

    def journal_records(self, *, proposal: str = "", state: str = "", limit: int = 0) -> Sequence[JournalRecord]:
        """Return the journal's records that match the filters, newest first; at most `limit`, if not 0."""
        rows = self._database.query_rows(
            "SELECT id, body FROM journal WHERE workspace = ?"
            " AND (? = '' OR proposal = ?) AND (? = '' OR state = ?) ORDER BY id DESC LIMIT ?",
            (self._workspace, proposal, proposal, state, state, limit or -1),
        )
        return [_parse_row(JournalRecord, body).model_copy(update={"id": number}) for number, body in rows]

    def _write_proposal(
        self, connection: sqlite3.Connection, proposal: Proposal, written: Sequence[JournalEntry] = ()
    ) -> None:
        self._writes += 1
        if last := proposal.last:
            name = {"workspace": self._workspace, "number": proposal.number, "id": proposal.id}
            body = {"last": last.number, "time": time.time(), "body": last.model_dump_json()}
            if connection.execute(_INSERT_UNRECORDED, name | body).rowcount:
                self._append_record_entry(connection, proposal, last, written)
        connection.execute(_REPLACE_PROPOSAL, self._proposal_row(proposal))
        paths = {path for change in proposal.files for path in change.paths}
        rows = [(self._workspace, path, proposal.number) for path in paths]
        connection.executemany("INSERT INTO proposal_paths VALUES (?, ?, ?)", rows)

    def _append_record_entry(
        self, connection: sqlite3.Connection, proposal: Proposal, last: LastDecision, written: Sequence[JournalEntry]
    ) -> None:
        """Append the user's decision to the record, in the transaction that stores the decision."""
        # Imported only if something is decided.
        from app.proposals.values.record_entries import git_blob_id, make_record_entry
        from app.storage.record_chain import append_record_chain_entry, read_record_chain_end

        def git_id(name: str) -> str:
            row = connection.execute("SELECT data FROM blobs WHERE sha256 = ?", (name,)).fetchone()
            return git_blob_id(row[0]) if row else ""

        key = (self._workspace, proposal.number)
        (body_before,) = connection.execute(_SELECT_BODY, key).fetchone()
        last_link = read_record_chain_end(connection, self._workspace)
        entry = make_record_entry(
            _parse_row(Proposal, body_before),
            proposal,
            last,
            written,
            git_id,
            who=self._read_user_name(),
            chain_end=last_link,
            time=time.time(),
        )
        append_record_chain_entry(connection, self._workspace, entry)

    def _proposal_row(self, proposal: Proposal) -> tuple[object, ...]:
        return (
            self._workspace,
            proposal.number,
            proposal.session,
            proposal.state,
            int(proposal.state.is_pending),
            proposal.created,
            proposal.model_dump_json(),
        )


_proposals_in_use: "WeakValueDictionary[str, Proposal]" = WeakValueDictionary()
"""Proposals that are referenced elsewhere, by their stored JSON, so that thousands in the review are loaded once."""


def _parse_proposal(body: object) -> Proposal:
    """Return a stored proposal; cached, since pending ones are read often."""
    text = cast(str, body)
    if (proposal := _proposals_in_use.get(text)) is None:
        proposal = _proposals_in_use[text] = (
            _parse_small_proposal(text) if len(text) < _MAX_SMALL_CHARACTERS else _parse_large_proposal(text)
        )
    return proposal


@lru_cache(maxsize=32)
def _parse_small_proposal(body: str) -> Proposal:
    return make_memory_saving_copy(_parse_row(Proposal, body))


@lru_cache(maxsize=2)
def _parse_large_proposal(body: str) -> Proposal:
    return _parse_row(Proposal, body)


def _parse_row(kind: type[_Record], body: object) -> _Record:
    """Return the object in a row. Raises StorageError for a row of another version or a damaged one."""
    try:
        return kind.model_validate_json(cast(str, body))
    except ValidationError as error:
        raise StorageError(
            "A proposal of this workspace cannot be read: update signoff, or set SIGNOFF_HOME to another folder. "
            "Nothing was changed."
        ) from error


def _journal_row(record: JournalRecord) -> tuple[object, ...]:
    return record.state, record.model_dump_json(), record.id


RECENT = 20
"""Number of latest decided proposals that the review shows."""

_MAX_SMALL_CHARACTERS = 8 * 1024
"""Characters of JSON below which more proposals are cached; of larger ones, only two."""
_MAX_COMPARED_PROPOSALS = 100
"""Number of latest decided proposals that are compared with a new one, to find repetitions."""

_SELECT_WAITING_ON_PATHS = """
    SELECT body FROM proposals WHERE workspace = :workspace AND waiting = 1 AND number IN (
        SELECT number FROM proposal_paths
        WHERE workspace = :workspace AND path IN (SELECT value FROM json_each(:exact))
        UNION
        SELECT number FROM json_each(:above) AS wanted CROSS JOIN proposal_paths
        WHERE workspace = :workspace
          AND proposal_paths.path > wanted.value || '/' AND proposal_paths.path < wanted.value || '0'
    ) ORDER BY number
"""
"""Paths below a folder sort between its name with a slash and its name with the next character after the slash."""
_SELECT_DECIDED_ON_PATHS = """
    SELECT body FROM proposals WHERE workspace = :workspace AND waiting = 0 AND number IN (
        SELECT number FROM proposal_paths
        WHERE workspace = :workspace AND path IN (SELECT value FROM json_each(:paths))
    ) ORDER BY number DESC LIMIT :most
"""
_PUT_BLOB = (
    "INSERT INTO blobs (sha256, data, added) VALUES (?, ?, ?)"
    # Putting the same content again writes nothing, unless it is old (it might be pruned) or damaged.
    " ON CONFLICT (sha256) DO UPDATE SET data = excluded.data, added = excluded.added"
    f" WHERE added < excluded.added - {FRESH_SECONDS / 2} OR data IS NOT excluded.data"
)
_SELECT_BODY = "SELECT body FROM proposals WHERE workspace = ? AND number = ?"
_UPDATE_JOURNAL = "UPDATE journal SET state = ?, body = ? WHERE id = ?"
_INSERT_UNRECORDED = """
    INSERT OR IGNORE INTO unrecorded (workspace, proposal, number, time, body)
    SELECT :workspace, :id, :last, :time, :body FROM proposals WHERE workspace = :workspace AND number = :number
    AND coalesce(json_extract(body, '$.last.number'), 0) < :last
"""
"""Inserts a row if the user has decided since the proposal was last saved."""
_SELECT_CAPTURED = (
    "SELECT 1 FROM captured JOIN agent_turns USING (workspace, proposal)"
    " WHERE workspace = ? AND agent = ? AND agent_turns.session = ? AND prompt = ? AND staged = 0"
)
_SELECT_KNOWN = "SELECT 1 FROM proposals WHERE workspace = ? AND number = ?"
_REPLACE_PROPOSAL = (
    "INSERT OR REPLACE INTO proposals (workspace, number, session, state, waiting, created, body)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)
