"""Patches in and out, byte for byte as git has it, over histories made from the installed packages' own files."""

import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from unidiff.patch import PatchSet

import app.proposals
from app.proposals.decide.proposal_commits import commit_proposal
from app.proposals.locate.matching import TextReplacement
from app.proposals.values.models import FileOperation
from app.proposals.values.origin import OriginKind
from app.proposals.values.proposal_errors import GitCommitFailed, PatchRefused, ProposalError, UnexportablePatch
from app.sandbox.captured_changes import LINK_MODE, FileOrLink, PathChange
from tests.examples import scale_examples
from tests.unit.proposals.bench import Bench, Tree, numbered, tree
from tests.unit.proposals.repositories import git, repository

Make = Callable[..., Bench]


def without_git(files: Tree) -> Tree:
    return {path: what for path, what in files.items() if not path.startswith(".git/")}


def sources() -> list[bytes]:
    """Real texts to make a history of."""
    folders = [Path(app.proposals.__file__).parent, Path(subprocess.__file__).parent]
    files = [file for folder in folders for file in sorted(folder.glob("*.py"))[:40]]
    return [file.read_bytes() for file in files if file.stat().st_size < 60_000]


def shaken(dice: random.Random, root: Path, texts: list[bytes]) -> None:
    """One commit's worth of changes: edits, new files, deletions, renames, modes."""
    files = sorted(path for path in root.rglob("*") if path.is_file() and ".git" not in path.parts)
    for path in dice.sample(files, min(len(files), 6)):
        match dice.choice(["edit", "edit", "edit", "delete", "rename", "mode", "tail"]):
            case "edit" | "tail" as how:
                lines = path.read_bytes().split(b"\n")
                for _ in range(dice.randint(1, 5)):
                    at = dice.randrange(len(lines))
                    lines[at : at + dice.randint(0, 2)] = [
                        b"changed %d" % dice.randrange(9) for _ in range(dice.randint(0, 3))
                    ]
                path.write_bytes(b"\n".join(lines).rstrip(b"\n") if how == "tail" else b"\n".join(lines))
            case "delete":
                path.unlink()
            case "rename":
                target = root / f"moved{dice.randrange(10**6)}" / path.name
                target.parent.mkdir()
                path.rename(target)
            case _:
                path.chmod(0o755 if path.stat().st_mode & 0o100 == 0 else 0o644)
    (root / f"new{dice.randrange(10**6)}.py").write_bytes(dice.choice(texts))


@pytest.mark.parametrize(
    "seed", [*range(scale_examples(3)), *(pytest.param(n, marks=pytest.mark.soak) for n in (3, 4, 5))]
)
def test_commits_exported_as_patches_equal_those_of_git(bench: Make, seed: int) -> None:
    dice = random.Random(seed)
    texts = sources()
    site = bench({f"pkg{n % 3}/file {n}.py": text for n, text in enumerate(dice.sample(texts, 12))})
    repository(site)
    for _ in range(3):
        before = without_git(site.tree())
        shaken(dice, site.root, texts)
        git(site.root, "add", "--all")
        git(site.root, "commit", "--quiet", "--allow-empty", "--message", "next")
        after = without_git(site.tree())
        patch = git(site.root, "diff", "-M", "HEAD~1", "HEAD").decode("utf-8", "surrogateescape")
        git(site.root, "checkout", "--quiet", "HEAD~1", "--", ".")
        git(site.root, "reset", "--quiet", "--hard", "HEAD~1")
        assert without_git(site.tree()) == before
        proposal = site.service.stage_patch(patch)
        assert proposal.origin.kind is OriginKind.PATCH
        assert not any(change.is_inexact for change in proposal.files)
        exported = site.service.unified_diff(proposal.id)
        git(site.root, "apply", "--check", given=exported)
        assert len(PatchSet(exported)) == len(proposal.files)
        site.service.approve(proposal.id)
        assert without_git(site.tree()) == after
        site.service.undo(proposal.id)
        assert without_git(site.tree()) == before
        site.service.redo(proposal.id)
        git(site.root, "add", "--all")
        git(site.root, "commit", "--quiet", "--allow-empty", "--message", "next")


def test_git_and_patch_apply_an_exported_proposal_like_an_approval(bench: Make, tmp_path: Path) -> None:
    site = bench({"a.txt": numbered(30), "b c.txt": b"caf\xe9\r\nno end", "d.txt": "d\n"})
    draft = site.service.new_draft("session")
    draft.edit("a.txt", [TextReplacement("line 3\n", "three\n"), TextReplacement("line 25\n", "")])
    draft.edit("b c.txt", [TextReplacement("no end", "still no end")])
    draft.write("new/e.txt", "e\n")
    draft.delete("d.txt")
    proposal = site.service.stage(draft, "Mixed")
    exported = site.service.unified_diff(proposal.id).encode("utf-8", "surrogateescape")
    assert b"+++ b/new/e.txt\n@@ -0,0 +1 @@\n+e\n" in exported
    results = []
    for name, command in (("git", ["git", "apply"]), ("patch", ["patch", "-p1", "--binary", "--silent"])):
        copy = tmp_path / name
        subprocess.run(["cp", "-a", str(site.root), str(copy)], check=True)
        done = subprocess.run(command, cwd=copy, input=exported, capture_output=True, check=False)
        assert done.returncode == 0, (done.stdout, done.stderr)
        results.append(tree(copy))
    site.service.approve(proposal.id)
    assert results == [site.tree(), site.tree()]
    assert site.service.unified_diff(proposal.id).encode("utf-8", "surrogateescape") == exported


def test_an_exported_patch_contains_only_pending_hunks(bench: Make) -> None:
    site = bench({"a.txt": numbered(30), "b.txt": numbered(3)})
    proposal = site.write(**{"a.txt": numbered(30, l3="three", l25="last"), "b.txt": "b\n"})
    site.service.approve(proposal.id, ["1", "3"])
    exported = site.service.unified_diff(proposal.id)
    assert "+last" in exported
    assert "+three" not in exported and "b.txt" not in exported
    assert [change.path for change in site.service.path_changes(proposal.id)] == ["a.txt"]
    git(site.root, "apply", "--check", given=exported)
    change = proposal.files[0]
    damaged = change.model_copy(update={"hunks": change.hunks[:1]})
    site.store.save_proposal(proposal.model_copy(update={"files": (damaged,)}))
    with pytest.raises(UnexportablePatch, match=r"a\.txt reads back differently"):
        site.service.unified_diff(proposal.id)


def test_files_that_change_names_with_each_other_or_only_move(bench: Make) -> None:
    site = bench({"a.txt": numbered(9), "b.txt": "other\n" * 9, "c.txt": numbered(30)})
    patch = "".join(
        f"diff --git a/{old} b/{new}\nsimilarity index 100%\nrename from {old}\nrename to {new}\n"
        for old, new in (("a.txt", "b.txt"), ("b.txt", "a.txt"), ("c.txt", "d.txt"))
    )
    proposal = site.service.stage_patch(patch)
    assert site.service.unified_diff(proposal.id).count("similarity index 100%\n") == 1
    site.service.approve(proposal.id)
    assert site.contents() == {"a.txt": b"other\n" * 9, "b.txt": numbered(9).encode(), "d.txt": numbered(30).encode()}


@pytest.mark.parametrize("made", [("diff",), ("diff", "--no-prefix"), ("show",), ("plain",)], ids=" ".join)
def test_a_diff_that_quotes_the_other_form_is_a_diff(bench: Make, made: tuple[str, ...]) -> None:
    quoted = "*** Begin Patch\n*** Update File: a.txt\n@@\n-x\n+y\n*** End Patch\n"
    site = bench({"doc.md": f"one\n{quoted}two\n"})
    repository(site)
    site.put(**{"doc.md": f"1\n{quoted}2\n"})
    if made[0] in ("diff", "plain"):
        patch = git(site.root, "diff", *made[1:])
    else:
        git(site.root, "commit", "--quiet", "--all", "--message", f"Subject\n\n{quoted}")
        patch = git(site.root, *made)
        git(site.root, "reset", "--quiet", "--hard", "HEAD~1")
    if made == ("plain",):
        patch = patch[patch.index(b"--- ") :]
    git(site.root, "checkout", "--quiet", ".")
    assert b"\n *** Begin Patch\n" in patch
    proposal = site.service.stage_patch(patch.decode())
    assert not any(change.is_inexact for change in proposal.files)
    site.service.approve(proposal.id)
    ours = without_git(site.tree())
    git(site.root, "checkout", "--quiet", ".")
    git(site.root, "apply", *(["-p0"] if "--no-prefix" in made else []), given=patch)
    assert without_git(site.tree()) == ours


def taken_like_git(site: Bench, patch: bytes, *options: str) -> None:
    """Assert that an approval leaves what `git apply` does, and an undo what was there."""
    before = without_git(site.tree())
    proposal = site.service.stage_patch(patch.decode("utf-8", "surrogateescape"))
    site.service.approve(proposal.id)
    ours = without_git(site.tree())
    site.service.undo(proposal.id)
    assert without_git(site.tree()) == before
    git(site.root, "apply", *options, given=patch)
    assert ours == without_git(site.tree()) != before


@pytest.mark.parametrize("options", [(), ("--no-prefix",), ("--no-renames",)], ids=str)
def test_file_names_are_read_like_git_does(bench: Make, options: tuple[str, ...]) -> None:
    names = ("end ", " begin", "in side ", "folder/f ", 'q"uote ', "caf\u00e9 ")
    site = bench()
    for name in names:
        site.put(
            **{name: numbered(9), f"moved {name}": name + numbered(20), f"gone {name}": name, f"empty {name}": ""}
        )
    repository(site)
    for name in names:
        site.put(**{name: numbered(9, l3="three"), f"new {name}": "new\n", f"bare {name}": ""})
        for gone in (f"moved {name}", f"gone {name}", f"empty {name}"):
            (site.root / gone).unlink()
        site.put(**{f"elsewhere {name}": name + numbered(20, l9="nine")})
    git(site.root, "add", "--all")
    patch = git(site.root, "diff", "--cached", *options)
    git(site.root, "reset", "--quiet", "--hard")
    taken_like_git(site, patch, *(["-p0"] if "--no-prefix" in options else []))


@pytest.mark.parametrize("stamp", ["\t2024-01-01 00:00:00.000000000 +0000", "\t"])
def test_unquoted_file_names_are_read_like_git_does(bench: Make, stamp: str) -> None:
    site = bench({"a": numbered(9), "a ": numbered(9)})
    repository(site)
    patch = f"--- a/a {stamp}\n+++ b/a {stamp}\n@@ -2,3 +2,3 @@\n line 2\n-line 3\n+three\n line 4\n"
    taken_like_git(site, patch.encode())


def test_a_tab_in_a_name_without_quotes_is_part_of_it(bench: Make) -> None:
    site = bench({"a": numbered(9), "a\tb": numbered(9)})
    stamp = "\t2024-01-01 00:00:00.000000000 +0000"
    with pytest.raises(PatchRefused, match=r"'a\\tb' has control characters"):
        site.service.stage_patch(f"--- a\tb{stamp}\n+++ a\tb{stamp}\n@@ -3 +3 @@\n-line 3\n+three\n")


@pytest.mark.parametrize("renames", [True, False])
def test_a_file_that_makes_room_for_a_folder_is_moved_or_deleted_first(bench: Make, renames: bool) -> None:
    site = bench({"server": numbered(9), "lib/old/a": numbered(20), "lib/old/b": numbered(30)})
    repository(site)
    git(site.root, "mv", "server", "server_old")
    git(site.root, "mv", "lib/old/b", "b")
    git(site.root, "mv", "lib/old/a", "a")
    shutil.rmtree(site.root / "lib")
    site.put(**{"server/main.txt": "new\n", "lib": "now a file\n"})
    git(site.root, "add", "--all")
    patch = git(site.root, "diff", "--cached", "-M" if renames else "--no-renames")
    git(site.root, "reset", "--quiet", "--hard")
    taken_like_git(site, patch)
    operations = [file.op for file in site.service.stage_patch(patch.decode()).files]
    assert operations.count(FileOperation.RENAME) == 3


def test_a_deletion_without_lines_is_accepted_with_a_git_id(bench: Make) -> None:
    site = bench({"a.txt": numbered(9), "b.txt": "b\n"})
    repository(site)
    (site.root / "a.txt").unlink()
    site.put(**{"b.txt": "B\n"})
    patch = git(site.root, "diff", "-D").decode()
    git(site.root, "reset", "--quiet", "--hard")
    assert "-line" not in patch
    site.service.approve(site.service.stage_patch(patch).id)
    assert without_git(site.tree()).keys() == {"b.txt"}
    git(site.root, "reset", "--quiet", "--hard")
    site.put(**{"a.txt": numbered(8)})
    with pytest.raises(PatchRefused, match=r"deletes a\.txt without its lines"):
        site.service.stage_patch(patch)


def test_begin_patch_form(bench: Make) -> None:
    site = bench({"a.txt": numbered(9)})
    patch = (
        "*** Begin Patch\n*** Update File: a.txt\n@@\n line 2\n-line 3\n+three\n line 4\n"
        "*** Add File: b.txt\n+new\n*** End Patch\n"
    )
    proposal = site.service.stage_patch(patch)
    assert [(change.path, change.op) for change in proposal.files] == [
        ("a.txt", FileOperation.EDIT),
        ("b.txt", FileOperation.CREATE),
    ]
    site.service.approve(proposal.id)
    assert site.read("a.txt").decode() == numbered(9, l3="three")


def test_a_binary_part_without_data_is_left_out_and_named(bench: Make) -> None:
    site = bench({"a.txt": numbered(9), "logo.png": b"\0old"})
    repository(site)
    site.put(**{"a.txt": numbered(9, l2="two")})
    site.put(**{"logo.png": b"\0new"})
    patch = git(site.root, "diff").decode()
    git(site.root, "reset", "--quiet", "--hard")
    proposal = site.service.stage_patch(patch)
    assert [change.path for change in proposal.files] == ["a.txt"]
    assert proposal.summary == "Patch: a.txt, without logo.png (binary)"
    site.service.deny(proposal.id)
    draft = site.service.new_draft("session")
    read = draft.parse_patch(patch)
    assert read.paths == ["a.txt"]
    report = draft.apply_patch(read)
    assert "logo.png was left out: binary, and the patch does not contain its data" in report.text
    with pytest.raises(PatchRefused, match=r"nothing but logo\.png"):
        site.service.stage_patch(patch[patch.index("diff --git a/logo.png") :])


@pytest.mark.skipif(shutil.which("diff") is None, reason="needs diff")
def test_a_recursive_diff_of_two_folders_is_made_like_git_apply(bench: Make, tmp_path: Path) -> None:
    before = {"a b.txt": numbered(9), "gone.txt": "gone\n", "sub/same.txt": "same\n"}
    site = bench(before)
    after = {"a b.txt": numbered(9, l2="two"), "sub/new.txt": "new\n", "sub/same.txt": "same\n"}
    for folder, files in (("one-1.0", before), ("one-1.1", after)):
        for name, text in files.items():
            path = tmp_path / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    command = ["diff", "-ruN", "one-1.0", "one-1.1"]
    patch = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).stdout.decode()
    proposal = site.service.stage_patch(patch)
    site.service.approve(proposal.id)
    assert {name: what.decode() for name, (what, _) in site.tree().items()} == after
    site.service.undo(proposal.id)
    git(site.root, "apply", given=patch)
    assert {name: what.decode() for name, (what, _) in site.tree().items()} == after


def test_a_patch_that_does_not_fit_is_refused_in_one_line(bench: Make) -> None:
    site = bench({"a.txt": numbered(9)})
    before = site.tree()
    misses = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-no such line\n+x\n"
    for patch in (
        "",
        "hello\n" * 100_000,
        "--- a/../x\n+++ b/../x\n@@ -0,0 +1 @@\n+evil\n",
        "--- a/.git/config\n+++ b/.git/config\n@@ -0,0 +1 @@\n+evil\n",
        "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+/etc/passwd\n",
        misses,
        misses.replace("a.txt", "missing.txt"),
        misses.replace("a.txt", "../a.txt"),
    ):
        with pytest.raises(PatchRefused) as caught:
            site.service.stage_patch(patch)
        said = str(caught.value)
        assert said[0].isupper() and said[-1] in ".?" and "\n" not in said
    assert site.service.all() == []
    assert site.tree() == before


def test_a_commit_holds_just_the_files_of_the_proposal(bench: Make) -> None:
    site = bench({"a.txt": numbered(9), "b.txt": "b\n", "c[1].txt": "c\n", "gone.txt": "g\n"})
    repository(site)
    site.put(**{"b.txt": "staged by the user\n"})
    git(site.root, "add", "b.txt")
    draft = site.service.new_draft("session")
    draft.edit("a.txt", [TextReplacement("line 2", "two")])
    draft.edit("c[1].txt", [TextReplacement("c", "d")])
    draft.delete("gone.txt")
    draft.write("new.txt", "n\n")
    (site.root / ".git/info/exclude").write_text("*.o\n")
    draft.write("new.o", "o\n")
    draft.add_changes([PathChange("link", None, FileOrLink(b"nowhere", LINK_MODE))])
    proposal = site.service.stage(draft, "Count in words")
    with pytest.raises(GitCommitFailed, match="wrote no files"):
        commit_proposal(site.root, proposal)
    proposal = site.service.approve(proposal.id).proposal
    lines = ["Assisted-by: signoff", "Reviewed-in: signoff P1 (5/5 hunks)"]
    commit = commit_proposal(site.root, proposal, trailers=lines)
    shown = git(site.root, "show", "--name-status", "--format=%s|%(trailers:unfold)", commit).decode()
    assert shown.startswith("Count in words|" + "\n".join(lines))
    changed = [line.split("\t") for line in shown.splitlines() if "\t" in line]
    assert changed == [["M", "a.txt"], ["M", "c[1].txt"], ["D", "gone.txt"], ["A", "link"], ["A", "new.txt"]]
    assert git(site.root, "diff", "--cached", "--name-only").decode() == "b.txt\n"


def test_a_refused_commit_leaves_the_index_as_it_was(bench: Make) -> None:
    site = bench({"a.txt": "a\n"})
    repository(site)
    hook = site.root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho not today >&2; exit 1\n")
    hook.chmod(0o755)
    proposal = site.service.approve(site.write(**{"new.txt": "n\n"}).id).proposal
    with pytest.raises(GitCommitFailed, match="not today"):
        commit_proposal(site.root, proposal)
    assert git(site.root, "status", "--porcelain") == b"?? new.txt\n"


def test_a_long_summary_is_a_short_subject_and_the_body_of_the_commit(bench: Make) -> None:
    site = bench({"a.txt": numbered(9)})
    repository(site)
    summary = (
        "The lunar day has fifty minutes more than a day, so every table of tides is counted anew from its start"
    )
    draft = site.service.new_draft("session")
    draft.edit("a.txt", [TextReplacement("line 2", "two")])
    proposal = site.service.approve(site.service.stage(draft, summary).id).proposal
    commit = commit_proposal(site.root, proposal, trailers=["Assisted-by: signoff"])
    subject, body, trailer = (
        git(site.root, "show", "-s", "--format=%s%x00%b%x00%(trailers)", commit).decode().split("\0")
    )
    assert len(subject) <= 72 and subject.endswith("…")
    assert " ".join(body.split()).startswith(summary)
    assert trailer.strip() == "Assisted-by: signoff"


def test_a_commit_that_git_refuses_is_one_line(bench: Make) -> None:
    site = bench({"a.txt": numbered(9)})
    proposal = site.edit("a.txt", ("line 2", "two"))
    site.service.approve(proposal.id)
    with pytest.raises(ProposalError, match="Git did not commit") as caught:
        commit_proposal(site.root, site.service.get(proposal.id))
    assert "\n" not in str(caught.value)
    done = site.service.get(proposal.id)
    repository(site)
    git(site.root, "sparse-checkout", "set", "sub")
    outside = site.service.approve(site.write(**{"other/z": "z\n"}).id).proposal
    # Git's sentence begins on an earlier line.
    with pytest.raises(GitCommitFailed, match="outside of your sparse-checkout definition"):
        commit_proposal(site.root, outside)
    (site.root / ".git/index.lock").touch()
    with pytest.raises(GitCommitFailed, match=r"\.lock': File exists\.\); the files are written"):
        commit_proposal(site.root, done)
    many = tuple(done.files[0].model_copy(update={"path": "x" * 100_000 + str(n)}) for n in range(40))
    with pytest.raises(GitCommitFailed, match=r"can't be run \(Argument list too long\)"):
        commit_proposal(site.root, done.model_copy(update={"files": many}))


def test_a_patch_of_the_whole_repository_fits_a_workspace_inside_it(tmp_path: Path) -> None:
    site = Bench(tmp_path, {"a.txt": numbered(9), "old.txt": "same\n"})
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "workspace")
    git(tmp_path, "commit", "--quiet", "--message", "start")
    site.put(**{"a.txt": numbered(9, l2="two"), "sub/new.txt": "new\n"})
    (site.root / "old.txt").rename(site.root / "moved.txt")
    wanted = site.tree()
    git(tmp_path, "add", "workspace")
    patch = git(tmp_path, "diff", "--cached", "-M").decode()
    git(tmp_path, "reset", "--quiet", "--hard")
    proposal = site.service.stage_patch(patch)
    assert {change.path for change in proposal.files} == {"a.txt", "moved.txt", "sub/new.txt"}
    site.service.approve(proposal.id)
    assert site.tree() == wanted
    with pytest.raises(PatchRefused, match="another folder"):
        site.service.stage_patch(patch.replace("workspace/a.txt", "elsewhere/a.txt"))


def test_a_doubt_about_a_deletion_is_shown(bench: Make) -> None:
    site = bench({"a.txt": "one\n"})
    (change,) = site.service.stage_patch("--- a/a.txt\n+++ /dev/null\n-one\n").files
    assert [match.note for match in change.matches] == ["no `@@` line stands above it"]
