"""The tools for files: `read_file`, `edit_file`, `write_file`, `apply_patch`, `delete_file` and `rename_file`."""

import asyncio

from pydantic import BaseModel, ConfigDict, Field

from app.proposals.files.overlay import OverlayFile
from app.proposals.text.document import MAX_LINES, Document
from app.proposals.values.pending_paths import abbreviate_proposal_ids
from app.text.quantities import format_count
from app.tools.base.contract import Tool, ToolArguments, ToolContext, ToolError, ToolOutput
from app.tools.base.targets import (
    ask_before_reading_secret_files,
    normalize_workspace_path,
    os_errors_as_tool_errors,
    refusals_as_tool_errors,
    stage_draft_edit,
    suggest_similar_files,
)

PAGE_LINES = 800
"""Maximum number of lines in one result."""
PAGE_CHARACTERS = 60_000
"""Maximum number of characters in one result; a page ends before the line that would exceed them."""
LINE_CHARACTERS = 2_000
"""Maximum number of characters of one line; the rest is only counted."""


_MAX_CACHED_BYTES = 5_000_000
"""Maximum number of bytes of a file whose parsed lines are cached until another file is read."""


class ReadFileArguments(ToolArguments):
    """Arguments of `read_file`."""

    path: str = Field(description="The file, relative to the workspace root.")
    start_line: int | None = Field(default=None, ge=1, description="First line to show, from 1. Default: 1.")
    end_line: int | None = Field(
        default=None, ge=1, description=f"Last line to show, inclusive. At most {PAGE_LINES} lines come at once."
    )


class ReadFile(Tool):
    """Reads files with the pending edits applied, and tells the model about these.

    The lines of the last file are cached by version, because a model reads a large file in many pages.
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
        self._cached_document: tuple[str, Document] | None = None

    async def run(self, arguments: ReadFileArguments, context: ToolContext) -> ToolOutput:
        path = normalize_workspace_path(context.workspace, arguments.path)
        await ask_before_reading_secret_files(context, path)
        with os_errors_as_tool_errors(path):
            file = await asyncio.to_thread(context.draft.read, path)
        if file.content is None:
            raise ToolError(await asyncio.to_thread(_describe_missing, path, context))
        text, summary = await asyncio.to_thread(self._read_page, path, file, file.content, arguments)
        return ToolOutput(text, summary, {path: file.version})

    def _read_page(
        self, path: str, file: OverlayFile, content: bytes, arguments: ReadFileArguments
    ) -> tuple[str, str]:
        cached = self._cached_document
        document = cached[1] if cached and cached[0] == file.version else Document(content)
        page = _format_page(path, file, document, arguments)
        small = len(content) <= _MAX_CACHED_BYTES and not document.is_binary and len(document.lines) <= MAX_LINES
        self._cached_document = (file.version, document) if small else None
        return page


def _describe_missing(path: str, context: ToolContext) -> str:
    with os_errors_as_tool_errors(path):
        if context.workspace.kind(path) == "folder":
            return f"{path} is a folder. Use list_files to see what is in it."
    added, removed = context.draft.added_and_removed_paths()
    if path in removed:
        return f"{path} does not exist any more: a staged edit deletes or renames it."
    close = suggest_similar_files(context.workspace, path, added)
    return f"{path} does not exist." + (f" Similar names: {', '.join(close)}." if close else "")


def _format_page(path: str, file: OverlayFile, document: Document, arguments: ReadFileArguments) -> tuple[str, str]:
    """Return the result's text, and one line for the user."""
    head = [f"{path} (version {file.version[:12]}"]
    if document.is_binary:
        in_bytes = f"{len(document.data):,} bytes"
        return f"{head[0]}, {in_bytes})\nThis is a binary file; its contents are not shown.", f"binary, {in_bytes}"
    lines = document.line_texts
    total = len(lines)
    count = format_count(total, "line")
    head.append(f", {count})")
    notes = _describe_format(document, file)
    if not total:
        return "\n".join(["".join(head), *notes, "The file is empty."]), "empty"
    start = arguments.start_line or 1
    last = arguments.end_line or total
    if start > total:
        raise ToolError(f"{path} has {count}; there is no line {start}.")
    if last < start:
        raise ToolError(f"end_line {last} is before start_line {start}.")
    shown: list[str] = []
    size = 0
    for number in range(start, min(last, total, start + PAGE_LINES - 1) + 1):
        line = _number_line(number, lines[number - 1])
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
    summary = count if not foot else f"lines {start}-{end} of {total}"
    return "\n".join(["".join(head), *notes, *shown, *foot]), summary


def _describe_format(document: Document, file: OverlayFile) -> list[str]:
    notes = []
    if file.pending:
        notes.append(f"[with the staged edits of {abbreviate_proposal_ids(file.pending)}, which are not on disk yet]")
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


def _number_line(number: int, line: str) -> str:
    if len(line) > LINE_CHARACTERS:
        hidden_characters = len(line) - LINE_CHARACTERS
        return f"{number}\t{line[:LINE_CHARACTERS]}… [{hidden_characters:,} more characters in this line]"
    return f"{number}\t{line}"


class ApplyPatchArguments(ToolArguments):
    """Arguments of `apply_patch`."""

    patch: str = Field(description="The patch: a unified diff as git makes it, or one in *** Begin Patch form.")
    summary: str | None = Field(default=None, description="One line for the user: what the patch does and why.")


class ApplyPatch(Tool):
    """Stages a whole patch or nothing."""

    name = "apply_patch"
    kind = "edit"
    Arguments = ApplyPatchArguments
    description = (
        "Propose changes to one or more files as a patch: a unified diff with a few lines of context, or a patch in "
        "*** Begin Patch form. Nothing is written: it is staged as a proposal that the user approves or denies. "
        "If any part doesn't fit, nothing is staged."
    )

    async def run(self, arguments: ApplyPatchArguments, context: ToolContext) -> ToolOutput:
        draft = context.draft
        with refusals_as_tool_errors():
            patch = await asyncio.to_thread(draft.parse_patch, arguments.patch)
            paths = [context.workspace.normalize_path(path) for path in patch.paths]
        # Ask first, because a refusal quotes the files; these are the paths that the draft uses.
        await ask_before_reading_secret_files(context, *paths)
        return await stage_draft_edit(context, arguments.summary, draft.apply_patch, patch)


class WriteFileArguments(ToolArguments):
    """Arguments of `write_file`."""

    path: str = Field(description="The file, relative to the workspace root; missing folders are made.")
    content: str = Field(description="The whole text of the file.")
    summary: str | None = Field(default=None, description="One line for the user: what this edit does and why.")


class WriteFile(Tool):
    """Stages the content of a whole file."""

    name = "write_file"
    kind = "edit"
    Arguments = WriteFileArguments
    description = (
        "Propose a new file, or new text for all of an existing file. Nothing is written: it is staged as a proposal "
        "that the user approves or denies. To change parts of a file use edit_file."
    )

    async def run(self, arguments: WriteFileArguments, context: ToolContext) -> ToolOutput:
        path = normalize_workspace_path(context.workspace, arguments.path)
        # Ask first, because the line counts in the result reveal something about the old content.
        await ask_before_reading_secret_files(context, path)
        return await stage_draft_edit(context, arguments.summary, context.draft.write, path, arguments.content)


class DeleteFileArguments(ToolArguments):
    """Arguments of `delete_file`."""

    path: str = Field(description="The file, relative to the workspace root.")
    summary: str | None = Field(default=None, description="One line for the user: why the file can go.")


class DeleteFile(Tool):
    """Stages a deletion."""

    name = "delete_file"
    kind = "edit"
    Arguments = DeleteFileArguments
    description = (
        "Propose to delete one file. Nothing is deleted: it is staged as a proposal that the user approves or denies."
    )

    async def run(self, arguments: DeleteFileArguments, context: ToolContext) -> ToolOutput:
        path = normalize_workspace_path(context.workspace, arguments.path)
        # Ask first, because the result counts the lines of the file.
        await ask_before_reading_secret_files(context, path)
        return await stage_draft_edit(context, arguments.summary, context.draft.delete, path)


class RenameFileArguments(ToolArguments):
    """Arguments of `rename_file`."""

    path: str = Field(description="The file as it is called now, relative to the workspace root.")
    new_path: str = Field(description="Its new path, relative to the workspace root; missing folders are made.")
    summary: str | None = Field(default=None, description="One line for the user: why the file moves.")


class RenameFile(Tool):
    """Stages a move."""

    name = "rename_file"
    kind = "edit"
    Arguments = RenameFileArguments
    description = (
        "Propose to move or rename one file. Nothing is moved: it is staged as a proposal that the user approves or "
        "denies. Edits to the same file can follow in the same response, under its new path."
    )

    async def run(self, arguments: RenameFileArguments, context: ToolContext) -> ToolOutput:
        path = normalize_workspace_path(context.workspace, arguments.path)
        new_path = normalize_workspace_path(context.workspace, arguments.new_path)
        # Ask first, because under its new name the pending file might not look like a secret.
        await ask_before_reading_secret_files(context, path)
        return await stage_draft_edit(context, arguments.summary, context.draft.rename, path, new_path)


class SingleTextReplacement(BaseModel):
    """One replacement of `edit_file`: the old text and the new one."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    old: str = Field(
        description="The text to replace, exactly as in the file, without line numbers. Whole lines, and enough of "
        "them to occur only once."
    )
    new: str = Field(description="The text that takes its place; empty to remove it.")
    replace_all: bool = Field(
        default=False, description="Replace every occurrence of exactly this text, except inside longer words."
    )
    inside_words: bool = Field(default=False, description="Take `old` inside longer words too: `id` in `width`.")
    line: int | None = Field(
        default=None, ge=1, description="The line number where `old` begins, if the same text occurs more than once."
    )


class EditFileArguments(ToolArguments):
    """Arguments of `edit_file`."""

    path: str = Field(description="The file, relative to the workspace root.")
    edits: list[SingleTextReplacement] = Field(
        min_length=1, description="The replacements. All refer to the file as it was read, and none may overlap."
    )
    version: str | None = Field(
        default=None, description="The version that read_file gave for the text that you are editing."
    )
    summary: str | None = Field(default=None, description="One line for the user: what this edit does and why.")


class EditFile(Tool):
    """Stages replacements in one file."""

    name = "edit_file"
    kind = "edit"
    Arguments = EditFileArguments
    description = (
        "Propose changes to a file by replacing stretches of its text. Nothing is written: the edit is staged as a "
        "proposal that the user approves or denies. Put all changes to one file in one call. If a stretch is not "
        "found, or is found more than once, nothing is staged and the result says what is there instead."
    )

    async def run(self, arguments: EditFileArguments, context: ToolContext) -> ToolOutput:
        from app.proposals.locate.matching import TextReplacement

        path = normalize_workspace_path(context.workspace, arguments.path)
        # Ask first, because a refusal quotes the file.
        await ask_before_reading_secret_files(context, path)
        replacements = [TextReplacement(**dict(edit)) for edit in arguments.edits]
        version = arguments.version or ""
        return await stage_draft_edit(context, arguments.summary, context.draft.edit, path, replacements, version)
