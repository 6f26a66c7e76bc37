"""An interruption cancels what is awaited, waits for its clean-up, and cancels nothing else."""

import asyncio

import pytest

from app.concurrency import Interrupter, WaitInterrupted


async def test_the_clean_up_ends_before_interrupted_is_raised() -> None:
    interrupter = Interrupter()
    steps: list[str] = []

    async def work() -> None:
        try:
            steps.append("begun")
            interrupter.stop()
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            steps.append("cleaned up")

    with pytest.raises(WaitInterrupted):
        await interrupter.wait_for(work())
    assert steps == ["begun", "cleaned up"]


async def test_results_and_errors_are_returned_and_nothing_begins_after_a_stop() -> None:
    interrupter = Interrupter()
    begun = []

    async def value() -> int:
        begun.append(True)
        return 42

    async def error() -> None:
        raise ValueError("no")

    async def work() -> str:
        interrupter.stop()
        return "done"

    assert await interrupter.wait_for(value()) == 42
    with pytest.raises(ValueError, match="no"):
        await interrupter.wait_for(error())
    assert await interrupter.wait_for(work()) == "done", "a finished result is kept"
    with pytest.raises(WaitInterrupted):
        await interrupter.wait_for(value())
    assert len(begun) == 1 and interrupter.is_stopped


async def test_cancelling_the_waiter_cancels_the_work() -> None:
    interrupter = Interrupter()
    ended = asyncio.Event()

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    task = asyncio.create_task(interrupter.wait_for(work()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
    assert len(asyncio.all_tasks()) == 1
