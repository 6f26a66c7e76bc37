"""Commands on a clone of the workspace: over its path where there are namespaces, else apart."""

import errno
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from app.sandbox import cloning
from app.sandbox.changes import Leaf
from app.sandbox.cloning import reflink
from app.sandbox.sandbox import Sandbox
from app.sandbox.ways import Run, Way
from app.tools.contract import ConfirmationAnswer
from app.workspace.paths import READ_LIMIT, Workspace
from tests.unit.sandbox.test_scripts import shell
from tests.unit.tools.memory_draft import Bench, MemoryDraft
from tests.unit.tools.processes import running

BOTH = pytest.mark.parametrize("way", [Way.CLONE, Way.CLONE_APART])
# Newer versions of git tidy up in the background after a commit.
GIT = ["git", "-c", "user.name=n", "-c", "user.email=e@x", "-c", "maintenance.auto=false"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "ws").mkdir()
    return tmp_path / "ws"


async def sandbox_of(root: Path, way: Way) -> Sandbox:
    sandbox = Sandbox(Workspace(root), root.parent / "state/runs", own=(root.parent / "state",), ways=[way])
    means = await sandbox.means()
    if means.way is not way:
        pytest.skip(means.why_not)
    return sandbox


async def printed(run: Run, command: str) -> str:
    parts: list[bytes] = []
    await run.execute(shell(f"exec 2>&1\n{command}"), folder=".", seconds=30, output=parts.append)
    return b"".join(parts).decode()


def test_what_has_become_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError):
        reflink(tmp_path / "pipe", tmp_path / "target")


@BOTH
@pytest.mark.usefixtures("clones")
async def test_git_reads_but_does_not_write(root: Path, way: Way) -> None:
    (root / "a").write_text("one\n")
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*GIT, *words], cwd=root, check=True)
    before = {path: path.lstat().st_mtime_ns for path in root.rglob("*")}
    async with (await sandbox_of(root, way)).open({}) as run:
        assert await printed(run, "git status --porcelain; git log --format=%s") == "first\n"
        text = await printed(
            run, f"echo two >> a; {' '.join(GIT)} commit -qam second || echo refused; git diff | tail -1"
        )
        assert text.endswith("refused\n+two\n")
        assert [each.path for each in (await run.changes()).touched] == ["a"]
    assert {path: path.lstat().st_mtime_ns for path in root.rglob("*")} == before


@BOTH
@pytest.mark.usefixtures("clones")
async def test_what_git_ignores_is_written_and_what_waits_is_seen(root: Path, way: Way) -> None:
    subprocess.run([*GIT, "init", "-q"], cwd=root, check=True)
    (root / ".gitignore").write_text("build/\n")
    (root / "build/deep").mkdir(parents=True)
    (root / "build/stale").write_text("stale")
    (root / "build/deep/stays").write_text("stays")
    (root / "gone/in").mkdir(parents=True)
    (root / "gone/in/file").write_text("x")
    pending = {"new/waits": Leaf(b"waits\n", 0o755), "gone/in/file": None, ".gitignore": Leaf(b"build/\n#\n", 0o644)}
    async with (await sandbox_of(root, way)).open(pending) as run:
        assert await printed(run, "new/waits; cat new/waits; ls") == (
            "new/waits: line 1: waits: command not found\nwaits\nbuild\nnew\n"
        )
        await printed(run, "rm build/stale; mkdir build/more; echo 1 > build/more/file; echo 2 > build/deep/next")
        await printed(run, "rm new/waits; mkdir gone; echo back > gone/in")
        found = await run.changes()
        assert [each.path for each in found.touched] == ["gone/in", "new/waits"]
        assert run.read("new/waits", READ_LIMIT).before == pending["new/waits"]
        await run.write_through(found.through)
    assert sorted(path.relative_to(root).as_posix() for path in (root / "build").rglob("*")) == [
        "build/deep",
        "build/deep/next",
        "build/deep/stays",
        "build/more",
        "build/more/file",
    ]
    assert (root / "gone/in/file").read_text() == "x" and not (root / "new").exists()
    assert list((root.parent / "state/runs").iterdir()) == []


@BOTH
@pytest.mark.usefixtures("clones")
async def test_an_absolute_path_changes_nothing_either(root: Path, way: Way) -> None:
    (root / "a").write_text("one\n")
    (root / "b").write_text("two\n")
    mode = (root / "a").stat().st_mode
    command = (
        f"cd {root}; echo x > a; chmod 777 a; rm b; mv b c; ln -s a d; mkdir e; sleep 4711.5 & setsid sleep 4711.5 &"
    )
    async with (await sandbox_of(root, way)).open({}) as run:
        await printed(run, command)
        assert not running("4711.5")
        found = await run.changes()
        if way is Way.CLONE:
            assert [each.path for each in found.touched] == ["a", "b", "d"]
        else:
            assert not found.touched
            assert found.left_out == ("a: its permissions were changed from afar, and put back",)
        assert (root / "a").stat().st_mode == mode
    assert {path.name for path in root.iterdir()} == {"a", "b"}
    assert (root / "a").read_text() == "one\n" and (root / "b").read_text() == "two\n"


@pytest.mark.usefixtures("clones")
async def test_apart_the_temporary_folder_is_its_own_where_the_usual_one_holds_the_workspace(root: Path) -> None:
    sandbox = await sandbox_of(root, Way.CLONE_APART)
    async with sandbox.open({}) as run:
        text = await printed(run, f"mktemp >/dev/null && echo made; echo x > {root.parent}/outside")
    assert text.startswith("made\n") and "Permission denied" in text
    assert not any(root.is_relative_to(place) for place in sandbox.writable)


async def test_what_waits_is_not_laid_through_a_link_that_leads_out(tmp_path: Path) -> None:
    (tmp_path / "clone").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/gone").write_text("stays")
    (tmp_path / "clone/d").symlink_to(tmp_path / "out")
    cloning.lay({"d/gone": None}, tmp_path / "clone")
    cloning.lay({"d/new": Leaf(b"", 0o644)}, tmp_path / "clone")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["gone"]
    assert (tmp_path / "clone/d/new").exists()


@pytest.mark.parametrize("way", list(Way))
@pytest.mark.usefixtures("clones")
async def test_what_is_signoffs_own_is_never_what_a_command_has_changed(root: Path, way: Way) -> None:
    (root / ".gitignore").write_text("own/ignored/\n")
    workspace = Workspace(root, off_limits=[root / "own"])
    sandbox = Sandbox(workspace, root.parent / "runs", own=(), ways=[way])
    if (await sandbox.means()).way is not way:
        pytest.skip((await sandbox.means()).why_not)
    async with sandbox.open({}) as run:
        await printed(run, "mkdir -p own/ignored; echo x > own/file; echo x > own/ignored/file; echo y > kept")
        found = await run.changes()
        assert [each.path for each in found.touched] == ["kept"]
        await run.write_through(found.through)
    assert way is Way.IN_PLACE or not (root / "own").exists()


@pytest.mark.parametrize("way", list(Way))
@pytest.mark.parametrize("name", ["d", "d" * 250])
@pytest.mark.usefixtures("clones")
async def test_folders_without_end_end_nothing_and_are_left_out(root: Path, way: Way, name: str) -> None:
    sandbox = await sandbox_of(root, way)
    nest = f"for _ in range(1100 if {len(name)} < 2 else 20): os.mkdir('{name}'); os.chdir('{name}')"
    async with sandbox.open({}) as run:
        await printed(run, f"echo x > kept; exec python3 -c \"import os\n{nest}\nopen('z', 'w')\"")
        found = await run.changes()
        assert [each.path for each in found.touched] == ["kept"]
        assert way is Way.IN_PLACE or [one for one in found.left_out if one.endswith(f"/{name}: nested too deep")]
    assert list(root.iterdir()) == []
    left = [path.name for path in (root.parent / "state/runs").iterdir() if not path.name.startswith("guard-")]
    assert left == [] and not sandbox.put_back()


@pytest.mark.layer
@pytest.mark.usefixtures("ordinary_user")
async def test_what_git_ignores_and_cannot_be_written_takes_nothing_else_along(root: Path, tmp_path: Path) -> None:
    (root / ".gitignore").write_text("*.log\n")
    bench = Bench(Workspace(root), MemoryDraft(Workspace(root)), ConfirmationAnswer(True), ways=[Way.OVERLAY])
    (root / "sub").mkdir(mode=0o500)
    bench.draft.held["sub/waits"] = b"waits\n"
    output = await bench.call("run_command", command="chmod 700 sub; echo 1 > sub/a.log; echo 2 > b; cat sub/waits")
    assert "\nwaits\n" in output.text and output.staged and bench.draft.held["b"] == b"2\n"
    assert "not all of it could be written, permission denied: sub/a.log" in output.text


@pytest.mark.usefixtures("ordinary_user")
def test_what_the_user_may_not_read_is_left_out_of_a_clone(root: Path, tmp_path: Path) -> None:
    for name in ("locked/file", "secret", "kept"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("x")
    (root / "locked").chmod(0)
    (root / "secret").chmod(0)
    (tmp_path / "clone").mkdir()
    assert set(cloning.clone_tree(root, tmp_path / "clone", lambda path: False)) == {"kept"}
    assert [path.name for path in (tmp_path / "clone").iterdir()] == ["kept"]
    (root / "locked").chmod(0o700)


def test_a_file_that_cannot_share_its_blocks_is_copied(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Path, target: Path) -> None:
        target.touch()
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(cloning, "reflink", refuse)
    (root / "a").write_text("one\n")
    (tmp_path / "clone").mkdir()
    cloning.clone_tree(root, tmp_path / "clone", lambda path: False)
    assert (tmp_path / "clone/a").read_text() == "one\n"


def test_nothing_is_cloned_to_another_file_system(
    root: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What only copies, and so would do it.
    monkeypatch.setattr(cloning, "reflink", shutil.copyfile)
    assert cloning.can_clone(root, root.parent) and not cloning.can_clone(root, elsewhere)
    assert list(elsewhere.iterdir()) == []


def test_a_folder_with_more_in_it_than_what_is_gone_stays(tmp_path: Path) -> None:
    (tmp_path / "d/e").mkdir(parents=True)
    for name in ("d/kept", "d/e/gone"):
        (tmp_path / name).touch()
    cloning.lay({"d/e/gone": None}, tmp_path)
    assert [path.name for path in (tmp_path / "d").iterdir()] == ["kept"]


@pytest.mark.usefixtures("clones")
async def test_apart_the_usual_temporary_folder_stays_where_it_may_be_written(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr(tempfile, "tempdir", None)
    async with (await sandbox_of(root, Way.CLONE_APART)).open({}) as run:
        assert Path((await printed(run, "mktemp")).strip()).parent == tmp_path / "temporary"
