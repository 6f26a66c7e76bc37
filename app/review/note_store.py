"""Notes on unfinished reviews that survive a restart."""

import asyncio
import contextlib
from functools import cache
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from app.storage.session_store import SessionStore
from app.storage.storage_errors import StorageError

if TYPE_CHECKING:
    from app.review.unfinished_review import UnfinishedReview

_PREFIX = "review:"
_PAUSE = 0.3
"""Seconds without a change before it is written."""


@cache
def _adapter() -> "TypeAdapter[UnfinishedReview]":
    # Whether there are any is asked before the review is loaded.
    from app.review.unfinished_review import UnfinishedReview

    return TypeAdapter(UnfinishedReview)


class ReviewNotes:
    """Unfinished reviews of one workspace: feedback, comments, choices, ticks."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._unsaved: dict[str, UnfinishedReview] = {}

    def exist(self) -> bool:
        """Return whether there are unfinished review notes; raises StorageError."""
        return bool(self._store.settings(_PREFIX))

    def load(self) -> "dict[str, UnfinishedReview]":
        """Return the unfinished reviews by proposal, without unreadable ones. Raises `StorageError`."""
        found = {}
        for key, value in self._store.settings(_PREFIX).items():
            try:
                found[key.removeprefix(_PREFIX)] = _adapter().validate_json(value)
            except ValidationError:
                continue
        return found

    async def save_soon(self, proposal_id: str, notes: "UnfinishedReview") -> None:
        """Save the unfinished notes on a proposal at the next pause. Raises StorageError."""
        waits = bool(self._unsaved)
        self._unsaved[proposal_id] = notes
        if not waits:
            await asyncio.sleep(_PAUSE)
            await self.flush()

    async def save(self, proposal_id: str, notes: "UnfinishedReview") -> None:
        """Save the unfinished notes on a proposal at once; raises StorageError."""
        self._unsaved[proposal_id] = notes
        await self.flush()

    async def flush(self) -> None:
        """Write unsaved notes at once; raises StorageError."""
        unsaved, self._unsaved = self._unsaved, {}
        if unsaved:
            await asyncio.to_thread(self._write, unsaved)

    async def close(self) -> None:
        """Write unsaved notes; storage errors are ignored because the app is exiting."""
        with contextlib.suppress(StorageError):
            await self.flush()

    def _write(self, unsaved: "dict[str, UnfinishedReview]") -> None:
        for proposal_id, notes in unsaved.items():
            self._store.set_setting(_PREFIX + proposal_id, _adapter().dump_json(notes).decode() if notes else None)
