"""A process that is killed, or a disk that fails, at each step of an apply.

Every file is old or every file is new, and the next start reports which. An ordinary run tests every fourth step.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from operator import eq, le
from pathlib import Path
from typing import Any

import pytest

from app.proposals.files.filesystem import OPEN_FOLDERS, PosixFilesystem
from app.proposals.locate.matching import TextReplacement
from app.proposals.proposal_service import ProposalService
from app.proposals.values.models import ProposalState
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.proposals.values.proposal_errors import ApplyFailed, ProposalError, RecoveryNeeded
from app.sandbox.captured_changes import FileOrLink, PathChange
from app.storage.database import Database
from app.storage.process_coordination import DatabaseChangeSignal
from app.storage.sqlite_proposal_store import SqliteProposalStore
from app.workspace.paths import Workspace
from tests.examples import scale_step
from tests.unit.proposals.bench import Tree, tree
from tests.unit.proposals.faults import CHANGING, Steps, TornDisk, Watched, broken, in_child, kill, no_space

ACTIONS = ("apply", *(pytest.param(action, marks=pytest.mark.soak) for action in ("undo", "redo", "deny", "reopen")))


@dataclass
class Site:
    """A copy of the workspace and its store, opened as a process opens them."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "workspace"

    def open(self, steps: Steps | None = None, *, torn: bool = False) -> ProposalService:
        workspace = Workspace(self.root)
        database = Database(self.folder / "state" / "signoff.db")
        store = SqliteProposalStore(database, "here", DatabaseChangeSignal(self.folder / "signals", "here"))
        if steps is None:
            return ProposalService(workspace, store, self.folder / "lock")
        if torn:
            torn_disk = TornDisk(workspace.root, workspace.read_limit, steps)
            return ProposalService(workspace, store, self.folder / "lock", torn_disk)
        disk: Any = Watched(PosixFilesystem(workspace.root, workspace.read_limit, OPEN_FOLDERS), steps)
        return ProposalService(workspace, Watched(store, steps), self.folder / "lock", disk)

    def tree(self) -> Tree:
        return tree(self.root)


@dataclass
class Case:
    """A proposal of 20 files, and the trees before and after the action."""

    site: Site
    action: str
    before: Tree
    after: Tree
    states: tuple[ProposalState, ProposalState]
    copies: Path

    def copy(self) -> Site:
        target = tempfile.mkdtemp(dir=self.copies)
        shutil.copytree(self.site.folder, target, dirs_exist_ok=True)
        return Site(Path(target))

    def run_action(self, service: ProposalService) -> None:
        actions: dict[str, Callable[[str], object]] = {
            "apply": service.approve,
            "redo": service.redo,
            "deny": service.deny,
        }
        actions.get(self.action, service.undo)("P1")

    def check(self, site: Site, lines: list[str]) -> None:
        """Assert that all files are old or all are new, that the proposal's state agrees, and that no temporary file
        remains.
        """
        service = site.open()
        now, state = site.tree(), service.get("P1").state
        assert (now, state) in ((self.before, self.states[0]), (self.after, self.states[1]))
        if lines:
            assert len(lines) == 1
            assert ("it was completed" in lines[0]) == (now == self.after)
            assert ("every file is as before" in lines[0]) == (now == self.before)
        assert service.recover() == []


def build(folder: Path) -> Site:
    """Create a workspace and stage a proposal of 20 files.

    It has 8 edits (two of files with special modes), 3 renames, 3 deletions, 5 new files, a file that becomes a
    folder and a folder that becomes a file.
    """
    root = folder / "workspace"
    root.mkdir(parents=True)
    for number in range(8):
        (root / f"edit{number}.txt").write_text(f"one {number}\ntwo\nthree\n")
    for name in ("old/a.txt", "old/b.txt", "c.txt", "gone/x.txt", "gone/y.txt", "z.txt", "swap", "tree/leaf.txt"):
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"this is {name}\n")
    (root / "edit0.txt").chmod(0o755)
    (root / "edit1.txt").chmod(0o444)
    site = Site(folder)
    draft = site.open().new_draft("session")
    for number in range(8):
        draft.edit(f"edit{number}.txt", [TextReplacement("two", "2"), TextReplacement("three\n", "three\nfour\n")])
    draft.rename("old/a.txt", "new/a.txt")
    draft.rename("old/b.txt", "new/deep/b.txt")
    draft.edit("new/deep/b.txt", [TextReplacement("this is", "that was")])
    draft.rename("c.txt", "C.txt")
    for name in ("gone/x.txt", "gone/y.txt", "z.txt", "swap", "tree/leaf.txt"):
        draft.delete(name)
    for name in ("swap/inner.txt", "tree", "fresh/1.txt", "fresh/2.txt", "top.txt"):
        draft.write(name, f"new {name}\n")
    site.open().stage(draft, "Twenty files")
    return site


def make_case(folder: Path, action: str) -> Case:
    site = build(folder / "template")
    old = site.tree()
    pending, applied, undone = ProposalState.PENDING, ProposalState.APPLIED, ProposalState.UNDONE
    before, states = old, (pending, applied)
    if action in ("deny", "reopen"):
        return make_case_on_disk(folder, site, action)
    if action != "apply":
        site.open().approve("P1")
        before, states = site.tree(), (applied, undone)
    if action == "redo":
        site.open().undo("P1")
        before, states = site.tree(), (undone, applied)
    return with_result_tree(Case(site, action, before, {}, states, folder))


def make_case_on_disk(folder: Path, site: Site, action: str) -> Case:
    """Return the same changes, made on disk before they are proposed."""
    old = site.tree()
    site.open().approve("P1")
    shutil.rmtree(site.folder / "state")
    new = site.tree()
    changes = [
        PathChange(
            path, FileOrLink(*old[path]) if path in old else None, FileOrLink(*new[path]) if path in new else None
        )
        for path in sorted(old.keys() | new.keys())
        if old.get(path) != new.get(path)
    ]
    site.open().stage_changes(changes, ProposalOrigin(kind=OriginKind.DISK), "Twenty files", on_disk=True)
    states = (ProposalState.PENDING, ProposalState.DENIED)
    if action == "reopen":
        site.open().deny("P1")
        return with_result_tree(Case(site, action, site.tree(), {}, states[::-1], folder))
    return with_result_tree(Case(site, action, new, {}, states, folder))


def with_result_tree(case: Case) -> Case:
    """Run the action in a copy, and return the case with the resulting tree."""
    done = case.copies / "done"
    shutil.copytree(case.site.folder, done)
    case.run_action(Site(done).open())
    case.after = Site(done).tree()
    assert case.after != case.before
    return case


@pytest.fixture(scope="module", params=ACTIONS)
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    return make_case(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """The case of an approval alone."""
    return make_case(tmp_path_factory.mktemp("applied"), "apply")


def steps_of(case: Case, *, torn: bool = False) -> list[str]:
    """Return the names of the action's steps without a failure."""
    steps = Steps()
    site = case.copy()
    case.run_action(site.open(steps, torn=torn))
    shutil.rmtree(site.folder)
    assert not torn or "write_new half" in steps.names
    return steps.names


def kill_midway(case: Case) -> Site:
    """Return a copy in which the action was killed after half of the file replacements."""
    names = steps_of(case)
    middle = [number for number, step in enumerate(names, 1) if step == "exchange"][4]
    site = case.copy()
    steps = Steps(kill, lambda number: number == middle)
    assert in_child(lambda: case.run_action(site.open(steps))) == signal.SIGKILL
    edited = case.before.keys() & case.after.keys()
    assert any(site.tree()[path] == case.after[path] != case.before[path] for path in edited)
    assert any(site.tree()[path] == case.before[path] != case.after[path] for path in edited)
    return site


def run_action_on(case: Case, site: Site, steps: Steps, *, torn: bool = False) -> None:
    """Open the site as a new process does, and run the action."""
    case.run_action(site.open(steps, torn=torn))


def each_step(case: Case, *, torn: bool = False) -> Iterator[tuple[int, Site]]:
    for number in range(1, len(steps_of(case, torn=torn)) + 1, scale_step(1)):
        site = case.copy()
        yield number, site
        shutil.rmtree(site.folder)


def kill_at_each_step(case: Case, *, torn: bool = False) -> Iterator[list[str]]:
    """Kill the action at each step in turn; yield what the next start reports."""
    for number, site in each_step(case, torn=torn):
        steps = Steps(kill, partial(eq, number))
        assert in_child(partial(run_action_on, case, site, steps, torn=torn)) == signal.SIGKILL
        lines = site.open().recover()
        case.check(site, lines)
        yield lines


def test_files_are_all_old_or_all_new_after_a_kill_at_any_step(case: Case) -> None:
    proposal = case.site.open().get("P1")
    assert len(proposal.files) >= 20
    assert {change.op.value for change in proposal.files} >= {"create", "edit", "delete", "rename"}
    outcomes = {lines[0].partition(":")[2] if lines else "" for lines in kill_at_each_step(case)}
    assert len(outcomes) == 3, "killed before the journal, rolled back, and completed"


def test_files_are_all_old_or_all_new_after_a_kill_within_a_write(applied: Case) -> None:
    assert all(len(lines) == 1 for lines in kill_at_each_step(applied, torn=True))


def recover(site: Site, steps: Steps) -> None:
    site.open(steps).recover()


def test_recovery_killed_at_any_step_is_completed_by_the_next_one(applied: Case, tmp_path: Path) -> None:
    killed_site = kill_midway(applied)
    for number in range(1, 400, scale_step(1)):
        site = Site(tmp_path / f"again{number}")
        shutil.copytree(killed_site.folder, site.folder)
        steps = Steps(kill, partial(eq, number))
        ended = in_child(partial(recover, site, steps))
        applied.check(site, site.open().recover())
        shutil.rmtree(site.folder)
        if not ended:
            break
    assert number > 20


@pytest.mark.soak
def test_full_disk_at_any_step_leaves_all_files_unchanged(applied: Case) -> None:
    assert fail_once(applied, no_space) >= 50 // scale_step(1)


def test_disk_failure_at_any_step_leaves_all_files_unchanged(case: Case) -> None:
    assert fail_once(case, broken) >= 50 // scale_step(1)


@pytest.mark.parametrize("fault", [no_space, pytest.param(broken, marks=pytest.mark.soak)])
def test_partial_write_failure_restores_all_files(applied: Case, fault: Callable[[str], None]) -> None:
    assert fail_once(applied, fault, torn=True) >= 16 // scale_step(1)


def fail_once(case: Case, fault: Callable[[str], None], torn: bool = False) -> int:
    """Fail at each step in turn; return how many failures the action reported."""
    refused = 0
    for number, site in each_step(case, torn=torn):
        steps = Steps(fault, partial(eq, number))
        service = site.open(steps, torn=torn)
        try:
            case.run_action(service)
        except Exception as error:
            refused += 1
            assert "\n" not in str(error)
            if isinstance(error, RecoveryNeeded):
                assert len(site.open().recover()) == 1
            assert site.tree() == case.before, (number, steps.names[number - 1])
            assert site.open().recover() == []
            assert site.open().get("P1").state is case.states[0]
            if number % 5 == 0:
                case.run_action(site.open())
        else:
            # After the journal record is closed, only cleanup can fail; the next start repeats it.
            site.open().recover()
        case.check(site, [])
    return refused


def test_recovery_succeeds_after_a_permanent_disk_failure_ends(applied: Case) -> None:
    needed = 0
    for number, site in each_step(applied):
        steps = Steps(broken, partial(le, number))
        try:
            applied.run_action(site.open(steps))
        except RecoveryNeeded as error:
            needed += 1
            assert "start signoff again" in str(error)
        except (ProposalError, OSError):
            pass
        applied.check(site, site.open().recover())
    assert needed > 20 // scale_step(1)


def test_full_disk_is_detected_before_the_first_write(applied: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    site, steps = applied.copy(), Steps()
    monkeypatch.setattr(PosixFilesystem, "free_bytes", lambda _: 4096)
    with pytest.raises(ApplyFailed, match="disk is full"):
        site.open(steps).approve("P1")
    assert not CHANGING.intersection(steps.names)
    applied.check(site, [])


def test_recovery_keeps_a_file_changed_after_the_crash_and_rolls_back_the_rest(applied: Case) -> None:
    site = kill_midway(applied)
    assert site.tree()["edit3.txt"] == applied.after["edit3.txt"]
    (site.root / "edit3.txt").write_text("mine\n")
    [line] = site.open().recover()
    now = site.tree()
    assert now.pop("edit3.txt")[0] == b"mine\n"
    [backup] = [path for path in now if path.startswith("edit3.txt.kept-P1")]
    assert backup in line
    assert "every other file is as before. Another program changed edit3.txt" in line
    assert now.pop(backup) == applied.before["edit3.txt"]
    assert now == {path: file for path, file in applied.before.items() if path != "edit3.txt"}
    assert site.open().get("P1").state is ProposalState.PENDING
    assert site.open().recover() == []


@pytest.mark.parametrize("decide", ["approve", "deny", "refresh"])
def test_next_write_first_recovers_after_a_killed_process(applied: Case, decide: str) -> None:
    site = kill_midway(applied)
    service = site.open()
    service.rebase_pending() if decide == "refresh" else getattr(service, decide)("P1")
    assert site.tree() == (applied.after if decide == "approve" else applied.before)
    assert site.open().recover() == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_apply_finishes_before_a_signal_ends_the_process(case: Case, number: signal.Signals) -> None:
    site = case.copy()
    middle = len(steps_of(case)) // 2

    def interrupt(_: str) -> None:
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    assert in_child(partial(run_action_on, case, site, Steps(interrupt, partial(eq, middle)))) == number
    assert site.tree() == case.after
    assert site.open().recover() == []


def test_next_decision_removes_temporary_files_of_a_killed_process(applied: Case) -> None:
    site = applied.copy()
    service = site.open()
    draft = service.new_draft("session")
    draft.write("later.txt", "later\n")
    later = service.stage(draft, "Later")
    steps = Steps(kill, lambda _: steps.names[-2:] == ["close_journal_record", "remove"])
    assert in_child(lambda: site.open(steps).approve("P1")) == signal.SIGKILL
    assert any(".signoff-" in path for path in site.tree())
    service.approve(later.id)
    assert not any(".signoff-" in path for path in site.tree())


def test_every_changing_operation_of_the_filesystem_is_a_step() -> None:
    names = {name for name in vars(PosixFilesystem) if not name.startswith("_")}
    reading = {
        *("kind", "stat_node", "read", "list_names", "free_bytes", "is_writable", "is_mounted_read_only"),
        *("close", "open_folder"),
    }
    assert names - CHANGING == reading
