"""What an apply does to a disk: links, modes, folders, names, and others who write at the same time."""

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from app.proposals.files import filesystem
from app.proposals.files.filesystem import PosixFilesystem, exchange_names, move_to_free_name
from app.proposals.files.overlay import ContentStore
from app.proposals.journal.apply import check_record_and_add_identities
from app.proposals.journal.journal import PathTransition, plan_journal_record
from app.proposals.locate.matching import TextReplacement
from app.proposals.proposal_service import ProposalService
from app.proposals.values.models import FileOperation, ProposalState
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.proposals.values.proposal_errors import ApplyFailed, EditRefused, NotPending, StaleProposal
from app.sandbox.captured_changes import LINK_MODE, FileOrLink, PathChange
from app.storage.database import Database
from app.storage.process_coordination import DatabaseChangeSignal
from app.storage.sqlite_proposal_store import SqliteProposalStore
from app.workspace.path_rules import UnsafePath
from app.workspace.paths import Workspace
from tests.unit.proposals.bench import Bench, numbered
from tests.unit.proposals.faults import in_child
from tests.unit.proposals.memory_store import MemoryStore
from tests.users import OTHER, requires_two_users

Make = Callable[..., Bench]


def test_a_link_inside_is_followed_and_stays_a_link(bench: Make) -> None:
    site = bench({"real/a.txt": "one\n"})
    (site.root / "link.txt").symlink_to("real/a.txt")
    (site.root / "folder").symlink_to("real")
    proposal = site.edit("link.txt", ("one", "two"))
    [change] = proposal.files
    assert change.path == "real/a.txt"
    assert "link.txt is a link to it" in change.notes
    site.service.approve(proposal.id)
    assert (site.root / "link.txt").is_symlink()
    assert site.read("real/a.txt") == b"two\n"
    assert site.write(**{"folder/new.txt": "n\n"}).files[0].path == "real/new.txt"
    draft = site.service.new_draft("session")
    with pytest.raises(EditRefused, match="symbolic link"):
        draft.delete("link.txt")
    with pytest.raises(EditRefused, match="symbolic link"):
        draft.rename("link.txt", "x.txt")


def test_a_link_out_of_the_workspace_is_refused_even_if_created_later(bench: Make, tmp_path: Path) -> None:
    site = bench({"dir/a.txt": "one\n"})
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.txt").write_text("one\n")
    (site.root / "out").symlink_to(outside)
    draft = site.service.new_draft("session")
    with pytest.raises(UnsafePath):
        draft.write("out/a.txt", "evil\n")
    proposal = site.edit("dir/a.txt", ("one", "two"))
    (site.root / "dir").rename(site.root / "was")
    (site.root / "dir").symlink_to(outside)
    with pytest.raises(StaleProposal):
        site.service.approve(proposal.id)
    assert (outside / "a.txt").read_text() == "one\n"
    assert sorted(path.name for path in outside.iterdir()) == ["a.txt"]


def test_unsafe_paths_are_refused(bench: Make) -> None:
    draft = bench({}).service.new_draft("session")
    for path in ("../a", "/etc/passwd", ".git/hooks/x", "a/.GIT/x", "a\\b", "x\0y", "", "a/" * 200 + "x"):
        with pytest.raises(UnsafePath):
            draft.write(path, "x")
    assert not draft.has_changes


def test_permissions_owner_and_attributes_stay(bench: Make) -> None:
    site = bench({"a.sh": "one\n"})
    path = site.root / "a.sh"
    path.chmod(0o750)
    attributes = hasattr(os, "setxattr")
    try:
        os.setxattr(path, "user.note", b"kept")
    except (AttributeError, OSError):
        attributes = False
    site.service.approve(site.edit("a.sh", ("one", "two")).id)
    assert path.stat().st_mode & 0o7777 == 0o750
    if attributes:
        assert os.getxattr(path, "user.note") == b"kept"


@requires_two_users
def test_a_file_of_somebody_else_stays_its_groups(tmp_path: Path) -> None:
    for path in (tmp_path / "a.txt", tmp_path):
        path.touch()
        os.chown(path, OTHER - 1, 2001)
        path.chmod(0o775)
    disk = PosixFilesystem(tmp_path, 1 << 20, 1)
    # The new user may not come here by the path.
    disk.open_folder("")

    def write() -> None:
        os.setgroups([2001])
        os.setgid(OTHER)
        os.setuid(OTHER)
        disk.write_new("temp", b"two\n", 0o775, "a.txt")

    assert in_child(write) == 0
    facts = (tmp_path / "temp").stat()
    assert (facts.st_uid, facts.st_gid, facts.st_mode & 0o7777) == (OTHER, 2001, 0o775)


def test_other_names_and_another_owner_of_a_file_are_pointed_out(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = bench({"a.txt": "one\n"})
    (site.root / "b.txt").hardlink_to(site.root / "a.txt")
    monkeypatch.setattr("os.geteuid", lambda: OTHER)
    owner = Path(site.root).owner()
    others = "has 2 names (hard links); the others keep the old text"
    proposal = site.edit("a.txt", ("one", "two"))
    assert proposal.files[0].notes == (others, f"belonged to {owner} when staged; an approval makes it yours")
    changes = [PathChange("a.txt", FileOrLink(b"one\n", 0o644), None)]
    deletion = site.service.stage_changes(changes, ProposalOrigin(kind=OriginKind.COMMAND), "Delete")
    assert deletion.files[0].notes == (others,)
    changes = [PathChange("b.txt", FileOrLink(b"zero\n", 0o644), FileOrLink(b"one\n", 0o644))]
    kept = site.service.stage_changes(changes, ProposalOrigin(kind=OriginKind.DISK), "Keep", on_disk=True)
    assert kept.files[0].notes == (f"belonged to {owner} when staged; a denial makes it yours",)
    site.service.approve(proposal.id)
    assert (site.read("a.txt"), site.read("b.txt")) == (b"two\n", b"one\n")


def test_names_that_differ_by_case(bench: Make) -> None:
    site = bench({"README.md": "r\n", "Dir/x.txt": "x\n"})
    draft = site.service.new_draft("session")
    for path, other in (("readme.md", "README.md"), ("dir/x.txt", "Dir/x.txt"), ("dir/X.txt", "Dir/x.txt")):
        with pytest.raises(EditRefused, match=f"{other} only by case or Unicode form"):
            draft.write(path, "x")
    draft.rename("README.md", "Readme.md")
    proposal = site.service.stage(draft, "Case")
    assert proposal.files[0].op is FileOperation.RENAME
    site.service.approve(proposal.id)
    assert sorted(path.name for path in site.root.iterdir()) == ["Dir", "Readme.md"]
    site.service.undo(proposal.id)
    assert sorted(path.name for path in site.root.iterdir()) == ["Dir", "README.md"]
    for new, other in (("new.txt", "NEW.txt"), ("dir/new.txt", "Dir/New.txt")):
        late = site.write(**{new: "n\n"})
        site.put(**{other: "other"})
        with pytest.raises(ApplyFailed, match=f"{new} and {other} differ only by case or Unicode form"):
            site.service.approve(late.id)
    before = site.tree()
    with pytest.raises(EditRefused, match=r"both\.me differs from Both\.me only by case or Unicode form"):
        site.write(**{"Both.me": "one\n", "both.me": "two\n"})
    names = [PathChange(name, None, FileOrLink(b"one\n", 0o644)) for name in ("Both.me", "both.me")]
    both = site.service.stage_changes(names, ProposalOrigin(kind=OriginKind.REF), "")
    with pytest.raises(ApplyFailed, match="differ only by case or Unicode form"):
        site.service.approve(both.id)
    assert site.tree() == before
    site.put(**{"Two.me": "one\n", "two.me": "two\n"})
    draft = site.service.new_draft("session")
    draft.edit("Two.me", [TextReplacement("one", "1")])
    draft.edit("two.me", [TextReplacement("two", "2")])
    site.service.approve(site.service.stage(draft, "Both of them").id)
    assert (site.read("Two.me"), site.read("two.me")) == (b"1\n", b"2\n")
    before = site.tree()
    draft = site.service.new_draft("session")
    draft.delete("Two.me")
    draft.delete("two.me")
    neither = site.service.stage(draft, "Neither")
    site.service.approve(neither.id)
    site.service.undo(neither.id)
    assert site.tree() == before, "a disk that held both holds both again"


@pytest.mark.parametrize("renamed", [("Src/Io/Read.txt", "src/io/Read.txt"), ("Src/Io/Read.txt", "src/Io/read.txt")])
def test_a_rename_may_change_the_case_of_several_parts_of_a_path(bench: Make, renamed: tuple[str, str]) -> None:
    old, new = renamed
    site = bench({old: "r\n"})
    proposal = site.rename(old, new)
    site.service.approve(proposal.id)
    assert list(site.tree()) == [new]
    site.service.undo(proposal.id)
    assert list(site.tree()) == [old]


def test_a_link_whose_name_differs_by_case_is_not_followed(bench: Make, tmp_path: Path) -> None:
    site = bench({})
    (tmp_path / "x.txt").write_text("theirs\n")
    (site.root / "Dir").symlink_to(tmp_path)
    proposal = site.write(**{"dir/x.txt": "ours\n"})
    with pytest.raises(ApplyFailed, match=r"dir/x\.txt and Dir/x\.txt differ only by case or Unicode form"):
        site.service.approve(proposal.id)


def test_files_change_names_in_a_circle(bench: Make) -> None:
    site = bench({"a": "a\n", "b": "b\n", "c": "c\n"})
    draft = site.service.new_draft("session")
    for old, new in (("a", "spare"), ("b", "a"), ("c", "b"), ("spare", "c")):
        draft.rename(old, new)
    proposal = site.service.stage(draft, "Turn")
    site.service.approve(proposal.id)
    assert site.contents() == {"a": b"b\n", "b": b"c\n", "c": b"a\n"}
    site.service.undo(proposal.id)
    assert site.contents() == {"a": b"a\n", "b": b"b\n", "c": b"c\n"}


def test_a_file_becomes_a_folder_and_a_folder_a_file(bench: Make) -> None:
    site = bench({"thing": "t\n", "stuff/a": "a\n", "stuff/deep/b": "b\n"})
    before = site.tree()
    draft = site.service.new_draft("session")
    with pytest.raises(EditRefused, match="thing is a file"):
        draft.write("thing/inner", "i\n")
    with pytest.raises(EditRefused, match="stuff is a folder"):
        draft.write("stuff", "s\n")
    for path in before:
        draft.delete(path)
    draft.write("thing/inner", "i\n")
    draft.write("stuff", "s\n")
    proposal = site.service.stage(draft, "Turn over")
    half = next(change for change in proposal.files if change.path == "thing/inner")
    with pytest.raises(ApplyFailed, match="thing is a file"):
        site.service.approve(proposal.id, [half.hunks[0].id])
    site.put(**{"stuff/mine": "m\n"})
    with pytest.raises(StaleProposal, match="stuff is a folder"):
        site.service.approve(proposal.id)
    (site.root / "stuff/mine").unlink()
    assert site.tree() == before
    site.service.rebase_pending()
    site.service.approve(proposal.id)
    assert site.contents() == {"thing/inner": b"i\n", "stuff": b"s\n"}
    site.service.undo(proposal.id)
    assert site.tree() == before


@pytest.mark.parametrize("target", ["inside", "../outside"])
def test_a_folder_becomes_a_link_and_a_link_a_folder(bench: Make, target: str) -> None:
    site = bench({"a/x": "x\n", "a/deep/y": "y\n", "inside/x": "theirs\n"})
    (site.root / "../outside").mkdir()
    (site.root / "../outside/x").write_text("theirs\n")
    before, link = site.tree(), FileOrLink(target.encode(), LINK_MODE)
    files = {"a/x": FileOrLink(b"x\n", 0o644), "a/deep/y": FileOrLink(b"y\n", 0o644)}
    draft = site.service.new_draft("session")
    draft.add_changes([PathChange("a", None, link), *(PathChange(path, each, None) for path, each in files.items())])
    to_link = site.service.stage(draft, "Link it").id
    site.service.approve(to_link)
    assert (site.root / "a").readlink() == Path(target)
    site.service.undo(to_link)
    assert site.tree() == before
    site.service.redo(to_link)
    draft = site.service.new_draft("session")
    draft.add_changes([PathChange("a", link, None), *(PathChange(path, None, each) for path, each in files.items())])
    site.service.approve(site.service.stage(draft, "No link").id)
    assert site.tree() == before
    assert (site.root / target / "x").read_text() == "theirs\n"


@pytest.mark.parametrize("links", [None, errno.EPERM, errno.EOPNOTSUPP])
def test_without_exchange_it_replaces(bench: Make, monkeypatch: pytest.MonkeyPatch, links: int | None) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(links, "as exFAT has it")

    monkeypatch.setattr("app.proposals.files.filesystem._renameat2", lambda: None)
    if links:
        monkeypatch.setattr(os, "link", refuse)
    site = bench({"a.txt": numbered(5)})
    proposal = site.edit("a.txt", ("line 2\n", "two\n"))
    site.service.approve(proposal.id)
    assert site.read("a.txt").decode() == numbered(5, l2="two")
    site.service.undo(proposal.id)
    assert site.tree().keys() == {"a.txt"}
    assert site.read("a.txt").decode() == numbered(5)
    disk = PosixFilesystem(site.root, 1 << 20)
    disk.write_new("mine", b"mine", 0o644)
    with pytest.raises(FileExistsError):
        disk.move_to_path("mine", "a.txt")


def test_a_system_without_ctypes_known_free_space_and_folder_flushes_is_written(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush = os.fsync

    def of_files_alone(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        flush(descriptor)

    # Without its cache, which would keep what it finds here for later tests.
    monkeypatch.setattr(filesystem, "_renameat2", filesystem._renameat2.__wrapped__)
    monkeypatch.setitem(sys.modules, "ctypes", None)
    # As it is first imported.
    monkeypatch.delitem(sys.modules, "app.proposals.files.filesystem")
    monkeypatch.delattr("app.proposals.files.filesystem")
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((4096, 4096, *(0,) * 7, 255)))
    monkeypatch.setattr(os, "fsync", of_files_alone)
    site = bench({"a.txt": "one\n"})
    site.service.approve(site.edit("a.txt", ("one", "two")).id)
    assert site.tree() == {"a.txt": (b"two\n", 0o644)}


@pytest.mark.skipif(sys.platform != "linux", reason="renameat2 is Linux's")
def test_renames_replace_nothing_and_are_one_step_on_linux(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    (tmp_path / "b").write_text("b")
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        assert exchange_names(folder, "a", folder, "b")
        with pytest.raises(FileNotFoundError):
            exchange_names(folder, "a", folder, "c")
        with pytest.raises(FileExistsError):
            move_to_free_name(folder, "a", folder, "b")
        move_to_free_name(folder, "a", folder, "c")
    finally:
        os.close(folder)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"b": "a", "c": "b"}


def test_two_processes_approve_at_once(tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    files = {f"{number}.txt": "one\n" for number in range(9)}
    database = Database(tmp_path / "db")
    store = SqliteProposalStore(database, "here", DatabaseChangeSignal(tmp_path, "here"))
    Bench(tmp_path, files, store).write(**dict.fromkeys(files, "two\n"))
    database.close()

    def opened() -> ProposalService:
        store = SqliteProposalStore(Database(tmp_path / "db"), "here", DatabaseChangeSignal(tmp_path, "here"))
        return ProposalService(Workspace(root), store, tmp_path / "lock")

    gate, key = os.pipe()
    rivals = []
    for _ in range(2):
        rivals.append(os.fork())
        if not rivals[-1]:
            try:
                service = opened()
                os.close(key)
                os.read(gate, 1)
                service.approve("P1")
            except NotPending as error:
                os._exit(2 if "P1 is applied already; there is nothing to decide" in str(error) else 3)
            except BaseException:
                os._exit(4)
            os._exit(0)
    os.close(gate)
    os.close(key)
    assert sorted(os.waitstatus_to_exitcode(os.waitpid(rival, 0)[1]) for rival in rivals) == [0, 2]
    assert {path.read_text() for path in root.iterdir()} == {"two\n"}
    with pytest.raises(NotPending):
        opened().approve("P1")
    assert opened().undo("P1").proposal.state is ProposalState.UNDONE


class Flushed:
    """What was flushed to the disk itself, by inode, and how much of that before each write of the store."""

    def __init__(self, site: Bench, store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.nodes: list[int] = []
        self.writes: list[tuple[str, int]] = []
        self.fails_at = ""
        self._site = site
        flush = os.fsync

        def fsync(descriptor: int) -> None:
            flush(descriptor)
            self.nodes.append(os.fstat(descriptor).st_ino)

        monkeypatch.setattr(os, "fsync", fsync)
        store.before_write = self._note

    def _note(self, name: str) -> None:
        self.writes.append((name, len(self.nodes)))
        if name == self.fails_at:
            self.fails_at = ""
            raise OSError("the store failed")

    def before(self, write: str, since: str) -> list[int]:
        """What was flushed between the last two such writes."""
        end = max(at for at, (name, _) in enumerate(self.writes) if name == write)
        start = max(at for at, (name, _) in enumerate(self.writes[:end]) if name == since)
        return self.nodes[self.writes[start][1] : self.writes[end][1]]

    def nodes_of(self, *names: str) -> set[int]:
        return {(self._site.root / name).stat().st_ino for name in names}


def test_content_is_flushed_before_names_and_names_before_the_record(
    bench: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    site = bench({"a.txt": "one\n", "sub/gone.txt": "bye\n"}, store=store)
    before = site.tree()
    proposal = site.write(**{"a.txt": "two\n", "sub/gone.txt": None, "sub/new.txt": "new\n"})
    disk = Flushed(site, store, monkeypatch)
    disk.fails_at = "close_journal_record"
    with pytest.raises(ApplyFailed, match="every file is as it was"):
        site.service.approve(proposal.id)
    assert site.tree() == before
    assert disk.nodes_of("", "sub") <= set(disk.before("close_journal_record", "close_journal_record"))
    site.service.approve(proposal.id)
    assert disk.nodes_of("a.txt", "sub/new.txt") <= set(disk.before("mark_journal_prepared", "open_journal_record"))
    assert disk.nodes_of("", "sub") <= set(disk.before("close_journal_record", "mark_journal_prepared"))


def test_a_read_only_folder_is_noticed_before_any_write(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    # As the system says to who is not root.
    monkeypatch.setattr(PosixFilesystem, "is_writable", lambda self, folder: folder != "sub")
    site = bench({"a.txt": "one\n", "sub/b.txt": "one\n"})
    before = site.tree()
    proposal = site.write(**{"a.txt": "two\n", "sub/b.txt": "two\n"})
    with pytest.raises(ApplyFailed, match="the folder sub can't be written; change its permissions first"):
        site.service.approve(proposal.id)
    read_only = os.statvfs_result((4096, 4096, *(0,) * 6, os.ST_RDONLY, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: read_only)
    with pytest.raises(ApplyFailed, match="the folder sub can't be written: its file system is mounted read-only"):
        site.service.approve(proposal.id)
    assert site.tree() == before and site.store.journal_records() == []


def test_new_file_never_overwrites_an_existing_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"theirs")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "broken link").symlink_to("nowhere")
    for name in ("file", "link", "broken link"):
        with pytest.raises(FileExistsError):
            PosixFilesystem(tmp_path, 4096).write_new(name, b"ours", 0o644)
    assert (tmp_path / "file").read_bytes() == b"theirs" and not (tmp_path / "nowhere").exists()


def test_a_plan_is_not_started_on_a_changed_file(bench: Make) -> None:
    site = bench({"a.txt": "one\n"})
    contents = ContentStore(site.store)
    disk = PosixFilesystem(site.root, 4096)
    step = PathTransition("a.txt", contents.add(b"one\n", 0o644), contents.add(b"two\n", 0o644))
    record = plan_journal_record(disk, "apply", site.edit("a.txt", ("one", "two")), [step])
    check_record_and_add_identities(site.workspace, disk, contents, record, [step])
    (site.root / "a.txt").rename(site.root / "b.txt")
    (site.root / "a.txt").symlink_to("b.txt")
    with pytest.raises(ApplyFailed, match="reached through a link now"):
        check_record_and_add_identities(site.workspace, disk, contents, record, [step])
    (site.root / "a.txt").unlink()
    for theirs in ({}, {"a.txt": b"theirs\n"}):
        site.put(**theirs)
        with pytest.raises(ApplyFailed, match="changed on disk at this moment"):
            check_record_and_add_identities(site.workspace, disk, contents, record, [step])


def test_folders_may_lie_in_each_other_deeper_than_calls(bench: Make) -> None:
    site = bench({})
    here = os.open(site.root, os.O_RDONLY)
    for _ in range(1_100):
        os.mkdir("a", dir_fd=here)
        inner = os.open("a", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(os.open("x", os.O_CREAT, dir_fd=here))
    os.close(here)
    with pytest.raises(EditRefused, match="a is a folder"):
        site.service.new_draft("session").write("a", "in the way\n")
    subprocess.run(["rm", "-r", site.root], check=True)


def test_an_empty_folder_that_the_user_made_after_a_deletion_stays(bench: Make) -> None:
    site = bench({"out/a.txt": "a\n", "b.txt": "b\n"})
    deletion, edit = site.write(**{"out/a.txt": None}), site.edit("b.txt", ("b", "B"))
    site.service.approve(deletion.id)
    (site.root / "out").mkdir()
    assert site.reopened().recover() == []
    assert (site.root / "out").is_dir()
    site.service.approve(edit.id)
    assert (site.root / "out").is_dir()


def test_a_file_and_a_folder_of_the_same_name_conflict(bench: Make) -> None:
    site = bench({})
    changes = [PathChange(path, None, FileOrLink(b"x\n", 0o644)) for path in ("a", "a/b")]
    proposal = site.service.stage_changes(changes, ProposalOrigin(), "Both")
    with pytest.raises(ApplyFailed, match="a can't be a file and the folder of a/b"):
        site.service.approve(proposal.id)
    assert not list(site.root.iterdir())
