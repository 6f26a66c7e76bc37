"""A patch over any number of files as edits of a draft."""

import errno
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from app.proposals.disk.filesystem import default_mode
from app.proposals.facts import FileStat
from app.proposals.models import Match, Op
from app.proposals.overlay import OverlayFile, parents
from app.proposals.patch.parts import FilePatch
from app.proposals.patch.place import apply_file_patch
from app.proposals.patch.text import scan_patch
from app.proposals.refusals import AlreadyApplied, EditRefused, MalformedPatch, NotEditable
from app.proposals.reports import EditReport, without_binary
from app.proposals.text.document import MAX_BYTES, Document

_SHOWN_FILES = 20
"""Files that a report spells out."""


class Patchable(Protocol):
    """What a patch is made in: a draft."""

    def read(self, path: str) -> OverlayFile:
        """The file as it is now; no content if there is none."""
        ...

    def look(self, path: str, limit: int | None = None) -> tuple[bytes, int] | None:
        """The bytes and permission bits of a file; None if there is none.

        Raises:
            OSError: the disk would not give it; EFBIG, before it is read, if it has more than `limit` bytes.
        """
        ...

    def foresee(self, paths: Collection[str]) -> None:
        """Read what is pending at these paths all at once."""
        ...

    def delete(self, path: str, matches: Sequence[Match] = ()) -> EditReport:
        """Delete a file; `matches` say how its part was read."""
        ...

    def rename(self, path: str, new_path: str) -> EditReport:
        """Move a file to a path where there is none."""
        ...

    def put_bytes(self, path: str, data: bytes, matches: Sequence[Match], mode: int | None = None) -> EditReport:
        """Set the content of a file, new or not."""
        ...


def read_patch(draft: Patchable, text: str, folder: str = "", *, whole: bool = True) -> Sequence[FilePatch]:
    """The parts of a patch with paths from the workspace's root, in the order in which they are made.

    Args:
        draft: What the patch is for.
        text: The patch.
        folder: Where the workspace lies in its repository, if not at the top: paths may begin with it.
        whole: The text is not cut off for certain.

    Raises:
        EditRefused: it is no patch that can be taken.
        UnsafePath: a part names a path that no tool may touch.
    """
    return _making_room_first(_inside(scan_patch(text, whole=whole), folder, draft))


def apply_patch(draft: Patchable, parts: Sequence[FilePatch]) -> EditReport:
    """Make every part of a patch in the draft, in order; on an error the draft is left half-edited, for the caller.

    Files that change names with each other (each a rename onto the other's path) are taken as git means them: all
    names are those of before. A file may become a folder and a folder a file.

    Args:
        draft: What to edit.
        parts: The patch as `read_patch` gives it.

    Raises:
        EditRefused: a part can't be made.
        UnsafePath: a part names a path that no tool may touch.
    """
    left_out = [part for part in parts if part.left_out]
    parts = [part for part in parts if not part.left_out]
    draft.foresee([path for part in parts for path in (part.path, part.old_path) if path])
    deferred: list[tuple[str, bytes, Sequence[Match], int]] = []
    reports: list[EditReport] = []
    leaves = {part.old_path: index for index, part in enumerate(parts) if part.op is Op.RENAME}
    for index, part in enumerate(parts):
        if part.op is Op.RENAME and leaves.get(part.path, -1) > index:
            data, mode = _content(draft, part.old_path)
            after, found = apply_file_patch(Document(data), part)
            draft.delete(part.old_path)
            deferred.append((part.path, after, found, _mode(part, mode)))
        else:
            reports += _apply_part(draft, part)
    for path, after, matches, mode in deferred:
        reports.append(draft.put_bytes(path, after, matches, mode))
    return _joined(reports, left_out)


def _inside(parts: Sequence[FilePatch], folder: str, draft: Patchable) -> Sequence[FilePatch]:
    """The parts with paths from the workspace's root, where all of them are from the top of its repository."""
    prefix = f"{folder}/"
    paths = [path for part in parts for path in (part.path, part.old_path) if path]
    if not folder or not all(path.startswith(prefix) for path in paths):
        return parts
    if any(draft.look(path) is not None for path in paths):
        return parts
    return [
        replace(part, path=part.path.removeprefix(prefix), old_path=part.old_path.removeprefix(prefix))
        for part in parts
    ]


def _making_room_first(parts: Sequence[FilePatch]) -> Sequence[FilePatch]:
    """The parts in an order in which a file may become a folder, and a folder a file.

    Of files that are named once, deletions come first, then renames that take a file out of the way of others.
    """
    named = Counter(path for part in parts for path in (part.path, part.old_path) if path)
    folders = {folder for path in named for folder in parents(path)}

    def step(part: FilePatch) -> int:
        if part.op is Op.DELETE and named[part.path] == 1:
            return 0
        in_the_way = part.old_path in folders or any(folder in named for folder in parents(part.old_path))
        return 1 if part.op is Op.RENAME and named[part.old_path] == 1 and in_the_way else 2

    return sorted(parts, key=step)


def _apply_part(draft: Patchable, part: FilePatch) -> Iterable[EditReport]:
    match part.op:
        case Op.CREATE:
            return [_create(draft, part)]
        case Op.DELETE:
            data, _ = _content(draft, part.path)
            _, matches = apply_file_patch(Document(data), part)
            return [draft.delete(part.path, matches)]
        case Op.RENAME:
            return _rename(draft, part)
        case _:
            if part.inserts_only and draft.read(part.path).content is None:
                return [_create(draft, part)]
            data, mode = _content(draft, part.path, MAX_BYTES if part.hunks else None)
            after, matches = apply_file_patch(Document(data), part)
            wanted = _mode(part, mode)
            if after == data and wanted == mode:
                raise MalformedPatch(f"The part for {part.path} changes nothing.")
            return [draft.put_bytes(part.path, after, matches, wanted)]


def _create(draft: Patchable, part: FilePatch) -> EditReport:
    if draft.read(part.path).content is not None:
        raise AlreadyApplied(
            f"The patch creates {part.path}, but the file exists.", "Make a patch against what is there."
        )
    as_new = FilePatch(part.path, Op.CREATE, part.hunks, new_mode=part.new_mode)
    after, matches = apply_file_patch(Document(b""), as_new)
    return draft.put_bytes(part.path, after, matches, _mode(part, default_mode()))


def _rename(draft: Patchable, part: FilePatch) -> Iterable[EditReport]:
    data, mode = _content(draft, part.old_path)
    after, matches = apply_file_patch(Document(data), part)
    yield draft.rename(part.old_path, part.path)
    wanted = _mode(part, mode)
    if after != data or wanted != mode:
        yield draft.put_bytes(part.path, after, matches, wanted)


def _content(draft: Patchable, path: str, limit: int | None = None) -> tuple[bytes, int]:
    """The bytes and permission bits of a file, of at most `limit` bytes, that the patch changes."""
    try:
        found = draft.look(path, limit)
    except OSError as error:
        if limit is not None and error.errno == errno.EFBIG:
            raise NotEditable(f"{path} is too large: files over {limit:,} bytes are not edited.") from error
        raise
    if found is None:
        raise EditRefused(f"The patch changes {path}, but there is no such file. Is it made for another folder?")
    return found


def _mode(part: FilePatch, mode: int) -> int:
    """The permission bits after the patch; git knows of them only whether the file can be run."""
    if part.new_mode is None:
        return mode
    runnable = (mode & 0o444) >> 2
    return mode | runnable if part.new_mode & 0o100 else mode & ~0o111


def _joined(reports: Sequence[EditReport], left_out: Sequence[FilePatch]) -> EditReport:
    """One report of all; a file that came up more than once is counted once."""
    stats: dict[str, FileStat] = {}
    for stat in (stat for report in reports for stat in report.files):
        if earlier := stats.get(stat.path):
            stat = FileStat(
                path=stat.path,
                op=earlier.op if earlier.op != Op.EDIT else stat.op,
                added=earlier.added + stat.added,
                removed=earlier.removed + stat.removed,
            )
        stats[stat.path] = stat
    texts = [f"{part.path} was left out: {part.left_out}" for part in left_out[:_SHOWN_FILES]]
    if len(left_out) > _SHOWN_FILES:
        texts.append(f"and {len(left_out) - _SHOWN_FILES} more were left out")
    texts += [report.text for report in reports[:_SHOWN_FILES]]
    if len(reports) > _SHOWN_FILES:
        texts.append(f"and {len(reports) - _SHOWN_FILES} more")
    added, removed = (sum(getattr(stat, side) for stat in stats.values()) for side in ("added", "removed"))
    name = next(iter(stats)) if len(stats) == 1 else f"{len(stats)} files"
    without = tuple(part.path for part in left_out)
    return EditReport(
        tuple(stats.values()), "\n".join(texts), f"{name} +{added} -{removed}{without_binary(without)}", without
    )
