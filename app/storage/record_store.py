"""The record of a workspace in SQLite: adds entries to the chain, reads decisions from it, finds where it is broken.

What was decided is read from the chain alone. The user's words are kept apart, and are taken only where they have the
hash that the chain holds. Each row holds the bytes of an entry as they were hashed, and their SHA-256. Verification
trusts nothing that is stored: it reads row by row, so that a page which a disk or a person has damaged hides no more
than it holds.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from pydantic import ValidationError

from app.images.image import Image
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.origin import Origin
from app.proposals.values.record_entries import (
    FIRST,
    LATEST,
    ChainLink,
    DecisionRecordEntry,
    EventRecordEntry,
    feedback_hash,
)
from app.storage.database import Database
from app.storage.storage_errors import StorageError


@dataclass(frozen=True, slots=True)
class BrokenEntry:
    """An entry that was changed after it was written, or is missing."""

    number: int
    why: str


@dataclass(frozen=True, slots=True)
class ChainVerification:
    """Result of verifying the chain."""

    entries: tuple[DecisionRecordEntry, ...]
    """Those of decisions that are sound, oldest first."""
    events: tuple[EventRecordEntry, ...]
    """Those of the events that tell of them."""
    broken: tuple[BrokenEntry, ...]
    head: str
    """What a next entry would hold for the one before; noted elsewhere, it shows a record that was written anew."""


@dataclass(frozen=True, slots=True)
class DecisionInput:
    """The user's words, comments and images with a decision."""

    feedback: str = ""
    comments: tuple[LineComment, ...] = ()
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A decision in the record, or an edit of the proposed text, which has no own entry."""

    entry: DecisionRecordEntry | None
    event: EventRecordEntry | None
    """None until it is told, and where that entry cannot be read."""
    words: DecisionInput
    words_lost: bool
    """Words were said, and those that are kept are others or none."""

    @property
    def _known(self) -> DecisionRecordEntry | EventRecordEntry:
        known = self.entry or self.event
        assert known is not None
        return known

    @property
    def time(self) -> float:
        """Unix time, seconds."""
        return self._known.time

    @property
    def proposal(self) -> str:
        """Its id."""
        return self._known.proposal

    @property
    def decision(self) -> str:
        """`app.conversation.events.Decision`."""
        return self._known.decision

    @property
    def session(self) -> str:
        """The session that it is recorded in; empty for none."""
        return self.event.session if self.event else ""

    @property
    def origin(self) -> Origin | None:
        """Return the origin of the proposal; None in records of early versions."""
        return self._known.origin

    @property
    def files(self) -> Sequence[str]:
        """Return the paths that the decision was about."""
        if self.event:
            return self.event.files
        return [file.path for file in self.entry.files] if self.entry else ()


def intact_entries_on_paths(database: Database, workspace: str, paths: Collection[str]) -> list[DecisionRecordEntry]:
    """The sound entries of the proposals of which a decision names one of the paths, oldest first."""
    rows = database.query_rows(_ENTRIES_ON, {"workspace": workspace, "paths": json.dumps([*paths])})
    sound = [body for body, digest in rows if hashlib.sha256(cast(bytes, body)).hexdigest() == digest]
    return [entry for body in sound if isinstance(entry := _entry(body), DecisionRecordEntry)]


class RecordStore:
    """Reads the record of one workspace. Synchronous; call it off the event loop."""

    def __init__(self, database: Database, workspace: str) -> None:
        self._database = database
        self._workspace = workspace

    def entries(self, proposal: str = "") -> list[DecisionRecordEntry]:
        """Return the entries of decisions, oldest first, of one proposal or of all; unreadable ones are skipped."""
        return [entry for entry in self.all_entries(proposal) if isinstance(entry, DecisionRecordEntry)]

    def all_entries(self, proposal: str = "") -> list[DecisionRecordEntry | EventRecordEntry]:
        """Return all entries, oldest first, of one proposal or of all; unreadable ones are left to `verify_chain`."""
        rows = self._database.query_rows(
            "SELECT body FROM record WHERE workspace = ? ORDER BY number", (self._workspace,)
        )
        found = [entry for (body,) in rows if (entry := _entry(body)) is not None]
        return [entry for entry in found if not proposal or entry.proposal == proposal]

    def count_unreadable(self) -> int:
        """Return the number of entries that cannot be read."""
        return self._end().number - len(self.all_entries())

    def decisions(self, proposal: str = "") -> list[RecordedDecision]:
        """Return the decisions, and edits of proposed text, on one proposal or on all, oldest first."""
        chain = self.all_entries(proposal)
        events = {(one.proposal, one.count): one for one in chain if isinstance(one, EventRecordEntry) and one.count}
        words = self._words()
        found: list[RecordedDecision] = []
        decided = {(one.proposal, one.count) for one in chain if isinstance(one, DecisionRecordEntry)}
        for one in sorted(chain, key=lambda each: not (isinstance(each, EventRecordEntry) and each.earlier)):
            if isinstance(one, DecisionRecordEntry):
                found.append(_recorded(one, events.get((one.proposal, one.count)), words))
            elif (one.proposal, one.count) not in decided:
                found.append(_recorded(None, one, words))
        return found

    def verify_chain(self) -> ChainVerification:
        """Walk the whole chain.

        Raises:
            StorageError: the table cannot be read at all.
        """
        sound: list[DecisionRecordEntry | EventRecordEntry] = []
        broken: list[BrokenEntry] = []
        before = FIRST
        known = True
        for number, row in self._rows():
            if isinstance(row, str):
                broken.append(BrokenEntry(number, row))
                known = False
                continue
            body, digest = row
            entry = _entry(body)
            if entry is None and _format(body) > LATEST and hashlib.sha256(body).hexdigest() == digest:
                broken.append(
                    BrokenEntry(number, "was written by a later version of signoff; update it to verify this one")
                )
            elif entry is None or entry.number != number or hashlib.sha256(body).hexdigest() != digest:
                broken.append(BrokenEntry(number, "is not what was written"))
            elif known and entry.before != before:
                broken.append(BrokenEntry(number, f"does not follow entry {number - 1}: one of the two was changed"))
            else:
                sound.append(entry)
            before, known = digest, True
        entries = tuple(entry for entry in sound if isinstance(entry, DecisionRecordEntry))
        events = tuple(entry for entry in sound if isinstance(entry, EventRecordEntry))
        return ChainVerification(entries, events, tuple(broken), before)

    def _rows(self) -> Iterator[tuple[int, tuple[bytes, str] | str]]:
        """Yield each expected entry, or what is wrong with it."""
        end = self._end()
        for number in range(1, end.number + 1):
            try:
                rows = self._database.query_rows(
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

    def _end(self) -> ChainLink:
        """Return the end of the chain, from the further of two places."""
        found = [ChainLink()]
        unread: list[StorageError] = []
        for statement in _ENDS:
            try:
                rows = self._database.query_rows(statement, (self._workspace,))
            except StorageError as error:
                unread.append(error)
            else:
                found += [ChainLink(*cast(tuple[int, str], row)) for row in rows]
        if len(unread) == len(_ENDS):
            raise unread[0]
        return max(found, key=lambda link: (link.number, link.digest))

    def _words(self) -> "_KeptWords":
        """Return the stored words of the user, by proposal, number of the decision, and hash."""
        found: _KeptWords = {}
        for statement in _WORDS:
            for proposal, body in self._database.query_rows(statement, (self._workspace,)):
                try:
                    kept = json.loads(cast(str, body))
                    words = DecisionInput(
                        str(kept["feedback"]),
                        tuple(LineComment.model_validate(comment) for comment in kept.get("comments", ())),
                        tuple(Image.model_validate(image) for image in kept.get("images", ())),
                    )
                    number = int(kept.get("number", 0))
                except (ValueError, LookupError, TypeError, AttributeError):
                    continue
                name = feedback_hash(words.feedback, words.comments, words.images)
                found[cast(str, proposal), number, name] = words
        return found


_KeptWords = dict[tuple[str, int, str], DecisionInput]
_WORDS = (
    "SELECT proposal, body FROM unrecorded WHERE workspace = ?",
    "SELECT proposal, body FROM decisions WHERE workspace = ?",
)


def _recorded(
    entry: DecisionRecordEntry | None, event: EventRecordEntry | None, kept: _KeptWords
) -> RecordedDecision:
    known = entry or event
    assert known is not None
    words = kept.get((known.proposal, known.count, known.words))
    return RecordedDecision(entry, event, words or DecisionInput(), bool(known.words) and words is None)


_ENDS = (
    "SELECT number, sha256 FROM record_ends WHERE workspace = ?",
    "SELECT number, '' FROM record WHERE workspace = ? ORDER BY number DESC LIMIT 1",
)
"""Where the chain ends, said twice."""
_ENTRIES_ON = """
    WITH known AS (
        SELECT number, sha256, body, CAST(body AS TEXT) AS text FROM record
        WHERE workspace = :workspace
        AND CASE WHEN json_valid(CAST(body AS TEXT)) THEN json_extract(CAST(body AS TEXT), '$.kind') IS NULL END
    )
    SELECT body, sha256 FROM known WHERE json_extract(text, '$.proposal') IN (
        SELECT json_extract(text, '$.proposal') FROM known, json_each(text, '$.files') AS file
        WHERE json_extract(file.value, '$.path') IN (SELECT value FROM json_each(:paths))
    ) ORDER BY number
"""


def _entry(body: object) -> DecisionRecordEntry | EventRecordEntry | None:
    try:
        kind = EventRecordEntry if b'"kind":"event"' in cast(bytes, body)[:_HEAD] else DecisionRecordEntry
        return kind.model_validate_json(cast(bytes, body))
    except (ValidationError, UnicodeDecodeError, TypeError):
        return None


_HEAD = 40
"""Bytes in which an entry says what kind it is."""


def _format(body: bytes) -> int:
    """Return the format that an entry names; 0 without a valid one."""
    try:
        said = json.loads(body)["format"]
    except (ValueError, LookupError, TypeError):
        return 0
    return said if isinstance(said, int) else 0
