"""Whatever a repository asks git to run, nothing of it is run."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from app.attestation.review_notes import GitNotesSetup
from app.attestation.review_policy import ReviewPolicy, read_allowed_signers
from app.git.borrowed_repository import ObjectBorrowingRepository
from app.git.run_git import read_git_author_identity
from app.proposals.decide.proposal_commits import commit_proposal
from app.proposals.values.proposal_errors import ProposalError
from app.runtime.commit_records import add_trailers
from app.runtime.git_proposals import push_proposal, stage_commits_or_pull_request, stage_worktree_changes
from app.tools.command.run_command import find_command_shell
from tests.unit.git.conftest import Open, change_all
from tests.unit.proposals.repositories import git

SETTINGS = {
    "core": ("fsmonitor", "sshCommand", "gitProxy", "askPass", "editor", "pager", "alternateRefsCommand"),
    "diff": ("external",),
    'diff "evil"': ("textconv", "command"),
    'filter "evil"': ("clean", "smudge", "process"),
    "gpg": ("program",),
    "uploadpack": ("packObjectsHook",),
    'remote "origin"': ("uploadpack", "receivepack"),
    "sequence": ("editor",),
    'trailer "evil"': ("command",),
}
HOOKS = (
    *("fsmonitor-watchman", "post-index-change", "pre-push", "reference-transaction", "pre-commit", "post-checkout"),
    *("commit-msg", "prepare-commit-msg", "proc-receive", "pre-receive", "update", "post-receive", "post-update"),
)


def trap(root: Path, mark: Path) -> None:
    """Every way that a repository has to make git run something."""
    program, hooks = root / "trap.sh", root / ".git/hooks"
    program.write_text(f'#!/bin/sh\necho "$0 $@" >> {mark}\ncat\n')
    program.chmod(0o755)
    with (root / ".git/config").open("a") as config:
        for section, names in SETTINGS.items():
            config.write(f"[{section}]\n" + "".join(f"\t{name} = {program}\n" for name in names))
        config.write(
            f"[credential]\n\thelper = !{program}\n[commit]\n\tgpgSign = true\n[core]\n\thooksPath = {hooks}\n"
        )
        config.write('[extensions]\n\tpartialClone = origin\n[remote "origin"]\n\tpromisor = true\n')
    hooks.mkdir(exist_ok=True)
    for name in HOOKS:
        shutil.copy(program, hooks / name)
    (root / ".gitattributes").write_text("* filter=evil diff=evil\n*.txt !filter diff=evil\n")


def test_no_program_configured_in_a_repository_is_run(opened: Open, root: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    git(tmp_path, "clone", "--quiet", "--bare", str(root), str(tmp_path / "other"))
    trap(root, mark)
    shutil.copytree(root / ".git/hooks", tmp_path / "other/hooks", dirs_exist_ok=True)
    mark.unlink(missing_ok=True)
    change_all(root)
    runtime = opened(root)
    proposal, left_out = stage_worktree_changes(runtime, [], "")
    assert proposal.files and left_out
    stage_worktree_changes(runtime, ["a.txt"], "HEAD", include_approved=True)
    stage_commits_or_pull_request(runtime, ["HEAD"])
    (message := tmp_path / "message").write_text("Subject\n")
    add_trailers(message, ["Reviewed-in: P1"], root)
    assert message.read_text() == "Subject\n\nReviewed-in: P1\n"
    assert not mark.exists(), mark.read_text()
    for url in ("OTHER", "file://OTHER", f"ext::sh -c echo x >> {mark}%", "ssh://localhost:1/x", "evil::x"):
        other = shutil.copytree(tmp_path / "other", tmp_path / url[:4])
        git(root, "config", "remote.origin.url", url.replace("OTHER", str(other)))
        mark.unlink(missing_ok=True)
        for work in (
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
        assert not mark.exists(), (url, mark.read_text())


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_programs_in_the_workspace_are_not_run(
    opened: Open, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, programs, key = tmp_path / "mark", root / ".venv/bin", tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    for name, value in {"gpg.format": "ssh", "user.signingkey": str(key), "commit.gpgsign": "true"}.items():
        git(root, "config", name, value)
    write_program(root / ".git/hooks/pre-commit", "hook-tool")
    write_program(programs / "hook-tool", f"touch {tmp_path}/hook-ran")
    for name in ("git", "ssh-keygen", "bash"):
        write_program(programs / name, f'echo "$0 $@" >> {mark}; exec {shutil.which(name) or "false"} "$@"')
    (root / ".gitignore").write_text(".venv\n")
    change_all(root)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    runtime = opened(root)
    assert stage_worktree_changes(runtime, [], "")[0].files
    draft = runtime.service.new_draft("")
    draft.write("run.sh", "new\n")
    proposal = runtime.service.approve(runtime.service.stage(draft, "New").id).proposal
    commit = commit_proposal(root, proposal)
    assert (tmp_path / "hook-ran").exists(), "the hooks of the user find their programs"
    assert find_command_shell(root)[0] == shutil.which("bash", path="/usr/bin:/bin")
    (programs / "bash").unlink()
    (programs / "bash").symlink_to("/usr/bin/env")
    assert find_command_shell(root)[0] == shutil.which("bash", path="/usr/bin:/bin")
    read_git_author_identity.cache_clear()
    read_git_author_identity(root)
    with ObjectBorrowingRepository(root) as borrowed:
        assert not read_allowed_signers(borrowed, ReviewPolicy(gpg_keys=("ABC",)), "")
        GitNotesSetup(borrowed, "").write_changes()
    assert not mark.exists(), mark.read_text()
    assert b"-----BEGIN SSH SIGNATURE-----" in git(root, "cat-file", "commit", commit)


def test_the_traps_are_sprung_by_git_itself(root: Path, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    trap(root, mark)
    mark.unlink(missing_ok=True)
    change_all(root)
    git(root, "status")
    assert mark.exists()
