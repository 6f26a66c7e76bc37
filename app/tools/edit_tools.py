"""The tools that edit files: `edit_file`, `write_file`, `apply_patch`, `delete_file` and `rename_file`."""

import asyncio

from pydantic import BaseModel, ConfigDict, Field

from app.tools.base.contract import Tool, ToolArguments, ToolContext, ToolOutput
from app.tools.base.targets import ask_if_secret, refusals_as_tool_errors, resolve_path, stage_edit


class ApplyPatchArguments(ToolArguments):
    """Arguments of `apply_patch`."""

    patch: str = Field(description="The patch: a unified diff as git makes it, or one in *** Begin Patch form.")
    summary: str | None = Field(default=None, description="One line for the user: what the patch does and why.")


class ApplyPatch(Tool):
    """Stages a patch as a whole or not at all."""

    name = "apply_patch"
    kind = "edit"
    Arguments = ApplyPatchArguments
    description = (
        "Propose changes to one or more files as a patch: a unified diff with a few lines of context, or a patch in "
        "*** Begin Patch form. Nothing is written: it is staged as a proposal that the user approves or denies. "
        "If any part doesn't fit, nothing is staged."
    )

    async def run(self, arguments: ApplyPatchArguments, context: ToolContext) -> ToolOutput:
        """Stage the patch."""
        draft = context.draft
        with refusals_as_tool_errors():
            patch = await asyncio.to_thread(draft.parse_patch, arguments.patch)
            paths = [context.workspace.normalize_path(path) for path in patch.paths]
        # A refusal quotes the files, so the question comes first; its names are those that the engine goes by.
        await ask_if_secret(context, *paths)
        return await stage_edit(context, arguments.summary, draft.apply_patch, patch)


class WriteFileArguments(ToolArguments):
    """Arguments of `write_file`."""

    path: str = Field(description="The file, relative to the workspace root; missing folders are made.")
    content: str = Field(description="The whole text of the file.")
    summary: str | None = Field(default=None, description="One line for the user: what this edit does and why.")


class WriteFile(Tool):
    """Stages a whole file."""

    name = "write_file"
    kind = "edit"
    Arguments = WriteFileArguments
    description = (
        "Propose a new file, or new text for all of an existing file. Nothing is written: it is staged as a proposal "
        "that the user approves or denies. To change parts of a file use edit_file."
    )

    async def run(self, arguments: WriteFileArguments, context: ToolContext) -> ToolOutput:
        """Stage the file."""
        path = resolve_path(context.workspace, arguments.path)
        # What the result says of the difference tells what the file holds.
        await ask_if_secret(context, path)
        return await stage_edit(context, arguments.summary, context.draft.write, path, arguments.content)


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
        """Stage the deletion."""
        path = resolve_path(context.workspace, arguments.path)
        # The result counts the lines of the file.
        await ask_if_secret(context, path)
        return await stage_edit(context, arguments.summary, context.draft.delete, path)


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
        """Stage the move."""
        path = resolve_path(context.workspace, arguments.path)
        new_path = resolve_path(context.workspace, arguments.new_path)
        # Under a harmless name the pending file could be read unasked.
        await ask_if_secret(context, path)
        return await stage_edit(context, arguments.summary, context.draft.rename, path, new_path)


class TextReplacementArguments(BaseModel):
    """One replacement."""

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
    edits: list[TextReplacementArguments] = Field(
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
        """Stage the replacements."""
        from app.proposals.locate.matching import Replacement

        path = resolve_path(context.workspace, arguments.path)
        # A refusal quotes the file, so the question comes before the edit.
        await ask_if_secret(context, path)
        replacements = [Replacement(**dict(edit)) for edit in arguments.edits]
        version = arguments.version or ""
        return await stage_edit(context, arguments.summary, context.draft.edit, path, replacements, version)
