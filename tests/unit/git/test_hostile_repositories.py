"""Whatever a repository asks git to run, nothing of it is run."""

from pathlib import Path

import pytest

from app.proposals.values.proposal_errors import ProposalError
from app.runtime.git_proposals import push_proposal, stage_commits_or_pull_request, stage_worktree_changes
from tests.unit.git.conftest import Open, change_all
from tests.unit.proposals.repositories import git


def trap(root: Path, mark: Path) -> None:
    """Every way that a repository has to make git run something."""
    program = root / "trap.sh"
    program.write_text(f'#!/bin/sh\necho "$0 $@" >> {mark}\ncat\n')
    program.chmod(0o755)
    for key in (
        "core.fsmonitor",
        "core.sshCommand",
        "core.gitProxy",
        "core.askPass",
        "core.editor",
        "core.pager",
        "core.alternateRefsCommand",
        "diff.external",
        "diff.evil.textconv",
        "diff.evil.command",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "gpg.program",
        "uploadpack.packObjectsHook",
        "remote.origin.uploadpack",
        "remote.origin.receivepack",
        "sequence.editor",
    ):
        git(root, "config", key, str(program))
    git(root, "config", "credential.helper", f"!{program}")
    git(root, "config", "commit.gpgSign", "true")
    git(root, "config", "extensions.partialClone", "origin")
    git(root, "config", "remote.origin.promisor", "true")
    hooks = root / ".git/hooks"
    hooks.mkdir(exist_ok=True)
    for name in (
        "fsmonitor-watchman",
        "post-index-change",
        "pre-push",
        "reference-transaction",
        "pre-commit",
        "post-checkout",
        "commit-msg",
        "prepare-commit-msg",
        "proc-receive",
        "pre-receive",
        "update",
        "post-receive",
        "post-update",
    ):
        (hooks / name).write_bytes(program.read_bytes())
        (hooks / name).chmod(0o755)
    git(root, "config", "core.hooksPath", str(hooks))
    (root / ".gitattributes").write_text("* filter=evil diff=evil\n*.txt !filter diff=evil\n")


@pytest.mark.parametrize("url", ["OTHER", "file://OTHER", "ext::sh -c MARK%", "ssh://localhost:1/x", "evil::x"])
def test_no_program_configured_in_a_repository_is_run(opened: Open, root: Path, tmp_path: Path, url: str) -> None:
    mark = tmp_path / "mark"
    other = tmp_path / "other"
    git(tmp_path, "clone", "--quiet", "--bare", str(root), str(other))
    trap(root, mark)
    mark.unlink(missing_ok=True)
    for name in (root / ".git/hooks").iterdir():
        (other / "hooks" / name.name).write_bytes(name.read_bytes())
        (other / "hooks" / name.name).chmod(0o755)
    place = url.replace("OTHER", str(other)).replace("MARK", f"echo x >> {mark}")
    git(root, "config", "remote.origin.url", place)
    mark.unlink(missing_ok=True)
    change_all(root)
    runtime = opened(root)
    proposal, left_out = stage_worktree_changes(runtime, [], "")
    assert proposal.files and left_out
    stage_worktree_changes(runtime, ["a.txt"], "HEAD", everything=True)
    for work in (
        lambda: stage_commits_or_pull_request(runtime, ["HEAD"]),
        lambda: stage_commits_or_pull_request(runtime, ["origin", "main"]),
        lambda: push_proposal(runtime, proposal.id, "", "", force=False),
        lambda: stage_commits_or_pull_request(runtime, ["signoff/P1"]),
    ):
        try:
            work()
        except ProposalError as error:
            assert "\n" not in str(error)
    if "OTHER" in url:
        assert git(other, "rev-parse", "refs/signoff/P1")
    assert not mark.exists(), mark.read_text()


def test_the_traps_are_sprung_by_git_itself(root: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    trap(root, mark)
    mark.unlink(missing_ok=True)
    change_all(root)
    git(root, "status")
    assert mark.exists()
