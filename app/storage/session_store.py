"""Sessions and their events, decisions, and small settings such as drafts and learned profiles."""

import sqlite3
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import cast, get_args

from msgspec import Struct
from pydantic import ValidationError

from app.conversation.events import (
    AssistantMessage,
    ContentPruned,
    Event,
    HistoryCompacted,
    MessageQueued,
    MessagesDequeued,
    ProposalChanged,
    ProposalDecided,
    UserMessage,
)
from app.conversation.log import skip_to_first_turn
from app.copies import make_memory_saving_copy, replace
from app.storage import SessionNotFoundOrAmbiguous, StorageError
from app.storage.database import Database
from app.storage.process_coordination import DatabaseChangeSignal

_MAX_TITLE_CHARACTERS = 80
"""Largest number of characters of a title."""
_MIN_DESCRIPTIVE_BYTES = 12
"""UTF-8 bytes from which a title describes a session; an ideograph has three bytes, and says more than a letter."""


def update_automatic_title(connection: sqlite3.Connection, session: str, messages: Sequence[str]) -> None:
    """Set the title to the user's first message with enough words, unless the user has named the session."""
    ((title, is_named),) = connection.execute("SELECT title, named FROM sessions WHERE id = ?", (session,)).fetchall()
    if is_named:
        return
    candidates = [*([title] if title else []), *map(make_session_title, messages)]
    best = next(filter(_is_descriptive, candidates), candidates[0])
    connection.execute("UPDATE sessions SET title = ? WHERE id = ?", (best, session))


def _is_descriptive(title: str) -> bool:
    """Return whether a title describes a session, unlike a greeting or `go on`."""
    return len(title.encode(errors="replace")) >= _MIN_DESCRIPTIVE_BYTES


def make_session_title(text: str) -> str:
    """Return a text as one line of limited length."""
    line = " ".join(text[: 10 * _MAX_TITLE_CHARACTERS].split())
    return line if len(line) <= _MAX_TITLE_CHARACTERS else line[: _MAX_TITLE_CHARACTERS - 1].rstrip() + "…"


_BATCH_EVENTS = 1_000
"""Number of events that are read at a time."""


class SessionRecord(Struct, frozen=True):
    """A stored session without its events: title, model, origin of a fork, times and pin."""

    id: str
    workspace: str
    title: str
    model: str
    """The model that answered last; before an answer, the model at the session's start."""
    forked_from: str
    created: float
    updated: float
    """Unix time of the last event, seconds."""
    pinned: bool = False
    """Whether pruning keeps it at any age."""


class AuditEntry(Struct, frozen=True):
    """A decision on a proposal as the audit trail lists it, with its session and time."""

    id: int
    session: str
    """Empty if the proposal has no session."""
    time: float
    decided: ProposalDecided


class SessionStore:
    """Sessions, decisions and small settings of one workspace. Synchronous; call it off the event loop."""

    def __init__(self, database: Database, workspace: str, signal: DatabaseChangeSignal) -> None:
        self._database = database
        self._workspace = workspace
        self._signal = signal
        self.on_events_written: Callable[[str, Sequence[Event]], None] = lambda session_id, events: None
        """Called with the session id and the events after this process has written them."""

    @property
    def workspace(self) -> str:
        """Return the name of the workspace."""
        return self._workspace

    def create(self, *, model: str = "", title: str = "", forked_from: str = "") -> SessionRecord:
        """Create an empty session."""
        now = time.time()
        record = SessionRecord(uuid.uuid4().hex[:8], self._workspace, title, model, forked_from, now, now)
        with self._database.transaction() as connection:
            connection.execute(
                "INSERT INTO sessions (id, workspace, title, model, forked_from, created, updated)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (record.id, record.workspace, title, model, forked_from, now, now),
            )
        return record

    def fork(self, session_id: str, upto: int | None = None) -> SessionRecord:
        """Create a copy of a session, up to and including event `upto`.

        Queued messages are not copied: each is sent only once, in the original.
        """
        original = self.get(session_id)
        forked = self.create(model=original.model, title=original.title, forked_from=original.id)
        events = [
            event
            for event in self.events(original.id)
            if (upto is None or event.id <= upto) and not isinstance(event, MessageQueued | MessagesDequeued)
        ]
        if events:
            self._insert_events(forked.id, events, copied=True)
        return replace(forked, updated=time.time())

    def get(self, session_id: str) -> SessionRecord:
        """Return the session with this id or unique prefix of an id. Raises SessionNotFoundOrAmbiguous."""
        rows = self._database.query_rows(
            f"SELECT {_SESSION_COLUMNS} FROM sessions WHERE workspace = ? AND id LIKE ? || '%' ESCAPE '\\'",
            (self._workspace, session_id.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")),
        )
        if not session_id or not rows:
            raise SessionNotFoundOrAmbiguous(
                f"There is no session {session_id!r} here; `signoff sessions`, or /sessions in the app, lists them."
            )
        if len(rows) > 1:
            raise SessionNotFoundOrAmbiguous(f"Several sessions begin with {session_id!r}; give more of the id.")
        return _make_session_record(rows[0])

    def exists(self, session_id: str) -> bool:
        """Return whether this workspace has a session with exactly this id."""
        rows = self._database.query_rows(
            "SELECT 1 FROM sessions WHERE workspace = ? AND id = ?", (self._workspace, session_id)
        )
        return bool(rows)

    def all(self) -> list[SessionRecord]:
        """Return the sessions of this workspace that have events, latest first."""
        rows = self._database.query_rows(
            f"SELECT {_SESSION_COLUMNS} FROM sessions WHERE workspace = ?"
            " AND EXISTS (SELECT 1 FROM events WHERE events.session = sessions.id) ORDER BY updated DESC",
            (self._workspace,),
        )
        return [_make_session_record(row) for row in rows]

    def latest(self) -> SessionRecord | None:
        """Return the session that was active last; None if there is none."""
        return next(iter(self.all()), None)

    def rename(self, session_id: str, title: str) -> None:
        """Set a title that messages do not replace."""
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE sessions SET title = ?, named = 1 WHERE id = ?", (make_session_title(title), session_id)
            )

    def pin(self, session_id: str, pinned: bool) -> None:
        """Protect a session from pruning, or end the protection."""
        with self._database.transaction() as connection:
            connection.execute("UPDATE sessions SET pinned = ? WHERE id = ?", (pinned, session_id))

    def delete(self, session_ids: Sequence[str]) -> None:
        """Remove sessions with their events; proposals and decisions stay."""
        from app.storage import session_search

        with self._database.transaction() as connection:
            session_search.remove_sessions_from_search_index(connection, session_ids)
            connection.executemany("DELETE FROM sessions WHERE id = ?", [(session_id,) for session_id in session_ids])

    def append_events(self, session_id: str, events: Sequence[Event], after: int | None = None) -> list[Event]:
        """Append events in one transaction; return them with their ids and times, after those that others have
        written.

        Decisions are also written to the other sessions that know the proposal, without the feedback.

        Args:
            after: Id of the last event that the caller knows; events that other processes wrote since are returned,
                too.
        """
        stored = self._insert_events(session_id, events, after=after)
        self._signal.send()
        self.on_events_written(session_id, stored[len(stored) - len(events) :])
        return stored

    def _insert_events(
        self, session_id: str, events: Sequence[Event], *, after: int | None = None, copied: bool = False
    ) -> list[Event]:
        """Append events; if they are `copied` from another session, keep their times and record no decisions."""
        now = time.time()
        stored: list[Event] = []
        new_ids: dict[int, int] = {}
        with self._database.transaction() as connection:
            if after is not None:
                stored += self._parse_rows(
                    session_id, connection.execute(_SELECT_EVENTS_AFTER, (session_id, after)).fetchall()
                )
            # Another process may have deleted a session that is open here: create it again.
            connection.execute(
                "INSERT OR IGNORE INTO sessions (id, workspace, created, updated) VALUES (?, ?, ?, ?)",
                (session_id, self._workspace, now, now),
            )
            for original in events:
                event = _with_new_references(original, new_ids) if copied else original
                event_time = event.time or now
                numbered = _insert_event(connection, session_id, event, event_time)
                stored.append(numbered)
                new_ids[original.id] = numbered.id
                if isinstance(numbered, ProposalDecided) and not copied:
                    _insert_decision(connection, self._workspace, session_id, numbered)
                if isinstance(numbered, ProposalDecided | ProposalChanged) and not copied:
                    self._copy_to_related_sessions(connection, session_id, numbered)
            connection.execute("UPDATE sessions SET updated = ? WHERE id = ?", (now, session_id))
            if models := [event.model for event in events if isinstance(event, AssistantMessage) and event.model]:
                connection.execute("UPDATE sessions SET model = ? WHERE id = ?", (models[-1], session_id))
            if typed_texts := [event.typed_text for event in events if isinstance(event, UserMessage)]:
                update_automatic_title(connection, session_id, typed_texts)
        return stored

    def _copy_to_related_sessions(
        self, connection: sqlite3.Connection, session_id: str, event: ProposalDecided | ProposalChanged
    ) -> None:
        """Write an event about a proposal to the other sessions that know the proposal: forks and their originals.

        Feedback is left out, since only the model of one session must get it.
        """
        if isinstance(event, ProposalDecided):
            event = event.model_copy(update={"feedback": "", "comments": (), "images": ()})
        parameters = {"workspace": self._workspace, "session": session_id, "proposal": event.proposal}
        for (other,) in connection.execute(_SELECT_RELATED_SESSIONS, parameters).fetchall():
            _insert_event(connection, other, event, event.time)

    def events(self, session_id: str, after: int = 0) -> list[Event]:
        """Return the events of a session with an id above `after`, in order."""
        result: list[Event] = []
        # Read in batches: the rows of a long session use as much memory as its events.
        while rows := self._database.query_rows(f"{_SELECT_EVENTS_AFTER} LIMIT {_BATCH_EVENTS}", (session_id, after)):
            result += self._parse_rows(session_id, rows)
            after = result[-1].id
        return result

    def last_events(self, session_id: str, count: int) -> list[Event]:
        """Return the newest `count` events of a session without ladder moves, in order."""
        rows = self._database.query_rows(
            "SELECT id, time, type, body FROM events WHERE session = ? AND type != 'ladder_move'"
            " ORDER BY id DESC LIMIT ?",
            (session_id, count),
        )
        return self._parse_rows(session_id, rows[::-1])

    def last_turns(self, session_id: str, count: int = 300) -> Sequence[Event]:
        """Return about the newest `count` events of a session, starting with the first complete turn."""
        events = self.last_events(session_id, count)
        return skip_to_first_turn(events) if len(events) == count else events

    @staticmethod
    def _parse_rows(session_id: str, rows: Sequence[tuple[object, ...]]) -> list[Event]:
        try:
            return [_parse_event(*row) for row in cast(Sequence[tuple[int, float, str, str]], rows)]
        except (KeyError, ValidationError) as error:
            raise StorageError(
                f"Session {session_id} holds something that this signoff cannot read: update signoff. "
                "Nothing was changed."
            ) from error

    def record_decision(self, decided: ProposalDecided) -> None:
        """Store a decision on a proposal that belongs to no session."""
        with self._database.transaction() as connection:
            _insert_decision(connection, self._workspace, "", decided.model_copy(update={"time": time.time()}))
        self._signal.send()
        self.on_events_written("", [decided])

    def decisions(self, proposal: str = "") -> list[AuditEntry]:
        """Return the decisions on one proposal or on all, oldest first."""
        rows = self._database.query_rows(
            "SELECT id, session, time, body FROM decisions"
            " WHERE workspace = ? AND (? = '' OR proposal = ?) ORDER BY id",
            (self._workspace, proposal, proposal),
        )
        try:
            return [
                AuditEntry(
                    cast(int, number),
                    cast(str, session),
                    cast(float, decision_time),
                    ProposalDecided.model_validate_json(cast(str, body)),
                )
                for number, session, decision_time, body in rows
            ]
        except ValidationError as error:
            raise StorageError(
                "A decision of this workspace cannot be read: update signoff. Nothing was changed."
            ) from error

    def side_questions(self, proposal: str) -> list[Event]:
        """Return the side questions about a proposal and their answers, in all sessions of this workspace."""
        rows = self._database.query_rows(
            "SELECT events.id, time, type, body FROM events JOIN sessions ON sessions.id = events.session"
            " WHERE sessions.workspace = ? AND type IN ('side_question', 'side_answer')"
            " AND json_extract(body, '$.proposal') = ? ORDER BY events.id",
            (self._workspace, proposal),
        )
        return self._parse_rows("of this workspace", rows)

    def sent_messages(self, limit: int = 500) -> list[str]:
        """Return the last `limit` messages of the user in this workspace, oldest first, for the composer's
        history."""
        rows = self._database.query_rows(
            "SELECT coalesce(json_extract(body, '$.command.typed'), json_extract(body, '$.text'))"
            " FROM events JOIN sessions ON sessions.id = events.session"
            " WHERE sessions.workspace = ? AND type IN ('user_message', 'answer') ORDER BY events.id DESC LIMIT ?",
            (self._workspace, limit),
        )
        return [cast(str, text) for (text,) in reversed(rows)]

    def setting(self, key: str, *, shared: bool = False) -> str | None:
        """Return a setting of this workspace, or if `shared` of all workspaces; None if it is not set."""
        rows = self._database.query_rows(
            "SELECT value FROM settings WHERE scope = ? AND key = ?", ("" if shared else self._workspace, key)
        )
        return cast(str, rows[0][0]) if rows else None

    def settings(self, prefix: str) -> dict[str, str]:
        """Return the settings of this workspace whose keys begin with `prefix`."""
        rows = self._database.query_rows(
            "SELECT key, value FROM settings WHERE scope = ? AND substr(key, 1, ?) = ?",
            (self._workspace, len(prefix), prefix),
        )
        return {cast(str, key): cast(str, value) for key, value in rows}

    def rename_setting(self, key: str, new_key: str) -> None:
        """Rename a setting of this workspace; replace a setting that already has the new key."""
        with self._database.transaction() as connection:
            connection.execute(
                "UPDATE OR REPLACE settings SET key = ? WHERE scope = ? AND key = ?", (new_key, self._workspace, key)
            )

    def set_setting(self, key: str, value: str | None, *, shared: bool = False) -> None:
        """Store a setting; None deletes it."""
        scope = "" if shared else self._workspace
        with self._database.transaction() as connection:
            if value is None:
                connection.execute("DELETE FROM settings WHERE scope = ? AND key = ?", (scope, key))
            else:
                connection.execute("INSERT OR REPLACE INTO settings VALUES (?, ?, ?)", (scope, key, value))


def _with_new_references(event: Event, new_ids: Mapping[int, int]) -> Event:
    """Return a copied event that refers to the copies of the events that it is about."""
    match event:
        case HistoryCompacted():
            covered = [new for old, new in new_ids.items() if old <= event.upto]
            return event.model_copy(update={"upto": max(covered, default=0)})
        case ContentPruned():
            results = tuple(new_ids[old] for old in event.results if old in new_ids)
            images = tuple(new_ids[old] for old in event.images if old in new_ids)
            return event.model_copy(update={"results": results, "images": images})
        case _:
            return event


def _parse_event(number: int, event_time: float, kind: str, body: str) -> Event:
    """Return an event from its row. Raises KeyError and ValidationError."""
    model = _EVENT_CLASSES[kind]
    event = model.model_validate_json(f'{{"id":{number},"time":{event_time!r},{body[1:]}')
    return make_memory_saving_copy(event)


_EVENT_CLASSES: dict[str, type[Event]] = {
    kind.model_fields["type"].default: kind for kind in get_args(get_args(Event)[0])
}
"""The event classes by type; pydantic builds the validator of a class when it is first used."""
_SELECT_EVENTS_AFTER = "SELECT id, time, type, body FROM events WHERE session = ? AND id > ? ORDER BY id"
_SELECT_RELATED_SESSIONS = """
    WITH RECURSIVE family (id) AS (
        SELECT :session
        UNION
        SELECT CASE sessions.id WHEN family.id THEN sessions.forked_from ELSE sessions.id END
        FROM family JOIN sessions ON family.id IN (sessions.id, sessions.forked_from)
        WHERE family.id != '' AND sessions.workspace = :workspace
    )
    SELECT id FROM family WHERE id NOT IN ('', :session) AND EXISTS (
        SELECT 1 FROM events WHERE session = family.id AND type = 'proposal_staged'
        AND json_extract(body, '$.proposal') = :proposal
    )
"""
"""The sessions that are related to one by forks, directly or not, and know the proposal."""
_SESSION_COLUMNS = "id, workspace, title, model, forked_from, created, updated, pinned"


def _make_session_record(row: tuple[object, ...]) -> SessionRecord:
    *rest, pinned = row
    return SessionRecord(*cast(tuple[str, str, str, str, str, float, float], tuple(rest)), bool(pinned))


def _insert_event(connection: sqlite3.Connection, session: str, event: Event, event_time: float) -> Event:
    """Write one event; return it with its id and time."""
    cursor = connection.execute(
        "INSERT INTO events (session, time, type, body) VALUES (?, ?, ?, ?)",
        (session, event_time, event.type, event.model_dump_json(exclude={"id", "time"})),
    )
    return make_memory_saving_copy(event, {"id": cursor.lastrowid, "time": event_time})


def _insert_decision(connection: sqlite3.Connection, workspace: str, session: str, decided: ProposalDecided) -> None:
    # Imported only if something is decided.
    from app.storage.record_chain import store_and_chain_decision_event

    store_and_chain_decision_event(connection, workspace, session, decided)
