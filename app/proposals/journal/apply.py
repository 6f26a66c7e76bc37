"""Check a change set, then apply or recover its journal record: completely or not at all, also across a crash.

The order is that of a write-ahead log (C. Mohan et al., "ARIES", 1992, reduced to files). The intent, with the names
of all temporary files, is on disk before the first of them exists. New content is on disk before a path points to it.
The old file keeps a name until the record is closed. So at any instant each path has either its old or its new
content, and the record tells which. A file that was moved out of a path is checked before the next step: if it is not
the file for which the plan was made, everything is rolled back.
"""

import posixpath
import signal
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress

from app.proposals.files.filesystem import LstatResult, PosixFilesystem, ReadableDisk, list_files_below
from app.proposals.files.overlay import ContentStore
from app.proposals.journal.journal import PathTransition, fold_case_and_unicode_form, paths_present_afterwards
from app.proposals.journal.rollback import JournalRollback, block_interrupts, path_holds_original_file, run_parallel
from app.proposals.values.models import FileIdentity, FileVersion, Proposal, ProposalState, compute_state, with_state
from app.proposals.values.pending_paths import parent_folders
from app.proposals.values.proposal_errors import ApplyFailed, ProposalError, RecoveryNeeded
from app.proposals.values.proposal_store import JournalEntry, JournalRecord, ProposalStore
from app.text.quantities import join_first
from app.workspace.path_rules import WorkspaceError
from app.workspace.paths import Workspace


class PathChangedDuringApply(Exception):
    """Another program created, removed or changed the file at a path while a journal record was being applied."""


@contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Block Ctrl-C, SIGTERM and SIGHUP: a half-written apply would stay until the next start."""
    before = block_interrupts()
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class JournalApplier:
    """Applies journal records under the workspace lock, and rolls them back."""

    def __init__(self, filesystem: PosixFilesystem, store: ProposalStore, contents: ContentStore) -> None:
        self._filesystem = filesystem
        self._store = store
        self._contents = contents
        self.rollback = JournalRollback(filesystem, contents)

    @_interrupts_blocked()
    def apply_record(self, record: JournalRecord, proposal: Proposal, before: Proposal) -> list[str]:
        """Apply a record that passed the preflight; SIGINT, SIGTERM and SIGHUP are blocked meanwhile.

        Args:
            record: From `plan_journal_record`; all its contents are in the blob store.
            proposal: The proposal afterwards; saved in one transaction with the end of the record.
            before: The proposal now; saved again if the record is rolled back.

        Returns:
            A sentence for each file of another program that is kept under another name.

        Raises:
            ApplyFailed: every file is as it was before.
            RecoveryNeeded: the rollback failed too; `recover_records` finishes it later.
        """
        try:
            record = self._store.open_journal_record(record)
        except Exception as error:
            raise _failure_without_changes(record, error) from error
        touched: set[str] = set()
        swapped_out: dict[str, LstatResult] = {}
        try:
            record = self._prepare(record)
            self._store.mark_journal_prepared(record)
            self._carry_out(record, touched, swapped_out)
            self.rollback.sync_folders(record)
            done = record.model_copy(update={"state": "done"})
            self._store.close_journal_record(done, proposal)
        except Exception as error:
            raise self._give_up(record, before, touched, error) from error
        with suppress(OSError):
            return self.rollback.remove_leftovers(done, swapped_out)
        return []

    def _prepare(self, record: JournalRecord) -> JournalRecord:
        """Write the new contents to temporary files; return the record with the identities of these files."""
        made: dict[str, FileIdentity] = {}

        def write(entry: JournalEntry) -> None:
            if entry.after is not None:
                made[entry.path] = self._write_temp(entry, entry.after)

        run_parallel(record.entries, write)
        entries = tuple(entry.model_copy(update={"made": made.get(entry.path)}) for entry in record.entries)
        return record.model_copy(update={"entries": entries, "prepared": True})

    def _write_temp(self, entry: JournalEntry, after: str) -> FileIdentity:
        data = self._contents.get(FileVersion(sha256=after, size=0))
        like = entry.path if entry.before is not None else ""
        mode = 0o644 if entry.after_mode is None else entry.after_mode
        return self._filesystem.write_new(entry.temp, data, mode, like)

    def _carry_out(self, record: JournalRecord, touched: set[str], swapped_out: dict[str, LstatResult]) -> None:
        """Rename the new contents to their paths; folders are created after the early removals.

        Args:
            touched: Receives every path that was changed.
            swapped_out: Receives the replaced files by their temporary names.
        """
        written = paths_present_afterwards(record)
        folders_made = False
        for entry in record.entries:
            if entry.after is not None and not folders_made:
                self._change_folders(record, written)
                folders_made = True
            try:
                self._change_path(entry)
            except FileNotFoundError as error:
                raise PathChangedDuringApply(f"{entry.path} was removed by another program at this moment") from error
            except FileExistsError as error:
                raise PathChangedDuringApply(f"{entry.path} was created by another program at this moment") from error
            touched.add(entry.path)
            if entry.before is not None:
                node = self._filesystem.stat_node(entry.temp)
                if node is None or not path_holds_original_file(self._filesystem, entry, entry.temp):
                    raise PathChangedDuringApply(f"{entry.path} changed at this moment")
                swapped_out[entry.temp] = node

    def _change_folders(self, record: JournalRecord, written: set[str]) -> None:
        for folder in record.dropped_folders:
            if folder in written or any(above in written for above in parent_folders(folder)):
                self._filesystem.remove_folder(folder)
        for folder in record.made_folders:
            self._filesystem.make_folder(folder, record.folder_modes.get(folder))

    def _change_path(self, entry: JournalEntry) -> None:
        if entry.after is None:
            self._filesystem.move_to_temp(entry.path, entry.temp)
        elif entry.before is None:
            self._filesystem.move_to_path(entry.temp, entry.path)
        else:
            self._filesystem.exchange(entry.path, entry.temp)

    def _give_up(
        self, record: JournalRecord, before: Proposal, touched: Collection[str], error: Exception
    ) -> ProposalError:
        """Roll everything back; return the error for the user."""
        why = describe_os_error(error)
        try:
            kept = self.rollback.roll_back(record, touched)
        except Exception as second:
            return RecoveryNeeded(
                f"{record.proposal} was interrupted ({why}) and could not be rolled back "
                f"({describe_os_error(second)}): fix that and start signoff again, it finishes the rollback first."
            )
        # If even this fails, the next start finds every file as before and closes the record.
        with suppress(Exception):
            self._store.close_journal_record(record.model_copy(update={"state": "rolled_back"}), before)
        return ApplyFailed(" ".join((f"{_operation_name(record)} failed, every file is as it was: {why}.", *kept)))


def _failure_without_changes(record: JournalRecord, error: Exception) -> ApplyFailed:
    return ApplyFailed(f"{_operation_name(record)} failed, nothing has changed: {describe_os_error(error)}.")


def _operation_name(record: JournalRecord) -> str:
    """Return the decision that a record carries out: `The undo of P7`."""
    name: str = "approval" if record.action == "apply" else record.action
    with suppress(ValueError):
        last = Proposal.model_validate_json(record.after_proposal).last
        if record.action == "apply" and last is not None and last.decision == "denied":
            name = "denial"
    return f"The {name} of {record.proposal}"


def describe_os_error(error: BaseException) -> str:
    """Return a system error as a phrase for the user."""
    if isinstance(error, OSError) and error.strerror:
        name = f" ({error.filename})" if isinstance(error.filename, str) else ""
        return f"{error.strerror.lower()}{name}"
    return str(error).rstrip(".") or type(error).__name__


_MAX_NAMED_PATHS = 5


def recover_records(store: ProposalStore, rollback: JournalRollback) -> list[str]:
    """Finish open records; the caller holds the workspace lock.

    A record whose last file was written is closed as done, any other is rolled back. Changes by other programs stay.

    Returns:
        One line for each record that was rolled back or completed, or that could not be finished yet.
    """
    lines = remove_crash_leftovers(store, rollback)
    # Earlier versions left a record blocked if another program had changed a file.
    for state in ("open", "blocked"):
        lines += [_finish_record(store, rollback, record) for record in reversed(store.journal_records(state=state))]
    return lines


def remove_crash_leftovers(store: ProposalStore, rollback: JournalRollback) -> list[str]:
    """Remove the leftovers of a crash after the latest record was closed; the caller holds the workspace lock.

    It runs before each new record, so older records have no leftovers.

    Returns:
        A sentence for each file that stays.
    """
    latest = [record for record in store.journal_records(limit=1) if record.state in ("done", "rolled_back")]
    return [line for record in latest for line in _remove_leftovers(rollback, record)]


def _finish_record(store: ProposalStore, rollback: JournalRollback, record: JournalRecord) -> str:
    name = _operation_name(record)
    try:
        record = rollback.drop_lost_identities(record)
        if rollback.is_carried_out(record):
            return _complete_record(store, rollback, record, name)
        kept = rollback.roll_back(record, {entry.path for entry in record.entries})
        closed = record.model_copy(update={"state": "rolled_back"})
        changed = rollback.paths_changed_by_others(closed)
        outcome = f"{name} was interrupted: it was rolled back, every {{}} is as before."
        unrecorded = _close_record(store, closed, lambda: _restored_proposal(store.proposal(record.proposal), record))
        return _describe_recovery(outcome, changed, kept, unrecorded)
    except Exception as error:
        return f"{name} was interrupted and is not finished yet ({describe_os_error(error)}); start signoff again."


def _complete_record(store: ProposalStore, rollback: JournalRollback, record: JournalRecord, name: str) -> str:
    done = record.model_copy(update={"state": "done"})
    changed = rollback.paths_changed_by_others(done)
    outcome = f"{name} was interrupted after the last file: it was completed."
    unrecorded = _close_record(store, done, lambda: Proposal.model_validate_json(record.after_proposal))
    return _describe_recovery(outcome, changed, [] if unrecorded else _remove_leftovers(rollback, done), unrecorded)


def _close_record(store: ProposalStore, record: JournalRecord, proposal: Callable[[], Proposal | None]) -> str:
    """Record the end of an apply; return a sentence if that fails although the files are right."""
    try:
        store.close_journal_record(record, proposal())
    except Exception as error:
        return f"This could not be recorded yet ({describe_os_error(error)}); signoff does so at its next start."
    return ""


def _remove_leftovers(rollback: JournalRollback, record: JournalRecord) -> list[str]:
    try:
        return rollback.remove_leftovers(rollback.drop_lost_identities(record))
    except OSError:
        return []


def _describe_recovery(outcome: str, changed: Sequence[str], kept: Sequence[str], unrecorded: str) -> str:
    """Return one line: the outcome, changes by other programs, where files are kept, and what is still to do."""
    line = outcome.format("other file" if changed else "file")
    if changed:
        line += f" Another program changed {join_first(changed, _MAX_NAMED_PATHS)}; that change stays."
    return " ".join(filter(None, (line, *kept, unrecorded)))


def _restored_proposal(stored: Proposal | None, record: JournalRecord) -> Proposal | None:
    """Return the proposal in its state from before the record was opened."""
    if stored is None or stored.state is not ProposalState.FAILED:
        return stored
    return with_state(stored, ProposalState.UNDONE if record.action == "redo" else compute_state(stored))


_SPARE_BYTES = 1024 * 1024
"""Bytes for folders and the file system's own tables."""


def check_record_and_add_identities(
    workspace: Workspace,
    filesystem: PosixFilesystem,
    contents: ContentStore,
    record: JournalRecord,
    transitions: Sequence[PathTransition],
    *,
    names_were_there: bool = False,
) -> JournalRecord:
    """Check a planned record against the disk; return it with the identities of its files.

    The paths, the contents, the resulting tree, permissions and space are checked. With `names_were_there`, this disk
    held all these names before, and two may differ by case only.

    Raises:
        ApplyFailed: a check failed; the message has the first problem. Nothing was written.
    """
    try:
        removed_links = {step.path for step in transitions if step.after is None and _is_link(step)}
        identities = {
            step.path: _check_path(workspace, filesystem, step)
            for step in transitions
            if step.before is not None or removed_links.isdisjoint(parent_folders(step.path))
        }
        _check_resulting_tree(filesystem, transitions, names_were_there=names_were_there)
        for folder in sorted({entry.temp.rpartition("/")[0] for entry in record.entries}):
            if not filesystem.is_writable(folder):
                where = f"the folder {folder}" if folder else "the workspace's folder"
                if filesystem.is_mounted_read_only(folder):
                    raise _Unfit(f"{where} can't be written: its file system is mounted read-only")
                raise _Unfit(f"{where} can't be written; change its permissions first")
        needed = sum(len(contents.get(step.after)) for step in transitions if step.after) + _SPARE_BYTES
        if needed > (free := filesystem.free_bytes()):
            raise _Unfit(f"the disk is full: {needed:,} bytes are needed, {free:,} are free; make room first")
    except (_Unfit, OSError, WorkspaceError) as error:
        raise _failure_without_changes(record, error) from error
    entries = tuple(entry.model_copy(update={"found": identities.get(entry.path)}) for entry in record.entries)
    return record.model_copy(update={"entries": entries})


class _Unfit(Exception):
    """The reason why an apply is impossible, as a clause."""


def _check_path(workspace: Workspace, filesystem: PosixFilesystem, step: PathTransition) -> FileIdentity | None:
    """Return the identity of the file at a path, None for no file; raise _Unfit if its content is not as planned."""
    # A link itself is replaced; only the folders above it must not be links.
    checked_path = step.path.rpartition("/")[0] or "." if _is_link(step) else step.path
    if workspace.resolve_both_paths(checked_path) != (checked_path, checked_path):
        raise _Unfit(f"{step.path} is reached through a link now; look at it again")
    file = filesystem.read(step.path)
    found = file.version.sha256 if file else None
    expected = step.before.sha256 if step.before else None
    if found != expected:
        raise _Unfit(f"{step.path} changed on disk at this moment; look at it again")
    return file.identity if file else None


def _is_link(step: PathTransition) -> bool:
    return any(version is not None and version.is_link for version in (step.before, step.after))


def _check_resulting_tree(
    filesystem: PosixFilesystem, transitions: Sequence[PathTransition], *, names_were_there: bool
) -> None:
    """Raise _Unfit if one resulting file is at the folder of another, or if two differ by case only."""
    removed = {step.path for step in transitions if step.after is None}
    written = {step.path for step in transitions if step.after}
    existing = {step.path for step in transitions if step.before}
    names: dict[str, str] = {}
    listings: Listings = {}
    for path in sorted(written):
        other = names.setdefault(fold_case_and_unicode_form(path), path)
        if other == path or names_were_there:
            continue
        if any(
            each not in existing or find_case_or_unicode_clash(filesystem, each, listings) for each in (path, other)
        ):
            raise _Unfit(f"{path} and {other} differ only by case or Unicode form; some disks can't hold both")
    for step in transitions:
        if step.after is None or step.before is not None:
            continue
        for folder in parent_folders(step.path):
            if folder in written:
                raise _Unfit(f"{folder} can't be a file and the folder of {step.path}")
            if filesystem.kind(folder) in ("file", "link", "other") and folder not in removed:
                raise _Unfit(f"{folder} is a file, so {step.path} can't be made; rename one of them")
        if filesystem.kind(step.path) == "folder":
            below = list_files_below(filesystem, step.path)
            left = [path for path in below if path not in removed]
            if left:
                raise _Unfit(f"{step.path} is a folder with other files in it ({left[0]}); move them first")
            if not below:
                raise _Unfit(f"{step.path} is a folder; remove it first")
        clash = "" if names_were_there else find_case_or_unicode_clash(filesystem, step.path, listings)
        if clash and clash not in removed:
            raise _Unfit(f"{step.path} and {clash} differ only by case or Unicode form; some disks can't hold both")


Listings = dict[str, dict[str, list[str]]]
"""The names in folders, by their folded form: read once for many paths."""


def find_case_or_unicode_clash(filesystem: ReadableDisk, path: str, listings: Listings) -> str:
    """Return the path on disk that differs from a new one only by case or Unicode form; empty if there is none.

    `listings` receives the names that were read, for the next path.
    """
    existing = ""
    parts = path.split("/")
    for index, name in enumerate(parts):
        if existing not in listings:
            listings[existing] = {}
            for entry in filesystem.list_names(existing):
                listings[existing].setdefault(fold_case_and_unicode_form(entry), []).append(entry)
        similar = listings[existing].get(fold_case_and_unicode_form(name))
        if not similar:
            return "" if existing == "/".join(parts[:index]) else "/".join([existing, *parts[index:]])
        match = name if name in similar else similar[0]
        existing = posixpath.join(existing, match)
    return "" if existing == path else existing
