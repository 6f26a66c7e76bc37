"""Single lines out of a hunk, by keys and mouse, in the whole app: shown, written, told and undone."""

import threading
from pathlib import Path
from typing import Any

import pytest
from textual.geometry import Offset
from textual.selection import Selection

from app.proposals.values.models import ProposalState
from tests.ui.review_app import reviewing
from tests.ui.running_app import Running, running
from tests.ui.sample_diffs import file_diff, proposed
from tests.wire.bench import of_role
from tests.wire.replies import Turn
from tests.wire.server import WireServer
from widgets.diff.diff_rows import LineRow
from widgets.review import review_messages

NEW = '"""Says hello."""\n\n\ndef greet(name):\n    log(name)\n    check(name)\n    return "Hi " + name\n'


async def stage(run: Running, server: WireServer) -> str:
    """A rewrite of the file; tells what the file was."""
    server.call("write_file", {"path": "greet.py", "content": NEW})
    server.say("Have a look.")
    await run.say("change it")
    await run.see("P1")
    await run.review("f3")
    return run.file


async def to_line(run: Running, text: str) -> None:
    view = run.app.workbench.review.view
    for number in range(view.layout_rows.row_count):
        row = view.layout_rows.row_at(number)
        if isinstance(row, LineRow) and row.new is not None and text in view.diffs[0].new[row.new]:
            view.cursor.move_to(number)
            return
    raise AssertionError(text)


@pytest.mark.parametrize("size", [(60, 20), pytest.param((160, 45), marks=pytest.mark.soak)])
async def test_an_excluded_line_is_not_written(tmp_path: Path, server: WireServer, size: tuple[int, int]) -> None:
    async with running(tmp_path, server, size=size) as run:
        before = await stage(run, server)
        review = run.app.workbench.review
        await to_line(run, "check(name)")
        await run.pilot.press("asterisk", "space")
        await run.until(lambda: len(run.proposals[0].hunks) == 4, "the cut")
        await run.until(lambda: review.view.proposal == run.proposals[0], "the cut on the screen")
        assert run.file == before
        assert review.view.cursor.row == review.view.layout_rows.row_at(review.view.cursor.number)
        chosen = review.state.hunk_exclusions.approval_selection(run.proposals[0])
        assert len(chosen.hunks) == chosen.total - 1
        await run.until(run.can_decide, "the moment to decide")
        while review.state.unseen_parts(run.proposals[0]):
            await run.pilot.press("right_parenthesis")
            await run.pilot.pause()
        await run.until(run.can_decide, "the moment to decide")
        server.always(Turn("I see."))
        await run.pilot.press("y")
        await run.until(lambda: run.file != before, "the file")
        assert run.file == NEW.replace("    check(name)\n", "")
        assert run.proposals[0].state is ProposalState.PARTLY_APPROVED
        await run.until(
            lambda: review.state.hunk_exclusions.approval_selection(run.proposals[0]).total == 1, "the rest"
        )
        assert review.state.hunk_exclusions.approval_selection(run.proposals[0]).hunks == (), (
            "what was taken out stays out"
        )
        await run.say("go on")
        (told,) = [said for said in of_role(server.last, "system") if "in part" in said]
        assert "did not land (still awaits a decision)" in told and ": landed" in told
        await run.review("f3", "u")
        await run.until(lambda: run.file == before, "the undo")


async def test_an_approval_right_after_an_exclusion_writes_no_excluded_line(
    tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, server) as run:
        before = await stage(run, server)
        review, service = run.app.workbench.review, run.app.controllers.runtime.service
        await run.until(lambda: run.can_decide() and not review.state.unseen_parts(run.proposals[0]), "all seen")
        await to_line(run, "check(name)")
        split, release = service.split_hunks, threading.Event()

        def split_slowly(*arguments: Any) -> Any:
            assert release.wait(10)
            return split(*arguments)

        monkeypatch.setattr(service, "split_hunks", split_slowly)
        await run.pilot.press("asterisk", "space")
        await run.until(run.can_decide, "the moment to decide")
        await run.pilot.press("y")
        await run.pilot.pause(0.2)
        release.set()
        await run.see("changed since")
        assert run.file == before


async def test_line_picking_marks_its_lines_and_ends_with_escape() -> None:
    async with reviewing(proposed(file_diff("a.py", "a\nb\nc\n", "A\nB\nC\n"))) as (app, pilot):
        view = app.review.view
        view.cursor.move_to(view.layout_rows.landmarks.hunks[0] + 3)
        await pilot.press("shift+down", "shift+down", "shift+up")
        assert len(view.line_selection.picked_rows) == 2
        picked = view.picked_lines()
        assert picked is not None and picked.lines.new == {0, 1} and not picked.lines.old and not picked.whole
        await pilot.press("escape")
        assert view.picked_lines() is None
        view.cursor.move_to(0)
        await pilot.press("asterisk", "space", "asterisk")
        assert "No changed line is picked" in app.text() and app.wishes == []
        view.cursor.move_to(view.layout_rows.landmarks.hunks[0] + 4)
        await pilot.press("asterisk", "j", "space")
        await app.pass_grace()
        (wish,) = app.wishes
        assert isinstance(wish, review_messages.IncludeOrExcludeLines) and wish.lines.new == {1, 2}
        assert view.picked_lines() is None


async def test_picking_all_lines_toggles_the_hunk_and_a_selection_works_too() -> None:
    diffs = [file_diff("a.py", "a\nb\n", "A\nB\n")]
    async with reviewing(proposed(*diffs)) as (app, pilot):
        view = app.review.view
        first = view.layout_rows.first_line_of_row(view.layout_rows.landmarks.hunks[0])
        app.screen.selections = {view: Selection(Offset(0, first), Offset(1, first + 3))}
        await pilot.press("space")
        assert app.wishes == [] and app.posted == []
        assert app.review.state.hunk_exclusions.left_out["P1"] == {diffs[0].change.hunks[0].id}
        await app.pass_grace()
        app.screen.selections = {view: Selection(Offset(0, first), Offset(1, first))}
        await pilot.press("space")
        (wish,) = app.wishes
        assert wish.lines.old == {0} and not wish.lines.new
