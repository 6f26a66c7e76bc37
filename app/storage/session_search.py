"""Searches for words in the messages, proposals and read files of a workspace's sessions.

A full-text index (https://www.sqlite.org/fts5.html) stores the positions of words, but no text. Each search first
updates it, so that writing events stays fast. Event ids are never used twice, so stale index entries of deleted
events match nothing.
"""

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal, cast

from msgspec import Struct

from app.storage import StorageError
from app.storage.database import Database

MAX_HITS = 200
"""Largest number of hits of one search."""
_BATCH_EVENTS = 2_000
"""Events that are indexed in one transaction, which blocks other writers."""
_INDEXED_UPTO_KEY = "search.upto"

FoundKind = Literal["you", "model", "question", "proposal", "decision", "file", "asked", "answered"]
"""The kind of a hit; `asked` and `answered` belong to side questions."""


class SessionSearchHit(Struct, frozen=True):
    """An event of a session that contains all the words of a search."""

    session: str
    title: str
    """Title of the session."""
    event: int
    time: float
    """Unix time in seconds."""
    kind: FoundKind
    text: str
    """The indexed text: a message, or file paths, one per line."""


class SessionSearch:
    """Searches the sessions of one workspace. Synchronous; call it off the event loop."""

    def __init__(self, database: Database, workspace: str) -> None:
        self._database = database
        self._workspace = workspace

    def find(self, words: str, limit: int = MAX_HITS) -> list[SessionSearchHit]:
        """Return the events that contain all words, or words with these prefixes, ignoring case; newest first.

        Raises:
            StorageError: the database cannot be read or written, or this Python's SQLite has no full-text search.
        """
        if not (query := _make_query(words)):
            return []
        self.update_index()
        rows = self._database.query_rows(_SELECT_HITS, (query, self._workspace, 2 * limit))
        hits: dict[object, SessionSearchHit] = {}
        for event, session, title, event_time, kind, body in cast(list[tuple[int, str, str, float, str, str]], rows):
            for hit_kind, text in _searchable_text(kind, json.loads(body)):
                # Merge repeated reads of a file, and events that a fork has copied from its original.
                duplicate_key = (session, hit_kind, text) if hit_kind == "file" else (event_time, hit_kind, text)
                hits.setdefault(duplicate_key, SessionSearchHit(session, title, event, event_time, hit_kind, text))
        return list(hits.values())[:limit]

    def update_index(self) -> None:
        """Index the events that were written since the last call. Raises StorageError."""
        while self._index_batch():
            pass

    def _index_batch(self) -> bool:
        with self._database.transaction() as connection:
            _create_index(connection)
            ((upto,),) = connection.execute(
                "SELECT coalesce(max(CAST(value AS INTEGER)), 0) FROM settings WHERE scope = '' AND key = ?",
                (_INDEXED_UPTO_KEY,),
            ).fetchall()
            events = connection.execute(_SELECT_NEW_EVENTS, (upto, _BATCH_EVENTS)).fetchall()
            if not events:
                return False
            connection.executemany(
                "INSERT INTO search (rowid, text) VALUES (?, ?)",
                [(event, text) for event, kind, body in events if (text := _make_index_text(kind, body))],
            )
            connection.execute(
                "INSERT OR REPLACE INTO settings VALUES ('', ?, ?)", (_INDEXED_UPTO_KEY, str(events[-1][0]))
            )
        return len(events) == _BATCH_EVENTS


def remove_sessions_from_search_index(connection: sqlite3.Connection, sessions: Sequence[str]) -> None:
    """Remove sessions from the index; call it before they are deleted, in the same transaction."""
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'search'").fetchall():
        return
    upto = f"(SELECT CAST(value AS INTEGER) FROM settings WHERE scope = '' AND key = '{_INDEXED_UPTO_KEY}')"
    for session in sessions:
        events = connection.execute(f"{_SELECT_SESSION_EVENTS} AND id <= {upto}", (session,)).fetchall()
        # To delete from an index without texts, give it the same text
        # (https://www.sqlite.org/fts5.html#the_delete_command).
        connection.executemany(
            "INSERT INTO search (search, rowid, text) VALUES ('delete', ?, ?)",
            [(event, text) for event, kind, body in events if (text := _make_index_text(kind, body))],
        )


def _create_index(connection: sqlite3.Connection) -> None:
    try:
        connection.execute(_CREATE_INDEX)
    except sqlite3.OperationalError as error:
        if "no such module" not in str(error):
            raise
        raise StorageError("This Python's SQLite was built without full-text search (FTS5).") from error


def _searchable_text(kind: str, body: Mapping[str, Any]) -> Iterator[tuple[FoundKind, str]]:
    """Yield kind and text of an event for the index. If this changes, a migration must rebuild the index."""
    match kind:
        case "user_message" | "answer":
            yield "you", body["text"]
        case "call_denied":
            yield "you", body["feedback"]
        case "assistant_message" if body["state"] != "discarded" and body["text"].strip():
            yield "model", body["text"]
        case "question":
            yield "question", "\n".join((body["text"], *body.get("options", ())))
        case "proposal_staged":
            paths = (file["path"] for file in body["files"])
            yield "proposal", "\n".join((f"{body['proposal']} {body['summary']}", *paths))
        case "proposal_decided":
            comments = (f"{comment['path']}: {comment['text']}" for comment in body.get("comments", ()))
            if text := "\n".join(part for part in (body["feedback"], *comments) if part):
                yield "decision", text
        case "tool_result" if body.get("reads"):
            yield "file", "\n".join(body["reads"])
        case "side_question":
            yield "asked", f"{body['text']}\n{body['proposal']} {body['path']}"
        case "side_answer" if body["text"].strip():
            yield "answered", body["text"]


def _make_index_text(kind: str, body: str) -> str:
    return _split_ideographs("\n".join(text for _, text in _searchable_text(kind, json.loads(body))))


def _make_query(words: str) -> str:
    """Return the FTS query for all words as prefixes, quoted so that no word is an operator."""
    quoted = (word.replace('"', '""') for word in words.split())
    return " ".join(f'"{_split_ideographs(word)}"*' for word in quoted)


def _split_ideographs(text: str) -> str:
    """Return the text with each ideograph and syllable as a separate word, for scripts without spaces."""
    return text if text.isascii() else _ideograph_pattern().sub(r" \g<0> ", text)


@cache
def _ideograph_pattern() -> re.Pattern[str]:
    """Return the pattern of letters of scripts without spaces; compiled on first use, since that is slow."""
    return re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")


_CREATE_INDEX = """
    CREATE VIRTUAL TABLE IF NOT EXISTS search
    USING fts5(text, content='', prefix='2 3', tokenize='unicode61 remove_diacritics 2')
"""
_INDEXED_TYPES = (
    "type IN ('user_message', 'answer', 'assistant_message', 'question', 'proposal_staged', 'proposal_decided',"
    " 'tool_result', 'call_denied', 'side_question', 'side_answer')"
)
_INDEXED_BODY = """
    CASE type WHEN 'tool_result' THEN json_object('reads', json(json_extract(body, '$.reads'))) ELSE body END
"""
"""The body without texts of files and output of commands, which are not indexed."""
_SELECT_NEW_EVENTS = (
    f"SELECT id, type, {_INDEXED_BODY} FROM events WHERE id > ? AND {_INDEXED_TYPES} ORDER BY id LIMIT ?"
)
_SELECT_SESSION_EVENTS = f"SELECT id, type, {_INDEXED_BODY} FROM events WHERE session = ? AND {_INDEXED_TYPES}"
_SELECT_HITS = f"""
    SELECT events.id, events.session, sessions.title, events.time, events.type, {_INDEXED_BODY}
    FROM search JOIN events ON events.id = search.rowid JOIN sessions ON sessions.id = events.session
    WHERE search MATCH ? AND sessions.workspace = ? ORDER BY search.rowid DESC LIMIT ?
"""
