"""Shared by the edit tools: edit the draft on a thread, and tell the model that the edit is only staged."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from app.proposals.values.decision_results import EditReport
from app.proposals.values.proposal_errors import EditRefused
from app.tools.base.contract import ToolContext, ToolError, ToolOutput
from app.workspace.paths import WorkspaceError

TOLD_FILES = 50
"""Files that one result lists."""
TOLD_NOTES = 4_000
"""Characters of notes in one result."""
NEXT = "awaiting approval; do not call tools; hand control back"
"""What a staging result tells the model to do once its turn may stage no more."""


async def stage(context: ToolContext, summary: str | None, edit: Callable[[], EditReport]) -> ToolOutput:
    """Run one edit of the draft.

    Args:
        context: The call's context.
        summary: The model's words for the edit.
        edit: Calls one method of the draft.

    Raises:
        ToolError: The edit was refused; nothing was staged by this call.
    """
    work = asyncio.ensure_future(asyncio.to_thread(edit))
    with refusals_as_tool_errors():
        try:
            report = await asyncio.shield(work)
        except asyncio.CancelledError:
            # A thread can't be stopped: wait, so that nothing reaches the draft after the call has ended.
            await asyncio.wait({work})
            if not work.cancelled():
                work.exception()
            raise
    if summary and (line := " ".join(summary.split())):
        context.draft.summaries.append(line)
    text = staged_result(context.draft.proposal_id, report, context.staging_steps_left)
    return ToolOutput(text, report.summary or _stat(report))


@contextmanager
def refusals_as_tool_errors() -> Iterator[None]:
    """Context manager that turns refused edits into ToolErrors."""
    try:
        yield
    except EditRefused as error:
        raise ToolError(str(error)) from error
    except WorkspaceError as error:
        raise ToolError(f"Nothing was staged: {error}.") from error
    except OSError as error:
        raise ToolError(f"Nothing was staged: {error.strerror or error}.") from error


def staged_result(proposal_id: str, report: EditReport, steps_left: int = 0) -> str:
    """Return the result as JSON, which models read as a fact and not as praise.

    Args:
        proposal_id: What the edit is part of.
        report: What it did.
        steps_left: How many more steps of the turn may stage edits.
    """
    result: dict[str, object] = {
        "status": "staged",
        "proposal": proposal_id,
        "applied": False,
        "next": _chain(steps_left) if steps_left else NEXT,
        "files": [
            {"path": file.path, "op": str(file.op), "added": file.added, "removed": file.removed}
            for file in report.files[:TOLD_FILES]
        ],
    }
    if len(report.files) > TOLD_FILES:
        result["more_files"] = len(report.files) - TOLD_FILES
    if notes := report.text.strip():
        result["notes"] = notes if len(notes) <= TOLD_NOTES else f"{notes[:TOLD_NOTES]}…"
    return json.dumps(result, ensure_ascii=False)


def _chain(steps: int) -> str:
    more = "one more step" if steps == 1 else f"{steps} more steps"
    return (
        f"awaiting approval; go on if the task needs it: {more} of this turn may stage edits; then hand control back"
    )


def _stat(report: EditReport) -> str:
    first = ", ".join(f"{file.path} +{file.added} -{file.removed}" for file in report.files[:3])
    return first if len(report.files) <= 3 else f"{first} and {len(report.files) - 3} more"
