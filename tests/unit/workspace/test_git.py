"""Facts about the repository, as git itself lays it out."""

import os
from pathlib import Path

import pytest

from app.sandbox.path_policy import tracked_paths
from app.workspace.git_repository import current_branch_or_commit, find_repository
from app.workspace.path_rules import has_path_at_or_below
from tests.unit.proposals import repositories


def git(folder: Path, *arguments: str) -> str:
    return repositories.git(folder, *arguments).decode().strip()


@pytest.fixture
def cloned(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q", "-b", "main")
    (root / "sub").mkdir()
    (root / "sub/a").write_text("x")
    git(root, "add", ".")
    git(root, "commit", "-qm", "First")
    return root


def test_branch(cloned: Path) -> None:
    assert current_branch_or_commit(cloned) == current_branch_or_commit(cloned / "sub") == "main"
    (cloned / "sub/.git").write_text(f"gitdir: {'a' * 300}\n")
    assert current_branch_or_commit(cloned / "sub") == "main"
    git(cloned, "checkout", "-q", "-b", "feature/x-1")
    assert current_branch_or_commit(cloned) == "feature/x-1"
    git(cloned, "checkout", "-q", "--detach")
    assert current_branch_or_commit(cloned) == git(cloned, "rev-parse", "HEAD")[:7]


def test_worktrees_and_submodules(cloned: Path, tmp_path: Path) -> None:
    git(cloned, "worktree", "add", "-q", "-b", "other", str(tmp_path / "tree"))
    assert current_branch_or_commit(tmp_path / "tree") == "other"
    found = find_repository(tmp_path / "tree")
    assert found is not None
    assert (found.shared / "config").resolve() == (cloned / ".git/config").resolve()
    git(cloned, "-c", "protocol.file.allow=always", "submodule", "add", "-q", "-b", "main", str(cloned), "module")
    assert current_branch_or_commit(cloned / "module") == "main"


def test_no_repository_and_one_before_the_first_commit(tmp_path: Path) -> None:
    assert current_branch_or_commit(tmp_path) == ""
    assert find_repository(tmp_path) is None
    (tmp_path / ".git").mkdir()
    assert find_repository(tmp_path) is None
    git(tmp_path, "init", "-q", "-b", "trunk")
    assert current_branch_or_commit(tmp_path) == "trunk"


def test_a_head_that_names_no_branch(cloned: Path) -> None:
    for head in (b"", b"garbage\n", b"ref: refs/heads/.invalid\n", b"\xff\xfe", b"0" * 39, b"x" * 100_000):
        (cloned / ".git/HEAD").write_bytes(head)
        assert current_branch_or_commit(cloned) == "", head[:40]


def test_a_git_file_with_another_target_reveals_nothing(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    (tmp_path / "private/HEAD").write_text("hunter2\n")
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/.git").write_text("gitdir: ../private\n")
    assert current_branch_or_commit(tmp_path / "ws") == ""


@pytest.mark.parametrize("name", [".git", ".git/HEAD", ".git/commondir"])
def test_pipes_and_devices_are_not_waited_for(tmp_path: Path, name: str) -> None:
    if name != ".git":
        (tmp_path / ".git").mkdir()
        (tmp_path / ".git/HEAD").symlink_to("/dev/zero")
        (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    assert current_branch_or_commit(tmp_path) == ""


def test_a_folder_outside_a_sparse_checkout_counts_as_tracked(cloned: Path) -> None:
    (cloned / "kept").mkdir()
    (cloned / "kept/b").touch()
    git(cloned, "add", "-A")
    git(cloned, "commit", "-qm", "kept")
    git(cloned, "sparse-checkout", "set", "--cone", "--sparse-index", "kept")
    paths = tracked_paths(cloned)
    assert paths == ["kept/b", "sub/"]
    for path, is_tracked in (("sub", True), ("sub/new/a", True), ("subs/a", False), ("kept/c", False)):
        assert has_path_at_or_below(paths, path) == is_tracked, path


def test_a_split_index_tracks_what_it_shares_and_an_invalid_one_is_not_read(cloned: Path) -> None:
    git(cloned, "update-index", "--split-index")
    (shared,) = (cloned / ".git").glob("sharedindex.*")
    assert tracked_paths(cloned) == ["sub/a"]
    content = shared.read_bytes()
    shared.write_bytes((cloned / ".git/index").read_bytes())
    assert not any(tracked_paths(cloned) or ()), "it names itself"
    shared.write_bytes(content)
    git(cloned, "update-index", "--no-split-index")
    assert tracked_paths(cloned) == ["sub/a"]
    index = cloned / ".git/index"
    index.write_bytes(b"XXXX" + index.read_bytes()[4:])
    assert tracked_paths(cloned) is None
    index.unlink()
    assert tracked_paths(cloned) == []
