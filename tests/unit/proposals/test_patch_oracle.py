"""Patches that are cut off or out of order: what `git apply` makes of them, or a refusal, or a doubt."""

import random
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.proposals.patch.hunk_placement import apply_file_patch
from app.proposals.patch.patching import parse_patch_text
from app.proposals.text.document import Document
from app.proposals.values.proposal_errors import EditRefused, PatchRefused, ProposalError
from tests.examples import scale_examples
from tests.unit.proposals.bench import Bench, Tree, numbered, tree

Make = Callable[..., Bench]

relaxed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


NAMED = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "core.autocrlf=false")


def git(folder: Path, *arguments: str, given: bytes = b"") -> tuple[bool, bytes]:
    done = subprocess.run(["git", *arguments], cwd=folder, input=given, capture_output=True, check=False)
    return done.returncode == 0, done.stdout


def lines(dice: random.Random, count: int) -> list[bytes]:
    """Text in which blocks come again, with some empty lines and prose between."""
    block = [b"begin\n", b"    work()\n", b"\n", b"    return it\n", b"end\n"]
    text: list[bytes] = []
    while len(text) < count:
        text += block if dice.random() < 0.5 else [b"line %d of the text\n" % dice.randrange(40)]
    return text


def changed(dice: random.Random, text: list[bytes], most: int) -> list[bytes]:
    result = list(text)
    for _ in range(dice.randint(1, most)):
        at = dice.randrange(len(result))
        result[at : at + dice.choice([0, 1, 1, 2])] = [b"new %d\n" % dice.randrange(9)] * dice.choice([0, 1, 1, 2])
    return result


def real_diff(folder: Path, before: Mapping[str, bytes], after: Mapping[str, bytes], *options: str) -> bytes:
    """Git's diff between two sets of files; `folder` holds the first afterwards."""
    for stale in folder.glob("*.txt"):
        stale.unlink()
    for name, data in before.items():
        (folder / name).write_bytes(data)
    git(folder, "init", "--quiet")
    git(folder, "add", "--all")
    for name in before:
        (folder / name).unlink()
    for name, data in after.items():
        (folder / name).write_bytes(data)
    git(folder, "add", "--intent-to-add", "--all")
    made = git(folder, "diff", "--no-renames", *options)[1]
    git(folder, "reset", "--quiet")
    for name in after:
        (folder / name).unlink()
    for name, data in before.items():
        (folder / name).write_bytes(data)
    return made


def applied_by_git(folder: Path, patch: bytes, *options: str) -> Tree | None:
    """The files after `git apply`, which are put back then; None if it refuses."""
    before = {path: path.read_bytes() for path in folder.glob("*.txt")}
    accepted, _ = git(folder, "apply", "--whitespace=nowarn", *options, given=patch)
    after = texts(tree(folder))
    for path in folder.glob("*.txt"):
        path.unlink()
    for path, data in before.items():
        path.write_bytes(data)
    return after if accepted else None


def texts(files: Tree) -> Tree:
    return {path: what for path, what in files.items() if path.endswith(".txt")}


@pytest.mark.parametrize("seed", range(scale_examples(4)))
@pytest.mark.parametrize("kind", ["git", "plain", "no ids"])
def test_a_truncated_diff_is_applied_like_git_or_refused(bench: Make, seed: int, kind: str) -> None:
    dice = random.Random(seed)
    before = {f"{name}.txt": b"".join(lines(dice, 30)) for name in "abc"}
    after = {name: b"".join(changed(dice, data.splitlines(keepends=True), 3)) for name, data in before.items()}
    after["d.txt"] = after.pop(dice.choice("ac") + ".txt")
    site = bench(before)
    patch = real_diff(site.root, before, after)
    if kind != "git":
        patch = re.sub(rb"(?m)^index .*\n", b"", patch)
    if kind == "plain":
        patch = re.sub(rb"(?m)^(diff|new file|deleted file) .*\n", b"", patch)
    there = texts(site.tree())
    wrong = []
    for cut in sorted(
        {*dice.sample(range(len(patch)), scale_examples(60)), *(len(patch) - back for back in range(12))}
    ):
        part = patch[:cut]
        try:
            proposal = site.service.stage_patch(part.decode())
        except (PatchRefused, ProposalError):
            continue
        site.service.approve(proposal.id)
        ours = texts(site.tree())
        site.service.undo(proposal.id)
        to_line_end = patch[: patch.find(b"\n", cut) + 1] or patch
        to_part_end = patch[: patch.find(b"\ndiff ", cut) + 1] or patch
        in_doubt = any(change.is_inexact for change in proposal.files) and not part.endswith(b"\n")
        if not in_doubt and ours not in (
            applied_by_git(site.root, text) for text in (part, to_line_end, to_part_end)
        ):
            wrong.append((cut, part[-60:]))
        assert texts(site.tree()) == there
    assert not wrong


def test_a_removed_line_above_a_mail_signature_is_kept(bench: Make) -> None:
    before, after = numbered(9).encode() + b"- \n", numbered(8).encode() + b"9\n"
    site = bench()
    patch = mails(site.root, ("", {"a.txt": before}), ("", {"a.txt": after}))
    miscounted = patch.replace(b"-line 9\n-- \n+9\n", b"-line 9\n+9\n-- \n").replace(
        b"@@ -6,5 +6,4 @@", b"@@ -6,4 +6,4 @@"
    )
    assert b"@@ -6,4 +6,4 @@" in miscounted and b"\n+9\n-- \n-- \n" in miscounted
    proposal = site.service.stage_patch(miscounted.decode())
    assert proposal.files[0].is_inexact
    site.service.approve(proposal.id)
    assert site.read("a.txt") == after


def test_a_numbered_hunk_in_the_message_of_a_mail_is_refused_as_git_does(bench: Make) -> None:
    site = bench()
    lost = "--- a/a.txt\n+++ b/a.txt\n\n@@ -1 +1 @@\n-line 1\n+one\n"
    patch = mails(site.root, ("", {"a.txt": b"line 1\n", "b.txt": b"b\n"}), (lost, {"b.txt": b"B\n"}))
    assert applied_by_git(site.root, patch) is None
    with pytest.raises(PatchRefused, match="a hunk without a file"):
        site.service.stage_patch(patch.decode())


EDITED = """\
--- a/a.txt
+++ b/a.txt
@@ -2,7 +2,8 @@
 line 2
 line 3
 line 4
-line 5
+five
+more
 line 6
 line 7
 line 8
@@ -20,7 +21,8 @@
 line 20
 line 21
 line 22
-line 23
+23
+and
 line 24
 line 25
 line 26
"""


@pytest.mark.parametrize(
    ("given", "edited"),
    [
        ("+more\n", ""),
        ("+more\n", "+more\n+still more\n"),
        ("-line 5\n", " line 5\n"),
        (" line 8\n", ""),
        ("+and\n", ""),
        ("+23\n+and\n", ""),
        ("+and\n", "+and\n+more\n"),
        ("-line 23\n", " line 23\n"),
        (" line 20\n", ""),
        (" line 20\n line 21\n", ""),
        (" line 20\n line 21\n line 22\n", ""),
        (" line 20\n line 21\n line 22\n-line 23\n+23\n", " line 23\n"),
    ],
)
def test_an_edited_hunk_is_recounted_like_git_does(bench: Make, given: str, edited: str) -> None:
    site = bench({"a.txt": numbered(40)})
    patch = EDITED.replace(given, edited)
    proposal = site.service.stage_patch(patch)
    assert proposal.files[0].is_inexact
    site.service.approve(proposal.id)
    ours = site.read("a.txt")
    site.service.undo(proposal.id)
    assert git(site.root, "apply", "--recount", given=patch.encode())[0]
    assert site.read("a.txt") == ours


@pytest.mark.parametrize(
    ("given", "edited"), [(" line 26\n", ""), (" line 25\n line 26\n", ""), ("-20,7 +21,8", "-20,9 +21,10")]
)
def test_a_last_hunk_that_may_be_cut_off_needs_gits_ids(bench: Make, given: str, edited: str) -> None:
    before = numbered(40).encode()
    after = before.replace(b"line 5\n", b"five\nmore\n").replace(b"line 23\n", b"23\nand\n")
    site = bench({"a.txt": before})
    ids = b"diff --git a/a.txt b/a.txt\nindex %s..%s 100644\n" % tuple(
        git(site.root, "hash-object", "--stdin", given=data)[1].strip()[:9] for data in (before, after)
    )
    patch = EDITED.replace(given, edited)
    for unproven in (patch, ids.decode() + patch.replace("+and\n", "+or\n")):
        with pytest.raises(PatchRefused, match="text ends before this hunk does"):
            site.service.stage_patch(unproven)
    proposal = site.service.stage_patch(ids.decode() + patch)
    assert proposal.files[0].is_inexact
    site.service.approve(proposal.id)
    assert site.read("a.txt") == after
    site.service.undo(proposal.id)
    assert git(site.root, "apply", "--recount", given=patch.encode())[0]
    assert site.read("a.txt") == after


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_a_last_hunk_may_lack_its_first_context_line(bench: Make, lost: int) -> None:
    kept = [" line 5\n", " line 6\n"][lost:]
    patch = f"--- a/a.txt\n+++ b/a.txt\n@@ -5,4 +5,5 @@\n{''.join(kept)}-line 7\n+seven\n line 8\n"
    site = bench({"a.txt": numbered(8)})
    with pytest.raises(PatchRefused, match="text ends before this hunk does"):
        site.service.stage_patch(patch)
    whole = f"{patch}+nine\n line 9\n".replace("-5,4 +5,5", "-5,5 +5,6")
    site = bench({"a.txt": numbered(9)})
    proposal = site.service.stage_patch(whole)
    assert proposal.files[0].is_inexact == bool(lost)
    site.service.approve(proposal.id)
    ours = site.tree()
    site.service.undo(proposal.id)
    assert applied_by_git(site.root, whole.encode(), "--recount") == texts(ours)


def hunk_cut_after(kept: int, start: int) -> str:
    """A patch that changes a line and the fourth below it, cut off after the first `kept` of the lines around."""
    body = [f" line {at}\n" for at in range(start, start + 10)]
    for at in (min(3, start - 1), min(3, start - 1) + 4):
        number = start + at
        body[at] = f"-line {number}\n+new {number}\n"
    return f"--- a/a.txt\n+++ b/a.txt\n@@ -{start},10 +{start},10 @@\n{''.join(body[:kept])}"


@pytest.mark.parametrize(("start", "kept"), [(1, 4), (4, 7)])
def test_a_cut_hunk_is_refused_however_far_lines_moved(bench: Make, start: int, kept: int) -> None:
    for moved in range(8):
        site = bench({"a.txt": "other\n" * moved + numbered(30)})
        site.service.deny(site.service.stage_patch(hunk_cut_after(10, start)).id)
        with pytest.raises(PatchRefused, match="text ends before this hunk does"):
            site.service.stage_patch(hunk_cut_after(kept, start))


def test_a_hunk_without_its_first_or_last_lines_is_refused_if_ambiguous(bench: Make) -> None:
    patch = "--- a/a.txt\n+++ b/a.txt\n@@ -3,5 +3,5 @@\n d\n-e\n+E\n f\n g\n"
    site = bench({"a.txt": "a\nb\nc\nd\ne\nf\ng\nh\n", "b.txt": numbered(3)})
    assert site.service.stage_patch(patch).files[0].is_inexact
    ends = [
        f"--- a/b.txt\n+++ b/b.txt\n@@ -1,3 +1,4 @@\n-line 1\n+one\n line 2{trailing}\n line 3\n"
        for trailing in ("", " ")
    ]
    site = bench({"a.txt": "a\nb\nc\nd\ne\nf\ng\nh\n" + "d\ne\nf\ng\n"})
    for cut in (patch, *ends):
        with pytest.raises(PatchRefused, match="text ends before this hunk does"):
            site.service.stage_patch(cut)


@relaxed
@given(seed=st.integers(0, 10**6), moved=st.booleans())
def test_a_damaged_last_hunk_against_git(tmp_path_factory: pytest.TempPathFactory, seed: int, moved: bool) -> None:
    dice = random.Random(seed)
    folder = tmp_path_factory.mktemp("tree")
    old = lines(dice, 60)
    before, after = b"".join(old), b"".join(changed(dice, old, 4))
    patch = real_diff(folder, {"f.txt": before}, {"f.txt": after})
    if dice.random() < 0.5:
        patch = re.sub(rb"(?m)^index .*\n", b"", patch)
    head, *hunks = re.split(rb"(?m)^(?=@@ )", patch)
    if not hunks:
        return
    header, *body = hunks[-1].splitlines(keepends=True)
    above = next(at for at, line in enumerate(body) if line[:1] != b" ")
    cut, lost = len(body), 0
    match dice.choice(["cut", "lost above", "miscounted"]):
        case "cut":
            cut = dice.randrange(1, len(body))
        case "lost above":
            lost = dice.randint(0, above)
        case "miscounted":
            numbers = rb"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@"
            counts = tuple(dice.randrange(15) for _ in "12")
            header = re.sub(numbers, rb"@@ -\1,%d +\2,%d @@" % counts, header)
    damaged = head + b"".join([*hunks[:-1], header, *body[lost:cut]])
    if moved:
        before = b"other\n" * dice.randint(1, 5) + before
        (folder / "f.txt").write_bytes(before)
    try:
        result, matches = apply_file_patch(Document(before), parse_patch_text(damaged, is_complete=False)[0])
    except EditRefused:
        result, matches = None, ()
    tree_by_git = applied_by_git(folder, damaged, "--recount")
    theirs = tree_by_git["f.txt"][0] if tree_by_git else None
    if result is None:
        only_one = len(re.findall(rb"(?m)^(?=%s)" % re.escape(old_side(body[lost:])), before)) == 1
        kept_below = len(body) - 1 - last_change(body)
        assert not (lost and not moved and only_one and above - lost < kept_below and theirs == after)
    elif damaged != patch:
        assert not all(match.rung.is_exact for match in matches)
        assert moved or theirs in (None, result)
    if cut <= last_change(body) and not moved:
        assert result is None


def last_change(body: list[bytes]) -> int:
    return max(at for at, line in enumerate(body) if line[:1] != b" ")


def old_side(body: list[bytes]) -> bytes:
    """The text that a hunk keeps and removes."""
    return b"".join(line[1:] for line in body if line[:1] in b" -")


def mails(folder: Path, *states: tuple[str, Mapping[str, bytes]], options: Sequence[str] = ()) -> bytes:
    """What `git format-patch` writes of a commit for each of the states but the first; `folder` is at the first then.

    Each comes with the body of its message.
    """
    git(folder, "init", "--quiet")
    for message, files in states:
        for name, data in files.items():
            (folder / name).write_bytes(data)
        git(folder, "add", "--all")
        git(folder, *NAMED, "commit", "--quiet", "--message", f"Change\n\n{message}")
    made = git(folder, *NAMED, "format-patch", *options, "--stdout", f"-{len(states) - 1}")[1]
    git(folder, "reset", "--quiet", "--hard", f"HEAD~{len(states) - 1}")
    return made


@pytest.mark.parametrize("seed", range(scale_examples(3)))
def test_mails_cut_at_the_end_of_a_hunk_are_in_doubt(bench: Make, seed: int) -> None:
    dice = random.Random(seed)
    before = {f"{name}.txt": b"".join(lines(dice, 60)) for name in "ab"}
    after = {name: b"".join(changed(dice, data.splitlines(keepends=True), 3)) for name, data in before.items()}
    site = bench()
    patch = mails(site.root, ("", before), ("", {"a.txt": after["a.txt"]}), ("", {"b.txt": after["b.txt"]}))
    whole = site.service.stage_patch(patch.decode())
    assert not any(change.is_inexact for change in whole.files)
    site.service.deny(whole.id)
    for end in re.finditer(rb"(?m)^(?!\+\+\+ )[-+ ].*\n(?=@@ |diff |-- $)", patch[patch.index(b"\n@@ ") :]):
        part = patch[: patch.index(b"\n@@ ") + end.end()]
        assert applied_by_git(site.root, part) is not None
        proposal = site.service.stage_patch(part.decode())
        assert any(change.is_inexact for change in proposal.files), part[-80:]
        site.service.deny(proposal.id)


@pytest.mark.parametrize(
    "message",
    [
        "--- not a header\n+++ b\n",
        "--- a/a.txt\n+++ b/a.txt\n",
        "@@ quoted\n-one\n+two\n",
        "*** Begin Patch\n*** Update File: a.txt\n@@\n-x\n+y\n*** End Patch\n",
        "commit to it\n\n--\n2.0 is out\n",
        "diff of two\nIndex: none\n```\n-x\n",
    ],
)
def test_the_message_of_a_mail_is_no_part_of_its_diff(bench: Make, message: str) -> None:
    before, after = b"".join(lines(random.Random(1), 30)), b"".join(lines(random.Random(2), 30))
    site = bench()
    patch = mails(site.root, ("", {"a.txt": before}), (message, {"a.txt": after}), ("", {"b.txt": before}))
    assert message.encode() in patch
    wanted = applied_by_git(site.root, patch)
    assert wanted is not None
    for signature in (b"", b"GitLab\n\n", b"A\n- B\n\n"):
        signed = re.sub(rb"(?m)^-- \n.*\n\n", b"-- \n" + signature, patch) if signature else patch
        proposal = site.service.stage_patch(signed.decode())
        assert not any(change.is_inexact for change in proposal.files)
        site.service.approve(proposal.id)
        assert texts(site.tree()) == wanted
        site.service.undo(proposal.id)


@pytest.mark.parametrize("option", ["--attach", "--inline", "--attach=--"])
def test_the_boundary_at_the_end_of_a_mail_is_no_removed_line(bench: Make, option: str) -> None:
    before, after = b"".join(lines(random.Random(1), 30)), b"".join(lines(random.Random(2), 30))
    site = bench()
    states = ("", {"a.txt": before}), ("", {"a.txt": after}), ("", {"b.txt": before})
    patch = mails(site.root, *states, options=[option])
    proposal = site.service.stage_patch(patch.decode())
    assert not any(change.is_inexact for change in proposal.files)
    site.service.approve(proposal.id)
    assert (site.read("a.txt"), site.read("b.txt")) == (after, before)


@relaxed
@given(seed=st.integers(0, 10**6), context=st.sampled_from(["-U1", "-U2", "-U3"]))
def test_hunks_go_by_numbers_and_without_by_order_with_a_doubt(
    tmp_path_factory: pytest.TempPathFactory, seed: int, context: str
) -> None:
    dice = random.Random(seed)
    folder = tmp_path_factory.mktemp("tree")
    old = lines(dice, 60)
    before, after = b"".join(old), b"".join(changed(dice, old, 8))
    patch = real_diff(folder, {"f.txt": before}, {"f.txt": after}, context)
    if not patch:
        return
    result, matches = apply_file_patch(Document(before), parse_patch_text(patch)[0])
    assert result == after
    assert all(match.rung.is_exact for match in matches)
    plain = re.sub(rb"(?m)^index .*\n", b"", patch)
    for numbered_hunks, text in ((True, plain), (False, re.sub(rb"(?m)^@@ .*", b"@@", plain))):
        head, *hunks = re.split(rb"(?m)^(?=@@(?: .*)?$)", text)
        dice.shuffle(hunks)
        try:
            result, matches = apply_file_patch(Document(before), parse_patch_text(head + b"".join(hunks))[0])
        except EditRefused:
            continue
        assert result == after or not (numbered_hunks or all(match.rung.is_exact for match in matches))
