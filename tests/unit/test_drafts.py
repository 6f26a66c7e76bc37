"""What was written and not sent: kept while it is written, and there again after a kill."""

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from app.conversation.events import UserMessage
from app.review.review_stores import UnfinishedReviewStore
from app.review.unfinished_review import UnfinishedReview, UnsentComment
from app.runtime.session_host import ComposerDraftStore, StoredComposerDraft
from app.storage import StorageError
from app.storage.database import Database
from app.storage.process_coordination import DatabaseChangeSignal
from app.storage.session_store import SessionStore

KEY = "draft:"


@pytest.fixture
def sessions(tmp_path: Path) -> SessionStore:
    return SessionStore(Database(tmp_path / "db"), "here", DatabaseChangeSignal(tmp_path, "here"))


@pytest.fixture
def drafts(sessions: SessionStore) -> Callable[[], ComposerDraftStore]:
    """Another process on the same store."""
    return lambda: ComposerDraftStore(sessions, pytest.fail)


def left(sessions: SessionStore, session_id: str, draft: str, process: int, time: float = 1.0) -> None:
    kept = StoredComposerDraft(draft=draft, process=process, time=time)
    sessions.set_setting(KEY + session_id, kept.model_dump_json())


async def test_a_draft_is_kept_during_typing(
    sessions: SessionStore, drafts: Callable[[], ComposerDraftStore]
) -> None:
    first = drafts()
    for number in count():
        first.save("S", f"so far {number}")
        await asyncio.sleep(0)
        if number % 100 == 0 and sessions.setting(KEY + "S"):
            break
    await first.flush()
    assert await drafts().load("S") == f"so far {number}"


async def test_a_draft_is_written_when_changed_and_removed_when_emptied(
    sessions: SessionStore, drafts: Callable[[], ComposerDraftStore]
) -> None:
    left(sessions, "S", "of another day", process=1)
    before = sessions.settings(KEY)
    first = drafts()
    first.save("S", await first.load("S"))
    first.save("T", "")
    await first.flush()
    assert sessions.settings(KEY) == before
    first.save("S", "hello")
    await first.flush()
    assert await drafts().load("S") == "hello"
    first.save("S", "")
    await first.flush()
    assert sessions.settings(KEY) == {}
    sessions.set_setting(f"{KEY}S", "as earlier versions kept it")
    assert await drafts().load("S") == "as earlier versions kept it"
    assert await drafts().load("new", fresh=True) == "as earlier versions kept it"


async def test_the_newest_dead_draft_is_taken_and_owned_ones_are_left(
    sessions: SessionStore, drafts: Callable[[], ComposerDraftStore]
) -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    gone = process.pid
    left(sessions, "open elsewhere", "theirs", os.getppid())
    left(sessions, "open here", "mine", os.getpid())
    spoken = sessions.create().id
    sessions.append_events(spoken, [UserMessage(text="hello")])
    left(sessions, spoken, "go on", gone)
    assert await drafts().load("fresh", fresh=True) == ""
    assert await drafts().load(spoken) == "go on"
    left(sessions, "older", "older", gone, 1.0)
    left(sessions, "newer", "newer", gone, 2.0)
    before = sessions.settings(KEY).keys()
    assert await drafts().load("fresh", fresh=True) == "newer"
    assert sessions.settings(KEY).keys() == before - {KEY + "newer"} | {KEY + "fresh"}
    assert await drafts().load("newer") == ""


async def test_a_failing_draft_store_is_reported_and_retried(sessions: SessionStore) -> None:
    told: list[str] = []
    first = ComposerDraftStore(sessions, told.append)
    with sessions._database.transaction() as connection:
        connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON settings BEGIN SELECT RAISE(ABORT, 'disk is full'); END"
        )
    first.save("S", "a")
    await first.flush()
    [line] = told
    assert "disk is full" in line
    with sessions._database.transaction() as connection:
        connection.execute("DROP TRIGGER full")
    first.save("S", "ab")
    await first.flush()
    assert await first.load("S") == "ab"


@pytest.mark.parametrize("broken", [False, True])
async def test_notes_are_stored_with_the_next_or_at_the_end_of_the_app(sessions: SessionStore, broken: bool) -> None:
    def rename(table: str, name: str) -> None:
        with sessions._database.transaction() as connection:
            connection.execute(f"ALTER TABLE {table} RENAME TO {name}")

    notes = UnfinishedReviewStore(sessions)
    first, second, third = (UnfinishedReview(draft=text) for text in ("Use LOG.", "Why?", "No."))
    rename("settings", "broken")
    with pytest.raises(StorageError):
        await notes.save_soon("P1", first)
    rename("broken", "settings")
    await notes.save_soon("P2", second)
    assert notes.load() == {"P1": first, "P2": second}
    await notes.save("P1", third)
    pause = asyncio.create_task(notes.save_soon("P3", first))
    await asyncio.sleep(0)
    if broken:
        rename("settings", "broken")
    await notes.close()
    assert broken or notes.load() == {"P1": third, "P2": second, "P3": first}
    pause.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await pause


async def test_two_windows_keep_what_each_has_noted_on_one_proposal(sessions: SessionStore) -> None:
    first, second = UnfinishedReviewStore(sessions), UnfinishedReviewStore(sessions)
    one, two = (UnsentComment("a.py", "new", line, "Why?") for line in (1, 2))
    await first.save("P1", UnfinishedReview(draft="Use LOG.", remarks=(one,)))
    await second.save("P1", UnfinishedReview(remarks=(two,), left_out=("h1",)))
    assert UnfinishedReviewStore(sessions).load() == {"P1": UnfinishedReview("Use LOG.", (one, two), ("h1",))}
    await first.save("P1", UnfinishedReview())
    assert UnfinishedReviewStore(sessions).load() == {"P1": UnfinishedReview(remarks=(two,), left_out=("h1",))}
    await second.save("P1", UnfinishedReview())
    assert UnfinishedReviewStore(sessions).load() == {}
