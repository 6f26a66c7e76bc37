"""What was begun in the review: written at the latest when the app ends, which no broken store holds up."""

import asyncio
import contextlib
from pathlib import Path

import pytest

from app.review.note_store import ReviewNotes
from app.review.unfinished_review import UnfinishedReview
from app.storage.change_signals import ChangeSignal
from app.storage.database import Database
from app.storage.session_store import SessionStore


@pytest.mark.parametrize("broken", [False, True])
async def test_the_end_of_the_app_writes_what_is_begun_if_that_can_be_written(tmp_path: Path, broken: bool) -> None:
    database = Database(tmp_path / "db")
    notes = ReviewNotes(SessionStore(database, "here", ChangeSignal(tmp_path, "here")))
    pause = asyncio.create_task(notes.save_soon("P1", UnfinishedReview(draft="Use LOG.")))
    await asyncio.sleep(0)
    if broken:
        with database.transaction() as connection:
            connection.execute("ALTER TABLE settings RENAME TO broken")
    await notes.close()
    if not broken:
        assert notes.load() == {"P1": UnfinishedReview(draft="Use LOG.")}
    pause.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await pause
