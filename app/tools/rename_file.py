"""`rename_file`: a file moves."""

from pydantic import Field

from app.tools.contract import Tool, ToolArguments, ToolContext, ToolOutput
from app.tools.staging import stage
from app.tools.targets import ask_if_secret, locate


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
