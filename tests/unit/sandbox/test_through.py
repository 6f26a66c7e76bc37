"""What a layer shows of ignored paths comes to the workspace, whatever stands there; and what is laid over it."""

import os
import stat
import time
from pathlib import Path

import pytest

from app.sandbox.captured_changes import FileOrLink, IgnoredPathsWriteBackReport
from app.sandbox.confinement import CommandWriteMode
from app.sandbox.files_and_links import has_same_content_and_mode
from app.sandbox.ignored_write_back import IgnoredFileWriter
from app.sandbox.path_policy import StagingPathPolicy
from app.sandbox.run_folders import remove_tree
from app.sandbox.sandbox import Sandbox
from app.sandbox.upper_layer import is_whiteout
from app.workspace.paths import Workspace
from tests.unit.sandbox.test_both_modes import printed


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    (tmp_path / "layer").mkdir()
    return tmp_path / "layer"


def put(path: Path, text: str = "x") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def whiteout(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mknod(path, stat.S_IFCHR, 0)


def write_through(root: Path, layer: Path, *paths: str) -> IgnoredPathsWriteBackReport:
    return IgnoredFileWriter(root, layer, time.time_ns(), lambda: root.parent / "kept", dry=False).write(paths)


def test_files_in_a_removed_folder_are_removed_and_missing_paths_skipped(root: Path, layer: Path) -> None:
    put(root / "build/in/file")
    put(root / "build/stays")
    whiteout(layer / "build/in")
    whiteout(layer / "gone")
    assert [is_whiteout(layer / name) for name in ("gone", "build", "none", "gone/in")] == [True, *[False] * 3]
    write_through(root, layer, "build/in/file", "build/stays", "none/in/file", "gone/in/file")
    assert not (root / "build/in/file").exists() and (root / "build/stays").exists()
    assert not (root / "none").exists() and list((root / "gone").iterdir()) == []


def test_a_file_in_place_of_a_folder_is_the_reason(root: Path, layer: Path) -> None:
    put(root / "file")
    put(layer / "file/build")
    assert write_through(root, layer, "file/build").failed == {"file/build": "not a directory"}


def test_endlessly_nested_folders_are_reported(root: Path, layer: Path) -> None:
    for folder in (root, layer):
        here = os.open(folder, os.O_RDONLY)
        for _ in range(1_100):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(here)
    try:
        assert write_through(root, layer, "d").failed == {"d": "folders are nested too deep"}
    finally:
        for folder in (root, layer):
            remove_tree(folder)


@pytest.mark.usefixtures("ordinary_user")
def test_unreadable_files_are_compared_without_content(root: Path, layer: Path) -> None:
    for place in (root, layer):
        put(place / "locked", str(place))
        (place / "locked").chmod(0)
    assert has_same_content_and_mode(layer / "locked", root / "locked")
    (layer / "locked").chmod(0o100)
    assert not has_same_content_and_mode(layer / "locked", root / "locked")


@pytest.mark.layer
async def test_pending_deletion_removes_only_its_own_folder(root: Path, tmp_path: Path) -> None:
    for name in ("d/gone", "d/kept", "e/only", "f/now-a-folder", "g/gone-with-its-folder"):
        put(root / name)
    sandbox = Sandbox(Workspace(root), tmp_path / "runs", own_folders=(), modes=[CommandWriteMode.OVERLAY])
    pending = {
        **dict.fromkeys(("d/gone", "e/only", "none/at/all", "f/now-a-folder", "g/gone-with-its-folder")),
        "f/now-a-folder/file": FileOrLink(b"x", 0o644),
        "g": FileOrLink(b"a file by now", 0o644),
    }
    async with sandbox.open_run(pending) as run:
        assert await printed(run, "find . -mindepth 1 | sort") == (
            "./d\n./d/kept\n./f\n./f/now-a-folder\n./f/now-a-folder/file\n./g\n"
        )
        assert (await run.find_changes()).touched == ()


@pytest.mark.layer
async def test_a_replaced_folder_reports_each_file_once(root: Path, tmp_path: Path) -> None:
    (root / ".gitignore").write_text("*.log\n")
    for name in ("d/both", "d/gone", "d/in/gone", "d/in/a.log", "d/a.log", "d/pipe"):
        put(root / name)
    workspace = Workspace(root)
    sandbox = Sandbox(workspace, tmp_path / "runs", own_folders=(), modes=[CommandWriteMode.OVERLAY])
    async with sandbox.open_run({}) as run:
        await printed(run, "rm -r d; mkdir d; echo new > d/both; mkfifo d/pipe")
        found = await run.find_changes()
        assert [(each.path, each.is_deleted) for each in found.touched] == [
            ("d/both", False),
            ("d/gone", True),
            ("d/in/gone", True),
        ]
        assert found.ignored_paths == ("d/a.log", "d/in/a.log")
        assert found.unsupported == ("d/pipe: not a regular file",)
        assert not StagingPathPolicy(workspace, {}).is_tracked_or_pending("d/a.log")
