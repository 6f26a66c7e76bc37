"""Commands on a layer and in place: which way is chosen, what holds of both, and what a crash leaves."""

import ctypes
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.sandbox import overlay_layer, workspace_backup
from app.sandbox import sandbox as choosing
from app.sandbox.captured_changes import FileOrLink
from app.sandbox.confinement import CommandWriteMode, SandboxCapabilities, SandboxedWorkspace, landlock_version
from app.sandbox.run_folders import remove_stale_folders, remove_tree, temporary_run_folder
from app.sandbox.sandbox import Sandbox
from app.tools.base.contract import PermissionAnswer
from app.workspace.path_rules import MAX_PATH_DEPTH
from app.workspace.paths import Workspace
from tests.unit.sandbox.test_scripts import shell
from tests.unit.tools.memory_draft import Bench, MemoryDraft


async def sandbox_of(root: Path, way: CommandWriteMode) -> Sandbox:
    sandbox = Sandbox(Workspace(root), root.parent / "state/runs", own_folders=(root.parent / "state",), modes=[way])
    probe = await sandbox.probe()
    if probe.mode is not way:
        pytest.skip(probe.why_not)
    return sandbox


async def printed(run: SandboxedWorkspace, command: str) -> str:
    parts: list[bytes] = []
    await run.execute(shell(f"exec 2>&1\n{command}"), folder=".", seconds=30, output=parts.append)
    return b"".join(parts).decode()


def test_pending_files_are_not_written_through_a_link_outside_and_remove_no_others(tmp_path: Path) -> None:
    for name in ("folder/e/kept", "folder/e/f/gone", "out/gone"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "folder/d").symlink_to(tmp_path / "out")
    for pending in ({"d/gone": None}, {"d/new": FileOrLink(b"", 0o644)}, {"e/f/gone": None}):
        workspace_backup._write_pending(pending, tmp_path / "folder")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["gone"]
    assert (tmp_path / "folder/d/new").exists()
    assert [path.name for path in (tmp_path / "folder/e").iterdir()] == ["kept"]


@pytest.mark.parametrize("way", list(CommandWriteMode))
async def test_signoffs_own_files_do_not_count_as_changes_of_a_command(root: Path, way: CommandWriteMode) -> None:
    (root / ".gitignore").write_text("own/ignored/\n")
    workspace = Workspace(root, off_limits=[root / "own"])
    sandbox = Sandbox(workspace, root.parent / "runs", own_folders=(), modes=[way])
    if (await sandbox.probe()).mode is not way:
        pytest.skip((await sandbox.probe()).why_not)
    async with sandbox.open_run({}) as run:
        await printed(run, "mkdir -p own/ignored; echo x > own/file; echo x > own/ignored/file; echo y > kept")
        found = await run.find_changes()
        assert [each.path for each in found.touched] == ["kept"]
        await run.write_back(found.ignored_paths)
    assert way is CommandWriteMode.IN_PLACE or not (root / "own").exists()


@pytest.mark.parametrize("way", list(CommandWriteMode))
async def test_only_what_git_ignores_and_nothing_runs_is_not_a_change(
    root: Path, way: CommandWriteMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "prefix", str(root / "build/own"))
    for folder in (root, root / "sub"):
        folder.mkdir(exist_ok=True)
        subprocess.run(["git", "init", "--quiet", folder], check=True)
    (root / ".gitignore").write_text("*.cfg\n.husky/_\nbuild\n.claude\n.cursor\n.aider*\n*.log\n")
    (root / "large").mkdir()
    (root / "large/.gitignore").write_text(f"*\n{'#' * (1 << 20)}\n!*\n")
    (root / "sub/.gitignore").write_text("*.o\n")
    (root / "sub/forced.o").touch()
    subprocess.run(["git", "-C", root / "sub", "add", "--force", "forced.o"], check=True)
    with (root / ".git/config").open("a") as config:
        config.write("[core]\n\thooksPath = .husky/_ ; husky's\n[include] path = ../build/git.cfg\n")
    sandbox = await sandbox_of(root, way)
    async with sandbox.open_run({}) as run:
        folders = "build/own .husky/_ sub/build .claude .cursor a.log-wal"
        command = f"mkdir -p {folders}; echo x | tee a.cfg build/a build/git.cfg a.log-wal/a b.log-wal"
        others = (
            "sub/a.cfg sub/build/a sub/a.o sub/forced.o large/a .husky/_/pre-commit .claude/settings.local.json "
            ".claude/log .cursor/hooks.json .aider.conf.yml build/own/python"
        )
        await printed(run, f"{command} {others}")
        found = await run.find_changes()
        assert [each.path for each in found.touched] == [
            *(
                ".aider.conf.yml",
                ".claude/settings.local.json",
                ".cursor/hooks.json",
                ".husky/_/pre-commit",
                "a.log-wal/a",
                "build/git.cfg",
                "build/own/python",
                "large/a",
                "sub/a.cfg",
                "sub/build/a",
                "sub/forced.o",
            ),
        ]


@pytest.mark.parametrize("way", list(CommandWriteMode))
@pytest.mark.parametrize("unreadable", [".git/index", "sub/.git/index"])
async def test_nothing_is_ignored_if_an_index_cannot_be_read(
    root: Path, way: CommandWriteMode, unreadable: str
) -> None:
    for folder in (root, root / "sub"):
        folder.mkdir(exist_ok=True)
        subprocess.run(["git", "init", "--quiet", folder], check=True)
        (folder / ".gitignore").write_text("*.cfg\n")
    (root / unreadable).write_bytes(b"DIRC\0\0\0\2\0\0\0\1")
    async with (await sandbox_of(root, way)).open_run({}) as run:
        await printed(run, "echo x > sub/a.cfg")
        assert [each.path for each in (await run.find_changes()).touched] == ["sub/a.cfg"]


@pytest.mark.parametrize("way", list(CommandWriteMode))
@pytest.mark.parametrize("name", ["d", "d" * 250])
async def test_endlessly_nested_folders_are_left_out(root: Path, way: CommandWriteMode, name: str) -> None:
    sandbox = await sandbox_of(root, way)
    nest = f"for _ in range(1100 if {len(name)} < 2 else 20): os.mkdir('{name}'); os.chdir('{name}')"
    async with sandbox.open_run({}) as run:
        await printed(run, f"echo x > kept; exec python3 -c \"import os\n{nest}\nopen('z', 'w')\"")
        found = await run.find_changes()
        assert [each.path for each in found.touched] == ["kept"]
        assert way is CommandWriteMode.IN_PLACE or [
            one for one in found.unsupported if one.endswith(f"/{name}: nested too deep")
        ]
    assert list(root.iterdir()) == []
    sandbox.close()
    assert not list((root.parent / "state/runs").glob("run-*")) and not sandbox.restore_after_crash()


@pytest.mark.layer
@pytest.mark.usefixtures("ordinary_user")
async def test_unwritable_ignored_file_does_not_stop_the_others(root: Path, tmp_path: Path) -> None:
    (root / ".gitignore").write_text("*.log\n")
    bench = Bench(
        Workspace(root), MemoryDraft(Workspace(root)), PermissionAnswer(True), modes=[CommandWriteMode.OVERLAY]
    )
    (root / "sub").mkdir(mode=0o500)
    bench.draft.held["sub/waits"] = b"waits\n"
    output = await bench.call("run_command", command="chmod 700 sub; echo 1 > sub/a.log; echo 2 > b; cat sub/waits")
    assert "\nwaits\n" in output.text and output.staged and bench.draft.held["b"] == b"2\n"
    assert "not all of it could be written, permission denied: sub/a.log" in output.text


async def chosen(root: Path, runs: Path, *ways: CommandWriteMode) -> SandboxCapabilities:
    return await Sandbox(Workspace(root), runs, own_folders=(), modes=ways).probe()


async def test_overlay_is_used_wherever_it_can_be_mounted_and_holds_what_is_written(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("upper", "work", "runs"):
        (tmp_path / name).mkdir()
    over = f"lowerdir={root},upperdir={tmp_path}/upper,workdir={tmp_path}/work,userxattr"
    mount = ["unshare", "-Urm", "mount", "-t", "overlay", "overlay", "-o", over, str(root)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("there is none here")
    assert await chosen(root, tmp_path / "runs", *CommandWriteMode) == SandboxCapabilities(
        CommandWriteMode.OVERLAY, landlock=landlock_version()
    )
    monkeypatch.setenv("PATH", "/nonexistent")
    probe = await chosen(root, tmp_path / "runs", CommandWriteMode.OVERLAY)
    assert probe.why_not.startswith("a layer over this file system does not hold what is written (")
    assert "mkdir" in probe.why_not


@pytest.mark.layer
async def test_neither_rules_nor_programs_and_libraries_of_the_workspace_prevent_an_overlay(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / ".gitignore").write_text("*\n!src\n")
    (root / "bin").mkdir()
    for name in ("chmod", "mkdir", "mv"):
        (root / "bin" / name).write_text("#!/bin/sh\nexit 1\n")
        (root / "bin" / name).chmod(0o755)
    # Python links it, and fails if it is no library; a shell does not.
    (root / "bin/libm.so.6").touch()
    monkeypatch.setenv("PATH", f"{root}/bin:{os.environ['PATH']}")
    monkeypatch.setenv("LD_LIBRARY_PATH", f"{root}/bin")
    sandbox = Sandbox(Workspace(root), tmp_path / "runs", own_folders=())
    assert (await sandbox.probe()).mode is CommandWriteMode.OVERLAY, await sandbox.probe()
    async with sandbox.open_run({}) as run:
        assert await printed(run, "echo $LD_LIBRARY_PATH; echo ${PATH%%:*}") == f"{root}/bin\n{root}/bin\n"


@pytest.mark.layer
@pytest.mark.usefixtures("ordinary_user")
async def test_an_unwritable_workspace_gets_an_overlay_too(root: Path, tmp_path: Path) -> None:
    root.chmod(0o555)
    sandbox = Sandbox(Workspace(root), tmp_path / "runs", own_folders=())
    assert (await sandbox.probe()).mode is CommandWriteMode.OVERLAY
    async with sandbox.open_run({}) as run:
        assert "denied" in await printed(run, "echo x > new")


@pytest.mark.layer
async def test_git_finds_the_repository_above_the_workspace(root: Path, tmp_path: Path) -> None:
    (root / "sub").mkdir()
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    sandbox = Sandbox(Workspace(root / "sub"), tmp_path / "runs", own_folders=(), modes=[CommandWriteMode.OVERLAY])
    async with sandbox.open_run({}) as run:
        assert await printed(run, "echo x > new; git status --short new") == "?? new\n"


async def test_the_mode_is_chosen_by_what_works(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no folder")
    probe = await chosen(root, tmp_path / "file", *CommandWriteMode)
    assert probe.mode is CommandWriteMode.IN_PLACE and "File exists" in probe.why_not
    monkeypatch.setattr(choosing, "landlock_version", lambda: 0)
    probe = await chosen(root, tmp_path / "runs", CommandWriteMode.IN_PLACE)
    assert (probe.mode, probe.is_confined) == (CommandWriteMode.IN_PLACE, False)


@pytest.mark.parametrize("way", list(CommandWriteMode))
async def test_a_link_in_place_of_a_folder_moves_and_reads_nothing_outside(root: Path, way: CommandWriteMode) -> None:
    outside = root.parent / "outside"
    for folder, text in ((outside, "secret"), (root / "a", "own"), (root / "build", "own"), (root / "c", "own")):
        for name in ("key", "build/key", "d/key"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    (root / "old").symlink_to(outside)
    (root / ".gitignore").write_text("build\n")
    sandbox = await sandbox_of(root, way)
    async with sandbox.open_run({}) as run:
        links = f"rm -rf a build; ln -s {outside} a; ln -s {outside} build; rm old; mkdir old; echo new > old/key"
        await printed(run, f"{links}; rm -rf c; mkdir c; echo > c/d")
        found = await run.find_changes()
        changes = [run.read_change(each.path, 100) for each in found.touched]
        await run.write_back(found.ignored_paths)
    assert {each.path for each in changes if each.after is None} >= {"a/key", "a/d/key", "c/key", "c/d/key"}
    assert all(
        b"secret" not in (leaf.data if leaf else b"") for each in changes for leaf in (each.before, each.after)
    )
    assert all((outside / name).read_text() == "secret" for name in ("key", "build/key", "d/key"))
    assert (root / "build").readlink() == outside


@pytest.mark.parametrize("way", list(CommandWriteMode))
async def test_nothing_that_git_ignores_replaces_what_it_does_not_ignore(root: Path, way: CommandWriteMode) -> None:
    (root / ".gitignore").write_text("build/\nfile\n!file/\n")
    for name in ("build", "sub/build", "file/a"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("mine")
    async with (await sandbox_of(root, way)).open_run({}) as run:
        await printed(run, "rm -r build file sub; mkdir -p build sub/build; echo x | tee build/x sub/build/x > file")
        found = await run.find_changes()
        assert {each.path for each in found.touched if each.is_deleted} == {"build", "sub/build", "file/a"}
        await run.write_back(found.ignored_paths)
    assert {(root / name).read_text() for name in ("build", "sub/build", "file/a")} == {"mine"}


@pytest.mark.parametrize("way", list(CommandWriteMode))
async def test_a_command_neither_reads_nor_clears_the_users_keys(root: Path, way: CommandWriteMode) -> None:
    numbers = {"x86_64": (248, 250), "aarch64": (217, 219)}.get(os.uname().machine)
    libc, session = ctypes.CDLL(None), ctypes.c_int(-3)
    if numbers is None or libc.syscall(numbers[0], b"user", b"signoff", b"key", ctypes.c_size_t(3), session) < 0:
        pytest.skip("the kernel keeps no keys here")
    search = (numbers[1], 10, -3, b"user", b"signoff", 0)
    call = f"import ctypes; call = ctypes.CDLL(None).syscall; print(call(*{search}), call({numbers[1]}, 7, -3))"
    async with (await sandbox_of(root, way)).open_run({}) as run:
        assert await printed(run, f'python3 -c "{call}"') == "-1 0\n"
    assert libc.syscall(*search[:2], session, *search[3:]) > 0


@pytest.mark.parametrize("way", list(CommandWriteMode))
async def test_no_change_is_staged_in_a_folder_that_tools_do_not_touch(root: Path, way: CommandWriteMode) -> None:
    subprocess.run(["git", "init", "-q", "sub"], cwd=root, check=True)
    sandbox = await sandbox_of(root, way)
    async with sandbox.open_run({}) as run:
        await printed(
            run, "git -C sub config alias.x y; mkdir -p 'n\nb' \"$(printf '\\377')/in\" in/.hg; echo > sub/new"
        )
        await printed(run, f"mkdir -p {'d/' * 250}; echo > {'d/' * 250}file")
        await printed(run, "for each in 'n\nb' $(printf '\\377')/in in/.hg; do echo > \"$each/file\"; done")
        found = await run.find_changes()
    assert [change.path for change in found.touched] == ["sub/new"]
    assert found.unsupported == (
        f"d{'/d' * MAX_PATH_DEPTH}: nested too deep",
        "in/.hg: belongs to Mercurial; tools don't touch it",
        "n\nb: has control characters",
        "sub/.git: belongs to git; tools don't touch it",
        "\udcff: is not a UTF-8 name; tools can't reach it",
    )


def test_no_mount_table_means_no_mounts(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay_layer, "_MOUNT_TABLE", tmp_path / "none")
    assert overlay_layer.mount_points_below(root) == []


def test_only_leftovers_of_a_crash_are_removed(tmp_path: Path) -> None:
    for name in ("run-left", "guard-kept", "new-being-made", "new-left"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lock").touch()
    os.utime(tmp_path / "new-left", (time.time() - 3600,) * 2)
    # Whoever has made it removes it at this moment.
    (tmp_path / "new-going").symlink_to("gone")
    (tmp_path / "run-going").mkdir()
    with temporary_run_folder(tmp_path) as running:
        remove_stale_folders(tmp_path)
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {"guard-kept", "new-being-made", "new-going", "run-going", running.name}
    assert not running.exists()
    remove_stale_folders(tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.usefixtures("ordinary_user")
def test_locked_files_are_removed_without_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", None)
    (tmp_path / "kept").mkdir(mode=0)
    (tmp_path / "run/locked/in").mkdir(parents=True)
    (tmp_path / "run/link").symlink_to(tmp_path / "kept")
    (tmp_path / "run/locked/in").chmod(0)
    (tmp_path / "run/locked").chmod(0)
    remove_tree(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0
