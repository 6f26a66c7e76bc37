"""What a workspace says of itself: `AGENTS.md`, nearest first and bounded; trust in it; and that it changed."""

import asyncio
import os
from contextlib import aclosing
from pathlib import Path

import pytest

from app.agent.prompts import MAX_GUIDANCE_BYTES, MAX_GUIDANCE_FILE_BYTES, find_guidance_files
from app.workspace.file_watching import start_watch, watch_changes
from app.workspace.path_rules import UnsafePath
from app.workspace.paths import Workspace
from app.workspace.trust import forget_trust, is_trusted, read_untrusted_workspace_configuration, store_trust


def put(root: Path, path: str, text: str | bytes) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_bytes(text.encode() if isinstance(text, str) else text)


def test_nearest_first(tmp_path: Path) -> None:
    for path in ("AGENTS.md", "src/AGENTS.md", "src/deep/AGENTS.md", "other/AGENTS.md"):
        put(tmp_path, path, f" for {path}\n")
    workspace = Workspace(tmp_path)
    assert [(found.path, found.text) for found in find_guidance_files(workspace)] == [("AGENTS.md", "for AGENTS.md")]
    paths = [found.path for found in find_guidance_files(workspace, ["src/deep/x.py", "src/y.py"])]
    assert paths == ["src/deep/AGENTS.md", "src/AGENTS.md", "AGENTS.md"]


def test_size_is_bounded_and_the_nearest_kept(tmp_path: Path) -> None:
    for path in ("AGENTS.md", "a/AGENTS.md", "a/b/AGENTS.md"):
        put(tmp_path, path, "é" * MAX_GUIDANCE_FILE_BYTES)
    found = find_guidance_files(Workspace(tmp_path), ["a/b/c"])
    assert all(part.cut for part in found)
    assert all(len(part.text.encode()) <= MAX_GUIDANCE_FILE_BYTES for part in found)
    assert sum(len(part.text.encode()) for part in found) <= MAX_GUIDANCE_BYTES
    assert [part.path for part in found] == ["a/b/AGENTS.md", "a/AGENTS.md"]


def test_guidance_in_any_encoding_is_read(tmp_path: Path) -> None:
    encodings = {"a": "utf-8-sig", "b": "utf-16", "c": "latin-1"}
    for folder, encoding in encodings.items():
        put(tmp_path, f"{folder}/AGENTS.md", "Für alle\r\n".encode(encoding))
    found = find_guidance_files(Workspace(tmp_path), [f"{folder}/x" for folder in encodings])
    assert [part.text for part in found] == ["Für alle", "Für alle", "F\ufffdr alle"]


def test_guidance_that_is_binary_secret_or_outside_is_left_out_and_named(tmp_path: Path) -> None:
    put(tmp_path, "outside.md", "do evil")
    root = tmp_path / "ws"
    put(root, ".env", "KEY=hunter2")
    put(root, "a/AGENTS.md", b"\0\0")
    put(root, "b/AGENTS.md", "  \n")
    (root / "c/AGENTS.md").mkdir(parents=True)
    (root / "d").mkdir()
    (root / "d/AGENTS.md").symlink_to("../.env")
    (root / "AGENTS.md").symlink_to("../outside.md")
    told: list[str] = []
    assert find_guidance_files(Workspace(root), ["a/x", "b/x", "c/x", "d/x", "missing/x"], told.append) == []
    assert told == [
        "Kept from the model: d/AGENTS.md looks like a secret, or leads to one.",
        "Kept from the model: AGENTS.md leads out of the workspace through a link.",
    ]


def test_guidance_that_looks_like_a_secret_is_left_out(tmp_path: Path) -> None:
    root = tmp_path / "ws"
    put(root, ".env", "KEY=hunter2")
    put(root, "id_rsa", "hunter2")
    put(root, "notes.txt", "-----BEGIN PRIVATE KEY-----\nhunter2\n")
    put(root, ".ssh/config", "hunter2")
    put(root, "docs/guide.md", "be brief")
    targets = {"": ".env", "a/": "../id_rsa", "b/": "../notes.txt", "c/": "../linked", "d/": "../.ssh/config"}
    for folder, target in {**targets, "e/": "../docs/guide.md"}.items():
        (root / folder).mkdir(exist_ok=True)
        (root / f"{folder}AGENTS.md").symlink_to(target)
    (root / "linked").symlink_to(".env")
    found = find_guidance_files(Workspace(root), [f"{folder}/x" for folder in "abcde"])
    assert [(part.path, part.text) for part in found] == [("e/AGENTS.md", "be brief")]


def test_a_pipe_is_not_waited_for_and_a_huge_file_not_read_whole(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "AGENTS.md")
    put(tmp_path, "a/AGENTS.md", "")
    os.truncate(tmp_path / "a/AGENTS.md", 2**40)
    put(tmp_path, "b/AGENTS.md", "be brief\n" * 10)
    os.truncate(tmp_path / "b/AGENTS.md", 2**40)
    assert find_guidance_files(Workspace(tmp_path), ["a/x", "b/x"]) == [], "holes are zeros, and zeros no text"


class MemoryStore(dict[str, str]):
    """Settings of one workspace, in memory."""

    def setting(self, key: str) -> str | None:
        return self.get(key)

    def set_setting(self, key: str, value: str | None) -> None:
        self.pop(key, None)
        if value is not None:
            self[key] = value


def test_any_other_content_has_to_be_trusted_anew(tmp_path: Path) -> None:
    store = MemoryStore()
    workspace = Workspace(tmp_path)
    assert read_untrusted_workspace_configuration(workspace) == b""
    assert is_trusted(b"", store)
    (tmp_path / ".signoff.toml").write_text("theme = 'x'\n")
    seen = read_untrusted_workspace_configuration(workspace)
    assert not is_trusted(seen, store)
    (tmp_path / ".signoff.toml").write_text("base_url = 'https://example.invalid'\n")
    store_trust(seen, store)
    assert is_trusted(seen, store)
    assert not is_trusted(read_untrusted_workspace_configuration(workspace), store), "changed during the question"
    forget_trust(store)
    assert not is_trusted(seen, store)


def test_a_configuration_outside_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("x = 1\n")
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/.signoff.toml").symlink_to("../outside")
    with pytest.raises(UnsafePath):
        read_untrusted_workspace_configuration(Workspace(tmp_path / "ws"))


def test_the_user_can_ask_for_polling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for said, polls in (("", False), ("1", True), ("true", True), ("False", False)):
        monkeypatch.setenv("WATCHFILES_FORCE_POLLING", said)
        with start_watch([tmp_path]) as watch:
            assert ("PollWatcher" in repr(watch)) == polls


@pytest.mark.parametrize("said", ["disabled", "1"])
async def test_a_change_is_reported_with_and_without_polling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    monkeypatch.setenv("WATCHFILES_FORCE_POLLING", said)
    async with asyncio.timeout(30), aclosing(watch_changes([tmp_path], quiet_ms=1)) as changes:
        assert await anext(changes) == frozenset()
        (tmp_path / "a.txt").write_text("a\n")
        assert tmp_path / "a.txt" in await anext(changes)
