"""`delete_file`: a file goes away."""

from pydantic import Field

from app.tools.contract import Tool, ToolArguments, ToolContext, ToolOutput
from app.tools.staging import stage
from app.tools.targets import ask_if_secret, locate


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
