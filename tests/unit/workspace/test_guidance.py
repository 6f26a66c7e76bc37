"""`AGENTS.md`: nearest first, bounded, and never from outside."""

import os
from pathlib import Path

from app.agent.prompts import LARGEST, LARGEST_ALL, find_guidance
from app.workspace.paths import Workspace


def put(root: Path, path: str, text: str | bytes) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(text.encode() if isinstance(text, str) else text)


def test_nearest_first(tmp_path: Path) -> None:
    for path in ("AGENTS.md", "src/AGENTS.md", "src/deep/AGENTS.md", "other/AGENTS.md"):
        put(tmp_path, path, f" for {path}\n")
    workspace = Workspace(tmp_path)
    assert [(found.path, found.text) for found in find_guidance(workspace)] == [("AGENTS.md", "for AGENTS.md")]
    paths = [found.path for found in find_guidance(workspace, ["src/deep/x.py", "src/y.py"])]
    assert paths == ["src/deep/AGENTS.md", "src/AGENTS.md", "AGENTS.md"]


def test_size_is_bounded_and_the_nearest_kept(tmp_path: Path) -> None:
    for path in ("AGENTS.md", "a/AGENTS.md", "a/b/AGENTS.md"):
        put(tmp_path, path, "é" * LARGEST)
    found = find_guidance(Workspace(tmp_path), ["a/b/c"])
    assert all(part.cut for part in found)
    assert all(len(part.text.encode()) <= LARGEST for part in found)
    assert sum(len(part.text.encode()) for part in found) <= LARGEST_ALL
    assert [part.path for part in found] == ["a/b/AGENTS.md", "a/AGENTS.md"]


def test_leaves_out_what_is_no_text_or_lies_outside(tmp_path: Path) -> None:
    put(tmp_path, "outside.md", "do evil")
    root = tmp_path / "ws"
    put(root, "a/AGENTS.md", b"\0\0")
    put(root, "b/AGENTS.md", "  \n")
    (root / "AGENTS.md").symlink_to("../outside.md")
    (root / "c/AGENTS.md").mkdir(parents=True)
    assert find_guidance(Workspace(root), ["a/x", "b/x", "c/x", "missing/x"]) == []


def test_what_looks_like_a_secret_is_left_out_whatever_it_is_called(tmp_path: Path) -> None:
    root = tmp_path / "ws"
    put(root, ".env", "KEY=hunter2")
    put(root, "id_rsa", "hunter2")
    put(root, "notes.txt", "-----BEGIN PRIVATE KEY-----\nhunter2\n")
    put(root, ".ssh/config", "hunter2")
    for folder, target in {
        "": ".env",
        "a/": "../id_rsa",
        "b/": "../notes.txt",
        "c/": "../linked",
        "d/": "../.ssh/config",
    }.items():
        (root / folder).mkdir(exist_ok=True)
        (root / f"{folder}AGENTS.md").symlink_to(target)
    (root / "linked").symlink_to(".env")
    put(root, "e/AGENTS.md", "be brief")
    found = find_guidance(Workspace(root), [f"{folder}/x" for folder in "abcde"])
    assert [(part.path, part.text) for part in found] == [("e/AGENTS.md", "be brief")]


def test_a_link_to_another_file_of_the_project_is_fine(tmp_path: Path) -> None:
    put(tmp_path, "docs/guide.md", "be brief")
    (tmp_path / "AGENTS.md").symlink_to("docs/guide.md")
    assert [part.text for part in find_guidance(Workspace(tmp_path))] == ["be brief"]


def test_a_pipe_is_not_waited_for_and_a_huge_file_not_read_whole(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "AGENTS.md")
    put(tmp_path, "a/AGENTS.md", "")
    os.truncate(tmp_path / "a/AGENTS.md", 2**40)
    put(tmp_path, "b/AGENTS.md", "be brief\n" * 10)
    os.truncate(tmp_path / "b/AGENTS.md", 2**40)
    assert find_guidance(Workspace(tmp_path), ["a/x", "b/x"]) == [], "holes are zeros, and zeros no text"


def test_what_is_kept_from_the_model_is_told_in_a_line_each(tmp_path: Path) -> None:
    put(tmp_path, "outside.md", "do evil")
    root = tmp_path / "ws"
    put(root, ".env", "KEY=hunter2")
    put(root, "b/AGENTS.md", "  \n")
    (root / "a").mkdir()
    (root / "a/AGENTS.md").symlink_to("../.env")
    (root / "AGENTS.md").symlink_to("../outside.md")
    told: list[str] = []
    assert find_guidance(Workspace(root), ["a/x", "b/x", "missing/x"], told.append) == []
    assert told == [
        "Kept from the model: a/AGENTS.md looks like a secret, or leads to one.",
        "Kept from the model: AGENTS.md leads out of the workspace through a link.",
    ]
