"""The record of a workspace in SQLite: adds entries to the chain, and finds where it is broken.

Each row holds the bytes of an entry as they were hashed, and their SHA-256. Verification trusts nothing that is
stored: it reads row by row, so that a page which a disk or a person has damaged hides no more than it holds.
"""

import hashlib
import json
import sqlite3
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import cast

from pydantic import ValidationError

from app.images.image import Image
from app.proposals.facts import LineComment
from app.proposals.record import FIRST, LATEST, Entry, Link, words_hash
from app.storage.database import Database
from app.storage.errors import StorageError


@dataclass(frozen=True, slots=True)
class Broken:
    """An entry that is not as it was written, or is gone."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class Verified:
    """What came of a walk along the chain."""

    entries: tuple[Entry, ...]
    """Those that are sound, oldest first."""
    broken: tuple[Broken, ...]
    head: str
    """What a next entry would hold for the one before; noted elsewhere, it shows a record that was written anew."""


def end_of_chain(connection: sqlite3.Connection, workspace: str) -> Link:
    """What the next entry is to follow."""
    row = connection.execute("SELECT number, sha256 FROM record_ends WHERE workspace = ?", (workspace,)).fetchone()
    return Link(*row) if row else Link()


def add_entry(connection: sqlite3.Connection, workspace: str, entry: Entry) -> None:
    """Add an entry at the end, within a transaction."""
    body = entry.model_dump_json().encode()
    link = (workspace, entry.number, hashlib.sha256(body).hexdigest())
    connection.execute("INSERT INTO record (workspace, number, sha256, body) VALUES (?, ?, ?, ?)", (*link, body))
    connection.execute("INSERT OR REPLACE INTO record_ends VALUES (?, ?, ?)", link)


def entries_on(database: Database, workspace: str, paths: Collection[str]) -> list[Entry]:
    """The sound entries of the proposals of which a decision names one of the paths, oldest first."""
    rows = database.rows(_ENTRIES_ON, {"workspace": workspace, "paths": json.dumps([*paths])})
    sound = [body for body, digest in rows if hashlib.sha256(cast(bytes, body)).hexdigest() == digest]
    return [entry for body in sound if (entry := _entry(body)) is not None]


class RecordStore:
    """Reads the record of one workspace. Synchronous; call it off the event loop."""

    def __init__(self, database: Database, workspace: str) -> None:
        self._database = database
        self._workspace = workspace

    def entries(self, proposal: str = "") -> list[Entry]:
        """The entries, oldest first, of one proposal or of all; what cannot be read is left to `verify`."""
        rows = self._database.rows("SELECT body FROM record WHERE workspace = ? ORDER BY number", (self._workspace,))
        found = [entry for (body,) in rows if (entry := _entry(body)) is not None]
        return [entry for entry in found if not proposal or entry.proposal == proposal]

    def verify(self) -> Verified:
        """Walk the whole chain.

        Raises:
            StorageError: the table cannot be read at all.
        """
        sound: list[Entry] = []
        broken: list[Broken] = []
        before = FIRST
        known = True
        said = self._words()
        for number, row in self._rows():
            if isinstance(row, str):
                broken.append(Broken(number, row))
                known = False
                continue
            body, digest = row
            entry = _entry(body)
            if entry is None and _format(body) > LATEST and hashlib.sha256(body).hexdigest() == digest:
                broken.append(
                    Broken(number, "was written by a later version of signoff; update it to verify this one")
                )
            elif entry is None or entry.number != number or hashlib.sha256(body).hexdigest() != digest:
                broken.append(Broken(number, "is not what was written"))
            elif known and entry.before != before:
                broken.append(Broken(number, f"does not follow entry {number - 1}: one of the two was changed"))
            elif said.get((entry.proposal, entry.count), entry.words) != entry.words:
                broken.append(Broken(number, "was made with other words than those that are kept"))
            else:
                sound.append(entry)
            before, known = digest, True
        return Verified(tuple(sound), tuple(broken), before)

    def _rows(self) -> Iterator[tuple[int, tuple[bytes, str] | str]]:
        """Each entry that there should be, or what is wrong with it."""
        end = self._end()
        for number in range(1, end.number + 1):
            try:
                rows = self._database.rows(
                    "SELECT body, sha256 FROM record WHERE workspace = ? AND number = ?", (self._workspace, number)
                )
            except StorageError as error:
                yield number, f"cannot be read ({error.__cause__ or error})"
                continue
            if not rows:
                yield number, "is missing"
                continue
            body, digest = cast(tuple[bytes, str], rows[0])
            if number == end.number and end.digest and digest != end.digest:
                yield number, "is not the one that was written last"
                continue
            yield number, (body, digest)

    def _end(self) -> Link:
        """Where the chain ends, by whichever of two places says more."""
        found = [Link()]
        unread: list[StorageError] = []
        for statement in _ENDS:
            try:
                rows = self._database.rows(statement, (self._workspace,))
            except StorageError as error:
                unread.append(error)
            else:
                found += [Link(*cast(tuple[int, str], row)) for row in rows]
        if len(unread) == len(_ENDS):
            raise unread[0]
        return max(found, key=lambda link: (link.number, link.digest))

    def _words(self) -> dict[tuple[str, int], str]:
        """What is kept of the user's words, by the proposal and the number of the decision on it."""
        found: dict[tuple[str, int], str] = {}
        for (body,) in self._database.rows("SELECT body FROM decisions WHERE workspace = ?", (self._workspace,)):
            try:
                kept = json.loads(cast(str, body))
                comments = tuple(LineComment.model_validate(comment) for comment in kept["comments"])
                images = [Image.model_validate(image) for image in kept.get("images", ())]
                found[kept["proposal"], kept["number"]] = words_hash(kept["feedback"], comments, images)
            except (ValueError, LookupError, TypeError):
                continue
        return found


_ENDS = (
    "SELECT number, sha256 FROM record_ends WHERE workspace = ?",
    "SELECT number, '' FROM record WHERE workspace = ? ORDER BY number DESC LIMIT 1",
)
"""Where the chain ends, said twice."""
_ENTRIES_ON = """
    WITH known AS (
        SELECT number, sha256, body, CAST(body AS TEXT) AS text FROM record
        WHERE workspace = :workspace AND json_valid(CAST(body AS TEXT))
    )
    SELECT body, sha256 FROM known WHERE json_extract(text, '$.proposal') IN (
        SELECT json_extract(text, '$.proposal') FROM known, json_each(text, '$.files') AS file
        WHERE json_extract(file.value, '$.path') IN (SELECT value FROM json_each(:paths))
    ) ORDER BY number
"""


def _entry(body: object) -> Entry | None:
    try:
        return Entry.model_validate_json(cast(bytes, body))
    except (ValidationError, UnicodeDecodeError, TypeError):
        return None


def _format(body: bytes) -> int:
    """The format that an entry says it has; 0 for what is none."""
    try:
        said = json.loads(body)["format"]
    except (ValueError, LookupError, TypeError):
        return 0
    return said if isinstance(said, int) else 0
