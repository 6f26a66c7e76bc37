"""Plan an apply: the content of each path before and after, in an order that always works.

A rename is a file that appears and one that disappears: chains, cycles and changes of case need no special treatment.
A file in the way of a new one (a file at the path of a folder, files below a path that becomes a file, a name that
differs by case only) is removed first; every other removal comes last.
"""

import posixpath
import secrets
import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Literal

from msgspec import Struct

from app.proposals.files.filesystem import Kind, PosixFilesystem
from app.proposals.files.overlay import is_same_version
from app.proposals.values.models import FileOperation, FileVersion, Proposal
from app.proposals.values.pending_paths import parent_folders
from app.proposals.values.proposal_store import JournalEntry, JournalRecord

Action = Literal["apply", "undo", "redo"]

_TEMP_PREFIX = ".signoff-"
_MAX_NAME_BYTES = 240
"""Maximum bytes: file systems allow 255, and a number may be appended."""


class PathTransition(Struct, frozen=True):
    """The versions of the file at one path before and after a write; None for no file."""

    path: str
    before: FileVersion | None
    after: FileVersion | None
    moved_to: str = ""
    """New path of the file, if a rename moves it away from `path`."""


def fold_case_and_unicode_form(path: str) -> str:
    """Return a form that is equal for names that some file systems do not distinguish."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", path).casefold())


def plan_journal_record(
    filesystem: PosixFilesystem,
    action: Action,
    proposal: Proposal,
    transitions: Sequence[PathTransition],
    dropped_folders: Iterable[str] | None = None,
    folder_modes: Mapping[str, int] = MappingProxyType({}),
) -> JournalRecord:
    """Return the journal record that carries out these path transitions; it is not stored yet.

    Args:
        proposal: The proposal once the record is done.
        transitions: One for each path at most; those without effect are left out.
        dropped_folders: Folders to remove if they end up empty; None for all those that lose a file, as git does.
        folder_modes: Permission bits that folders had when they were removed, in case they come back.
    """
    steps = [step for step in transitions if not is_same_version(step.before, step.after)]
    written = {step.path for step in steps if step.after}
    above_written = {folder for path in written for folder in parent_folders(path)}
    folded_written = {fold_case_and_unicode_form(path) for path in written}
    early: list[PathTransition] = []
    late: list[PathTransition] = []
    for step in steps:
        if step.after is None:
            in_the_way = (
                step.path in above_written
                or fold_case_and_unicode_form(step.path) in folded_written
                or any(folder in written for folder in parent_folders(step.path))
            )
            (early if in_the_way else late).append(step)
    ordered = [
        *early,
        *(step for step in steps if step.before and step.after),
        *(step for step in steps if not step.before),
        *late,
    ]
    if dropped_folders is None:
        dropped_folders = {folder for step in steps if not step.after for folder in parent_folders(step.path)}
    # Many files are in few folders: look up each folder once.
    kind = cache(filesystem.kind)
    missing = {folder for folder in above_written if kind(folder) != "folder"}
    dropped_nodes = {folder: filesystem.stat_node(folder) for folder in dropped_folders}
    token = secrets.token_hex(6)
    return JournalRecord(
        proposal=proposal.id,
        action=action,
        time=time.time(),
        entries=tuple(_make_entry(kind, step, written, f"{token}-{n}") for n, step in enumerate(ordered)),
        made_folders=tuple(sorted(missing, key=lambda folder: folder.count("/"))),
        dropped_folders=tuple(sorted(dropped_nodes, key=lambda folder: -folder.count("/"))),
        folder_modes={**folder_modes, **{folder: node.mode for folder, node in dropped_nodes.items() if node}},
        prepared=False,
        after_proposal=proposal.model_dump_json(),
    )


def conflict_copy_name(record: JournalRecord, entry: JournalEntry) -> str:
    """Return the name under which another program's file is kept beside its path, which is taken."""
    token, _, number = entry.temp.rpartition("/")[2].removeprefix(_TEMP_PREFIX).removesuffix(".tmp").partition("-")
    suffix = f".kept-{record.proposal}-{token[:4]}{number}"
    name = entry.path.rpartition("/")[2].encode("utf-8", "surrogateescape")[: _MAX_NAME_BYTES - len(suffix)]
    return name.decode("utf-8", "ignore") + suffix


def paths_present_afterwards(record: JournalRecord) -> set[str]:
    """Return the paths that hold a file once the record is done."""
    return {entry.path for entry in record.entries if entry.after is not None}


def effective_records(records: Sequence[JournalRecord]) -> list[JournalRecord]:
    """Return the records of a proposal, newest first, whose changes are on disk.

    An undo reverts everything before it; a redo, which follows an undo, writes all of it again in one record.
    """
    effective: list[JournalRecord] = []
    for record in records:
        if record.state != "done":
            continue
        if record.action == "undo":
            break
        effective.append(record)
    return effective


def records_reverted_by_last_undo(records: Sequence[JournalRecord]) -> list[JournalRecord]:
    """Return the records of a proposal, newest first, that the last undo reverted."""
    done = [record for record in records if record.state == "done"]
    return effective_records(done[1:]) if done and done[0].action == "undo" else []


def folder_modes_from_records(records: Sequence[JournalRecord]) -> dict[str, int]:
    """Return the last permission bits of the folders that these records (newest first) made or removed."""
    done = [record.folder_modes for record in records if record.state == "done"]
    return {folder: mode for modes in reversed(done) for folder, mode in modes.items()}


def _make_entry(kind: Callable[[str], Kind], step: PathTransition, written: set[str], token: str) -> JournalEntry:
    return JournalEntry(
        path=step.path,
        op=_operation(step),
        new_path=step.moved_to,
        before=step.before.sha256 if step.before else None,
        after=step.after.sha256 if step.after else None,
        before_mode=step.before.mode if step.before else None,
        after_mode=step.after.mode if step.after else None,
        temp=posixpath.join(_temp_folder(kind, step, written), f"{_TEMP_PREFIX}{token}.tmp"),
    )


def _temp_folder(kind: Callable[[str], Kind], step: PathTransition, written: set[str]) -> str:
    """Return the folder for the temporary file: that of the path, or the nearest above that is and stays one."""
    above = parent_folders(step.path)
    for index, folder in enumerate(above):
        if folder in written or kind(folder) != "folder":
            return above[index - 1] if index else ""
    return above[-1] if above else ""


def _operation(step: PathTransition) -> FileOperation:
    if step.before is None:
        return FileOperation.CREATE
    if step.after is None:
        return FileOperation.RENAME if step.moved_to else FileOperation.DELETE
    return FileOperation.MODE if step.before.sha256 == step.after.sha256 else FileOperation.EDIT
