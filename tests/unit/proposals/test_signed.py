"""What was signed is not asked for again: `stage --worktree` and what leads to it, against the record."""

import os
import subprocess
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from app.proposals.decide.proposal_commits import commit_proposal, make_trailers
from app.proposals.text.hunks import has_changed_lines
from app.proposals.values.models import FileVersion, HunkState, Proposal
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.proposals.values.proposal_errors import NothingToStage, NothingToUndo, UndoConflict
from app.proposals.values.record_entries import DecisionRecordEntry, RecordChainEnd, make_record_entry
from app.sandbox.captured_changes import LINK_MODE, FileOrLink, PathChange
from tests.unit.proposals.bench import Bench, numbered
from tests.unit.proposals.memory_store import MemoryStore
from tests.unit.proposals.repositories import git, repository

Make = Callable[..., Bench]
Hunk = tuple[tuple[str, ...], tuple[str, ...]]

DISK = ProposalOrigin(kind=OriginKind.DISK, ref="the index")


def leaf(site: Bench, path: str) -> FileOrLink | None:
    place = site.root / path
    if place.is_symlink():
        return FileOrLink(str(place.readlink()).encode(), LINK_MODE)
    return FileOrLink(place.read_bytes(), place.stat().st_mode & 0o7777) if place.exists() else None


def stage(site: Bench, *, everything: bool = False, **git: str | None) -> Proposal:
    """What is on disk, against what git has of these files."""
    changes = []
    for name, text in git.items():
        before = None if text is None else FileOrLink(text.encode(), 0o644)
        if before != (after := leaf(site, name)):
            changes.append(PathChange(name, before, after))
    return site.service.stage_changes(changes, DISK, "", on_disk=True, include_approved=everything)


def hunks(site: Bench, proposal: Proposal, numbers: Collection[str] | None = None) -> list[Hunk]:
    """The removed and added lines of each hunk that waits."""
    found: list[Hunk] = []
    for change in proposal.files:
        old, new = lines(site, change.base), lines(site, change.result)
        found += [
            (
                tuple(old[hunk.old_start : hunk.old_start + hunk.old_count]),
                tuple(new[hunk.new_start : hunk.new_start + hunk.new_count]),
            )
            for hunk in change.hunks
            if hunk.state is HunkState.PENDING and has_changed_lines(hunk)
            if numbers is None or str(hunk.number) in numbers
        ]
    return found


def lines(site: Bench, version: FileVersion | None) -> list[str]:
    return site.store.read_blob(version.sha256).decode().split("\n")[:-1] if version else []


BEFORE = numbered(30)


def test_only_unsigned_hunks_are_staged(bench: Make) -> None:
    site = bench({"a": BEFORE})
    site.service.approve(site.edit("a", ("line 3\n", "three\n"), ("line 15\n", "fifteen\n")).id)
    site.service.approve(site.edit("a", ("line 20\n", "twenty\n")).id, None)
    with pytest.raises(NothingToStage, match="all 3 hunks were signed in P1, P2; --all stages them"):
        stage(site, a=BEFORE)
    with pytest.raises(NothingToStage, match="all 2 hunks were signed in P1, P2"):
        stage(site, a=numbered(30, l3="three"))
    site.put(a=site.read("a").decode().replace("line 28\n", "mine\n"))
    proposal = stage(site, a=BEFORE)
    assert hunks(site, proposal) == [(("line 28",), ("mine",))]
    assert [one.description for one in proposal.left_out] == ["3 hunks left out: signed in P1, P2"]
    every = stage(site, everything=True, a=BEFORE)
    assert (len(hunks(site, every)), every.left_out) == (4, ())


def test_undone_change_is_no_longer_signed(bench: Make) -> None:
    site = bench({"a": BEFORE})
    first = site.edit("a", ("line 3\n", "three\n")).id
    site.service.approve(first)
    with pytest.raises(NothingToStage, match=f"1 hunk was signed in {first}; --all stages it"):
        stage(site, a=BEFORE)
    second = site.edit("a", ("line 15\n", "fifteen\n")).id
    site.service.approve(second)
    site.service.undo(first)
    site.put(a=site.read("a").decode().replace("line 3\n", "three\n"))
    assert hunks(site, stage(site, a=BEFORE)) == [(("line 3",), ("three",))]
    site.service.deny(site.service.pending()[0].id)
    site.service.redo(first)
    with pytest.raises(NothingToStage, match=f"all 2 hunks were signed in {first}, {second}"):
        stage(site, a=BEFORE)


def test_approved_and_undone_hunks_are_staged_again(bench: Make) -> None:
    site = bench({"a": numbered(30, l3="three", l15="fifteen")})
    first = stage(site, a=BEFORE).id
    site.service.approve(first, ["1"])
    site.service.approve(first)
    site.service.undo(first)
    (again,) = [each for each in site.service.pending() if each.id == first]
    assert hunks(site, again) == [(("line 15",), ("fifteen",))]
    site.put(b="new\n")
    later = stage(site, a=BEFORE, b=None)
    assert hunks(site, later) == [(("line 15",), ("fifteen",)), ((), ("new",))]
    assert [one.description for one in later.left_out] == [f"1 hunk left out: signed in {first}"]


def test_a_hunk_changed_after_its_approval_or_denial_is_staged_against_the_approved_text(bench: Make) -> None:
    site = bench({"a": BEFORE, "b": BEFORE})
    site.service.approve(site.edit("a", ("line 3\n", "three\n")).id)
    site.put(a=numbered(30, l3="THREE", l4="four"))
    assert hunks(site, stage(site, a=BEFORE)) == [(("three", "line 4"), ("THREE", "four"))]
    site.put(a=numbered(30, l20="twenty"))
    assert hunks(site, stage(site, a=BEFORE)) == [(("line 20",), ("twenty",))], "what git has again is no change"
    part = site.edit("b", ("line 3\n", "three\n"), ("line 15\n", "fifteen\n"))
    site.service.approve(part.id, ["1"])
    site.service.deny(part.id)
    site.put(b=numbered(30, l3="three", l15="fifteen"))
    assert hunks(site, stage(site, b=BEFORE)) == [(("line 15",), ("fifteen",))]


def test_the_users_own_changes_around_approvals_are_staged(bench: Make) -> None:
    mine, removed = BEFORE.replace("line 3\nline 4\n", "mine\n"), BEFORE.replace("line 5\n", "")
    site = bench({"a": mine, "b": removed, "c": numbered(30, l28="mine")})
    site.service.approve(site.edit("a", ("mine\n", "model\n")).id)
    site.service.approve(site.edit("b", ("line 4\n", "line 4\nnew\n")).id)
    # No approval of this one began with what git has, and one is about lines that the user had changed.
    site.service.approve(site.edit("c", ("line 3\n", "three\n")).id)
    site.put(c=numbered(30, l3="THREE", l28="mine"))
    site.service.approve(site.edit("c", ("THREE\n", "drei\n")).id)
    assert hunks(site, stage(site, a=BEFORE)) == [(("line 3", "line 4"), ("model",))]
    assert hunks(site, stage(site, b=BEFORE)) == [(("line 5",), ())]
    assert hunks(site, stage(site, c=BEFORE)) == [(("line 28",), ("mine",))]


def test_approved_lines_next_to_the_users_are_not_staged_again(bench: Make) -> None:
    site = bench({"a": BEFORE.replace("line 8\n", "line 8\nmine 1\nmine 2\n")})
    site.service.approve(site.edit("a", ("mine 2\n", "model\n")).id)
    assert hunks(site, stage(site, a=BEFORE)) == [((), ("mine 1",))]
    site.service.deny(site.service.pending()[0].id)
    site.put(a=BEFORE.replace("line 8\n", "line 8\nmine 1\nmodel\n"))
    site.service.approve(site.edit("a", ("line 7\nline 8\nmine 1\n", "")).id)
    with pytest.raises(NothingToStage, match="signed in P1, P3"):
        stage(site, a=BEFORE)


def test_approvals_older_than_the_commit_do_not_count(bench: Make) -> None:
    """It was committed, and a later commit took it back."""
    site = bench({"a": BEFORE})
    site.service.approve(site.edit("a", ("line 3\n", "three\n")).id)
    reverted = numbered(30, l20="twenty")
    site.put(a=reverted)
    site.service.approve(site.edit("a", ("line 15\n", "fifteen\n")).id)
    site.put(a=numbered(30, l3="three", l15="fifteen", l20="twenty"))
    assert hunks(site, stage(site, a=reverted)) == [(("line 3",), ("three",))]


def test_new_deleted_renamed_and_binary_files_modes_and_links(bench: Make) -> None:
    site = bench({"gone": "g\n", "old": BEFORE, "tool": "t\n", "bin": b"\0\1"})
    draft = site.service.new_draft("session")
    draft.write("new", "new\n")
    draft.delete("gone")
    draft.rename("old", "moved")
    site.service.approve(site.service.stage(draft, "Several").id)
    (site.root / "tool").chmod(0o755)
    (site.root / "link").symlink_to("new")
    site.put(bin=b"\0\2")
    git: dict[str, Any] = {"gone": "g\n", "old": BEFORE, "tool": "t\n", "bin": "\0\1"}
    git |= dict.fromkeys(("moved", "new", "link"))
    proposal = stage(site, **git)
    assert [change.path for change in proposal.files] == ["bin", "link", "tool"]
    assert [one.description for one in proposal.left_out] == ["4 hunks left out: signed in P1"]
    site.service.approve(proposal.id)
    with pytest.raises(NothingToStage, match="all 7 hunks were signed in P1, P2"):
        stage(site, **git)
    (site.root / "new").chmod(0o755)
    site.put(moved=numbered(30, l3="three"))
    after = stage(site, **git)
    assert [(change.path, change.op) for change in after.files] == [("moved", "edit"), ("new", "mode")]


def test_hunks_pending_in_another_proposal_are_not_staged_again(bench: Make) -> None:
    site = bench({"a": numbered(30, l3="three"), "b": "b\n"})
    first = stage(site, a=BEFORE, b=None)
    with pytest.raises(NothingToStage, match="1 hunk waits in P1; `signoff show P1` shows it"):
        stage(site, a=BEFORE)
    site.put(a=numbered(30, l3="three", l20="twenty"))
    second = stage(site, a=BEFORE)
    assert hunks(site, second) == [(("line 20",), ("twenty",))]
    assert [one.description for one in second.left_out] == [f"1 hunk left out: waiting in {first.id}"]
    site.service.deny(first.id, ["1"])
    assert site.read("a").decode() == numbered(30, l20="twenty")
    site.service.deny(second.id)
    assert site.read("a").decode() == BEFORE


def test_a_staged_commit_leaves_out_signed_and_pending_hunks(bench: Make) -> None:
    site = bench({"a": BEFORE})
    signed = site.edit("a", ("line 3\n", "three\n")).id
    site.service.approve(signed)
    site.put(a=numbered(30, l9="nine"))
    waits = site.edit("a", ("line 15\n", "fifteen\n")).id
    commit = numbered(30, l3="three", l9="nine", l15="fifteen", l24="new")
    change = PathChange("a", FileOrLink(BEFORE.encode(), 0o644), FileOrLink(commit.encode(), 0o644))
    proposal = site.service.stage_changes([change], ProposalOrigin(kind=OriginKind.REF, ref="x"), "A commit")
    assert hunks(site, proposal) == [(("line 24",), ("new",))]
    assert [(one.hunks, one.why, one.proposals) for one in proposal.left_out] == [
        (1, "signed", (signed,)),
        (1, "there", ()),
        (1, "waiting", (waits,)),
    ]


def test_a_staged_commit_does_not_list_files_whose_changes_are_all_here(bench: Make) -> None:
    present = {"a": numbered(30, l3="three", l20="20"), "mode": "m\n", "new": "n\n"}
    site = bench(present | {"b": BEFORE})
    after = {"a": numbered(30, l3="three"), "b": numbered(30, l9="nine"), "gone": None, "new": "n\n"}
    before = {"a": BEFORE, "b": BEFORE, "gone": "g\n", "new": None}
    changes = [
        PathChange(
            path,
            *(None if text is None else FileOrLink(text.encode(), 0o644) for text in (before[path], after[path])),
        )
        for path in after
    ]
    changes.append(PathChange("mode", FileOrLink(b"", 0o644), FileOrLink(b"m\n", 0o755)))
    proposal = site.service.stage_changes(changes, ProposalOrigin(kind=OriginKind.REF, ref="x"), "A commit")
    assert [change.path for change in proposal.files] == ["b", "mode"]
    assert [hunk.number for hunk in proposal.hunks if has_changed_lines(hunk)] == [1]
    assert [(one.hunks, one.why) for one in proposal.left_out] == [(4, "there")]


def test_hunks_whose_content_was_pruned_are_staged(bench: Make) -> None:
    store = MemoryStore()
    site = bench({"a": BEFORE}, store=store)
    site.service.approve(site.edit("a", ("line 3\n", "three\n")).id)
    store.lose_blobs()
    site.reopened()
    assert len(hunks(site, stage(site, a=BEFORE))) == 1


@dataclass
class Lines:
    """The added and removed lines that each decision has approved; a line comes up once in all of an example."""

    added: dict[str, set[str]] = field(default_factory=dict)
    removed: dict[str, set[str]] = field(default_factory=dict)

    def sign(self, name: str, approved: Sequence[Hunk]) -> None:
        for old, new in approved:
            self.removed.setdefault(name, set()).update(old)
            self.added.setdefault(name, set()).update(new)

    def take_back(self, name: str) -> None:
        self.added.pop(name, None)
        self.removed.pop(name, None)

    def unsigned_additions(self, found: Sequence[str]) -> set[str]:
        return set(found).difference(*self.added.values())

    def unsigned_removals(self, found: Sequence[str]) -> set[str]:
        return set(found).difference(*self.removed.values())


class Play:
    """A file that the user edits by hand, that a model proposes to edit, and that is committed now and then."""

    def __init__(self, site: Bench) -> None:
        self.site = site
        self.git = [f"g{number}" for number in range(12)]
        self.lines = Lines()
        self.number = 0
        self.approved: list[str] = []
        self.write(self.git)

    @property
    def disk(self) -> list[str]:
        return self.site.read("a").decode().split("\n")[:-1]

    def write(self, found: Sequence[str]) -> None:
        self.site.put(a="".join(f"{line}\n" for line in found))

    def edited(self, start: int, count: int, added: int) -> list[str]:
        """What is on disk with some lines replaced by new ones."""
        found = self.disk
        start = min(start, len(found))
        new = [f"n{self.number + at}" for at in range(added)]
        self.number += added
        return [*found[:start], *new, *found[start + count :]] or ["last"]

    def step(self, kind: str, start: int, count: int, added: int) -> None:
        service = self.site.service
        match kind:
            case "by hand":
                self.write(self.edited(start, count, added))
            case "approve" | "approve a part" | "deny":
                new = self.edited(start, count, added)
                new = [*new[:1], f"n{self.number}", *new[1:]]
                self.number += 1
                proposal = self.site.write(a="".join(f"{line}\n" for line in new))
                wanted = {"1"} if kind == "approve a part" else None
                if kind == "deny":
                    service.deny(proposal.id)
                    return
                self.lines.sign(proposal.id, hunks(self.site, proposal, wanted))
                service.approve(proposal.id, wanted)
                if service.get(proposal.id).state.is_pending:
                    service.deny(proposal.id)
                self.approved.append(proposal.id)
            case "undo" if self.approved:
                name = self.approved[start % len(self.approved)]
                if service.get(name).on_disk:
                    # What was kept after it would wait beside it.
                    name = self.approved[-1]
                try:
                    if service.get(name).on_disk and service.get(name).is_denied_in_part:
                        service.undo(name)
                    service.undo(name)
                except (UndoConflict, NothingToUndo):
                    return
                self.approved.remove(name)
                self.lines.take_back(name)
                if service.get(name).state.is_pending and not service.get(name).on_disk:
                    service.deny(name)
            case "commit":
                self.git = self.disk
            case "check out":
                self.write(self.git)
            case "keep" | "keep a part":
                self.keep(whole=kind == "keep")

    def staged(self) -> Proposal | None:
        """What is asked for: a new proposal, or one that waits with all of it."""
        try:
            return stage(self.site, a="".join(f"{line}\n" for line in self.git))
        except NothingToStage as nothing:
            waiting = self.site.service.pending()
            return next((each for each in waiting if f"{each.id} is already pending" in str(nothing)), None)

    def keep(self, *, whole: bool) -> None:
        if (self.git == self.disk) or (proposal := self.staged()) is None:
            return
        first = next(hunk.number for hunk in proposal.hunks if hunk.state is HunkState.PENDING)
        wanted = None if whole else {str(first)}
        self.lines.sign(proposal.id, hunks(self.site, proposal, wanted))
        self.site.service.approve(proposal.id, wanted)
        if self.site.service.get(proposal.id).state.is_pending and wanted:
            self.site.service.deny(proposal.id)
        self.approved.append(proposal.id)

    def check(self) -> None:
        disk, git = self.disk, self.git
        proposal = self.staged() if disk != git else None
        asked = hunks(self.site, proposal) if proposal else []
        added, removed = ({line for hunk in asked for line in hunk[side]} for side in (1, 0))
        assert self.lines.unsigned_additions([line for line in disk if line not in git]) <= added
        assert self.lines.unsigned_removals([line for line in git if line not in disk]) <= removed
        taken_out = set[str]().union(*self.lines.removed.values())
        for old, new in asked:
            unsigned = self.lines.unsigned_removals(old) or self.lines.unsigned_additions(new)
            assert unsigned or taken_out.intersection(new), "an approved removal that is on disk in part only"
        if proposal:
            self.site.service.approve(proposal.id)
            assert self.disk == disk
            assert self.staged() is None, "all of it is signed now"


KINDS = ["by hand", "approve", "approve a part", "deny", "undo", "commit", "check out", "keep", "keep a part"]
PARTLY_ON_DISK = ("approve", "commit", "approve", "check out", "by hand")
steps = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 14), st.integers(0, 3), st.integers(0, 2)), max_size=8
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@example([(kind, 0, at, 0) for kind, at in zip(PARTLY_ON_DISK, (0, 0, 2, 0, 1), strict=True)])
@given(plan=steps)
def test_exactly_the_unsigned_lines_are_staged(plan: list[tuple[str, int, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        play = Play(Bench(Path(folder), {}))
        for step in plan:
            play.step(*step)
        play.check()


def parsed(lines: list[str]) -> list[str]:
    """What git makes of a message with these trailers."""
    message = "\n".join(("A subject", "", *lines, "")).encode()
    done = subprocess.run(["git", "interpret-trailers", "--parse"], input=message, capture_output=True, check=True)
    return done.stdout.decode().splitlines()


def of(origin: ProposalOrigin) -> DecisionRecordEntry:
    return DecisionRecordEntry(
        number=1, before="", time=0.0, who="", proposal="P7", count=1, content="", origin=origin, decision="approved"
    )


@pytest.mark.parametrize(
    ("origin", "assisted"),
    [
        (ProposalOrigin(model="gpt-9"), "signoff:gpt-9"),
        (ProposalOrigin(kind=OriginKind.COMMAND, model="gpt-9"), "signoff:gpt-9"),
        (ProposalOrigin(kind=OriginKind.AGENT, agent="claude", model="claude-opus-5"), "claude-code:claude-opus-5"),
        (ProposalOrigin(kind=OriginKind.AGENT, agent="codex"), "codex"),
        (ProposalOrigin(kind=OriginKind.PATCH, ref="fix.patch"), ""),
        (ProposalOrigin(kind=OriginKind.DISK), ""),
        (ProposalOrigin(model="x\nSigned-off-by: A <a@b>\u2028y"), "signoff:x-Signed-off-by:-A-<a@b>-y"),
    ],
)
def test_assisted_by_has_the_form_of_the_kernel(origin: ProposalOrigin, assisted: str) -> None:
    expected = [f"Assisted-by: {assisted}"] if assisted else []
    assert parsed(make_trailers(of(origin))) == [*expected, "Reviewed-in: signoff P7"]


def test_a_part_and_what_the_user_edited_are_counted(bench: Make) -> None:
    site = bench({"a.txt": numbered(30)})
    proposal = site.edit("a.txt", ("line 3\n", "three\n"), ("line 14", "fourteen"), ("line 25", "twenty-five"))
    result = numbered(30).replace("line 3\n", "three\n").replace("line 14", "14").replace("line 25", "25")
    proposal = site.service.replace_proposed_text(proposal.id, "a.txt", result)
    done = site.service.approve(proposal.id, ["1", "5"]).proposal
    assert done.last is not None
    entry = make_record_entry(proposal, done, done.last, (), str, who="", chain_end=RecordChainEnd(), time=0.0)
    assert parsed(make_trailers(entry))[-1] == "Reviewed-in: signoff P1 (2/3 hunks, 1 edited)"


def test_the_hooks_of_a_repository_run_and_learn_no_key(bench: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    site = bench({"a.txt": numbered(9)})
    repository(site)
    watcher = site.root.parent / "watcher"
    watcher.write_text(f"#!/bin/sh\ntouch {site.root.parent}/watched\n")
    watcher.chmod(0o755)
    git(site.root, "config", "core.fsmonitor", str(watcher))
    (site.root.parent / "watched").unlink(missing_ok=True)
    hook = site.root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\nenv > {site.root.parent}/seen\n")
    hook.chmod(0o755)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setenv("EDITOR", "vi")
    proposal = site.edit("a.txt", ("line 2", "two"))
    commit_proposal(site.root, site.service.approve(proposal.id).proposal)
    seen = (site.root.parent / "seen").read_text()
    assert "EDITOR=vi" in seen and "sk-very-secret" not in seen
    assert not (site.root.parent / "watched").exists()
    assert os.environ["OPENAI_API_KEY"] == "sk-very-secret"
