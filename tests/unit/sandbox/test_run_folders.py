"""The folders of runs: what a crash has left of them is cleared away, and nothing else."""

import os
import stat
import subprocess
import time
from pathlib import Path

import pytest

from app.sandbox.run_folders import remove_stale_folders, remove_tree, run_folder


def put(parent: Path, name: str, *, old: bool = False) -> None:
    (parent / name).mkdir()
    (parent / name / "lock").touch()
    if old:
        os.utime(parent / name, (time.time() - 3600,) * 2)


def test_only_what_a_crash_has_left_is_cleared_away(tmp_path: Path) -> None:
    for name in ("run-left", "guard-kept", "new-being-made"):
        put(tmp_path, name)
    put(tmp_path, "new-left", old=True)
    # Whoever has made it removes it at this moment.
    (tmp_path / "new-going").symlink_to("gone")
    (tmp_path / "run-going").mkdir()
    with run_folder(tmp_path) as running:
        remove_stale_folders(tmp_path)
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {"guard-kept", "new-being-made", "new-going", "run-going", running.name}
    assert not running.exists()


def test_where_there_is_nothing_nothing_is_cleared_away(tmp_path: Path) -> None:
    remove_stale_folders(tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.usefixtures("ordinary_user")
def test_what_a_command_has_locked_goes_without_a_further_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subprocess, "run", None)
    (tmp_path / "kept").mkdir(mode=0)
    (tmp_path / "run/locked/in").mkdir(parents=True)
    (tmp_path / "run/link").symlink_to(tmp_path / "kept")
    (tmp_path / "run/locked/in").chmod(0)
    (tmp_path / "run/locked").chmod(0)
    remove_tree(tmp_path / "run")
    assert not (tmp_path / "run").exists()
    assert stat.S_IMODE((tmp_path / "kept").stat().st_mode) == 0
