"""What tests say of a hunk, in the whole app: run by none, or noticed by one; marked, recorded and sent."""

import json
from pathlib import Path

import pytest

from app.proposals.values.attention_reason import ReasonKind
from app.runtime.review_report import make_proposal_review_report, render_review_report_as_markdown
from app.storage.record_store import DecisionRecordReader
from app.ui.review_page import render_report_html
from tests.ui.running_app import running, stage
from tests.ui.test_app_checks import prepared
from tests.wire.bench import FILE, of_role
from tests.wire.server import WireServer

NEEDS_HEY = '[[check]]\nname = "greets"\nrun = "grep -q Hey greet.py"\nwhen = "asked"\nevidence = true\n'
NOTICES_NOTHING = NEEDS_HEY.replace("grep -q Hey greet.py", "true").replace("asked", "staged")
UNNOTICED = "none of the tests that ran notices"
COVERAGE = """
[[check]]
name = "tests"
run = "test ! -e off && printf 'SF:greet.py\\nDA:1,1\\nDA:2,0\\n' > lcov.info"
"""
RUN_BY_NONE = "Has 1 changed line that no test runs (line 2)."


@pytest.mark.layer
async def test_lines_that_no_test_runs_are_marked_and_become_a_feedback_draft(
    tmp_path: Path, server: WireServer
) -> None:
    root = prepared(tmp_path, COVERAGE)
    async with running(tmp_path, server, size=(160, 45)) as run:
        await stage(run, server)
        await run.review()
        await run.see("2!+     return 'Hi ' + name", RUN_BY_NONE, "0 of 1 changed line run")
        await run.pilot.press("v")
        await run.see("2!+     return 'Hi ' +")
        await run.pilot.resize_terminal(60, 30)
        await run.see("2!+     return 'Hi ' +")
        await run.pilot.press("v")
        await run.see("2!+     return 'Hi ' + name", RUN_BY_NONE)
        await run.pilot.resize_terminal(160, 45)
        assert not (root / "lcov.info").exists()
        assert not any("changed line" in json.dumps(request.said) for request in server.requests), "not for the model"
        # The marks go with the result.
        (root / "off").touch()
        await run.until(lambda: "2!+" not in run.text and RUN_BY_NONE not in run.text, "the marks to go")
        await run.see("tests ✗")
        (root / "off").unlink()
        # A check that runs again, as it does where the watcher is late, takes its result back for a moment.
        while not run.app.workbench.review.feedback_field.is_open:
            await run.see(RUN_BY_NONE, "as feedback")
            await run.review("S")
            await run.painted()
        await run.see("No test runs 1 changed line. Test what they do")
        assert run.file == FILE, "nothing is decided by that"
        server.say("I see.")
        before = run.turns
        await run.pilot.press("enter")
        await run.until(lambda: run.turns > before, "the model's answer")
        assert "greet.py:2" in of_role(server.last, "user")[-1]
        # An approval records them.
        await run.settled()
        await run.review("u")
        await run.see(RUN_BY_NONE)
        await run.review("y")
        await run.until(lambda: "'Hi '" in run.file, "the approval")
        report = make_proposal_review_report(run.runtime, "P1")
        for text in (render_review_report_as_markdown(report), render_report_html(report)):
            assert "0 of 1 changed line run; not run: greet.py:2" in text


@pytest.mark.layer
async def test_a_key_shows_what_holds_a_hunk_until_files_change_and_approval_records_it(
    tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = prepared(tmp_path, NEEDS_HEY)
    async with running(tmp_path, server, size=(160, 45)) as run:
        await stage(run, server, ("'Hello '", "'Hey '"))
        await run.review()
        # It waits for a pause of the user.
        for name in ("_PAUSE_SECONDS", "_MAX_PAUSE_WAIT_SECONDS"):
            monkeypatch.setattr(f"widgets.common.input_order.{name}", 3600.0)
        await run.pilot.press("E")
        await run.pilot.pause(1.0)
        assert "held by the check" not in run.text
        await run.pilot.press("E")
        monkeypatch.setattr("widgets.common.input_order._MAX_PAUSE_WAIT_SECONDS", 0.1)
        await run.pilot.press("E")
        await run.see("held by the check")
        await run.until(lambda: run.runtime.sessions.setting("evidence:P1"), "what is kept")
    async with running(tmp_path, server, size=(160, 45), resume=True) as run:
        await run.review()
        for size in ((160, 45), (60, 30)):
            await run.pilot.resize_terminal(*size)
            await run.see("held by the check", "without each hunk", "1 held", "all tests of the check")
        (root / "other.txt").write_text("new\n")
        await run.until(lambda: "held by the check" not in run.text, "the mark to go")
        (root / "other.txt").unlink()
        await run.review("E")
        await run.see("held by the check")
        assert (root / "greet.py").read_text() == FILE
        await run.review("y")
        await run.until(lambda: "'Hey '" in run.file, "the approval")
        (entry,) = DecisionRecordReader(run.runtime.database, run.runtime.name).entries()
        fact = entry.circumstances.evidence
        assert fact is not None
        assert (fact.check, [(one.path, one.hunk, one.verdict) for one in fact.hunks]) == (
            "greets",
            [("greet.py", 1, "held")],
        )
        assert not DecisionRecordReader(run.runtime.database, run.runtime.name).verify_chain().broken
        report = make_proposal_review_report(run.runtime, "P1")
        assert "hunk 1 of greet.py: held by the check" in render_review_report_as_markdown(report)
        assert "hunk 1 <b>approved</b> · held by the check" in render_report_html(report)
        assert not any("held by" in json.dumps(request.said) for request in server.requests), "the model is not told"


@pytest.mark.layer
async def test_an_unnoticed_hunk_is_found_after_the_check_and_drafts_feedback(
    tmp_path: Path, server: WireServer
) -> None:
    prepared(tmp_path, NOTICES_NOTHING)
    async with running(tmp_path, server, size=(160, 45)) as run:
        await stage(run, server)
        await run.see(UNNOTICED, "1 that nothing notices", "Has 1 hunk that no test notices")
        (diff,) = run.app.workbench.review.preview.diffs
        assert diff.reasons[-1].kind is ReasonKind.UNHELD
        await run.review("S")
        await run.see("Nothing notices these hunks")
        assert run.file == FILE, "nothing is decided by that"
        server.say("I see.")
        before = run.turns
        await run.pilot.press("enter")
        await run.until(lambda: run.turns > before, "the model's answer")
        said = of_role(server.last, "user")[-1]
        assert UNNOTICED in said and "+    return 'Hi ' + name" in said
