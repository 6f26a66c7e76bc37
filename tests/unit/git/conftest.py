"""A workspace in a repository, opened as a command opens it."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.runtime.open_workspace import OpenWorkspace, open_workspace
from tests.unit.proposals.repositories import git

Open = Callable[[Path], OpenWorkspace]


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Opens a workspace; each has a home of its own, as on a machine of its own."""
    runtimes: list[OpenWorkspace] = []

    def start(root: Path) -> OpenWorkspace:
        monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / f"home-{root.name}"))
        runtimes.append(open_workspace(root, {}, {}))
        return runtimes[-1]

    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"):
        monkeypatch.setenv(name, "Ann")
    for name in ("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "ann@example.org")
    yield start
    for runtime in runtimes:
        runtime.close()


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a first commit, which is copied for each test."""
    root = tmp_path_factory.mktemp("template") / "work"
    root.mkdir()
    git(root, "init", "--quiet", "--initial-branch", "main")
    (root / "a.txt").write_text("".join(f"{number}\n" for number in range(1, 31)))
    (root / "gone.txt").write_text("g\n")
    (root / "run.sh").write_text("r\n")
    (root / "bin").write_bytes(b"\0\1")
    (root / "link").symlink_to("a.txt")
    (root / "moved.txt").write_text("".join(f"m{number}\n" for number in range(30)))
    (root / ".gitignore").write_text("*.o\n")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "First")
    return root


@pytest.fixture
def root(tmp_path: Path, template: Path) -> Path:
    root: Path = shutil.copytree(template, tmp_path / "work", symlinks=True)
    git(root, "update-index", "-q", "--refresh")
    return root


def change_all(root: Path) -> None:
    """Every kind of change that git knows, on disk."""
    text = (root / "a.txt").read_text()
    (root / "a.txt").write_text(text.replace("\n3\n", "\nthree\n").replace("\n15\n", "\nfifteen\n"))
    (root / "gone.txt").unlink()
    (root / "run.sh").chmod(0o755)
    (root / "bin").write_bytes(b"\0\2")
    (root / "link").unlink()
    (root / "link").symlink_to("gone.txt")
    (root / "sub").mkdir()
    (root / "moved.txt").rename(root / "sub/moved.txt")
    (root / "new file").write_text("new\n")
    (root / "ignored.o").write_text("o\n")
