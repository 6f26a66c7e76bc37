"""A result that is shown as current is that of the very bytes which the approval leaves."""

import asyncio
import errno
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.automation.check_results import CheckState, ProposalCheckResult, ProposalChecks
from app.automation.check_scheduler import CheckScheduler, watch_workspace_changes
from app.automation.workspace_tree import WorkspaceTreeReader
from app.config.settings import CheckTable
from app.proposals.values.models import HunkState, Proposal
from app.proposals.values.proposal_errors import ChangedSinceShown, DependsOnPendingProposal, StaleProposal
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from tests.examples import scale_examples
from tests.waiting import until

PRINT = "for each in a b c d; do echo == $each; cat $each 2>/dev/null; done; true"
DISAGREE = "! grep -q 'changed 18' a && ! { grep -q changed a && grep -q broken b; }"
LINES = [f"line {number}\n" for number in range(24)]
HUNKS = (2, 10, 18)
"""Lines that are edited: far enough apart to be hunks."""


def git(root: Path, *arguments: str, **variables: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "core.autocrlf=false", *arguments]
    return subprocess.run(
        command, cwd=root, env=os.environ | variables, check=True, capture_output=True, text=True
    ).stdout.strip()


def git_tree(root: Path) -> str:
    """What git calls all that is there and not ignored."""
    with TemporaryDirectory() as folder:
        index = f"{folder}/index"
        git(root, "read-tree", "HEAD", GIT_INDEX_FILE=index)
        git(root, "add", "--all", GIT_INDEX_FILE=index)
        return git(root, "write-tree", GIT_INDEX_FILE=index)


def edited(*lines: int, word: str = "changed") -> str:
    return "".join(f"{word} {number}\n" if number in lines else line for number, line in enumerate(LINES))


@dataclass
class Site:
    """A workspace whose proposals are followed as the review does it."""

    runtime: OpenWorkspace
    checks: tuple[CheckTable, ...]
    chosen: dict[str, tuple[str, ...]] = field(default_factory=dict)
    shown: str = ""
    last: dict[str, ProposalChecks] = field(default_factory=dict)
    touched: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.following = CheckScheduler(
            self.runtime.checks,
            lambda: self.checks,
            self.runtime.service.versions_to_check,
            lambda proposal: self.chosen.get(proposal.id),
            lambda checked: self.last.__setitem__(checked.proposal, checked),
        )
        self._disk = asyncio.create_task(self.following.rerun_on_changes(self._changes()))

    @property
    def root(self) -> Path:
        return self.runtime.workspace.root

    def stage(self, **texts: str) -> Proposal:
        draft = self.runtime.service.new_draft("")
        for path, text in texts.items():
            draft.write(path, text)
        return self.runtime.service.stage(draft, "Edit")

    def choose(self, proposal: Proposal, *numbers: int) -> tuple[str, ...]:
        """Leave in those hunks alone."""
        ids = tuple(hunk.id for hunk in proposal.hunks if hunk.number in numbers)
        self.chosen[proposal.id] = ids
        self.follow()
        return ids

    def follow(self) -> None:
        self.following.update_proposals(self.runtime.service.pending(), self.shown)

    async def look(self) -> None:
        """What the app does once the disk has changed."""
        self.runtime.service.rebase_pending()
        self.follow()
        self.touched.set()
        await until(lambda: not self.touched.is_set())
        await self.calm()

    async def calm(self) -> None:
        await until(lambda: not self.following._tasks)

    async def _changes(self) -> AsyncIterator[None]:
        yield
        while True:
            await self.touched.wait()
            yield
            self.touched.clear()

    def result(self, proposal: str, name: str = "x") -> ProposalCheckResult:
        return next(one for one in self.last[proposal].results if one.name == name)

    async def close(self) -> None:
        self._disk.cancel()
        await asyncio.wait({self._disk})
        await self.following.close()


@contextmanager
def opened(folder: Path, *, in_git: bool) -> Iterator[OpenWorkspace]:
    root = folder / "ws"
    root.mkdir()
    for name in "abc":
        (root / name).write_text("".join(LINES))
    if in_git:
        git(root, "init", "--quiet")
        git(root, "add", "--all")
        git(root, "commit", "--quiet", "--message", "first")
    runtime = open_workspace(root, {}, {})
    try:
        yield runtime
    finally:
        runtime.close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
async def site(home: Path) -> AsyncIterator[Site]:
    with opened(home, in_git=True) as runtime:
        site = Site(runtime, (CheckTable(name="x", run=PRINT),))
        yield site
        await site.close()


@pytest.mark.layer
async def test_excluding_a_hunk_outdates_the_result_and_checks_the_rest(site: Site) -> None:
    proposal = site.stage(a=edited(*HUNKS))
    site.shown = proposal.id
    site.follow()
    await until(lambda: site.last and site.result("P1").is_current)
    whole = site.result("P1")
    chosen = site.choose(proposal, 1, 2)
    grey = site.result("P1")
    assert (grey.stale, grey.outcome) == ("before hunk 3 was taken out", whole.outcome)
    await until(lambda: site.result("P1").is_current)
    now = site.result("P1")
    site.runtime.service.approve("P1", chosen)
    assert now.outcome is not None and now.tree is not None and whole.tree is not None
    assert "changed 10" in now.outcome.output and "changed 18" not in now.outcome.output
    assert now.tree.id == git_tree(site.root) != whole.tree.id


@pytest.mark.layer
async def test_a_changed_file_outdates_the_result_and_is_named(site: Site) -> None:
    proposal = site.stage(a=edited(2))
    site.shown = proposal.id
    site.checks = (CheckTable(name="x", run="grep -q broken b && exit 1 || true", when="asked"),)
    site.follow()
    await until(lambda: site.last)
    site.following.start_or_stop("P1")
    # A quick check that passes is told at once and remembered after it has run without the proposal; a slow one, as
    # on a busy machine, does not run without it.
    await until(lambda: site.result("P1").is_current)
    await site.calm()
    changes = watch_workspace_changes(site.runtime.workspace)
    watch = asyncio.create_task(site.following.rerun_on_changes(changes))
    await asyncio.sleep(0.3)
    (site.root / "b").write_text("broken\n")
    await until(lambda: site.result("P1").stale)
    assert site.result("P1").stale == "before b changed"
    assert site.result("P1").state is CheckState.PASSED
    (site.root / "b").write_text("".join(LINES))
    await until(lambda: site.result("P1").is_current)
    git(site.root, "commit", "--quiet", "--allow-empty", "--message", "second")
    await until(lambda: site.result("P1").stale)
    assert site.result("P1").stale.startswith("before HEAD moved to ")
    watch.cancel()
    await asyncio.wait({watch})


@pytest.mark.parametrize("flag", ["--assume-unchanged", "--skip-worktree"])
def test_a_flag_in_the_index_hides_no_changed_file(home: Path, tmp_path: Path, flag: str) -> None:
    with opened(tmp_path, in_git=True) as runtime:
        root = runtime.workspace.root
        git(root, "update-index", flag, "b")
        reader = WorkspaceTreeReader(runtime.workspace)
        (before,) = reader.read_trees({})
        (root / "b").write_text("broken\n")
        (after,) = reader.read_trees({})
        assert after.id == git_tree(root) != before.id


async def test_without_watches_files_are_polled(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(paths: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr("app.workspace.file_watching.start_watch", no_room)
    monkeypatch.setattr("app.automation.check_scheduler._POLL_SECONDS", 0.01)
    with opened(home, in_git=True) as runtime:
        changes = watch_workspace_changes(runtime.workspace)
        for _ in range(3):
            await anext(changes)
        await changes.aclose()


@pytest.mark.layer
async def test_check_on_approval_runs_on_the_written_text_and_current_disk(site: Site) -> None:
    site.checks = (CheckTable(name="x", run=DISAGREE, when="approve"),)
    proposal = site.stage(a=edited(*HUNKS))
    site.follow()
    (red,) = await site.following.run_before_approval("P1", 1, None)
    assert red.has_new_failure, "of a proposal that is not shown"
    site.shown = proposal.id
    chosen = site.choose(proposal, 1, 2)
    assert await site.following.run_before_approval("P1", 1, chosen) == ()
    assert site.result("P1").is_current
    # Of what was seen to pass, nothing is remembered over a change on disk that no event has told of yet.
    (site.root / "b").write_text("broken\n")
    (red,) = await site.following.run_before_approval("P1", 1, chosen)
    assert red.has_new_failure


@pytest.mark.layer
async def test_files_changed_during_a_check_stop_the_approval(site: Site) -> None:
    counter = site.root / "b"
    site.checks = (CheckTable(name="x", run=f"sleep 0.2; cat {counter}", when="approve"),)
    proposal = site.stage(a=edited(2))
    site.shown = proposal.id
    site.follow()
    approving = asyncio.create_task(site.following.run_before_approval("P1", 1, None))
    number = 0
    while not approving.done():
        counter.write_text(f"{(number := number + 1)}\n")
        await asyncio.sleep(0.05)
    (late,) = await approving
    assert not late.is_current and late.stale == "before b changed"


operations = st.one_of(
    st.tuples(st.just("choose"), st.sets(st.integers(1, 3), min_size=1)),
    st.tuples(st.just("disk"), st.sampled_from("abcd"), st.sampled_from((6, 14, 22))),
    st.tuples(st.just("approve"), st.sampled_from(("P1", "P2", "P3"))),
    st.tuples(st.just("deny"), st.sampled_from(("P1", "P2", "P3"))),
)


@pytest.mark.layer
@settings(deadline=None, max_examples=scale_examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    in_git=st.booleans(),
    edits=st.lists(
        st.tuples(st.sampled_from("abcd"), st.sets(st.sampled_from(HUNKS), min_size=1)), min_size=3, max_size=3
    ),
    shown=st.sampled_from(("P1", "P2", "P3")),
    steps=st.lists(operations, max_size=3),
)
def test_current_check_result_is_that_of_the_approved_bytes(
    home: Path,
    in_git: bool,
    edits: list[tuple[str, set[int]]],
    shown: str,
    steps: list[tuple[str, str | set[int]]],
) -> None:
    async def go(folder: Path) -> None:
        with opened(folder, in_git=in_git) as runtime:
            site = Site(runtime, (CheckTable(name="x", run=PRINT),), shown=shown)
            for number, (path, lines) in enumerate(edits, 1):
                draft = runtime.service.new_draft("")
                text = (draft.read(path).content or "".join(LINES).encode()).decode()
                for line in lines:
                    text = text.replace(f"line {line}\n", f"P{number} {line}\n").replace(
                        f" {line}\n", f" {line}\nmore of P{number}\n"
                    )
                site.stage(**{path: text})
            site.follow()
            await site.calm()
            for step in steps:
                await carry_out(site, *step)
            proposal = runtime.service.get(shown)
            if proposal.state.is_pending and shown in site.last and site.result(shown).is_current:
                check_by_hand(site, proposal, in_git=in_git)
            await site.close()

    with TemporaryDirectory(dir=home) as folder:
        asyncio.run(go(Path(folder)))


async def carry_out(site: Site, kind: str, what: str | set[int], line: int = 0) -> None:
    service = site.runtime.service
    match kind:
        case "choose":
            assert isinstance(what, set)
            proposal = service.get(site.shown)
            if any(hunk.number in what and hunk.state is HunkState.PENDING for hunk in proposal.hunks):
                site.choose(proposal, *what)
        case "disk":
            path = site.root / str(what)
            old = path.read_text() if path.exists() else ""
            path.write_text(old.replace(f"line {line}\n", f"disk {line}\n") or "new\n")
        case _ if what != site.shown and service.get(str(what)).state.is_pending:
            with suppress(DependsOnPendingProposal, StaleProposal, ChangedSinceShown):
                (service.approve if kind == "approve" else service.deny)(str(what))
    await site.look()


def check_by_hand(site: Site, proposal: Proposal, *, in_git: bool) -> None:
    """Approve what is chosen, and run the command on what that leaves."""
    result = site.result(proposal.id)
    try:
        site.runtime.service.approve(proposal.id, site.chosen.get(proposal.id), proposal.revision)
    except DependsOnPendingProposal:
        # It lies on top of what it builds on; no approval leaves just that.
        return
    by_hand = subprocess.run(["/bin/sh", "-c", PRINT], cwd=site.root, capture_output=True, text=True, check=True)
    assert result.outcome is not None and result.tree is not None
    assert result.outcome.output.strip() == by_hand.stdout.strip()
    if in_git:
        assert result.tree.id == git_tree(site.root)
