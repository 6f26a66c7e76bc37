"""Single lines out of a hunk: any choice of them is written as it is shown, told as it landed, and undone exactly."""

import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.proposals.stack.hunk_splitting import SelectedLines
from app.proposals.values.models import FileOperation, Hunk, HunkState, Proposal, ProposalState
from app.proposals.values.origin import ProposalOrigin
from app.proposals.values.proposal_errors import ChangedSinceShown, NoSuchPendingHunk
from app.sandbox.captured_changes import FileOrLink, PathChange
from tests.unit.proposals.bench import Bench
from tests.unit.proposals.test_subsets import contents


def pending(proposal: Proposal) -> list[Hunk]:
    """What waits."""
    return [hunk for hunk in proposal.hunks if hunk.state is HunkState.PENDING]


def as_shown(site: Bench, proposal: Proposal, chosen: Sequence[str]) -> list[str]:
    """The lines of the first file as a reader puts them together from the review, down the page."""
    (diff,) = site.service.file_diffs(proposal.id)
    lines: list[str] = []
    at = 0
    for hunk in diff.change.hunks:
        lines += diff.old[at : hunk.old_start]
        at = hunk.old_start + hunk.old_count
        taken = hunk.id in chosen
        lines += (
            diff.new[hunk.new_start : hunk.new_start + hunk.new_count] if taken else diff.old[hunk.old_start : at]
        )
    return [line.rstrip("\r") for line in [*lines, *diff.old[at:]]]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(contents(), st.randoms(use_true_random=False))
def test_any_choice_of_lines_is_written_and_undone(pair: tuple[bytes, bytes], dice: random.Random) -> None:
    base, result = pair
    if base == result:
        return
    with tempfile.TemporaryDirectory() as folder:
        site = Bench(Path(folder), {"f": base})
        draft = site.service.new_draft("session")
        draft.set_content("f", result, [])
        proposal = site.service.stage(draft, "Change")
        for _ in range(dice.randint(1, 3)):
            proposal = site.service.get(proposal.id)
            old = {line for hunk in proposal.hunks for line in range(hunk.old_start, hunk.old_start + hunk.old_count)}
            new = {line for hunk in proposal.hunks for line in range(hunk.new_start, hunk.new_start + hunk.new_count)}
            lines = SelectedLines(
                "f",
                frozenset(line for line in old if dice.random() < 0.4),
                frozenset(line for line in new if dice.random() < 0.4),
            )
            before = {hunk.id for hunk in proposal.hunks}
            parts = site.service.split_hunks(proposal.id, lines, proposal.revision)
            proposal = site.service.get(proposal.id)
            assert {part.hunk.id for part in parts} <= {hunk.id for hunk in proposal.hunks}
            assert len({hunk.id for hunk in proposal.hunks}) == len(proposal.hunks) >= len(before)
            assert (proposal.added, proposal.removed) == (
                sum(hunk.new_count for hunk in proposal.hunks),
                sum(hunk.old_count for hunk in proposal.hunks),
            )
        assert site.service.rebase_pending() == [], "what was cut stays cut"
        chosen = [hunk.id for hunk in proposal.hunks if dice.random() < 0.5]
        if not chosen:
            return
        expected = as_shown(site, proposal, chosen)
        site.service.approve(proposal.id, chosen, proposal.revision)
        written = site.read("f").decode()
        assert [line.rstrip("\r") for line in written.removesuffix("\n").split("\n")] == (expected or [""])
        proposal = site.service.get(proposal.id)
        if proposal.state is ProposalState.PARTLY_APPROVED:
            site.service.approve(proposal.id)
            assert site.read("f") == result
        site.service.undo(proposal.id)
        assert site.read("f") == base


OLD = "head\nalpha = 1\nbeta = 2\ntail\n"
NEW = "head\nalpha = 10\nbeta = 20\nextra\ntail\n"


def cut(site: Bench, proposal: Proposal, *, old: Sequence[int] = (), new: Sequence[int] = ()) -> list[str]:
    """Cut, and take out what was picked; the ids of what stays chosen."""
    parts = site.service.split_hunks(
        proposal.id, SelectedLines("a.py", frozenset(old), frozenset(new)), proposal.revision
    )
    out = {part.hunk.id for part in parts if part.picked}
    return [hunk.id for hunk in pending(site.service.get(proposal.id)) if hunk.id not in out]


@pytest.fixture
def site(tmp_path: Path) -> Bench:
    return Bench(tmp_path, {"a.py": OLD})


@pytest.mark.parametrize(
    ("old", "new", "written"),
    [
        ((), (3,), "head\nalpha = 10\nbeta = 20\ntail\n"),
        ((2,), (2,), "head\nalpha = 10\nbeta = 2\nextra\ntail\n"),
        ((1,), (1,), "head\nalpha = 1\nbeta = 20\nextra\ntail\n"),
        ((1,), (), "head\nalpha = 1\nalpha = 10\nbeta = 20\nextra\ntail\n"),
        ((), (1, 2, 3), "head\ntail\n"),
    ],
)
def test_excluded_lines_move_nothing_else(site: Bench, old: Sequence[int], new: Sequence[int], written: str) -> None:
    proposal = site.write(**{"a.py": NEW})
    chosen = cut(site, proposal, old=old, new=new)
    site.service.approve(proposal.id, chosen)
    assert site.read("a.py").decode() == written
    assert site.service.get(proposal.id).state is ProposalState.PARTLY_APPROVED
    site.service.undo(proposal.id)
    assert site.read("a.py").decode() == OLD


def test_picked_added_lines_form_separate_parts(site: Bench) -> None:
    proposal = site.write(**{"a.py": NEW})
    cut(site, proposal, new=(1,))
    parts = [(hunk.old_count, hunk.new_count) for hunk in pending(site.service.get(proposal.id))]
    assert parts == [(2, 0), (0, 1), (0, 2)]


def test_the_rest_is_a_valid_patch_if_a_line_loses_its_newline(bench: Callable[..., Bench]) -> None:
    site = bench({"a.py": "c\na\n"})
    proposal = site.write(**{"a.py": "b"})
    parts = site.service.split_hunks(
        proposal.id, SelectedLines("a.py", frozenset({0}), frozenset({0})), proposal.revision
    )
    site.service.approve(proposal.id, [part.hunk.id for part in parts if part.picked])
    assert site.read("a.py") == b"b\na\n"
    assert "\n-b\n-a\n+b\n\\ No newline" in site.service.unified_diff(proposal.id)
    site.service.approve(proposal.id)
    assert site.read("a.py") == b"b"


def test_the_model_is_told_which_lines_landed_and_the_rest_can_be_denied(site: Bench) -> None:
    proposal = site.write(**{"a.py": NEW})
    result = site.service.approve(proposal.id, cut(site, proposal, new=[3]))
    assert [(fact.header, fact.landed, fact.reason) for fact in result.hunks] == [
        ("@@ -2,2 +2,2 @@", True, ""),
        ("@@ -3,0 +4 @@", False, "still awaits a decision"),
    ]
    assert "3\tbeta = 20\n4\ttail" in result.hunks[0].excerpt
    (rest,) = pending(site.service.get(proposal.id))
    site.service.deny(proposal.id, [rest.id])
    assert site.service.get(proposal.id).state is ProposalState.APPLIED
    assert "extra" not in site.read("a.py").decode()


def test_a_cut_survives_a_change_of_the_file_elsewhere(site: Bench) -> None:
    proposal = site.write(**{"a.py": NEW})
    chosen = cut(site, proposal, new=[3])
    site.put(**{"a.py": f"first\n{OLD}"})
    site.service.rebase_pending()
    assert chosen == [hunk.id for hunk in pending(site.service.get(proposal.id))][:-1]
    site.service.approve(proposal.id, chosen)
    assert site.read("a.py").decode() == "first\nhead\nalpha = 10\nbeta = 20\ntail\n"


def test_a_split_needs_the_shown_revision_and_a_pending_hunk(site: Bench) -> None:
    proposal = site.write(**{"a.py": NEW})
    with pytest.raises(ChangedSinceShown):
        site.service.split_hunks(proposal.id, SelectedLines("a.py", frozenset([1])), proposal.revision + 1)
    with pytest.raises(NoSuchPendingHunk):
        site.service.split_hunks(proposal.id, SelectedLines("b.py", frozenset([1])), proposal.revision)
    assert (
        site.service.split_hunks(proposal.id, SelectedLines("a.py", frozenset([1, 2]), frozenset([1, 2, 3])), 1) == ()
    )
    assert site.service.get(proposal.id) == proposal, "nothing had to be cut"
    site.put(**{"w.txt": "a\nb\n".encode("utf-16")})
    wide = site.edit("w.txt", ("a\nb\n", "c\nd\n"))
    with pytest.raises(NoSuchPendingHunk, match="not in UTF-8"):
        site.service.split_hunks(wide.id, SelectedLines("w.txt", frozenset([0])), wide.revision)


def test_picked_lines_of_new_and_deleted_files_are_written(bench: Callable[..., Bench]) -> None:
    site = bench({"gone.txt": "a\nb\nc\n"})
    name = site.write(**{"new.txt": "1\n2\n3\n", "gone.txt": None}).id
    picked = site.service.split_hunks(name, SelectedLines("new.txt", new=frozenset({1})), 1)
    picked += site.service.split_hunks(
        name, SelectedLines("gone.txt", old=frozenset({1})), site.service.get(name).revision
    )
    chosen = [part.hunk.id for part in picked if part.picked]
    partly = site.service.approve(name, chosen).proposal
    assert (site.read("new.txt"), site.read("gone.txt")) == (b"2\n", b"a\nc\n")
    assert [change.op for change in partly.files] == [FileOperation.DELETE, FileOperation.EDIT]
    site.service.deny(name)
    assert (site.read("new.txt"), site.read("gone.txt")) == (b"2\n", b"a\nc\n")


def test_a_denied_line_of_a_deletion_waits_again(bench: Callable[..., Bench]) -> None:
    site = bench({"gone.txt": "a\nb\nc\n"})
    name = site.write(**{"gone.txt": None}).id
    parts = site.service.split_hunks(name, SelectedLines("gone.txt", old=frozenset({1})), 1)
    left = site.service.deny(name, [part.hunk.id for part in parts if part.picked]).proposal
    assert left.files[0].op is FileOperation.EDIT
    again = site.service.undo(name).proposal
    assert again.files[0].op is FileOperation.DELETE
    site.service.approve(name)
    assert site.tree() == {}


def test_a_new_hunk_before_a_similar_part_keeps_the_selection(bench: Callable[..., Bench]) -> None:
    site = bench({"f": "a\nm\na\nb\nm\n"})
    proposal = site.write(f="a\nm\nx\ny\nm\n")
    parts = site.service.split_hunks(
        proposal.id, SelectedLines("f", frozenset([2]), frozenset([2])), proposal.revision
    )
    assert len(parts) == 2
    edited = site.service.replace_proposed_text(proposal.id, "f", "x\nm\nx\ny\nm\n")
    ids = [hunk.id for hunk in edited.hunks]
    assert len(set(ids)) == len(ids) == 2
    site.service.approve(proposal.id, ids[1:], edited.revision)
    assert site.read("f") == b"a\nm\nx\ny\nm\n"


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_hunk_numbers_are_unique_after_a_merge(bench: Callable[..., Bench], decision: str, on_disk: bool) -> None:
    texts = b"a\nb\n", b"x\ny\n"
    site = bench(dict.fromkeys("fg", texts[on_disk]))
    changes = [PathChange(path, FileOrLink(texts[0], 0o644), FileOrLink(texts[1], 0o644)) for path in "fg"]
    proposal = site.service.stage_changes(changes, ProposalOrigin(), "Two files", on_disk=on_disk)

    def numbers() -> list[int]:
        return sorted(hunk.number for hunk in site.service.get(proposal.id).hunks if hunk.old_count + hunk.new_count)

    first = []
    for revision, path in enumerate("fg", 1):
        parts = site.service.split_hunks(proposal.id, SelectedLines(path, frozenset([0]), frozenset([0])), revision)
        first += [part.hunk.id for part in parts if part.picked]
    decide = getattr(site.service, decision)
    decide(proposal.id, first)
    assert len(set(numbers())) == len(numbers()) == 2
    site.service.undo(proposal.id)
    assert len(set(numbers())) == len(numbers()) == 2
    decide(proposal.id)
    site.service.undo(proposal.id)
    assert len(set(numbers())) == len(numbers()) == 2


def test_no_two_hunks_have_a_number_once_all_parts_landed(bench: Callable[..., Bench]) -> None:
    site = bench({"f": "a\nb\n", "g": "a\nb\n"})
    proposal = site.write(f="x\ny\n", g="x\ny\n")
    for revision, path in enumerate("fg", 1):
        site.service.split_hunks(proposal.id, SelectedLines(path, frozenset([0]), frozenset([0])), revision)
    site.service.approve(proposal.id, [hunk.id for hunk in site.service.get(proposal.id).hunks if not hunk.old_start])
    landed = site.service.approve(proposal.id).proposal
    assert len({hunk.number for hunk in landed.hunks}) == len(landed.hunks)
