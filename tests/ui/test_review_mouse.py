"""The review by mouse: what a press, a slide and a drag decide, mark and copy."""

import re

import pytest
from rich.color import Color
from textual import events
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import Selection
from textual.widget import Widget

from app.proposals.values.models import HunkState, ProposalState
from app.text.safe_text import escape_unsafe
from tests.ui.review_app import ReviewApp, ready, reviewing
from tests.ui.sample_diffs import file_diff, proposed, retry_proposal
from widgets.diff.diff_rows import LineRow
from widgets.diff.writing_field import WritingField
from widgets.review import review_messages

SIZE = (110, 40)


def place(app: ReviewApp, text: str) -> Offset:
    for row, line in enumerate(app.text().split("\n")):
        if text in line:
            return Offset(line.index(text) + 1, row)
    raise AssertionError(f"{text!r} is not on the screen:\n{app.text()}")


async def slide(pilot: Pilot[None], start: Offset, end: Offset, *, button: int = 1) -> None:
    """Press a button in one place, move, and let go in another; the app makes a click of it, or doesn't."""

    async def send(kind: type[events.MouseEvent], at: Offset) -> None:
        pilot.app.post_message(kind(None, at.x, at.y, 0, 0, button, False, False, False, at.x, at.y))
        await pilot.pause()

    await send(events.MouseDown, start)
    if start != end:
        await send(events.MouseMove, start + Offset(1, 0))
        await send(events.MouseMove, end)
    await send(events.MouseUp, end)


async def test_a_key_chip_decides_only_on_a_complete_click() -> None:
    async with reviewing(retry_proposal(), size=SIZE) as (app, pilot):
        for start, end in (("request changes", "deny"), ("2 files", "approve"), ("approve", "deny")):
            await slide(pilot, place(app, start), place(app, end))
            assert app.posted == [] and app.review.verdict_handler.question is None, (start, end)
        mark = app.review.view.region.offset + Offset(
            0, app.review.view.layout_rows.first_line_of_row(app.review.view.cursor.number)
        )
        for button in (2, 3):
            for spot in (place(app, "deny"), mark):
                await slide(pilot, spot, spot, button=button)
            assert app.posted == [] and not app.review.state.hunk_exclusions.left_out.get("P1"), button
        app.review.restart_grace_period("“q” does nothing here.")
        await slide(pilot, spot := place(app, "request changes"), spot)
        assert "“q” does nothing here." in app.text()
        await app.pass_grace()
        await slide(pilot, spot := place(app, "request changes"), spot)
        assert app.query_one("#feedback", WritingField).is_open and "“q”" not in app.text()
        await pilot.press("escape")
        await app.pass_grace()
        await slide(pilot, spot := place(app, "deny"), spot)
        assert app.posted == [review_messages.Deny("P1")]


async def test_dragging_selects_text_and_a_click_acts() -> None:
    async with reviewing(retry_proposal(), size=SIZE) as (app, pilot):
        # Dragging from line numbers selects the whole first line.
        view = app.review.view
        y = view.layout_rows.first_line_of_row(view.layout_rows.landmarks.hunks[0])
        top = view.region.offset
        for column, until in ((0, 5), (4, 6), (9, 7)):
            await slide(pilot, top + Offset(column, y), top + Offset(view.model.render_context.gutter + until, y + 1))
            assert app.screen.get_selected_text() == "import logging\nimport time"[: 16 + until], column
        await slide(pilot, top + Offset(view.model.render_context.gutter, y), top + Offset(4, y + 1))
        assert app.screen.get_selected_text() == "import logging"
        # Dragging between hunk marks excludes none.
        app.screen.clear_selection()
        await ready(pilot)
        first, second = (
            view.layout_rows.first_line_of_row(number) for number in view.layout_rows.landmarks.hunks[:2]
        )
        await slide(pilot, top + Offset(0, first), top + Offset(0, second))
        assert not app.review.state.hunk_exclusions.left_out.get("P1")
        # A hand that trembles on the mark itself still means it.
        await slide(pilot, top + Offset(1, second), top + Offset(0, second))
        assert len(app.review.state.hunk_exclusions.left_out["P1"]) == 1
        # A key hint is pressed where the button goes down and up again.
        await ready(pilot)
        await pilot.click(offset=place(app, "request changes"))
        field = app.query_one("#feedback")
        hints = field.query_one("ClickableKeyHints")
        close = place(app, "close, the draft")
        send = hints.region.offset + Offset(1, 0)
        assert field.has_class("shown")
        await slide(pilot, send, close)
        await slide(pilot, close, send)
        assert field.has_class("shown") and app.posted == []
        await slide(pilot, close, close, button=2)
        assert field.has_class("shown")
        await slide(pilot, close, close)
        assert not field.has_class("shown")
        # A click on a comment opens it again.
        await ready(pilot)
        await pilot.press("right_square_bracket", "c", *"why", "ctrl+s")
        comment = app.query_one("#comment", WritingField)
        assert not comment.is_open
        await slide(pilot, spot := place(app, "why"), spot)
        assert comment.is_open
        await pilot.press("exclamation_mark", "ctrl+s")
        assert [remark.text for remark in app.review.state.feedback_drafts.remarks["P1"]] == ["why!"]


async def test_dragging_from_the_right_line_numbers_selects_the_right_half() -> None:
    async with reviewing(retry_proposal(), size=(170, 60)) as (app, pilot):
        view = app.review.view
        assert view.is_split
        y = next(
            line
            for line in range(view.layout_rows.height)
            if isinstance(row := view.layout_rows.part_at(line).row, LineRow) and row.new is not None and row.old == 5
        )
        half = view.model.render_context.gutter + view.model.render_context.code_width
        top = view.region.offset
        before = view.cursor.number
        await slide(pilot, top + Offset(half + 2, y), top + Offset(half + view.model.render_context.gutter + 10, y))
        assert app.screen.get_selected_text() == "RETRIES = 3"
        await slide(pilot, top + Offset(3, y), top + Offset(view.model.render_context.gutter + 10, y))
        assert app.screen.get_selected_text() == "RETRIES = 2"
        assert view.layout_rows.part_at(y).number != view.cursor.number == before, "who selects goes nowhere"


async def test_a_double_click_selects_the_word_and_a_triple_click_the_line() -> None:
    long = "value = call(" + ", ".join(f"argument_{number}" for number in range(30)) + ")"
    async with reviewing(proposed(file_diff("a.py", "pass\n", f"pass\n    {long}\n")), size=SIZE) as (app, pilot):
        for keys in ((), ("v",), ("v", "w")):
            await pilot.press(*keys)
            app.screen.clear_selection()
            spot = place(app, "argument_0")
            app.CLICK_CHAIN_TIME_THRESHOLD = 0.0  # type: ignore[misc]  # This click begins anew.
            await slide(pilot, spot, spot)
            app.CLICK_CHAIN_TIME_THRESHOLD = 60  # type: ignore[misc]  # However busy the machine is, these follow it.
            await slide(pilot, spot, spot)
            assert app.screen.get_selected_text() == "argument_0", keys
            await slide(pilot, spot, spot)
            assert app.screen.get_selected_text() == f"    {long}", keys


async def test_a_copy_of_the_diff_is_the_source_text_with_tabs() -> None:
    long = "call(" + ", ".join(f"argument_{number}" for number in range(40)) + ")"
    new = f"all:\n\tcc\t-o x\n{long}\nescape \x1b[2J \u202e end\n"
    async with reviewing(proposed(file_diff("Makefile", "all:\n", new)), size=SIZE) as (app, pilot):
        view = app.review.view
        for _ in ("cut", "wrapped"):
            line = view.layout_rows.first_line_of_row(view.layout_rows.landmarks.hunks[0])
            copied = view.get_selection(Selection(Offset(0, line), Offset(0, view.layout_rows.height)))
            assert copied == (escape_unsafe(f"\tcc\t-o x\n{long}\nescape \x1b[2J \u202e end"), "\n")
            await pilot.press("w")


@pytest.mark.parametrize("theme", ["textual-light", "ansi-dark"])
async def test_selected_text_is_readable_in_each_theme(theme: str) -> None:
    async with reviewing(retry_proposal(), size=SIZE) as (app, pilot):
        app.theme = theme
        await pilot.pause()
        view = app.review.view
        y = view.layout_rows.first_line_of_row(view.layout_rows.landmarks.hunks[0])
        before = colours(view, y, "import")
        top = view.region.offset + Offset(view.model.render_context.gutter, y)
        await slide(pilot, top, top + Offset(8, 0))
        after = colours(view, y, "import")
        assert after != before
        assert after[0] != after[1], "letters in the colour of what is behind them"
        assert theme != "ansi-dark" or after[0] == Color.from_ansi(0), "the theme's own"


def colours(widget: Widget, line: int, text: str) -> tuple[Color | None, Color | None]:
    strip = widget.render_line(line)
    (segment,) = [segment for segment in strip if re.search(text, segment.text)][:1]
    assert segment.style is not None
    return segment.style.color, segment.style.bgcolor


async def test_a_confirmation_offers_its_answer_keys() -> None:
    async with reviewing(retry_proposal(), size=(110, 20)) as (app, pilot):
        await slide(pilot, spot := place(app, " approve"), spot)
        assert "never on screen" in app.text()
        offered = {binding.action for _, binding, enabled, _ in app.screen.active_bindings.values() if enabled}
        assert {"approve", "deny"} <= offered
        assert offered.isdisjoint({"undo", "redo", "request_changes", "toggle_hunk", "edit", "deny_all"})


async def test_an_undone_proposal_is_marked_and_can_be_redone() -> None:
    value, diffs = retry_proposal()
    files = tuple(
        change.model_copy(
            update={"hunks": tuple(hunk.model_copy(update={"state": HunkState.APPLIED}) for hunk in change.hunks)}
        )
        for change in value.files
    )
    applied = value.model_copy(update={"state": ProposalState.APPLIED, "files": files})
    async with reviewing((applied, diffs), size=SIZE) as (app, _pilot):
        assert "✓" in app.text().partition("═══")[0]
        await app.change(applied.model_copy(update={"state": ProposalState.UNDONE, "revision": 2}))
        diff = app.text().partition("═══")[0]
        assert "✓" not in diff and "↶" in diff
        await app.press_later("U")
        assert app.posted == [review_messages.Redo("P1")]
