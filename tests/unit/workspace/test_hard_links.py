"""Secrets under another name: which are found, and what is not looked for."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.workspace import paths
from app.workspace.paths import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    root = tmp_path / "ws"
    root.mkdir()
    (root / ".env").write_text("KEY=1\n")
    os.link(root / ".env", root / "notes.txt")
    (root / "other.txt").touch()
    return Workspace(root)


def test_a_file_is_the_secret_that_one_of_its_names_says(workspace: Workspace) -> None:
    assert workspace.secret_twin("notes.txt") == ".env"
    assert workspace.secret_twin("other.txt") == ""


def test_a_file_with_one_name_is_looked_for_nowhere(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[object] = []

    def walk(top: object) -> Iterator[tuple[str, list[str], list[str]]]:
        looked.append(top)
        yield from ()

    monkeypatch.setattr(os, "walk", walk)
    assert workspace.secret_twin("other.txt") == workspace.secret_twin(".") == "" and looked == []
    workspace.secret_twin("notes.txt")
    assert looked == [workspace.root]


def test_no_more_names_are_looked_at_than_so_many(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "_MOST", 1)
    (workspace.root / "sub/deep").mkdir(parents=True)
    (workspace.root / "notes.txt").rename(workspace.root / "sub/notes.txt")
    (workspace.root / ".env").rename(workspace.root / "sub/deep/.env")
    for number in range(5):
        os.link(workspace.root / "sub/deep/.env", workspace.root / f"sub/deep/.env.{number}")
    assert workspace.secret_twin("sub/notes.txt") == ""


def test_a_name_that_lies_too_deep_to_be_looked_at_hides_no_other(workspace: Workspace) -> None:
    here = os.open(workspace.root, os.O_RDONLY)
    length = len(os.fsencode(workspace.root))
    while length < 4_090:
        name = "d" * min(200, 4_094 - length - 1)
        os.mkdir(name, dir_fd=here)
        deeper = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here, length = deeper, length + 1 + len(name)
    os.close(os.open(".env.production", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)
    assert workspace.secret_twin("notes.txt") == ".env"


def test_what_is_not_there_is_nothing_in_the_folder_that_one_is_in(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    os.link(workspace.root / ".env", tmp_path / "key")
    (tmp_path / "link").symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert workspace.secret_twin("gone/key") == ""
    assert workspace.resolve("gone/link") == "gone/link"
    with pytest.raises(FileNotFoundError, match="gone/key does not exist"):
        workspace.read("gone/key")
