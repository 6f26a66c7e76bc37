"""A disk or a store that fails at an awkward moment, and files that others take away: what is said, what stays."""

import errno
import os
from collections.abc import Callable

import pytest

from app.proposals.decide.proposal_commits import commit_proposal
from app.proposals.files.filesystem import OPEN_FOLDERS, LstatResult, PosixFilesystem
from app.proposals.values.models import ProposalState
from app.proposals.values.proposal_errors import (
    ApplyFailed,
    DiskFailed,
    GitCommitFailed,
    RecoveryNeeded,
    UndoConflict,
)
from app.sandbox.captured_changes import FileOrLink, PathChange
from tests.unit.proposals.bench import Bench, numbered
from tests.unit.proposals.memory_store import MemoryStore
from tests.unit.proposals.repositories import repository

Make = Callable[..., Bench]


class Awkward(PosixFilesystem):
    """A disk that does something just before an operation on a path, given by a part of it, and says nothing of our
    own files if told so."""

    def __init__(
        self, site: Bench, operation: str = "", path: str = "", work: Callable[[], object] = lambda: None
    ) -> None:
        super().__init__(site.root, 1 << 20, OPEN_FOLDERS)
        self.fails = False
        self.arm(operation, path, work)

    def arm(self, operation: str, path: str, work: Callable[[], object]) -> None:
        """Do this before the next such operation."""
        self._due = (operation, path)
        self._work = work

    def exchange(self, path: str, temp: str) -> None:
        self._begin("exchange", path)
        super().exchange(path, temp)

    def move_to_path(self, temp: str, path: str) -> None:
        self._begin("put", path)
        super().move_to_path(temp, path)

    def move_to_temp(self, path: str, temp: str) -> None:
        self._begin("move_to_temp", path)
        super().move_to_temp(path, temp)

    def remove(self, path: str) -> None:
        self._begin("remove", path)
        super().remove(path)

    def stat_node(self, path: str) -> LstatResult | None:
        if self.fails and ".signoff-" in path:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().stat_node(path)

    def _begin(self, operation: str, path: str) -> None:
        if operation == self._due[0] and self._due[1] in path:
            self._due = ("", "")
            self._work()


LOCKED = RuntimeError("the database is locked")


class Killed(BaseException):
    """What a process that dies leaves is left, but for the process."""


def kill() -> None:
    raise Killed


def pull_the_cable() -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def failing(
    site: Bench, *names: str, error: BaseException = LOCKED, work: Callable[[], object] = lambda: None
) -> None:
    """Have the store fail in writes of these names, after some work; and in no others."""

    def fail(name: str) -> None:
        if name in names:
            work()
            raise error

    assert isinstance(site.store, MemoryStore)
    site.store.before_write = fail


def test_a_failing_store_or_preflight_is_reported_and_nothing_has_changed(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = bench({"a.txt": "one\n"})
    proposal = site.edit("a.txt", ("one", "two"))
    with monkeypatch.context() as broken:
        broken.setattr(os, "statvfs", lambda _: pull_the_cable())
        with pytest.raises(ApplyFailed, match="The approval of P1 failed, nothing has changed: input/output error"):
            site.service.approve(proposal.id)
    failing(site, "open_journal_record")
    with pytest.raises(ApplyFailed, match="The approval of P1 failed, nothing has changed: the database is locked"):
        site.service.approve(proposal.id)
    assert site.tree() == {"a.txt": (b"one\n", 0o644)} and site.store.journal_records() == []
    failing(site, "save_proposal", error=OSError(errno.EIO, os.strerror(errno.EIO)))
    with pytest.raises(DiskFailed, match="The disk can't be used: input/output error; nothing has changed"):
        site.service.deny(proposal.id)
    assert site.service.get(proposal.id).state is ProposalState.PENDING
    failing(site)
    site.service.approve(proposal.id)
    failing(site, "open_journal_record")
    with pytest.raises(ApplyFailed, match="The undo of P1 failed, nothing has changed"):
        site.service.undo(proposal.id)
    assert site.tree() == {"a.txt": (b"two\n", 0o644)}


@pytest.mark.parametrize("action", ["approve", "undo"])
def test_unrecorded_rollback_is_recorded_at_the_next_start(bench: Make, action: str) -> None:
    site = bench({"a.txt": "one\n"})
    proposal = site.edit("a.txt", ("one", "two"))
    if action == "undo":
        site.service.approve(proposal.id)
    before, state = site.tree(), site.service.get(proposal.id).state
    failing(site, "close_journal_record")
    with pytest.raises(ApplyFailed, match="every file is as it was: the database is locked"):
        getattr(site.service, action)(proposal.id)
    (said,) = site.reopened().recover()
    assert "could not be recorded yet (the database is locked)" in said
    failing(site)
    (said,) = site.reopened().recover()
    assert "every file is as before" in said and "recorded" not in said
    assert (site.tree(), site.service.get(proposal.id).state) == (before, state)
    assert site.reopened().recover() == []


def test_leftover_files_that_cannot_be_removed_are_removed_later(bench: Make) -> None:
    store = MemoryStore()
    site = bench({"a.txt": "one\n"}, store=store)
    disk = Awkward(site)
    proposal = site.edit("a.txt", ("one", "two"))

    def fails_from_here(name: str) -> None:
        disk.fails = disk.fails or name == "close_journal_record"

    store.before_write = fails_from_here
    assert site.reopened(disk).approve(proposal.id).proposal.state is ProposalState.APPLIED
    assert site.read("a.txt") == b"two\n" and len(site.tree()) == 2
    assert site.reopened(disk).recover() == []
    assert site.reopened().recover() == []
    assert site.tree() == {"a.txt": (b"two\n", 0o644)}


def test_a_recovery_that_fails_is_retried(bench: Make) -> None:
    site = bench({"a.txt": "one\n", "b.txt": "one\n"})
    proposal = site.write(**{"a.txt": "two\n", "b.txt": "two\n"})

    def fail() -> None:
        disk.fails = True
        raise RuntimeError("somebody pulled a cable")

    disk = Awkward(site, "exchange", "b.txt", fail)
    with pytest.raises(RecoveryNeeded, match="start signoff again"):
        site.reopened(disk).approve(proposal.id)
    (said,) = site.reopened(disk).recover()
    assert said == (
        "The approval of P1 was interrupted and is not finished yet (input/output error); start signoff again."
    )
    (said,) = site.reopened().recover()
    assert "it was rolled back, every file is as before" in said
    assert site.tree() == dict.fromkeys(("a.txt", "b.txt"), (b"one\n", 420))


def test_a_file_removed_at_the_last_moment_is_named(bench: Make) -> None:
    site = bench({"a.txt": "one\n", "b.txt": "one\n"})
    proposal = site.write(**{"a.txt": "two\n", "b.txt": "two\n"})
    disk = Awkward(site, "exchange", "b.txt", (site.root / "b.txt").unlink)
    with pytest.raises(ApplyFailed, match=r"b\.txt was removed by another program at this moment"):
        site.reopened(disk).approve(proposal.id)
    assert site.tree() == {"a.txt": (b"one\n", 0o644)}


@pytest.mark.parametrize("operation", ["exchange", "move_to_temp", "put"])
def test_a_write_at_the_last_moment_is_not_lost(bench: Make, operation: str) -> None:
    site = bench({"a.txt": "one\n", "c.txt": "one\n"} | ({} if operation == "put" else {"b.txt": "one\n"}))
    before = site.contents()
    new = None if operation == "move_to_temp" else "two\n"
    proposal = site.write(**{"a.txt": "two\n", "c.txt": "two\n", "b.txt": new})
    disk = Awkward(site, operation, "b.txt", lambda: site.put(**{"b.txt": "someone else\n"}))
    with pytest.raises(ApplyFailed, match=r"every file is as it was: b\.txt .* at this moment"):
        site.reopened(disk).approve(proposal.id)
    assert site.contents() == before | {"b.txt": b"someone else\n"}
    assert site.reopened().recover() == []


def test_a_file_saved_during_a_revert_stays_in_place(bench: Make) -> None:
    site = bench({"a.txt": "one\n", "b.txt": "one\n"})
    proposal = site.write(**{"a.txt": "two\n", "b.txt": "two\n"})
    site.put(theirs="theirs\n")

    def meddle() -> None:
        site.put(**{"b.txt": "someone else\n"})
        disk.arm("exchange", "a.txt", lambda: (site.root / "theirs").rename(site.root / "a.txt"))

    disk = Awkward(site, "exchange", "b.txt", meddle)
    with pytest.raises(ApplyFailed, match=r"Another program changed a\.txt; its content is kept as a\.txt\.kept-P1"):
        site.reopened(disk).approve(proposal.id)
    found = site.contents()
    assert found.pop("a.txt") == b"theirs\n" and found.pop("b.txt") == b"someone else\n"
    assert list(found.values()) == [b"one\n"]


def test_a_file_made_during_a_restore_stays_and_the_old_is_kept(bench: Make) -> None:
    site = bench({"a.txt": "one\n"})
    proposal = site.write(**{"a.txt": None, "b.txt": "two\n"})
    failing(site, "close_journal_record")
    disk = Awkward(site, "put", "a.txt", lambda: site.put(**{"a.txt": "theirs\n"}))
    with pytest.raises(ApplyFailed, match=r"Another program changed a\.txt; its content is kept as a\.txt\.kept-P1"):
        site.reopened(disk).approve(proposal.id)
    found = site.contents()
    assert found.pop("a.txt") == b"theirs\n"
    assert list(found.values()) == [b"one\n"]


def test_unrecorded_apply_is_completed(bench: Make) -> None:
    site = bench({"a.txt": "one\n", "gone.txt": "g\n"})
    proposal = site.write(**{"a.txt": "two\n", "gone.txt": None, "new.txt": "n\n"})
    failing(site, "close_journal_record", error=Killed())
    with pytest.raises(Killed):
        site.service.approve(proposal.id)
    failing(site)
    (said,) = site.reopened().recover()
    assert said == "The approval of P1 was interrupted after the last file: it was completed."
    assert site.contents() == {"a.txt": b"two\n", "new.txt": b"n\n"}


def test_an_unfinished_exchange_in_steps_is_rolled_back(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.proposals.files.filesystem._renameat2", lambda: None)
    site = bench({"a.txt": "one\n"})
    proposal = site.edit("a.txt", ("one", "two"))
    with pytest.raises(Killed):
        site.reopened(Awkward(site, "move_to_temp", "~", kill)).approve(proposal.id)
    assert site.read("a.txt") == b"two\n"
    (said,) = site.reopened().recover()
    assert "it was rolled back, every file is as before" in said
    assert site.contents() == {"a.txt": b"one\n"}


def test_a_file_of_another_process_with_the_same_text_is_not_ours(bench: Make) -> None:
    site = bench({"a.txt": "one\n", "b.txt": "one\n"})
    proposal = site.write(**{"a.txt": "two\n", "b.txt": "two\n"})
    with pytest.raises(Killed):
        site.reopened(Awkward(site, "exchange", "b.txt", kill)).approve(proposal.id)
    (site.root / "theirs").write_bytes(site.read("a.txt"))
    (site.root / "theirs").rename(site.root / "a.txt")
    (said,) = site.reopened().recover()
    assert "Another program changed a.txt; that change stays" in said
    found = site.contents()
    assert (found.pop("a.txt"), found.pop("b.txt")) == (b"two\n", b"one\n")
    assert list(found.values()) == [b"one\n"]


def test_backup_is_kept_when_its_folder_became_a_file(bench: Make) -> None:
    site = bench({"stuff/a": "a\n"})
    draft = site.service.new_draft("session")
    draft.delete("stuff/a")
    draft.write("stuff", "s\n")
    proposal = site.service.stage(draft, "Turn over")
    failing(site, "close_journal_record")
    disk = Awkward(site, "remove", ".signoff-", lambda: site.put(stuff="theirs\n"))
    with pytest.raises(ApplyFailed, match=r"Another program changed stuff/a; its content is kept as a\.kept-P1"):
        site.reopened(disk).approve(proposal.id)
    found = site.contents()
    assert found.pop("stuff") == b"theirs\n" and list(found.values()) == [b"a\n"]


def test_kept_backup_replaces_no_file(bench: Make) -> None:
    site = bench({"a.txt": "one\n"})
    proposal = site.write(**{"a.txt": None, "b.txt": "two\n"})
    disk = Awkward(site, "put", ".kept-", lambda: take_name(site))

    def take_name(site: Bench) -> None:
        mark = next(site.root.glob(".signoff-*")).name.removeprefix(".signoff-").removesuffix(".tmp")
        site.put(**{f"a.txt.kept-P1-{mark[:4]}{mark.rpartition('-')[2]}": "taken\n"})

    failing(site, "close_journal_record", work=lambda: site.put(**{"a.txt": "theirs\n"}))
    with pytest.raises(ApplyFailed, match=r"is kept as a\.txt\.kept-P1-\w+\.1"):
        site.reopened(disk).approve(proposal.id)
    assert sorted(site.contents().values()) == [b"one\n", b"taken\n", b"theirs\n"]


def test_a_new_folder_used_by_another_process_is_kept(bench: Make) -> None:
    site = bench({})
    proposal = site.write(**{"new/a.txt": "a\n"})
    failing(site, "close_journal_record", work=lambda: site.put(**{"new/theirs.txt": "theirs\n"}))
    with pytest.raises(ApplyFailed, match="every file is as it was"):
        site.service.approve(proposal.id)
    assert site.contents() == {"new/theirs.txt": b"theirs\n"}


def test_a_folder_in_use_does_not_keep_other_folders(bench: Make) -> None:
    site = bench({"used/deep/a.txt": "a\n", "used/deep/b.txt": "b\n", "left/a.txt": "a\n"})
    proposal = site.write(**{"used/deep/a.txt": None, "left/a.txt": None})
    site.service.approve(proposal.id)
    assert [path.name for path in sorted(site.root.rglob("*"))] == ["used", "deep", "b.txt"]


def test_a_leftover_that_cannot_be_removed_does_not_keep_others(bench: Make) -> None:
    site = bench({"a.txt": "one\n", "b.txt": "one\n"})
    proposal = site.write(**{"a.txt": "two\n", "b.txt": "two\n"})
    site.reopened(Awkward(site, "remove", ".signoff-", pull_the_cable)).approve(proposal.id)
    assert sorted(site.contents().values()) == [b"one\n", b"two\n", b"two\n"]
    assert site.reopened().recover() == []
    assert site.contents() == {"a.txt": b"two\n", "b.txt": b"two\n"}


@pytest.mark.parametrize("error", [RuntimeError("the database is locked"), OSError(errno.ENOSPC, "No space left")])
def test_a_decision_stands_although_others_cannot_be_rebased(bench: Make, error: Exception) -> None:
    site = bench({"a.txt": numbered(20)})
    first = site.edit("a.txt", ("line 2\n", "two\nmore\n"))
    second = site.edit("a.txt", ("line 15\n", "fifteen\n"))
    failing(site, "save_proposal", error=error)
    result = site.service.approve(first.id)
    assert (result.proposal.state, result.changed) == (ProposalState.APPLIED, ())
    failing(site)
    site.service.approve(second.id)
    assert site.read("a.txt").decode() == numbered(20, l2="two\nmore", l15="fifteen")


# What an undo finds


def test_files_restored_by_hand_count_as_undone(bench: Make) -> None:
    site = bench({"gone.txt": "g\n"})
    proposal = site.write(**{"made.txt": "m\n", "gone.txt": None})
    site.service.approve(proposal.id)
    (site.root / "made.txt").unlink()
    site.put(**{"gone.txt": "g\n"})
    (site.root / "gone.txt").chmod(0o600)
    site.service.undo(proposal.id)
    assert site.tree() == {"gone.txt": (b"g\n", 0o600)}


def test_undo_keeps_permissions_that_changed_later_and_restores_its_own(bench: Make) -> None:
    site = bench({"a.bin": b"\0one", "b.bin": b"\0one"})
    draft = site.service.new_draft("session")
    draft.add_changes(
        [
            PathChange("a.bin", FileOrLink(b"\0one", 0o644), FileOrLink(b"\0two", 0o644)),
            PathChange("b.bin", FileOrLink(b"\0one", 0o644), FileOrLink(b"\0one", 0o755)),
        ]
    )
    draft.write("made.txt", "m\n")
    proposal = site.service.stage(draft, "All")
    site.service.approve(proposal.id)
    for name in ("a.bin", "made.txt"):
        (site.root / name).chmod(0o755)
    site.put(**{"b.bin": b"\0two"})
    site.service.undo(proposal.id)
    assert site.tree() == {"a.bin": (b"\0one", 0o755), "b.bin": (b"\0two", 0o644)}


def test_unreadable_file_is_not_undone(bench: Make) -> None:
    site = bench({"a.txt": "one\n"})
    site.service.approve(site.edit("a.txt", ("one", "two")).id)
    (site.root / "a.txt").unlink()
    os.mkfifo(site.root / "a.txt")
    with pytest.raises(UndoConflict, match=r"P1 can't be undone: a\.txt can't be read \(not a regular file"):
        site.service.undo("P1")


# A commit that can't be made


def test_files_are_written_although_the_commit_fails(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    site = bench({"a.txt": "a\n"})
    repository(site)
    site.put(**{"untracked.txt": "u\n"})
    deletion = site.service.approve(site.write(**{"untracked.txt": None}).id).proposal
    with pytest.raises(GitCommitFailed, match="Git does not track any file of P1, so there is nothing to commit"):
        commit_proposal(site.root, deletion)
    edit = site.service.approve(site.edit("a.txt", ("a", "b")).id).proposal
    monkeypatch.setattr("app.proposals.decide.proposal_commits._GIT_TIMEOUT_SECONDS", 0.0)
    with pytest.raises(GitCommitFailed, match="Git took longer than 0 s; the files are written"):
        commit_proposal(site.root, edit)
    monkeypatch.setenv("PATH", str(site.folder))
    with pytest.raises(GitCommitFailed, match="Git is not installed, so nothing was committed"):
        commit_proposal(site.root, edit)
