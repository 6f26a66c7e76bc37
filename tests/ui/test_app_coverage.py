"""Changed lines that no test runs, in the whole app: marked in the gutter as soon as the check has ended."""

import json
from pathlib import Path

import pytest

from app.runtime.review_report import make_proposal_review_report, render_review_report_as_markdown
from app.ui.review_page import render_report_html
from tests.ui.running_app import running, stage
from tests.ui.test_app_checks import prepared
from tests.wire.bench import FILE, of_role
from tests.wire.server import WireServer

CHECK = """
[[check]]
name = "tests"
run = "printf 'SF:greet.py\\nDA:1,1\\nDA:2,0\\n' > lcov.info"
"""
RUN_BY_NONE = "Has 1 changed line that no test runs (line 2)."


@pytest.mark.layer
async def test_lines_that_no_test_runs_are_marked_in_the_gutter(tmp_path: Path, server: WireServer) -> None:
    root = prepared(tmp_path, CHECK)
    async with running(tmp_path, server, size=(160, 45)) as run:
        await stage(run, server)
        await run.review()
        await run.see("2!+     return 'Hi ' + name", RUN_BY_NONE, "0 of 1 changed line run")
        await run.pilot.press("v")
        await run.see("2!+     return 'Hi ' +")
        await run.pilot.press("v")
        await run.pilot.resize_terminal(60, 30)
        await run.see("2!+     return 'Hi ' + name", RUN_BY_NONE)
        await run.pilot.press("v")
        await run.see("2!+     return 'Hi ' +")
        assert not (root / "lcov.info").exists()
        assert not any("changed line" in json.dumps(request.said) for request in server.requests), "not for the model"
        await run.review("y")
        await run.until(lambda: "'Hi '" in run.file, "the approval")
        report = make_proposal_review_report(run.runtime, "P1")
        for text in (render_review_report_as_markdown(report), render_report_html(report)):
            assert "0 of 1 changed line run; not run: greet.py:2" in text


@pytest.mark.layer
async def test_uncovered_lines_are_marked_while_the_result_holds_and_become_a_feedback_draft(
    tmp_path: Path, server: WireServer
) -> None:
    root = prepared(tmp_path, CHECK.replace("printf", "test ! -e off && printf"))
    async with running(tmp_path, server, size=(160, 45)) as run:
        await stage(run, server)
        await run.see("2!+     return 'Hi ' + name")
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
