"""What is on disk, and what is in git, staged and decided from the command line."""

import json
from pathlib import Path

import pytest

from tests.commands.test_commands import Run
from tests.unit.proposals.repositories import git


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    (folder / "notes.txt").write_text("".join(f"{number}\n" for number in range(1, 31)))
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "First")
    return folder


def change(workspace: Path, encoding: str = "utf-8") -> None:
    text = (workspace / "notes.txt").read_text(encoding)
    text = text.replace("\n3\n", "\nthree\n").replace("\n20\n", "\ntwenty\n")
    (workspace / "notes.txt").write_text(text, encoding)


def test_messages_for_changes_on_disk_explain_approve_and_deny(signoff: Run, workspace: Path) -> None:
    change(workspace)
    staged = signoff("stage", "--worktree").stdout
    assert "`signoff approve P1` keeps it, `signoff deny P1` reverts it." in staged
    assert signoff("deny", "P1", "--hunks", "2").stdout == (
        "P1 reverted on disk: notes.txt; other hunks of it still wait.\n"
    )
    assert "twenty" not in (workspace / "notes.txt").read_text()
    assert signoff("approve", "P1").stdout == "P1 kept: notes.txt.\n"
    assert signoff("proposals", "--all").stdout.startswith("P1  kept in part ")
    assert signoff("undo", "P1").stdout == "P1 reopened; it waits for your decision again.\n"
    assert signoff("undo", "P1").stdout.startswith("P1 reopened")
    assert "twenty" in (workspace / "notes.txt").read_text()
    assert signoff("deny", "P1").returncode == 0
    assert git(workspace, "status", "--porcelain") == b""
    assert signoff("proposals", "--all").stdout.startswith("P1  reverted  +2 -2")
    (line,) = json.loads(signoff("proposals", "--all", "--json").stdout)
    assert (line["on_disk"], line["state"], line["origin"]["kind"]) == (True, "denied", "disk")


def test_a_file_changed_after_show_is_not_reverted_unseen(signoff: Run, workspace: Path) -> None:
    change(workspace)
    signoff("stage", "--worktree")
    text = (workspace / "notes.txt").read_text().replace("three", "THREE")
    (workspace / "notes.txt").write_text(text)
    for _ in range(2):
        refused = signoff("deny", "P1")
        assert refused.returncode == 3 and "has changed since it was shown" in refused.stderr
    assert (workspace / "notes.txt").read_text() == text
    assert "+THREE" in signoff("show", "P1").stdout
    assert signoff("deny", "P1").returncode == 0
    assert git(workspace, "status", "--porcelain") == b""


def test_approved_hunks_are_not_staged_again(signoff: Run, workspace: Path) -> None:
    change(workspace)
    diff = git(workspace, "diff").decode()
    assert "It is on disk: " in signoff("stage", "-", stdin=diff).stdout
    again = signoff("stage", stdin=diff)
    assert again.returncode == 3 and "P1 is already pending" in again.stderr
    signoff("deny", "P1")
    assert git(workspace, "diff") == b""
    anew = signoff("stage", "-", stdin=diff).stdout
    assert anew.startswith("Staged P2 ") and "It is on disk" not in anew
    assert signoff("approve", "P2").returncode == 0
    for words, stdin in ((("stage", "--worktree"), ""), (("stage", "-"), diff)):
        done = signoff(*words, stdin=stdin)
        assert done.returncode == 3
        assert done.stderr == "signoff: Nothing to stage: all 2 hunks were signed in P2; --all stages them.\n"
    text = (workspace / "notes.txt").read_text()
    (workspace / "notes.txt").write_text(text.replace("\n28\n", "\nmine\n"))
    staged = signoff("stage", "--worktree")
    assert staged.stdout.startswith("Staged P3  pending   +1 -1") and len(staged.stdout.splitlines()) == 3
    assert "2 hunks left out: signed in P2; --all stages them too." in staged.stdout
    assert "twenty" not in signoff("show", "P3").stdout.replace(" twenty", "")
    document = json.loads(signoff("stage", "--worktree", "--all", "--json").stdout)
    assert (document["id"], document["left_out"], document["files"][0]["added"]) == ("P4", [], 3)
    assert signoff("undo", "P2").returncode == 0
    assert "3\n" in git(workspace, "show", ":notes.txt").decode()
    [line] = json.loads(signoff("proposals", "--json").stdout)
    assert line["id"] == "P4"


def test_a_withdrawn_approval_is_in_neither_trailers_nor_notes(signoff: Run, workspace: Path) -> None:
    change(workspace)
    signoff("stage", "--worktree")
    signoff("approve", "P1")
    git(workspace, "add", "--all")
    assert signoff("trailers", "--staged").stdout == "Reviewed-in: signoff P1 (2/2 hunks)\n"
    assert "1 of 1 file on disk holds the bytes that were signed last." in signoff("log", "--verify").stdout
    signoff("undo", "P1")
    assert signoff("trailers", "--staged").stdout == "" and "signed" not in signoff("log", "--verify").stdout
    git(workspace, "commit", "--quiet", "--message", "Second")
    assert "The record knows nothing" in signoff("notes").stderr


def test_staging_a_commit_leaves_out_approved_hunks(signoff: Run, workspace: Path) -> None:
    change(workspace)
    signoff("stage", "--worktree")
    signoff("approve", "P1", "--hunks", "1")
    git(workspace, "checkout", "--quiet", "-b", "side")
    git(workspace, "commit", "--quiet", "--all", "--message", "Second")
    git(workspace, "checkout", "--quiet", "main")
    assert "1 hunk left out: signed in P1; --all stages it too.\n" in signoff("stage", "--from", "side").stdout
    signoff("deny", "P2")
    staged = json.loads(signoff("stage", "--from", "side", "--json").stdout)
    assert staged["left_out"] == [{"hunks": 1, "why": "signed", "proposals": ["P1"]}]
    assert "+twenty" in signoff("show", staged["id"]).stdout and "+three" not in signoff("show", staged["id"]).stdout


def test_only_paths_that_no_tool_may_touch_are_left_out(signoff: Run, workspace: Path) -> None:
    git(workspace, "checkout", "--quiet", "-b", "side")
    for name in ("a\\b", *map(str, range(12))):
        (workspace / name).touch()
    git(workspace, "add", "--all")
    git(workspace, "commit", "--quiet", "--message", "Second")
    git(workspace, "checkout", "--quiet", "main")
    staged = signoff("stage", "--from", "side")
    assert staged.stdout.startswith("Staged P1  pending")
    assert staged.stderr.startswith("signoff: Left out a\\b: 'a\\\\b' has a backslash")
    assert signoff("approve", "P1").stdout == "P1 approved: 0, 1, 10, 11, 2, 3, 4, 5, 6, 7 and 2 more.\n"
    assert sorted(path.name for path in workspace.iterdir() if path.name.isdecimal()) == sorted(map(str, range(12)))


def test_a_pushed_proposal_is_staged_from_the_remote(signoff: Run, workspace: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--bare", str(workspace), "bare.git")
    git(workspace, "remote", "add", "origin", "../bare.git")
    change(workspace)
    signoff("stage", "--worktree")
    git(workspace, "config", "user.name", "Ann")
    git(workspace, "config", "user.email", "ann@example.org")
    document = json.loads(signoff("push", "P1", "--as", "review-1", "--json").stdout)
    assert document["ref"] == "refs/signoff/review-1"
    assert git(tmp_path / "bare.git", "log", "-1", "--format=%an", document["commit"]) == b"Ann\n"
    signoff("deny", "P1")
    staged = signoff("stage", "--from", "origin", "signoff/review-1")
    assert staged.stdout.startswith("Staged P2  pending"), staged.stderr
    assert signoff("approve", "P2").returncode == 0
    assert "twenty" in (workspace / "notes.txt").read_text()
    assert signoff("stage", "--from", "origin", "signoff/review-1").returncode == 3


def test_impossible_staging_is_reported_in_one_line(signoff: Run) -> None:
    for arguments, code, said in (
        (("stage", "--worktree"), 3, "Nothing on disk differs from the index"),
        (("stage", "--worktree", "--against", "nowhere"), 3, "There is no commit nowhere"),
        (("stage", "--worktree", "notes.text"), 3, "There is no notes.text here"),
        (("stage", "--worktree", "../x"), 3, "leads out of the workspace"),
        (("stage", "-"), 3, "The diff is empty: there is nothing to stage."),
        (("stage", "--worktree", "--from", "HEAD"), 2, "one of them"),
        (("stage", "x.diff", "--against", "HEAD"), 2, "--against goes with --worktree"),
        (("stage", "--from", "a", "b", "c"), 2, "a remote and a reference"),
        (("stage", "x.diff", "y.diff"), 2, "one diff"),
        (("stage", "--worktree", "--against", "HEAD", "notes.txt"), 3, "Nothing on disk differs from HEAD"),
        (("stage", "--from", "nowhere"), 3, "no commit, branch or range nowhere"),
        (("push", "P9"), 3, "no proposal P9"),
        (("push", "P9", "--as", "../x"), 2, "letters"),
    ):
        done = signoff(*arguments)
        assert (done.returncode, said in done.stderr) == (code, True), done.stderr
        if code == 3:
            assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("command", ["approve", "deny"])
def test_hunks_of_a_file_that_is_not_utf8_are_decided(signoff: Run, workspace: Path, command: str) -> None:
    text = (workspace / "notes.txt").read_bytes().replace(b"\n2\n", b"\ncaf\xe9\n")
    (workspace / "notes.txt").write_bytes(text)
    git(workspace, "commit", "--quiet", "--all", "--message", "Latin-1")
    change(workspace, "latin-1")
    (workspace / "latin.patch").write_bytes(git(workspace, "diff"))
    git(workspace, "checkout", "--quiet", ".")
    assert signoff("stage", "latin.patch").returncode == 0
    decided = signoff(command, "P1", "--hunks", "1")
    assert (decided.returncode, decided.stderr) == (0, "")
    expected = text.replace(b"\n3\n", b"\nthree\n") if command == "approve" else text
    assert (workspace / "notes.txt").read_bytes() == expected
    assert signoff("log", "--verify").stdout.startswith("1 decision, ")


def test_a_doubtful_place_is_in_all_lists(signoff: Run) -> None:
    patch = "*** Begin Patch\n*** Update File: notes.txt\n@@\n+four\n*** End Patch\n"
    assert signoff("stage", stdin=patch).returncode == 0
    doubt = "Line 31 is in doubt: at the end of the file, as the hunk shows no place."
    for words in (["show", "P1"], ["show", "P1", "--hunks"], ["proposals"]):
        assert doubt in signoff(*words).stdout
    [listed] = json.loads(signoff("proposals", "--json").stdout)
    for shown in (listed, json.loads(signoff("show", "P1", "--json").stdout)):
        assert doubt in shown["files"][0]["warnings"]
