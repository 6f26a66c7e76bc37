"""Compares the tables of decisions with the record.

The record is a chain of hashes; the tables that the app, doors and exports read are not. Each row that tells of a
decision is held against the entries, in both directions: what a row says must be in the record, and what the record
has must be in the rows that are never removed.
"""

from collections.abc import Generator, Iterator
from typing import TypeVar, cast

from pydantic import BaseModel, ValidationError

from app.conversation.events import ProposalDecided
from app.proposals.values.decision_facts import LastDecision
from app.proposals.values.models import Proposal, ProposalState
from app.proposals.values.record_entries import (
    DecisionRecordEntry,
    EventRecordEntry,
    decision_hash,
    feedback_hash,
    proposal_hash,
    record_hunk_states,
)
from app.storage.database import Database
from app.storage.record_chain import event_hash, parse_decision_event
from app.storage.record_store import ChainVerification

_BY_THE_USER = (ProposalState.PARTLY_APPROVED, ProposalState.APPLIED, ProposalState.DENIED, ProposalState.UNDONE)
"""States that a decision of the user's leads to."""
_Key = tuple[str, int, float]
"""A proposal, the number of a decision on it, and of what has no number the time."""


class RecordChecker:
    """Compares the tables of a workspace with its verified chain."""

    def __init__(self, database: Database, workspace: str, verified: ChainVerification) -> None:
        self._database = database
        self._workspace = workspace
        self._entries = {(one.proposal, one.count): one for one in verified.entries}
        self._latest = {one.proposal: one for one in verified.entries}
        self._all_events = verified.events
        self._events: dict[_Key, list[EventRecordEntry]] = {}
        for one in verified.events:
            # Two processes may both have recorded what a third one left over.
            self._events.setdefault(_key(one.proposal, one.count, one.time), []).append(one)
        self._broken = bool(verified.broken)

    def find_differences(self) -> Iterator[str]:
        """Yield a sentence for each difference.

        Raises:
            StorageError: a table cannot be read at all.
        """
        yield from self._chain()
        yield from self._decisions()
        yield from self._sessions()
        yield from self._unrecorded()
        yield from self._proposals()

    def _chain(self) -> Iterator[str]:
        """Yield events that describe a decision differently from its entry."""
        for event in self._all_events:
            entry = self._entries.get((event.proposal, event.count))
            if entry is None:
                continue
            if (entry.decision, entry.words) != (event.decision, event.words):
                yield f"Entries {entry.number} and {event.number} tell of the decision {_name(event)} differently."

    def _decisions(self) -> Iterator[str]:
        found: set[int] = set()
        rows = self._database.query_rows(
            "SELECT id, proposal, session, time, body FROM decisions WHERE workspace = ?", (self._workspace,)
        )
        for number, proposal, session, time, body in rows:
            where = f"Row {number} of the table decisions"
            if (matched := (yield from self._match_entry(where, time, body))) is None:
                continue
            event, known = matched
            found.add(known.number)
            if (proposal, session, time) != (known.proposal, known.session, known.time):
                yield f"{where} is not as it was recorded in entry {known.number}."
            yield from self._event(where, event, known, with_words=True)
        for known in self._all_events:
            if known.number not in found:
                yield f"What is kept of the decision {_name(known)} is gone from the table decisions."

    def _sessions(self) -> Iterator[str]:
        """The events in the logs of sessions; a fork has those of its original."""
        found: set[tuple[str, int]] = set()
        rows = self._database.query_rows(
            "SELECT events.id, events.session, time, body FROM events JOIN sessions ON sessions.id = events.session"
            " WHERE sessions.workspace = ? AND type = 'proposal_decided'",
            (self._workspace,),
        )
        for number, session, time, body in rows:
            where = f"Event {number} of session {session}"
            if (matched := (yield from self._match_entry(where, time, body))) is None:
                continue
            event, known = matched
            found.add((cast(str, session), known.number))
            has_words = bool(event.feedback or event.comments or event.images)
            yield from self._event(where, event, known, with_words=has_words or session == known.session)
        created = dict(
            cast(
                list[tuple[str, float]],
                self._database.query_rows("SELECT id, created FROM sessions WHERE workspace = ?", (self._workspace,)),
            )
        )
        for known in self._all_events:
            # A session that was removed while it was open begins anew.
            if (
                created.get(known.session, known.time + 1) <= known.time
                and (known.session, known.number) not in found
            ):
                yield f"Session {known.session} no longer tells of the decision {_name(known)}."

    def _match_entry(
        self, where: str, time: object, body: object
    ) -> Generator[str, None, tuple[ProposalDecided, EventRecordEntry] | None]:
        """Return the event in a row, and its entry or the one that it should have; yield what prevents it."""
        event = parse_decision_event(body)
        if event is None:
            yield f"{where} cannot be read."
            return None
        event = event.model_copy(update={"time": time})
        if entries := self._events.get(_key(event.proposal, event.number, event.time)):
            name = event_hash(event)
            return event, next((one for one in entries if one.event == name), entries[-1])
        if not self._broken:
            what = f"{event.decision.replace('_', ' ')} of {event.proposal}"
            yield f"{where} tells of a decision that the record does not have: {what}."
        return None

    def _event(
        self, where: str, event: ProposalDecided, known: EventRecordEntry, *, with_words: bool
    ) -> Iterator[str]:
        if event_hash(event) != known.event:
            yield f"{where} is not as it was recorded in entry {known.number}."
        elif with_words and feedback_hash(event.feedback, event.comments, event.images) != known.words:
            yield f"{where} has other words than those of entry {known.number}."

    def _unrecorded(self) -> Iterator[str]:
        """Yield decisions that no event describes yet."""
        told = {(event.proposal, event.count) for event in self._all_events}
        rows = self._database.query_rows(
            "SELECT proposal, number, body FROM unrecorded WHERE workspace = ?", (self._workspace,)
        )
        for proposal, number, body in rows:
            last = _read(LastDecision, body)
            key = cast(tuple[str, int], (proposal, number))
            entry = self._entries.get(key)
            if last is None:
                yield f"The row of {proposal} in the table unrecorded cannot be read."
            elif entry is None and not self._broken and number:
                yield f"The table unrecorded has a decision on {proposal} that the record does not have."
            elif entry is not None and not _is_last(last, entry):
                yield f"The table unrecorded is not as entry {entry.number} has it, on {proposal}."
            told.add(key)
        for key, entry in self._entries.items():
            if key not in told and not self._broken:
                yield f"What is kept of the decision {entry.decision.replace('_', ' ')} of {entry.proposal} is gone."

    def _proposals(self) -> Iterator[str]:
        """Yield proposals that disagree with the record; decided ones may have been pruned."""
        found: set[str] = set()
        rows = self._database.query_rows(
            "SELECT number, session, state, waiting, body FROM proposals WHERE workspace = ?", (self._workspace,)
        )
        for number, session, state, waiting, body in rows:
            name = f"P{number}"
            proposal = _read(Proposal, body)
            if proposal is None:
                yield f"Proposal {name} cannot be read."
                continue
            found.add(name)
            columns = (proposal.id, proposal.session, proposal.state.value, int(proposal.state.is_pending))
            if columns != (name, session, state, waiting):
                yield f"The columns of proposal {name} say something else than its contents."
            yield from self._proposal(proposal)
        for name, entry in self._latest.items():
            if name not in found and entry.state and ProposalState(entry.state).is_pending:
                yield f"Proposal {name} waits, as entry {entry.number} has it, and is gone."

    def _proposal(self, proposal: Proposal) -> Iterator[str]:
        entry = self._latest.get(proposal.id)
        hunks = record_hunk_states(proposal)
        if entry is None:
            denied = (hunks.denied or hunks.denied_files) and proposal.state is not ProposalState.SUPERSEDED
            approved = hunks.approved or hunks.approved_files
            if (
                (proposal.last or proposal.state in _BY_THE_USER or approved or denied)
                and not self._broken
                and not any(event.earlier and event.proposal == proposal.id for event in self._all_events)
            ):
                yield f"Proposal {proposal.id} is {_words(proposal)}, and the record has no decision on it."
            return
        if proposal.last is None or not _is_last(proposal.last, entry):
            yield f"The last decision on {proposal.id} is not that of entry {entry.number}."
        elif not entry.state or proposal.state is ProposalState.FAILED:
            return  # Entries of early formats have no state.
        elif not ProposalState(entry.state).is_pending:
            if proposal_hash(proposal) != entry.left:
                yield f"Proposal {proposal.id} is not as entry {entry.number} left it."
        elif not _is_still_valid(proposal, entry):
            yield f"Proposal {proposal.id} is {_words(proposal)}, in other parts than entry {entry.number} has it."


def _is_still_valid(proposal: Proposal, entry: DecisionRecordEntry) -> bool:
    """Return whether a decision is still as recorded, in a proposal with a pending part; a successor ends that."""
    now, then = record_hunk_states(proposal), entry.hunks
    same = (now.approved, now.approved_files) == (then.approved, then.approved_files)
    if proposal.superseded_by and not proposal.state.is_pending:
        return same and set(now.denied) >= set(then.denied) and set(now.denied_files) >= set(then.denied_files)
    denied = (now.denied, now.denied_files) == (then.denied, then.denied_files)
    return (
        same and denied and proposal.state not in (ProposalState.APPLIED, ProposalState.DENIED, ProposalState.UNDONE)
    )


def _is_last(last: LastDecision, entry: DecisionRecordEntry) -> bool:
    if not entry.last:
        return (last.number, last.decision) == (entry.count, entry.decision)
    return decision_hash(last) == entry.last


def _key(proposal: str, count: int, time: float) -> _Key:
    return proposal, count, 0.0 if count else time


def _name(event: EventRecordEntry) -> str:
    return f"{event.decision.replace('_', ' ')} of {event.proposal}"


def _words(proposal: Proposal) -> str:
    return proposal.state.value.replace("_", " ")


_Kept = TypeVar("_Kept", bound=BaseModel)


def _read(kind: type[_Kept], body: object) -> _Kept | None:
    try:
        return kind.model_validate_json(cast(str, body))
    except (ValidationError, UnicodeDecodeError, TypeError):
        return None
