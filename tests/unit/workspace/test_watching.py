"""What hears of changes: the kernel, or where it says nothing a look at the files time and again."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from app.workspace.file_watching import start_watch, watch_changes


@pytest.mark.parametrize(("said", "polls"), [("", False), ("1", True), ("true", True), ("False", False)])
def test_the_user_says_whether_files_are_polled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, polls: bool
) -> None:
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", said)
    with start_watch([tmp_path]) as watch:
        assert ("PollWatcher" in repr(watch)) == polls


@pytest.mark.parametrize("said", ["disabled", "1"])
async def test_a_change_is_told_either_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", said)
    async with asyncio.timeout(30), aclosing(watch_changes([tmp_path], quiet_ms=1)) as changes:
        assert await anext(changes) == frozenset()
        (tmp_path / "a.txt").write_text("a\n")
        assert tmp_path / "a.txt" in await anext(changes)
