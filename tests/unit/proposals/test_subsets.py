"""For any files and any edits: any subset of hunks is what git makes of the same hunks, and undo is the identity."""

import random
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.proposals.text.hunks import (
    apply_hunks_to_lines,
    compare_contents,
    format_hunk_header,
    split_document_lines,
)
from app.proposals.values.models import Hunk, HunkState, Proposal, ProposalState
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.sandbox.captured_changes import FileOrLink, PathChange
from tests.unit.proposals.bench import Bench

WORDS = ["a", "b", "c", "", "  d", "e\r", "\x0c", "é", "x" * 50]


@st.composite
def contents(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """A file and what becomes of it, with repeated lines, mixed endings and no final newline among them."""
    old = draw(st.lists(st.sampled_from(WORDS), max_size=25))
    new = list(old)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(new)))
        match draw(st.sampled_from(["insert", "delete", "replace"])):
            case "insert":
                new[at:at] = draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3))
            case "delete":
                del new[at : at + 2]
            case _:
                new[at : at + 1] = [draw(st.sampled_from(WORDS))]
    ends = draw(st.tuples(st.booleans(), st.booleans()))
    made = ["\n".join(lines) + ("\n" if lines and end else "") for lines, end in zip((old, new), ends, strict=True)]
    return made[0].encode(), made[1].encode()


def with_git(base: bytes, result: bytes, chosen: set[str]) -> bytes:
    """The base with the chosen hunks as `git apply` makes them, one by one from the last to the first."""
    new = split_document_lines(result)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "f")
        file.write_bytes(base)
        for hunk in reversed(compare_contents("f", base, result).hunks):
            if hunk.id not in chosen:
                continue
            old = split_document_lines(file.read_bytes())
            end = hunk.old_start + hunk.old_count
            first, last = max(hunk.old_start - 3, 0), min(end + 3, len(old))
            body = [(b" ", line) for line in old[first : hunk.old_start]]
            body += [(b"-", line) for line in old[hunk.old_start : end]]
            body += [(b"+", line) for line in new[hunk.new_start : hunk.new_start + hunk.new_count]]
            body += [(b" ", line) for line in old[end:last]]
            whole = Hunk(
                id="",
                number=0,
                old_start=first,
                old_count=last - first,
                new_start=first,
                new_count=last - first - hunk.old_count + hunk.new_count,
            )
            patch = b"--- a/f\n+++ b/f\n" + format_hunk_header(whole).encode() + b"\n"
            for mark, line in body:
                patch += mark + line + (b"" if line.endswith(b"\n") else b"\n\\ No newline at end of file\n")
            subprocess.run(
                ["git", "apply", "--whitespace=nowarn", "-"], cwd=folder, input=patch, check=True, capture_output=True
            )
        return file.read_bytes() if file.exists() else b""


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(contents(), st.randoms(use_true_random=False))
def test_any_subset_of_hunks_is_applied_like_git(pair: tuple[bytes, bytes], dice: random.Random) -> None:
    base, result = pair
    old, new = split_document_lines(base), split_document_lines(result)
    hunks = compare_contents("f", base, result).hunks
    chosen = {hunk.id for hunk in hunks if dice.random() < 0.5}
    assert b"".join(apply_hunks_to_lines(old, new, hunks, chosen)) == with_git(base, result, chosen)
    assert b"".join(apply_hunks_to_lines(old, new, hunks, {hunk.id for hunk in hunks})) == result
    assert b"".join(apply_hunks_to_lines(old, new, hunks, set())) == base
    assert len({hunk.id for hunk in hunks}) == len(hunks)
    assert [hunk.number for hunk in hunks] == list(range(1, len(hunks) + 1))


def pending(site: Bench, proposal: Proposal) -> list[tuple[int, str, str, tuple[str, ...], tuple[str, ...]]]:
    """The hunks that wait, as the review shows them."""
    return [
        (
            hunk.number,
            hunk.id,
            hunk.part_of,
            file.old[hunk.old_start : hunk.old_start + hunk.old_count],
            file.new[hunk.new_start : hunk.new_start + hunk.new_count],
        )
        for file in site.service.file_diffs(proposal.id)
        for hunk in file.change.hunks
        if hunk.state is HunkState.PENDING
    ]


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("decision", ["approve", "deny"])
def test_remaining_hunk_among_similar_lines_is_as_shown(tmp_path: Path, decision: str, on_disk: bool) -> None:
    base, result = b"x\ny\nx\ny\ny\n", b"y\ny\ny\nx\n"
    site = Bench(tmp_path, {"f": result if on_disk else base})
    change = PathChange("f", FileOrLink(base, 0o644), FileOrLink(result, 0o644))
    proposal = site.service.stage_changes([change], ProposalOrigin(kind=OriginKind.DISK), "f", on_disk=on_disk)
    first, *rest = pending(site, proposal)
    getattr(site.service, decision)(proposal.id, [first[1]])
    assert pending(site, site.service.get(proposal.id)) == rest


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(contents(), st.sampled_from(["approve", "deny"]), st.booleans(), st.randoms(use_true_random=False))
def test_remaining_hunks_after_a_partial_decision_are_as_shown(
    pair: tuple[bytes, bytes], decision: str, on_disk: bool, dice: random.Random
) -> None:
    base, result = pair
    if base == result:
        return
    with tempfile.TemporaryDirectory() as folder:
        site = Bench(Path(folder), {"f": result if on_disk else base})
        change = PathChange("f", FileOrLink(base, 0o644), FileOrLink(result, 0o644))
        proposal = site.service.stage_changes([change], ProposalOrigin(kind=OriginKind.DISK), "f", on_disk=on_disk)
        shown = pending(site, proposal)
        left = set(range(len(shown)))
        while len(left) > 1:
            chosen = {number for number in left if dice.random() < 0.5} or {min(left)}
            if chosen == left:
                chosen.remove(min(left))
            getattr(site.service, decision)(proposal.id, [shown[number][1] for number in chosen])
            left -= chosen
            proposal = site.service.get(proposal.id)
            assert pending(site, proposal) == [shown[number] for number in sorted(left)]
            (file,) = proposal.files
            old, new = (
                split_document_lines(site.store.read_blob(version.sha256))
                for version in (file.base, file.result)
                if version
            )
            assert apply_hunks_to_lines(old, new, file.hunks, {hunk.id for hunk in file.hunks}) == list(new)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(contents(), min_size=1, max_size=3),
    st.lists(st.sampled_from([0o644, 0o755, 0o600, 0o444]), min_size=3, max_size=3),
    st.randoms(use_true_random=False),
)
def test_undo_restores_everything(files: list[tuple[bytes, bytes]], modes: list[int], dice: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder:
        site = Bench(Path(folder), {f"f{n}": base for n, (base, _) in enumerate(files)})
        for number in range(len(files)):
            (site.root / f"f{number}").chmod(modes[number])
        before = site.tree()
        draft = site.service.new_draft("session")
        for number, (_, result) in enumerate(files):
            draft.set_content(f"f{number}", result, [])
        if not draft.has_changes:
            return
        draft.write("made/new", "x\n")
        proposal = site.service.stage(draft, "Change")
        for _ in range(dice.randint(1, 4)):
            proposal = site.service.get(proposal.id)
            pending = [hunk.id for hunk in proposal.hunks if hunk.state is HunkState.PENDING]
            if not pending or not proposal.state.is_pending:
                break
            chosen = dice.sample(pending, dice.randint(1, len(pending)))
            decide = site.service.approve if dice.random() < 0.7 else site.service.deny
            decide(proposal.id, chosen)
        proposal = site.service.get(proposal.id)
        if proposal.state in (ProposalState.APPLIED, ProposalState.PARTLY_APPROVED):
            after = site.tree()
            # Denials of hunks while others wait are taken back on their own, the latest decision first.
            while site.reopened().undo(proposal.id).denial:
                pass
            assert site.tree() == before
            if proposal.state is ProposalState.APPLIED:
                site.service.redo(proposal.id)
                assert site.tree() == after
                site.service.undo(proposal.id)
        assert site.tree() == before
        assert [path.name for path in site.root.iterdir() if path.is_dir()] == []


def test_thousands_of_hunks() -> None:
    base = b"".join(b"line %d\n" % n for n in range(8_000))
    result = b"".join(b"changed %d\n" % n if n % 4 == 0 else b"line %d\n" % n for n in range(8_000))
    hunks = compare_contents("f", base, result).hunks
    assert len(hunks) == 2_000
    odd = {hunk.id for hunk in hunks if hunk.number % 2}
    landed = b"".join(apply_hunks_to_lines(split_document_lines(base), split_document_lines(result), hunks, odd))
    assert landed.count(b"changed") == 1_000
    decided = [hunk.model_copy(update={"state": HunkState.APPLIED}) if hunk.id in odd else hunk for hunk in hunks]
    left = compare_contents("f", landed, result, previous=decided).hunks
    assert [hunk.id for hunk in left] == [hunk.id for hunk in hunks]
