"""A search while files and folders are swapped under it shows no byte of a secret, nor any from outside."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.tools.search import search_text
from app.tools.search.search_text import LiteralMatcher
from app.workspace.reading import OpenFolderChain
from tests.unit.tools.memory_draft import Bench

HIDDEN = "needle hunter2\n"


def plant(root: Path) -> None:
    """Files with a word, a secret, two names of a harmless file, and the same paths outside with other content."""
    outside = root.parent / "outside"
    for path in ("a", "b", "c/d/e", "c/f", "g"):
        for base, text in ((root, "needle\n"), (outside, HIDDEN)):
            (base / path).parent.mkdir(parents=True, exist_ok=True)
            (base / path).write_text(text)
    (root / ".env").write_text(f"TOKEN={HIDDEN}")
    os.link(root / "a", root / "a2")


def swap_file_for_link_out(root: Path) -> None:
    (root / "b").unlink()
    (root / "b").symlink_to("../outside/b")


def swap_file_for_link_to_secret(root: Path) -> None:
    (root / "b").unlink()
    (root / "b").symlink_to(".env")


def swap_file_for_hard_link_of_secret(root: Path) -> None:
    os.link(root / ".env", root / "new")
    (root / "new").replace(root / "b")


def swap_folder_for_link_out(root: Path) -> None:
    (root / "c").rename(root / "moved")
    (root / "c").symlink_to("../outside/c")


def swap_inner_folder_for_link_out(root: Path) -> None:
    (root / "c/d").rename(root / "moved")
    (root / "c/d").symlink_to("../../outside/c/d")


SWAPS = [
    swap_file_for_link_out,
    swap_file_for_link_to_secret,
    swap_file_for_hard_link_of_secret,
    swap_folder_for_link_out,
    swap_inner_folder_for_link_out,
]


@pytest.mark.parametrize("swap", SWAPS, ids=lambda swap: swap.__name__)
def test_no_swap_shows_secrets(bench: Bench, monkeypatch: pytest.MonkeyPatch, swap: Callable[[Path], None]) -> None:
    """The swap comes before each call by which the disk is looked at, in one search after another."""
    root, left, looked = bench.workspace.root, 0, True
    plant(root)

    def watched(name: str) -> None:
        real = getattr(os, name)

        def call(*args: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                swap(root)
            return real(*args, **options)

        monkeypatch.setattr(os, name, call)

    for name in ("open", "scandir", "read", "fstat"):
        watched(name)
    moment = 0
    while looked:
        moment += 1
        for base in (root, root.parent / "outside"):
            base.rename(base.parent / f"{base.name}{moment}")
            base.mkdir()
        plant(root)
        bench.workspace = type(bench.workspace)(root)
        left = moment
        found = search_text.StoppableTextSearch(bench.context, ".", "", LiteralMatcher("needle", False)).run()
        assert "hunter2" not in str(found.files), moment
        looked, left = left <= 0, 0
    assert moment > 10


@pytest.mark.parametrize("depth", [1, 44])
def test_a_way_that_was_open_leads_to_the_same_folders_after_a_swap(bench: Bench, depth: int) -> None:
    root = bench.workspace.root
    way = "c/" * depth
    for base, text in ((root, "inside"), (root.parent / "outside", "outside")):
        (base / way / "d").mkdir(parents=True)
        (base / way / "d/e").write_text(text)
        (base / way / "f").write_text(text)
    with bench.workspace.walked_file_reader() as read:
        assert read(f"{way}f").content == b"inside"
        (root / "c").rename(root / "moved")
        (root / "c").symlink_to("../outside/c")
        assert read(f"{way}d/e").content == b"inside"
        assert read(f"moved{way[1:]}f").content == b"inside"
        with pytest.raises(OSError, match=r"Not a directory|symbolic links"):
            read(f"{way}f")


def test_a_folder_swapped_while_open_is_listed_as_it_was(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    root = bench.workspace.root
    for path in ("b/in.py", "b/x.log", "../outside/secret.py"):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()
    (root / "b/.gitignore").write_text("*.log\n")
    opened = OpenFolderChain.open_folder

    def folder(self: OpenFolderChain, path: str) -> int:
        descriptor = opened(self, path)
        if path == "b" and not (root / "b").is_symlink():
            (root / "b").rename(root / "moved")
            (root / "b").symlink_to("../outside")
        return descriptor

    monkeypatch.setattr(OpenFolderChain, "open_folder", folder)
    assert list(bench.workspace.walk_files()) == ["b/.gitignore", "b/in.py"]
