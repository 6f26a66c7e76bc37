"""Check everything that can fail before the first byte is written."""

from collections.abc import Sequence

from app.proposals.files.filesystem import Filesystem, ReadableDisk, files_below
from app.proposals.journal.apply import describe_os_error
from app.proposals.journal.journal import Transition, fold_name
from app.proposals.overlay.overlay import Contents, parent_folders
from app.proposals.values.models import FileIdentity
from app.proposals.values.proposal_errors import ApplyFailed
from app.proposals.values.proposal_store import JournalRecord
from app.workspace.path_rules import WorkspaceError
from app.workspace.paths import Workspace

_SPARE_BYTES = 1024 * 1024
"""Room for folders and the file system's own tables."""


def check_record(
    workspace: Workspace,
    filesystem: Filesystem,
    contents: Contents,
    record: JournalRecord,
    transitions: Sequence[Transition],
) -> JournalRecord:
    """Check a planned record against the disk: paths, contents, the resulting tree, permissions and space.

    Returns:
        The record with the identity of each file that it is about.

    Raises:
        ApplyFailed: with the first thing that stands against it; nothing was written.
    """
    try:
        found = {step.path: _check_path(workspace, filesystem, step) for step in transitions}
        _check_end_tree(filesystem, transitions)
        for folder in sorted({entry.temp.rpartition("/")[0] for entry in record.entries}):
            if not filesystem.writable(folder):
                where = f"the folder {folder}" if folder else "the workspace's folder"
                raise _Unfit(f"{where} can't be written; change its permissions first")
        need = sum(len(contents.get(step.after)) for step in transitions if step.after) + _SPARE_BYTES
        if need > (free := filesystem.free_bytes()):
            raise _Unfit(f"the disk is full: {need:,} bytes are needed, {free:,} are free; make room first")
    except _Unfit as error:
        raise ApplyFailed(f"{record.proposal} was not applied, nothing has changed: {error}.") from error
    except (OSError, WorkspaceError) as error:
        raise ApplyFailed(
            f"{record.proposal} was not applied, nothing has changed: {describe_os_error(error)}."
        ) from error
    entries = tuple(entry.model_copy(update={"found": found.get(entry.path)}) for entry in record.entries)
    return record.model_copy(update={"entries": entries})


class _Unfit(Exception):
    """What stands against an apply, as a clause."""


def _check_path(workspace: Workspace, filesystem: Filesystem, step: Transition) -> FileIdentity | None:
    """Which file it is, None for no file; raises _Unfit."""
    # A link is itself what is written; only the way to it must be free of links.
    way = step.path.rpartition("/")[0] or "." if _is_link(step) else step.path
    if workspace.trace(way) != (way, way):
        raise _Unfit(f"{step.path} is reached through a link now; look at it again")
    file = filesystem.read(step.path)
    found = file.version.sha256 if file else None
    expected = step.before.sha256 if step.before else None
    if found != expected:
        raise _Unfit(f"{step.path} changed on disk at this moment; look at it again")
    return file.identity if file else None


def _is_link(step: Transition) -> bool:
    return any(version is not None and version.is_link for version in (step.before, step.after))


def _check_end_tree(filesystem: Filesystem, transitions: Sequence[Transition]) -> None:
    """The files that there will be must not be each other's folders, nor differ by case only."""
    gone = {step.path for step in transitions if step.after is None}
    puts = {step.path for step in transitions if step.after}
    names: dict[str, str] = {}
    listings: Listings = {}
    for path in sorted(puts):
        other = names.setdefault(fold_name(path), path)
        if other != path:
            raise _Unfit(f"{path} and {other} differ by case only; some disks can't hold both")
    for step in transitions:
        if step.after is None or step.before is not None:
            continue
        for folder in parent_folders(step.path):
            if folder in puts:
                raise _Unfit(f"{folder} can't be a file and the folder of {step.path}")
            if filesystem.kind(folder) in ("file", "link", "other") and folder not in gone:
                raise _Unfit(f"{folder} is a file, so {step.path} can't be made; rename one of them")
        if filesystem.kind(step.path) == "folder":
            below = files_below(filesystem, step.path)
            left = [path for path in below if path not in gone]
            if left:
                raise _Unfit(f"{step.path} is a folder with other files in it ({left[0]}); move them first")
            if not below:
                raise _Unfit(f"{step.path} is a folder; remove it first")
        clash = find_case_clash(filesystem, step.path, listings)
        if clash and clash not in gone:
            raise _Unfit(f"{step.path} and {clash} differ by case only; some disks can't hold both")


Listings = dict[str, dict[str, list[str]]]
"""The names in folders, by their folded form: read once for many paths."""


def find_case_clash(filesystem: ReadableDisk, path: str, listings: Listings) -> str:
    """Return the path on disk that differs from a new one only by case or Unicode form; empty if there is none.

    `listings` is filled with what was read, for the next path.
    """
    there = ""
    parts = path.split("/")
    for at, name in enumerate(parts):
        if there not in listings:
            listings[there] = {}
            for entry in filesystem.names(there):
                listings[there].setdefault(fold_name(entry), []).append(entry)
        alike = listings[there].get(fold_name(name))
        if not alike:
            return "" if there == "/".join(parts[:at]) else "/".join([there, *parts[at:]])
        found = name if name in alike else alike[0]
        there = f"{there}/{found}" if there else found
    return "" if there == path else there
