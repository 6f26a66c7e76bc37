"""Stores of unfinished reviews and evidence, which survive a restart, and of check results for other processes."""

import asyncio
import contextlib
from collections.abc import Collection
from dataclasses import fields
from functools import cache
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from app.proposals.values.decision_facts import RecordedCheckResult
from app.storage import StorageError
from app.storage.process_coordination import DatabaseChangeSignal
from app.storage.session_store import SessionStore

if TYPE_CHECKING:
    from app.automation.check_results import ProposalChecks
    from app.automation.evidence.proposal_evidence import ProposalTestEvidence
    from app.review.unfinished_review import UnfinishedReview

_REVIEW_PREFIX = "review:"
_SAVE_DELAY_SECONDS = 0.3
"""Seconds to wait before a change is written."""


@cache
def _review_adapter() -> "TypeAdapter[UnfinishedReview]":
    # Imported at first use: each start calls `has_any`, which does not need it.
    from app.review.unfinished_review import UnfinishedReview

    return TypeAdapter(UnfinishedReview)


class UnfinishedReviewStore:
    """Unfinished reviews of one workspace: feedback, comments, choices, ticks."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._unsaved: dict[str, UnfinishedReview] = {}
        self._saved: dict[str, UnfinishedReview] = {}
        """As this process loaded or wrote them last."""
        self._is_flush_planned = False

    def has_any(self) -> bool:
        """Return whether there are unfinished reviews; raises StorageError."""
        return bool(self._store.settings(_REVIEW_PREFIX))

    def load(self) -> "dict[str, UnfinishedReview]":
        """Return the unfinished reviews by proposal, without unreadable ones. Raises `StorageError`."""
        self._saved = self._load()
        return self._saved.copy()

    def _load(self) -> "dict[str, UnfinishedReview]":
        found = {}
        for key, value in self._store.settings(_REVIEW_PREFIX).items():
            try:
                found[key.removeprefix(_REVIEW_PREFIX)] = _review_adapter().validate_json(value)
            except ValidationError:
                continue
        return found

    async def save_soon(self, proposal_id: str, notes: "UnfinishedReview") -> None:
        """Save the unfinished review of a proposal after a short pause, together with later ones. Raises
        StorageError.
        """
        self._unsaved[proposal_id] = notes
        if not self._is_flush_planned:
            self._is_flush_planned = True
            try:
                await asyncio.sleep(_SAVE_DELAY_SECONDS)
            finally:
                self._is_flush_planned = False
            await self.flush()

    async def save(self, proposal_id: str, notes: "UnfinishedReview") -> None:
        """Save the unfinished review of a proposal at once; raises StorageError."""
        self._unsaved[proposal_id] = notes
        await self.flush()

    async def flush(self) -> None:
        """Write unsaved notes at once; raises StorageError, and keeps them for the next time then."""
        unsaved, self._unsaved = self._unsaved, {}
        if unsaved:
            try:
                await asyncio.to_thread(self._write, unsaved)
            except StorageError:
                self._unsaved = unsaved | self._unsaved
                raise

    async def close(self) -> None:
        """Write unsaved notes; storage errors are ignored because the app is exiting."""
        with contextlib.suppress(StorageError):
            await self.flush()

    def _write(self, unsaved: "dict[str, UnfinishedReview]") -> None:
        stored = self._load()
        for proposal_id, notes in unsaved.items():
            empty = type(notes)()
            merged = _merge_notes(self._saved.get(proposal_id, empty), notes, stored.get(proposal_id, empty))
            self._store.set_setting(
                _REVIEW_PREFIX + proposal_id, _review_adapter().dump_json(merged).decode() if merged else None
            )
            self._saved[proposal_id] = notes


def _merge_notes(
    before: "UnfinishedReview", after: "UnfinishedReview", stored: "UnfinishedReview"
) -> "UnfinishedReview":
    """Return the stored review with the changes from `before` to `after`; another window may have changed it too."""
    merged: dict[str, object] = {}
    for field in fields(after):
        old, new, other = (getattr(review, field.name) for review in (before, after, stored))
        if isinstance(new, tuple):
            kept = (item for item in other if item in new or item not in old)
            merged[field.name] = (*kept, *(item for item in new if item not in (*old, *other)))
        else:
            merged[field.name] = other if new == old else new
    return type(after)(**merged)  # type: ignore[arg-type]


_CHECKS_PREFIX = "checks:"


@cache
def _checks_adapter() -> TypeAdapter[list[RecordedCheckResult]]:
    return TypeAdapter(list[RecordedCheckResult])


class CheckResultStore:
    """Stores the latest check results of each proposal and notifies other processes of new ones."""

    def __init__(self, store: SessionStore, signal: DatabaseChangeSignal) -> None:
        self._store = store
        self._signal = signal

    def save(self, checked: "ProposalChecks") -> None:
        """Store finished results in place of earlier ones; storage errors are ignored."""
        facts = [one.as_record for one in checked.results if one.is_current]
        if checked.is_running or not facts:
            return
        key, value = f"{_CHECKS_PREFIX}{checked.proposal}", _checks_adapter().dump_json(facts).decode()
        with contextlib.suppress(StorageError):
            if self._store.setting(key) != value:
                self._store.set_setting(key, value)
                self._signal.send()

    def load(self, waiting: Collection[str]) -> dict[str, list[RecordedCheckResult]]:
        """Return the results of the waiting proposals, and delete those of others."""
        kept = {
            key.removeprefix(_CHECKS_PREFIX): value for key, value in self._store.settings(_CHECKS_PREFIX).items()
        }
        for gone in kept.keys() - set(waiting):
            self._store.set_setting(f"{_CHECKS_PREFIX}{gone}", None)
        return {key: _checks_adapter().validate_json(value) for key, value in kept.items() if key in waiting}


_EVIDENCE_PREFIX = "evidence:"


@cache
def _evidence_adapter() -> "TypeAdapter[ProposalTestEvidence]":
    from app.automation.evidence.proposal_evidence import ProposalTestEvidence

    return TypeAdapter(ProposalTestEvidence)


class ProposalEvidenceStore:
    """Stores the latest test evidence about each proposal, so that it survives a restart."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store

    def save(self, found: "ProposalTestEvidence", waiting: Collection[str]) -> None:
        """Store evidence in place of earlier evidence, and delete that of proposals that do not wait.

        Storage errors are ignored: the evidence can be collected again.
        """
        with contextlib.suppress(StorageError):
            if found.marks:
                self._store.set_setting(
                    _EVIDENCE_PREFIX + found.proposal, _evidence_adapter().dump_json(found).decode()
                )
            for key in self._store.settings(_EVIDENCE_PREFIX):
                if key.removeprefix(_EVIDENCE_PREFIX) not in waiting:
                    self._store.set_setting(key, None)

    def load(self, proposal_id: str) -> "ProposalTestEvidence | None":
        """Return the evidence about a proposal, perhaps of an earlier revision; None if there is none or it is
        unreadable.
        """
        with contextlib.suppress(StorageError, ValidationError):
            if value := self._store.setting(_EVIDENCE_PREFIX + proposal_id):
                return _evidence_adapter().validate_json(value)
        return None
