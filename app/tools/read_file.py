"""`read_file`: a text file, or a part of it, with line numbers."""

import asyncio

from pydantic import Field

from app.proposals.overlay.overlay import OverlayFile
from app.proposals.text.document import MAX_LINES, Document
from app.proposals.values.pending_paths import format_ids
from app.tools.base.contract import Tool, ToolArguments, ToolContext, ToolError, ToolOutput
from app.tools.base.targets import ask_if_secret, os_errors_as_tool_errors, resolve_path, similar_files

PAGE_LINES = 800
"""Lines in one result."""
PAGE_CHARACTERS = 60_000
"""Characters in one result; a page ends before the line that would go over."""
LINE_CHARACTERS = 2_000
"""Characters of one line; the rest is counted, not shown."""


_KEPT_BYTES = 5_000_000
"""Bytes of a file, at most, of which the lines are kept until another one is read."""


class ReadFileArguments(ToolArguments):
    """Arguments of `read_file`."""

    path: str = Field(description="The file, relative to the workspace root.")
    start_line: int | None = Field(default=None, ge=1, description="First line to show, from 1. Default: 1.")
    end_line: int | None = Field(
        default=None, ge=1, description=f"Last line to show, inclusive. At most {PAGE_LINES} lines come at once."
    )


class ReadFile(Tool):
    """Reads files with the pending edits applied, and says so.

    A model reads a large file in many pages: the lines of the file that was read last are kept by its version.
    """

    name = "read_file"
    kind = "read"
    Arguments = ReadFileArguments
    description = (
        "Read a text file of the workspace. The first line of the result names the file and its version; then each "
        "line comes as its number, a tab and its text. The number and the tab are not part of the file. Long files "
        "come in pages. Edits that are staged but not yet approved are shown in place, and it says so."
    )

    def __init__(self) -> None:
        self._latest: tuple[str, Document] | None = None

    async def run(self, arguments: ReadFileArguments, context: ToolContext) -> ToolOutput:
        """Read one page."""
        path = resolve_path(context.workspace, arguments.path)
        await ask_if_secret(context, path)
        with os_errors_as_tool_errors(path):
            file = await asyncio.to_thread(context.draft.read, path)
        if file.content is None:
            raise ToolError(await asyncio.to_thread(_missing, path, context))
        text, summary = await asyncio.to_thread(self._page, path, file, file.content, arguments)
        return ToolOutput(text, summary, {path: file.version})

    def _page(self, path: str, file: OverlayFile, content: bytes, arguments: ReadFileArguments) -> tuple[str, str]:
        latest = self._latest
        document = latest[1] if latest and latest[0] == file.version else Document(content)
        page = _page(path, file, document, arguments)
        small = len(content) <= _KEPT_BYTES and not document.is_binary and len(document.lines) <= MAX_LINES
        self._latest = (file.version, document) if small else None
        return page


def _missing(path: str, context: ToolContext) -> str:
    with os_errors_as_tool_errors(path):
        if context.workspace.kind(path) == "folder":
            return f"{path} is a folder. Use list_files to see what is in it."
    added, removed = context.draft.added_and_removed_paths()
    if path in removed:
        return f"{path} does not exist any more: a staged edit deletes or renames it."
    close = similar_files(context.workspace, path, added)
    return f"{path} does not exist." + (f" Similar names: {', '.join(close)}." if close else "")


def _page(path: str, file: OverlayFile, document: Document, arguments: ReadFileArguments) -> tuple[str, str]:
    """The result's text and its one line for the user."""
    head = [f"{path} (version {file.version[:12]}"]
    if document.is_binary:
        in_bytes = f"{len(document.data):,} bytes"
        return f"{head[0]}, {in_bytes})\nThis is a binary file; its contents are not shown.", f"binary, {in_bytes}"
    lines = document.line_texts
    total = len(lines)
    head.append(f", {total} line{'' if total == 1 else 's'})")
    notes = _notes(document, file)
    if not total:
        return "\n".join(["".join(head), *notes, "The file is empty."]), "empty"
    start = arguments.start_line or 1
    last = arguments.end_line or total
    if start > total:
        raise ToolError(f"{path} has {total} lines; there is no line {start}.")
    if last < start:
        raise ToolError(f"end_line {last} is before start_line {start}.")
    shown: list[str] = []
    size = 0
    for number in range(start, min(last, total, start + PAGE_LINES - 1) + 1):
        line = _numbered(number, lines[number - 1])
        size += len(line) + 1
        if size > PAGE_CHARACTERS and shown:
            break
        shown.append(line)
    end = start + len(shown) - 1
    foot = []
    if end < min(last, total):
        foot.append(f"[lines {start}-{end} of {total}; go on with start_line={end + 1}]")
    elif (start, end) != (1, total):
        foot.append(f"[lines {start}-{end} of {total}]")
    summary = f"{total} lines" if not foot else f"lines {start}-{end} of {total}"
    return "\n".join(["".join(head), *notes, *shown, *foot]), summary


def _notes(document: Document, file: OverlayFile) -> list[str]:
    notes = []
    if file.pending:
        notes.append(f"[with the staged edits of {format_ids(file.pending)}, which are not on disk yet]")
    if document.encoding == "bytes":
        notes.append(r"[not UTF-8: bytes that don't decode are shown as \udc80 to \udcff]")
    elif document.is_utf16:
        notes.append(f"[encoding: {document.encoding}]")
    if document.has_mixed_eol:
        notes.append("[mixed line endings, LF and CRLF; write plain newlines in edits]")
    elif document.eol == "\r\n":
        notes.append("[CRLF line endings; write plain newlines in edits]")
    if not document.has_final_newline:
        notes.append("[no newline at the end of the file]")
    return notes


def _numbered(number: int, line: str) -> str:
    if len(line) > LINE_CHARACTERS:
        left = len(line) - LINE_CHARACTERS
        return f"{number}\t{line[:LINE_CHARACTERS]}… [{left:,} more characters in this line]"
    return f"{number}\t{line}"
