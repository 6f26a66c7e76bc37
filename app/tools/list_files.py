"""`list_files`: what files there are."""

import asyncio
from collections import Counter

from pydantic import Field

from app.tools.contract import Tool, ToolArguments, ToolContext, ToolOutput
from app.tools.globs import matcher
from app.tools.overlay import overlay_files
from app.tools.targets import locate_real

MOST = 500
"""Lines in one result."""


class ListFilesArguments(ToolArguments):
    """Arguments of `list_files`."""

    path: str | None = Field(
        default=None, description="The folder, relative to the workspace root. Default: the root."
    )
    pattern: str | None = Field(
        default=None,
        description="Only files that match: *.py in any folder below, src/**/*.{ts,tsx} from `path` down.",
    )


class ListFiles(Tool):
    """Lists what no ignore rule leaves out, with the pending edits in place."""

    name = "list_files"
    kind = "read"
    Arguments = ListFilesArguments
    description = (
        "List the files of the workspace or of one folder, at any depth, one path per line, sorted. Ignored files "
        f"are left out. Where there are more than {MOST}, folders come with the number of files in them instead: "
        "go on with `path` or `pattern`."
    )

    async def run(self, arguments: ListFilesArguments, context: ToolContext) -> ToolOutput:
        """List once."""
        folder = locate_real(context.workspace, arguments.path)
        return await asyncio.to_thread(_list, folder, arguments.pattern or "", context)


def _list(folder: str, pattern: str, context: ToolContext) -> ToolOutput:
    files, added = overlay_files(context, folder)
    prefix = "" if folder == "." else f"{folder}/"
    if pattern:
        matches = matcher(pattern)
        files = [path for path in files if matches(path.removeprefix(prefix)) or matches(path)]
    total = f"{len(files):,} file{'' if len(files) == 1 else 's'}"
    if not files:
        what = f"No file matches {pattern!r}" if pattern else "There are no files"
        return ToolOutput(f"{what} in {'the workspace' if folder == '.' else folder}.", "no files")
    if len(files) <= MOST:
        return ToolOutput("\n".join(_marked(path, added) for path in files), total)
    lines = _by_folder(files, prefix, added)
    if len(lines) > MOST:
        left = len(lines) - MOST
        lines = [*lines[:MOST], f"[{left:,} more entries not shown]"]
    return ToolOutput("\n".join([f"[{total}; folders with the number of files in them]", *lines]), total)


def _marked(path: str, added: set[str]) -> str:
    return f"{path}  [staged, not on disk yet]" if path in added else path


def _by_folder(files: list[str], prefix: str, added: set[str]) -> list[str]:
    """One line for each file right in the folder and each folder in it."""
    counts: Counter[str] = Counter()
    for path in files:
        name, slash, _ = path.removeprefix(prefix).partition("/")
        counts[f"{prefix}{name}{slash}"] += 1
    return [f"{name} ({count:,})" if name.endswith("/") else _marked(name, added) for name, count in counts.items()]
