"""`apply_patch`: a unified diff or a patch with `*** Begin Patch`, over any number of files.

Kept apart: the other edits name their file in the call, here the patch does.
"""

import asyncio

from pydantic import Field

from app.tools.contract import Tool, ToolArguments, ToolContext, ToolOutput
from app.tools.staging import refusals_told, stage
from app.tools.targets import ask_if_secret


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
        with refusals_told():
            patch = await asyncio.to_thread(draft.read_patch, arguments.patch)
            paths = [context.workspace.locate(path) for path in patch.paths]
        # A refusal quotes the files, so the question comes first; its names are those that the engine goes by.
        await ask_if_secret(context, *paths)
        return await stage(context, arguments.summary, lambda: draft.patch(patch))
