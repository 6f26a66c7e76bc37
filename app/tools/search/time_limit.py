"""Work on a thread that ends in time: what it has by then is the result."""

import asyncio
from typing import Protocol, TypeVar

Result_co = TypeVar("Result_co", covariant=True)


class Stoppable(Protocol[Result_co]):
    """Work that blocks; `stop` may come from another thread."""

    def run(self) -> Result_co:
        """Do it, or as much of it as is done until it is stopped."""
        ...

    def stop(self) -> None:
        """Make `run` return soon with what it has."""
        ...


async def finished(work: Stoppable[Result_co], seconds: float) -> Result_co:
    """The result, soon after `seconds` at the latest; cancellation stops the work too."""
    running = asyncio.ensure_future(asyncio.to_thread(work.run))
    try:
        await asyncio.wait({running}, timeout=seconds)
    finally:
        if not running.done():
            work.stop()
            # The thread ends by itself; whatever it has to say then is of no interest.
            running.add_done_callback(lambda done: done.cancelled() or done.exception())
    return await running
