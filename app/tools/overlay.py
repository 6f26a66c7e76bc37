"""The workspace's files as they would be with the pending edits, for the tools that look at many."""

from app.tools.contract import ToolContext, ToolError
from app.tools.targets import explained


def overlay_files(context: ToolContext, under: str) -> tuple[list[str], set[str]]:
    """All files in a folder that no ignore rule leaves out, sorted, and those of them that only pending edits add.

    For a file, the file itself. Walks the disk, so call it on a thread.

    Raises:
        ToolError: There is no such file or folder, on disk or pending.
    """
    added, removed = context.draft.paths()
    added = {path for path in added if under in (".", path) or path.startswith(f"{under}/")}
    with explained(under):
        if added and context.workspace.kind(under) == "missing":
            on_disk: set[str] = set()
        else:
            on_disk = set(context.workspace.files(under))
    files = sorted((on_disk - removed) | added)
    if not files and under in removed:
        raise ToolError(f"{under} does not exist any more: a staged edit deletes or renames it.")
    return files, added - on_disk
