"""A patch that a person stages: for files that are there, that are not, and of what is on disk already."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from app.proposals.values.models import FileOperation
from app.proposals.values.origin import OriginKind
from app.proposals.values.proposal_errors import NothingToStage, PatchRefused
from tests.unit.proposals.bench import Bench, numbered
from tests.unit.proposals.repositories import git, repository

Make = Callable[..., Bench]

CREATES = "--- /dev/null\n+++ b/{}\n@@ -0,0 +1 @@\n+new\n"


def own_diff(site: Bench, *options: str) -> str:
    """`git diff` of what is on disk."""
    git(site.root, "add", "--all")
    text = git(site.root, "diff", "--cached", "-M", *options).decode()
    git(site.root, "reset", "--quiet")
    return text


def test_a_patch_creates_or_changes_a_file_or_is_refused_in_one_line(bench: Make) -> None:
    site = bench({"a.txt": "old\n", "large.txt": "old\n", "near.txt": "one\ntwo  \nthree\n", "tool": b"\0\1"})
    os.truncate(site.root / "large.txt", 1 << 31)
    for path, body, why in (
        ("a.txt", "@@ -1 +1 @@\n-old\n+old\n", r"The part for a\.txt changes nothing"),
        ("large.txt", "@@ -1 +1 @@\n-old\n+new\n", r"The patch was not staged: .*"),
        # Its lines are found with other blanks alone: a denial would not take back what the patch made.
        ("tool", "@@ -1 +1 @@\n-old\n+new\n", "tool is binary; it can be replaced"),
        ("near.txt", "@@ -1,3 +1,3 @@\n one\n-zwei\n+two\n three\n", "The patch was not staged"),
    ):
        with pytest.raises(PatchRefused, match=why):
            site.service.stage_patch(f"--- a/{path}\n+++ b/{path}\n{body}")
    with pytest.raises(PatchRefused, match=r"creates a\.txt, but the file exists"):
        site.service.stage_patch(CREATES.format("a.txt"))
    (change,) = site.service.stage_patch("--- a/sub/new.txt\n+++ b/sub/new.txt\n@@ -0,0 +1 @@\n+new\n").files
    assert (change.path, change.op) == ("sub/new.txt", FileOperation.CREATE)
    (change,) = site.service.stage_patch("diff --git a/tool b/tool\nold mode 100644\nnew mode 100755\n").files
    assert (change.path, change.op) == ("tool", FileOperation.MODE)


def test_an_existing_path_is_taken_literally(tmp_path: Path) -> None:
    """Not as one from the top of the repository, whose folder has the workspace's name."""
    site = Bench(tmp_path, {"a.txt": "outer\n", "workspace/a.txt": "inner\n"})
    git(tmp_path, "init", "--quiet")
    patch = "--- a/workspace/a.txt\n+++ b/workspace/a.txt\n@@ -1 +1 @@\n-{}\n+new\n"
    (change,) = site.service.stage_patch(patch.format("inner")).files
    assert change.path == "workspace/a.txt"
    with pytest.raises(PatchRefused):
        site.service.stage_patch(patch.format("outer"))


def test_paths_are_from_the_top_of_the_repository_where_all_can_be(tmp_path: Path) -> None:
    site = Bench(tmp_path, {})
    git(tmp_path, "init", "--quiet")
    (change,) = site.service.stage_patch(CREATES.format("workspace/one.txt")).files
    assert change.path == "one.txt"
    both = site.service.stage_patch(CREATES.format("workspace/two.txt") + CREATES.format("three.txt")).files
    assert {change.path for change in both} == {"workspace/two.txt", "three.txt"}


@pytest.mark.parametrize("options", [(), ("-U0",), ("-w",)])
def test_a_diff_of_the_users_own_changes_is_recognised_on_disk(bench: Make, options: tuple[str, ...]) -> None:
    site = bench({"a.txt": numbered(9), "old.txt": numbered(5), "gone.txt": "gone\n", "run.sh": "run\n"})
    repository(site)
    site.put(**{"a.txt": numbered(9, l2="two", l5="line  5") + "line 9\n", "new.txt": "new\n"})
    (site.root / "old.txt").rename(site.root / "moved.txt")
    (site.root / "gone.txt").unlink()
    (site.root / "run.sh").chmod(0o755)
    patch, tree = own_diff(site, *options), site.tree()
    proposal = site.service.stage_patch(patch)
    assert proposal.origin.kind is OriginKind.DISK and proposal.on_disk
    assert {change.path for change in proposal.files} >= {"a.txt", "new.txt", "gone.txt", "run.sh", "moved.txt"}
    with pytest.raises(NothingToStage, match=f"{proposal.id} is already pending"):
        site.service.stage_patch(patch)
    site.service.approve(proposal.id)
    assert site.tree() == tree


def test_lines_that_are_on_disk_are_not_added_a_second_time(bench: Make) -> None:
    """The line beside which they go stands twice by now, so that they would fit once more."""
    site = bench({"a.txt": "one\ntwo\n"})
    repository(site)
    site.put(**{"a.txt": "one\ntwo\ntwo\n"})
    proposal = site.service.stage_patch(own_diff(site, "-U1"))
    assert proposal.on_disk
    site.service.deny(proposal.id)
    assert site.read("a.txt") == b"one\ntwo\n"


def test_a_diff_only_partly_on_disk_is_refused(bench: Make) -> None:
    site = bench({"a.txt": numbered(9), "run.sh": "run\n"})
    repository(site)
    site.put(**{"a.txt": numbered(9, l2="two")})
    (site.root / "run.sh").chmod(0o755)
    patch = own_diff(site)
    (site.root / "run.sh").chmod(0o644)
    with pytest.raises(PatchRefused, match=r"The patch was not staged"):
        site.service.stage_patch(patch)


def test_a_patch_that_waits_already_is_not_staged_twice(bench: Make) -> None:
    site = bench({"a.txt": numbered(9)})
    patch = "--- a/a.txt\n+++ b/a.txt\n@@ -2,2 +2,2 @@\n line 2\n-line 3\n+three\n"
    first = site.service.stage_patch(patch)
    assert first.origin.kind is OriginKind.PATCH
    site.edit("a.txt", ("line 8", "eight"))
    with pytest.raises(PatchRefused, match=f"{first.id} is already pending with the same changes"):
        site.service.stage_patch(patch)
    with pytest.raises(PatchRefused, match="fits the disk, but not the changes of P1, P2, still pending; decide P1"):
        site.service.stage_patch(patch.replace("three", "drei"))


@pytest.mark.timeout(30)
def test_a_patch_of_blank_lines_takes_linear_time(bench: Make) -> None:
    """What deserves eyes is looked for in all of them; in a time that grew with their square this would not end."""
    count = 20_000
    site = bench({"a.py": "old\n" + "\n" * count})
    removed = f"--- a/a.py\n+++ b/a.py\n@@ -1,{count + 1} +0,0 @@\n-old\n" + "-\n" * count
    added = f"--- /dev/null\n+++ b/b.py\n@@ -0,0 +1,{count + 1} @@\n" + "+\n" * count + "+new\n"
    for patch in (removed, added):
        (change,) = site.service.stage_patch(patch).files
        assert change.added + change.removed == count + 1
