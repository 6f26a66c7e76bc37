"""Checks on the trees of real proposals: what they see, what is left of them, and where they do not run."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.automation.check_results import CheckState, ProposalCheckResult
from app.automation.check_runner import CheckRunner
from app.config.settings import CheckTable
from app.proposals.locate.matching import TextReplacement
from app.proposals.values.models import Proposal
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from app.sandbox.confinement import CommandWriteMode, ConfiguredCommandAccess
from app.sandbox.sandbox import Sandbox
from tests.unit.tools.processes import new_mark, running


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenWorkspace]:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    root = tmp_path / "ws"
    root.mkdir()
    for name in "abc":
        (root / name).write_text(f"{name}0\n")
    runtime = open_workspace(root, {}, {})
    yield runtime
    runtime.close()


def stage(runtime: OpenWorkspace, **texts: str | None) -> Proposal:
    draft = runtime.service.new_draft("")
    for path, text in texts.items():
        if text is None:
            draft.delete(path)
        else:
            draft.write(path, text)
    return runtime.service.stage(draft, "Edit")


async def checked(runtime: OpenWorkspace, proposal: Proposal, run: str, **more: object) -> ProposalCheckResult:
    check = CheckTable.model_validate({"name": "x", "run": run, **more})
    return await runtime.checks.run_check(check, runtime.service.versions_to_check(proposal.id))


@pytest.mark.layer
async def test_a_check_sees_only_its_proposal_and_those_below_it(runtime: OpenWorkspace) -> None:
    stage(runtime, a="a1\n", b="b1\n")
    stage(runtime, c="c1\n")
    second = stage(runtime, a="a2\n")
    stage(runtime, a="a3\n", b="b3\n")
    result = await checked(runtime, second, "cat a b c; exit 1")
    assert result.outcome is not None
    assert result.before is not None
    assert result.outcome.output == "a2\nb1\nc0\n"
    assert result.before.output == "a1\nb1\nc0\n"
    assert (await checked(runtime, second, "kill -9 $$")).verdict == "ended by signal SIGKILL, failed before"


async def test_the_trees_of_a_draft_are_those_of_its_proposal(runtime: OpenWorkspace) -> None:
    stage(runtime, a="a1\n", b="b1\n")
    draft = runtime.service.new_draft("s")
    draft.edit("a", [TextReplacement("a1", "a2")])
    draft.delete("c")
    draft.write("new", "n\n")
    before = runtime.service.draft_versions_to_check(draft)
    proposal = runtime.service.stage(draft, "Edit")
    after = runtime.service.versions_to_check(proposal.id)
    assert await runtime.checks.read_trees(before) == await runtime.checks.read_trees(after)
    assert (sorted(before.files), sorted(before.old_files)) == (sorted(after.files), sorted(after.old_files))


@pytest.mark.layer
async def test_a_check_leaves_the_files_is_nice_and_gets_no_key(
    runtime: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def on_disk() -> dict[str, tuple[int, bytes]]:
        return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in root.iterdir()}

    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    root = runtime.workspace.root
    (root / ".gitignore").write_text("out\n")
    proposal = stage(runtime, a="a1\n")
    before = on_disk()
    run = "nice; env; cat a > out; echo > a; touch b; rm c; mkdir d; echo > d/e; cat out"
    result = await checked(runtime, proposal, run)
    assert result.state is CheckState.PASSED
    assert result.outcome is not None
    assert int(result.outcome.output.split()[0]) >= 10
    assert result.outcome.output.endswith("\na1\n") and "very-secret" not in result.outcome.output
    assert on_disk() == before


@pytest.mark.layer
async def test_a_hanging_check_and_its_processes_are_ended_at_the_time_limit(runtime: OpenWorkspace) -> None:
    mark = new_mark()
    proposal = stage(runtime, a="a1\n")
    result = await checked(runtime, proposal, f"trap '' TERM; setsid sleep {mark} & sleep {mark}", seconds=1)
    assert result.state is CheckState.TIMED_OUT
    assert result.has_new_failure
    assert not running(mark)


@pytest.mark.layer
async def test_the_files_of_a_check_are_quoted_matching_and_existing(runtime: OpenWorkspace) -> None:
    draft = runtime.service.new_draft("")
    for name in ("x y.py", "-n.py", "$(touch hacked).py", "it's {tests}.py", "z.txt"):
        draft.write(name, "1\n")
    draft.delete("a")
    proposal = runtime.service.stage(draft, "Edit")
    run = 'for each in {files}; do echo "[$each]"; done; ls; false'
    result = await checked(runtime, proposal, run, files="*.py")
    assert result.outcome is not None
    lines = result.outcome.output.splitlines()
    assert sorted(lines[:4]) == ["[$(touch hacked).py]", "[./-n.py]", "[it's {tests}.py]", "[x y.py]"]
    assert "hacked" not in lines
    assert result.has_new_failure and result.before is not None and result.before.state is CheckState.PASSED


@pytest.mark.layer
async def test_checks_run_one_at_a_time_and_known_results_are_reused(runtime: OpenWorkspace, tmp_path: Path) -> None:
    proposal = stage(runtime, a="a1\n")
    trees = runtime.service.versions_to_check(proposal.id)
    log = tmp_path / "shared/log"
    log.parent.mkdir()
    runtime.sandbox.permissions = ConfiguredCommandAccess((str(log.parent),))
    run = f"echo in >> {log}; sleep 0.1; echo out >> {log}; exit 1"
    checks = [CheckTable(name=name, run=run) for name in ("one", "two")]
    await asyncio.gather(*(runtime.checks.run_check(check, trees) for check in (*checks, *checks)))
    # Each once with the proposal and once without.
    assert log.read_text().split() == ["in", "out"] * 4


@pytest.mark.layer
async def test_a_check_that_times_out_while_waiting_stops_only_itself(runtime: OpenWorkspace) -> None:
    trees = runtime.service.versions_to_check(stage(runtime, a="a1\n").id)
    hangs, quick = CheckTable(name="hangs", run="echo under way; sleep 98765.5"), CheckTable(name="quick", run="true")
    under_way = asyncio.Event()
    first = asyncio.create_task(
        runtime.checks.run_check(hangs, trees, lambda result: under_way.set() if result.progress else None)
    )
    await under_way.wait()
    with pytest.raises(TimeoutError):
        await runtime.checks.run_check(quick, trees, max_wait_seconds=0)
    assert not first.done()
    first.cancel()
    await asyncio.wait({first})
    assert (await runtime.checks.run_check(quick, trees, max_wait_seconds=60)).state is CheckState.PASSED


@pytest.mark.layer
async def test_a_check_that_passed_stays_passed_while_it_runs_without_the_proposal(runtime: OpenWorkspace) -> None:
    """A decision made meanwhile records it."""
    proposal = stage(runtime, a="a1\n")
    told: list[CheckState] = []
    check = CheckTable(name="x", run="grep -q a1 a || { sleep 1.2; exit 1; }")
    await runtime.checks.run_check(
        check, runtime.service.versions_to_check(proposal.id), lambda result: told.append(result.state)
    )
    assert CheckState.RUNNING not in told[told.index(CheckState.PASSED) :]


async def test_without_a_layer_no_check_runs_and_the_reason_is_shown(runtime: OpenWorkspace) -> None:
    sandbox = Sandbox(runtime.workspace, runtime.dirs.runs, own_folders=(), modes=(CommandWriteMode.IN_PLACE,))
    runner = CheckRunner(lambda: sandbox, runtime.workspace)
    assert "checks need a layer" in await runner.unavailable_reason()
    seen = runtime.workspace.root / "ran"
    check = CheckTable(name="x", run=f"echo > {seen}")
    result = await runner.run_check(check, runtime.service.versions_to_check(stage(runtime, a="a1\n").id))
    assert result.state is CheckState.BROKEN
    assert not seen.exists()


@pytest.mark.layer
async def test_a_check_that_cannot_run_is_no_new_failure(runtime: OpenWorkspace) -> None:
    proposal = stage(runtime, a="a1\n")
    for run, words in (
        ("/no/such/program", "command not found"),
        ("/dev/null", "not executable"),
        (f": {'x' * 200_000}", "could not be run: "),
        (f": {'x' * 200_000} {{files}}", "too long with the names of 1 file: narrow `files`, or leave {files} out"),
    ):
        result = await checked(runtime, proposal, run)
        assert result.state is CheckState.BROKEN and not result.has_new_failure and result.summary.startswith(words)
