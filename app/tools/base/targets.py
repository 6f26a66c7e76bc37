"""Resolve the paths of a call, ask the user about paths that look like secrets, and stage an edit."""

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import islice
from pathlib import PurePosixPath
from typing import ParamSpec

from app.proposals.files.overlay import OverlayFile
from app.proposals.values.models import EditReport
from app.proposals.values.proposal_errors import EditRefused
from app.sandbox.process import run_shielded
from app.text.quantities import join_first
from app.tools.base.contract import PermissionRequest, StepEditDraft, ToolContext, ToolError, ToolOutput
from app.workspace.path_rules import WorkspaceError
from app.workspace.paths import WalkedFileContent, Workspace
from app.workspace.secrets import secret_reason

_P = ParamSpec("_P")
_MAX_LISTED_FILES = 50
"""Maximum number of files that one result lists."""
_MAX_NOTE_CHARACTERS = 4_000
"""Maximum number of characters of notes in one result."""
_AWAITING_APPROVAL = "awaiting approval; do not call tools; hand control back"
"""Instruction in a staging result when the turn may not stage more."""


async def stage_draft_edit(
    context: ToolContext,
    summary: str | None,
    edit: Callable[_P, EditReport],
    *arguments: _P.args,
    **options: _P.kwargs,
) -> ToolOutput:
    """Run one edit of the draft; return its staging result, or raise ToolError if it was refused."""
    with refusals_as_tool_errors():
        # A thread can't be stopped: wait for it, so that the draft does not change after the call has ended.
        report = await run_shielded(asyncio.to_thread(edit, *arguments, **options))
    if summary and (line := " ".join(summary.split())):
        context.draft.summaries.append(line)
    text = make_staged_result_json(context.draft.ensure_proposal_id(), report, context.staging_steps_left)
    return ToolOutput(text, report.summary or _format_stat(report))


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


def make_staged_result_json(proposal_id: str, report: EditReport, steps_left: int = 0) -> str:
    """Return the result as JSON, which models treat as a fact and not as praise.

    Args:
        steps_left: Number of further steps of the turn that may stage edits.
    """
    result: dict[str, object] = {
        "status": "staged",
        "proposal": proposal_id,
        "applied": False,
        "next": _next_step_text(steps_left) if steps_left else _AWAITING_APPROVAL,
        "files": [
            {"path": file.path, "op": str(file.op), "added": file.added, "removed": file.removed}
            for file in report.files[:_MAX_LISTED_FILES]
        ],
    }
    if len(report.files) > _MAX_LISTED_FILES:
        result["more_files"] = len(report.files) - _MAX_LISTED_FILES
    if notes := report.text.strip():
        result["notes"] = notes if len(notes) <= _MAX_NOTE_CHARACTERS else f"{notes[:_MAX_NOTE_CHARACTERS]}…"
    return json.dumps(result, ensure_ascii=False)


def _next_step_text(steps: int) -> str:
    more = "one more step" if steps == 1 else f"{steps} more steps"
    return (
        f"awaiting approval; go on if the task needs it: {more} of this turn may stage edits; then hand control back"
    )


def _format_stat(report: EditReport) -> str:
    return join_first([f"{file.path} +{file.added} -{file.removed}" for file in report.files])


_MAX_COMPARED_FILES = 50_000
"""Maximum number of files of the workspace that are searched for a similar name."""


def normalize_workspace_path(workspace: Workspace, path: str) -> str:
    """Return the normalized workspace path; raise ToolError for a path that the model must not access."""
    with os_errors_as_tool_errors(path):
        return workspace.normalize_path(path)


def resolve_real_path(workspace: Workspace, path: str | None) -> str:
    """Return a workspace path with links resolved, as the start of a walk; the root for an empty path."""
    with os_errors_as_tool_errors(path or "."):
        return workspace.resolve(workspace.normalize_path(path or "."))


@contextmanager
def os_errors_as_tool_errors(path: str) -> Iterator[None]:
    """Context manager that turns file system errors on `path` into ToolErrors."""
    try:
        yield
    except WorkspaceError as error:
        raise ToolError(f"Not done: {error}.") from error
    except FileNotFoundError as error:
        raise ToolError(f"{path} does not exist.") from error
    except IsADirectoryError as error:
        raise ToolError(f"{path} is a folder. Use list_files to see what is in it.") from error
    except OSError as error:
        raise ToolError(f"{path} can't be read: {error.strerror or error}.") from error


def find_secret_reason(workspace: Workspace, path: str, content: bytes | None = None) -> str:
    """Return why a file looks like a secret by any of its names, including link targets; empty if it doesn't."""
    with os_errors_as_tool_errors(path):
        real = workspace.resolve(path)
        reason = secret_reason(path, content) or (secret_reason(real, content) if real != path else "")
        if reason or not (twin := workspace.find_secret_hard_link(real)):
            return reason
    reason = secret_reason(twin, content)
    return f"it is {twin} by another name, and {reason}" if reason else ""


def walked_file_looks_secret(path: str, file: WalkedFileContent) -> bool:
    """Return whether a file from a walk looks like a secret by any of its names; its path must have no links."""
    if secret_reason(path, file.content):
        return True
    return bool(file.secret_twin and secret_reason(file.secret_twin, file.content))


def pending_secret_reason(file: OverlayFile) -> str:
    """Return why a pending file looks like a secret that the model did not write; empty if it doesn't."""
    for name in reversed(file.paths_by_others):
        if reason := secret_reason(name, file.content):
            return reason if name == file.paths_by_others[-1] else f"it is {name} under a new name, and {reason}"
    return ""


async def ask_before_reading_secret_files(context: ToolContext, *paths: str) -> None:
    """Ask the user before the model gets any content of a file that looks like a secret, on disk or pending.

    Content that this session's model staged itself needs no permission.

    Raises:
        ToolCallNotPermitted: The user denied permission, or no user could be asked.
        ToolError: The model must not access a path.
    """
    for path, reason in await asyncio.to_thread(find_secret_files, context.workspace, context.draft, paths):
        folder = PurePosixPath(path).parent.as_posix()
        answer = await context.confirm(
            PermissionRequest("secret", f"Let the model see {path}? It looks like a secret: {reason}.", path, folder)
        )
        if not answer.allowed:
            raise answer.to_rejection(
                f"The user did not let you see {path}: it looks like a secret.",
                f"{path} looks like a secret and was not read",
            )


def find_secret_files(workspace: Workspace, draft: StepEditDraft, paths: Sequence[str]) -> list[tuple[str, str]]:
    """Return the files that look like secrets, on disk or pending, each with the reason. Raises `ToolError`."""
    reasons = ((path, _disk_secret_reason(workspace, path) or _pending_secret_reason(draft, path)) for path in paths)
    return [(path, reason) for path, reason in reasons if reason]


def _disk_secret_reason(workspace: Workspace, path: str) -> str:
    content: bytes | None = None
    try:
        content = workspace.read(path)
    except (FileNotFoundError, IsADirectoryError):
        return ""
    except (OSError, WorkspaceError):
        # The tool reports the error when it uses the path; the name alone can still look like a secret.
        pass
    return find_secret_reason(workspace, path, content)


def _pending_secret_reason(draft: StepEditDraft, path: str) -> str:
    try:
        return pending_secret_reason(draft.read(path))
    except (OSError, WorkspaceError):
        # If the draft can't read the file, no tool gets its content.
        return ""


def suggest_similar_files(workspace: Workspace, path: str, added: set[str]) -> list[str]:
    """Return up to five files that the model may have meant instead of a missing one."""
    wanted = PurePosixPath(path).name.casefold()
    by_name: dict[str, list[str]] = {}
    for file_path in [*sorted(added), *islice(workspace.walk_files(), _MAX_COMPARED_FILES)]:
        by_name.setdefault(PurePosixPath(file_path).name.casefold(), []).append(file_path)
    names = get_close_matches(wanted, by_name, 3, 0.75)
    return [file_path for name in names for file_path in by_name[name]][:5]
