"""The watcher tells of changes to the files that wait, and of nothing else."""

import asyncio
import threading
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from app.proposals.files.file_change_watcher import FileChangeWatcher

Changes = AsyncGenerator[frozenset[str], None]


@pytest.fixture
def watcher(tmp_path: Path) -> FileChangeWatcher:
    return FileChangeWatcher(tmp_path.resolve())


async def following(changes: Changes) -> frozenset[str]:
    return await asyncio.wait_for(anext(changes), 20)


async def test_a_replaced_file_is_reported_as_changed(watcher: FileChangeWatcher, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    watcher.watch({"a.txt"})
    changes = watcher.changes()
    assert await following(changes) == {"a.txt"}, "told once when the watch begins"
    (tmp_path / "other.txt").write_text("not watched")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.txt").write_text("not watched")
    (tmp_path / "a.new").write_text("new")
    (tmp_path / "a.new").rename(tmp_path / "a.txt")
    assert await following(changes) == {"a.txt"}
    (tmp_path / "a.txt").unlink()
    assert await following(changes) == {"a.txt"}
    await changes.aclose()


async def test_the_watch_moves_when_the_set_changes(watcher: FileChangeWatcher, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    watcher.watch({"one/a.txt"})
    changes = watcher.changes()
    assert await following(changes) == {"one/a.txt"}
    waiting = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)
    watcher.watch({"two/b.txt"})
    assert await asyncio.wait_for(waiting, 20) == {"two/b.txt"}
    (tmp_path / "one" / "a.txt").write_text("x")
    (tmp_path / "two" / "b.txt").write_text("x")
    assert await following(changes) == {"two/b.txt"}
    await changes.aclose()


async def test_nothing_is_watched_until_something_waits(watcher: FileChangeWatcher, tmp_path: Path) -> None:
    changes = watcher.changes()
    waiting = asyncio.ensure_future(anext(changes))
    for _ in range(4):
        await asyncio.sleep(0)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("watch")]
    watcher.watch({"a.txt"})
    assert await asyncio.wait_for(waiting, 20) == {"a.txt"}
    watcher.watch(())
    waiting = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)
    (tmp_path / "a.txt").write_text("x")
    assert not waiting.done()
    watcher.watch({"b.txt"})
    assert await asyncio.wait_for(waiting, 20) == {"b.txt"}
    await changes.aclose()


async def test_follows_a_file_into_a_folder_that_is_made_later(watcher: FileChangeWatcher, tmp_path: Path) -> None:
    watcher.watch({"new/deep/a.txt"})
    changes = watcher.changes()
    await following(changes)
    (tmp_path / "new" / "deep").mkdir(parents=True)
    assert await following(changes) == {"new/deep/a.txt"}
    (tmp_path / "new" / "deep" / "a.txt").write_text("x")
    assert await following(changes) == {"new/deep/a.txt"}
    await changes.aclose()


async def test_closing_ends_the_thread(watcher: FileChangeWatcher) -> None:
    watcher.watch({"a.txt"})
    changes = watcher.changes()
    await following(changes)
    waiting = asyncio.ensure_future(anext(changes))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(waiting, 20)
    await asyncio.wait_for(changes.aclose(), 20)


async def test_a_cancellation_while_the_watch_moves_is_not_lost(watcher: FileChangeWatcher) -> None:
    told = asyncio.Event()

    async def watch() -> None:
        async for _ in watcher.changes():
            told.set()

    watcher.watch({"a.txt"})
    task = asyncio.create_task(watch())
    await asyncio.wait_for(told.wait(), 20)
    watcher.watch({"b.txt"})
    # The watcher notices within the next turns of the loop, and waits for the old watch to end.
    for _ in range(4):
        await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=20)
    assert done and task.cancelled()


async def test_a_workspace_that_is_moved_away_and_back_is_still_watched(tmp_path: Path) -> None:
    root = tmp_path.resolve() / "workspace"
    root.mkdir()
    watcher = FileChangeWatcher(root)
    watcher.watch({"a.txt"})
    changes = watcher.changes()
    await following(changes)
    waiting = asyncio.ensure_future(anext(changes))
    root.rename(tmp_path / "elsewhere")
    await asyncio.wait_for(waiting, 20)
    waiting = asyncio.ensure_future(anext(changes))
    # It goes on to listen above the workspace, to what is none of its business too.
    for _ in range(4):
        await asyncio.sleep(0)
    (tmp_path / "another").write_text("x")
    root.mkdir()
    (root / "a.txt").write_text("x")
    assert await asyncio.wait_for(waiting, 20) == {"a.txt"}
    await changes.aclose()


@pytest.mark.parametrize("polling", [False, True])
async def test_a_folder_removed_at_the_start_of_the_watch_is_handled(
    watcher: FileChangeWatcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, polling: bool
) -> None:
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", str(polling).lower())
    folder, is_folder = tmp_path.resolve() / "gone", Path.is_dir
    folder.mkdir()

    def looked_at(path: Path) -> bool:
        found = is_folder(path)
        if path == folder and found:
            folder.rmdir()
        return found

    monkeypatch.setattr(Path, "is_dir", looked_at)
    watcher.watch({"gone/a.txt"})
    changes = watcher.changes()
    assert await following(changes) == {"gone/a.txt"}
    monkeypatch.undo()
    waiting = asyncio.ensure_future(anext(changes))
    folder.mkdir()
    assert await asyncio.wait_for(waiting, 20) == {"gone/a.txt"}
    await changes.aclose()
