"""The wait for a condition that all tests use, long enough for a busy machine."""

import asyncio
import time
from collections.abc import Callable

MAX_WAIT_SECONDS = 60.0
"""Maximum number of seconds of one wait; a test may take longer, because it waits more than once."""


async def until(condition: Callable[[], object], what: str | Callable[[], str] = "the condition") -> None:
    """Wait until a condition is true; raise AssertionError with the text `what` if it stays false."""
    end = time.monotonic() + MAX_WAIT_SECONDS
    while not (result := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what() if callable(what) else what} did not come")
        await asyncio.sleep(0.02)
    assert not callable(result), f"{result!r} would always hold; call it"
