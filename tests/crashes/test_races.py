"""Another process changes a file at any step of an apply, also of a killed one.

Its change is never lost, the other files are all old or all new, and the next start completes the operation.
"""

import copy
import errno
import functools
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.proposals.files.filesystem import PosixFilesystem
from app.proposals.locate.matching import TextReplacement
from app.proposals.proposal_service import ProposalService
from app.proposals.values.models import ProposalState
from app.proposals.values.proposal_errors import ProposalError
from app.workspace.paths import Workspace
from tests.examples import scale_step
from tests.unit.proposals.faults import CHANGING, Watched
from tests.unit.proposals.memory_store import MemoryStore

READ_LIMIT = 4096
"""Maximum number of bytes of a file that is read."""
OLD = {
    "edit1": b"one\ntwo\n",
    "edit2": b"one\ntwo\n",
    "gone1": b"bye\n",
    "sub/gone2": b"bye\n",
    "made1": None,
    "new/made2": None,
}
NEW = {
    "edit1": b"one\n2\n",
    "edit2": b"one\n2\n",
    "gone1": None,
    "sub/gone2": None,
    "made1": b"hello\n",
    "new/made2": b"hello\n",
}
INTRUDERS = (
    "link",
    "pipe",
    "folder",
    "huge",
    "file",
    "unreadable",
    "same as old",
    "same as new",
    "nothing",
    "written to",
)
MAX_STEPS = 40
"""Upper limit of the number of steps of an apply of these files."""


class Killed(BaseException):
    """The process is killed: no handler of `Exception` runs."""


@dataclass
class Script:
    """Actions that run before given steps of the disk and the store."""

    at: dict[int, Callable[[], None]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def reach(self, name: str) -> None:
        self.names.append(name)
        self.at.get(len(self.names), lambda: None)()


class SteppedFilesystem(PosixFilesystem):
    """The disk, with a step before each change, also within an exchange that takes several changes."""

    def __init__(self, root: Path, script: Script) -> None:
        super().__init__(root, READ_LIMIT)
        self._script = script


def _step_method(name: str) -> Callable[..., Any]:
    def method(self: SteppedFilesystem, *arguments: Any) -> Any:
        self._script.reach(name)
        return getattr(PosixFilesystem, name)(self, *arguments)

    return method


for _name in CHANGING & vars(PosixFilesystem).keys():
    setattr(SteppedFilesystem, _name, _step_method(_name))


def kill() -> None:
    raise Killed


def write_old(root: Path) -> None:
    for path, data in OLD.items():
        if data is not None:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)


@functools.cache
def make_staged_store() -> MemoryStore:
    """Return the store with the staged proposal; cached, because it is the same for each site."""
    store = MemoryStore()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "workspace")
        write_old(root)
        service = ProposalService(Workspace(root, read_limit=READ_LIMIT), store, Path(folder, "lock"))
        draft = service.new_draft("session")
        for path in ("edit1", "edit2"):
            draft.edit(path, [TextReplacement("two", "2")])
        for path in ("gone1", "sub/gone2"):
            draft.delete(path)
        for path in ("made1", "new/made2"):
            draft.write(path, "hello\n")
        service.stage(draft, "Six files")
    return store


class Site:
    """A workspace with a proposal of six files, and an intruder who changes one of them."""

    def __init__(self, folder: Path, victim: str, intruder: str) -> None:
        self.folder, self.victim, self.intruder = folder, victim, intruder
        self.root = folder / "workspace"
        self.store = copy.deepcopy(make_staged_store())
        self.messages: list[str] = []
        write_old(self.root)
        self.node: os.stat_result | None = None
        self._intruder_path = folder / "intruder"
        self._prepare_intruder()
        self.staged_node = self._intruder_path.lstat()

    def service(self, script: Script | None = None) -> ProposalService:
        workspace = Workspace(self.root, read_limit=READ_LIMIT)
        disk = (
            PosixFilesystem(workspace.root, READ_LIMIT)
            if script is None
            else SteppedFilesystem(workspace.root, script)
        )
        store: Any = self.store if script is None else Watched(self.store, script)  # type: ignore[arg-type]
        service = ProposalService(workspace, store, self.folder / "lock", disk)
        service.notify = self.messages.append
        return service

    def _prepare_intruder(self) -> None:
        match self.intruder:
            case "link":
                self._intruder_path.symlink_to("/etc/hostname")
            case "pipe":
                os.mkfifo(self._intruder_path)
            case "folder":
                self._intruder_path.mkdir()
                (self._intruder_path / "inside").write_bytes(b"mine\n")
            case "huge":
                self._intruder_path.write_bytes(b"x" * (READ_LIMIT + 1))
            case "same as old":
                self._intruder_path.write_bytes(OLD[self.victim] or b"mine\n")
            case "same as new":
                self._intruder_path.write_bytes(NEW[self.victim] or b"mine\n")
            case _:
                self._intruder_path.write_bytes(b"mine\n")
        if self.intruder == "unreadable":
            self._intruder_path.chmod(0)

    def intrude(self) -> None:
        path = self.root / self.victim
        path.parent.mkdir(exist_ok=True)
        if self.intruder == "written to":
            with path.open("ab") as out:
                out.write(b"mine\n")
                self.node = path.stat()
            return
        path.unlink(missing_ok=True)
        if self.intruder != "nothing":
            self._intruder_path.rename(path)
            self.node = path.lstat()

    def check(self) -> None:
        """Assert that all other files are old or new, and that the intruder's file is in its place or at a reported
        path.
        """
        names = {path.relative_to(self.root).as_posix(): path for path in self.root.rglob("*")}
        files = {name: path for name, path in names.items() if not path.is_dir() or path.is_symlink()}
        others = [path for path in OLD if path != self.victim]
        now = {path: files[path].read_bytes() if path in files else None for path in others}
        assert now in ({path: OLD[path] for path in others}, {path: NEW[path] for path in others})
        state = self.service().get("P1").state
        all_new = now == {path: NEW[path] for path in others}
        assert (state is ProposalState.APPLIED) == all_new
        assert not [name for name in names if ".signoff-" in name]
        report = " ".join(self.messages)
        for name in files.keys() - OLD.keys() - {f"{self.victim}/inside"}:
            assert ".kept-P1-" in name
            assert name.removesuffix("/inside") in report
        if self.node is not None:
            intruder_id = (self.node.st_dev, self.node.st_ino)
            paths = [path for path in names.values() if (path.lstat().st_dev, path.lstat().st_ino) == intruder_id]
            if self.intruder == "written to" and not paths:
                # The file was ours: its bytes must exist, perhaps in a copy.
                paths = [path for path in files.values() if path.read_bytes().endswith(b"mine\n")]
            assert paths, "the intruder's file is lost"
            if self.intruder == "written to":
                assert paths[0].read_bytes().endswith(b"mine\n")
            if self.intruder == "folder":
                assert (paths[0] / "inside").read_bytes() == b"mine\n"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    return lambda: tmp_path_factory.mktemp("race")


def run_until_killed(site: Site, script: Script, action: Callable[[ProposalService], Any]) -> None:
    try:
        site.messages += action(site.service(script)) or []
    except ProposalError as error:
        site.messages.append(str(error))
    except Killed:
        pass


def approve(service: ProposalService) -> None:
    service.approve("P1")


def assert_recovers(site: Site) -> None:
    """Assert that the next start recovers, and that a second recovery finds nothing to do."""
    site.messages += site.service().recover()
    site.check()
    assert site.service().recover() == []
    site.check()


@functools.cache
def steps_of_apply() -> list[str]:
    """Return the names of the steps of an apply without an intruder."""
    with tempfile.TemporaryDirectory() as folder:
        script = Script()
        run_until_killed(Site(Path(folder), "edit1", "nothing"), script, approve)
    return script.names


def test_apply_has_every_kind_of_step() -> None:
    names = {"exchange", "move_to_temp", "move_to_path", "write_new", "mark_journal_prepared", "make_folder"}
    assert names <= set(steps_of_apply())
    assert 15 < len(steps_of_apply()) < MAX_STEPS


@pytest.mark.parametrize("killed", [False, True], ids=["alive", "killed"])
@pytest.mark.parametrize("intruder", INTRUDERS)
@pytest.mark.parametrize(
    "victim", ["edit1", *(pytest.param(path, marks=pytest.mark.soak) for path in ("gone1", "made1"))]
)
def test_intruder_at_any_step_loses_nothing(
    folders: Callable[[], Path], victim: str, intruder: str, killed: bool
) -> None:
    for moment in range(1, MAX_STEPS, scale_step(1)):
        site, script = Site(folders(), victim, intruder), Script()
        script.at[moment] = site.intrude
        if killed:
            script.at[moment + 1] = kill
        run_until_killed(site, script, approve)
        assert_recovers(site)
        shutil.rmtree(site.folder)
        if len(script.names) < moment:
            break


@pytest.mark.parametrize("has_exchange", [True, False], ids=["exchange", "no exchange"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    victim=st.sampled_from(sorted(OLD)),
    intruder=st.sampled_from(INTRUDERS),
    moment=st.integers(1, MAX_STEPS),
    killed=st.integers(1, MAX_STEPS),
    recovered=st.integers(1, MAX_STEPS),
    in_recovery=st.booleans(),
)
def test_intruder_in_a_killed_apply_or_a_killed_recovery_loses_nothing(
    folders: Callable[[], Path],
    monkeypatch: pytest.MonkeyPatch,
    has_exchange: bool,
    victim: str,
    intruder: str,
    moment: int,
    killed: int,
    recovered: int,
    in_recovery: bool,
) -> None:
    if not has_exchange:
        monkeypatch.setattr("app.proposals.files.filesystem._renameat2", lambda: None)
    site = Site(folders(), victim, intruder)
    apply, recover = Script({killed: kill}), Script({recovered: kill})
    script = recover if in_recovery else apply
    previous_action = script.at.get(moment, lambda: None)

    def intrude() -> None:
        site.intrude()
        previous_action()

    script.at[moment] = intrude
    run_until_killed(site, apply, approve)
    run_until_killed(site, recover, lambda service: service.recover())
    assert_recovers(site)
    shutil.rmtree(site.folder)


@pytest.mark.parametrize("killed", [False, True], ids=["alive", "killed"])
@pytest.mark.parametrize("kind", ["link", "folder", "file", "nothing"])
@pytest.mark.parametrize("name", ["sub", "new"])
def test_moved_folder_at_any_step_loses_nothing(
    folders: Callable[[], Path], name: str, kind: str, killed: bool
) -> None:
    """Nothing is written through a link, and the files outside of the folder stay intact."""
    others = [path for path in OLD if not path.startswith(f"{name}/")]
    for moment in range(1, MAX_STEPS, scale_step(1)):
        site, script = Site(folders(), "edit1", "nothing"), Script()
        outside = site.folder / "outside"
        outside.mkdir()
        for path in ("gone2", "made2"):
            (outside / path).write_bytes(b"theirs\n")

        def intrude(site: Site = site, outside: Path = outside) -> None:
            folder = site.root / name
            if folder.exists():
                folder.rename(site.folder / "moved")
            match kind:
                case "link":
                    folder.symlink_to(outside)
                case "folder":
                    folder.mkdir()
                case "file":
                    folder.write_bytes(b"mine\n")

        script.at[moment] = intrude
        if killed:
            script.at[moment + 1] = kill
        run_until_killed(site, script, approve)
        site.service().recover()
        assert site.service().recover() == []
        now = {path: file.read_bytes() if (file := site.root / path).is_file() else None for path in others}
        assert now in ({path: OLD[path] for path in others}, {path: NEW[path] for path in others})
        assert {path.name: path.read_bytes() for path in outside.iterdir()} == dict.fromkeys(
            ("gone2", "made2"), b"theirs\n"
        )
        if len(script.names) < moment:
            break
        assert kind != "file" or (site.root / name).read_bytes() == b"mine\n"
        shutil.rmtree(site.folder)


def test_intruder_process_at_a_random_moment_loses_nothing(folders: Callable[[], Path]) -> None:
    dice = random.Random(1)
    for intruder, victim in product(("link", "pipe", "huge", "file"), ("edit1", "gone1", "made1")):
        site = Site(folders(), victim, intruder)
        child = os.fork()
        if not child:
            try:
                time.sleep(dice.uniform(0, 0.004))
                # The apply may move the intruder's file before the intruder looks at it.
                with suppress(FileNotFoundError):
                    site.intrude()
                os._exit(0)
            finally:
                # An exception must not leave the child: it would go on with the tests of its parent.
                os._exit(1)
        dice.random()
        run_until_killed(site, Script(), approve)
        assert os.waitpid(child, 0)[1] == 0
        site.node = site.staged_node
        assert_recovers(site)


def test_next_decision_reports_the_file_that_recovery_kept(folders: Callable[[], Path]) -> None:
    site, step = Site(folders(), "edit1", "file"), steps_of_apply().index("exchange") + 2
    run_until_killed(site, Script({step: site.intrude, step + 1: kill}), approve)
    site.service().rebase_pending()
    [line] = site.messages
    assert "edit1.kept-P1-" in line
    site.check()


def test_unrecorded_recovery_is_reported_once_and_completed_later(folders: Callable[[], Path]) -> None:
    site = Site(folders(), "edit1", "nothing")
    run_until_killed(site, Script({steps_of_apply().index("exchange") + 2: kill}), approve)

    def full(name: str) -> None:
        if name == "close_journal_record":
            raise OSError(errno.ENOSPC, "No space left on device")

    site.store.before_write = full
    service = site.service()
    [line] = service.recover()
    assert "every file is as before" in line
    assert "could not be recorded yet (no space left on device)" in line
    service.rebase_pending()
    assert site.messages == [], "reported once"
    site.store.before_write = lambda name: None
    [line] = service.recover()
    assert "recorded" not in line
    site.messages.append(line)
    assert_recovers(site)


def test_write_during_a_replacement_is_kept(folders: Callable[[], Path]) -> None:
    site, in_recovery = Site(folders(), "edit1", "nothing"), steps_of_apply().index("close_journal_record") + 1
    with (site.root / "edit1").open("ab") as editor:

        def write() -> None:
            editor.write(b"mine\n")
            editor.flush()

        run_until_killed(site, Script({in_recovery: write}), approve)
    [line] = site.messages
    [kept] = [path for path in site.root.iterdir() if "kept" in path.name]
    assert kept.name in line
    assert kept.read_bytes() == b"one\ntwo\nmine\n"
    assert (site.root / "edit1").read_bytes() == NEW["edit1"]
