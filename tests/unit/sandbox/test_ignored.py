"""An ignored file that a command has opened or changed: nobody else's work is lost, nor is the command's."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.sandbox.confinement import CommandWriteMode
from app.sandbox.ignored_write_back import IgnoredFileWriter
from app.tools.base.contract import PermissionAnswer, ToolOutput
from app.tools.command import command_result
from app.workspace.paths import Workspace
from tests.unit.tools.memory_draft import Bench, MemoryDraft

pytestmark = pytest.mark.layer

IGNORED = "*.sqlite3*\n.env\n*.log\nbuild/\n__pycache__/\n"


def put(path: Path, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class Trial:
    """A workspace in which a command runs, and somebody else works meanwhile."""

    def __init__(self, tmp_path: Path) -> None:
        self.root = tmp_path / "ws"
        self.root.mkdir()
        put(self.root / ".gitignore", IGNORED)
        workspace = Workspace(self.root)
        self.bench = Bench(
            workspace, MemoryDraft(workspace), PermissionAnswer(True), modes=[CommandWriteMode.OVERLAY]
        )
        self.go = self.bench.shared / "go"
        os.mkfifo(self.go)

    async def run(self, command: str, meanwhile: Callable[[], object] = lambda: None) -> ToolOutput:
        """Run a command, and have somebody else do something just before it ends."""

        def act() -> None:
            # Open blocks until the command has come to its end and waits.
            with self.go.open("w"):
                meanwhile()

        acting = asyncio.create_task(asyncio.to_thread(act))
        output = await self.bench.call("run_command", command=f"{command}\ncat {self.go}")
        await acting
        return output

    def kept(self, path: str) -> list[bytes]:
        """The versions of a file that are kept."""
        return [each.read_bytes() for each in (self.root.parent / "runs/kept").glob(f"*/*/{path}")]


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path)


def python(program: str) -> str:
    return f"python3 - <<'END'\n{program}\nEND"


Databases = dict[tuple[str, bool], sqlite3.Connection]


def name(mode: str, stays_open: bool) -> str:
    return f"{mode}-{'open' if stays_open else 'closed'}.sqlite3"


def open_databases(root: Path) -> Databases:
    """Make databases with one row, in each mode; half of them stay open."""
    made: Databases = {}
    for mode in ("wal", "delete"):
        for stays_open in (True, False):
            connection = sqlite3.connect(root / name(mode, stays_open), check_same_thread=False, isolation_level=None)
            connection.execute(f"PRAGMA journal_mode = {mode}")
            connection.execute("CREATE TABLE t (x)")
            connection.execute("INSERT INTO t VALUES (1)")
            if not stays_open:
                connection.close()
            made[mode, stays_open] = connection
    return made


def in_python(program: str, databases: Databases) -> str:
    """Run a program for each database `c`."""
    names = [name(*each) for each in databases]
    return python(f"import sqlite3\nfor each in {names!r}:\n  c = sqlite3.connect(each); {program}; c.close()")


def rows(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        (count,) = connection.execute("SELECT count(*) FROM t").fetchone()
    connection.close()
    return int(count)


async def test_rows_written_during_a_command_are_kept(trial: Trial) -> None:
    def write() -> None:
        for (mode, stays_open), server in servers.items():
            place = trial.root / name(mode, stays_open)
            writer = server if stays_open else sqlite3.connect(place, isolation_level=None)
            writer.execute("INSERT INTO t VALUES (2)")
            if not stays_open:
                writer.close()

    servers = open_databases(trial.root)
    output = await trial.run(in_python("print(c.execute('SELECT count(*) FROM t').fetchall())", servers), write)
    assert output.text.count("[(1,)]") == len(servers)
    for (mode, stays_open), server in servers.items():
        if stays_open:
            server.execute("INSERT INTO t VALUES (3)")
            server.close()
        assert rows(trial.root / name(mode, stays_open)) == (3 if stays_open else 2), (mode, stays_open)


async def test_a_migrated_database_is_written_and_one_in_use_is_stored_elsewhere(trial: Trial) -> None:
    servers = open_databases(trial.root)
    output = await trial.run(in_python("c.execute('INSERT INTO t VALUES (2)'); c.commit()", servers))
    assert "[also written, ignored by git: delete-closed.sqlite3; wal-closed.sqlite3]" in output.text
    for (mode, stays_open), server in servers.items():
        place = name(mode, stays_open)
        if not stays_open:
            assert rows(trial.root / place) == 2
            continue
        server.execute("INSERT INTO t VALUES (3)")
        server.execute("INSERT INTO t VALUES (4)")
        server.close()
        assert rows(trial.root / place) == 3
        assert f"{place}: open in another program" in output.text
        (kept,) = (trial.root.parent / "runs/kept").glob(f"*/*/{place}")
        assert str(kept.parent) in output.text and rows(kept) == 2


async def test_a_file_under_review_is_not_written_with_ignored_files_named_like_its_journal(trial: Trial) -> None:
    put(trial.root / ".gitignore", "*-journal\n")
    for folder in ("a", "b", "c"):
        put(trial.root / folder / "main.py", "good")
    change = "echo evil > a/main.py; rm b/main.py; rm -r c; mkdir c"
    await trial.run(f"{change}; for each in a b c; do echo > $each/main.py-journal; done")
    for folder in ("a", "b", "c"):
        assert (trial.root / folder / "main.py").read_text() == "good"
        assert (trial.root / folder / "main.py-journal").exists()
    assert trial.bench.draft.held == {"a/main.py": b"evil\n", "b/main.py": None, "c/main.py": None}


async def test_lines_written_by_the_user_during_a_command_are_kept(trial: Trial) -> None:
    env = trial.root / ".env"
    put(env, "A=1\n")
    output = await trial.run("echo B=2 >> .env", lambda: env.write_text("A=1\nUSER=1\n"))
    assert env.read_text() == "A=1\nUSER=1\n"
    assert trial.kept(".env") == [b"A=1\nB=2\n"]
    assert "[left as it is on disk, ignored by git: .env: changed by someone else meanwhile]" in output.text
    (kept,) = (trial.root.parent / "runs/kept").glob("*/*")
    assert f"[the command's version is kept in {kept}, at the same paths]" in output.text
    said = f"left as it is on disk, ignored by git: .env, the command's version is kept in {kept}"
    assert output.summary.endswith(said)


async def test_a_name_of_an_ignored_file_makes_no_line_of_its_own(trial: Trial) -> None:
    place = trial.root / "build/a\n+ staged P1"
    put(place)
    output = await trial.run("echo >> build/a*", lambda: place.write_text("user"))
    assert "left as it is on disk, ignored by git: build/a␊+ staged P1" in output.summary


async def test_an_ignored_file_only_opened_for_writing_is_unchanged_without_a_question(trial: Trial) -> None:
    trial.bench.hold_ignored = True
    env = trial.root / ".env"
    put(env, "A=1\n")
    put(trial.root / "quiet.log", "1\n")
    inode = (trial.root / "quiet.log").stat().st_ino
    opened = python("open('.env', 'r+'); open('quiet.log', 'r+')")
    output = await trial.run(opened, lambda: env.write_text("A=1\nUSER=1\n"))
    assert env.read_text() == "A=1\nUSER=1\n"
    assert (trial.root / "quiet.log").stat().st_ino == inode
    assert trial.kept("*") == [] and "ignored" not in output.text and len(trial.bench.asked) == 1


async def test_a_log_open_in_another_program_is_not_replaced(trial: Trial) -> None:
    with (trial.root / "server.log").open("a") as log:
        log.write("before\n")
        log.flush()
        output = await trial.run("echo command >> server.log")
        log.write("after\n")
    assert (trial.root / "server.log").read_text() == "before\nafter\n"
    assert "server.log: open in another program" in output.text
    assert trial.kept("server.log") == [b"before\ncommand\n"]


async def test_no_ignored_file_is_written_that_others_run_as_its_owner(trial: Trial) -> None:
    put(trial.root / "build/old")
    (trial.root / "build/old").chmod(0o644)
    await trial.run("mkdir -p build/new; for f in build/new/f build/old a.log; do echo > $f; chmod 6755 $f; done")
    for path in ("build/new/f", "build/old", "a.log"):
        assert (trial.root / path).stat().st_mode & 0o7777 == 0o755


async def test_written_ignored_files_are_counted_by_top_folder(trial: Trial) -> None:
    put(trial.root / "build/old")
    put(trial.root / "build/same", "same")
    command = "mkdir -p build/new; for i in 1 2 3; do echo $i > build/new/$i; done; rm build/old; echo x > a.log; "
    output = await trial.run(f"{command} printf same > build/same")
    assert "[also written, ignored by git: a.log; build/, 3 files, 1 removed]" in output.text
    assert "also written, ignored by git: a.log" in output.summary
    assert [each.summary for each in trial.bench.draft.ignored] == ["a.log", "build/, 3 files, 1 removed"]
    assert not (trial.root / "build/old").exists() and (trial.root / "build/new/3").exists()


async def test_files_of_others_in_removed_and_recreated_folders_are_kept(trial: Trial) -> None:
    root = trial.root
    removed_by_others = ("c/build/a", "c/build/in/b", ".env")
    for name in ("a/build/lib/a", "a/build/lib/b", "a/build/gone", "b/build/a", "b/build/in/b", *removed_by_others):
        put(root / name, name)
    for name in ("d/build/stamp", "__pycache__/m.pyc", "e/build/__pycache__/m.pyc"):
        put(root / name)
    os.utime(root / "d/build/stamp", (1, 1))
    inode = (root / "d/build/stamp").stat().st_ino

    def edit() -> None:
        for name in ("a/build/lib/b", "a/build/lib/new", "b/build/in/b"):
            put(root / name, "user")
        for name in removed_by_others:
            (root / name).unlink()
        (root / "c/build/in").rmdir()

    output = await trial.run(
        "(cd a; rm -rf build; mkdir -p build/lib; for each in a b c; do echo $each > build/lib/$each; done); "
        "rm -rf b/build; (cd c; echo 2 >> build/a; echo 2 >> build/in/b; echo 3 > build/c); echo 2 >> .env; "
        "touch d/build/stamp; rm -rf __pycache__ e/build/__pycache__/m.pyc",
        edit,
    )
    found = {path.name: path.read_text() for path in (root / "a/build/lib").iterdir()}
    assert found == {"a": "a\n", "b": "user", "new": "user", "c": "c\n"}
    assert trial.kept("a/build/lib/b") == [b"b\n"] and not (root / "a/build/gone").exists()
    assert "a/build/lib/b: changed by someone else meanwhile" in output.text
    assert [path for path in (root / "b/build").rglob("*") if path.is_file()] == [root / "b/build/in/b"]
    assert (root / "b/build/in/b").read_text() == "user"
    assert [path.name for path in (root / "c/build").iterdir()] == ["c"] and not (root / ".env").exists()
    assert trial.kept("c/build/in/b") == [b"c/build/in/b2\n"] and trial.kept(".env") == [b".env2\n"]
    stamp = (root / "d/build/stamp").stat()
    assert stamp.st_mtime > 1 and stamp.st_ino == inode
    assert not (root / "__pycache__").exists() and list((root / "e/build/__pycache__").iterdir()) == []


UNCHECKED = """
import importlib._bootstrap_external as b, os, pathlib, py_compile, sys
os.makedirs('__pycache__', exist_ok=True)
pathlib.Path('__pycache__/.gitignore').write_text('*')
code = compile("open('ran', 'w')", 'm.py', 'exec')
import importlib.util
name = importlib.util.cache_from_source('m.py')
source = pathlib.Path('m.py').read_bytes()
data = b._code_to_hash_pyc(code, importlib.util.source_hash(source), False)
for place in (name, 'n.pyc', 'build/__pycache__/m.pyc', 'build/n.pyc', 'build/new/__pycache__/x'):
    pathlib.Path(place).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(place).write_bytes(data)
"""


@pytest.mark.parametrize("ignored", [IGNORED, "build/\n"])
async def test_bytecode_of_a_command_is_never_run(trial: Trial, ignored: str) -> None:
    put(trial.root / ".gitignore", ignored)
    put(trial.root / "m.py", "x = 1\n")
    put(trial.root / "build/__pycache__/old.pyc", "old")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    output = await trial.run(f"export -n PYTHONPYCACHEPREFIX; {sys.executable} - <<'END'\n{UNCHECKED}\nEND")
    assert "exit code 0" in output.text
    program = "import m; assert m.x == 1; import importlib.util as u; assert not u.find_spec('n')"
    subprocess.run([sys.executable, "-B", "-c", program], cwd=trial.root, env=environment, check=True)
    assert not (trial.root / "ran").exists()
    found = {str(path.relative_to(trial.root)) for path in trial.root.rglob("*") if "pyc" in str(path)}
    assert found == {"build/__pycache__", "build/__pycache__/old.pyc"}
    assert trial.bench.draft.held == {} and "pyc" not in output.text


async def test_bytecode_with_a_file_named_like_its_journal_is_not_written(trial: Trial) -> None:
    put(trial.root / ".gitignore", "*.pyc\nbuild/\n__pycache__/\n")
    for place in ("__pycache__/m.pyc", "build/__pycache__/m.pyc"):
        put(trial.root / place, "good")
    await trial.run("for f in */m.pyc build/*/m.pyc n.pyc build/n.pyc; do echo evil > $f; echo > $f-wal; done")
    found = {str(path.relative_to(trial.root)): path.read_text() for path in trial.root.rglob("*.pyc")}
    assert found == {"__pycache__/m.pyc": "good", "build/__pycache__/m.pyc": "good"}


async def test_ignore_rules_written_by_a_command_hide_nothing(trial: Trial) -> None:
    command = "mkdir -p d .pytest_cache; echo '*' | tee d/.gitignore .pytest_cache/.gitignore > .gitignore"
    output = await trial.run(f"{command}; echo x > d/code.py; echo x > top.py; echo x > .pytest_cache/conftest.py")
    assert set(trial.bench.draft.held) == {".gitignore", "d/.gitignore", "d/code.py", "top.py"}
    assert not (trial.root / "d").exists() and not (trial.root / ".pytest_cache").exists()
    assert "[not kept: .pytest_cache: a cache that git does not ignore]" in output.text


async def test_ignore_files_that_are_ignored_are_staged(trial: Trial) -> None:
    put(trial.root / ".gitignore", ".*\n")
    (trial.root / "d").mkdir()
    await trial.run("echo '*' > d/.gitignore")
    assert set(trial.bench.draft.held) == {"d/.gitignore"} and not (trial.root / "d/.gitignore").exists()


@pytest.mark.parametrize("allowed", [True, False])
async def test_held_ignored_files_are_written_after_a_yes(trial: Trial, allowed: bool) -> None:
    trial.bench.hold_ignored = True
    trial.bench.on_ask = lambda: setattr(
        trial.bench, "answer", PermissionAnswer(allowed or not trial.bench.asked[1:])
    )
    output = await trial.run("mkdir build; echo 1 > build/a; echo 2 > build/b")
    assert [asked.title for asked in trial.bench.asked[1:]] == ["Write what git ignores? build/, 2 files"]
    assert (trial.root / "build").exists() == allowed
    said = "also written, ignored by git" if allowed else "thrown away, ignored by git"
    assert f"[{said}: build/, 2 files]" in output.text


@pytest.mark.parametrize("limit", ["MAX_UNASKED_FILES", "MAX_CHANGED_FILE_BYTES"])
async def test_an_ignored_file_stays_if_it_was_moved_to_one_that_is_not_staged(
    trial: Trial, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(command_result, limit, 0)
    put(trial.root / "data.log", "mine")
    trial.bench.on_ask = lambda: setattr(trial.bench, "answer", PermissionAnswer(not trial.bench.asked[1:]))
    output = await trial.run("mv data.log data.txt; mkdir build; echo > build/a")
    assert (trial.root / "data.log").read_text() == "mine" and trial.bench.draft.held == {}
    assert "[thrown away, ignored by git: build/, 1 file; data.log, 1 removed]" in output.text
    assert "Write what git ignores? build/, 1 file; data.log, 1 removed" in trial.bench.asked[-1].title
    assert "Not staged: " in trial.bench.asked[-1].notes[1]


@pytest.mark.parametrize("meanwhile", [False, True])
async def test_ignored_files_that_a_command_moves_are_not_lost(trial: Trial, meanwhile: bool) -> None:
    for name in ("a.log", "c.log", "build/a", "a.txt"):
        put(trial.root / name, name)
    user = (lambda: put(trial.root / "build/user")) if meanwhile else (lambda: None)
    command = "mkdir new; mv c.log new; mv a.log b.log; mv a.txt build/t; ln build/a build/c"
    output = await trial.run(f"{command}; mv build/a build/b", user)
    assert (trial.root / "b.log").read_text() == "a.log" and not (trial.root / "a.log").exists()
    assert (trial.root / "new/c.log").read_text() == "c.log" and trial.bench.draft.held == {"a.txt": None}
    for name, text in (("t", "a.txt"), ("b", "build/a"), ("c", "build/a")):
        if meanwhile:
            assert trial.kept(f"build/{name}") == [text.encode()]
            assert f"build/{name}: removed by someone else meanwhile" in output.text
        else:
            assert (trial.root / "build" / name).read_text() == text


async def test_a_moved_ignored_file_is_written_before_its_old_path_is_removed(
    trial: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill between the two loses nothing."""
    remove, found = IgnoredFileWriter._move_out_of_workspace, []

    def remove_later(writer: IgnoredFileWriter, at: Any, name: str) -> Path:
        found.append((trial.root / at.path / "z").read_text())
        return remove(writer, at, name)

    monkeypatch.setattr(IgnoredFileWriter, "_move_out_of_workspace", remove_later)
    put(trial.root / ".gitignore", "?\nbuild/\n")
    put(trial.root / "a", "top")
    put(trial.root / "build/a", "below")
    await trial.run("mv a z; mv build/a build/z")
    assert sorted(found) == ["below", "top"]
