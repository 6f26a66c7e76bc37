"""How every test waits: for a condition, as long as a machine may need that is busy with other things."""

import asyncio
import time
from collections.abc import Callable

PATIENCE = 60.0
"""Seconds before what was waited for is held not to come; a test may take longer, since it waits more than once."""


async def until(condition: Callable[[], object], what: str | Callable[[], str] = "the condition") -> None:
    """Wait for something to become true; raises AssertionError, which says `what`, if it doesn't."""
    end = time.monotonic() + PATIENCE
    while not (holds := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what() if callable(what) else what} did not come")
        await asyncio.sleep(0.02)
    assert not callable(holds), f"{holds!r} would always hold; call it"
