"""Proposals on top of each other, and the disk moving under them."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from app.proposals.locate.matching import TextReplacement
from app.proposals.stack.stacking import related_pending_proposals
from app.proposals.values.models import ProposalState
from app.proposals.values.proposal_errors import ChangedSinceShown, DependsOnPendingProposal, StaleProposal
from app.sandbox.captured_changes import LINK_MODE, FileOrLink, PathChange
from app.storage.database import MIGRATIONS, Database
from app.storage.process_coordination import DatabaseChangeSignal
from app.storage.sqlite_proposal_store import SqliteProposalStore
from tests.unit.proposals.bench import Bench, numbered
from tests.unit.proposals.memory_store import MemoryStore

Make = Callable[..., Bench]


def test_a_draft_reads_pending_content_and_says_so(bench: Make) -> None:
    site = bench({"a.txt": numbered(9), "b.txt": "b\n", "c.txt": "c\n"})
    draft = site.service.new_draft("session")
    draft.edit("a.txt", [TextReplacement("line 2\n", "two\n")])
    draft.rename("b.txt", "d/b.txt")
    draft.delete("c.txt")
    first = site.service.stage(draft, "First")
    draft = site.service.new_draft("session")
    seen = draft.read("a.txt")
    assert seen.content == numbered(9, l2="two").encode()
    assert seen.pending == (first.id,)
    assert draft.read("b.txt").content is None
    assert draft.read("d/b.txt").content == b"b\n"
    assert draft.added_and_removed_paths() == ({"d/b.txt"}, {"b.txt", "c.txt"})
    draft.write("c.txt", "back\n")
    assert draft.added_and_removed_paths() == ({"d/b.txt"}, {"b.txt"})
    assert draft.read("c.txt").content == b"back\n"
    second = site.service.stage(draft, "Second")
    assert second.files[0].stacked_on == (first.id,)


@pytest.mark.parametrize("between", ["nothing", "the lower is approved", "the lower is denied", "the disk changes"])
def test_a_partly_written_stacked_proposal_shows_once_decided(bench: Make, between: str) -> None:
    site = bench({"a.txt": numbered(60)})
    lower = site.edit("a.txt", ("line 2\n", "two\n"))
    upper = site.edit("a.txt", ("line 20\n", "twenty\n"), ("line 35\n", "x\ny\n"), ("line 50\n", "fifty\n"))
    site.service.approve(upper.id, ("1",))
    if between == "the lower is approved":
        site.service.approve(lower.id)
    if between == "the lower is denied":
        site.service.deny(lower.id)
    if between == "the disk changes":
        site.put(**{"a.txt": site.read("a.txt").decode().replace("line 59\n", "mine\n")})
        site.service.rebase_pending()
    site.service.approve(upper.id, ("2",))
    decided = site.service.deny(upper.id).proposal
    assert decided.state is ProposalState.APPLIED
    assert (decided.added, decided.removed) == (3, 2)
    shown = [(hunk.number, hunk.state.value, hunk.old_count, hunk.new_count) for hunk in decided.hunks]
    assert shown == [(1, "applied", 1, 1), (2, "applied", 1, 2), (3, "denied", 0, 0)]
    (diff,) = site.service.file_diffs(upper.id)
    written = [diff.new[hunk.new_start : hunk.new_start + hunk.new_count] for hunk in decided.hunks]
    assert written == [("twenty",), ("x", "y"), ()]
    site.service.undo(upper.id)
    text = site.read("a.txt").decode()
    assert "line 20\n" in text and "line 35\n" in text and "twenty" not in text


def test_stacked_edits_land_in_order_also_one_next_to_another(bench: Make) -> None:
    site = bench({"a.txt": numbered(9)})
    first = site.edit("a.txt", ("line 2\n", "two\n"))
    second = site.edit("a.txt", ("two\n", "the second\n"))
    beside = site.edit("a.txt", ("line 5\n", "five\n"))
    assert second.files[0].stacked_on == (first.id,)
    for above in (second, beside):
        with pytest.raises(DependsOnPendingProposal, match=rf"{above.id} builds on P1.* in a\.txt; decide P1 first"):
            site.service.approve(above.id)
    assert site.read("a.txt").decode() == numbered(9)
    result = site.service.approve(first.id)
    assert [changed.files[0].stacked_on for changed in result.changed] == [(), (second.id,)]
    assert result.changed[0].revision == second.revision, "what it would write is the same"
    site.service.approve(second.id, revision=second.revision)
    assert site.read("a.txt").decode() == numbered(9, l2="the second")


def test_stacked_proposal_keeps_its_hunks_among_similar_lines(bench: Make) -> None:
    site = bench({"a.txt": numbered(9) + "a\nb\nb\n"})
    first = site.edit("a.txt", ("line 2\n", "two\n"))
    second = site.write(**{"a.txt": numbered(9, l2="two") + "b\na\nb\na\n"})
    shown = site.service.deny(second.id, ["2"]).proposal.hunks
    (changed,) = site.service.approve(first.id).changed
    assert (changed.id, changed.hunks) == (second.id, shown)


def test_an_independent_upper_one_can_go_first(bench: Make) -> None:
    site = bench({"a.txt": numbered(40)})
    first = site.edit("a.txt", ("line 2\n", "two\nand more\n"))
    second = site.edit("a.txt", ("line 30\n", "thirty\n"))
    result = site.service.approve(second.id)
    assert site.read("a.txt").decode() == numbered(40, l30="thirty")
    assert result.proposal.state is ProposalState.APPLIED
    [changed] = result.changed
    assert (changed.id, changed.files[0].rebased) == (first.id, True)
    with pytest.raises(ChangedSinceShown):
        site.service.approve(first.id, revision=first.revision)
    site.service.approve(first.id, revision=changed.revision)
    assert site.read("a.txt").decode() == numbered(40, l2="two\nand more", l30="thirty")
    site.service.undo(second.id)
    assert site.read("a.txt").decode() == numbered(40, l2="two\nand more")


def test_denying_the_lower_one_makes_a_dependent_upper_stale(bench: Make) -> None:
    site = bench({"a.txt": numbered(9)})
    first = site.edit("a.txt", ("line 2\n", "two\n"))
    second = site.edit("a.txt", ("two\n", "the second\n"))
    [changed] = site.service.deny(first.id).changed
    assert changed.state is ProposalState.STALE
    assert changed.reason == "a.txt changed at line 2, where the proposal changes it too"
    [conflict] = changed.files[0].conflicts
    assert (conflict.base, conflict.disk, conflict.proposed) == (("two",), ("line 2",), ("the second",))
    with pytest.raises(StaleProposal, match="P2 is stale"):
        site.service.approve(second.id)
    assert site.service.deny(second.id).proposal.state is ProposalState.DENIED


def test_a_partly_approved_lower_one_does_not_move_the_upper(bench: Make) -> None:
    site = bench({"a.txt": numbered(30)})
    first = site.edit("a.txt", ("line 2\n", "two\n"), ("line 20\n", "twenty\n"))
    second = site.edit("a.txt", ("line 29\n", "last but one\n"))
    assert site.service.approve(first.id, ["1"]).changed == ()
    assert site.service.get(second.id).revision == second.revision
    site.service.deny(first.id)
    site.service.approve(second.id)
    assert site.read("a.txt").decode() == numbered(30, l2="two", l29="last but one")


def test_an_upper_one_on_a_file_that_the_lower_creates(bench: Make) -> None:
    site = bench({})
    first = site.write(**{"new.txt": "one\ntwo\n"})
    second = site.edit("new.txt", ("two", "2"))
    with pytest.raises(DependsOnPendingProposal):
        site.service.approve(second.id)
    [changed] = site.service.deny(first.id).changed
    assert changed.state is ProposalState.STALE
    assert changed.reason == "new.txt is gone"
    third = site.write(**{"new.txt": "one\ntwo\n"})
    site.service.approve(third.id)
    assert site.service.get(second.id).state is ProposalState.PENDING, "its base is there now"
    site.service.approve(second.id)
    assert site.read("new.txt") == b"one\n2\n"


def test_a_change_on_disk_rebases_at_once(bench: Make) -> None:
    site = bench({"a.txt": numbered(20)})
    proposal = site.edit("a.txt", ("line 10\n", "ten\n"))
    site.put(**{"a.txt": numbered(20, l1="first"), "other.txt": "x"})
    (site.root / "a.txt").chmod(0o755)
    assert site.service.rebase_pending(["other.txt"]) == []
    [changed] = site.service.rebase_pending(["a.txt"])
    assert changed.revision == proposal.revision + 1
    assert changed.files[0].rebased
    assert changed.hunks[0].id == proposal.hunks[0].id
    assert site.service.rebase_pending() == []
    with pytest.raises(ChangedSinceShown):
        site.service.approve(proposal.id, revision=proposal.revision)
    site.service.approve(proposal.id, revision=changed.revision)
    assert site.tree()["a.txt"] == (numbered(20, l1="first", l10="ten").encode(), 0o755)


def test_an_approval_without_revision_does_not_write_what_nobody_saw(bench: Make) -> None:
    site = bench({"a.txt": numbered(20)})
    proposal = site.edit("a.txt", ("line 10\n", "ten\n"))
    site.put(**{"a.txt": numbered(20, l1="first")})
    with pytest.raises(ChangedSinceShown):
        site.service.approve(proposal.id)
    assert site.read("a.txt").decode() == numbered(20, l1="first")
    site.service.approve(proposal.id)
    assert site.read("a.txt").decode() == numbered(20, l1="first", l10="ten")


def test_a_stale_or_already_made_change_comes_back_with_its_base(bench: Make) -> None:
    site = bench({"a.txt": numbered(20)})
    proposal = site.edit("a.txt", ("line 10\n", "ten\n"))
    site.put(**{"a.txt": numbered(20, l10="mine")})
    [stale] = site.service.rebase_pending(["a.txt"])
    assert stale.state is ProposalState.STALE
    [conflict] = stale.files[0].conflicts
    assert (conflict.line, conflict.disk) == (10, ("mine",))
    site.put(**{"a.txt": numbered(20)})
    [back] = site.service.rebase_pending(["a.txt"])
    assert (back.state, back.reason, back.files[0].conflicts) == (ProposalState.PENDING, "", ())
    assert not back.files[0].rebased
    assert back.files[0].result == proposal.files[0].result
    site.put(**{"a.txt": numbered(20, l10="ten")})
    [there] = site.service.rebase_pending(["a.txt"])
    assert there.files[0].already_applied
    assert there.state is ProposalState.PENDING
    site.put(**{"a.txt": numbered(20)})
    [back] = site.service.rebase_pending(["a.txt"])
    assert not back.files[0].already_applied
    assert back.hunks == proposal.hunks
    site.put(**{"a.txt": numbered(20, l10="ten")})
    site.service.rebase_pending()
    assert site.service.approve(proposal.id).proposal.state is ProposalState.APPLIED
    assert site.read("a.txt").decode() == numbered(20, l10="ten")
    assert site.store.journal_records() == [], "nothing was written, and nothing can be taken back"


def test_a_rename_already_made_by_the_user_can_be_approved(bench: Make) -> None:
    site = bench({"a.txt": numbered(20)})
    proposal = site.rename("a.txt", "b.txt", ("line 2\n", "two\n"))
    (site.root / "a.txt").rename(site.root / "b.txt")
    site.put(**{"b.txt": numbered(20, l2="two")})
    site.service.rebase_pending()
    assert site.service.approve(proposal.id).proposal.state is ProposalState.APPLIED
    assert site.tree() == {"b.txt": (numbered(20, l2="two").encode(), 0o644)}


def test_proposal_on_edits_that_cancel_out_can_be_decided_first(bench: Make) -> None:
    site = bench({"a.txt": numbered(20)})
    site.edit("a.txt", ("line 2\n", "two\n"))
    above = site.write(**{"a.txt": None})
    with pytest.raises(DependsOnPendingProposal):
        site.service.approve(above.id)
    site.service.deny(above.id)
    site.edit("a.txt", ("two\n", "line 2\n"))
    site.service.approve(site.write(**{"a.txt": None}).id)
    assert site.tree() == {}


def test_one_hunk_made_by_hand_leaves_the_other(bench: Make) -> None:
    site = bench({"a.txt": numbered(40)})
    proposal = site.edit("a.txt", ("line 10\n", "ten\n"), ("line 30\n", "thirty\n"))
    site.put(**{"a.txt": numbered(40, l10="ten")})
    [changed] = site.service.rebase_pending()
    assert [hunk.number for hunk in changed.hunks] == [1, 2]
    assert [hunk.old_count for hunk in changed.hunks] == [0, 1]
    site.put(**{"a.txt": numbered(40)})
    [back] = site.service.rebase_pending()
    assert back.hunks == proposal.hunks
    site.service.approve(proposal.id)
    assert site.read("a.txt").decode() == numbered(40, l10="ten", l30="thirty")


@pytest.mark.parametrize(
    ("disk", "state", "reason"),
    [
        (None, ProposalState.STALE, "a.txt is gone"),
        (b"\0binary", ProposalState.STALE, "a.txt is binary and changed"),
        (numbered(20, l10="mine").encode(), ProposalState.STALE, "a.txt changed at line 10"),
        (numbered(19).encode(), ProposalState.PENDING, ""),
    ],
)
def test_edit_follows_or_conflicts_with_disk_changes(
    bench: Make, disk: bytes | None, state: ProposalState, reason: str
) -> None:
    site = bench({"a.txt": numbered(20)})
    site.edit("a.txt", ("line 10\n", "ten\n"))
    if disk is None:
        (site.root / "a.txt").unlink()
    else:
        site.put(**{"a.txt": disk})
    [changed] = site.service.rebase_pending()
    assert changed.state is state
    assert changed.reason.startswith(reason)


def test_creations_and_deletions_are_never_merged(bench: Make) -> None:
    site = bench({"gone.txt": "g\n"})
    create = site.write(**{"new.txt": "mine\n"})
    delete = site.write(**{"gone.txt": None})
    site.put(**{"new.txt": "theirs\n", "gone.txt": "changed\n"})
    stale = site.service.rebase_pending()
    assert [each.state for each in stale] == [ProposalState.STALE] * 2
    assert stale[0].reason == "new.txt exists now, with other content"
    assert stale[0].files[0].conflicts[0].disk == ("theirs",)
    assert stale[1].reason.startswith("gone.txt changed after its deletion was proposed")
    site.put(**{"new.txt": "mine\n", "gone.txt": "g\n"})
    site.service.rebase_pending()
    assert site.service.get(create.id).files[0].already_applied
    (site.root / "gone.txt").unlink()
    site.service.rebase_pending()
    assert site.service.get(delete.id).files[0].already_applied


def test_only_files_of_waiting_proposals_are_watched(bench: Make) -> None:
    site = bench({"a.txt": numbered(9), "b.txt": "b\n", "c.txt": "c\n"})
    first = site.edit("a.txt", ("line 2\n", "two\n"))
    site.rename("b.txt", "d.txt")
    assert site.service.watched_paths() == {"a.txt", "b.txt", "d.txt"}
    site.service.deny(first.id)
    assert site.service.watched_paths() == {"b.txt", "d.txt"}


@pytest.mark.parametrize("stored", [False, True])
def test_related_proposals_of_a_path_are_found(bench: Make, tmp_path: Path, stored: bool) -> None:
    signal = DatabaseChangeSignal(tmp_path, "here")
    store = SqliteProposalStore(Database(tmp_path / "db"), "here", signal) if stored else MemoryStore()
    files = {f"f{number}.txt": numbered(3) for number in range(5)}
    site = bench({**files, "d/a.txt": numbered(3), "d-b.txt": numbered(3)}, store=store)
    site.write(**{"f0.txt": "1\n", "f1.txt": "1\n"})
    site.write(**{"f1.txt": "2\n", "f2.txt": "2\n"})
    for name in ("f3.txt", "d/a.txt", "d-b.txt"):
        site.write(**{name: "3\n"})
    denied = site.write(**{"f3.txt": "6\n"})
    site.service.deny(denied.id)
    both = ["P1", "P2"]
    expected = {"f0.txt": both, "f2.txt": both, "f3.txt": ["P3"], "f4.txt": [], "d": ["P4"], "d/a.txt/x": ["P4"]}
    assert {path: [each.id for each in related_pending_proposals(store, {path})] for path in expected} == expected
    assert [each.id for each in related_pending_proposals(store, {"f3.txt", "d"})] == ["P3", "P4"]
    assert [each.id for each in store.decided_on_paths({"f3.txt"})] == [denied.id]


def test_one_more_proposal_does_not_read_what_waits_elsewhere(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    site = bench({f"f{number}.txt": numbered(3) for number in range(12)}, store=store)
    for number in range(11):
        site.write(**{f"f{number}.txt": "new\n"})
    store.handed_out = 0
    site.write(**{"f11.txt": "new\n"})
    site.service.approve("P12")
    site.service.undo("P12")
    assert store.handed_out <= 6
    site.write(**{"f0.txt": "newer\n"})
    assert site.service.get("P13").files[0].stacked_on == ("P1",)


def test_the_last_of_a_long_stack_names_only_the_oldest_and_latest(bench: Make) -> None:
    site = bench({"a.txt": numbered(60)})
    staged = [site.edit("a.txt", (f"line {line}\n", f"{line}\n")) for line in range(3, 39, 3)]
    assert staged[4].files[0].stacked_on == ("P1", "P2", "P3", "P4")
    assert staged[11].files[0].stacked_on == ("P1", "P2", "P3", "P4", "P11")
    assert site.service.new_draft("session").read("a.txt").pending == ("P1", "P2", "P3", "P4", "P12")
    site.edit("a.txt", ("36\n", "the last\n"))
    with pytest.raises(
        DependsOnPendingProposal, match=r"P13 builds on P1, P2, P3, P4 … P12 in a\.txt; decide P1 first"
    ):
        site.service.approve("P13")
    # What is denied in the middle goes from under those above it, although they do not name it.
    site.service.deny("P8")
    assert site.service.file_diffs("P13")[0].old[20:27:3] == ("21", "line 24", "27")
    for number in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13):
        site.service.approve(f"P{number}")
    lines = site.read("a.txt").decode().split("\n")
    assert [lines[line - 1] for line in (3, 21, 24, 27, 33, 36)] == ["3", "21", "line 24", "27", "33", "the last"]


def test_a_store_from_before_knows_the_files_of_its_proposals(bench: Make, tmp_path: Path) -> None:
    database = Database(tmp_path / "db")
    store = SqliteProposalStore(database, "here", DatabaseChangeSignal(tmp_path, "here"))
    site = bench({"a.txt": numbered(3), "b.txt": numbered(3)}, store=store)
    site.rename("a.txt", "c.txt")
    before = MIGRATIONS.index(next(each for each in MIGRATIONS if "CREATE TABLE proposal_paths" in each[0]))
    rows = database.query_rows("SELECT * FROM proposals")
    database.close()
    with sqlite3.connect(tmp_path / "old") as connection:
        for statement in (statement for script in MIGRATIONS[:before] for statement in script):
            connection.execute(statement)
        connection.executemany("INSERT INTO proposals VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        connection.execute(f"PRAGMA user_version = {before}")
    connection.close()
    store = SqliteProposalStore(Database(tmp_path / "old"), "here", DatabaseChangeSignal(tmp_path, "here"))
    for path, found in {"a.txt": ["P1"], "c.txt": ["P1"], "b.txt": []}.items():
        assert [each.id for each in related_pending_proposals(store, {path})] == found


def test_a_proposal_supersedes_only_one_with_the_same_files(bench: Make) -> None:
    site = bench({"a.txt": "a\n", "b.txt": "b\n", "c.txt": "c\n"})
    for name in ("a", "b"):
        site.service.deny(site.edit(f"{name}.txt", (name, name.upper())).id)
    other = site.edit("c.txt", ("c", "C"), answers=["P2", "P1"])
    assert (other.supersedes, other.version) == ("", 1)
    answer = site.edit("a.txt", ("a", "á"), answers=["P2", "P1"])
    assert (answer.supersedes, answer.version) == ("P1", 2)


def test_partly_approved_proposal_is_not_merged_into_other_edits(bench: Make) -> None:
    site = bench({"a.txt": numbered(30), "b.txt": "b\n"})
    first = site.edit("a.txt", ("line 2\n", "two\n"), ("line 25\n", "twenty-five\n"))
    site.service.deny(first.id, [first.hunks[0].id], "Not that one.")
    other = site.edit("b.txt", ("b", "B"), answers=[first.id])
    assert [change.path for change in other.files] == ["b.txt"]
    assert site.service.get(first.id).state.is_pending


def link(path: str, before: str, after: str) -> PathChange:
    return PathChange(path, FileOrLink(before.encode(), LINK_MODE), FileOrLink(after.encode(), LINK_MODE))


def as_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def as_link(path: Path, target: str) -> None:
    path.unlink()
    path.symlink_to(target)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda root: (root / "new").write_text("theirs\n"), "new exists now, so move can't be moved there"),
        (lambda root: (root / "new").mkdir() or (root / "new/x").touch(), "move can't be moved to new: new is a"),
        (lambda root: as_pipe(root / "a.txt"), "a.txt can't be read: not a regular file"),
        (lambda root: as_link(root / "link", "c"), "link is a symbolic link, or would be one, and has changed"),
        (lambda root: as_link(root / "a.txt", "c"), "a.txt is a symbolic link now"),
        (lambda root: as_link(root / "move", "c"), "move is a symbolic link now"),
    ],
)
def test_a_stale_proposal_names_the_reason(bench: Make, spoil: Callable[[Path], object], reason: str) -> None:
    site = bench({"a.txt": "a\n", "move": "m\n"})
    (site.root / "link").symlink_to("a.txt")
    draft = site.service.new_draft("session")
    draft.edit("a.txt", [TextReplacement("a", "b")])
    draft.rename("move", "new")
    draft.add_changes([link("link", "a.txt", "b.txt")])
    proposal = site.service.stage(draft, "Three")
    assert site.service.rebase_pending() == [], "nothing has changed, so nothing is another"
    spoil(site.root)
    (stale,) = site.service.rebase_pending()
    assert stale.state is ProposalState.STALE and stale.reason.startswith(reason), stale.reason
    with pytest.raises(StaleProposal):
        site.service.approve(proposal.id)


def test_decided_file_does_not_make_the_rest_stale(bench: Make) -> None:
    site = bench({"a.txt": "a\n", "b.txt": "b\n"})
    draft = site.service.new_draft("session")
    draft.write("a.txt", "A\n")
    draft.rename("b.txt", "c.txt")
    proposal = site.service.stage(draft, "Both")
    site.service.approve(proposal.id, ["a.txt"])
    site.put(**{"a.txt": "theirs\n"})
    assert site.service.rebase_pending() == []
    assert site.service.approve(proposal.id).proposal.state is ProposalState.APPLIED
    assert (site.read("a.txt"), site.read("c.txt")) == (b"theirs\n", b"b\n")


@pytest.mark.parametrize("lost", [False, True])
def test_the_sides_of_a_conflict_that_can_t_be_shown_are_not(bench: Make, lost: bool) -> None:
    store = MemoryStore()
    site = bench({}, store=store)
    site.write(**{"new.txt": "mine\n"})
    site.put(**{"new.txt": "theirs\n" if lost else b"\0theirs"})
    if lost:
        store.lose_blobs()
    (stale,) = site.reopened().rebase_pending()
    assert (stale.reason, stale.files[0].conflicts) == ("new.txt exists now, with other content", ())


def test_a_revision_of_a_partly_decided_proposal_takes_over_pending_files(bench: Make) -> None:
    site = bench({"a.txt": "a\n", "b.txt": "b\n", "c.txt": "c\n"})
    first = site.write(**{"a.txt": "A\n", "b.txt": "B\n", "c.txt": "C\n"})
    site.service.deny(first.id, ["1"])
    second = site.write(first.id, **{"b.txt": "BB\n"})
    assert [change.path for change in second.files] == ["b.txt", "c.txt"]
