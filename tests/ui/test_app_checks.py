"""Checks in the whole app: on bytes that are not on disk, before the decision."""

from pathlib import Path

import pytest

from app.automation.check_results import CheckState, ProposalCheckResult, ProposalChecks
from app.runtime.open_workspace import open_workspace
from app.storage.record_store import DecisionRecordReader
from app.ui.screens.output_screens import check_output_lines
from app.workspace import trust
from tests.oracles.reading import images
from tests.ui.running_app import running, stage, staged
from tests.unit.images.pictures import png
from tests.unit.tools.processes import new_mark
from tests.unit.tools.processes import running as processes
from tests.wire.bench import FILE, of_role
from tests.wire.server import WireServer

TABLE = """
[[check]]
name = "greets"
run = "sh check.sh {files}"
"""
SCRIPT = """
grep -n Hi "$@" | sed "s|^\\([0-9]*\\):.*|$1:\\1: says Hi|"
if grep -q Hi "$@"; then echo 1 failed; exit 1; fi
"""
LINES = "".join(f"line {number}\n" for number in range(20))
TWO_HUNKS = (("line 2\n", "Hi 2\n"), ("line 15\n", "Hi 15\n"))


def prepared(folder: Path, tables: str = TABLE, script: str = SCRIPT, *, trusted: bool = True) -> Path:
    """A workspace with checks, and the user's trust in them."""
    root = folder / "workspace"
    root.mkdir()
    (root / "greet.py").write_text(FILE)
    (root / "check.sh").write_text(script)
    (root / ".signoff.toml").write_text(tables)
    if trusted:
        runtime = open_workspace(root)
        trust.store_trust(trust.read_untrusted_workspace_configuration(runtime.workspace), runtime.sessions)
        runtime.close()
    return root


def facts(root: Path) -> dict[str, tuple[int, bytes]]:
    """All that there is on disk, with when it was written."""
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in root.rglob("*") if path.is_file()}


@pytest.mark.layer
async def test_a_failed_check_is_shown_and_approval_asks_once(tmp_path: Path, server: WireServer) -> None:
    root = prepared(tmp_path)
    before = facts(root)
    async with staged(tmp_path, server, size=(160, 45)) as run:
        await run.see("greets ✗ 1 failed, 0 before", "greets: says Hi")
        assert facts(root) == before
        await run.review("C")
        await run.screen("ChecksScreen")
        await run.see("greet.py:2: says Hi")
        await run.pilot.press("escape")
        await run.review("y")
        await run.see("The check greets fails (1 failed, 0 before). Approve?")
        assert run.file == FILE
        await run.review("y")
        await run.until(lambda: "'Hi '" in run.file, "the approval")
        (entry,) = DecisionRecordReader(run.runtime.database, run.runtime.name).entries()
        before_them = entry.circumstances
        assert [(one.name, one.state, one.words) for one in before_them.checks] == [
            ("greets", "failed", "1 failed, 0 before")
        ]
        assert (before_them.through, before_them.unseen_lines) == ("app", 0)


@pytest.mark.layer
async def test_a_narrow_pane_keeps_checks_and_a_key_sends_the_findings_to_the_model(
    tmp_path: Path, server: WireServer
) -> None:
    types = TABLE.replace("greets", "types").replace("check.sh", "check.sh {files}")
    tables = TABLE + types + TABLE.replace("greets", "format").replace("sh check.sh {files}", "true")
    root = prepared(tmp_path, tables, "echo see @shot.png" + SCRIPT)
    (root / "shot.png").write_bytes(png())
    async with staged(tmp_path, server) as run:
        await run.pilot.press("f4")
        for size in ((80, 24), (60, 20)):
            await run.pilot.resize_terminal(*size)
            await run.see("greets ✗ 1 failed, 0 before", "types ✗ ", "format ✓", " S  send", " C  log")
        server.say("I see.")
        before = run.turns
        await run.review("S")
        await run.until(lambda: run.turns > before, "the model's answer")
        said = of_role(server.last, "user")[-1]
        assert "greet.py:2: says Hi" in said and "1 failed, 0 before" in said
        assert "see @shot.png" in said and images(server.last.body) == [], "what a check prints attaches nothing"
        assert run.file == FILE


def test_a_check_that_was_not_run_shows_no_output() -> None:
    lines = check_output_lines(ProposalChecks("P1", 1, (ProposalCheckResult("greets", CheckState.NOT_ASKED),)))
    assert [line.text for line in lines] == ["greets · ", "not run", ""]


async def test_an_untrusted_workspace_runs_no_check(tmp_path: Path, server: WireServer) -> None:
    seen = tmp_path / "ran"
    prepared(tmp_path, script=f"echo > {seen}", trusted=False)
    async with staged(tmp_path, server) as run:
        await run.see("/trust")
        await run.review("R")
        await run.review("y")
        await run.until(lambda: "'Hi '" in run.file, "the approval")
    assert not seen.exists()


@pytest.mark.layer
async def test_a_decision_ends_a_running_check(tmp_path: Path, server: WireServer) -> None:
    mark = new_mark()
    prepared(tmp_path, script=f"echo under way; setsid sleep {mark} & sleep {mark}")
    async with staged(tmp_path, server) as run:
        await run.see("under way")
        assert processes(mark)
        await run.review("n")
        await run.until(lambda: not processes(mark), "the end of the check")


@pytest.mark.layer
async def test_a_check_on_approval_can_be_stopped_and_sees_the_chosen_hunks(
    tmp_path: Path, server: WireServer
) -> None:
    mark = new_mark()
    script = f'echo under way; test -e slow && sleep {mark}; ! grep -q "Hi 2" "$@" || grep -q "Hi 15" "$@"'
    root = prepared(tmp_path, TABLE + 'when = "approve"\n', script)
    (root / "greet.py").write_text(LINES)
    (root / "slow").touch()
    async with running(tmp_path, server, size=(160, 45)) as run:
        await stage(run, server, *TWO_HUNKS)
        await run.see("greets  y  run")
        await run.review("]", "space")
        await run.review("y")
        await run.see("under way")
        await run.pilot.press("R")
        await run.see("P1 was not written (greets: ended by you)")
        assert not processes(mark)
        (root / "slow").unlink()
        await run.review("y")
        await run.see("P1 was not written (greets: exit 1")
        assert run.file == LINES
        # The second approval asks, and writes although the check fails.
        await run.review("y")
        await run.see("Approve?")
        await run.review("y")
        await run.until(lambda: "Hi 2" in run.file, "the approval")
        assert "Hi 15" not in run.file


@pytest.mark.layer
async def test_excluding_a_hunk_outdates_the_result_and_checks_the_rest(tmp_path: Path, server: WireServer) -> None:
    root = prepared(tmp_path, script='! grep -q "Hi 15" "$@"')
    (root / "greet.py").write_text(LINES)
    async with running(tmp_path, server, size=(160, 45)) as run:
        await stage(run, server, *TWO_HUNKS)
        await run.see("greets ✗")
        await run.review("right_square_bracket", "space")
        await run.see("before hunk 2 was taken out")
        await run.see("greets ✓")
        await run.review("y")
        await run.until(lambda: "Hi 2" in run.file, "the approval")
        assert "Hi 15" not in run.file
        (entry,) = DecisionRecordReader(run.runtime.database, run.runtime.name).entries()
        (fact,) = entry.circumstances.checks
        assert (fact.state, fact.stale, len(fact.tree)) == ("passed", "", 64)


@pytest.mark.layer
async def test_a_change_on_disk_outdates_the_result(tmp_path: Path, server: WireServer) -> None:
    root = prepared(tmp_path, TABLE + 'when = "asked"\n', "! grep -q broken other.py")
    (root / "other.py").write_text("fine\n")
    async with staged(tmp_path, server, size=(160, 45)) as run:
        await run.see("greets  R  run")
        await run.review("R")
        await run.until(lambda: run.runtime.checks._cached_results, "the result with the proposal and without")
        (root / "other.py").write_text("broken\n")
        await run.see("before other.py changed")
        (root / "other.py").write_text("fine\n")
        await run.until(lambda: "before other.py changed" not in run.text, "the result that counts again")
        await run.see("greets ✓")
