"""Roll a change set back, at once or after a crash: moved files go back to their paths.

Only files that this program created are removed; identity and content identify them. If the path of a file is taken
meanwhile, the file stays beside it. Every step can be repeated, so an interrupted recovery simply starts again.
"""

import errno
import posixpath
import signal
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count

from app.proposals.files.filesystem import LstatResult, PosixFilesystem, second_exchange_temp_name
from app.proposals.files.overlay import ContentStore
from app.proposals.journal.journal import conflict_copy_name, paths_present_afterwards
from app.proposals.values.models import FileIdentity, FileOperation, FileVersion
from app.proposals.values.pending_paths import parent_folders
from app.proposals.values.proposal_store import JournalEntry, JournalRecord

_NOT_OUR_FILE_ERRORS = (errno.ELOOP, errno.EFBIG, errno.EINVAL, errno.ENXIO, errno.EACCES, errno.EPERM)
"""Errors when reading a link, a file over the limit, a device, a socket, or a file without permission."""


def path_holds_original_file(filesystem: PosixFilesystem, entry: JournalEntry, path: str) -> bool:
    """Return whether a path holds the same file for which the plan was made. Raises OSError."""
    return _path_holds(filesystem, path, entry.before, entry.before_mode, entry.found)


def path_holds_prepared_file(filesystem: PosixFilesystem, entry: JournalEntry, path: str) -> bool:
    """Return whether a path holds the same file that was prepared, unchanged. Raises OSError."""
    mode = entry.after_mode if entry.op is FileOperation.MODE else None
    return _path_holds(filesystem, path, entry.after, mode, entry.made)


def _path_holds_content(filesystem: PosixFilesystem, path: str, sha256: str | None) -> bool:
    """Return whether a path holds this content, in any file; None means no file. Raises OSError."""
    if sha256 is None:
        return filesystem.stat_node(path) is None
    return _path_holds(filesystem, path, sha256, None, None)


def _path_holds(
    filesystem: PosixFilesystem, path: str, sha256: str | None, mode: int | None, identity: FileIdentity | None
) -> bool:
    node = filesystem.stat_node(path)
    if sha256 is None or node is None or node.kind not in ("file", "link"):
        return False
    try:
        file = filesystem.read(path)
    except OSError as error:
        if error.errno in _NOT_OUR_FILE_ERRORS:
            return False
        raise
    return (
        file is not None
        and file.version.sha256 == sha256
        and mode in (None, file.version.mode)
        and identity in (None, file.identity)
    )


_MAX_THREADS = 8
"""Threads that write and remove prepared files: one flush of the disk's journal then serves several files."""

_MAX_TRIES = 5
"""Attempts on a path that other programs change between two steps; then the next recovery handles it."""


class PathContention(Exception):
    """Another program keeps changing a path; the file that was moved out of it is still beside it."""


class JournalRollback:
    """Rolls journal records back and removes their temporary files.

    Raises OSError if the disk refuses.
    """

    def __init__(self, filesystem: PosixFilesystem, contents: ContentStore) -> None:
        self._filesystem = filesystem
        self._contents = contents

    def drop_lost_identities(self, record: JournalRecord) -> JournalRecord:
        """Return the record, without file identities if none of its files has its recorded identity any more.

        The folder was then copied or restored, or the disk was mounted with other numbers. Only content identifies
        files.
        """
        for entry in record.entries:
            if any(
                self._is_known(entry, name)
                for name in (entry.path, entry.temp, second_exchange_temp_name(entry.temp))
            ):
                return record
        entries = tuple(entry.model_copy(update={"found": None, "made": None}) for entry in record.entries)
        return record.model_copy(update={"entries": entries})

    def is_carried_out(self, record: JournalRecord) -> bool:
        """Return whether the change of every path in the record was carried out."""
        return record.prepared and all(self._is_carried_out(entry) for entry in record.entries)

    def roll_back(self, record: JournalRecord, touched: Collection[str]) -> list[str]:
        """Restore every file; can be repeated after a crash.

        Args:
            touched: Paths whose old content comes from the store if it is nowhere on disk.

        Returns:
            A sentence for each file that stays under another name.

        Raises:
            OSError: the disk refuses; the rest can be restored later.
            PathContention: another program keeps changing a path.
        """
        if record.prepared:
            backwards = record.entries[::-1]
            for entry in backwards:
                if entry.before is None:
                    self._restore(record, entry, entry.path in touched)
            for folder in reversed(record.made_folders):
                with suppress(OSError):
                    self._filesystem.remove_folder(folder)
            for entry in backwards:
                if entry.before is not None:
                    self._restore(record, entry, entry.path in touched)
        else:
            run_parallel(record.entries, lambda entry: self._remove(entry.temp))
        self.sync_folders(record)
        return list(self._describe_kept_files(record))

    def remove_leftovers(
        self, record: JournalRecord, swapped_out: Mapping[str, LstatResult] | None = None
    ) -> list[str]:
        """Remove the files that a closed record no longer needs; the next recovery removes what is left.

        Args:
            swapped_out: By temporary name, the replaced files as they were when they were last checked.

        Returns:
            A sentence for each file that stays, because it is not the one that was replaced.
        """
        kept: list[str] = []
        checked_nodes = swapped_out or {}
        unfinished = swapped_out is not None

        def clear(entry: JournalEntry) -> None:
            nonlocal unfinished
            for name in (entry.temp, second_exchange_temp_name(entry.temp), _old_content_temp(entry)):
                node = self._filesystem.stat_node(name)
                if node is None:
                    continue
                unfinished = True
                is_ours = not record.prepared or name == _old_content_temp(entry)
                if is_ours or node == checked_nodes.get(name) or self._is_known(entry, name):
                    self._remove(name)
                elif record.state == "done":
                    kept.append(_kept_file_sentence(entry.path, self._keep_beside(record, entry, name)))
                else:
                    self._restore(record, entry, False)

        run_parallel(record.entries, clear)
        # After a complete removal, a folder with one of these names belongs to another program.
        if record.state == "done" and unfinished:
            written = paths_present_afterwards(record)
            for folder in record.dropped_folders:
                if folder not in written:
                    with suppress(OSError):
                        self._filesystem.remove_folder(folder)
        return kept

    def sync_folders(self, record: JournalRecord) -> None:
        """Sync to disk all folders that lost or got a file, and those above created or removed folders."""
        folders = {name.rpartition("/")[0] for entry in record.entries for name in (entry.path, entry.temp)}
        folders |= {folder.rpartition("/")[0] for folder in (*record.made_folders, *record.dropped_folders)}
        for folder in sorted(folders):
            with suppress(FileNotFoundError, NotADirectoryError):
                self._filesystem.sync_folder(folder)

    def paths_changed_by_others(self, record: JournalRecord) -> list[str]:
        """Return the paths that other programs have changed: they do not hold what the closed record left there."""
        done = record.state == "done"
        folders = {folder for entry in record.entries for folder in parent_folders(entry.path)}
        return [
            entry.path
            for entry in record.entries
            if not _path_holds_content(self._filesystem, entry.path, entry.after if done else entry.before)
            and not (entry.path in folders and self._filesystem.kind(entry.path) == "folder")
        ]

    def _is_carried_out(self, entry: JournalEntry) -> bool:
        if self._filesystem.stat_node(second_exchange_temp_name(entry.temp)) is not None:
            return False
        if entry.before is not None and path_holds_original_file(self._filesystem, entry, entry.temp):
            return True
        # A prepared file leaves its temporary name only for the path; the replaced file may be removed already.
        return self._filesystem.stat_node(entry.temp) is None and path_holds_prepared_file(
            self._filesystem, entry, entry.path
        )

    def _is_known(self, entry: JournalEntry, name: str) -> bool:
        return path_holds_original_file(self._filesystem, entry, name) or path_holds_prepared_file(
            self._filesystem, entry, name
        )

    def _restore(self, record: JournalRecord, entry: JournalEntry, touched: bool) -> None:
        """Move a replaced file back to its path, and remove the prepared one from it."""
        disk, path, temp = self._filesystem, entry.path, entry.temp
        self._end_exchange(record, entry)
        for _ in range(_MAX_TRIES):
            if path_holds_prepared_file(disk, entry, temp):
                return self._remove(temp)
            if disk.stat_node(temp) is None:
                if path_holds_prepared_file(disk, entry, path) and entry.before is None:
                    disk.move_to_temp(path, temp)
                elif path_holds_prepared_file(disk, entry, path) or (
                    touched and not entry.after and self._is_free(record, path)
                ):
                    self._write_old_content(entry)
                else:
                    return None
            elif path_holds_prepared_file(disk, entry, path):
                disk.exchange(path, temp)
                if not path_holds_prepared_file(disk, entry, temp):
                    # Another program replaced the file between the two steps: its file gets the path again.
                    disk.exchange(path, temp)
            elif self._moved_back(record, temp, path):
                return None
            elif not self._is_free(record, path):
                self._keep_beside(record, entry, temp)
                return None
        raise PathContention(f"{path} keeps changing")

    def _end_exchange(self, record: JournalRecord, entry: JournalEntry) -> None:
        """Finish or revert an exchange in several steps that was interrupted between them."""
        second_temp = second_exchange_temp_name(entry.temp)
        if self._filesystem.stat_node(second_temp) is None:
            return
        if path_holds_prepared_file(self._filesystem, entry, second_temp):
            self._remove(second_temp)
        elif self._filesystem.stat_node(entry.temp) is None:
            self._filesystem.move_to_temp(second_temp, entry.temp)
        elif not self._moved_back(record, second_temp, entry.path):
            self._keep_beside(record, entry, second_temp)

    def _moved_back(self, record: JournalRecord, name: str, path: str) -> bool:
        """Move our backup `name` to `path` if `path` is free; return whether it was moved."""
        if not self._is_free(record, path):
            return False
        try:
            self._filesystem.move_to_path(name, path)
        except FileExistsError:
            return False
        return True

    def _is_free(self, record: JournalRecord, path: str) -> bool:
        """Return whether a file can be moved to a path; create missing folders, with their old permissions."""
        if self._filesystem.stat_node(path) is not None:
            return False
        for folder in parent_folders(path):
            if self._filesystem.kind(folder) == "missing":
                self._filesystem.make_folder(folder, record.folder_modes.get(folder))
            if self._filesystem.kind(folder) != "folder":
                return False
        return True

    def _write_old_content(self, entry: JournalEntry) -> None:
        """Restore the old content from the store, because the old file itself does not exist any more."""
        self._remove(_old_content_temp(entry))
        data = self._contents.get(FileVersion(sha256=entry.before or "", size=0))
        mode = 0o644 if entry.before_mode is None else entry.before_mode
        self._filesystem.write_new(_old_content_temp(entry), data, mode, entry.path if entry.after else "")
        self._filesystem.move_to_temp(_old_content_temp(entry), entry.temp)

    def _keep_beside(self, record: JournalRecord, entry: JournalEntry, name: str) -> str:
        """Rename another program's file to a free name beside its path; return the name."""
        wanted = posixpath.join(self._folder_beside(entry), conflict_copy_name(record, entry))
        for number in count():
            kept = f"{wanted}.{number}" if number else wanted
            with suppress(FileExistsError):
                self._filesystem.move_to_path(name, kept)
                return kept
        raise AssertionError("some name is free")

    def _describe_kept_files(self, record: JournalRecord) -> Iterator[str]:
        """Yield a sentence for each file that was kept, also by a recovery that was interrupted."""
        folders = {self._folder_beside(entry) for entry in record.entries}
        names = {folder: self._filesystem.list_names(folder) for folder in folders}
        for entry in record.entries:
            folder, wanted = self._folder_beside(entry), conflict_copy_name(record, entry)
            for name in sorted(names[folder]):
                if name == wanted or name.startswith(f"{wanted}."):
                    yield _kept_file_sentence(entry.path, posixpath.join(folder, name))

    def _folder_beside(self, entry: JournalEntry) -> str:
        folder = entry.path.rpartition("/")[0]
        return folder if not folder or self._filesystem.kind(folder) == "folder" else entry.temp.rpartition("/")[0]

    def _remove(self, name: str) -> None:
        with suppress(OSError):
            self._filesystem.remove(name)


def block_interrupts() -> set[signal.Signals | int]:
    """Block the signals that end a program in this thread; return the mask before."""
    return signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


def run_parallel(entries: Sequence[JournalEntry], work: Callable[[JournalEntry], None]) -> None:
    """Call a function for many entries, several at a time; raise the first error once no call is running any more."""
    if len(entries) < _MAX_THREADS:
        for entry in entries:
            work(entry)
        return

    def work_on(share: Sequence[JournalEntry]) -> None:
        for entry in share:
            work(entry)

    # One task for each thread, not for each file: handing over a task costs as much as a file. The threads block
    # signals too: a thread still ends after it was joined, and would receive a signal that the next operation blocks.
    with ThreadPoolExecutor(_MAX_THREADS, "signoff-write", block_interrupts) as pool:
        for _ in pool.map(work_on, [entries[first::_MAX_THREADS] for first in range(_MAX_THREADS)]):
            pass


def _old_content_temp(entry: JournalEntry) -> str:
    return f"{entry.temp}+"


def _kept_file_sentence(path: str, kept: str) -> str:
    return f"Another program changed {path}; its content is kept as {kept}."
