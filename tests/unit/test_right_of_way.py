"""Work on threads waits for the event loop, and not for ever."""

import asyncio
import importlib
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import concurrency
from app.concurrency import (
    IdleTrackingSelector,
    delay_thread_imports_while_loop_busy,
    iterate_when_event_loop_idle,
    wait_while_event_loop_busy,
)

LIMIT = 60.0


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.SelectorEventLoop(IdleTrackingSelector())
    yield loop
    loop.close()


def work(done: list[str], begun: threading.Event | None = None) -> threading.Thread:
    """A thread that works once it may."""

    def run() -> None:
        if begun is not None:
            begun.set()
        wait_while_event_loop_busy()
        done.append("thread")

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_thread_waits_for_an_idle_loop(loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrency, "_MAX_WAIT_SECONDS", LIMIT)
    done: list[str] = []

    async def paint() -> None:
        begun = threading.Event()
        thread = work(done, begun)
        assert begun.wait(LIMIT)
        for _ in range(1_000):
            # The thread may run, but for its good manners.
            time.sleep(0)
            # Nor does the loop wait, with more to do at once.
            await asyncio.sleep(0)
        done.append("loop")
        # The loop waits for something, and no longer than that.
        await asyncio.wait_for(asyncio.to_thread(thread.join), LIMIT / 2)

    loop.run_until_complete(paint())
    assert done == ["loop", "thread"]


def test_a_thread_runs_beside_an_event_loop_that_is_never_idle(loop: asyncio.AbstractEventLoop) -> None:
    done: list[str] = []

    async def paint() -> None:
        work(done).join(LIMIT)
        done.append("loop")

    loop.run_until_complete(paint())
    assert done == ["thread", "loop"]


def test_the_event_loop_itself_does_not_wait_nor_a_thread_for_an_ended_one(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def count() -> list[int]:
        return list(iterate_when_event_loop_idle(range(3)))

    monkeypatch.setattr(concurrency, "_MAX_WAIT_SECONDS", float("inf"))
    assert loop.run_until_complete(count()) == [0, 1, 2]
    monkeypatch.setattr(concurrency, "_MAX_WAIT_SECONDS", LIMIT)
    loop.close()
    done: list[str] = []
    work(done).join(LIMIT / 2)
    assert done == ["thread"]


def test_an_import_on_a_thread_waits_before_each_module(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(concurrency, "_MAX_IMPORT_WAIT_SECONDS", LIMIT)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "imported_on_a_thread.py").write_text("")
    delay_thread_imports_while_loop_busy()
    name = "imported_on_a_thread"

    async def paint() -> None:
        thread = threading.Thread(target=importlib.import_module, args=(name,))
        thread.start()
        # The loop is at work, and waits for nothing.
        thread.join(0.2)
        assert name not in sys.modules
        await asyncio.wait_for(asyncio.to_thread(thread.join), LIMIT / 2)
        assert name in sys.modules

    loop.run_until_complete(paint())
