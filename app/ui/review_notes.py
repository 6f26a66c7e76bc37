"""Keeps what the user has begun in the review, by proposal, in the store: feedback, comments, choices, ticks."""

import asyncio
import contextlib
from functools import cache
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

from app.storage.errors import StorageError
from app.storage.sessions import SessionStore

if TYPE_CHECKING:
    from widgets.approval.notes import Notes

_PREFIX = "review:"
_PAUSE = 0.3
"""Seconds without a change before it is written."""


@cache
def _adapter() -> "TypeAdapter[Notes]":
    # Whether there are any is asked before the review is loaded.
    from widgets.approval.notes import Notes

    return TypeAdapter(Notes)


class ReviewNotes:
    """The notes of one workspace."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self._unsaved: dict[str, Notes] = {}

    def are_there(self) -> bool:
        """Whether anything was begun; raises StorageError."""
        return bool(self._store.settings(_PREFIX))

    def load(self) -> "dict[str, Notes]":
        """What was begun, by proposal; what another version has left unreadable is left out. Raises StorageError."""
        found = {}
        for key, value in self._store.settings(_PREFIX).items():
            try:
                found[key.removeprefix(_PREFIX)] = _adapter().validate_json(value)
            except ValidationError:
                continue
        return found

    async def keep(self, proposal_id: str, notes: "Notes") -> None:
        """Take what is begun on a proposal; it is written once there is a pause. Raises StorageError."""
        waits = bool(self._unsaved)
        self._unsaved[proposal_id] = notes
        if not waits:
            await asyncio.sleep(_PAUSE)
            await self.flush()

    async def flush(self) -> None:
        """Write at once what is not yet written; raises StorageError."""
        unsaved, self._unsaved = self._unsaved, {}
        if unsaved:
            await asyncio.to_thread(self._write, unsaved)

    async def close(self) -> None:
        """Write what is left; the app ends in any case."""
        with contextlib.suppress(StorageError):
            await self.flush()

    def _write(self, unsaved: "dict[str, Notes]") -> None:
        for proposal_id, notes in unsaved.items():
            self._store.set_setting(_PREFIX + proposal_id, _adapter().dump_json(notes).decode() if notes else None)
