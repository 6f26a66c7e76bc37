"""Decisions: what is written, what stays, and what is said."""

import os
from collections.abc import Callable

import pytest

from app.agent.side_questions import format_hunk, format_lines_around_hunk
from app.conversation.payload.compaction_plan import clip_middle
from app.proposals.decide.decision_outcomes import describe_hunk_outcomes, make_decision_scope
from app.proposals.files.file_changes import count_added_and_removed_lines, file_operation
from app.proposals.files.filesystem import PosixFilesystem
from app.proposals.files.overlay import ContentStore
from app.proposals.locate.matching import TextReplacement
from app.proposals.text.file_warnings import describe_file_cautions, describe_mode_change
from app.proposals.values.models import FileOperation, Proposal, ProposalState, excluded_binary_files_note
from app.proposals.values.proposal_errors import (
    ChangedSinceShown,
    EditRefused,
    NoSuchPendingHunk,
    NothingToStage,
    NotPending,
    ProposalError,
    UnknownProposal,
    shorten_to_byte_limit,
)
from app.sandbox.captured_changes import LINK_MODE, FileOrLink, PathChange
from app.storage import StorageError
from tests.unit.proposals.bench import Bench, numbered
from tests.unit.proposals.memory_store import MemoryStore

Make = Callable[..., Bench]


def hunks(proposal: Proposal) -> list[tuple[int, str]]:
    return [(hunk.number, hunk.state.value) for hunk in proposal.hunks]


def test_nothing_is_on_disk_before_the_approval(bench: Make) -> None:
    site = bench({"a.txt": numbered(5)})
    before = site.tree()
    draft = site.service.new_draft("session")
    draft.edit("a.txt", [TextReplacement("line 2", "two")])
    draft.write("new/b.txt", "b\n")
    draft.delete("a.txt")
    draft.write("a.txt", "again\n")
    assert site.tree() == before
    proposal = site.service.stage(draft, "Everything")
    assert site.tree() == before
    assert [(change.path, change.op) for change in proposal.files] == [
        ("a.txt", FileOperation.EDIT),
        ("new/b.txt", FileOperation.CREATE),
    ]
    site.service.approve(proposal.id)
    assert site.read("a.txt") == b"again\n"
    assert site.read("new/b.txt") == b"b\n"


@pytest.mark.parametrize("edit_first", [False, True])
def test_a_rename_with_edits_is_shown_with_the_edits(bench: Make, edit_first: bool) -> None:
    site = bench({"old/a.txt": numbered(40)})
    draft = site.service.new_draft("session")
    if edit_first:
        draft.edit("old/a.txt", [TextReplacement("line 30", "thirty")])
    draft.rename("old/a.txt", "new/b.txt")
    if not edit_first:
        draft.edit("new/b.txt", [TextReplacement("line 30", "thirty")])
    proposal = site.service.stage(draft, "Move")
    (shown,) = site.service.file_diffs(proposal.id)
    change = shown.change
    assert (change.op, change.old_path, change.path) == (FileOperation.RENAME, "old/a.txt", "new/b.txt")
    (hunk,) = change.hunks
    assert shown.old[hunk.old_start : hunk.old_start + hunk.old_count] == ("line 30",)
    assert shown.new[hunk.new_start : hunk.new_start + hunk.new_count] == ("thirty",)
    assert (change.added, change.removed) == (1, 1)
    site.service.approve(proposal.id, revision=proposal.revision)
    assert site.read("new/b.txt").decode().splitlines() == list(shown.new)


def test_a_part_now_and_the_rest_later_keeps_numbers_and_ids(bench: Make) -> None:
    site = bench({"a.txt": numbered(40), "b.txt": numbered(5)})
    draft = site.service.new_draft("session")
    draft.edit("a.txt", [TextReplacement(f"line {n}\n", f"new {n}\nextra\n") for n in (5, 15, 25, 35)])
    draft.edit("b.txt", [TextReplacement("line 1\n", "")])
    proposal = site.service.stage(draft, "Five hunks")
    ids = [hunk.id for hunk in proposal.hunks]
    assert [hunk.number for hunk in proposal.hunks] == [1, 2, 3, 4, 5]
    first = site.service.approve(proposal.id, ["2", ids[3]])
    assert first.proposal.state is ProposalState.PARTLY_APPROVED
    assert [hunk.id for hunk in first.proposal.hunks] == ids
    assert hunks(first.proposal) == [(1, "pending"), (2, "applied"), (3, "pending"), (4, "applied"), (5, "pending")]
    assert site.read("a.txt").decode() == numbered(40, l15="new 15\nextra", l35="new 35\nextra")
    assert site.read("b.txt").decode() == numbered(5)
    second = site.service.deny(proposal.id, ["3"], feedback="not this one")
    assert second.proposal.feedback == "not this one"
    assert hunks(second.proposal)[2] == (3, "denied")
    third = site.service.approve(proposal.id)
    assert third.proposal.state is ProposalState.APPLIED
    assert [hunk.id for hunk in third.proposal.hunks] == ids
    wanted = {f"l{n}": f"new {n}\nextra" for n in (5, 15, 35)}
    assert site.read("a.txt").decode() == numbered(40, **wanted)
    assert site.read("b.txt").decode() == numbered(5).partition("\n")[2]
    [shown, _] = site.service.file_diffs(proposal.id)
    assert list(shown.old) == numbered(40).splitlines(), "a decided proposal shows all that it changed"
    assert list(shown.new) == numbered(40, **wanted).splitlines()
    site.service.undo(proposal.id)
    assert site.read("a.txt").decode() == numbered(40)


@pytest.mark.parametrize("decided", ["approve", "deny"])
def test_a_hunk_is_decided_once(bench: Make, decided: str) -> None:
    site = bench({"a.txt": numbered(40)})
    proposal = site.edit("a.txt", ("line 3\n", "three\n"), ("line 30\n", "thirty\n"))
    getattr(site.service, decided)(proposal.id, ["1"])
    before, stored = site.tree(), site.service.get(proposal.id)
    for name in ("1", proposal.hunks[0].id):
        for again in (site.service.approve, site.service.deny):
            with pytest.raises(NoSuchPendingHunk, match="P1 has no hunk 1 that waits; those that wait are 2"):
                again(proposal.id, [name])
    assert (site.tree(), site.service.get(proposal.id)) == (before, stored)


def test_a_partial_decision_contains_written_hunks_with_their_context(bench: Make) -> None:
    site = bench({"a.txt": numbered(40), "b.txt": numbered(40)})
    proposal = site.edit("a.txt", ("line 5\n", "five\nmore\n"), ("line 20\n", "twenty\n"), ("line 35\n", ""))
    result = site.service.approve(proposal.id, ["1", "3"])
    facts = [(fact.header, fact.landed, fact.reason) for fact in result.hunks]
    assert facts == [
        ("@@ -5 +5,2 @@", True, ""),
        ("@@ -20 +21 @@", False, "still awaits a decision"),
        ("@@ -35 +35,0 @@", True, ""),
    ]
    assert "5\tfive\n6\tmore\n7\tline 6" in result.hunks[0].excerpt
    assert "21\tline 20" in result.hunks[1].excerpt
    assert "35\tline 34\n36\tline 36" in result.hunks[2].excerpt
    [stat] = result.files
    assert (stat.path, stat.op, stat.added, stat.removed) == ("a.txt", "edit", 2, 2)
    assert site.service.approve(proposal.id).hunks[0].landed
    whole = site.edit("a.txt", ("line 1\n", "one\n"))
    assert site.service.approve(whole.id).hunks == ()
    two = site.write(**{"b.txt": numbered(40, l2="two", l15="fifteen"), "c.txt": "c\n"})
    assert [fact.path for fact in site.service.approve(two.id, ["3"]).hunks] == ["b.txt", "b.txt", "c.txt"]
    assert [fact.path for fact in site.service.deny(two.id, ["1"]).hunks] == ["b.txt", "b.txt"]


def test_equal_hunks_are_told_apart(bench: Make) -> None:
    site = bench({"a.txt": "x\n" + numbered(9) + "x\n" + numbered(9) + "x\n"})
    draft = site.service.new_draft("session")
    draft.edit("a.txt", [TextReplacement("x", "y", replace_all=True)])
    proposal = site.service.stage(draft, "All")
    assert len({hunk.id for hunk in proposal.hunks}) == 3
    result = site.service.approve(proposal.id, ["2"])
    assert hunks(result.proposal) == [(1, "pending"), (2, "applied"), (3, "pending")]
    assert site.read("a.txt").decode() == "x\n" + numbered(9) + "y\n" + numbered(9) + "x\n"
    result = site.service.approve(proposal.id, ["3"])
    assert site.read("a.txt").decode() == "x\n" + numbered(9) + "y\n" + numbered(9) + "y\n"
    assert hunks(result.proposal) == [(1, "pending"), (2, "applied"), (3, "applied")]


def test_files_without_hunks_are_chosen_by_their_path(bench: Make) -> None:
    site = bench({"a.txt": "a\n", "b.bin": b"\0binary", "run.sh": "x\n"})
    draft = site.service.new_draft("session")
    draft.rename("a.txt", "moved.txt")
    draft.write("empty.txt", "")
    draft.delete("b.bin")
    draft.edit("run.sh", [TextReplacement("x", "y")])
    proposal = site.service.stage(draft, "Mixed")
    result = site.service.approve(proposal.id, ["moved.txt", "empty.txt"])
    assert result.proposal.state is ProposalState.PARTLY_APPROVED
    assert set(site.tree()) == {"moved.txt", "empty.txt", "b.bin", "run.sh"}
    with pytest.raises(NoSuchPendingHunk, match=r"no hunk moved\.txt that waits; those that wait are 1, b\.bin"):
        site.service.approve(proposal.id, ["moved.txt"])
    site.service.deny(proposal.id, ["b.bin"])
    assert site.service.approve(proposal.id).proposal.state is ProposalState.APPLIED
    assert set(site.tree()) == {"moved.txt", "empty.txt", "b.bin", "run.sh"}
    site.service.undo(proposal.id)
    assert site.contents() == {"a.txt": b"a\n", "b.bin": b"\0binary", "run.sh": b"x\n"}


def test_a_rename_is_written_with_its_first_hunk_and_undone_completely(bench: Make) -> None:
    site = bench({"a.txt": numbered(30)})
    proposal = site.rename("a.txt", "b.txt", ("line 2\n", "two\n"), ("line 20\n", "twenty\n"))
    assert proposal.files[0].op is FileOperation.RENAME
    partly = site.service.approve(proposal.id, ["2"]).proposal
    assert site.tree().keys() == {"b.txt"}
    assert site.read("b.txt").decode() == numbered(30, l20="twenty")
    assert (partly.files[0].op, partly.files[0].old_path) == (FileOperation.EDIT, "")
    again = site.service.undo(proposal.id).proposal
    assert site.tree().keys() == {"a.txt"}
    assert again.state is ProposalState.PENDING
    assert (again.files[0].op, again.files[0].old_path) == (FileOperation.RENAME, "a.txt")
    assert hunks(again) == [(1, "pending"), (2, "pending")]
    site.service.approve(proposal.id)
    assert site.read("b.txt").decode() == numbered(30, l2="two", l20="twenty")


def test_a_denied_proposal_still_shows_its_diff(bench: Make) -> None:
    site = bench({"a.txt": numbered(9)})
    proposal = site.edit("a.txt", ("line 2\n", "two\n"))
    result = site.service.deny("p1", feedback="No.\nReally.")
    assert result.proposal.state is site.service.get("p1").state is ProposalState.DENIED
    assert result.proposal.feedback == "No.\nReally."
    [shown] = site.service.file_diffs(proposal.id)
    assert shown.new[1] == "two"
    assert site.read("a.txt").decode() == numbered(9)
    with pytest.raises(NotPending, match="P1 is denied already; there is nothing to decide"):
        site.service.approve(proposal.id)


def test_an_answer_to_feedback_is_the_next_version_and_marks_repeated_hunks(bench: Make) -> None:
    site = bench({"a.txt": numbered(30)})
    first = site.edit("a.txt", ("line 2\n", "two\n"))
    site.service.deny(first.id, feedback="in words")
    second = site.edit("a.txt", ("line 2\n", "two\n"), ("line 20\n", "twenty\n"), answers=(first.id,))
    assert [hunk.repeat_of for hunk in second.hunks] == [first.id, ""]
    assert (second.version, second.supersedes) == (2, first.id)
    old = site.service.get(first.id)
    assert (old.state, old.superseded_by) == (ProposalState.DENIED, second.id)


def test_superseding_a_pending_proposal_takes_over_its_edits(bench: Make) -> None:
    site = bench({"a.txt": numbered(9), "b.txt": "b\n"})
    draft = site.service.new_draft("session")
    draft.edit("a.txt", [TextReplacement("line 2\n", "two\n")])
    draft.rename("b.txt", "c.txt")
    first = site.service.stage(draft, "First")
    second = site.edit("a.txt", ("two\n", "the second\n"), ("line 8\n", "eight\n"), answers=(first.id,))
    assert site.service.get(first.id).state is ProposalState.SUPERSEDED
    assert second.files[0].stacked_on == ()
    site.service.approve(second.id)
    assert site.read("a.txt").decode() == numbered(9, l2="the second", l8="eight")
    assert set(site.tree()) == {"a.txt", "c.txt"}


def test_proposal_on_a_superseded_one_turns_stale_at_once(bench: Make) -> None:
    site = bench({})
    lower = site.write(**{"a.txt": "one\n"})
    upper = site.edit("a.txt", ("one", "two"))
    site.rename("a.txt", "b.txt", answers=(lower.id,))
    assert site.service.get(upper.id).state is ProposalState.STALE
    assert site.service.new_draft("session").read("a.txt").content is None


def test_edits_that_cancel_out_stage_nothing(bench: Make) -> None:
    site = bench({"a.txt": "a\n"})
    draft = site.service.new_draft("session")
    draft.edit("a.txt", [TextReplacement("a", "b")])
    assert draft.has_changes
    draft.edit("a.txt", [TextReplacement("b", "a")])
    draft.write("new.txt", "x")
    draft.delete("new.txt")
    draft.rename("a.txt", "b.txt")
    draft.rename("b.txt", "a.txt")
    assert not draft.has_changes
    with pytest.raises(NothingToStage):
        site.service.stage(draft, "Nothing")
    assert site.service.all() == []


def test_the_user_can_edit_the_proposed_text(bench: Make) -> None:
    site = bench({"a.txt": numbered(20).replace("\n", "\r\n")})
    proposal = site.edit("a.txt", ("line 2\n", "two\n"), ("line 15\n", "fifteen\n"))
    edited = site.service.replace_proposed_text(proposal.id, "a.txt", numbered(20, l2="two", l15="mine", l16="too"))
    assert edited.files[0].edited
    assert edited.revision == proposal.revision + 1
    assert edited.hunks[0].id == proposal.hunks[0].id
    with pytest.raises(ChangedSinceShown):
        site.service.approve(proposal.id, revision=proposal.revision)
    site.service.approve(proposal.id, revision=edited.revision)
    assert site.read("a.txt").decode() == numbered(20, l2="two", l15="mine", l16="too").replace("\n", "\r\n")
    site.service.undo(proposal.id)
    assert site.read("a.txt").decode() == numbered(20).replace("\n", "\r\n")


def test_the_users_text_of_a_file_whose_mode_changes_is_written(bench: Make) -> None:
    site = bench({"run.sh": "run\n"})
    proposal = site.service.stage_patch("diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\n")
    assert proposal.files[0].op is FileOperation.MODE
    edited = site.service.replace_proposed_text(proposal.id, "run.sh", "walk\n")
    assert (edited.files[0].op, edited.files[0].added) == (FileOperation.EDIT, 1)
    site.service.approve(proposal.id, revision=edited.revision)
    assert site.tree() == {"run.sh": (b"walk\n", 0o755)}


def test_errors_are_one_line_and_change_nothing_nor_does_the_same_text(bench: Make) -> None:
    site = bench({"a.txt": numbered(5)})
    proposal = site.edit("a.txt", ("line 2\n", "two\n"))
    replace = site.service.replace_proposed_text
    attempts: list[tuple[type[ProposalError], Callable[[], object]]] = [
        (UnknownProposal, lambda: site.service.get("P99")),
        (NoSuchPendingHunk, lambda: site.service.approve(proposal.id, ["7"])),
        (NoSuchPendingHunk, lambda: site.service.approve(proposal.id, [])),
        (ChangedSinceShown, lambda: site.service.approve(proposal.id, revision=9)),
        (ProposalError, lambda: site.service.undo(proposal.id)),
        (ProposalError, lambda: site.service.redo(proposal.id)),
        (ProposalError, lambda: replace(proposal.id, "b.txt", "x")),
        (ProposalError, lambda: replace(proposal.id, "a.txt", numbered(5))),
        (ProposalError, lambda: replace(proposal.id, "a.txt", "half a \ud83d character\n")),
    ]
    for kind, attempt in attempts:
        with pytest.raises(kind) as caught:
            attempt()
        assert "\n" not in str(caught.value)
    assert site.read("a.txt").decode() == numbered(5)
    assert replace(proposal.id, "a.txt", numbered(5, l2="two")) == site.service.get(proposal.id) == proposal


def test_a_name_that_deceives_is_flagged(bench: Make) -> None:
    site = bench({"a.txt": "one\n"})
    draft = site.service.new_draft("session")
    draft.write("notes\u202etxt.exe", "harmless\n")
    draft.rename("a.txt", "more\u202etxt.exe")
    for change in site.service.stage(draft, "Names").files:
        assert any("1 bidirectional control" in warning for warning in change.warnings)


@pytest.mark.parametrize("kind", ["binary", "pipe"])
def test_a_file_that_became_binary_is_not_quoted(bench: Make, kind: str) -> None:
    site = bench({"a.txt": numbered(20)})
    proposal = site.edit("a.txt", ("line 2\n", "two\n"), ("line 15\n", "fifteen\n"))
    (site.root / "a.txt").unlink()
    if kind == "binary":
        site.put(**{"a.txt": b"\0" * 400})
    else:
        os.mkfifo(site.root / "a.txt")
    contents, disk = ContentStore(site.store), PosixFilesystem(site.root, 1 << 20)
    facts = describe_hunk_outcomes(contents, disk, proposal, make_decision_scope(proposal, ["1"]), ())
    assert [(fact.reason, fact.excerpt) for fact in facts] == [("denied", ""), ("still awaits a decision", "")]


def test_a_decision_stands_although_it_cannot_be_described(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    site = bench({"a.txt": numbered(20)}, store=store)
    proposal = site.edit("a.txt", ("line 2\n", "two\n"), ("line 15\n", "fifteen\n"))

    def fail(*_: object) -> None:
        raise RuntimeError("a defect")

    def break_once_recorded(target: object, method: str) -> None:
        store.before_write = lambda name: (
            monkeypatch.setattr(target, method, fail) if name == "close_journal_record" else None
        )

    break_once_recorded(PosixFilesystem, "read")
    result = site.service.approve(proposal.id, ["1"])
    assert (result.proposal.state, result.hunks) == (ProposalState.PARTLY_APPROVED, ())
    assert site.read("a.txt").decode() == numbered(20, l2="two")
    monkeypatch.undo()
    break_once_recorded(store, "proposal")
    assert site.service.undo(proposal.id).proposal.state is ProposalState.PENDING
    assert site.read("a.txt").decode() == numbered(20)


def test_the_middle_of_a_long_text_is_left_out() -> None:
    assert clip_middle("abcdef", 6) == "abcdef"
    assert clip_middle("", 0) == ""
    assert clip_middle("abcdefghij", 6) == "abcd\n[… 4 characters left out …]\nij"
    assert clip_middle("abc", 0) == "\n[… 3 characters left out …]\n"


def test_the_surroundings_of_a_hunk_come_from_the_new_or_deleted_text(bench: Make) -> None:
    site = bench({"a.txt": numbered(9), "b.txt": numbered(9, l6="x" * 90), "gone.txt": numbered(3)})
    edited = site.edit("a.txt", ("line 5\n", "five\nmore\n"))
    (diff,) = site.service.file_diffs(edited.id)
    (hunk,) = diff.change.hunks
    assert format_hunk(diff, hunk, 99) == "-line 5\n+five\n+more"
    assert format_lines_around_hunk(diff, hunk, 1, 999) == "4  line 4\n5  five\n6  more\n7  line 6"
    assert format_lines_around_hunk(diff, None, 2, 999) == "1  line 1\n2  line 2"
    (diff,) = site.service.file_diffs(site.edit("b.txt", ("line 5\n", "five\n")).id)
    assert format_lines_around_hunk(diff, diff.change.hunks[0], 3, 40) == "4  line 4\n5  five", "the nearest first"
    (diff,) = site.service.file_diffs(site.write(**{"gone.txt": None}).id)
    (hunk,) = diff.change.hunks
    assert format_lines_around_hunk(diff, hunk, 1, 999) == "1  line 1\n2  line 2\n3  line 3"


FILE, PROGRAM = FileOrLink(b"text\n", 0o644), FileOrLink(b"text\n", 0o755)
LINK, OTHER_LINK = FileOrLink(b"there", LINK_MODE), FileOrLink(b"elsewhere", LINK_MODE)


@pytest.mark.parametrize(
    ("before", "after", "mode", "cautions"),
    [
        (None, LINK, "symbolic link", ["It is a symbolic link."]),
        (LINK, OTHER_LINK, "symbolic link", []),
        (FILE, LINK, "symbolic link", ["The file becomes a symbolic link."]),
        (LINK, FILE, "symbolic link", ["The symbolic link becomes a file."]),
        (FILE, PROGRAM, "mode 644 → 755", ["Mode changes from 644 to 755, which lets it be executed."]),
        (None, PROGRAM, "mode 755", ["The new file can be executed: its mode is 755."]),
        (None, FILE, "", []),
        (FILE, None, "", ["The file is deleted."]),
    ],
)
def test_mode_and_link_changes_are_described(
    bench: Make, before: FileOrLink | None, after: FileOrLink | None, mode: str, cautions: list[str]
) -> None:
    site = bench({})
    if before == FILE:
        site.put(a=FILE.data)
    elif before:
        (site.root / "a").symlink_to(before.data.decode())
    draft = site.service.new_draft("session")
    draft.add_changes([PathChange("a", before, after)])
    (change,) = site.service.stage(draft, "Change").files
    assert (describe_mode_change(change), list(describe_file_cautions(change))) == (mode, cautions)


def test_changed_content_is_an_edit_whatever_the_mode() -> None:
    contents = ContentStore(MemoryStore())
    text, binary, program = contents.add(b"a\n", 0o644), contents.add(b"\0\n", 0o644), contents.add(b"b\n", 0o755)
    assert file_operation("", text, program) is FileOperation.EDIT
    assert file_operation("", text, text.model_copy(update={"mode": 0o755})) is FileOperation.MODE
    assert count_added_and_removed_lines(contents, text, program) == (1, 1)
    assert (
        count_added_and_removed_lines(contents, text, binary)
        == count_added_and_removed_lines(contents, binary, None)
        == (0, 0)
    )


def test_content_that_could_not_be_written_is_written_by_the_next_save() -> None:
    store = MemoryStore()
    contents = ContentStore(store)
    version = contents.add(b"a\n", 0o644)

    def full(name: str) -> None:
        raise StorageError("The disk is full.")

    store.before_write = full
    with pytest.raises(StorageError):
        contents.save()
    assert contents.get(version) == b"a\n"
    store.before_write = lambda name: None
    contents.save()
    assert ContentStore(store).get(version) == b"a\n"


def test_binary_files_left_out_of_a_patch_are_named() -> None:
    assert excluded_binary_files_note(()) == ""
    assert excluded_binary_files_note(("a", "b")) == ", without a, b (binary)"
    assert excluded_binary_files_note(("a", "b", "c", "d", "e")) == ", without a, b, c and 2 more (binary)"


def test_only_a_long_refusal_is_shortened() -> None:
    assert EditRefused("No.", "Try again.").message == "No. Try again."
    assert shorten_to_byte_limit("é" * 10, 20) == "é" * 10
    assert shorten_to_byte_limit("é" * 10, 19) == "é" * 6 + "\n[cut]"
