"""Folders that are no project, and what stays out of reach in them."""

import pwd
from pathlib import Path

import pytest

from app.workspace.breadth import describe_broad_folder
from app.workspace.paths import UnsafePath, Workspace
from app.workspace.secrets import secret_reason


def test_what_holds_more_than_a_project_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "homes/me"
    (home / "project").mkdir(parents=True)
    (tmp_path / "link").symlink_to(home)
    monkeypatch.setenv("HOME", str(home))
    assert describe_broad_folder(Path("/")) == "the whole machine"
    assert describe_broad_folder(home) == describe_broad_folder(tmp_path / "link") == "your home folder"
    assert describe_broad_folder(home.parent) == describe_broad_folder(Path("/etc")) == "a folder of the system"
    assert not describe_broad_folder(home / "project") and not describe_broad_folder(tmp_path / "homes/other")


def test_a_home_that_nobody_has_widens_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    assert not describe_broad_folder(tmp_path)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    assert not describe_broad_folder(tmp_path)


@pytest.mark.parametrize("path", ["proc/self/environ", "sys/kernel/notes", "dev/null", "dev/../proc/self/environ"])
def test_what_the_kernel_shows_is_no_file_of_the_whole_machine(path: str) -> None:
    with pytest.raises(UnsafePath, match="belongs to the kernel"):
        Workspace(Path("/")).read(path)


def test_a_workspace_on_such_a_file_system_has_files(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Workspace(Path("/proc/self")).read("status")


@pytest.mark.parametrize("path", ["etc/shadow", "etc/gshadow-", "root/.bash_history", ".config/gh/hosts.yml"])
def test_what_a_machine_keeps_to_itself_looks_like_a_secret(path: str) -> None:
    assert secret_reason(path)
