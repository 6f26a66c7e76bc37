"""`edit_file`: replace stretches of a file's text."""

from pydantic import BaseModel, ConfigDict, Field

from app.tools.contract import Tool, ToolArguments, ToolContext, ToolOutput
from app.tools.staging import stage
from app.tools.targets import ask_if_secret, locate


class EditArguments(BaseModel):
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
    edits: list[EditArguments] = Field(
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

        path = locate(context.workspace, arguments.path)
        # A refusal quotes the file, so the question comes before the edit.
        await ask_if_secret(context, path)
        replacements = [Replacement(**dict(edit)) for edit in arguments.edits]
        version = arguments.version or ""
        return await stage(context, arguments.summary, lambda: context.draft.edit(path, replacements, version))
