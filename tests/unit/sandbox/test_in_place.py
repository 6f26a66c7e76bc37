"""Commands on the user's own files: what waits is there while they run, and nothing of it afterwards."""

import asyncio
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.cli.main import main
from app.proposals.values.proposal_errors import ProposalError, WorkspaceBusy
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from app.runtime.unfinished_work import recover_interrupted_work
from app.sandbox import workspace_backup
from app.sandbox.captured_changes import FileOrLink, IgnoredPathsWriteBackReport, PendingFiles
from app.sandbox.confinement import CommandWriteMode
from app.sandbox.enclosed_process import process_limits
from app.sandbox.files_and_links import copy_file_content
from app.sandbox.path_policy import StagingPathPolicy
from app.sandbox.sandbox import Sandbox
from app.sandbox.workspace_backup import locate_workspace_backup, prune_workspace_backups
from app.workspace.paths import READ_LIMIT, Workspace
from tests.unit.sandbox.test_both_modes import printed
from tests.waiting import until

GIT = "git -c user.name=a -c user.email=a@b"
PENDING: PendingFiles = {
    "a.txt": FileOrLink(b"proposed\n", 0o755),
    "gone/in/file": None,
    "build/new/file": FileOrLink(b"waits\n", 0o644),
    "build/old": FileOrLink(b"changed\n", 0o644),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    (root / "gone/in").mkdir(parents=True)
    (root / "build").mkdir()
    (root / "a.txt").write_text("on disk\n")
    (root / "b.txt").write_text("b\n")
    (root / "gone/in/file").write_text("stays\n")
    (root / "build/old").write_text("old\n")
    (root / ".gitignore").write_text("build/\n")
    os.link(root / "a.txt", tmp_path / "other-name")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    return root


@pytest.fixture
def sandbox(root: Path) -> Sandbox:
    return Sandbox(Workspace(root), root.parent / "runs", own_folders=(), modes=[CommandWriteMode.IN_PLACE])


def facts(root: Path) -> dict[str, tuple[int, int, bytes]]:
    files = [path for path in root.rglob("*") if ".git" not in path.parts]
    return {
        str(path.relative_to(root)): (path.lstat().st_mode, 0, b"")
        if path.is_dir()
        else (path.lstat().st_mode, path.lstat().st_mtime_ns, path.read_bytes())
        for path in files
    }


@contextmanager
def killed_command(root: Path, runs: Path | None = None, pending: PendingFiles | None = None) -> Iterator[Path]:
    """A command that runs for the block and is then killed, as is signoff; yield the folder of the copies."""
    guard = locate_workspace_backup(root, runs or root.parent / "runs")
    with guard.locked():
        guard.back_up_and_write_pending(StagingPathPolicy(Workspace(root), pending or {}), pending or {})
        yield guard.store


async def test_an_in_place_command_sees_pending_edits_and_only_its_changes_count(
    root: Path, sandbox: Sandbox
) -> None:
    before = facts(root)
    async with sandbox.open_run(PENDING) as run:
        assert await printed(run, "cat a.txt build/new/file build/old; test -x a.txt; echo $?; ls gone") == (
            "proposed\nwaits\nchanged\n0\nls: cannot access 'gone': No such file or directory\n"
        )
        await printed(run, "echo more >> a.txt; rm build/new/file; touch build/old; echo b2 > b.txt")
        found = await run.find_changes()
        assert [each.path for each in found.touched] == ["a.txt", "b.txt", "build/new/file"]
        change = run.read_change("a.txt", READ_LIMIT)
        assert change.before == PENDING["a.txt"] and change.after == FileOrLink(b"proposed\nmore\n", 0o755)
        assert run.read_change("build/new/file", READ_LIMIT).after is None
    assert facts(root) == before
    assert (root / "a.txt").samefile(root.parent / "other-name")


@pytest.mark.usefixtures("ordinary_user")
def test_files_of_a_killed_command_are_restored_without_pending_edits(root: Path, sandbox: Sandbox) -> None:
    assert sandbox.restore_after_crash() == "" and not (root.parent / "runs").exists(), "there was no command"
    before, mode = facts(root), root.stat().st_mode
    with killed_command(root, pending=PENDING):
        assert (root / "build/new/file").exists() and not (root / "gone").exists()
    assert "every file is as it was before" in sandbox.restore_after_crash()
    assert facts(root) == before and sandbox.restore_after_crash() == ""
    with killed_command(root):
        (root / "gone/in/file").unlink()
        (root / "gone/in").chmod(0)
        root.chmod(0o500)
    assert sandbox.restore_after_crash() and not sandbox.restore_after_crash()
    assert facts(root) == before and root.stat().st_mode == mode


def fail_copies(monkeypatch: pytest.MonkeyPatch, refused: Callable[[Path, Path], bool]) -> None:
    copy = copy_file_content

    def refuse(source: Path, target: Path) -> None:
        if refused(source, target):
            raise OSError(28, "No space left on device")
        copy(source, target)

    monkeypatch.setattr(workspace_backup, "copy_file_content", refuse)


async def test_an_incomplete_backup_runs_none_and_is_made_anew(
    root: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sandbox.open_run({}) as run:
        await printed(run, "echo x > b.txt")
    (root / "b.txt").write_text("the user's newest\n")
    subprocess.run(["sh", "-c", f"git add . && {GIT} commit -qm one"], cwd=root, check=True)
    with monkeypatch.context() as full_disk:
        fail_copies(full_disk, lambda source, _: source == root / "b.txt")
        with pytest.raises(OSError, match="No space"):
            async with sandbox.open_run({}):
                pytest.fail("it ran")
    assert (root / "b.txt").read_text() == "the user's newest\n"
    (root / ".first").write_text("copied before git's objects are\n")
    async with sandbox.open_run({}) as run:
        await printed(run, "rm .first b.txt")
    assert (root / "b.txt").read_text() == "the user's newest\n"
    subprocess.run(["git", "fsck", "--strict"], cwd=root, check=True)


async def test_copies_are_removed_when_old_or_on_request_but_not_while_needed(root: Path, sandbox: Sandbox) -> None:
    runs = root.parent / "runs"
    guard = locate_workspace_backup(root, runs)
    for old in (True, False):
        async with sandbox.open_run({}) as run:
            await printed(run, "echo x > b.txt")
            assert prune_workspace_backups(runs, time.time()) == 0, "a command runs"
        guard.marker_file.touch()
        assert prune_workspace_backups(runs, time.time()) == 0, "a command was killed"
        guard.marker_file.unlink()
        assert prune_workspace_backups(runs, time.time() - 3600) == 0 and list(guard.store.glob("[0-9]*"))
        if old:
            os.utime(guard.store, (0, 0))
            await Sandbox(Workspace(root), runs, own_folders=(), modes=[CommandWriteMode.IN_PLACE]).probe()
        else:
            assert prune_workspace_backups(runs, time.time()) > 0
        assert [path.name for path in guard.store.iterdir()] == ["lock"]


async def test_files_of_a_killed_command_are_restored_before_the_next_one(root: Path, sandbox: Sandbox) -> None:
    with killed_command(root):
        (root / "b.txt").write_text("by the command\n")
    with pytest.raises(OSError, match=r"every file is as it was before\. Try this one again"):
        async with sandbox.open_run({}):
            pytest.fail("it ran")
    async with sandbox.open_run({}) as run:
        assert await printed(run, "cat b.txt") == "b\n"


async def test_a_folder_without_ignored_files_may_become_a_file(root: Path, sandbox: Sandbox) -> None:
    pending = {"gone/in/file": None, "gone": FileOrLink(b"a file now\n", 0o644)}
    (root / ".gitignore").write_text("*.log\n")
    (root / "gone/empty/deep").mkdir(parents=True)
    before = facts(root)
    async with sandbox.open_run(pending) as run:
        assert await printed(run, "cat gone") == "a file now\n"
    assert facts(root) == before
    (root / "gone/in/mine.log").write_text("nowhere else\n")
    before = facts(root)
    with pytest.raises(OSError, match="makes the folder gone a file, and ignored files are in it"):
        async with sandbox.open_run(pending):
            pytest.fail("it ran")
    assert facts(root) == before


@pytest.mark.usefixtures("ordinary_user")
async def test_locked_folders_are_put_back(root: Path, sandbox: Sandbox) -> None:
    before, mode = facts(root), root.stat().st_mode
    for script, told in (
        ("rm gone/in/file; chmod 500 gone/in", ["gone/in/file"]),
        ("chmod 000 gone/in", []),
        ("echo more >> b.txt; chmod 000 .", ["b.txt"]),
        ("chmod 700 b.txt", ["b.txt"]),
        ("chmod 555 .; chmod 500 gone", []),
        ("mkdir new; echo x > new/x; chmod 500 new", ["new/x"]),
        ("mkdir new; echo x > new/x; chmod 000 new", ["new/x"]),
    ):
        async with sandbox.open_run({}) as run:
            await printed(run, script)
            assert [each.path for each in (await run.find_changes()).touched] == told, script
        assert facts(root) == before and root.stat().st_mode == mode, script


@pytest.mark.usefixtures("ordinary_user")
async def test_a_users_locked_folder_is_left_alone(root: Path, sandbox: Sandbox) -> None:
    locked = root / "locked"
    locked.mkdir()
    (locked / "file").write_text("the user's\n")
    for mode in (0o000, 0o400):
        for script in ("true", "chmod 700 locked; ls locked", "mv locked moved; mkdir locked"):
            locked.chmod(mode)
            async with sandbox.open_run({}) as run:
                await printed(run, f"{script}; echo x > b.txt")
                assert [each.path for each in (await run.find_changes()).touched] == ["b.txt"]
            assert (root / "b.txt").read_text() == "b\n" and stat.S_IMODE(locked.stat().st_mode) == mode
            if "moved" in script:
                locked.chmod(0o700)
                locked.rmdir()
                (root / "moved").rename(locked)
            locked.chmod(0o700)
            assert (locked / "file").read_text() == "the user's\n"


async def test_all_file_types_except_sockets_are_restored(root: Path, sandbox: Sandbox) -> None:
    for name in ("pipe", "in/pipe"):
        (root / name).parent.mkdir(exist_ok=True)
        os.mkfifo(root / name, 0o640)
    os.mknod(root / "socket", stat.S_IFSOCK | 0o600)
    (root / "empty/in").mkdir(parents=True)
    (root / "empty/in").chmod(0o750)
    (root / "link").symlink_to("one")
    for _ in range(2):
        async with sandbox.open_run({}) as run:
            await printed(run, "rm -r pipe in socket empty; ln -sfn two link; mkfifo new; echo x > b.txt")
            found = await run.find_changes()
            assert [each.path for each in found.touched] == ["b.txt", "link"]
            assert found.unsupported == ("new: not a regular file",)
            link = run.read_change("link", READ_LIMIT)
            assert link.before and link.after and (link.before.data, link.after.data) == (b"one", b"two")
            assert link.before.is_link
        assert stat.filemode((root / "pipe").stat().st_mode) == stat.filemode((root / "in/pipe").stat().st_mode)
        assert stat.filemode((root / "pipe").stat().st_mode) == "prw-r-----"
        assert stat.filemode((root / "empty/in").stat().st_mode) == "drwxr-x---"
        assert (root / "link").readlink() == Path("one") and (root / "b.txt").read_text() == "b\n"
        assert not (root / "socket").exists() and not (root / "new").exists()
    assert sandbox.restore_after_crash() == ""


async def test_a_file_with_holes_takes_no_more_room_after_a_command(root: Path, sandbox: Sandbox) -> None:
    image, data = root / "disk.img", b"start" + bytes(4 << 20) + b"middle" + bytes(3 << 20)
    with image.open("wb") as file:
        file.write(b"start")
        file.seek(4 << 20, os.SEEK_CUR)
        file.write(b"middle")
        file.truncate(len(data))
    blocks = image.stat().st_blocks
    async with sandbox.open_run({}) as run:
        await printed(run, "echo x > disk.img")
    assert image.read_bytes() == data and image.stat().st_blocks <= blocks
    assert (
        max(copy.stat().st_blocks for copy in locate_workspace_backup(root, root.parent / "runs").store.iterdir())
        < 1_000
    )


async def test_a_foreign_file_is_put_back(of_somebody_else: Path, ordinary_user: None, tmp_path: Path) -> None:
    root = of_somebody_else.parent
    sandbox = Sandbox(Workspace(root), tmp_path / "runs", own_folders=(), modes=[CommandWriteMode.IN_PLACE])
    async with sandbox.open_run({"theirs": FileOrLink(b"proposed\n", 0o666)}) as run:
        assert await printed(run, "cat theirs; echo more >> theirs") == "proposed\n"
        assert run.read_change("theirs", READ_LIMIT).after == FileOrLink(b"proposed\nmore\n", 0o666)
    assert of_somebody_else.read_text() == "theirs\n" and sandbox.restore_after_crash() == ""
    assert (of_somebody_else.stat().st_uid, stat.S_IMODE(of_somebody_else.stat().st_mode)) == (65534, 0o666)


def test_a_backup_that_a_power_cut_damaged_replaces_nothing(root: Path, sandbox: Sandbox) -> None:
    with killed_command(root) as store:
        pass
    for kept in store.glob("[0-9]*"):
        if kept.read_bytes() == b"b\n":
            kept.write_bytes(b"")
    (root / "b.txt").write_text("by the command\n")
    (root / "gone/in/file").write_text("by the command\n")
    assert sandbox.restore_after_crash()
    assert (root / "b.txt").read_text() == "by the command\n" and (root / "gone/in/file").read_text() == "stays\n"
    with killed_command(root) as store:
        (store / "index.json").write_text("")
    before = facts(root)
    assert "can't be read" in sandbox.restore_after_crash()
    assert facts(root) == before and sandbox.restore_after_crash() == ""


async def test_a_command_that_ends_during_the_wait_is_not_a_crash(root: Path, sandbox: Sandbox) -> None:
    guard, policy = locate_workspace_backup(root, root.parent / "runs"), StagingPathPolicy(Workspace(root), {})
    with guard.locked():
        guard.back_up_and_write_pending(policy, {})
        waiting = asyncio.create_task(asyncio.to_thread(sandbox.restore_after_crash))
        await until(lambda: opened(guard.store / "lock") == 2, "whoever wants to put back")
        guard.restore_files(policy)
    assert await waiting == ""


def opened(path: Path) -> int:
    """How often it is open in this process."""
    return sum(os.path.realpath(one) == str(path.resolve()) for one in Path("/proc/self/fd").iterdir())


@pytest.mark.parametrize("mode", list(CommandWriteMode))
async def test_memory_is_bounded_and_the_limit_is_named(root: Path, tmp_path: Path, mode: CommandWriteMode) -> None:
    sandbox = Sandbox(Workspace(root), tmp_path / "runs", own_folders=(), modes=[mode], limits=process_limits(200))
    if (await sandbox.probe()).mode is not mode:
        pytest.skip((await sandbox.probe()).why_not)
    async with sandbox.open_run({}) as run:
        script = (
            "import time; taken = bytearray(400 << 20); taken[::4096] = bytes(len(taken[::4096])); time.sleep(30)"
        )
        program = [sys.executable, "-c", script]
        ended = await run.execute(program, folder=".", seconds=30, output=lambda _: None)
    assert ended.limit == "it used more than 200 MB of memory, command_memory in config.toml"


async def test_a_workspace_too_large_to_back_up_without_gits_objects_runs_no_command(
    root: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        (root / f".git/objects/{number:02}").mkdir()
    monkeypatch.setattr("app.sandbox.workspace_backup.MAX_BACKUP_FILES", 100)
    async with sandbox.open_run({}) as run:
        assert await printed(run, "echo ran") == "ran\n"
    shutil.rmtree(root.parent / "runs")
    for limit, most in (("MAX_BACKUP_BYTES", 10), ("MAX_BACKUP_FILES", 5)):
        with monkeypatch.context() as smaller, pytest.raises(OSError, match="more here than"):
            smaller.setattr(f"app.sandbox.workspace_backup.{limit}", most)
            async with sandbox.open_run({}):
                pytest.fail("it was opened")
        assert not list((root.parent / "runs").glob("guard-*/[0-9]*")) and not sandbox.restore_after_crash()
    (root / ".git/objects/00/large").write_bytes(b"x" * 1_000_000)
    monkeypatch.setattr(Path, "hardlink_to", lambda *_: os.link("", ""))
    monkeypatch.setattr("app.sandbox.workspace_backup.MAX_BACKUP_BYTES", 500_000)
    with pytest.raises(OSError, match="more here than"):
        async with sandbox.open_run({}):
            pytest.fail("it was opened")


@pytest.mark.parametrize(
    "command",
    [
        "rm -rf .git",
        "mv .git kept-git",
        "git gc -q --prune=now; echo / > .git/objects/info/alternates",
        "chmod -R 700 .git/objects; for each in .git/objects/??/*; do rm $each; mkdir $each; touch $each/x; done",
    ],
)
@pytest.mark.parametrize("links", [True, False])
async def test_gits_objects_are_put_back(
    root: Path, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, command: str, *, links: bool
) -> None:
    if not links:
        monkeypatch.setattr(Path, "hardlink_to", lambda *_: os.link("", ""))
    subprocess.run(["sh", "-c", f"git add . && {GIT} commit -qm one"], cwd=root, check=True)
    for _ in range(2):
        async with sandbox.open_run({}) as run:
            await printed(run, command)
            assert ".git: put back as it was, commits are the user's" in (await run.find_changes()).unsupported
        assert not (root / ".git/objects/info/alternates").exists() and not (root / "kept-git").exists()
        for words in (["fsck", "--strict", "--no-dangling"], ["diff", "--exit-code", "HEAD"]):
            subprocess.run(["git", *words], cwd=root, check=True)


@pytest.mark.parametrize(
    ("git_folder", "ignored"), [(".bare", ""), (".bare", ".bare/\n"), ("var/in/.bare", "var/\n")]
)
async def test_a_repository_beside_its_git_file_is_put_back(
    root: Path, sandbox: Sandbox, git_folder: str, ignored: str
) -> None:
    (root / git_folder).parent.mkdir(parents=True, exist_ok=True)
    (root / ".git").rename(root / git_folder)
    (root / ".git").write_text(f"gitdir: ./{git_folder}\n")
    (root / ".gitignore").write_text(ignored)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    attack = f"echo x > {git_folder}/hooks/post-checkout; git config core.fsmonitor evil; rm .git"
    async with sandbox.open_run({}) as run:
        await printed(run, attack)
        found = await run.find_changes()
        assert (found.touched, await run.write_back(found.ignored_paths)) == ((), IgnoredPathsWriteBackReport())
        assert f"{git_folder}: put back as it was, commits are the user's" in found.unsupported
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
    with killed_command(root):
        subprocess.run(["sh", "-c", attack], cwd=root, check=True)
    assert sandbox.restore_after_crash()
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


async def test_an_object_of_another_program_stays(root: Path, sandbox: Sandbox) -> None:
    async with sandbox.open_run({}) as run:
        name = (await printed(run, "echo new | git hash-object -w --stdin")).strip()
        assert not (await run.find_changes()).unsupported
    subprocess.run(["git", "cat-file", "-e", name], cwd=root, check=True)


async def test_a_new_repository_is_removed(root: Path, sandbox: Sandbox) -> None:
    shutil.rmtree(root / ".git")
    async with sandbox.open_run({}) as run:
        await printed(run, "git init -q; git add .")
    assert not (root / ".git").exists()


@pytest.fixture
def runtime(root: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenWorkspace]:
    monkeypatch.setenv("SIGNOFF_HOME", str(root.parent / "home"))
    opened = open_workspace(root, {}, {})
    yield opened
    opened.close()


async def test_no_decision_is_carried_out_while_the_files_are_a_commands(root: Path, runtime: OpenWorkspace) -> None:
    draft = runtime.service.new_draft("")
    draft.write("b.txt", "approved\n")
    proposal = runtime.service.stage(draft, "Edit b")
    sandbox = Sandbox(runtime.workspace, runtime.dirs.runs, own_folders=(), modes=[CommandWriteMode.IN_PLACE])
    async with sandbox.open_run(runtime.service.new_draft("").pending_files()):
        assert (root / "b.txt").read_text() == "approved\n"
        assert runtime.service.rebase_pending() == []
        with pytest.raises(WorkspaceBusy, match="running directly on your files"):
            await asyncio.to_thread(runtime.service.approve, proposal.id)
    assert (root / "b.txt").read_text() == "b\n"
    assert runtime.service.get(proposal.id) == proposal
    with killed_command(root, runtime.dirs.runs):
        (root / "a.txt").write_text("by the command\n")
    runtime.service.approve(proposal.id)
    assert (root / "a.txt").read_text() == "on disk\n" and (root / "b.txt").read_text() == "approved\n"


async def test_files_that_can_not_be_restored_are_reported_until_they_are(
    root: Path, runtime: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "c.txt").write_text("c\n")
    sandbox = Sandbox(runtime.workspace, runtime.dirs.runs, own_folders=(), modes=[CommandWriteMode.IN_PLACE])
    draft = runtime.service.new_draft("")
    draft.write("new.txt", "new\n")
    proposal = runtime.service.stage(draft, "Add a file")
    with monkeypatch.context() as full_disk:
        fail_copies(full_disk, lambda _, target: target == root / "b.txt")
        with pytest.raises(OSError, match=r"not all of them could be put back \(No space left on device\)"):
            async with sandbox.open_run({}) as run:
                await printed(run, "echo x > b.txt; echo x > c.txt")
        assert (root / "c.txt").read_text() == "c\n", "the others are restored"
        (line,) = recover_interrupted_work(runtime)
        assert "not all of them could be put back" in line
        with pytest.raises(ProposalError, match="not all of them could be put back"):
            runtime.service.approve(proposal.id)
    assert recover_interrupted_work(runtime) == [
        "A command that ran directly on your files was cut off; every file is as it was before."
    ]
    assert (root / "b.txt").read_text() == "b\n"


def test_listing_proposals_restores_the_files_of_a_killed_command(
    root: Path, runtime: OpenWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    with killed_command(root, runtime.dirs.runs):
        (root / "a.txt").write_text("by the command\n")
    assert main(["proposals", "--workspace", str(root)]) == 0
    assert "every file is as it was before" in capsys.readouterr().err
    assert (root / "a.txt").read_text() == "on disk\n"


async def test_a_file_or_link_in_place_of_a_folder_with_ignored_files_is_staged(
    root: Path, sandbox: Sandbox, tmp_path: Path
) -> None:
    for name in ("file", "link"):
        (root / name / "build").mkdir(parents=True)
    (tmp_path / "build").mkdir()
    async with sandbox.open_run({}) as run:
        await printed(run, f"rm -r file link; echo x > file; ln -s {tmp_path} link")
        found = await run.find_changes()
        report = await run.write_back(found.ignored_paths)
    assert [each.path for each in found.touched] == ["file", "link"]
    assert [each.summary for each in report.written] == ["file/build, 1 removed", "link/build, 1 removed"]


async def test_a_file_is_restored_if_a_folder_with_ignored_files_replaces_it(root: Path, sandbox: Sandbox) -> None:
    before = facts(root)
    async with sandbox.open_run({}) as run:
        await printed(run, "rm a.txt; mkdir -p a.txt/build; echo x > a.txt/build/x; rm -r gone; echo x > gone")
    assert facts(root) == before


@pytest.mark.parametrize("killed", [False, True])
async def test_ignored_files_that_a_command_moves_elsewhere_are_moved_back(
    root: Path, sandbox: Sandbox, killed: bool
) -> None:
    (root / ".gitignore").write_text("build/\n*.log\n")
    (root / "gone/a.log").write_text("mine\n")
    (root / "b.log").write_text("other\n")
    before = facts(root)
    command = "mv build out; mv gone/a.log a.txt; rm -r gone; mv b.log old; echo > b.log"
    if killed:
        with killed_command(root):
            subprocess.run(command, shell=True, cwd=root, check=True)
        assert sandbox.restore_after_crash()
    else:
        async with sandbox.open_run({}) as run:
            await printed(run, command)
            found = await run.find_changes()
            assert [each.path for each in found.touched] == ["a.txt", "gone/in/file", "old", "out/old"]
            report = await run.write_back(())
        assert [each.summary for each in report.written] == ["b.log"]
    after = facts(root)
    assert after.pop("b.log")[2] == b"\n" and before.pop("b.log") and after == before


async def test_ignore_rules_written_in_place_hide_nothing(root: Path) -> None:
    (root / ".gitignore").write_text("*.log\n")
    (root / "empty").mkdir()
    sandbox = Sandbox(Workspace(root), root.parent / "runs", own_folders=(), modes=[CommandWriteMode.IN_PLACE])
    async with sandbox.open_run({}) as run:
        command = "mkdir new; for d in . new empty; do echo '*' > $d/.gitignore; echo x > $d/code.py; done"
        await run.execute(["/bin/sh", "-c", command], folder=".", seconds=30, output=lambda data: None)
        found = {each.path for each in (await run.find_changes()).touched}
    assert found == {f"{folder}{name}" for folder in ("", "new/", "empty/") for name in (".gitignore", "code.py")}
    assert (root / ".gitignore").read_text() == "*.log\n"
    assert list(root.rglob("code.py")) == [] and not (root / "new").exists()
