"""`write_file`, `delete_file` and `rename_file`: a file comes, goes or moves as a whole."""

from pydantic import Field

from app.tools.contract import Tool, ToolArguments, ToolContext, ToolOutput
from app.tools.staging import stage
from app.tools.targets import ask_if_secret, locate


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
        path = locate(context.workspace, arguments.path)
        # What the result says of the difference tells what the file holds.
        await ask_if_secret(context, path)
        return await stage(context, arguments.summary, lambda: context.draft.write(path, arguments.content))


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
        path = locate(context.workspace, arguments.path)
        # The result counts the lines of the file.
        await ask_if_secret(context, path)
        return await stage(context, arguments.summary, lambda: context.draft.delete(path))


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
        path = locate(context.workspace, arguments.path)
        new_path = locate(context.workspace, arguments.new_path)
        # Under a harmless name the pending file could be read unasked.
        await ask_if_secret(context, path)
        return await stage(context, arguments.summary, lambda: context.draft.rename(path, new_path))
