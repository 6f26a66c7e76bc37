"""The view without white space: it leaves out and counts, and changes nothing about what is decided or was seen."""

import pytest

from app.proposals.values.models import FileDiff
from tests.ui.review_app import ReviewApp, ready, reviewing
from tests.ui.sample_diffs import blocks, file_diff, proposed
from tests.waiting import until
from widgets.diff.diff_arrangement import DiffComment
from widgets.diff.diff_rows import SourceLinePosition, WhitespaceHunkRow
from widgets.review import review_messages

OLD = (
    "func one() {\n"
    + "".join(f"\tx{n} := a+{n}\n" for n in range(14))
    + "\treturn a\n}\n\n\nfunc two() {\ny()\nz()\n}\n"
)
NEW = (
    "func one() {\n"
    + "".join(f"  x{n} := a + {n}\n" for n in range(14))
    + "\treturn b\n}\n\n\nfunc two() {\n\ty()\n\tz()\n}\n"
)


def of(*diffs: FileDiff) -> ReviewApp:
    """The review of one proposal, with the view without white space."""
    app = ReviewApp(proposed(*diffs))
    app.review.view.model.shows_white_space = False
    return app


def formatted() -> FileDiff:
    """Two hunks, of which the second changes nothing but indentation."""
    return file_diff("a.go", OLD, NEW)


async def test_hidden_white_space_is_counted_and_shown_again_for_a_search() -> None:
    app = of(formatted())
    app.review.view.model.shows_white_space = True
    async with app.run_test(size=(100, 60)) as pilot:
        await ready(pilot)
        assert "x3 := a+3" in app.text() and "white space" not in app.text()
        await pilot.press("W")
        text = app.text()
        assert "16 lines differ in white space only · W shows them" in text
        assert "white space off: 16 lines" in text
        assert "x13 := a + 13" in text, "what is beside a change is context"
        assert "x13 := a+13" not in text and "x3 := a" not in text
        assert "⋯ 12 unchanged lines (but for white space)" in text
        assert "hunk 2: 2 lines differ in white space only" in text
        assert "return a" in text and "return b" in text
        # As long as nobody has looked, which takes its time in a large change.
        view = app.review.view
        found, view.model.hidden_space = view.model.hidden_space, None
        view.relayout()
        await pilot.pause()
        assert "looking for white space …" in app.text() and "x13 := a+13" in app.text()
        view.model.hidden_space = found
        view.relayout()
        await pilot.pause()
        await pilot.press("W")
        assert "x3 := a+3" in app.text() and "white space" not in app.text()
        # A search and a comment show the hunk that they are in.
        await pilot.press("W")
        await pilot.press("slash", *"x3 := a+3", "enter")
        assert "x4 := a+4" in app.text()
        await pilot.press("W", "W")
        assert "x4 := a+4" not in app.text()
        view.set_comments([DiffComment(SourceLinePosition(0, "old", 3), "Why the tab?")])
        await pilot.pause()
        assert "Why the tab?" in app.text()


async def test_hidden_white_space_hunks_are_unseen_and_need_confirmation() -> None:
    async with reviewing(app=of(formatted()), size=(100, 60)) as (app, pilot):
        state = app.review.state
        assert state.unseen_parts(app.proposals["P1"]).lines == 32
        await pilot.press("y")
        assert app.posted == []
        assert "32 of 34 changed lines of P1 were never on screen (a.go)" in " ".join(app.text().split())
        await pilot.press("n")
        for _ in range(4):
            await pilot.press("right_parenthesis")
        assert not state.unseen_parts(app.proposals["P1"])
        assert "x3 := a+3" in app.text()
        await app.press_later("y")
        assert app.posted == [review_messages.Approve("P1", 1, None)]


@pytest.mark.parametrize("width", [160, pytest.param(100, marks=pytest.mark.soak)])
async def test_a_hunk_of_only_white_space_is_one_row(width: int) -> None:
    app = of(formatted())
    second = formatted().change.hunks[1]
    async with app.run_test(size=(width, 60)) as pilot:
        await ready(pilot)
        view = app.review.view
        await pilot.press("right_square_bracket")
        assert isinstance(view.cursor.row, WhitespaceHunkRow)
        await pilot.press("space")
        assert app.review.state.hunk_exclusions.excluded_from("P1") == {second.id}
        assert "○› " in app.text()
        await pilot.press("space")
        assert not app.review.state.hunk_exclusions.excluded_from("P1")
        row = view.layout_rows.first_line_of_row(view.cursor.number) - view.scroll_offset.y
        await pilot.click("DiffView", offset=(0, row))
        assert app.review.state.hunk_exclusions.excluded_from("P1") == {second.id}, (
            "a click on its state does the same"
        )
        await pilot.press("enter")
        assert view.cursor.hunk == second
        assert "z()" in app.text() and "hunk 2:" not in app.text()
        assert "x3 := a" not in app.text(), "the other stays as it is"


async def test_meaningful_indentation_is_shown_and_explained() -> None:
    python = file_diff("a.py", "if a:\n    b = 1   \n    c()\n", "if a:\n    b = 1\nc()\n")
    async with reviewing(app=of(python, file_diff("notes", "  a\n", "a\n", first=2))) as (app, _pilot):
        text = app.text()
        assert "1 line changes in indentation alone, which has meaning in Python: shown" in text
        assert "1 line differs in white space only" in text
        assert "␣-     c()" in text and "␣+ c()" in text
        assert "in indentation alone, which may have meaning here: shown" in text
        assert app.review.state.unseen_parts(app.proposals["P1"]).lines == 2


async def test_changed_words_are_compared_with_their_old_line() -> None:
    old = "a( 1 );\nvalue = first + 2;\nother();\n"
    async with reviewing(app=of(file_diff("a.c", old, "new();\na(1);\nvalue = second + 2;\n"))) as (app, _pilot):
        marks, diff = app.review.view.model.render_context.marks, app.diffs["P1"][0]
        assert len(diff.change.hunks) == 1
        assert marks.changed_words(0, 0, "new", 2) == (((8, 14),), False)


async def test_white_space_of_a_large_change_is_computed_on_a_thread() -> None:
    diff = blocks(6_000)[0]
    lines = [f"{line} " if number % 60 < 10 else line for number, line in enumerate(diff.old)]
    async with reviewing(app=of(diff.model_copy(update={"new": tuple(lines)}))) as (app, _pilot):
        await until(lambda: "white space off: 1,000 lines" in app.text(), "the count")
        assert "hunk 3: 10 lines differ in white space only" in app.text()
