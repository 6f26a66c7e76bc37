"""A command, and somebody else who works on the same ignored files at any moment: neither loses what they wrote."""

import asyncio
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.sandbox.captured_changes import IgnoredPathsWriteBackReport
from app.sandbox.confinement import CommandWriteMode, ConfiguredCommandAccess
from app.sandbox.ignored_write_back import IgnoredFileWriter
from app.sandbox.sandbox import Sandbox
from app.workspace.paths import Workspace
from tests.examples import scale_examples

pytestmark = pytest.mark.layer

DATABASE = ("ig/db", "ig/db-wal")
NAMES = ("top.x", "ig/d/c", *DATABASE)
MOMENTS = 250
"""About as many calls and returns as it takes to replace a file."""

COMMANDS = {
    "open": "[ ! -e NAME ] || : >> NAME",
    "write": "printf TEXT > NAME",
    "append": "printf TEXT >> NAME",
    "replace": "printf TEXT > NAME.new; mv NAME.new NAME",
    "delete": "rm -f NAME",
    "delete and write": "rm -f NAME; printf TEXT > NAME",
    "make the folder anew": "rm -rf ig/d; mkdir ig/d; printf TEXT > ig/d/c",
}
APPEND = ("command", "append", "top.x")
OTHERS = ("write", "append", "replace", "delete", "hold")

focus = st.shared(st.sampled_from(NAMES), key="focus")
names = st.one_of(focus, st.sampled_from(NAMES))
by_command = st.tuples(st.just("command"), st.sampled_from(sorted(COMMANDS)), names)
by_other = st.tuples(st.just("other"), st.sampled_from(OTHERS), names)
meanwhile = st.tuples(st.integers(0, MOMENTS), st.sampled_from(OTHERS), names)


class SomebodyElse:
    """Changes files of the workspace, and knows what they have to hold afterwards."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._count = 0
        self._blocked: list[tuple[int, str, str]] = []
        self._held: list[tuple[int, str]] = []
        self._removed: dict[int, int] = {}
        self.last: dict[str, bytes | None] = {}
        """The content of each file after the last change; None if that removed it."""
        self.aside: dict[str, bytes] = {}
        """The same of another file that had the name for a moment, such as the command's version."""
        self._newest = {name: os.open(each, os.O_PATH) for name in NAMES if (each := root / name).exists()}
        """The files that were there before the command, or that somebody else has made; open, as `_removed`."""
        self.unseen: set[str] = set()
        """Names that were missing, and are again after a file was made there and removed: nobody can see that."""
        self._made: set[str] = set()
        self._superseded: list[int] = []
        """Those that somebody else has replaced or removed since, whatever had the name at that moment."""
        self.found: dict[str, set[int]] = {name: set() for name in NAMES}
        """The sizes that files had just before they were changed."""
        self.opened: set[str] = set()

    def act(self, what: str, name: str) -> None:
        path = self._root / name
        if not path.parent.is_dir():
            return
        if path.exists():
            self.found[name].add(path.stat().st_size)
            if what in ("delete", "replace"):
                # Open, so that no other file gets its number.
                self._removed[path.stat().st_ino] = os.open(path, os.O_PATH)
        elif what in ("append", "delete", "hold"):
            return
        if what == "delete":
            path.unlink()
            self._supersede(name, None)
            if name in self._made:
                self.unseen.add(name)
        elif what == "replace" or not path.exists():
            new = path.with_name(f"{path.name}.theirs")
            new.write_bytes(text := self._text())
            newest = os.open(new, os.O_PATH)
            if not path.exists():
                self._made.add(name)
            new.rename(path)
            self._supersede(name, text)
            self._newest[name] = newest
        else:
            # As a process that waits for a lease: it has found the file already.
            self._open(os.open(path, os.O_PATH), what, name, os.O_NONBLOCK)

    def _supersede(self, name: str, content: bytes | None) -> None:
        self.last[name] = content
        self.aside.pop(name, None)
        if name in self._newest:
            self._superseded.append(self._newest.pop(name))

    def is_back(self, path: Path) -> bool:
        """Whether there is a file again that somebody else has replaced or removed."""
        if path.relative_to(self._root).as_posix() in self.unseen:
            return False
        return path.exists() and any(os.path.samestat(path.stat(), os.fstat(each)) for each in self._superseded)

    def _open(self, place: int, what: str, name: str, flags: int) -> None:
        try:
            file = os.open(f"/proc/self/fd/{place}", os.O_RDWR | flags)
        except BlockingIOError:
            self._blocked.append((place, what, name))
            return
        os.close(place)
        self.opened.add(name)
        if what == "hold":
            self._held.append((file, name))
        else:
            self._write(file, name, truncate=what == "write")

    def _write(self, file: int, name: str, *, truncate: bool) -> None:
        if truncate:
            os.ftruncate(file, 0)
        os.pwrite(file, self._text(), os.fstat(file).st_size)
        facts, content = os.fstat(file), os.pread(file, 100_000, 0)
        if name in self._newest and os.path.samestat(facts, os.fstat(self._newest[name])):
            self.last[name] = content
        elif facts.st_ino not in self._removed:
            self.aside[name] = content
        assert facts.st_nlink or facts.st_ino in self._removed, f"{name} was removed while somebody else had it open"
        os.close(file)

    def _text(self) -> bytes:
        self._count += 1
        return b"other" * self._count + b"\n"

    def finish(self) -> None:
        """Do what had to wait, and write to what is held open."""
        blocked, self._blocked = self._blocked, []
        for place, what, name in blocked:
            self._open(place, what, name, 0)
        for file, name in self._held:
            self._write(file, name, truncate=False)

    def close(self) -> None:
        """Close all files."""
        for file in (*self._removed.values(), *self._newest.values(), *self._superseded):
            os.close(file)


@dataclass
class Site:
    """A workspace on which commands run."""

    folder: Path
    root: Path = field(init=False)

    def __post_init__(self) -> None:
        self.root, self.shared = self.folder / "ws", self.folder / "shared"
        for each in (self.root, self.shared):
            each.mkdir()
        for name in ("go", "done"):
            os.mkfifo(self.shared / name)
        permissions = ConfiguredCommandAccess((str(self.shared),))
        self.sandbox = Sandbox(
            Workspace(self.root),
            self.folder / "runs",
            own_folders=(),
            permissions=permissions,
            modes=[CommandWriteMode.OVERLAY],
        )

    def begin(self, contents: dict[str, bytes]) -> None:
        shutil.rmtree(self.root)
        shutil.rmtree(self.folder / "runs/kept", ignore_errors=True)
        (self.root / "ig/d").mkdir(parents=True)
        (self.root / ".gitignore").write_text("ig/\n*.x*\n")
        for name, data in contents.items():
            (self.root / name).write_bytes(data)

    def content(self, name: str, root: Path | None = None) -> bytes | None:
        try:
            return ((root or self.root) / name).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def kept(self, name: str) -> list[bytes]:
        places = (self.folder / "runs/kept").glob(f"*/*/{name}*")
        return [each.read_bytes() for each in places if stat.S_ISREG(each.lstat().st_mode)]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="signoff-tests-") as folder:
        yield Site(Path(folder).resolve())


class Interleaving:
    """One command, with what somebody else does while it runs and while its files are written."""

    def __init__(self, site: Site, steps: list[Any], moments: list[Any]) -> None:
        self.site, self.steps = site, steps
        self.moments = sorted(moments)
        self.other = SomebodyElse(site.root)
        self.changed: set[str] = set()
        """What the command has changed."""
        self.final: dict[str, bytes | None] = {}
        """What the command has seen at its end."""

    async def run(self) -> IgnoredPathsWriteBackReport:
        shared = self.site.shared
        program = (
            f"exec 3<>{shared}/go 4<>{shared}/done; "
            'while read -r line <&3 && [ "$line" != end ]; do eval "$line"; echo >&4; done; '
            # It need not see a file that somebody else has made beside it.
            f"rm -rf {shared}/final; cp -a . {shared}/final; :"
        )
        go, done = (os.open(shared / name, os.O_RDWR) for name in ("go", "done"))
        try:
            async with self.site.sandbox.open_run({}) as run:
                words = ["/bin/sh", "-c", program]
                running = asyncio.create_task(run.execute(words, folder=".", seconds=50, output=lambda data: None))
                os.write(go, b":\n")
                await asyncio.to_thread(os.read, done, 1)
                for number, (who, what, name) in enumerate(self.steps, 1):
                    if who == "other":
                        self.other.act(what, name)
                        continue
                    line = COMMANDS[what].replace("NAME", name).replace("TEXT", "c" * number)
                    os.write(go, f"{line}\n".encode())
                    await asyncio.to_thread(os.read, done, 1)
                    if what != "open":
                        self.changed.add("ig/d/c" if "folder" in what else name)
                os.write(go, b"end\n")
                assert (await running).code == 0
                self.final = {name: self.site.content(name, shared / "final") for name in NAMES}
                found = await run.find_changes()
                with patch.object(IgnoredFileWriter, "write", self._watched(IgnoredFileWriter.write)):
                    report = await run.write_back(found.ignored_paths)
        finally:
            os.close(go)
            os.close(done)
        for _, what, name in self.moments:
            self.other.act(what, name)
        self.other.finish()
        return report

    def _watched(self, write: Any) -> Any:
        """The same function, at any moment of which somebody else can act."""

        def watched(*arguments: Any) -> Any:
            count, replacing = 0, False

            def step(frame: FrameType, event: str, argument: Any) -> None:
                nonlocal count, replacing
                if frame.f_code is IgnoredFileWriter._replace_files.__code__:
                    replacing = event != "return"
                # Most of the rest only reads; of all of it the moment before the first call counts as one.
                count += replacing or not count
                while self.moments and self.moments[0][0] < count:
                    _, what, name = self.moments.pop(0)
                    self.other.act(what, name)

            sys.setprofile(step)
            try:
                return write(*arguments)
            finally:
                sys.setprofile(None)

        return watched


@settings(max_examples=scale_examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    there=st.sets(st.sampled_from(NAMES)),
    steps=st.lists(st.one_of(by_command, by_other), min_size=1, max_size=8),
    moments=st.lists(meanwhile, max_size=3),
)
@example(there={"top.x"}, steps=[APPEND], moments=[(14, "write", "top.x"), (104, "replace", "top.x")])
@example(there={"top.x"}, steps=[APPEND], moments=[(14, "write", "top.x"), (130, "replace", "top.x")])
@example(there={"top.x"}, steps=[APPEND], moments=[(14, "write", "top.x"), (130, "delete", "top.x")])
@example(there={"top.x"}, steps=[APPEND], moments=[(14, "write", "top.x"), (130, "append", "top.x")])
@example(
    there=set(DATABASE),
    steps=[("command", "delete", "ig/db"), ("command", "replace", "ig/db-wal")],
    moments=[(144, "write", "ig/db"), (193, "write", "ig/db"), (303, "delete", "ig/db")],
)
def test_no_side_loses_a_byte(site: Site, there: set[str], steps: list[Any], moments: list[Any]) -> None:
    before = {name: b"before " + name.encode() for name in sorted(there)}
    site.begin(before)
    trial = Interleaving(site, steps, moments)
    report = asyncio.run(trial.run())
    other, final = trial.other, trial.final
    back = [name for name in NAMES if other.is_back(site.root / name)]
    other.close()
    assert not back, (back, report)
    for name in NAMES:
        disk = site.content(name)
        group = set(DATABASE) if name in DATABASE else {name}
        kept, aside = site.kept(name), other.aside.get(name)
        assert aside is None or aside in (disk, *kept), (name, report)
        if aside is not None and disk == aside:
            assert other.last.get(name) in (None, *kept), (name, report)
        elif other.last.get(name) is not None:
            assert disk == other.last[name], (name, report)
        elif name in other.last:
            unseen = name in other.unseen and disk == before.get(name)
            assert disk is None or disk == final[name] or unseen, (name, report)
        elif not group & (other.opened | other.last.keys()):
            assert disk == (final[name] if name in trial.changed else before.get(name)), (name, report)
        else:
            assert disk in (before.get(name), final[name]), (name, report)
        if name in trial.changed and (text := final[name]) is not None and disk != text:
            assert text in kept or len(text) in other.found[name], (name, report)
