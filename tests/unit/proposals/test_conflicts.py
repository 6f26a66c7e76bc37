"""Conflicts that the user resolves: what they are shown, what becomes of the proposal, and that the disk waits."""

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.proposals.decide.conflicts import ConflictChoice, FileConflict, UnsavedEdit
from app.proposals.text.document import Document
from app.proposals.text.file_warnings import describe_file_facts
from app.proposals.values.models import FileOperation, Proposal, ProposalState
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.proposals.values.proposal_errors import ChangedSinceShown, InvalidUserEdit, StaleProposal
from app.runtime.unfinished_work import unrecorded_decision_event
from app.sandbox.captured_changes import LINK_MODE, FileOrLink, PathChange
from tests.examples import scale_examples
from tests.unit.proposals.bench import Bench, numbered

Make = Callable[..., Bench]
DISK, PROPOSED, BOTH = ConflictChoice.DISK, ConflictChoice.PROPOSED, ConflictChoice.BOTH
ORIGIN = ProposalOrigin(kind=OriginKind.REF, ref="side")


def resolve(site: Bench, conflict: FileConflict, *choices: ConflictChoice) -> Proposal:
    """Save a choice for each region, or for the whole file."""
    resolution = choices[0] if conflict.whole else conflict.text_with_choices(choices)
    return site.service.resolve_conflict(conflict.proposal, conflict.path, resolution, conflict.disk)


def resolve_and_approve(site: Bench, conflict: FileConflict, *choices: ConflictChoice) -> Proposal:
    """Save the choices and approve the proposal; return it as it was saved."""
    saved = resolve(site, conflict, *choices)
    site.service.approve(saved.id, revision=saved.revision)
    return saved


def stage(site: Bench, **changes: tuple[FileOrLink | None, FileOrLink | None]) -> Proposal:
    """Stage paths as they were and as they are to be."""
    found = [PathChange(path, before, after) for path, (before, after) in changes.items()]
    return site.service.stage_changes(found, ORIGIN, "From elsewhere")


def leaf(content: str | bytes, mode: int = 0o644) -> FileOrLink:
    return FileOrLink(content.encode() if isinstance(content, str) else content, mode)


# The regions


@st.composite
def edited(draw: st.DrawFn, base: list[str]) -> list[str]:
    lines = list(base)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(lines)))
        new = st.integers(0, 5).map(str)
        lines[at : at + draw(st.integers(0, 2))] = draw(st.lists(new, max_size=2))
    return lines


@st.composite
def triples(draw: st.DrawFn) -> tuple[list[str], list[str], list[str]]:
    """A base and what two sides made of it, with at least one line that both changed."""
    above, below = (draw(st.lists(st.integers(0, 5).map(str), max_size=12)) for _ in range(2))
    disk = [*draw(edited(above)), "disk", *draw(edited(below))]
    proposed = [*draw(edited(above)), "proposed", *draw(edited(below))]
    return [*above, "base", *below], disk, proposed


def text_of(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=scale_examples(40))
@given(triples())
def test_regions_and_whole_sides_are_those_of_git(triple: tuple[list[str], list[str], list[str]]) -> None:
    base, disk, proposed = triple
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        site = Bench(folder, {"a.txt": text_of(base)})
        stage(site, **{"a.txt": (leaf(text_of(base)), leaf(text_of(proposed)))})
        site.put(**{"a.txt": text_of(disk)})
        conflict = site.service.load_file_conflict("P1")
        for side, lines in (("base", base), ("disk", disk), ("proposed", proposed)):
            (folder / side).write_text(text_of(lines))

        def git(*options: str) -> str:
            labels = ("-L", "on disk now", "-L", "before", "-L", "proposed in P1")
            command = ("git", "merge-file", "-p", *options, *labels, "disk", "base", "proposed")
            return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stdout

        count = len(conflict.regions)
        assert conflict.text_with_choices() == git("--diff3")
        assert conflict.text_with_choices([DISK] * count) == git("--ours")
        assert conflict.text_with_choices([PROPOSED] * count) == git("--theirs")
        assert [block.region.disk for block in conflict.unresolved_blocks(conflict.text_with_choices())] == [
            region.disk for region in conflict.regions
        ]


Style = tuple[str, bytes, bool]
"""Line ending, byte order mark, whether it ends in a newline."""
STYLES = st.tuples(st.sampled_from(["\n", "\r\n"]), st.sampled_from([b"", b"\xef\xbb\xbf"]), st.booleans())


def spelled(lines: list[str], style: Style) -> bytes:
    ending, mark, closed = style
    return mark + (ending.join(lines) + (ending if closed else "")).encode()


def merged(base: object, ours: object, theirs: object) -> object:
    return theirs if base == ours else ours


@settings(max_examples=scale_examples(40), deadline=None)
@given(triples(), STYLES, STYLES, STYLES, st.data())
def test_resolved_text_is_what_is_approved(
    triple: tuple[list[str], list[str], list[str]], base: Style, ours: Style, theirs: Style, data: st.DataObject
) -> None:
    styles = (base, ours, theirs)
    with tempfile.TemporaryDirectory() as name:
        before = spelled(triple[0], base)
        site = Bench(Path(name), {"a.txt": before, "b.txt": "b\n"})
        wanted = leaf(spelled(triple[2], theirs))
        stage(site, **{"a.txt": (leaf(before), wanted), "b.txt": (leaf("b\n"), leaf("c\n"))})
        site.put(**{"a.txt": spelled(triple[1], ours)})
        found = site.tree()
        conflict = site.service.load_file_conflict("P1")
        choices = [data.draw(st.sampled_from([DISK, PROPOSED, BOTH])) for _ in conflict.regions]
        text = conflict.text_with_choices(choices)
        saved = site.service.resolve_conflict("P1", "a.txt", text, conflict.disk)
        assert saved.state is ProposalState.PENDING and saved.reason == ""
        assert [change.edited for change in saved.files] == [True, False]
        assert site.service.resolve_conflict("P1", "a.txt", text, conflict.disk) == saved, "twice is once"
        assert site.tree() == found
        site.service.approve("P1", revision=saved.revision)
        written = Document(site.read("a.txt"))
        assert written.text == text
        assert site.read("b.txt") == b"c\n"
        assert not written.has_mixed_eol
        # A single line that nothing ends tells no ending.
        tells = all(style[0].encode() in spelled(lines, style) for lines, style in zip(triple, styles, strict=True))
        if tells and len(written.lines) > 1:
            assert written.eol == merged(base[0], ours[0], theirs[0])
        assert written.byte_order_mark == merged(base[1], ours[1], theirs[1])
        site.service.undo("P1")
        assert site.tree() == found


# The proposal


def test_a_resolved_proposal_is_pending_again_on_the_disk_content(bench: Make) -> None:
    site = bench({"a.txt": numbered(20)})
    proposal = site.edit("a.txt", ("line 3\n", "three\n"), ("line 10\n", "ten\n"))
    site.put(**{"a.txt": numbered(20, l10="mine", l18="also mine")})
    (site.root / "a.txt").chmod(0o755)
    conflict = site.service.load_file_conflict("P1")
    assert conflict.reason == "a.txt changed at line 10, where the proposal changes it too"
    (region,) = conflict.regions
    assert (region.line, region.base, region.disk, region.proposed) == (10, ("line 10",), ("mine",), ("ten",))
    saved = resolve(site, conflict, BOTH)
    assert saved.state is ProposalState.PENDING
    assert saved.revision > proposal.revision
    (change,) = saved.files
    assert (change.edited, change.rebased, change.conflicts, change.added) == (True, False, (), 2)
    assert site.service.rebase_pending() == []
    site.service.approve("P1", revision=saved.revision)
    expected = numbered(20, l3="three", l10="mine\nten", l18="also mine")
    assert site.tree() == {"a.txt": (expected.encode(), 0o755)}


def test_resolved_proposal_is_rebased_also_after_a_restart(bench: Make) -> None:
    site = bench({"a.txt": numbered(20)})
    site.edit("a.txt", ("line 10\n", "ten\n"))
    site.put(**{"a.txt": numbered(20, l10="mine")})
    resolve(site, site.service.load_file_conflict("P1"), PROPOSED)
    site.put(**{"a.txt": numbered(20, l10="mine", l1="first")})
    (moved,) = site.service.rebase_pending()
    assert moved.files[0].rebased
    site.put(**{"a.txt": numbered(20, l10="another")})
    (stale,) = site.reopened().rebase_pending()
    assert stale.state is ProposalState.STALE
    (region,) = site.service.load_file_conflict("P1").regions
    assert (region.base, region.disk, region.proposed) == (("mine",), ("another",), ("ten",))


def test_several_conflicting_files_are_resolved_one_by_one(bench: Make) -> None:
    site = bench({"a.txt": "a\n", "b.txt": "b\n", "c.txt": numbered(9)})
    site.write(**{"a.txt": "A\n", "b.txt": "B\n", "c.txt": numbered(9, l2="two")})
    site.put(**{"a.txt": "1\n", "b.txt": "2\n", "c.txt": numbered(9, l8="eight")})
    first = site.service.load_file_conflict("P1", "b.txt")
    assert (first.path, first.others) == ("b.txt", 1)
    saved = resolve(site, first, PROPOSED)
    assert saved.state is ProposalState.STALE and saved.reason.startswith("a.txt ")
    second = site.service.load_file_conflict("P1", "c.txt")
    assert (second.path, second.others) == ("a.txt", 0)
    saved = resolve(site, second, DISK)
    assert [(change.path, change.edited, change.rebased) for change in saved.files] == [
        ("a.txt", True, False),
        ("b.txt", True, False),
        ("c.txt", False, True),
    ]
    site.service.approve("P1", revision=saved.revision)
    assert site.read("a.txt") == b"1\n" and site.read("b.txt") == b"B\n"
    assert site.read("c.txt").decode() == numbered(9, l2="two", l8="eight")
    with pytest.raises(ChangedSinceShown, match="fits again"):
        site.edit("a.txt", ("1", "2"))
        site.service.load_file_conflict("P2")


def test_proposal_stacked_on_a_denied_one_is_resolved_against_the_disk(bench: Make) -> None:
    site = bench({"a.txt": numbered(9)})
    site.edit("a.txt", ("line 2\n", "two\n"))
    site.edit("a.txt", ("two\n", "the second\n"))
    site.edit("a.txt", ("line 5\n", "five\n"))
    assert "Builds on P1, P2, still pending." in describe_file_facts(site.service.get("P3").files[0])
    site.service.deny("P3")
    site.service.deny("P1")
    assert not [*describe_file_facts(site.service.get("P3").files[0])], "it is decided"
    stale = site.service.get("P2")
    assert stale.state is ProposalState.STALE and stale.files[0].stacked_on == ()
    conflict = site.service.load_file_conflict("P2")
    assert conflict.labels.disk == "on disk now"
    saved = resolve_and_approve(site, conflict, PROPOSED)
    assert saved.state is ProposalState.PENDING and saved.files[0].stacked_on == ()
    assert site.read("a.txt").decode() == numbered(9, l2="the second")


def test_resolved_conflict_with_a_pending_proposal_stacks_on_it(bench: Make) -> None:
    site = bench({"a.txt": numbered(9)})
    site.edit("a.txt", ("line 2\n", "two\n"))
    site.edit("a.txt", ("two\n", "the second\n"))
    site.service.replace_proposed_text("P1", "a.txt", numbered(9, l2="zwei"))
    conflict = site.service.load_file_conflict("P2")
    assert conflict.labels.disk == "with P1, still pending"
    assert conflict.regions[0].disk == ("zwei",)
    saved = resolve(site, conflict, BOTH)
    assert saved.files[0].stacked_on == ("P1",)
    site.service.approve("P1")
    site.service.approve("P2", revision=saved.revision)
    assert site.read("a.txt").decode() == numbered(9, l2="zwei\nthe second")


def test_written_hunks_of_a_resolved_proposal_stay_and_can_be_undone(bench: Make) -> None:
    site = bench({"a.txt": numbered(30)})
    site.edit("a.txt", ("line 3\n", "three\n"), ("line 20\n", "twenty\n"))
    site.service.approve("P1", ["1"])
    site.put(**{"a.txt": numbered(30, l3="three", l20="mine")})
    saved = resolve_and_approve(site, site.service.load_file_conflict("P1"), PROPOSED)
    assert saved.state is ProposalState.PARTLY_APPROVED
    assert site.read("a.txt").decode() == numbered(30, l3="three", l20="twenty")
    site.service.undo("P1")
    assert site.read("a.txt").decode() == numbered(30, l20="mine")


def test_a_file_changed_again_is_reported_and_merged(bench: Make) -> None:
    site = bench({"a.txt": numbered(20)})
    site.edit("a.txt", ("line 10\n", "ten\n"))
    site.put(**{"a.txt": numbered(20, l10="mine")})
    conflict = site.service.load_file_conflict("P1")
    text = conflict.text_with_choices([BOTH]).replace("line 15", "by hand")
    site.put(**{"a.txt": numbered(20, l10="mine", l2="later")})
    with pytest.raises(ChangedSinceShown, match=r"a\.txt has changed again since you began; nothing was saved"):
        site.service.resolve_conflict("P1", "a.txt", text, conflict.disk)
    again = site.service.load_file_conflict("P1", "a.txt", UnsavedEdit(text, conflict.disk_text))
    assert again.regions == ()
    assert again.text_with_choices() == numbered(20, l2="later", l10="mine\nten", l15="by hand")
    site.put(**{"a.txt": numbered(20, l10="mine", l15="theirs")})
    again = site.service.load_file_conflict("P1", "a.txt", UnsavedEdit(text, conflict.disk_text))
    (region,) = again.regions
    assert (region.base, region.disk, region.proposed) == (("line 15",), ("theirs",), ("by hand",))
    assert (again.labels.base, again.labels.proposed) == ("when you began", "your text")
    resolve_and_approve(site, again, PROPOSED)
    assert site.read("a.txt").decode() == numbered(20, l10="mine\nten", l15="by hand")


def test_a_resolution_whose_file_was_deleted_recreates_it(bench: Make) -> None:
    site = bench({"a.txt": "a\n"})
    site.edit("a.txt", ("a", "b"))
    site.put(**{"a.txt": "c\n"})
    conflict = site.service.load_file_conflict("P1")
    (site.root / "a.txt").unlink()
    again = site.service.load_file_conflict("P1", "a.txt", UnsavedEdit("my text\n", conflict.disk_text))
    assert again.whole and again.regions[0].proposed == ("my text",)
    saved = site.service.resolve_conflict("P1", "a.txt", "my text\n", again.disk)
    assert saved.files[0].op is FileOperation.CREATE
    site.service.approve("P1", revision=saved.revision)
    assert site.read("a.txt") == b"my text\n"


def test_a_stale_line_is_refused_until_resolved(bench: Make) -> None:
    site = bench({"a.txt": "a\n"})
    site.edit("a.txt", ("a", "b"))
    site.put(**{"a.txt": "c\n"})
    site.service.rebase_pending()
    conflict = site.service.load_file_conflict("P1")
    with pytest.raises(InvalidUserEdit, match=r"leaves a\.txt as it is, and nothing of P1 is left; deny it"):
        resolve(site, conflict, DISK)
    assert site.service.get("P1").state is ProposalState.STALE
    text = conflict.text_with_choices().replace("=======\n", "")
    assert conflict.unresolved_blocks(text) == []
    assert conflict.find_stray_marker(text) == 0
    with pytest.raises(StaleProposal, match="or resolve it in the review"):
        site.service.approve("P1")


def test_markers_in_a_file_are_no_conflicts(bench: Make) -> None:
    shown = "<<<<<<< on disk now\n||||||| before\n=======\n>>>>>>> proposed in P1\n"
    site = bench({"a.txt": f"{shown}x\n{shown}"})
    site.edit("a.txt", ("x", "y"))
    site.put(**{"a.txt": f"{shown}z\n{shown}"})
    conflict = site.service.load_file_conflict("P1")
    assert len(conflict.unresolved_blocks(conflict.text_with_choices())) == 1
    assert conflict.text_with_choices([PROPOSED]) == f"{shown}y\n{shown}"
    assert conflict.find_stray_marker(conflict.text_with_choices()) >= 0
    assert conflict.find_stray_marker(conflict.text_with_choices([PROPOSED])) == -1


# Kinds of files


def test_a_deleted_file_is_recreated_or_left(bench: Make) -> None:
    site = bench({"a.txt": "a\n", "b.txt": "b\n", "c.sh": "c\n"})
    (site.root / "c.sh").chmod(0o755)
    site.write(**{"a.txt": "A\n", "b.txt": "B\n", "c.sh": "C\n"})
    (site.root / "a.txt").unlink()
    (site.root / "c.sh").unlink()
    conflict = site.service.load_file_conflict("P1")
    assert conflict.whole and conflict.disk is None and conflict.labels.disk == "on disk now: no file"
    site.service.resolve_conflict("P1", "a.txt", DISK, None)
    saved = site.service.resolve_conflict("P1", "c.sh", PROPOSED, None)
    assert saved.state is ProposalState.PENDING
    assert [change.already_applied for change in saved.files] == [True, False, False]
    assert saved.files[2].op is FileOperation.CREATE
    assert "a.txt" not in site.service.unified_diff("P1")
    site.service.approve("P1", revision=saved.revision)
    assert site.tree() == {"b.txt": (b"B\n", 0o644), "c.sh": (b"C\n", 0o755)}
    site.service.undo("P1")
    assert site.contents() == {"b.txt": b"b\n"}


def test_unresolved_files_follow_the_disk(bench: Make) -> None:
    site = bench({"a.txt": "a\n", "b.txt": "b\n"})
    site.write(**{"a.txt": "A\n", "b.txt": "B\n"})
    (site.root / "a.txt").unlink()
    site.service.resolve_conflict("P1", "a.txt", DISK, None)
    site.put(**{"a.txt": "back\n"})
    site.service.rebase_pending()
    waiting = site.service.get("P1")
    assert waiting.state is ProposalState.PENDING
    site.service.approve("P1", revision=waiting.revision)
    assert (site.read("a.txt"), site.read("b.txt")) == (b"back\n", b"B\n")


def test_a_file_created_by_both_conflicts_where_it_differs(bench: Make) -> None:
    site = bench({})
    stage(site, **{"run.sh": (None, leaf("#!/bin/sh\necho one\nexit\n", 0o755))})
    site.put(**{"run.sh": "#!/bin/sh\necho two\nexit\n"})
    (site.root / "run.sh").chmod(0o644)
    conflict = site.service.load_file_conflict("P1")
    (region,) = conflict.regions
    assert (region.base, region.disk, region.proposed) == ((), ("echo two",), ("echo one",))
    saved = resolve_and_approve(site, conflict, PROPOSED)
    assert saved.files[0].op is FileOperation.EDIT
    assert site.tree() == {"run.sh": (b"#!/bin/sh\necho one\nexit\n", 0o755)}


@pytest.mark.parametrize("side", [DISK, PROPOSED])
def test_a_deletion_and_a_binary_file_are_taken_from_one_side(bench: Make, side: ConflictChoice) -> None:
    site = bench({"a.bin": b"\0a", "b.txt": "b\n", "c.txt": "c\n"})
    changes = {
        "a.bin": (leaf(b"\0a"), leaf(b"\0b")),
        "b.txt": (leaf("b\n"), leaf("B\n")),
        "c.txt": (leaf("c\n"), None),
    }
    stage(site, **changes)
    site.put(**{"a.bin": b"\0c", "c.txt": b"changed\n"})
    conflict = site.service.load_file_conflict("P1")
    assert conflict.whole and conflict.regions[0].disk == () == conflict.regions[0].proposed
    with pytest.raises(InvalidUserEdit, match="as a whole"):
        site.service.resolve_conflict("P1", "a.bin", BOTH, conflict.disk)
    site.service.resolve_conflict("P1", "a.bin", side, conflict.disk)
    conflict = site.service.load_file_conflict("P1")
    assert conflict.whole and conflict.labels.proposed == "proposed in P1: no file"
    resolve_and_approve(site, conflict, side)
    kept = {"a.bin": b"\0c", "c.txt": b"changed\n"} if side is DISK else {"a.bin": b"\0b"}
    assert site.contents() == {"b.txt": b"B\n"} | kept
    site.service.undo("P1")
    assert site.contents() == {"a.bin": b"\0c", "b.txt": b"b\n", "c.txt": b"changed\n"}


def test_a_symbolic_link_is_taken_from_one_side(bench: Make) -> None:
    site = bench({"a.txt": "a\n", "c.txt": "c\n"})
    stage(site, **{"a.txt": (leaf("a\n"), leaf("b\n"))})
    stage(site, **{"c.txt": (leaf("c\n"), FileOrLink(b"a.txt", LINK_MODE))})
    (site.root / "a.txt").unlink()
    (site.root / "a.txt").symlink_to("b.txt")
    site.put(**{"c.txt": "changed\n"})
    conflict = site.service.load_file_conflict("P1")
    assert conflict.whole and conflict.labels.disk == "on disk now: a symbolic link to b.txt"
    resolve_and_approve(site, conflict, PROPOSED)
    assert not (site.root / "a.txt").is_symlink() and site.read("a.txt") == b"b\n"
    resolve_and_approve(site, site.service.load_file_conflict("P2"), PROPOSED)
    assert (site.root / "c.txt").readlink() == Path("a.txt")


def test_a_moved_file_is_merged_in_its_new_place(bench: Make) -> None:
    site = bench({"a.txt": numbered(9)})
    site.rename("a.txt", "b.txt", ("line 5\n", "five\n"))
    site.put(**{"a.txt": numbered(9, l5="mine")})
    conflict = site.service.load_file_conflict("P1")
    assert conflict.path == "b.txt" and conflict.regions[0].disk == ("mine",)
    saved = resolve_and_approve(site, conflict, BOTH)
    assert saved.files[0].op is FileOperation.RENAME
    assert site.tree().keys() == {"b.txt"}
    assert site.read("b.txt").decode() == numbered(9, l5="mine\nfive")


def test_a_file_moved_there_by_another_process_is_merged(bench: Make) -> None:
    site = bench({"a.txt": numbered(9)})
    site.rename("a.txt", "b.txt", ("line 5\n", "five\n"))
    (site.root / "a.txt").rename(site.root / "b.txt")
    site.put(**{"b.txt": numbered(9, l5="mine", l1="first")})
    conflict = site.service.load_file_conflict("P1")
    saved = resolve(site, conflict, PROPOSED)
    assert (saved.files[0].op, saved.files[0].old_path) == (FileOperation.EDIT, "")
    site.service.approve("P1", revision=saved.revision)
    assert site.read("b.txt").decode() == numbered(9, l1="first", l5="five")


def test_conflict_without_text_says_what_to_do(bench: Make) -> None:
    site = bench({"a.txt": "a\n"})
    site.rename("a.txt", "b.txt")
    site.write(**{"new.txt": "x\n"})
    site.put(**{"b.txt": "here\n"})
    (site.root / "new.txt").mkdir()
    (site.root / "new.txt/inside").write_text("x")
    with pytest.raises(InvalidUserEdit, match=r"b\.txt exists now, so a\.txt can't be moved there; move one away"):
        site.service.load_file_conflict("P1")
    with pytest.raises(InvalidUserEdit, match=r"new\.txt can't be made: new\.txt is a folder; move that away"):
        site.service.load_file_conflict("P2")


@pytest.mark.parametrize("encoding", ["utf-16-le", "latin-1"])
def test_other_encodings_stay(bench: Make, encoding: str) -> None:
    def spell(middle: str) -> bytes:
        text = numbered(3, l2=middle).replace("line 1", "grün")
        return (b"\xff\xfe" if encoding == "utf-16-le" else b"") + text.encode(encoding)

    site = bench({"a.txt": spell("line 2")})
    stage(site, **{"a.txt": (leaf(spell("line 2")), leaf(spell("two")))})
    site.put(**{"a.txt": spell("mine")})
    resolve_and_approve(site, site.service.load_file_conflict("P1"), BOTH)
    assert site.read("a.txt") == spell("mine\ntwo")


# What a denial tells


def test_a_denial_of_a_stale_proposal_keeps_the_reason_and_the_disk_text_unless_secret(bench: Make) -> None:
    site = bench({"a.txt": numbered(20), "b.txt": "b\n", ".env": "TOKEN=1\n"})
    site.write(**{"a.txt": numbered(20, l10="ten"), "b.txt": "B\n"})
    stage(site, **{".env": (leaf("TOKEN=1\n"), leaf("TOKEN=2\n"))})
    site.put(**{"a.txt": numbered(20, l10="mine"), ".env": "TOKEN=very-secret\n"})
    site.service.rebase_pending()
    denied = site.service.deny("P1").proposal
    last = denied.last
    assert last is not None
    assert unrecorded_decision_event(denied, last).stale == last.stale, "also where it is recorded after a crash"
    assert last.stale.splitlines() == [
        "P1 was stale and could not be approved: a.txt changed at line 10, where the proposal changes it too.",
        "  a.txt now contains:",
        *(f"    {number}\t{'mine' if number == 10 else f'line {number}'}" for number in range(8, 13)),
    ]
    last = site.service.deny("P2").proposal.last
    assert last is not None and ".env changed at line 1" in last.stale and "very-secret" not in last.stale
    site.edit("b.txt", ("b", "c"))
    last = site.service.deny("P3").proposal.last
    assert last is not None and last.stale == ""
