"""What the user has git leave alone everywhere, compared with git."""

import os
import subprocess
from pathlib import Path

import pytest

from app.sandbox.path_policy import GitIgnoreRules

NAMES = ("home.txt", "xdg.txt", "standard.txt", "instead.txt", "kept.txt")
"""Each but the last is ignored by the file that is called so."""


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a file of ignore rules for each place that may name one, and a repository."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    (tmp_path / "xdg/git").mkdir(parents=True)
    for name in ("home", "xdg", "instead"):
        (tmp_path / name).with_suffix(".rules").write_text(f"{name}.txt\n")
    (tmp_path / "xdg/git/ignore").write_text("standard.txt\n")
    subprocess.run(["git", "init", "-q", tmp_path / "repository"], check=True)
    for name in NAMES:
        (tmp_path / "repository" / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    "configs",
    [{}, {"home": ".gitconfig"}, {"xdg": "xdg/git/config"}, {"home": ".gitconfig", "xdg": "xdg/git/config"}],
    ids=" ".join,
)
@pytest.mark.parametrize("instead", [None, "named", "nothing", "absent"])
def test_the_rules_are_those_that_git_goes_by(
    places: Path, monkeypatch: pytest.MonkeyPatch, configs: dict[str, str], instead: str | None
) -> None:
    for name, path in {**configs, "instead": "instead.config"}.items():
        (places / path).write_text(f"[core]\n\texcludesFile = ~/{name}.rules\n")
    if instead:
        named = {"named": str(places / "instead.config"), "nothing": os.devnull, "absent": str(places / "absent")}
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", named[instead])
    root = places / "repository"
    command = ["git", "-C", str(root), "ls-files", "-oi", "--exclude-standard"]
    ignored = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    mine = GitIgnoreRules(root)
    assert [name for name in sorted(NAMES) if mine.is_ignored(name, is_folder=False)] == ignored
    assert len(ignored) == 1
