"""`write_file`: a new file, or all of an existing one."""

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
