"""The sample workspace: healthy, with exactly the bug that it should have, and the edits that change it."""

import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.demo.demo_server import create_sample_workspace
from app.demo.editing_skills import edits_between


def run_tests(folder: Path) -> subprocess.CompletedProcess[str]:
    """The sample's own tests, as its notes say to run them."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [sys.executable, "-B", "-m", "unittest"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=30,
    )


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


def test_the_sample_runs_and_its_tests_fail_only_because_of_the_bug(sample: Path) -> None:
    result = run_tests(sample)
    assert "Ran 7 tests" in result.stderr
    assert "FAILED (failures=4)" in result.stderr
    assert "ERROR" not in result.stderr
    command = [sys.executable, "-B", "-m", "tideline", "sandwick", "2026-05-01", "--feet"]
    shown = subprocess.run(command, cwd=sample, capture_output=True, text=True, check=True).stdout
    assert shown.startswith("Sandwick, Friday 1 May 2026\n")


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_sample_is_a_clean_repository_with_a_history(sample: Path) -> None:
    assert git(sample, "status", "--porcelain") == ""
    assert git(sample, "branch", "--show-current") == "main\n"
    assert len(git(sample, "log", "--format=%s").splitlines()) == 3
    assert git(sample, "ls-files").splitlines() == sorted(
        path.relative_to(sample).as_posix()
        for path in sample.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(sample).parts
    )


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_git_configuration_does_not_matter(tmp_path: Path, sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    hook = hooks / "pre-commit"
    hook.write_text("#!/bin/sh\nexit 1\n")
    hook.chmod(0o755)
    config = tmp_path / "gitconfig"
    config.write_text(
        f"[user]\n name = Someone Else\n[commit]\n gpgsign = true\n[core]\n hooksPath = {hooks}\n autocrlf = true\n"
        "[init]\n defaultBranch = trunk\n"
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    other = tmp_path / "other"
    other.mkdir()
    again = create_sample_workspace(other)
    for name in ("GIT_DIR", "GIT_INDEX_FILE", "GIT_CONFIG_GLOBAL"):
        monkeypatch.delenv(name)
    assert git(again, "rev-parse", "HEAD") == git(sample, "rev-parse", "HEAD")
    assert not (tmp_path / "elsewhere").exists()


def test_without_git_it_is_a_plain_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for folder in (create_sample_workspace(tmp_path), create_sample_workspace()):
        assert folder.name == "tideline" and folder.parent in (tmp_path, *tmp_path.iterdir())
        assert not (folder / ".git").exists()
        assert (folder / "tideline" / "moon.py").is_file() and (folder / ".gitignore").is_file()
    with pytest.raises(FileExistsError):
        create_sample_workspace(tmp_path)


def test_a_failing_git_leaves_a_sample_without_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "bin" / "git"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\nmkdir -p .git\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{broken.parent}{os.pathsep}{os.environ['PATH']}")
    folder = create_sample_workspace(tmp_path)
    assert not (folder / ".git").exists()
    assert (folder / "README.md").is_file()


LINES = st.lists(st.sampled_from(["a", "b", "ab", "", "  a", "x = 1"]), min_size=1, max_size=14)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"])).filter(str.strip)


@given(before=TEXTS, after=TEXTS)
def test_edits_lead_from_one_text_to_the_other(before: str, after: str) -> None:
    assert edits_between(before, before) == []
    places = []
    for edit in edits_between(before, after):
        assert edit["old"], "a place to edit has to be named"
        start = before.index(edit["old"])
        assert before.find(edit["old"], start + 1) < 0
        places.append((start, start + len(edit["old"]), edit["new"]))
    places.sort()
    assert all(left[1] <= right[0] for left, right in pairwise(places))
    result = before
    for start, end, new in reversed(places):
        result = result[:start] + new + result[end:]
    assert result == after


def test_a_small_change_stays_small() -> None:
    before = "".join(f"line {number}\n" for number in range(100))
    edits = edits_between(before, before.replace("line 50\n", "line fifty\n"))
    assert edits == [{"old": "line 50\n", "new": "line fifty\n"}]
