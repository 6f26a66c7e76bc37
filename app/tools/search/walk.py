"""How the tools look at many files: those of the overlay, one after the other, and for a limited time."""

import asyncio
from collections.abc import Callable, Iterator
from heapq import merge
from typing import Protocol, TypeVar

from app.tools.contract import ToolContext, ToolError
from app.tools.targets import explained

Result_co = TypeVar("Result_co", covariant=True)


def overlay_files(context: ToolContext, under: str, ended: Callable[[], bool]) -> Iterator[tuple[str, bool]]:
    """All files in a folder that no ignore rule leaves out, sorted, each with whether only pending edits add it.

    For a file, the file itself. The disk is walked as the files are asked for, so do that on a thread. No more come
    once `ended` says so.

    Raises:
        ToolError: There is no such file or folder, on disk or pending.
    """
    added, removed = context.draft.paths()
    added = {path for path in added if under in (".", path) or path.startswith(f"{under}/")}
    with explained(under):
        nothing_there = bool(added) and context.workspace.kind(under) == "missing"
        on_disk = iter(()) if nothing_there else context.workspace.files(under, ended)
    if not added and under in removed:
        raise ToolError(f"{under} does not exist any more: a staged edit deletes or renames it.")
    there = ((path, False) for path in on_disk if path not in removed and path not in added)
    return merge(there, ((path, True) for path in sorted(added)))


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
