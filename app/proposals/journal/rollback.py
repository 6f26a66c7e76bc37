"""Rolls a change set back, at once or after a crash: moved files go back to their paths.

Only files that we made are ever removed; they are recognised by identity and content. A file whose path is taken by
now stays beside it. Every step may be repeated, so an interrupted recovery simply begins anew.
"""

import errno
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

from app.proposals.files.filesystem import FileNode, Filesystem, second_temp_name
from app.proposals.files.overlay import ContentStore
from app.proposals.journal.journal import displaced_file_name, resulting_paths
from app.proposals.values.models import FileIdentity, FileOperation, FileVersion
from app.proposals.values.pending_paths import parent_folders
from app.proposals.values.proposal_store import JournalEntry, JournalRecord

_NOT_OURS = (errno.ELOOP, errno.EFBIG, errno.EINVAL, errno.ENXIO, errno.EACCES, errno.EPERM)
"""What reading says of a link, a file over the limit, a device, a socket and what may not be read."""


def holds_original(filesystem: Filesystem, entry: JournalEntry, path: str) -> bool:
    """Return whether a path holds the very file on which the plan was made. Raises OSError."""
    return _holds(filesystem, path, entry.before, entry.before_mode, entry.found)


def holds_prepared(filesystem: Filesystem, entry: JournalEntry, path: str) -> bool:
    """Return whether a path holds the very file that was prepared, unchanged. Raises OSError."""
    mode = entry.after_mode if entry.op is FileOperation.MODE else None
    return _holds(filesystem, path, entry.after, mode, entry.made)


def holds_content(filesystem: Filesystem, path: str, sha256: str | None) -> bool:
    """Return whether a path holds this content, in whichever file; None means no file. Raises OSError."""
    if sha256 is None:
        return filesystem.stat_node(path) is None
    return _holds(filesystem, path, sha256, None, None)


def _holds(
    filesystem: Filesystem, path: str, sha256: str | None, mode: int | None, identity: FileIdentity | None
) -> bool:
    node = filesystem.stat_node(path)
    if sha256 is None or node is None or node.kind not in ("file", "link") or identity not in (None, node.identity):
        return False
    try:
        file = filesystem.read(path)
    except OSError as error:
        if error.errno in _NOT_OURS:
            return False
        raise
    return (
        file is not None
        and file.version.sha256 == sha256
        and mode in (None, file.version.mode)
        and identity in (None, file.identity)
    )


_WORKERS = 8
"""Threads that write and remove prepared files: one flush of the disk's journal then serves several files."""

_TRIES = 5
"""How often somebody may come between two of our steps on one path before we leave the path to the next recovery."""


class PathContention(Exception):
    """Another program keeps changing a path; the file that was moved out of it still lies beside it."""


class Rollback:
    """Rolls records back and removes their temporary files. Raises OSError where the disk refuses."""

    def __init__(self, filesystem: Filesystem, contents: ContentStore) -> None:
        self._filesystem = filesystem
        self._contents = contents

    def drop_lost_identities(self, record: JournalRecord) -> JournalRecord:
        """Return the record, without file identities if none of its files is found under any of its names.

        The folder was copied or restored, or the disk mounted anew with other numbers: then content alone must tell.
        """
        for entry in record.entries:
            if any(self._is_known(entry, name) for name in (entry.path, entry.temp, second_temp_name(entry.temp))):
                return record
        entries = tuple(entry.model_copy(update={"found": None, "made": None}) for entry in record.entries)
        return record.model_copy(update={"entries": entries})

    def is_carried_out(self, record: JournalRecord) -> bool:
        """Return whether every path of the record was changed from what was expected."""
        return record.prepared and all(self._is_carried_out(entry) for entry in record.entries)

    def roll_back(self, record: JournalRecord, touched: Collection[str]) -> list[str]:
        """Restore everything; may be repeated after a crash.

        Args:
            touched: Paths whose old content comes from the store if it is nowhere on disk.

        Returns:
            A sentence for each thing that stays under another name.

        Raises:
            OSError: the disk would not; what is left can be taken back later.
            Unsettled: somebody changes a path again and again.
        """
        if record.prepared:
            backwards = record.entries[::-1]
            for entry in backwards:
                if entry.before is None:
                    self._take_back(record, entry, entry.path in touched)
            for folder in reversed(record.made_folders):
                with suppress(OSError):
                    self._filesystem.remove_folder(folder)
            for entry in backwards:
                if entry.before is not None:
                    self._take_back(record, entry, entry.path in touched)
        else:
            run_parallel(record.entries, lambda entry: self._drop(entry.temp))
        self.sync_folders(record)
        return list(self._kept(record))

    def remove_leftovers(self, record: JournalRecord, swapped_out: Mapping[str, FileNode] | None = None) -> list[str]:
        """Remove the files that a closed record no longer needs; the next recovery removes leftovers.

        Args:
            swapped_out: What has the temporary names, as it was when it was last recognised.

        Returns:
            A sentence for each thing that stays, because it is not what was swapped out.
        """
        kept: list[str] = []
        known = swapped_out or {}
        unfinished = swapped_out is not None

        def clear(entry: JournalEntry) -> None:
            nonlocal unfinished
            for name in (entry.temp, second_temp_name(entry.temp), _rewritten(entry)):
                node = self._filesystem.stat_node(name)
                if node is None:
                    continue
                unfinished = True
                ours = not record.prepared or name == _rewritten(entry)
                if ours or node == known.get(name) or self._is_known(entry, name):
                    self._drop(name)
                elif record.state == "done":
                    kept.append(_sentence(entry.path, self._keep(record, entry, name)))
                else:
                    self._take_back(record, entry, False)

        run_parallel(record.entries, clear)
        # Once all is cleared away, a folder that has one of these names is somebody else's.
        if record.state == "done" and unfinished:
            puts = resulting_paths(record)
            for folder in record.dropped_folders:
                if folder not in puts:
                    with suppress(OSError):
                        self._filesystem.remove_folder(folder)
        return kept

    def sync_folders(self, record: JournalRecord) -> None:
        """Have all names on disk: of each folder that lost or got one, and of those above that are new or gone."""
        folders = {name.rpartition("/")[0] for entry in record.entries for name in (entry.path, entry.temp)}
        folders |= {folder.rpartition("/")[0] for folder in (*record.made_folders, *record.dropped_folders)}
        for folder in sorted(folders):
            with suppress(FileNotFoundError, NotADirectoryError):
                self._filesystem.sync_folder(folder)

    def paths_changed_by_others(self, record: JournalRecord) -> list[str]:
        """Return the paths that others have changed: they hold neither the content before nor the written one."""
        done = record.state == "done"
        folders = {folder for entry in record.entries for folder in parent_folders(entry.path)}
        return [
            entry.path
            for entry in record.entries
            if not holds_content(self._filesystem, entry.path, entry.after if done else entry.before)
            and not (entry.path in folders and self._filesystem.kind(entry.path) == "folder")
        ]

    def _is_carried_out(self, entry: JournalEntry) -> bool:
        if self._filesystem.stat_node(second_temp_name(entry.temp)) is not None:
            return False
        if entry.before is not None and holds_original(self._filesystem, entry, entry.temp):
            return True
        # A prepared file loses its temporary name only to the path; what was swapped out may have been cleared away.
        return self._filesystem.stat_node(entry.temp) is None and holds_prepared(self._filesystem, entry, entry.path)

    def _is_known(self, entry: JournalEntry, name: str) -> bool:
        return holds_original(self._filesystem, entry, name) or holds_prepared(self._filesystem, entry, name)

    def _take_back(self, record: JournalRecord, entry: JournalEntry, touched: bool) -> None:
        """Move a replaced file back to its path, and remove the one that we put there."""
        disk, path, temp = self._filesystem, entry.path, entry.temp
        self._join_exchange(record, entry)
        for _ in range(_TRIES):
            if holds_prepared(disk, entry, temp):
                return self._drop(temp)
            if disk.stat_node(temp) is None:
                if holds_prepared(disk, entry, path) and entry.before is None:
                    disk.move_to_temp(path, temp)
                elif holds_prepared(disk, entry, path) or (
                    touched and not entry.after and self._is_free(record, path)
                ):
                    self._rewrite(entry)
                else:
                    return None
            elif holds_prepared(disk, entry, path):
                disk.exchange(path, temp)
                if not holds_prepared(disk, entry, temp):
                    # Somebody came between the two: what they put there has the path again.
                    disk.exchange(path, temp)
            elif self._returned(record, temp, path):
                return None
            elif not self._is_free(record, path):
                self._keep(record, entry, temp)
                return None
        raise PathContention(f"{path} keeps changing")

    def _join_exchange(self, record: JournalRecord, entry: JournalEntry) -> None:
        """Finish or take back an exchange that takes several steps here and was cut off between them."""
        aside = second_temp_name(entry.temp)
        if self._filesystem.stat_node(aside) is None:
            return
        if holds_prepared(self._filesystem, entry, aside):
            self._drop(aside)
        elif self._filesystem.stat_node(entry.temp) is None:
            self._filesystem.move_to_temp(aside, entry.temp)
        elif not self._returned(record, aside, entry.path):
            self._keep(record, entry, aside)

    def _returned(self, record: JournalRecord, name: str, path: str) -> bool:
        """Move our backup `name` to `path` if `path` is free; return whether it was moved."""
        if not self._is_free(record, path):
            return False
        try:
            self._filesystem.move_to_path(name, path)
        except FileExistsError:
            return False
        return True

    def _is_free(self, record: JournalRecord, path: str) -> bool:
        """Whether something can be put to a path; its folders are made as they were if they are gone."""
        if self._filesystem.stat_node(path) is not None:
            return False
        for folder in parent_folders(path):
            if self._filesystem.kind(folder) == "missing":
                self._filesystem.make_folder(folder, record.folder_modes.get(folder))
            if self._filesystem.kind(folder) != "folder":
                return False
        return True

    def _rewrite(self, entry: JournalEntry) -> None:
        """Take the old content from the store, where the old file itself is gone."""
        self._drop(_rewritten(entry))
        data = self._contents.get(FileVersion(sha256=entry.before or "", size=0))
        mode = 0o644 if entry.before_mode is None else entry.before_mode
        self._filesystem.write_new(_rewritten(entry), data, mode, entry.path if entry.after else "")
        self._filesystem.move_to_temp(_rewritten(entry), entry.temp)

    def _keep(self, record: JournalRecord, entry: JournalEntry, name: str) -> str:
        """Rename a file that is not ours to a free name beside its path; return the name."""
        folder = self._beside(entry)
        wanted = f"{folder}/{displaced_file_name(record, entry)}" if folder else displaced_file_name(record, entry)
        for number in count():
            kept = f"{wanted}.{number}" if number else wanted
            with suppress(FileExistsError):
                self._filesystem.move_to_path(name, kept)
                return kept
        raise AssertionError("some name is free")

    def _kept(self, record: JournalRecord) -> Iterator[str]:
        """A sentence for each thing that was kept, also before a recovery was cut off."""
        names = {folder: self._filesystem.list_names(folder) for folder in {self._beside(e) for e in record.entries}}
        for entry in record.entries:
            folder, wanted = self._beside(entry), displaced_file_name(record, entry)
            for name in sorted(names[folder]):
                if name == wanted or name.startswith(f"{wanted}."):
                    yield _sentence(entry.path, f"{folder}/{name}" if folder else name)

    def _beside(self, entry: JournalEntry) -> str:
        folder = entry.path.rpartition("/")[0]
        return folder if not folder or self._filesystem.kind(folder) == "folder" else entry.temp.rpartition("/")[0]

    def _drop(self, name: str) -> None:
        with suppress(OSError):
            self._filesystem.remove(name)


def block_interrupts() -> set[signal.Signals | int]:
    """Block the signals that end a program in this thread; return the mask before."""
    return signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


def run_parallel(entries: Sequence[JournalEntry], work: Callable[[JournalEntry], None]) -> None:
    """Run a function for many files, several at a time; raise the first error once none is running any more."""
    if len(entries) < _WORKERS:
        for entry in entries:
            work(entry)
        return

    def work_on(share: Sequence[JournalEntry]) -> None:
        for entry in share:
            work(entry)

    # A task for each thread, not for each file: handing those over costs as much as a file does. A thread still
    # ends after it was joined, and would take a signal that the next operation has blocked: so it blocks them, too.
    with ThreadPoolExecutor(_WORKERS, "signoff-write", block_interrupts) as pool:
        for _ in pool.map(work_on, [entries[first::_WORKERS] for first in range(_WORKERS)]):
            pass


def _rewritten(entry: JournalEntry) -> str:
    """Return the temporary name for restoring old content."""
    return f"{entry.temp}+"


def _sentence(path: str, kept: str) -> str:
    return f"What {path} held is kept as {kept}, since somebody else changed it."
