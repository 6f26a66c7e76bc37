"""The workspace's files as they would be with the pending edits, for the tools that look at many."""

from collections.abc import Callable, Iterator
from heapq import merge

from app.tools.contract import ToolContext, ToolError
from app.tools.targets import explained


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
