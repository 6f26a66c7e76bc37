"""Carrying out a journal record: all of it or nothing, whatever happens in between.

The order is that of a write-ahead log (C. Mohan et al., "ARIES", 1992, reduced to files): the intent with the names
of all temporary files is on disk before the first of them exists; new content is on disk before a name points to it;
the old file keeps a name until the record is closed. So at any instant each path holds either what it held before or
what it shall hold, and the record tells which is which.
"""

import errno
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Literal

from app.proposals.errors import ApplyFailed, ProposalError, RecoveryNeeded
from app.proposals.filesystem import Filesystem
from app.proposals.journal import put_paths
from app.proposals.models import FileVersion, Proposal
from app.proposals.overlay import Contents, parents
from app.proposals.store import JournalEntry, JournalRecord, ProposalStore

_WRITERS = 8
"""Threads that write and remove the prepared files: one flush of the disk's journal then serves several files."""

_FOREIGN = (errno.ELOOP, errno.EFBIG, errno.EINVAL)
"""What reading says of a link, a file over the limit and a device: none of them was made by an apply."""

Standing = Literal["before", "after", "other"]


class Mismatch(Exception):
    """A file was not what the plan says; it was left as it is."""


class Applier:
    """Carries out records under the workspace lock, and takes them back."""

    def __init__(self, filesystem: Filesystem, store: ProposalStore, contents: Contents) -> None:
        self._filesystem = filesystem
        self._store = store
        self._contents = contents

    def run(self, record: JournalRecord, proposal: Proposal, before: Proposal) -> JournalRecord:
        """Carry out a record that passed the preflight.

        Args:
            record: From `journal.plan`; all contents of it are in the blob store.
            proposal: As it stands afterwards; saved in one transaction with the end of the record.
            before: As it stands now, and again if the record is taken back.

        Raises:
            ApplyFailed: every file is as it was before.
            RecoveryNeeded: that could not be had either; `recover` will finish it.
        """
        try:
            record = self._store.journal_open(record)
        except Exception as error:
            raise ApplyFailed(
                f"{record.proposal} was not applied, nothing has changed: {reason_of(error)}."
            ) from error
        done = record.model_copy(update={"state": "done"})
        touched: set[str] = set()
        try:
            self._prepare(record)
            self._carry_out(record, touched)
            self._sync(record)
            self._store.journal_close(done, proposal)
        except Exception as error:
            raise self._given_up(record, before, touched, error) from error
        self.clean_up(done)
        return done

    def standings(self, record: JournalRecord) -> dict[str, Standing]:
        """How each path of a record stands on disk now. Raises OSError if the disk won't say."""
        return {entry.path: self._standing(entry) for entry in record.entries}

    def roll_back(self, record: JournalRecord, touched: Collection[str]) -> None:
        """Bring every path that stands as after to what it was before; may be repeated after a crash.

        Args:
            record: What to take back.
            touched: Paths that this process has brought to `after`; others that stand otherwise are not ours.

        Raises:
            OSError: the disk would not; what is left can be rolled back later.
            Mismatch: a file was changed by someone else meanwhile.
        """
        ours = [entry for entry in reversed(record.entries) if self._is_ours(entry, touched)]
        for entry in ours:
            if entry.before is None:
                self._take_away(entry)
        for folder in reversed(record.made_folders):
            with suppress(OSError):
                self._filesystem.remove_folder(folder)
        for entry in ours:
            if entry.before is not None:
                self._restore(entry, entry.before)
        self._remove_temps(record)
        self._sync(record)

    def clean_up(self, record: JournalRecord) -> None:
        """Remove what a closed record needs no more; leftovers are swept up by the next one."""
        self._remove_temps(record)
        if record.state != "done":
            return
        puts = put_paths(record)
        for folder in record.dropped_folders:
            if folder not in puts:
                with suppress(OSError):
                    self._filesystem.remove_folder(folder)

    def _prepare(self, record: JournalRecord) -> None:
        """Write the new contents beside their targets."""
        _for_each([entry for entry in record.entries if entry.after is not None], self._write_temp)

    def _write_temp(self, entry: JournalEntry) -> None:
        data = self._contents.get(_version(entry.after))
        like = entry.path if entry.before is not None else ""
        self._filesystem.write_new(entry.temp, data, 0o644 if entry.after_mode is None else entry.after_mode, like)

    def _carry_out(self, record: JournalRecord, touched: set[str]) -> None:
        """Let the names point to the new contents, and note which do. Folders come after the early removals."""
        puts = put_paths(record)
        folders_made = False
        for entry in record.entries:
            if entry.after is not None and not folders_made:
                self._make_way(record, puts)
                folders_made = True
            if entry.after is None:
                self._remove(entry)
            elif entry.before is None:
                self._create(entry)
            else:
                self._modify(entry)
            touched.add(entry.path)

    def _make_way(self, record: JournalRecord, puts: set[str]) -> None:
        for folder in record.dropped_folders:
            if folder in puts or any(above in puts for above in parents(folder)):
                self._filesystem.remove_folder(folder)
        for folder in record.made_folders:
            self._filesystem.make_folder(folder)

    def _remove(self, entry: JournalEntry) -> None:
        self._filesystem.rename(entry.path, entry.temp)
        if self._hash(entry.temp) != entry.before:
            self._filesystem.rename(entry.temp, entry.path)
            raise Mismatch(f"{entry.path} changed at this very moment")

    def _create(self, entry: JournalEntry) -> None:
        try:
            self._filesystem.link(entry.temp, entry.path)
        except FileExistsError as error:
            raise Mismatch(f"{entry.path} was made by someone else at this very moment") from error
        self._filesystem.remove(entry.temp)

    def _modify(self, entry: JournalEntry) -> None:
        self._filesystem.exchange(entry.path, entry.temp)
        if self._hash(entry.temp) != entry.before:
            self._filesystem.exchange(entry.path, entry.temp)
            raise Mismatch(f"{entry.path} changed at this very moment")

    def _sync(self, record: JournalRecord) -> None:
        """Have all names on disk: of each folder that lost or got one, and of those above that are new or gone."""
        folders = {parents(entry.path)[-1] if "/" in entry.path else "" for entry in record.entries}
        folders |= {entry.temp.rpartition("/")[0] for entry in record.entries}
        folders |= {folder.rpartition("/")[0] for folder in (*record.made_folders, *record.dropped_folders)}
        for folder in sorted(folders):
            with suppress(FileNotFoundError, NotADirectoryError):
                self._filesystem.sync_folder(folder)

    def _given_up(
        self, record: JournalRecord, before: Proposal, touched: set[str], error: Exception
    ) -> ProposalError:
        """Take everything back; returns what to tell the user."""
        why = reason_of(error)
        try:
            self.roll_back(record, touched)
        except Exception as second:
            return RecoveryNeeded(
                f"{record.proposal} broke off ({why}) and could not be taken back at once ({reason_of(second)}): "
                "put that right and start signoff again, it finishes this first."
            )
        # If even this can't be written, the next start finds every file as before and closes the record.
        with suppress(Exception):
            self._store.journal_close(record.model_copy(update={"state": "rolled_back"}), before)
        return ApplyFailed(f"{record.proposal} was not applied, every file is as it was: {why}.")

    def _is_ours(self, entry: JournalEntry, touched: Collection[str]) -> bool:
        standing = self._standing(entry)
        if standing == "other" and entry.path in touched:
            raise Mismatch(f"{entry.path} was changed by someone else meanwhile")
        return standing == "after"

    def _standing(self, entry: JournalEntry) -> Standing:
        try:
            file = self._filesystem.read(entry.path)
        except OSError as error:
            if error.errno in _FOREIGN:
                return "other"
            raise
        sha256 = file.version.sha256 if file else None
        if sha256 is not None and entry.before == entry.after == sha256:
            mode = file.version.mode if file else None
            return "after" if mode == entry.after_mode else "before" if mode == entry.before_mode else "other"
        if sha256 == entry.before:
            return "before"
        return "after" if sha256 == entry.after else "other"

    def _take_away(self, entry: JournalEntry) -> None:
        with suppress(FileNotFoundError):
            self._filesystem.remove(entry.temp)
        self._filesystem.rename(entry.path, entry.temp)
        if self._hash(entry.temp) != entry.after:
            self._filesystem.rename(entry.temp, entry.path)
            raise Mismatch(f"{entry.path} changed at this very moment")
        self._filesystem.remove(entry.temp)

    def _restore(self, entry: JournalEntry, before: str) -> None:
        """Put the old file back: itself if it still has a name, else its bytes from the store."""
        if entry.after is None:
            for folder in parents(entry.path):
                if self._filesystem.kind(folder) == "missing":
                    self._filesystem.make_folder(folder)
        old = self._filesystem.read(entry.temp)
        if (
            old is None
            or old.version.sha256 != before
            or (entry.op == "mode" and old.version.mode != entry.before_mode)
        ):
            with suppress(FileNotFoundError):
                self._filesystem.remove(entry.temp)
            mode = 0o644 if entry.before_mode is None else entry.before_mode
            data = self._contents.get(_version(before))
            self._filesystem.write_new(entry.temp, data, mode, entry.path if entry.after else "")
        if entry.after is None:
            self._create(entry)
            return
        self._filesystem.exchange(entry.path, entry.temp)
        if self._hash(entry.temp) != entry.after:
            self._filesystem.exchange(entry.path, entry.temp)
            raise Mismatch(f"{entry.path} changed at this very moment")

    def _remove_temps(self, record: JournalRecord) -> None:
        _for_each(record.entries, self._remove_temp)

    def _remove_temp(self, entry: JournalEntry) -> None:
        for name in (entry.temp, f"{entry.temp}~"):
            with suppress(OSError):
                self._filesystem.remove(name)

    def _hash(self, path: str) -> str | None:
        file = self._filesystem.read(path)
        return file.version.sha256 if file else None


def _for_each(entries: Sequence[JournalEntry], work: Callable[[JournalEntry], None]) -> None:
    """Do the same for many files, several at a time; raises the first error."""
    if len(entries) < _WRITERS:
        for entry in entries:
            work(entry)
        return
    with ThreadPoolExecutor(_WRITERS, "signoff-write") as pool:
        for _ in pool.map(work, entries):
            pass


def reason_of(error: BaseException) -> str:
    """What went wrong, for a line that the user reads."""
    if isinstance(error, OSError) and error.strerror:
        name = f" ({error.filename})" if isinstance(error.filename, str) else ""
        return f"{error.strerror.lower()}{name}"
    if isinstance(error, (ProposalError, Mismatch)) or str(error):
        return str(error).rstrip(".")
    return type(error).__name__


def _version(sha256: str | None) -> FileVersion | None:
    return None if sha256 is None else FileVersion(sha256=sha256, size=0)
