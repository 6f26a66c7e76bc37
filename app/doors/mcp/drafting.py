"""Makes a draft from the arguments of a call, with the engine and the refusals of signoff's own edit tools."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from app.doors.mcp.arguments import FileArguments
from app.doors.mcp.catalogue import MOST_FILES
from app.proposals.draft import Draft
from app.proposals.locate.matching import Replacement
from app.proposals.pending_paths import named
from app.proposals.refusals import EditRefused
from app.proposals.reports import EditReport
from app.proposals.text.diff import diff
from app.proposals.text.document import Document
from app.proposals.text.hunks import lines_of
from app.runtime.workspace import Runtime
from app.text.plural import plural
from app.tools.contract import ToolError
from app.tools.staging import refusals_told
from app.tools.targets import locate, secrets_among
from app.workspace.git import folder_in_repository

_PENDING_LINES = 40
"""Lines that one refusal quotes of what is pending."""


def draft_files(runtime: Runtime, draft: Draft, files: Sequence[FileArguments], own: Collection[str]) -> str:
    """Put changes of files into an empty draft; what the agent should know of it.

    Args:
        runtime: The open workspace.
        draft: An empty one.
        files: The changes.
        own: Proposals of the same agent.

    Raises:
        ToolError: one of them can't be made; the draft is to be thrown away.
    """
    named_before: set[str] = set()
    notes: list[str] = []
    for file in files:
        path = locate(runtime.workspace, file.path)
        if path in named_before:
            raise ToolError(
                f"Nothing was staged: {path} is named twice. Put all that is to become of it in one entry."
            )
        named_before.add(path)
        with _explained(runtime, draft, path):
            notes += [report.text for report in _change(runtime, draft, path, file, own) if report.text]
    return "\n".join(notes)


def draft_patch(runtime: Runtime, draft: Draft, text: str) -> str:
    """Put a patch into an empty draft, as a whole; what the agent should know of it.

    Raises:
        ToolError: it doesn't fit; the draft is to be thrown away.
    """
    with refusals_told():
        # An agent makes a patch of the repository that it sees, of which the workspace may be a folder.
        patch = draft.read_patch(text, folder_in_repository(runtime.workspace.root))
        if len(patch.paths) > MOST_FILES:
            raise ToolError(
                f"Nothing was staged: the patch names more than {MOST_FILES:,} files. Propose fewer at once."
            )
        paths = [runtime.workspace.locate(path) for path in patch.paths]
    with _explained(runtime, draft, *paths):
        return draft.patch(patch).text


def _change(
    runtime: Runtime, draft: Draft, path: str, file: FileArguments, own: Collection[str]
) -> Iterator[EditReport]:
    if file.delete:
        yield draft.delete(path)
        return
    if file.content is not None:
        pending = [each for each in draft.read(path).pending if each not in own]
        if pending:
            raise ToolError(
                f"Nothing was staged: {path} has pending changes of {named(pending)}, which the whole text would "
                "take back. Send `edits`, which build on them, or end your turn until the user has decided on them."
            )
    if file.new_path is not None:
        target = locate(runtime.workspace, file.new_path)
        yield draft.rename(path, target)
        path = target
    if file.edits is not None:
        yield draft.edit(path, [Replacement(**dict(edit)) for edit in file.edits])
    elif file.content is not None:
        yield draft.write(path, file.content)


@contextmanager
def _explained(runtime: Runtime, draft: Draft, *paths: str) -> Iterator[None]:
    """Turn a refusal into a ToolError that quotes no secret, and says what of the text is not on disk."""
    try:
        with refusals_told():
            yield
    except ToolError as error:
        if not isinstance(error.__cause__, EditRefused):
            raise
        fresh = runtime.service.draft("")
        if secrets := secrets_among(runtime.workspace, fresh, paths):
            path, reason = secrets[0]
            raise ToolError(
                f"Nothing was staged: the change does not fit {path}. It looks like a secret ({reason}), so nothing "
                "of it is quoted here. Read it again by your own means, or give its whole text as `content`."
            ) from error
        with refusals_told():
            notes = [note for path in paths if (note := _pending(runtime, fresh, path))]
        which = f" {paths[0]}:" if len(paths) == 1 else ""
        raise ToolError("\n".join([f"Nothing was staged.{which} {error}", *notes])) from error


def _pending(runtime: Runtime, draft: Draft, path: str) -> str:
    """Quote the pending changes of a file, which an agent that reads the disk does not see."""
    file = draft.read(path)
    if not file.pending:
        return ""
    note = f"New edits of {path} build on the pending changes of {named(file.pending)}, which are not on disk yet."
    if file.content is None:
        return f"{note} With them it is gone."
    try:
        disk = runtime.workspace.read(path)
    except FileNotFoundError:
        disk = b""
    after = Document(file.content)
    changes = diff(lines_of(disk), lines_of(file.content))
    numbers = [number for change in changes for number in range(change.new_start, change.new_end)]
    if after.binary or not numbers:
        return note
    lines = [f"{number + 1:>6}|{after.texts[number]}" for number in numbers[:_PENDING_LINES]]
    if len(numbers) > _PENDING_LINES:
        lines.append(f"and {plural(len(numbers) - _PENDING_LINES, 'more line')}")
    return "\n".join([f"{note} With them it reads:", *lines])
