"""`apply_patch`: a unified diff or a patch with `*** Begin Patch`, over any number of files."""

import re
from contextlib import suppress

from pydantic import Field

from app.tools.contract import Tool, ToolArguments, ToolContext, ToolError, ToolOutput
from app.tools.staging import stage
from app.tools.targets import ask_if_secret
from app.workspace.paths import UnsafePath

_NAMED = re.compile(
    r"^(?:(?:---|\+\+\+|rename from|rename to|copy from|\*\*\* (?:Update|Delete|Add) File:|\*\*\* Move to:)[ ]"
    r"(?P<path>[^\t\r\n]+)|diff --git (?P<both>[^\r\n]+))",
    re.MULTILINE,
)


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
        if not arguments.patch.strip():
            raise ToolError("The patch is empty.")
        known: dict[str, None] = {}
        for path in named_paths(arguments.patch):
            # Names are read loosely here; the draft refuses the unsafe ones with the patch's own reading.
            with suppress(UnsafePath):
                known[context.workspace.locate(path)] = None
        await ask_if_secret(context, *known)
        return await stage(context, arguments.summary, lambda: context.draft.patch(arguments.patch))


def named_paths(patch: str) -> list[str]:
    """Every path that a header of the patch could mean, with and without git's `a/` and `b/`."""
    found: dict[str, None] = {}
    for match in _NAMED.finditer(patch):
        for word in [match["path"]] if match["path"] else match["both"].split(" "):
            path = word.strip().strip('"')
            if not path or path == "/dev/null":
                continue
            found[path] = None
            if path[:2] in ("a/", "b/") and len(path) > 2:
                found[path[2:]] = None
    return list(found)
