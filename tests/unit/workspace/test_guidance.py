"""`AGENTS.md`: nearest first, bounded, and never from outside."""

from pathlib import Path

from app.workspace.guidance import LARGEST, LARGEST_ALL, guidance
from app.workspace.paths import Workspace


def put(root: Path, path: str, text: str | bytes) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(text.encode() if isinstance(text, str) else text)


def test_nearest_first(tmp_path: Path) -> None:
    for path in ("AGENTS.md", "src/AGENTS.md", "src/deep/AGENTS.md", "other/AGENTS.md"):
        put(tmp_path, path, f" for {path}\n")
    workspace = Workspace(tmp_path)
    assert [(found.path, found.text) for found in guidance(workspace)] == [("AGENTS.md", "for AGENTS.md")]
    paths = [found.path for found in guidance(workspace, ["src/deep/x.py", "src/y.py"])]
    assert paths == ["src/deep/AGENTS.md", "src/AGENTS.md", "AGENTS.md"]


def test_size_is_bounded_and_the_nearest_kept(tmp_path: Path) -> None:
    for path in ("AGENTS.md", "a/AGENTS.md", "a/b/AGENTS.md"):
        put(tmp_path, path, "é" * LARGEST)
    found = guidance(Workspace(tmp_path), ["a/b/c"])
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
    assert guidance(Workspace(root), ["a/x", "b/x", "c/x", "missing/x"]) == []
