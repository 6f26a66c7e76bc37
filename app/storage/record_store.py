"""The record of a workspace in SQLite: reads decisions, and finds errors in the record and in other tables.

Decisions are read from the chain alone. The user's feedback is stored separately, and is used only if it has the hash
that the chain contains. Each row holds the bytes of an entry as they were hashed, and their SHA-256. Verification
trusts no stored data: it reads row by row, so that a damaged page hides only its own rows.

The tables that the app, doors and exports read are not chained. Each of their rows about a decision is compared with
the entries, in both directions: the record must contain what a row says, and the rows that are never deleted must
contain what the record says.
"""

import hashlib
import json
from collections.abc import Collection, Generator, Iterator, Sequence
from typing import cast

from msgspec import Struct

from app.conversation.events import ProposalDecided
from app.images.image import Image
from app.proposals.values.decision_facts import LastDecision, LineComment
from app.proposals.values.models import Proposal, ProposalState, describe_state
from app.proposals.values.origin import ProposalOrigin
from app.proposals.values.record_entries import (
    FIRST,
    LATEST,
    DecisionRecordEntry,
    RecordChainEnd,
    SessionEventRecordEntry,
    collect_hunk_states,
    decision_hash,
    feedback_hash,
    proposal_hash,
)
from app.storage import StorageError
from app.storage.database import Database
from app.storage.record_chain import hash_decision_event, parse_record


class BrokenRecordEntry(Struct, frozen=True):
    """An entry that was changed after it was written, or is missing."""

    number: int
    why: str


class ChainVerification(Struct, frozen=True):
    """Result of verifying the hash chain of the decision record: sound entries, broken ones, last hash."""

    entries: tuple[DecisionRecordEntry, ...]
    """The sound entries of decisions, oldest first."""
    events: tuple[SessionEventRecordEntry, ...]
    """The sound entries of events about decisions."""
    broken: tuple[BrokenRecordEntry, ...]
    head: str
    """Hash of the last entry, which the next entry will contain. A copy kept elsewhere shows if the record is
    replaced."""


class DecisionFeedback(Struct, frozen=True):
    """The user's words, comments and images with a decision."""

    feedback: str = ""
    comments: tuple[LineComment, ...] = ()
    images: tuple[Image, ...] = ()


class DecisionOrUserEdit(Struct, frozen=True):
    """A decision in the record, or a user's edit of the proposed text, which has only an event entry."""

    entry: DecisionRecordEntry | None
    event: SessionEventRecordEntry | None
    """None until the event is recorded, or if its entry is unreadable."""
    words: DecisionFeedback
    words_lost: bool
    """Whether the user gave feedback whose stored text is missing or was changed."""

    @property
    def _any_entry(self) -> DecisionRecordEntry | SessionEventRecordEntry:
        entry = self.entry or self.event
        assert entry is not None
        return entry

    @property
    def time(self) -> float:
        """Return the Unix time in seconds."""
        return self._any_entry.time

    @property
    def proposal(self) -> str:
        """Return the id of the proposal."""
        return self._any_entry.proposal

    @property
    def decision(self) -> str:
        """Return the kind, a value of `app.conversation.events.DecisionKind`."""
        return self._any_entry.decision

    @property
    def session(self) -> str:
        """Return the session that recorded it; empty if none did."""
        return self.event.session if self.event else ""

    @property
    def origin(self) -> ProposalOrigin | None:
        """Return the origin of the proposal; None in records of early versions."""
        return self._any_entry.origin

    @property
    def files(self) -> Sequence[str]:
        """Return the paths of the files that the decision was about."""
        if self.event:
            return self.event.files
        return [file.path for file in self.entry.files] if self.entry else ()


def intact_entries_on_paths(database: Database, workspace: str, paths: Collection[str]) -> list[DecisionRecordEntry]:
    """Return the sound entries of all proposals that have a decision about one of the paths, oldest first."""
    rows = database.query_rows(_SELECT_ENTRIES_ON_PATHS, {"workspace": workspace, "paths": json.dumps([*paths])})
    sound = [body for body, digest in rows if hashlib.sha256(cast(bytes, body)).hexdigest() == digest]
    return [entry for body in sound if isinstance(entry := _parse_entry(body), DecisionRecordEntry)]


class DecisionRecordReader:
    """Reads and verifies the decision record of one workspace. Synchronous; call it off the event loop."""

    def __init__(self, database: Database, workspace: str) -> None:
        self._database = database
        self._workspace = workspace

    def entries(self, proposal: str = "") -> list[DecisionRecordEntry]:
        """Return the entries of decisions on one proposal or on all, oldest first; skip unreadable ones."""
        return [entry for entry in self.all_entries(proposal) if isinstance(entry, DecisionRecordEntry)]

    def all_entries(self, proposal: str = "") -> list[DecisionRecordEntry | SessionEventRecordEntry]:
        """Return all entries of one proposal or of all, oldest first; skip unreadable ones."""
        rows = self._database.query_rows(
            "SELECT body FROM record WHERE workspace = ? ORDER BY number", (self._workspace,)
        )
        entries = [entry for (body,) in rows if (entry := _parse_entry(body)) is not None]
        return [entry for entry in entries if not proposal or entry.proposal == proposal]

    def count_unreadable(self) -> int:
        """Return the number of entries that cannot be read."""
        return self._find_chain_end().number - len(self.all_entries())

    def decisions(self, proposal: str = "") -> list[DecisionOrUserEdit]:
        """Return the decisions and text edits of one proposal or of all, oldest first."""
        chain = self.all_entries(proposal)
        events = {
            (entry.proposal, entry.count): entry
            for entry in chain
            if isinstance(entry, SessionEventRecordEntry) and entry.count
        }
        words = self._load_feedback()
        result: list[DecisionOrUserEdit] = []
        decided_keys = {(entry.proposal, entry.count) for entry in chain if isinstance(entry, DecisionRecordEntry)}
        for entry in sorted(
            chain,
            key=lambda chain_entry: not (isinstance(chain_entry, SessionEventRecordEntry) and chain_entry.earlier),
        ):
            if isinstance(entry, DecisionRecordEntry):
                result.append(_make_recorded_decision(entry, events.get((entry.proposal, entry.count)), words))
            elif (entry.proposal, entry.count) not in decided_keys:
                result.append(_make_recorded_decision(None, entry, words))
        return result

    def verify_chain(self) -> ChainVerification:
        """Verify the whole chain.

        Raises:
            StorageError: the table cannot be read at all.
        """
        sound: list[DecisionRecordEntry | SessionEventRecordEntry] = []
        broken: list[BrokenRecordEntry] = []
        former_digest = FIRST
        is_former_readable = True
        for number, row in self._read_rows():
            if isinstance(row, str):
                broken.append(BrokenRecordEntry(number, row))
                is_former_readable = False
                continue
            body, digest = row
            entry = _parse_entry(body)
            if entry is None and _format_number(body) > LATEST and hashlib.sha256(body).hexdigest() == digest:
                broken.append(
                    BrokenRecordEntry(
                        number, "was written by a later version of signoff; update it to verify this one"
                    )
                )
            elif entry is None or entry.number != number or hashlib.sha256(body).hexdigest() != digest:
                broken.append(BrokenRecordEntry(number, "is not what was written"))
            elif is_former_readable and entry.before != former_digest:
                broken.append(
                    BrokenRecordEntry(number, f"does not follow entry {number - 1}: one of the two was changed")
                )
            else:
                sound.append(entry)
            former_digest, is_former_readable = digest, True
        entries = tuple(entry for entry in sound if isinstance(entry, DecisionRecordEntry))
        events = tuple(entry for entry in sound if isinstance(entry, SessionEventRecordEntry))
        return ChainVerification(entries, events, tuple(broken), former_digest)

    def _read_rows(self) -> Iterator[tuple[int, tuple[bytes, str] | str]]:
        """Yield each expected entry as body and digest, or a text that says what is wrong with it."""
        end = self._find_chain_end()
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

    def _find_chain_end(self) -> RecordChainEnd:
        """Return the end of the chain: the further one of its two sources. Raises StorageError if neither is
        readable."""
        links = [RecordChainEnd()]
        errors: list[StorageError] = []
        for statement in _CHAIN_END_QUERIES:
            try:
                rows = self._database.query_rows(statement, (self._workspace,))
            except StorageError as error:
                errors.append(error)
            else:
                links += [RecordChainEnd(*cast(tuple[int, str], row)) for row in rows]
        if len(errors) == len(_CHAIN_END_QUERIES):
            raise errors[0]
        return max(links, key=lambda link: (link.number, link.digest))

    def _load_feedback(self) -> "_FeedbackByKey":
        """Return the stored feedback of the user, by proposal, number of the decision, and hash."""
        feedback_by_key: _FeedbackByKey = {}
        for statement in _FEEDBACK_QUERIES:
            for proposal, body in self._database.query_rows(statement, (self._workspace,)):
                try:
                    document = json.loads(cast(str, body))
                    words = DecisionFeedback(
                        str(document["feedback"]),
                        tuple(LineComment.model_validate(comment) for comment in document.get("comments", ())),
                        tuple(Image.model_validate(image) for image in document.get("images", ())),
                    )
                    number = int(document.get("number", 0))
                except (ValueError, LookupError, TypeError, AttributeError):
                    continue
                digest = feedback_hash(words.feedback, words.comments, words.images)
                feedback_by_key[cast(str, proposal), number, digest] = words
        return feedback_by_key


_FeedbackByKey = dict[tuple[str, int, str], DecisionFeedback]
_FEEDBACK_QUERIES = (
    "SELECT proposal, body FROM unrecorded WHERE workspace = ?",
    "SELECT proposal, body FROM decisions WHERE workspace = ?",
)


def _make_recorded_decision(
    entry: DecisionRecordEntry | None, event: SessionEventRecordEntry | None, feedback_by_key: _FeedbackByKey
) -> DecisionOrUserEdit:
    source = entry or event
    assert source is not None
    words = feedback_by_key.get((source.proposal, source.count, source.words))
    return DecisionOrUserEdit(entry, event, words or DecisionFeedback(), bool(source.words) and words is None)


_CHAIN_END_QUERIES = (
    "SELECT number, sha256 FROM record_ends WHERE workspace = ?",
    "SELECT number, '' FROM record WHERE workspace = ? ORDER BY number DESC LIMIT 1",
)
"""Two independent queries for the end of the chain."""
_SELECT_ENTRIES_ON_PATHS = """
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


def _parse_entry(body: object) -> DecisionRecordEntry | SessionEventRecordEntry | None:
    if isinstance(body, bytes) and b'"kind":"event"' in body[:_KIND_HEAD_BYTES]:
        return parse_record(SessionEventRecordEntry, body)
    return parse_record(DecisionRecordEntry, body)


_KIND_HEAD_BYTES = 40
"""Bytes at the start of an entry that contain its kind."""


def _format_number(body: bytes) -> int:
    """Return the format number of an entry; 0 if it has no valid one."""
    try:
        number = json.loads(body)["format"]
    except (ValueError, LookupError, TypeError):
        return 0
    return number if isinstance(number, int) else 0


_DECIDED_STATES = (ProposalState.PARTLY_APPROVED, ProposalState.APPLIED, ProposalState.DENIED, ProposalState.UNDONE)
"""States that follow from a decision of the user."""
_DecisionKey = tuple[str, int, float]
"""Proposal, number of the decision, and 0.0; for a decision without a number, its time instead of 0.0."""


class TablesAndRecordComparer:
    """Finds differences between a workspace's tables and the verified chain of its decision record."""

    def __init__(self, database: Database, workspace: str, verified: ChainVerification) -> None:
        self._database = database
        self._workspace = workspace
        self._entries_by_decision = {(entry.proposal, entry.count): entry for entry in verified.entries}
        self._latest_by_proposal = {entry.proposal: entry for entry in verified.entries}
        self._all_events = verified.events
        self._events_by_key: dict[_DecisionKey, list[SessionEventRecordEntry]] = {}
        for entry in verified.events:
            # Two processes may both have recorded a decision that a third process left unrecorded.
            self._events_by_key.setdefault(_decision_key(entry.proposal, entry.count, entry.time), []).append(entry)
        self._is_chain_broken = bool(verified.broken)
        self._last_link = (len(verified.entries) + len(verified.events), verified.head)

    def find_differences(self) -> Iterator[str]:
        """Yield a sentence for each difference.

        Raises:
            StorageError: a table cannot be read at all.
        """
        yield from self._compare_chain()
        yield from self._compare_decisions()
        yield from self._compare_sessions()
        yield from self._compare_unrecorded()
        yield from self._compare_proposals()

    def _compare_chain(self) -> Iterator[str]:
        """Yield a sentence if the end of the record is stored differently, and for each event entry that differs from
        the entry of its decision.
        """
        ends = self._database.query_rows(_CHAIN_END_QUERIES[0], (self._workspace,))
        if not self._is_chain_broken and self._last_link not in (ends or [(0, FIRST)]):
            yield "The table record_ends does not have the end of the record: later entries may have been deleted."
        for event in self._all_events:
            entry = self._entries_by_decision.get((event.proposal, event.count))
            if entry is None:
                continue
            if (entry.decision, entry.words) != (event.decision, event.words):
                decision = _describe_decision(event)
                yield f"Entries {entry.number} and {event.number} tell of the decision {decision} differently."

    def _compare_decisions(self) -> Iterator[str]:
        matched_numbers: set[int] = set()
        rows = self._database.query_rows(
            "SELECT id, proposal, session, time, body FROM decisions WHERE workspace = ?", (self._workspace,)
        )
        for number, proposal, session, time, body in rows:
            row_name = f"Row {number} of the table decisions"
            if (match := (yield from self._match_entry(row_name, time, body))) is None:
                continue
            event, entry = match
            matched_numbers.add(entry.number)
            if (proposal, session, time) != (entry.proposal, entry.session, entry.time):
                yield f"{row_name} is not as it was recorded in entry {entry.number}."
            yield from self._compare_event(row_name, event, entry, with_words=True)
        for entry in self._all_events:
            if entry.number not in matched_numbers:
                yield f"What is kept of the decision {_describe_decision(entry)} is gone from the table decisions."

    def _compare_sessions(self) -> Iterator[str]:
        """Compare the events in session logs; a fork contains those of its original."""
        matched_keys: set[tuple[str, int]] = set()
        rows = self._database.query_rows(
            "SELECT events.id, events.session, time, body FROM events JOIN sessions ON sessions.id = events.session"
            " WHERE sessions.workspace = ? AND type = 'proposal_decided'",
            (self._workspace,),
        )
        for number, session, time, body in rows:
            row_name = f"Event {number} of session {session}"
            if (match := (yield from self._match_entry(row_name, time, body))) is None:
                continue
            event, entry = match
            matched_keys.add((cast(str, session), entry.number))
            has_words = bool(event.feedback or event.comments or event.images)
            yield from self._compare_event(row_name, event, entry, with_words=has_words or session == entry.session)
        created = dict(
            cast(
                list[tuple[str, float]],
                self._database.query_rows("SELECT id, created FROM sessions WHERE workspace = ?", (self._workspace,)),
            )
        )
        for entry in self._all_events:
            # A session that was deleted while it was open is created again, without its older events.
            if (
                created.get(entry.session, entry.time + 1) <= entry.time
                and (entry.session, entry.number) not in matched_keys
            ):
                yield f"Session {entry.session} no longer tells of the decision {_describe_decision(entry)}."

    def _match_entry(
        self, row_name: str, time: object, body: object
    ) -> Generator[str, None, tuple[ProposalDecided, SessionEventRecordEntry] | None]:
        """Return the event in a row with its entry, the best match if there are several; yield why there is none."""
        event = parse_record(ProposalDecided, body)
        if event is None:
            yield f"{row_name} cannot be read."
            return None
        event = event.model_copy(update={"time": time})
        if entries := self._events_by_key.get(_decision_key(event.proposal, event.number, event.time)):
            digest = hash_decision_event(event)
            return event, next((entry for entry in entries if entry.event == digest), entries[-1])
        if not self._is_chain_broken:
            yield f"{row_name} tells of a decision that the record does not have: {_describe_decision(event)}."
        return None

    def _compare_event(
        self, row_name: str, event: ProposalDecided, entry: SessionEventRecordEntry, *, with_words: bool
    ) -> Iterator[str]:
        if hash_decision_event(event) != entry.event:
            yield f"{row_name} is not as it was recorded in entry {entry.number}."
        elif with_words and feedback_hash(event.feedback, event.comments, event.images) != entry.words:
            yield f"{row_name} has other words than those of entry {entry.number}."

    def _compare_unrecorded(self) -> Iterator[str]:
        """Yield differences of the table unrecorded, and decisions that neither it nor an event describes."""
        described = {(event.proposal, event.count) for event in self._all_events}
        rows = self._database.query_rows(
            "SELECT proposal, number, body FROM unrecorded WHERE workspace = ?", (self._workspace,)
        )
        for proposal, number, body in rows:
            last = parse_record(LastDecision, body)
            key = cast(tuple[str, int], (proposal, number))
            entry = self._entries_by_decision.get(key)
            if last is None:
                yield f"The row of {proposal} in the table unrecorded cannot be read."
            elif entry is None and not self._is_chain_broken and number:
                yield f"The table unrecorded has a decision on {proposal} that the record does not have."
            elif entry is not None and not _matches_entry(last, entry):
                yield f"The table unrecorded is not as entry {entry.number} has it, on {proposal}."
            described.add(key)
        for key, entry in self._entries_by_decision.items():
            if key not in described and not self._is_chain_broken:
                yield f"What is kept of the decision {_describe_decision(entry)} is gone."

    def _compare_proposals(self) -> Iterator[str]:
        """Yield proposals that differ from the record; decided ones may be missing, since pruning deletes them."""
        names: set[str] = set()
        rows = self._database.query_rows(
            "SELECT number, session, state, waiting, body FROM proposals WHERE workspace = ?", (self._workspace,)
        )
        for number, session, state, waiting, body in rows:
            name = f"P{number}"
            proposal = parse_record(Proposal, body)
            if proposal is None:
                yield f"Proposal {name} cannot be read."
                continue
            names.add(name)
            columns = (proposal.id, proposal.session, proposal.state.value, int(proposal.state.is_pending))
            if columns != (name, session, state, waiting):
                yield f"The columns of proposal {name} say something else than its contents."
            yield from self._compare_proposal(proposal)
        for name, entry in self._latest_by_proposal.items():
            if name not in names and entry.state and ProposalState(entry.state).is_pending:
                yield f"Proposal {name} waits, as entry {entry.number} has it, and is gone."

    def _compare_proposal(self, proposal: Proposal) -> Iterator[str]:
        entry = self._latest_by_proposal.get(proposal.id)
        hunks, state = collect_hunk_states(proposal), describe_state(proposal.state)
        if entry is None:
            denied = (hunks.denied or hunks.denied_files) and proposal.state is not ProposalState.SUPERSEDED
            approved = hunks.approved or hunks.approved_files
            if (
                (proposal.last or proposal.state in _DECIDED_STATES or approved or denied)
                and not self._is_chain_broken
                and not any(event.earlier and event.proposal == proposal.id for event in self._all_events)
            ):
                yield f"Proposal {proposal.id} is {state}, and the record has no decision on it."
            return
        if proposal.last is None or not _matches_entry(proposal.last, entry):
            yield f"The last decision on {proposal.id} is not that of entry {entry.number}."
        elif not entry.state or proposal.state is ProposalState.FAILED:
            return  # Entries of early formats have no state.
        elif not ProposalState(entry.state).is_pending:
            if proposal_hash(proposal) != entry.left:
                yield f"Proposal {proposal.id} is not as entry {entry.number} left it."
        elif not _is_still_valid(proposal, entry):
            yield f"Proposal {proposal.id} is {state}, in other parts than entry {entry.number} has it."


def _is_still_valid(proposal: Proposal, entry: DecisionRecordEntry) -> bool:
    """Return whether a decided proposal still agrees with its entry; its pending parts may have been superseded."""
    now, then = collect_hunk_states(proposal), entry.hunks
    has_same_approvals = (now.approved, now.approved_files) == (then.approved, then.approved_files)
    if proposal.superseded_by and not proposal.state.is_pending:
        return (
            has_same_approvals
            and set(now.denied) >= set(then.denied)
            and set(now.denied_files) >= set(then.denied_files)
        )
    has_same_denials = (now.denied, now.denied_files) == (then.denied, then.denied_files)
    return (
        has_same_approvals
        and has_same_denials
        and proposal.state not in (ProposalState.APPLIED, ProposalState.DENIED, ProposalState.UNDONE)
    )


def _matches_entry(last: LastDecision, entry: DecisionRecordEntry) -> bool:
    if not entry.last:
        return (last.number, last.decision) == (entry.count, entry.decision)
    return decision_hash(last) == entry.last


def _decision_key(proposal: str, count: int, time: float) -> _DecisionKey:
    return proposal, count, 0.0 if count else time


def _describe_decision(decided: ProposalDecided | SessionEventRecordEntry | DecisionRecordEntry) -> str:
    return f"{decided.decision.replace('_', ' ')} of {decided.proposal}"
