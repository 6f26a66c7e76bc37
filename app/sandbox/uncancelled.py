"""Waits for what must not be left half-done, also where whoever waits is cancelled.

Kept apart: runs, layers and what stands still for them all need it.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


async def to_its_end(work: Coroutine[Any, Any, Result]) -> Result:
    """Do it, and only then be cancelled; an error of it goes before that."""
    doing = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        await asyncio.wait({doing})
        if not doing.cancelled() and (error := doing.exception()):
            raise error from None
        raise
