"""What a command in the overlay can and can't do, besides the workspace."""

import os
import pwd
import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from app.sandbox.captured_changes import FileOrLink
from app.sandbox.confinement import ConfiguredCommandAccess
from app.sandbox.outside_access import find_outside_access, is_in_any_folder
from app.sandbox.sandbox import Sandbox
from app.workspace.paths import READ_LIMIT, Workspace
from tests.unit.sandbox.test_both_modes import printed


def outside() -> Path:
    """A folder that the user may write in and a command may not, wherever the checkout lies."""
    temporary = find_outside_access(ConfiguredCommandAccess(), ()).temporary
    homes = [Path(each.pw_dir) for each in pwd.getpwall() if each.pw_uid == os.getuid()]
    for place in (Path(__file__).resolve().parents[3], *homes, Path("/var/lib")):
        if os.access(place, os.W_OK) and not is_in_any_folder(place, temporary):
            return place
    pytest.skip("there is no place that only a command may not write in")


@pytest.fixture
def sandbox(root: Path, tmp_path: Path) -> Sandbox:
    return Sandbox(Workspace(root), tmp_path / "state/runs", own_folders=(tmp_path / "state",))


@pytest.mark.layer
async def test_a_command_has_no_privilege_and_reaches_nothing_but_the_workspace(
    root: Path, sandbox: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for listening in (".docker/run/docker.sock", "tmux/default"):
        (tmp_path / listening).parent.mkdir(parents=True)
        (tmp_path / listening).write_text("listens\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TMUX", f"{tmp_path}/tmux/default,1,0")
    (tmp_path / "state").mkdir()
    (tmp_path / "state/signoff.db").write_text("the key")
    target = outside() / "written-by-a-command"
    ours, theirs = os.openpty()
    terminal = os.ttyname(theirs)
    async with sandbox.open_run({}) as run:
        status = (await printed(run, "cat /proc/self/status")).split()
        for name in ("CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"):
            assert int(status[status.index(name) + 1], 16) == 0
        assert status[status.index("NoNewPrivs:") + 1] == "1"
        await printed(run, f"unshare -Urm sh -c 'umount {root}; mount --bind / /mnt; echo x > /mnt{root}/below'")
        assert list(root.iterdir()) == [], "nor below the layer with a namespace that it makes"
        text = await printed(
            run, f"echo x > {target}; mkdir -p {tmp_path}; echo y > {tmp_path}/temporary; cat /tmp/*"
        )
        assert "Read-only file system" in text
        assert not target.exists() and not (tmp_path / "temporary").exists()
        assert "the key" not in await printed(run, f"cat {tmp_path}/state/signoff.db")
        assert await printed(run, f"ls -d /proc/{os.getpid()} 2>&1 | grep -c 'No such'") == "1\n"
        assert await printed(run, f"cat {tmp_path}/.docker/run/* {tmp_path}/tmux/* 2>/dev/null") == ""
        assert "there" not in await printed(run, f"echo typed > {terminal}; test -e {terminal} && echo there")
    os.close(ours)
    os.close(theirs)


@pytest.mark.layer
async def test_ignored_files_are_written_as_the_command_left_them(root: Path, sandbox: Sandbox) -> None:
    git = ["git", "-C", str(root), "-c", "user.name=n", "-c", "user.email=e@x"]
    (root / ".gitignore").write_text("build/\n*.log\n!keep.log\nold/\n")
    (root / "build/deep").mkdir(parents=True)
    (root / "build/stale").write_text("stale")
    (root / "build/deep/stays").write_text("stays")
    (root / "build/tracked").write_text("tracked\n")
    (root / "old").mkdir()
    (root / "old/gone").touch()
    for words in (["init", "-q"], ["add", "."], ["add", "-f", "build/tracked"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    command = (
        "rm build/stale; mkdir -p build/new; echo 1 > build/new/file; ln -s file build/new/link; echo 2 > a.log; "
        "echo 3 > keep.log; echo changed > build/tracked; rm -rf old; echo 4 > pending.log; "
        "mkdir -p .pytest_cache __pycache__; echo '*' > .pytest_cache/.gitignore; echo 5 > __pycache__/x.pyc; "
        "mkdir build/.git; echo 7 > build/.git/file; "
        "echo '*' > .gitignore; echo 6 > by-the-new-rules"
    )
    async with sandbox.open_run({"pending.log": FileOrLink(b"waits\n", 0o644)}) as run:
        await printed(run, command)
        found = await run.find_changes()
        assert {each.path for each in found.touched} == {
            ".gitignore",
            "build/tracked",
            "by-the-new-rules",
            "keep.log",
            "pending.log",
        }
        assert run.read_change("pending.log", READ_LIMIT).after == FileOrLink(b"4\n", 0o644)
        assert found.unsupported == (".pytest_cache: a cache that git does not ignore",)
        await run.write_back(found.ignored_paths)
    assert (root / "build/new/file").read_text() == "1\n" and (root / "build/new/link").readlink() == Path("file")
    assert (root / "build/.git/file").read_text() == "7\n", "git may do as it pleases in what is ignored"
    assert not (root / "build/stale").exists() and (root / "build/deep/stays").read_text() == "stays"
    assert (root / "a.log").read_text() == "2\n" and not (root / "old").exists()
    assert not (root / ".pytest_cache").exists() and not (root / "__pycache__").exists()
    assert not (root / "pending.log").exists() and (root / "build/tracked").read_text() == "tracked\n"
    clean = subprocess.run([*git, "status", "--porcelain"], check=True, capture_output=True, text=True).stdout
    assert clean == ""
    assert not [name for path in root.rglob("*") for name in os.listxattr(path, follow_symlinks=False)]


@pytest.mark.layer
@pytest.mark.usefixtures("ordinary_user")
async def test_ignored_files_come_without_pipes_and_sockets(root: Path, elsewhere: Path) -> None:
    (root / ".gitignore").write_text("build/\n*.sock\n")
    subprocess.run(["git", "-C", str(root), "init", "-q"], check=True)
    sandbox = Sandbox(Workspace(root), elsewhere / "runs", own_folders=())
    script = (
        "mkfifo a.sock; mkdir -p build/in; mkfifo build/pipe build/in/pipe; ln -s nowhere build/in/link; "
        "truncate -s 8M build/holes; echo 1 > build/in/file; "
        "echo 2 > build/locked; chmod 000 build/in build/locked; echo 3 > reviewed"
    )
    # Whatever was cut off before is in nobody's way.
    (root / f".signoff-{os.getpid()}-1.tmp").mkdir()
    async with sandbox.open_run({}) as run:
        await printed(run, script)
        found = await run.find_changes()
        await run.write_back(found.ignored_paths)
        assert [each.path for each in found.touched] == ["reviewed"]
    build = root / "build"
    assert stat.S_IMODE((build / "in").stat().st_mode) == stat.S_IMODE((build / "locked").stat().st_mode) == 0
    for locked in (build / "in", build / "locked"):
        locked.chmod(0o700)
    assert sorted(path.relative_to(root).as_posix() for path in build.rglob("*")) == [
        "build/holes",
        "build/in",
        "build/in/file",
        "build/in/link",
        "build/locked",
    ]
    assert (build / "holes").stat().st_size == 8 << 20 and (build / "holes").stat().st_blocks < 1_000
    assert (build / "in/file").read_text() == "1\n" and (build / "locked").read_text() == "2\n"
    (root / f".signoff-{os.getpid()}-1.tmp").rmdir()
    assert sorted(path.name for path in root.iterdir()) == [".git", ".gitignore", "build"]


@pytest.mark.layer
@pytest.mark.usefixtures("ordinary_user")
async def test_folders_without_permissions_are_read_and_written_as_they_are(root: Path, sandbox: Sandbox) -> None:
    (root / ".gitignore").write_text("build/\n*.log\n")
    for folder in ("there", "build/old"):
        (root / folder).mkdir(parents=True)
        (root / folder / "file").write_text("as it was\n")
    subprocess.run(["git", "-C", str(root), "init", "-q"], check=True)
    (root / "build/unlocked").mkdir(mode=0o500)
    (root / "build/noted").write_text("as it was\n")
    script = (
        "mkdir a.log; echo x > a.log/x; chmod 500 a.log; echo x >> build/noted; chmod 000 build/noted; "
        "mkdir new; for each in new there build/old; do echo x > $each/x; chmod 000 $each; done; chmod 500 .; "
        "chmod 700 build/unlocked; echo x > build/unlocked/x"
    )
    async with sandbox.open_run({}) as run:
        await printed(run, script)
        found = await run.find_changes()
        assert [each.path for each in found.touched] == ["new/x", "there/x"]
        assert run.read_change("new/x", READ_LIMIT).after == FileOrLink(b"x\n", 0o644)
        await run.write_back(found.ignored_paths)
    assert (root / "a.log/x").read_text() == "x\n" and stat.S_IMODE((root / "a.log").stat().st_mode) == 0o500
    (root / "build/noted").chmod(0o600)
    assert (root / "build/noted").read_text() == "as it was\nx\n"
    old = root / "build/old"
    assert (root / "build/unlocked/x").read_text() == "x\n"
    assert stat.S_IMODE(old.stat().st_mode) == 0
    old.chmod(0o700)
    assert sorted(each.name for each in old.iterdir()) == ["file", "x"]


def test_the_probe_reports_that_namespaces_are_not_available(tmp_path: Path) -> None:
    """In a namespace in which there may be no more of them, as in a container."""
    (tmp_path / "ws").mkdir()
    code = (
        "import asyncio; from pathlib import Path; from app.sandbox.sandbox import Sandbox; "
        "from app.workspace.paths import Workspace; "
        f"here = Path({str(tmp_path)!r}); "
        "print(asyncio.run(Sandbox(Workspace(here / 'ws'), here / 'runs', own_folders=()).probe()))"
    )
    script = f'echo 0 > /proc/sys/user/max_user_namespaces && exec {shlex.quote(sys.executable)} -c "{code}"'
    done = subprocess.run(
        ["unshare", "-Ur", "sh", "-c", script],
        cwd=Path(__file__).resolve().parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(done.stderr)
    assert "CommandWriteMode.IN_PLACE" in done.stdout and "does not let users make namespaces" in done.stdout
