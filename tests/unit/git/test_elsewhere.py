"""Commits, ranges and pull requests as proposals; and proposals on a reference of another repository."""

import subprocess
from pathlib import Path

import pytest

from app.git import blobs
from app.git.blobs import TreeEntry, checkout_mode, parse_raw_diff
from app.git.borrowed_repository import ObjectBorrowingRepository
from app.git.remotes import default_remote
from app.git.run_git import GitFailed
from app.proposals.values.models import FileOperation, ProposalState
from app.proposals.values.origin import OriginKind
from app.proposals.values.proposal_errors import NothingToStage
from app.runtime.git_proposals import push_proposal, stage_commits_or_pull_request, stage_worktree_changes
from tests.unit.git.conftest import Open, change_all
from tests.unit.proposals.repositories import git


def tree_of(root: Path) -> str:
    """What git would commit of all that is on disk."""
    git(root, "add", "--all")
    return git(root, "write-tree").decode().strip()


def commit(root: Path, message: str = "Second", author: str = "Bea <b@example.org>") -> str:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "--message", message, "--author", author)
    return git(root, "rev-parse", "HEAD").decode().strip()


@pytest.fixture
def bare(root: Path, tmp_path: Path) -> Path:
    """The remote of two clones."""
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "--quiet", "--bare", str(root), str(bare))
    git(root, "remote", "add", "origin", str(bare))
    return bare


def clone(bare: Path, name: str) -> Path:
    git(bare.parent, "clone", "--quiet", str(bare), name)
    return bare.parent / name


def test_a_proposal_pushed_to_a_remote_is_staged_unchanged(opened: Open, root: Path, bare: Path) -> None:
    (root / "crlf.txt").write_bytes(b"1\r\n2")
    change_all(root)
    mine = opened(root)
    proposal, _ = stage_worktree_changes(mine, [], "")
    status, index = git(root, "status", "--porcelain"), (root / ".git/index").read_bytes()
    pushed = push_proposal(mine, proposal.id, "", "", force=False)
    assert (pushed.remote, pushed.reference) == ("origin", "refs/signoff/P1")
    assert (root / ".git/index").read_bytes() == index
    assert git(root, "status", "--porcelain") == status
    assert git(root, "for-each-ref", "refs/signoff") == b""
    said = git(bare, "log", "-1", "--format=%an %ae|%P|%B", pushed.commit).decode()
    parent = git(root, "rev-parse", "HEAD").decode().strip()
    assert said.startswith(f"Ann ann@example.org|{parent}|{proposal.summary}\n\nSignoff-Proposal: P1\n")

    other = clone(bare, "other")
    theirs = opened(other)
    here, left_out = stage_commits_or_pull_request(theirs, ["signoff/P1"])
    assert not left_out and not here.on_disk
    assert here.origin.kind is OriginKind.REF
    assert here.origin.description == f"origin signoff/P1 ({pushed.commit[:7]}), by Ann"
    assert {change.path: change.op for change in here.files} == {change.path: change.op for change in proposal.files}
    assert git(other, "status", "--porcelain") == b"" and git(other, "for-each-ref", "refs/signoff") == b""
    theirs.service.approve(here.id)
    assert tree_of(other) == tree_of(root)
    theirs.service.undo(here.id)
    git(other, "reset", "--quiet")
    assert git(other, "status", "--porcelain") == b""
    again, _ = stage_commits_or_pull_request(theirs, [str(bare), "refs/signoff/P1"])
    assert again.state is ProposalState.PENDING


def test_what_cannot_be_staged_is_named(opened: Open, root: Path, bare: Path) -> None:
    head = git(root, "rev-parse", "HEAD").decode().strip()
    git(root, "update-index", "--add", "--cacheinfo", f"160000,{head},module")
    git(root, "commit", "--quiet", "--message", "Add a module")
    with pytest.raises(NothingToStage, match="HEAD changes nothing here but module: a commit of another repository"):
        stage_commits_or_pull_request(opened(root), ["HEAD"])
    with pytest.raises(GitFailed, match="is a bare repository"):
        stage_commits_or_pull_request(opened(bare), ["HEAD"])


def test_a_reference_is_only_replaced_by_force(opened: Open, root: Path, bare: Path) -> None:
    runtime = opened(root)
    names = []
    for text in ("one\n", "two\n"):
        (root / f"{text.strip()}.txt").write_text(text)
        names.append(stage_worktree_changes(runtime, [f"{text.strip()}.txt"], "")[0].id)
    first = push_proposal(runtime, names[0], "origin", "", force=False)
    with pytest.raises(GitFailed, match="--as NAME"):
        push_proposal(runtime, names[1], "origin", "P1", force=False)
    assert git(bare, "rev-parse", "refs/signoff/P1").decode().strip() == first.commit
    second = push_proposal(runtime, names[1], "origin", "P1", force=True)
    assert git(bare, "rev-parse", "refs/signoff/P1").decode().strip() == second.commit


def test_a_commit_on_uncommitted_text_is_pushed_if_independent(opened: Open, root: Path, bare: Path) -> None:
    text = (root / "a.txt").read_text()
    (root / "a.txt").write_text(text.replace("\n3\n", "\nthree\n"))
    runtime = opened(root)
    far, near = runtime.service.new_draft("s"), runtime.service.new_draft("s")
    far.write("a.txt", text.replace("\n3\n", "\nthree\n").replace("\n20\n", "\ntwenty\n"))
    name = runtime.service.stage(far, "Far").id
    pushed = push_proposal(runtime, name, "", "", force=False)
    assert git(bare, "show", f"{pushed.commit}:a.txt").decode() == text.replace("\n20\n", "\ntwenty\n")
    near.write("a.txt", (near.read("a.txt").content or b"").decode().replace("\nthree\n", "\nTHREE\n"))
    with pytest.raises(GitFailed, match="commit that first"):
        push_proposal(runtime, runtime.service.stage(near, "Near").id, "", "", force=False)


def test_a_commit_a_range_and_a_branch(opened: Open, root: Path) -> None:
    git(root, "checkout", "--quiet", "-b", "feature")
    text = (root / "a.txt").read_text()
    (root / "a.txt").write_text(text.replace("\n3\n", "\nthree\n"))
    first = commit(root, "One")
    (root / "b.txt").write_text("b\n")
    second = commit(root, "Two", "Cleo <c@example.org>")
    git(root, "checkout", "--quiet", "main")
    (root / "a.txt").write_text(text.replace("\n28\n", "\nend\n"))
    commit(root, "Meanwhile")
    runtime = opened(root)
    one, _ = stage_commits_or_pull_request(runtime, [second[:10]])
    assert [change.path for change in one.files] == ["b.txt"]
    assert (one.summary, one.origin.ref) == ("Two", f"{second[:10]}, by Cleo")
    runtime.service.deny(one.id)
    ranged, _ = stage_commits_or_pull_request(runtime, [f"{first}..feature"])
    assert [change.path for change in ranged.files] == ["b.txt"]
    runtime.service.deny(ranged.id)
    whole, _ = stage_commits_or_pull_request(runtime, ["feature"])
    assert [change.path for change in whole.files] == ["a.txt", "b.txt"]
    assert whole.origin.ref == f"feature ({second[:7]}), 2 commits by Cleo, Bea"
    with pytest.raises(NothingToStage, match=f"The workspace, with {whole.id} still pending, has all of this"):
        stage_commits_or_pull_request(runtime, ["feature"])
    runtime.service.approve(whole.id)
    assert (root / "a.txt").read_text() == text.replace("\n3\n", "\nthree\n").replace("\n28\n", "\nend\n")
    with pytest.raises(NothingToStage, match="already"):
        stage_commits_or_pull_request(runtime, ["feature"])
    with pytest.raises(GitFailed, match="no commit, branch or range nowhere"):
        stage_commits_or_pull_request(runtime, ["nowhere"])


def test_a_first_commit_and_one_that_conflicts(opened: Open, root: Path) -> None:
    text = (root / "a.txt").read_text()
    (root / "a.txt").write_text(text.replace("\n3\n", "\nthree\n"))
    second = commit(root)
    (root / "a.txt").write_text(text.replace("\n3\n", "\nother\n"))
    runtime = opened(root)
    stale, _ = stage_commits_or_pull_request(runtime, [second])
    assert stale.state is ProposalState.STALE and "a.txt changed at line 3" in stale.reason
    for path in root.iterdir():
        if path.name != ".git":
            path.unlink()
    every, _ = stage_commits_or_pull_request(runtime, ["HEAD~1"])
    assert {change.op for change in every.files} == {FileOperation.CREATE}
    runtime.service.deny(stale.id)
    runtime.service.approve(every.id)
    assert tree_of(root) == git(root, "rev-parse", "HEAD~1^{tree}").decode().strip()


@pytest.mark.parametrize(
    ("pages", "ref", "name"),
    [
        (["o/r/pull/12", "o/r/pull/12/files", "o/r/pulls/12"], "refs/pull/12/head", "o/r#12"),
        (["g/sub/r/-/merge_requests/12"], "refs/merge-requests/12/head", "g/sub/r!12"),
    ],
)
def test_a_pull_request_by_its_address(
    opened: Open, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: list[str], ref: str, name: str
) -> None:
    project = name.rpartition("#")[0] or name.rpartition("!")[0]
    server = tmp_path / "server" / f"{project}.git"
    server.parent.mkdir(parents=True)
    git(tmp_path, "clone", "--quiet", "--bare", str(root), str(server))
    change_all(root)
    tip = commit(root, "Please pull")
    wanted = tree_of(root)
    git(root, "push", "--quiet", str(server), f"{tip}:{ref}")
    work = clone(server, "reader")
    git(work, "remote", "set-url", "origin", "https://elsewhere.example.org/x/y.git")
    users_own = tmp_path / "gitconfig"
    users_own.write_text(f'[url "{tmp_path}/server/"]\n\tinsteadOf = https://example.org/\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(users_own))
    runtime = opened(work)
    for page in pages:
        proposal, _ = stage_commits_or_pull_request(runtime, [f"https://example.org/{page}"])
        assert (proposal.summary, proposal.origin.ref) == ("Please pull", f"{name} ({tip[:7]}), by Bea")
        if page != pages[-1]:
            runtime.service.deny(proposal.id)
    runtime.service.approve(proposal.id)
    assert tree_of(work) == wanted


def test_a_pull_request_of_a_known_remote_uses_the_users_url(opened: Open, root: Path) -> None:
    from app.git.remotes import _parse_page_address

    git(root, "remote", "add", "up", "git@example.org:o/r.git")
    with ObjectBorrowingRepository(root) as borrowed:
        ours = _parse_page_address(borrowed, "https://example.org/o/r/pull/3")
        other = _parse_page_address(borrowed, "https://example.org/o/other/commit/" + "a" * 40)
    assert ours is not None and (ours.url, ours.reference) == ("git@example.org:o/r.git", "refs/pull/3/head")
    assert other is not None and other.url == "https://example.org/o/other.git" and not other.whole


def test_a_missing_revision_is_a_line(opened: Open, root: Path, bare: Path) -> None:
    git(root, "config", "remote.outsider.url", "ext::sh -c id")
    git(root, "config", "remote.optional.url", "--upload-pack=id")
    orphan = git(root, "commit-tree", "HEAD^{tree}", "-m", "Apart").decode().strip()
    git(root, "branch", "orphan", orphan)
    runtime = opened(root)
    for words, said in (
        (["https://example.org/x"], "not the address of a pull request"),
        (["origin", "nowhere"], "origin nowhere could not be fetched"),
        (["nobody", "main"], "no remote nobody"),
        (["origin", "--upload-pack=x"], "not a reference"),
        (["origin", "a..b"], "git fetch"),
        (["signoff/P9"], "could not be fetched"),
        (["nowhere..main"], "no commit, branch or range nowhere"),
        (["main...nowhere"], "no commit, branch or range main"),
        (["orphan"], "orphan has no commit in common with what is here"),
        (["outsider", "main"], "does not support the address of outsider"),
        (["optional", "main"], "does not support the address of optional"),
    ):
        with pytest.raises(GitFailed, match=said) as caught:
            stage_commits_or_pull_request(runtime, words)
        assert "\n" not in str(caught.value)


def test_a_commit_can_not_reach_out_of_the_workspace(opened: Open, root: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    blob = git(root, "hash-object", "-w", "--stdin", given="evil\n").decode().strip()
    tree = git(root, "mktree", given=f"100644 blob {blob}\tx.txt\n").decode().strip()
    (root / "dir").symlink_to(tmp_path / "outside")
    for name in ("dir", ".GIT"):
        outer = git(root, "mktree", "--missing", given=f"040000 tree {tree}\t{name}\n").decode().strip()
        commit_id = git(root, "commit-tree", outer, "-m", name).decode().strip()
        with pytest.raises(NothingToStage, match=f"changes nothing here but {name}/x.txt: "):
            stage_commits_or_pull_request(opened(root), [commit_id])
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_shallow_and_a_linked_worktree_are_repositories_too(opened: Open, root: Path, bare: Path) -> None:
    (root / "a.txt").write_text("changed\n")
    commit(root)
    git(root, "push", "--quiet", "origin", "main")
    subprocess.check_call(["git", "clone", "--quiet", "--depth=1", f"file://{bare}", bare.parent / "shallow"])
    git(root, "worktree", "add", "--quiet", "--detach", str(bare.parent / "linked"))
    for name in ("shallow", "linked"):
        work = bare.parent / name
        (work / "a.txt").write_text("again\n")
        runtime = opened(work)
        proposal, _ = stage_worktree_changes(runtime, [], "HEAD")
        assert [change.path for change in proposal.files] == ["a.txt"]
        assert push_proposal(runtime, proposal.id, "origin", name, force=False).commit


def test_an_object_that_a_partial_clone_lacks_is_named(opened: Open, root: Path, bare: Path) -> None:
    (root / "a.txt").write_text("changed\n")
    commit(root)
    git(root, "push", "--quiet", "origin", "main")
    git(bare, "config", "uploadpack.allowFilter", "true")
    subprocess.check_call(
        ["git", "clone", "--quiet", "--filter=blob:none", f"file://{bare}", bare.parent / "partial"]
    )
    with pytest.raises(GitFailed, match=r"is missing here: `git fetch --refetch --no-filter`\.$"):
        stage_commits_or_pull_request(opened(bare.parent / "partial"), ["HEAD"])
    git(bare.parent / "partial", "fetch", "--quiet", "--refetch", "--no-filter")
    with pytest.raises(NothingToStage):
        stage_commits_or_pull_request(opened(bare.parent / "partial"), ["HEAD"])


def test_more_than_anyone_reviews_is_not_proposed(opened: Open, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blobs, "_MAX_BYTES", 20)
    with pytest.raises(GitFailed, match="bytes together; name a path, or fewer commits"):
        stage_commits_or_pull_request(opened(root), ["HEAD"])
    line = f":000000 100644 {'0' * 40} {'1' * 40} A\0"
    with pytest.raises(GitFailed, match="5,001 files are changed, and the maximum is 5,000"):
        parse_raw_diff("".join(f"{line}f{number}\0" for number in range(5_001)).encode())


def test_git_keeps_only_the_executable_bit() -> None:
    for mode, like, expected in (
        ("100755", 0o744, 0o744),
        ("100755", 0o640, 0o750),
        ("100644", 0o611, 0o611),
        ("100644", 0o755, 0o644),
    ):
        assert checkout_mode(TreeEntry("a", mode, ""), like) == expected


def test_pushing_without_a_commit_is_refused(opened: Open, bare: Path, tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--initial-branch", "main", "empty")
    runtime = opened(tmp_path / "empty")
    with pytest.raises(GitFailed, match="There is no commit HEAD here"):
        stage_commits_or_pull_request(runtime, [str(bare), "main"])
    with pytest.raises(GitFailed, match="HEAD here; leave out --against to compare with the index"):
        stage_worktree_changes(runtime, (), "HEAD")
    draft = runtime.service.new_draft("")
    draft.write("a.txt", "a\n")
    name = runtime.service.stage(draft, "First").id
    with pytest.raises(GitFailed, match="make one first"):
        push_proposal(runtime, name, str(bare), "", force=False)


def test_a_committed_or_conflicting_proposal_is_not_pushed(opened: Open, root: Path, bare: Path) -> None:
    runtime = opened(root)
    (root / "strange.txt").write_text("s\n")

    def push(path: str, text: str) -> None:
        draft = runtime.service.new_draft("")
        draft.write(path, text)
        push_proposal(runtime, runtime.service.stage(draft, "Edit").id, "", "", force=False)

    text = (root / "a.txt").read_text()
    (root / "data").write_text(f"\0{text}")
    git(root, "add", "data")
    git(root, "commit", "--quiet", "--message", "Data")
    (root / "data").write_text(f"\0{text}more\n")
    for path, content in (("strange.txt", "other\n"), ("data", f"\0more\n{text}more\n")):
        with pytest.raises(GitFailed, match=f"{path} is changed in the same places, or not there"):
            push(path, content)
    (root / "a.txt").write_text("known\n")
    git(root, "add", "a.txt")
    git(root, "commit", "--quiet", "--message", "Known")
    (root / "a.txt").write_text(text)
    with pytest.raises(GitFailed, match="nothing to push"):
        push("a.txt", "known\n")


def test_the_remote_is_chosen_from_the_given_name(root: Path) -> None:
    for remote, meant in (
        ("", "The repository has no remote; name one"),
        ("up", "up"),
        ("fork", "Which remote? Name one: fork, up."),
        ("origin", "origin"),
    ):
        if remote:
            git(root, "remote", "add", remote, "https://example.org/o/r.git")
        with ObjectBorrowingRepository(root) as borrowed:
            try:
                found = default_remote(borrowed)
            except GitFailed as error:
                found = str(error)
            assert found.startswith(meant)
            assert borrowed.full_reference_name("main") == "refs/heads/main"
            assert borrowed.full_reference_name("nowhere") == ""


def test_full_disk_makes_git_fail_and_leaves_nothing(root: Path) -> None:
    borrowed = ObjectBorrowingRepository(root)
    borrowed.own.rmdir()
    borrowed.own.touch()
    with pytest.raises(GitFailed, match="No room for git to work"), borrowed:
        pass
