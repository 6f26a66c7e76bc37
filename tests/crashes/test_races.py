"""Somebody changes one of the files at any step of an apply, also where it is killed: nothing of theirs is lost, the
other files are all old or all new, and the next start ends it."""

import copy
import errno
import functools
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.proposals.files.filesystem import PosixFilesystem
from app.proposals.locate.matching import Replacement
from app.proposals.proposal_service import ProposalService
from app.proposals.values.models import ProposalState
from app.proposals.values.proposal_errors import ProposalError
from app.workspace.paths import Workspace
from tests.examples import scale_step
from tests.unit.proposals.faults import CHANGING, Watched
from tests.unit.proposals.memory_store import MemoryStore

LIMIT = 4096
"""Bytes that a file may have to be read at all."""
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
MOMENTS = 40
"""More than an apply of these files has steps."""


class Killed(BaseException):
    """The process ends here: nothing that follows an `Exception` is run."""


@dataclass
class Script:
    """What happens before which step of the disk and the store."""

    at: dict[int, Callable[[], None]] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def reach(self, name: str) -> None:
        self.names.append(name)
        self.at.get(len(self.names), lambda: None)()


class Stepping(PosixFilesystem):
    """The disk, with a step before each change of it, also inside of an exchange that takes several."""

    def __init__(self, root: Path, script: Script) -> None:
        super().__init__(root, LIMIT)
        self._script = script


def _stepping(name: str) -> Callable[..., Any]:
    def method(self: Stepping, *arguments: Any) -> Any:
        self._script.reach(name)
        return getattr(PosixFilesystem, name)(self, *arguments)

    return method


for _name in CHANGING & vars(PosixFilesystem).keys():
    setattr(Stepping, _name, _stepping(_name))


def kill() -> None:
    raise Killed


def write_old(root: Path) -> None:
    """Make the workspace."""
    for path, data in OLD.items():
        if data is not None:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)


@functools.cache
def staged() -> MemoryStore:
    """What the proposal has put into the store: the same for each site, and half of what one would cost."""
    store = MemoryStore()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "workspace")
        write_old(root)
        service = ProposalService(Workspace(root, read_limit=LIMIT), store, Path(folder, "lock"))
        draft = service.new_draft("session")
        for path in ("edit1", "edit2"):
            draft.edit(path, [Replacement("two", "2")])
        for path in ("gone1", "sub/gone2"):
            draft.delete(path)
        for path in ("made1", "new/made2"):
            draft.write(path, "hello\n")
        service.stage(draft, "Six files")
    return store


class Site:
    """A workspace with a proposal over six files, and somebody who changes one of them."""

    def __init__(self, folder: Path, victim: str, intruder: str) -> None:
        self.folder, self.victim, self.intruder = folder, victim, intruder
        self.root = folder / "workspace"
        self.store = copy.deepcopy(staged())
        self.told: list[str] = []
        write_old(self.root)
        self.node: os.stat_result | None = None
        self._staged = folder / "staged"
        self._stage()
        self.staged = self._staged.lstat()

    def service(self, script: Script | None = None) -> ProposalService:
        workspace = Workspace(self.root, read_limit=LIMIT)
        disk = PosixFilesystem(workspace.root, LIMIT) if script is None else Stepping(workspace.root, script)
        store: Any = self.store if script is None else Watched(self.store, script)  # type: ignore[arg-type]
        service = ProposalService(workspace, store, self.folder / "lock", disk)
        service.notify = self.told.append
        return service

    def _stage(self) -> None:
        match self.intruder:
            case "link":
                self._staged.symlink_to("/etc/hostname")
            case "pipe":
                os.mkfifo(self._staged)
            case "folder":
                self._staged.mkdir()
                (self._staged / "inside").write_bytes(b"mine\n")
            case "huge":
                self._staged.write_bytes(b"x" * (LIMIT + 1))
            case "same as old":
                self._staged.write_bytes(OLD[self.victim] or b"mine\n")
            case "same as new":
                self._staged.write_bytes(NEW[self.victim] or b"mine\n")
            case _:
                self._staged.write_bytes(b"mine\n")
        if self.intruder == "unreadable":
            self._staged.chmod(0)

    def intrude(self) -> None:
        """What somebody does at the chosen moment."""
        path = self.root / self.victim
        path.parent.mkdir(exist_ok=True)
        if self.intruder == "written to":
            with path.open("ab") as out:
                out.write(b"mine\n")
                self.node = path.stat()
            return
        path.unlink(missing_ok=True)
        if self.intruder != "nothing":
            self._staged.rename(path)
            self.node = path.lstat()

    def check(self) -> None:
        """Whole but for the victim, whose intruder is there or where it was told; nothing else lies about."""
        names = {path.relative_to(self.root).as_posix(): path for path in self.root.rglob("*")}
        files = {name: path for name, path in names.items() if not path.is_dir() or path.is_symlink()}
        others = [path for path in OLD if path != self.victim]
        now = {path: files[path].read_bytes() if path in files else None for path in others}
        assert now in ({path: OLD[path] for path in others}, {path: NEW[path] for path in others})
        state = self.service().get("P1").state
        new = now == {path: NEW[path] for path in others}
        assert (state is ProposalState.APPLIED) == new
        assert not [name for name in names if ".signoff-" in name]
        words = " ".join(self.told)
        for name in files.keys() - OLD.keys() - {f"{self.victim}/inside"}:
            assert ".kept-P1-" in name
            assert name.removesuffix("/inside") in words
        if self.node is not None:
            own = (self.node.st_dev, self.node.st_ino)
            found = [path for path in names.values() if (path.lstat().st_dev, path.lstat().st_ino) == own]
            if self.intruder == "written to" and not found:
                # It was one of ours: the bytes count, wherever they were copied to.
                found = [path for path in files.values() if path.read_bytes().endswith(b"mine\n")]
            assert found, "the intruder is gone"
            if self.intruder == "written to":
                assert found[0].read_bytes().endswith(b"mine\n")
            if self.intruder == "folder":
                assert (found[0] / "inside").read_bytes() == b"mine\n"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    return lambda: tmp_path_factory.mktemp("race")


def play(site: Site, script: Script, act: Callable[[ProposalService], Any]) -> None:
    """Let a process do something, as far as it gets."""
    try:
        site.told += act(site.service(script)) or []
    except ProposalError as error:
        site.told.append(str(error))
    except Killed:
        pass


def approve(service: ProposalService) -> None:
    service.approve("P1")


def ends(site: Site) -> None:
    """The next start puts everything right, and the one after it has nothing left to do."""
    site.told += site.service().recover()
    site.check()
    assert site.service().recover() == []
    site.check()


def test_apply_passes_every_kind_of_step(folders: Callable[[], Path]) -> None:
    site, script = Site(folders(), "edit1", "nothing"), Script()
    play(site, script, approve)
    assert {"exchange", "move_to_temp", "move_to_path", "write_new", "mark_journal_prepared", "make_folder"} <= set(
        script.names
    )
    assert 15 < len(script.names) < MOMENTS


@pytest.mark.parametrize("killed", [False, True], ids=["alive", "killed"])
@pytest.mark.parametrize("intruder", INTRUDERS)
@pytest.mark.parametrize(
    "victim", ["edit1", *(pytest.param(path, marks=pytest.mark.soak) for path in ("gone1", "made1"))]
)
def test_a_file_changes_at_any_step(folders: Callable[[], Path], victim: str, intruder: str, killed: bool) -> None:
    for moment in range(1, MOMENTS, scale_step(1)):
        site, script = Site(folders(), victim, intruder), Script()
        script.at[moment] = site.intrude
        if killed:
            script.at[moment + 1] = kill
        play(site, script, approve)
        ends(site)
        shutil.rmtree(site.folder)
        if len(script.names) < moment:
            break


@pytest.mark.parametrize("one_step", [True, False], ids=["exchange", "no exchange"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    victim=st.sampled_from(sorted(OLD)),
    intruder=st.sampled_from(INTRUDERS),
    moment=st.integers(1, MOMENTS),
    killed=st.integers(1, MOMENTS),
    recovered=st.integers(1, MOMENTS),
    late=st.booleans(),
)
def test_somebody_changes_a_file_of_a_killed_apply_or_of_its_killed_recovery(
    folders: Callable[[], Path],
    monkeypatch: pytest.MonkeyPatch,
    one_step: bool,
    victim: str,
    intruder: str,
    moment: int,
    killed: int,
    recovered: int,
    late: bool,
) -> None:
    if not one_step:
        monkeypatch.setattr("app.proposals.files.filesystem._renameat2", lambda: None)
    site = Site(folders(), victim, intruder)
    apply, recover = Script({killed: kill}), Script({recovered: kill})
    chosen = recover if late else apply
    due = chosen.at.get(moment, lambda: None)

    def intrude() -> None:
        site.intrude()
        due()

    chosen.at[moment] = intrude
    play(site, apply, approve)
    play(site, recover, lambda service: service.recover())
    ends(site)
    shutil.rmtree(site.folder)


@pytest.mark.parametrize("killed", [False, True], ids=["alive", "killed"])
@pytest.mark.parametrize("kind", ["link", "folder", "file", "nothing"])
@pytest.mark.parametrize("name", ["sub", "new"])
def test_a_folder_is_moved_at_any_step(folders: Callable[[], Path], name: str, kind: str, killed: bool) -> None:
    """Nothing is written through a link, and the files outside of the folder are whole."""
    others = [path for path in OLD if not path.startswith(f"{name}/")]
    for moment in range(1, MOMENTS, scale_step(1)):
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
        play(site, script, approve)
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


def test_a_real_race(folders: Callable[[], Path]) -> None:
    """Another process, at a moment that nobody chose."""
    moments = random.Random(1)
    for intruder, victim in product(("link", "pipe", "huge", "file"), ("edit1", "gone1", "made1")):
        site = Site(folders(), victim, intruder)
        rival = os.fork()
        if not rival:
            time.sleep(moments.uniform(0, 0.004))
            site.intrude()
            os._exit(0)
        moments.random()
        play(site, Script(), approve)
        assert os.waitpid(rival, 0)[1] == 0
        site.node = site.staged
        ends(site)


def test_the_next_decision_reports_what_recovery_kept(folders: Callable[[], Path]) -> None:
    site = Site(folders(), "edit1", "file")
    script = Script()
    play(site, script, approve)
    swapped = script.names.index("exchange") + 1
    site = Site(folders(), "edit1", "file")
    play(site, Script({swapped + 1: site.intrude, swapped + 2: kill}), approve)
    site.service().rebase_pending()
    [line] = site.told
    assert "edit1.kept-P1-" in line
    site.check()


def test_a_recovery_that_cannot_be_recorded_says_so_once_and_ends_later(folders: Callable[[], Path]) -> None:
    site, script = Site(folders(), "edit1", "nothing"), Script()
    play(site, script, approve)
    site = Site(folders(), "edit1", "nothing")
    play(site, Script({script.names.index("exchange") + 2: kill}), approve)

    def full(name: str) -> None:
        if name == "close_journal_record":
            raise OSError(errno.ENOSPC, "No space left on device")

    site.store.before_write = full
    service = site.service()
    [line] = service.recover()
    assert "every file is as before" in line
    assert "could not be recorded yet (no space left on device)" in line
    service.rebase_pending()
    assert site.told == [], "said once"
    site.store.before_write = lambda name: None
    [line] = service.recover()
    assert "recorded" not in line
    site.told.append(line)
    ends(site)


def test_write_during_a_replacement_is_kept(folders: Callable[[], Path]) -> None:
    site, script = Site(folders(), "edit1", "nothing"), Script()
    play(site, script, approve)
    late = script.names.index("close_journal_record") + 1
    site = Site(folders(), "edit1", "nothing")
    with (site.root / "edit1").open("ab") as editor:

        def write() -> None:
            editor.write(b"mine\n")
            editor.flush()

        play(site, Script({late: write}), approve)
    [line] = site.told
    [kept] = [path for path in site.root.iterdir() if "kept" in path.name]
    assert kept.name in line
    assert kept.read_bytes() == b"one\ntwo\nmine\n"
    assert (site.root / "edit1").read_bytes() == NEW["edit1"]
