"""What is changed on disk against git's index or a commit, proposed in reverse."""

import os
import subprocess
from pathlib import Path

import pytest

from app.git import commits
from app.git.run_git import GitFailed
from app.proposals.values.models import FileOperation, ProposalState
from app.proposals.values.proposal_errors import NothingToStage
from app.runtime.git_proposals import stage_worktree_changes
from app.storage.record_store import DecisionRecordReader
from app.workspace.path_rules import UnsafePath
from tests.unit.git.conftest import Open, change_all
from tests.unit.proposals.repositories import git


def status(root: Path) -> str:
    return git(root, "status", "--porcelain", "--untracked-files=all").decode()


def test_every_kind_of_change_is_reverted_and_restored(opened: Open, root: Path) -> None:
    change_all(root)
    before = status(root)
    service = opened(root).service
    proposal, left_out = stage_worktree_changes(opened(root), [], "")
    assert not left_out and proposal.on_disk
    assert {change.path: change.op for change in proposal.files} == {
        "a.txt": FileOperation.EDIT,
        "bin": FileOperation.EDIT,
        "gone.txt": FileOperation.DELETE,
        "link": FileOperation.EDIT,
        "new file": FileOperation.CREATE,
        "run.sh": FileOperation.MODE,
        "sub/moved.txt": FileOperation.RENAME,
    }
    assert proposal.origin.description == "the disk, against the index"
    assert status(root) == before
    service.deny(proposal.id)
    assert status(root) == ""
    assert (root / "ignored.o").exists() and not (root / "sub").exists()
    service.undo(proposal.id)
    assert status(root) == before
    assert not service.approve(proposal.id, ["1"]).proposal.can_be_committed
    done = service.approve(proposal.id).proposal
    assert done.state is ProposalState.APPLIED and done.can_be_committed
    assert status(root) == before
    assert subprocess.check_output(["git", "-C", root, "diff", "--cached"]) == b""


def test_the_worktree_is_compared_with_the_index_or_a_commit(opened: Open, root: Path) -> None:
    (root / "a.txt").write_text("staged\n")
    git(root, "add", "a.txt")
    runtime = opened(root)
    with pytest.raises(NothingToStage, match="--against HEAD"):
        stage_worktree_changes(runtime, [], "")
    (root / "gone.txt").write_text("on disk\n")
    against_index, _ = stage_worktree_changes(runtime, [], "")
    assert [change.path for change in against_index.files] == ["gone.txt"]
    against_head, _ = stage_worktree_changes(runtime, [], "HEAD")
    assert [change.path for change in against_head.files] == ["a.txt", "gone.txt"]
    assert against_head.origin.ref.startswith("HEAD (")
    assert runtime.service.get(against_index.id).state is ProposalState.SUPERSEDED
    runtime.service.deny(against_head.id)
    assert git(root, "diff", "HEAD") == b""
    with pytest.raises(GitFailed, match="no commit nowhere"):
        stage_worktree_changes(runtime, [], "nowhere")


def test_worktree_proposal_is_limited_to_paths_and_folder(opened: Open, root: Path) -> None:
    change_all(root)
    (root / "sub/more.txt").write_text("more\n")
    runtime = opened(root)
    proposal, _ = stage_worktree_changes(runtime, ["sub", "bin"], "")
    assert [change.path for change in proposal.files] == ["bin", "sub/more.txt", "sub/moved.txt"]
    with pytest.raises(UnsafePath):
        stage_worktree_changes(runtime, ["../elsewhere"], "")
    inner, _ = stage_worktree_changes(opened(root / "sub"), [], "")
    assert [change.path for change in inner.files] == ["more.txt", "moved.txt"]
    opened(root / "sub").service.deny(inner.id)
    assert not (root / "sub/more.txt").exists()


def test_line_endings_are_compared_as_in_a_git_checkout(opened: Open, root: Path) -> None:
    git(root, "config", "core.autocrlf", "true")
    (root / ".gitattributes").write_text("*.lf eol=lf\n*.i ident\n*.u working-tree-encoding=UTF-16\n")
    (root / "a.lf").write_text("1\n2\n")
    (root / "id.i").write_text("$Id$\nx\n")
    (root / "wide.u").write_text("wide\n", encoding="utf-16")
    git(root, "-c", "core.autocrlf=true", "add", "--all")
    git(root, "commit", "--quiet", "--message", "Second")
    for path in ("a.txt", "id.i"):
        (root / path).unlink()
        subprocess.check_call(["git", "-C", root, "checkout", "--quiet", path])
    lines = (root / "a.txt").read_bytes()
    assert lines.startswith(b"1\r\n2\r\n")
    (root / "a.txt").write_bytes(lines.replace(b"\r\n3\r\n", b"\r\nthree\r\n"))
    (root / "a.lf").write_bytes(b"1\n2\n3\n")
    marked = (root / "id.i").read_bytes()
    assert b"$Id: " in marked
    (root / "id.i").write_bytes(marked + b"y\n")
    (root / "wide.u").write_text("wider\n", encoding="utf-16")
    runtime = opened(root)
    proposal, _ = stage_worktree_changes(runtime, [], "")
    assert {change.path: (change.added, change.removed) for change in proposal.files} == {
        "a.lf": (1, 0),
        "a.txt": (1, 1),
        "id.i": (1, 0),
        "wide.u": (1, 1),
    }
    runtime.service.deny(proposal.id)
    assert (root / "a.txt").read_bytes() == lines
    assert subprocess.check_output(["git", "-C", root, "diff"]) == b""


def test_files_with_a_git_filter_are_named_and_left_out(opened: Open, root: Path) -> None:
    (root / ".gitattributes").write_text("*.big filter=lfs\n")
    (root / "x.big").write_text("pointer\n")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Second")
    (root / "x.big").write_text("content\n")
    (root / "inner").mkdir()
    git(root / "inner", "init", "--quiet")
    (root / "inner/f").write_text("f\n")
    with pytest.raises(NothingToStage, match=r"x\.big: git stores another form"):
        stage_worktree_changes(opened(root), [], "")
    (root / "new.txt").write_text("n\n")
    proposal, left_out = stage_worktree_changes(opened(root), [], "")
    assert [change.path for change in proposal.files] == ["new.txt"]
    assert left_out == ("x.big: git stores another form of it (filter=lfs)", "inner: another repository")


def test_staging_outside_a_repository_is_refused(opened: Open, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    with pytest.raises(GitFailed, match="not in a git repository"):
        stage_worktree_changes(opened(folder), [], "")


@pytest.mark.parametrize("options", [(), ("-U0",), ("-U10", "--no-prefix"), ("-M", "HEAD")])
def test_a_git_diff_of_changes_on_disk_is_recognised(opened: Open, root: Path, options: tuple[str, ...]) -> None:
    change_all(root)
    (root / "link").unlink()
    (root / "link").symlink_to("a.txt")
    (root / "a.txt").write_text((root / "a.txt").read_text() + "more\n")
    runtime = opened(root)
    whole = (root / "a.txt").read_bytes()
    paths = ["a.txt", "gone.txt", "run.sh"]
    proposal = runtime.service.stage_patch(git(root, "diff", *options, "--", *paths, "bin").decode())
    assert proposal.on_disk
    assert proposal.summary.endswith(", without bin (binary)")
    assert [change.path for change in proposal.files] == paths
    runtime.service.deny(proposal.id)
    assert git(root, "diff", "--", *paths) == b""
    runtime.service.undo(proposal.id)
    assert (root / "a.txt").read_bytes() == whole and not (root / "gone.txt").exists()


def test_the_record_contains_kept_and_reverted_content(opened: Open, root: Path) -> None:
    change_all(root)
    runtime = opened(root)
    name = stage_worktree_changes(runtime, ["a.txt", "bin"], "")[0].id
    on_disk = git(root, "hash-object", "a.txt").decode().strip()
    runtime.service.approve(name, ["a.txt"])
    runtime.service.deny(name)
    kept, back = DecisionRecordReader(runtime.database, runtime.name).entries()
    assert [(each.path, each.base, each.result) for each in kept.files] == [
        ("a.txt", git(root, "rev-parse", "HEAD:a.txt").decode().strip(), on_disk)
    ]
    assert back.files[0].result == git(root, "rev-parse", "HEAD:bin").decode().strip()
    assert back.decision == "denied" and back.files[0].base != back.files[0].result


def test_files_that_cannot_be_proposed_are_named_with_the_reason(opened: Open, root: Path, tmp_path: Path) -> None:
    (root / "dir").mkdir()
    (root / "dir/x").write_text("x\n")
    (root / "grown").write_text("g" * 2_000)
    (root / "pipe").write_text("p\n")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Second")
    (root / "dir").rename(tmp_path / "dir")
    (root / "dir").symlink_to(tmp_path / "dir")
    (root / "grown").write_text("small\n")
    (root / "pipe").unlink()
    os.mkfifo(root / "pipe")
    (root / "new.txt").write_text("n\n")
    runtime = opened(root)
    runtime.workspace.read_limit = 1_000
    proposal, left_out = stage_worktree_changes(runtime, [], "")
    assert [change.path for change in proposal.files] == ["dir", "new.txt"]
    assert sorted(left_out) == [
        "dir/x: dir leads out of the workspace through a link",
        "grown: git's version is larger than 1,000 bytes",
        "pipe: not a regular file",
    ]


def test_a_file_replaced_by_a_repository_is_named_and_left_out(opened: Open, root: Path) -> None:
    head = git(root, "rev-parse", "HEAD").decode().strip()
    (root / "a.txt").unlink()
    (root / "a.txt").mkdir()
    git(root, "update-index", "--cacheinfo", f"160000,{head},a.txt")
    (root / "new.txt").write_text("n\n")
    proposal, left_out = stage_worktree_changes(opened(root), [], "HEAD")
    assert [change.path for change in proposal.files] == ["new.txt"]
    assert left_out == ("a.txt: a commit of another repository",)


def test_a_submodule_with_changes_or_another_commit_is_named_and_runs_nothing(opened: Open, root: Path) -> None:
    git(root, "clone", "--quiet", ".", "module")
    git(root, "-c", "advice.addEmbeddedRepo=false", "add", "module")
    git(root / "module", "config", "core.fsmonitor", f"touch {root / 'ran'}; false")
    with pytest.raises(NothingToStage, match="the index;"):
        stage_worktree_changes(opened(root), [], "")
    (root / "module/new.txt").touch()
    for add in (False, True):
        if add:
            git(root / "module", "-c", "core.fsmonitor=", "add", "new.txt")
        with pytest.raises(NothingToStage, match=r"\(module: another repository, with changes in it\)"):
            stage_worktree_changes(opened(root), [], "")
    git(root / "module", "-c", "core.fsmonitor=", "commit", "--quiet", "--message", "Second")
    with pytest.raises(NothingToStage, match=r"\(module: a commit of another repository\)"):
        stage_worktree_changes(opened(root), [], "")
    assert not (root / "ran").exists()


def test_too_many_files_are_not_staged(opened: Open, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "MAX_PROPOSAL_FILES", 3)
    for number in range(3):
        (root / f"new{number}").touch()
    stage_worktree_changes(opened(root), [], "")
    (root / "new3").touch()
    with pytest.raises(GitFailed, match="4 files are changed or new; name a path"):
        stage_worktree_changes(opened(root), [], "")


@pytest.mark.parametrize("margin", [-1, 0])
@pytest.mark.parametrize("against", ["", "HEAD"])
def test_files_with_only_another_time_do_not_count(
    margin: int, against: str, opened: Open, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Git stores LF for it, so it counts as unchanged although a checkout would write CRLF.
    (root / "lf.c").write_text("1\n2\n")
    (root / ".gitattributes").write_text("*.c eol=crlf\n")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", "Second")
    tracked = git(root, "ls-files").decode().split()
    for name in tracked:
        os.utime(root / name, (1, 1), follow_symlinks=False)
    (root / "a.txt").write_text("changed\n")
    index = (root / ".git/index").read_bytes()
    monkeypatch.setattr(commits, "MAX_PROPOSAL_FILES", len(tracked) + margin)
    proposal, _ = stage_worktree_changes(opened(root), [], against)
    assert [change.path for change in proposal.files] == ["a.txt"]
    assert (root / ".git/index").read_bytes() == index


def test_an_unmerged_file_is_compared_with_the_commit(opened: Open, root: Path) -> None:
    git(root, "checkout", "--quiet", "-b", "side")
    (root / "gone.txt").write_text("side\n")
    git(root, "commit", "--quiet", "--all", "--message", "Side")
    git(root, "checkout", "--quiet", "main")
    (root / "gone.txt").write_text("main\n")
    git(root, "commit", "--quiet", "--all", "--message", "Main")
    subprocess.run(["git", "-C", root, "merge", "--quiet", "side"], check=False, stdout=subprocess.DEVNULL)
    proposal, _ = stage_worktree_changes(opened(root), [], "HEAD")
    assert [change.path for change in proposal.files] == ["gone.txt"]
