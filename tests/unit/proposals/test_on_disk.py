"""What is on disk already, proposed in reverse: keeping leaves it alone, denying reverts it."""

import os
import stat
import tempfile
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.proposals.decide.conflicts import UnsavedEdit
from app.proposals.files.filesystem import OPEN_FOLDERS, PosixFilesystem
from app.proposals.stack.hunk_splitting import SelectedLines
from app.proposals.text.hunks import apply_hunks_to_lines, compare_contents, split_document_lines
from app.proposals.values.models import FileOperation, HunkState, Proposal, ProposalState
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.proposals.values.proposal_errors import (
    ApplyFailed,
    ChangedSinceShown,
    InvalidUserEdit,
    NothingToStage,
    NothingToUndo,
    RecoveryNeeded,
)
from app.sandbox.captured_changes import LINK_MODE, FileOrLink, PathChange
from tests.unit.proposals.bench import Bench, numbered
from tests.unit.proposals.faults import Steps, Watched, broken
from tests.unit.proposals.memory_store import MemoryStore

Make = Callable[..., Bench]
Leaves = dict[str, FileOrLink]

DISK = ProposalOrigin(kind=OriginKind.DISK, ref="the index")


def put(root: Path, leaves: Mapping[str, FileOrLink]) -> None:
    for path, leaf in leaves.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if leaf.is_link:
            place.symlink_to(os.fsdecode(leaf.data))
        else:
            place.write_bytes(leaf.data)
            place.chmod(leaf.mode)


def found(root: Path) -> Leaves:
    """Every file and link below a folder."""
    leaves: Leaves = {}
    for place in sorted(root.rglob("*")):
        facts = place.lstat()
        if stat.S_ISLNK(facts.st_mode):
            leaves[place.relative_to(root).as_posix()] = FileOrLink(os.fsencode(place.readlink()), LINK_MODE)
        elif stat.S_ISREG(facts.st_mode):
            leaves[place.relative_to(root).as_posix()] = FileOrLink(place.read_bytes(), facts.st_mode & 0o7777)
    return leaves


def changes(before: Leaves, after: Leaves) -> list[PathChange]:
    return [
        PathChange(path, before.get(path), after.get(path))
        for path in sorted(before.keys() | after.keys())
        if before.get(path) != after.get(path)
    ]


def stage(site: Bench, before: Leaves) -> Proposal:
    """What is on disk, against what was there before."""
    return site.service.stage_changes(changes(before, found(site.root)), DISK, "", on_disk=True)


def text(content: str, mode: int = 0o644) -> FileOrLink:
    return FileOrLink(content.encode(), mode)


BEFORE = {
    "a.txt": text(numbered(30)),
    "gone.txt": text("g\n"),
    "run.sh": text("r\n"),
    "bin": FileOrLink(b"\0\1", 0o644),
}
AFTER = {
    "a.txt": text(numbered(30, l3="three", l15="fifteen", l28="end")),
    "new/x.txt": text("new\n"),
    "run.sh": text("r\n", 0o755),
    "bin": FileOrLink(b"\0\2", 0o644),
}


@pytest.fixture
def site(bench: Make) -> Bench:
    site = bench({})
    put(site.root, AFTER)
    return site


def test_changes_on_disk_are_kept_by_approval_and_reverted_by_denial(site: Bench) -> None:
    proposal = stage(site, BEFORE)
    assert proposal.on_disk
    assert {change.path: change.op for change in proposal.files} == {
        "a.txt": FileOperation.EDIT,
        "bin": FileOperation.EDIT,
        "gone.txt": FileOperation.DELETE,
        "new/x.txt": FileOperation.CREATE,
        "run.sh": FileOperation.MODE,
    }
    assert found(site.root) == AFTER
    kept = site.service.approve(proposal.id, ["1", "new/x.txt"])
    assert kept.proposal.state is ProposalState.PARTLY_APPROVED
    assert found(site.root) == AFTER
    back = site.service.deny(proposal.id, ["2", "gone.txt", "bin"])
    assert [file.path for file in back.files] == ["a.txt", "bin", "gone.txt"]
    assert found(site.root) == {
        **AFTER,
        "a.txt": text(numbered(30, l3="three", l28="end")),
        "bin": BEFORE["bin"],
        "gone.txt": BEFORE["gone.txt"],
    }
    done = site.service.deny(proposal.id)
    assert done.proposal.state is ProposalState.APPLIED
    (kept_in_part,) = [change for change in done.proposal.files if change.path == "a.txt"]
    assert (kept_in_part.state, kept_in_part.added, kept_in_part.removed) == (HunkState.APPLIED, 1, 1)
    assert found(site.root) == {**BEFORE, "a.txt": text(numbered(30, l3="three")), "new/x.txt": AFTER["new/x.txt"]}


def test_a_deleted_file_goes_back_beside_one_whose_name_differs_by_case(bench: Make) -> None:
    site = bench({"README": "R\n"})
    before = {"README": text("R\n"), "readme": text("r\n")}
    site.service.deny(stage(site, before).id)
    assert found(site.root) == before


def test_each_decision_is_undone_by_itself_the_last_one_first_and_a_denial_redone(site: Bench) -> None:
    name = stage(site, BEFORE).id
    site.service.deny(name, ["2"])
    site.service.approve(name, ["1"])
    site.service.deny(name)
    for _ in range(2):
        site.service.undo(name)
        assert found(site.root) == {**AFTER, "a.txt": text(numbered(30, l3="three", l28="end"))}
    again = site.service.undo(name).proposal
    assert found(site.root) == AFTER
    assert again.state is ProposalState.PENDING
    assert {hunk.state for hunk in again.hunks} == {HunkState.PENDING}
    with pytest.raises(NothingToUndo):
        site.service.undo(name)
    site.service.deny(name)
    assert found(site.root) == BEFORE
    assert not (site.root / "new").exists()
    site.service.undo(name)
    assert found(site.root) == AFTER
    assert site.service.redo(name).denial
    assert found(site.root) == BEFORE


def test_a_later_change_elsewhere_in_the_file_is_not_reverted(site: Bench) -> None:
    name = stage(site, BEFORE).id
    more = numbered(30, l3="three", l15="fifteen", l22="mine", l28="end")
    site.put(**{"a.txt": more})
    with pytest.raises(ChangedSinceShown):
        site.service.deny(name, ["2"], revision=1)
    assert site.read("a.txt") == more.encode()
    proposal = site.service.get(name)
    assert len(proposal.hunks) == 5
    site.service.deny(name, ["1", "2", "3"], revision=proposal.revision)
    assert site.read("a.txt") == numbered(30, l22="mine").encode()
    site.service.undo(name)
    assert site.read("a.txt") == more.encode()


def test_later_change_of_the_same_lines_or_a_binary_file_becomes_part_of_the_proposal(site: Bench) -> None:
    name = stage(site, BEFORE).id
    site.put(**{"a.txt": numbered(30, l3="three", l15="FIFTEEN", l28="end").encode(), "bin": b"\0\3"})
    (moved,) = site.service.rebase_pending()
    assert moved.revision > 1 and moved.state is ProposalState.PENDING
    (change,) = [each for each in moved.files if each.path == "a.txt"]
    assert change.rebased
    site.service.approve(name, ["1", "3"])
    site.service.deny(name, ["a.txt", "bin"])
    assert site.read("a.txt") == numbered(30, l3="three", l28="end").encode()
    assert site.read("bin") == BEFORE["bin"].data


def test_lines_already_reverted_by_another_process_are_kept(site: Bench) -> None:
    name = stage(site, BEFORE).id
    site.put(**{"a.txt": numbered(30)})
    (moved,) = site.service.rebase_pending()
    assert [change.path for change in moved.files if change.already_applied] == ["a.txt"]
    site.service.deny(name)
    assert found(site.root) == BEFORE


def test_other_proposals_are_rebased_when_changes_on_disk_are_reverted(site: Bench) -> None:
    name = stage(site, BEFORE).id
    near = site.edit("a.txt", ("fifteen", "15!"))
    far = site.edit("a.txt", ("line 9", "nine"))
    assert not near.files[0].stacked_on and far.files[0].stacked_on == (near.id,)
    changed = site.service.deny(name, ["2"]).changed
    assert {each.id: each.state for each in changed} == {near.id: ProposalState.STALE, far.id: ProposalState.PENDING}
    site.service.approve(far.id)
    assert site.read("a.txt") == numbered(30, l3="three", l9="nine", l28="end").encode()
    assert [hunk.number for hunk in site.service.get(name).hunks if hunk.state is HunkState.PENDING] == [1, 3, 4, 5]
    site.service.deny(name, ["a.txt"])
    assert site.read("a.txt") == numbered(30, l9="nine").encode()


def test_a_renamed_file_goes_back_to_its_name(bench: Make) -> None:
    site = bench({"d/b.txt": numbered(20, l4="four")})
    name = stage(site, {"a.txt": text(numbered(20))}).id
    (change,) = site.service.get(name).files
    assert (change.op, change.old_path, change.path) == (FileOperation.RENAME, "a.txt", "d/b.txt")
    site.service.deny(name)
    assert found(site.root) == {"a.txt": text(numbered(20))}
    site.service.undo(name)
    assert found(site.root) == {"d/b.txt": text(numbered(20, l4="four"))}
    site.service.approve(name)
    assert found(site.root) == {"d/b.txt": text(numbered(20, l4="four"))}


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda root: (root / "d/b.txt").rename(root / "c.txt"), "d/b.txt or a.txt was moved since"),
        (lambda root: (root / "a.txt").write_text("another\n"), "d/b.txt or a.txt was moved since"),
        (lambda root: as_pipe(root / "d/b.txt"), "d/b.txt can't be read: not a regular file"),
    ],
)
def test_a_renamed_file_that_went_on_is_stale(bench: Make, spoil: Callable[[Path], object], reason: str) -> None:
    site = bench({"d/b.txt": numbered(20, l4="four")})
    name = stage(site, {"a.txt": text(numbered(20))}).id
    spoil(site.root)
    (stale,) = site.service.rebase_pending()
    assert (stale.id, stale.state) == (name, ProposalState.STALE)
    assert stale.reason.startswith(reason), stale.reason


def test_change_between_two_decisions_belongs_to_neither(site: Bench) -> None:
    before = {"a.txt": BEFORE["a.txt"], **{name: AFTER[name] for name in ("new/x.txt", "run.sh", "bin")}}
    name = stage(site, before).id
    site.service.approve(name, ["1"])
    site.put(**{"a.txt": numbered(30, l3="three", l15="fifteen", l22="mine", l28="end")})
    site.service.rebase_pending()
    (change,) = site.service.approve(name).proposal.files
    assert (change.added, change.removed) == (2, 2)
    (again,) = stage(site, before).files
    assert [hunk.old_start + 1 for hunk in again.hunks] == [22]


def test_failed_revert_is_not_credited_to_a_later_decision(bench: Make) -> None:
    store = MemoryStore()
    site = bench({"a.txt": "two\n"}, store=store)
    name = stage(site, {"a.txt": text("one\n")}).id

    def fail(operation: str) -> None:
        if operation == "close_journal_record":
            store.before_write = lambda name: None
            raise RuntimeError("the database is locked")

    store.before_write = fail
    with pytest.raises(ApplyFailed, match="The denial of P1 failed, every file is as it was"):
        site.service.deny(name)
    site.service.approve(name)
    again = site.service.undo(name).proposal
    assert (again.state, again.reopened) == (ProposalState.PENDING, False)
    assert site.read("a.txt") == b"two\n"


def test_single_lines_of_a_new_and_of_a_deleted_file_are_taken_back(bench: Make) -> None:
    site = bench({"new.txt": "1\n2\n3\n"})
    name = stage(site, {"gone.txt": text("a\nb\nc\n")}).id
    site.service.split_hunks(name, SelectedLines("new.txt", new=frozenset({1})), 1)
    parts = site.service.split_hunks(
        name, SelectedLines("gone.txt", old=frozenset({0})), site.service.get(name).revision
    )
    second = next(hunk.id for hunk in site.service.get(name).files[1].hunks if hunk.new_start == 1)
    site.service.deny(name, [second, next(part.hunk.id for part in parts if part.picked)])
    assert found(site.root) == {"new.txt": text("1\n3\n"), "gone.txt": text("a\n")}
    site.service.undo(name)
    assert found(site.root) == {"new.txt": text("1\n2\n3\n")}


def test_proposal_on_disk_is_compared_with_the_earlier_content_and_edited_on_disk_alone(site: Bench) -> None:
    name = stage(site, BEFORE).id
    trees = site.service.versions_to_check(name)
    assert (trees.after, trees.before) == ({}, {**BEFORE, "new/x.txt": None})
    with pytest.raises(InvalidUserEdit, match="edit the file itself"):
        site.service.replace_proposed_text(name, "a.txt", "x\n")
    with pytest.raises(InvalidUserEdit, match="edit the file itself"):
        site.service.load_file_conflict(name, "a.txt", UnsavedEdit("mine\n", "new\n"))


def test_staging_again_shows_only_new_changes(site: Bench) -> None:
    first = stage(site, BEFORE)
    with pytest.raises(NothingToStage, match=f"{first.id} is already pending"):
        stage(site, BEFORE)
    site.service.approve(first.id, ["1", "bin"])
    site.put(**{"a.txt": numbered(30, l3="three", l15="fifteen", l20="twenty", l28="end")})
    second = stage(site, BEFORE)
    assert site.service.get(first.id).superseded_by == second.id
    assert [change.path for change in second.files] == ["a.txt", "gone.txt", "new/x.txt", "run.sh"]
    assert len(second.files[0].hunks) == 3
    with pytest.raises(NothingToUndo, match=f"{second.id} replaces"):
        site.service.undo(first.id)
    site.service.approve(second.id)
    with pytest.raises(
        NothingToStage, match=f"all 8 hunks were signed in {first.id}, {second.id}; --all stages them"
    ):
        stage(site, BEFORE)
    site.service.undo(second.id)
    site.service.deny(second.id)
    assert found(site.root) == {**BEFORE, "a.txt": text(numbered(30, l3="three")), "bin": AFTER["bin"]}


def test_a_denial_that_fails_at_any_step_is_complete_or_not_made(tmp_path: Path) -> None:
    """Every step of a denial; `tests/crashes` kills the process there."""
    done = False
    step = 0
    while not done:
        step += 1
        folder = tmp_path / str(step)
        folder.mkdir()
        steps = Steps(broken, step.__eq__)
        workspace = folder / "workspace"
        workspace.mkdir()
        disk = PosixFilesystem(workspace, 1 << 20, OPEN_FOLDERS)
        site = Bench(folder, {}, filesystem=cast("PosixFilesystem", Watched(disk, steps)))
        put(site.root, AFTER)
        name = stage(site, BEFORE).id
        try:
            site.service.deny(name)
        except (ApplyFailed, RecoveryNeeded):
            pass
        else:
            done = steps.number < step
        site.reopened().recover()
        denied = site.service.get(name).state is ProposalState.DENIED
        assert denied or not done
        assert found(site.root) == (BEFORE if denied else AFTER)


WORDS = ["a", "b", "c", "", "  d", "e\r", "é", "x" * 50]
PATHS = ["a", "b", "d/c", "d/e/f", "g.sh"]


@st.composite
def files(draw: st.DrawFn) -> FileOrLink:
    match draw(st.sampled_from(["text", "text", "text", "binary", "link"])):
        case "binary":
            return FileOrLink(b"\0" + draw(st.binary(max_size=4)), draw(st.sampled_from([0o644, 0o755])))
        case "link":
            return FileOrLink(draw(st.sampled_from([b"a", b"nowhere", b"d/c"])), LINK_MODE)
        case _:
            # Each once and in one order: else what is left of a difference may be told in other hunks than before.
            lines = sorted(draw(st.sets(st.sampled_from(WORDS))))
            end = "\n" if draw(st.booleans()) else ""
            return FileOrLink("\n".join(lines).encode() + end.encode(), draw(st.sampled_from([0o644, 0o755])))


trees = st.dictionaries(st.sampled_from(PATHS), files(), max_size=len(PATHS))
plans = st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 12), max_size=6)), max_size=5)


def expected(proposal: Proposal, before: Leaves, after: Leaves, denied: Collection[str]) -> Leaves:
    """The tree that was there before with exactly what was not denied, put together from both trees."""
    tree = dict(after)
    for change in proposal.files:
        old, new = before.get(change.old_path or change.path), after.get(change.path)
        hunks = [] if change.binary or change.involves_link else _hunks(change.path, old, new)
        if {change.path, *hunks} & set(denied) and {*hunks, *([] if hunks else [change.path])} <= set(denied):
            tree.pop(change.path, None)
            if old is not None:
                tree[change.old_path or change.path] = old
        elif set(hunks) & set(denied):
            base, result = (leaf.data if leaf else b"" for leaf in (old, new))
            found_hunks = compare_contents(change.path, base, result).hunks
            data = b"".join(
                apply_hunks_to_lines(
                    split_document_lines(base), split_document_lines(result), found_hunks, set(hunks) - set(denied)
                )
            )
            mode = (new or old or FileOrLink(b"", 0)).mode
            tree[change.path] = FileOrLink(data, mode)
    return tree


def _hunks(path: str, old: FileOrLink | None, new: FileOrLink | None) -> Iterable[str]:
    return [hunk.id for hunk in compare_contents(path, old.data if old else b"", new.data if new else b"").hunks]


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(before=trees, after=trees, plan=plans)
def test_decisions_leave_exactly_the_kept(before: Leaves, after: Leaves, plan: list[tuple[bool, set[int]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        site = Bench(Path(folder), {})
        put(site.root, after)
        try:
            first = stage(site, before)
        except NothingToStage:
            assert before == after
            return
        denied: set[str] = set()
        stages = [(found(site.root), site.service.get(first.id).state)]
        for keeps, numbers in plan:
            now = site.service.get(first.id)
            waiting = [hunk.id for hunk in now.hunks if hunk.state is HunkState.PENDING]
            waiting += [each.path for each in now.files if not each.hunks and each.state is HunkState.PENDING]
            chosen = [name for at, name in enumerate(waiting) if at in numbers]
            if not chosen:
                continue
            if keeps:
                site.service.approve(first.id, chosen)
            else:
                site.service.deny(first.id, chosen)
                denied |= set(chosen)
            assert found(site.root) == expected(first, before, after, denied)
            stages.append((found(site.root), site.service.get(first.id).state))
        for tree, state in reversed(stages[:-1]):
            site.service.undo(first.id)
            assert found(site.root) == tree
            assert site.service.get(first.id).state is state
        assert [hunk.model_copy(update={"number": 0}) for hunk in site.service.get(first.id).hunks] == [
            hunk.model_copy(update={"number": 0}) for hunk in first.hunks
        ]
