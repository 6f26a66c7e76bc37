"""Undo and redo: byte for byte, after a restart, out of order, or not at all."""

import stat
from collections.abc import Callable
from typing import Any

import pytest

from app.proposals.files.filesystem import PosixFilesystem
from app.proposals.locate.matching import TextReplacement
from app.proposals.values.models import ProposalState
from app.proposals.values.proposal_errors import ApplyFailed, NothingToUndo, UndoConflict
from app.sandbox.captured_changes import FileOrLink, PathChange
from tests.unit.proposals.bench import Bench, numbered
from tests.unit.proposals.faults import Steps, Watched, broken

Make = Callable[..., Bench]


def test_every_kind_of_change_is_undone_byte_for_byte_after_a_restart(bench: Make) -> None:
    site = bench(
        {
            "crlf.txt": b"one\r\ntwo\r\n",
            "mixed.txt": b"one\r\ntwo\nthree",
            "bom.txt": b"\xef\xbb\xbfone\ntwo\n",
            "wide.txt": "\ufeffone\ntwo\n".encode("utf-16-le"),
            "latin.txt": b"caf\xe9\ntwo\n",
            "run.sh": "#!/bin/sh\necho two\n",
            "locked.txt": "two\n",
            "move.txt": "two\n",
            "gone.bin": b"\0\1two",
            "empty.txt": "",
        }
    )
    (site.root / "run.sh").chmod(0o755)
    (site.root / "locked.txt").chmod(0o400)
    before = site.tree()
    draft = site.service.new_draft("session")
    for name in before.keys() - {"gone.bin", "empty.txt"}:
        draft.edit(name, [TextReplacement("two", "2\n3")])
    draft.rename("move.txt", "deep/er/moved.txt")
    draft.delete("gone.bin")
    draft.write("empty.txt", "full\n")
    draft.write("made/here.txt", "new\n")
    proposal = site.service.stage(draft, "All kinds")
    site.service.approve(proposal.id)
    after = site.tree()
    assert after["crlf.txt"][0] == b"one\r\n2\r\n3\r\n"
    assert after["mixed.txt"][0] == b"one\r\n2\n3\nthree"
    assert after["bom.txt"][0] == b"\xef\xbb\xbfone\n2\n3\n"
    assert after["wide.txt"][0] == "\ufeffone\n2\n3\n".encode("utf-16-le")
    assert after["latin.txt"][0] == b"caf\xe9\n2\n3\n"
    assert {name: after[name][1] for name in ("run.sh", "locked.txt")} == {"run.sh": 0o755, "locked.txt": 0o400}
    for _ in range(2):
        assert site.reopened().undo(proposal.id).proposal.state is ProposalState.UNDONE
        assert site.tree() == before
        assert sorted(path.name for path in site.root.iterdir() if path.is_dir()) == []
        assert site.reopened().redo(proposal.id).proposal.state is ProposalState.APPLIED
        assert site.tree() == after


def test_undo_and_redo_work_out_of_order_without_conflicts_and_rebase_what_waits(bench: Make) -> None:
    site = bench({"a.txt": numbered(30)})
    first = site.edit("a.txt", ("line 2\n", "two\n"))
    site.service.approve(first.id)
    second = site.edit("a.txt", ("line 20\n", "twenty\nmore\n"))
    site.service.approve(second.id)
    waits = site.edit("a.txt", ("line 28\n", "last but two\n"))
    for undone, left in ((first, {"l20": "twenty\nmore"}), (second, {})):
        [changed] = site.service.undo(undone.id).changed
        assert (changed.id, changed.files[0].rebased) == (waits.id, True)
        assert site.read("a.txt").decode() == numbered(30, **left)
    site.service.redo(first.id)
    site.service.redo(second.id)
    site.service.approve(waits.id)
    assert site.read("a.txt").decode() == numbered(30, l2="two", l20="twenty\nmore", l28="last but two")


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda root: (root / "a.txt").write_text("mine\n"),
            r"P1 can't be undone: a\.txt was changed since at",
        ),
        (lambda root: (root / "made.txt").write_text("more"), "made.txt was changed since, and would be deleted"),
        (lambda root: (root / "gone.txt").write_text("again"), "there is another gone.txt now"),
        (lambda root: (root / "old.txt").write_text("again"), "there is another old.txt now"),
        (lambda root: (root / "new.txt").unlink(), "new.txt is gone"),
    ],
)
def test_file_in_the_way_refuses_the_undo(bench: Make, spoil: Callable[..., object], message: str) -> None:
    site = bench({"a.txt": "a\n", "gone.txt": "g\n", "old.txt": "o\n"})
    draft = site.service.new_draft("session")
    draft.write("a.txt", "A\n")
    draft.write("made.txt", "m\n")
    draft.delete("gone.txt")
    draft.rename("old.txt", "new.txt")
    proposal = site.service.stage(draft, "Mixed")
    site.service.approve(proposal.id)
    spoil(site.root)
    before = site.tree()
    with pytest.raises(UndoConflict, match=message):
        site.service.undo(proposal.id)
    assert site.tree() == before
    assert site.service.get(proposal.id).state is ProposalState.APPLIED


def test_undoing_a_rename_keeps_the_users_later_edits(bench: Make) -> None:
    site = bench({"a.txt": numbered(30)})
    proposal = site.rename("a.txt", "b.txt", ("line 2\n", "two\n"))
    site.service.approve(proposal.id)
    site.put(**{"b.txt": numbered(30, l2="two", l20="mine")})
    site.service.undo(proposal.id)
    assert site.contents() == {"a.txt": numbered(30, l20="mine").encode()}
    site.service.redo(proposal.id)
    assert site.contents() == {"b.txt": numbered(30, l2="two", l20="mine").encode()}


def test_an_undone_part_is_pending_again(bench: Make) -> None:
    site = bench({"a.txt": numbered(30), "b.txt": numbered(30)})
    proposal = site.write(**{"a.txt": numbered(30, l2="two", l20="twenty"), "b.txt": numbered(30, l2="two")})
    site.service.approve(proposal.id, ["1", "3"])
    site.put(**{"a.txt": numbered(30, l2="two", l10="mine"), "b.txt": numbered(30, l2="two", l20="mine")})
    result = site.service.undo(proposal.id)
    assert result.proposal.state is ProposalState.PENDING
    assert [(hunk.number, hunk.state.value) for hunk in result.proposal.hunks] == [(n, "pending") for n in (1, 2, 3)]
    assert site.read("a.txt").decode() == numbered(30, l10="mine")
    assert site.read("b.txt").decode() == numbered(30, l20="mine")
    site.service.approve(proposal.id)
    assert site.read("a.txt").decode() == numbered(30, l2="two", l10="mine", l20="twenty")
    assert site.read("b.txt").decode() == numbered(30, l2="two", l20="mine")
    site.service.undo(proposal.id)
    assert site.read("a.txt").decode() == numbered(30, l10="mine")


def test_folders_that_existed_before_are_kept_or_made_again(bench: Make) -> None:
    site = bench({"a/b/c.txt": "c\n", "a/d.txt": "d\n"})
    (site.root / "kept").mkdir()
    proposal = site.write(**{"a/b/c.txt": None, "kept/made/a.txt": "a\n", "new/b.txt": "b\n"})
    site.service.approve(proposal.id)
    assert set(folders(site)) == {"a", "kept", "kept/made", "new"}
    (site.root / "a").chmod(0o700)
    (site.root / "new").chmod(0o711)
    site.put(**{"new/mine.txt": "m\n"})
    site.service.undo(proposal.id)
    found = folders(site)
    assert set(found) == {"a", "a/b", "kept", "new"} and (found["a"], found["new"]) == (0o700, 0o711)
    assert site.contents() == {"a/b/c.txt": b"c\n", "a/d.txt": b"d\n", "new/mine.txt": b"m\n"}


def test_a_restored_folder_has_its_former_permissions(bench: Make) -> None:
    site = bench({"a/b/c.txt": "c\n", "other.txt": "o\n"})
    (site.root / "a").chmod(0o2711)
    (site.root / "a/b").chmod(0o700)
    proposal = site.write(**{"a/b/c.txt": None, "new/d.txt": "d\n"})
    site.service.approve(proposal.id)
    (site.root / "new").chmod(0o777)
    for mode in (0o700, 0o750):
        site.reopened().undo(proposal.id)
        assert folders(site) == {"a": 0o2711, "a/b": 0o700}
        (site.root / "a/b").chmod(mode)
        site.reopened().redo(proposal.id)
        assert folders(site) == {"new": 0o777}
    site.reopened().undo(proposal.id)
    assert folders(site) == {"a": 0o2711, "a/b": 0o750}


def test_a_folder_restored_from_a_file_has_its_permissions(bench: Make) -> None:
    site = bench({"stuff/a": "a\n"})
    (site.root / "stuff").chmod(0o700)
    draft = site.service.new_draft("session")
    draft.delete("stuff/a")
    draft.write("stuff", "s\n")
    proposal = site.service.stage(draft, "Turn over")
    steps = Steps(
        broken, lambda number: steps.names[-1:] == ["move_to_path"] and steps.names.count("move_to_path") == 1
    )
    disk: Any = Watched(PosixFilesystem(site.root, 1 << 20), steps)
    with pytest.raises(ApplyFailed, match="every file is as it was"):
        site.reopened(disk).approve(proposal.id)
    assert "make_folder" in steps.names and folders(site) == {"stuff": 0o700}
    assert site.read("stuff/a") == b"a\n"


def folders(site: Bench) -> dict[str, int]:
    """Every folder on disk, with its permission bits."""
    return {
        path.relative_to(site.root).as_posix(): stat.S_IMODE(path.stat().st_mode)
        for path in sorted(site.root.rglob("*"))
        if path.is_dir()
    }


def test_twice_is_too_often_but_not_after_an_undo_by_hand(bench: Make) -> None:
    site = bench({"a.txt": numbered(5)})
    proposal = site.edit("a.txt", ("line 2\n", "two\n"))
    site.service.approve(proposal.id)
    site.put(**{"a.txt": numbered(5)})
    site.service.undo(proposal.id)
    with pytest.raises(NothingToUndo, match="P1 is undone"):
        site.service.undo(proposal.id)
    site.service.redo(proposal.id)
    assert site.read("a.txt").decode() == numbered(5, l2="two")
    with pytest.raises(NothingToUndo, match="P1 is applied"):
        site.service.redo(proposal.id)


def test_a_rename_has_the_same_counts_when_undone_and_redone(bench: Make) -> None:
    site = bench({"old.py": numbered(200), "other.py": "one\n"})
    draft = site.service.new_draft("session")
    draft.rename("old.py", "new.py")
    draft.edit("new.py", [TextReplacement("line 7\n", "seven\nand more\n")])
    draft.edit("other.py", [TextReplacement("one", "two")])
    approved = site.service.approve(site.service.stage(draft, "Move").id).files
    assert {(file.path, file.op, file.added, file.removed) for file in approved} == {
        ("new.py", "rename", 2, 1),
        ("other.py", "edit", 1, 1),
    }
    undone = site.service.undo("P1").files
    assert {(file.path, file.added, file.removed) for file in undone} == {("new.py", 1, 2), ("other.py", 1, 1)}
    redone = site.service.redo("P1").files
    assert {(file.path, file.added, file.removed) for file in redone} == {("new.py", 2, 1), ("other.py", 1, 1)}


def test_a_part_that_no_longer_applies_is_denied_before_the_undo(bench: Make) -> None:
    site = bench({"a.txt": numbered(40)})
    proposal = site.edit("a.txt", ("line 3\n", "three\n"), ("line 30\n", "thirty\n"))
    site.service.approve(proposal.id, ["1"])
    site.put(**{"a.txt": numbered(40, l3="three", l30="theirs")})
    site.service.rebase_pending()
    assert site.service.get(proposal.id).state is ProposalState.STALE
    with pytest.raises(NothingToUndo, match="deny that first"):
        site.service.undo(proposal.id)
    site.service.deny(proposal.id)
    site.service.undo(proposal.id)
    assert site.read("a.txt").decode() == numbered(40, l30="theirs")


def test_binary_file_is_not_merged_on_undo(bench: Make) -> None:
    site = bench({"a.bin": b"\0head\n" + numbered(20).encode()})
    proposal = site.write(**{"a.bin": "head\n" + numbered(20)})
    site.service.approve(proposal.id)
    changed = "head\n" + numbered(20, l20="theirs")
    site.put(**{"a.bin": changed})
    with pytest.raises(UndoConflict, match="is binary and was changed since"):
        site.service.undo(proposal.id)
    assert site.read("a.bin").decode() == changed


@pytest.mark.parametrize(
    ("inside", "message"), [((), "a.txt is a folder; remove"), (("x",), r"a.txt is a folder with other files in it")]
)
def test_a_file_is_not_restored_over_a_folder(bench: Make, inside: tuple[str, ...], message: str) -> None:
    site = bench({"a.txt": "a\n"})
    proposal = site.write(**{"a.txt": None})
    site.service.approve(proposal.id)
    (site.root / "a.txt").mkdir()
    for name in inside:
        (site.root / "a.txt" / name).write_text("mine\n")
    with pytest.raises(ApplyFailed, match=message):
        site.service.undo(proposal.id)
    assert [path.name for path in site.root.rglob("*")] == ["a.txt", *inside]


def test_permissions_are_not_taken_back_off_a_link(bench: Make) -> None:
    site = bench({"a.sh": "a\n", "b.sh": "b\n"})
    draft = site.service.new_draft("session")
    draft.add_changes([PathChange("a.sh", FileOrLink(b"a\n", 0o644), FileOrLink(b"a\n", 0o755))])
    proposal = site.service.stage(draft, "Executable")
    site.service.approve(proposal.id)
    (site.root / "a.sh").unlink()
    (site.root / "a.sh").symlink_to("b.sh")
    with pytest.raises(UndoConflict, match="another link than it was"):
        site.service.undo(proposal.id)
    assert (site.root / "a.sh").readlink().name == "b.sh"
