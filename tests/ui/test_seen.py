"""Nothing that was never on the terminal counts as seen: rows, columns, panes that are hidden, dialogs in front."""

from collections.abc import Sequence

import pytest
from textual.geometry import Region
from textual.pilot import Pilot
from textual.screen import ModalScreen
from textual.widgets import Static

from app.proposals.values.models import FileDiff, FileOperation, ProposalState
from app.review.review_state import UnseenPartsSummary
from tests.ui.review_app import BIG, ReviewApp, reviewing
from tests.ui.sample_diffs import file_diff, many_lines, proposal, proposed
from tests.waiting import until
from widgets.diff.diff_rows import NoteRow
from widgets.diff.file_list import FileList
from widgets.review import review_messages
from widgets.review.approval_pane import ReviewQueue

EVIL = "b = 3" + 200 * " " + "; import os; os.system('evil')"


def of(diffs: Sequence[FileDiff]) -> ReviewApp:
    return ReviewApp(proposed(*diffs))


def unseen(app: ReviewApp) -> UnseenPartsSummary:
    """What an approval of it would write unseen."""
    return app.review.state.unseen_parts(app.proposals["P1"])


async def page_to_the_end(pilot: Pilot[None], app: ReviewApp) -> None:
    view = app.review.view
    for _ in range(400):
        if view.scroll_offset.y >= view.max_scroll_y:
            return
        before = view.scroll_offset.y
        await pilot.press("pagedown")
        assert view.scroll_offset.y > before, "every page leads on"
    raise AssertionError("the end was never reached")


def rewrite(count: int) -> list[FileDiff]:
    """One hunk of so many removed and as many added lines."""
    old = [f"old {number}" for number in range(count)]
    new = [f"entirely different content of {number}" for number in range(count)]
    return [file_diff("big.py", "\n".join(old) + "\n", "\n".join(new) + "\n")]


async def test_a_large_hunk_is_seen_only_after_paging_through_it() -> None:
    async with reviewing(app=of(rewrite(60)), size=(60, 20)) as (app, pilot):
        missing = unseen(app)
        assert missing.total == 120 and 0 < missing.lines < 120
        await pilot.press("y")
        assert app.posted == []
        words = " ".join(app.text().split())
        assert f"{missing.lines} of 120 changed lines of P1 were never on screen (big.py)" in words
        await pilot.press("y")
        assert app.posted == [], "the question has a grace period"
        await app.press_later("n")
        await pilot.press("pagedown")
        assert 0 < unseen(app).lines < missing.lines
        await app.press_later("y")
        while "never on screen" in app.text():
            await pilot.press("right_parenthesis")
        assert "All of it has been on the screen now" in " ".join(app.text().split())
        assert not unseen(app) and app.posted == []
        await app.press_later("y")
        assert app.posted == [review_messages.Approve("P1", 1, None)]
        # Of plain lines it is known which were read; of a diff, however long, that is no question.
        view = app.review.view
        shown, diffs = view.proposal, view.diffs
        view.show_text([NoteRow(-1, f"line {number}", "plain") for number in range(200)], 200)
        assert view.first_unread_line is not None
        assert shown is not None
        view.show_change(shown, diffs)
        assert view.first_unread_line is None
        assert view.check_action("comment", ())
        view.show_change(shown.model_copy(update={"state": ProposalState.APPLIED}), diffs)
        assert view.check_action("comment", ()) is False


@pytest.mark.parametrize(("width", "keys"), [(60, ["v"]), (100, ["v", "w"]), (100, ["Z"]), (60, ["w", "Z"])])
async def test_paging_marks_all_lines_seen_in_every_layout(keys: list[str], width: int) -> None:
    old = [f"line {number}" for number in range(60)]
    new = [f"{line} changed" if number % 25 < 9 else line for number, line in enumerate(old)]
    async with reviewing(
        app=of([file_diff("a.py", "\n".join(old), "\n".join(new)), *many_lines(30)]), size=(width, 20)
    ) as (app, pilot):
        await pilot.press(*keys, "g")
        await page_to_the_end(pilot, app)
        assert not unseen(app)


async def test_columns_beyond_the_edge_are_unseen_and_marked() -> None:
    async with reviewing(app=of([file_diff("a.py", "a = 1\nb = 2\n", f"a = 1\n{EVIL}\n")]), size=(100, 30)) as (
        app,
        pilot,
    ):
        assert "os.system" not in app.text()
        line = next(line for line in app.text().splitlines() if "b = 3" in line)
        assert line.rstrip("▐ ").endswith("→"), line
        assert unseen(app) == UnseenPartsSummary(1, 2, ("a.py",))
        await pilot.press("y")
        assert app.posted == []
        for key in ("n", *["right_parenthesis"] * 3):
            await pilot.press(key)
        assert "os.system('evil')" in app.text()
        assert "←" in app.text()
        await pilot.press(*["right_parenthesis"] * 4)
        assert not unseen(app)


@pytest.mark.parametrize("keys", [[], ["v", "w"]])
async def test_a_line_of_half_a_megabyte_is_shown_around_its_change(keys: list[str]) -> None:
    start, end = "x = [" + "1, " * 80_000, "2, " * 80_000 + "]"
    async with reviewing(
        app=of([file_diff("a.py", f"{start}7777, {end}\n", f"{start}8888, {end}\n")]), size=(100, 30)
    ) as (app, pilot):
        await pilot.press(*keys)
        text = app.text()
        assert "7777" in text and "8888" in text
        assert "unchanged⋯" in text and "⋯239," in text.replace("⋯240,", "⋯239,")
        assert not unseen(app)


async def test_the_hidden_part_of_a_line_can_be_opened_and_closed() -> None:
    start, end = "begin " + "a" * 900, "z" * 900 + " finish"
    async with reviewing(app=of([file_diff("a.py", f"{start} 1 {end}\n", f"{start} 2 {end}\n")]), size=(100, 40)) as (
        app,
        pilot,
    ):
        await pilot.press("w")
        folded = app.text()
        assert "unchanged⋯" in folded and "finish" not in folded
        await pilot.press("enter")
        assert "finish" in app.text()
        await pilot.press("enter")
        assert app.text() == folded


async def test_a_row_taller_than_the_pane_is_paged_through() -> None:
    async with reviewing(app=of([file_diff("a.py", None, "word " * 2_000 + "\n")]), size=(60, 20)) as (app, pilot):
        await pilot.press("w", "g")
        await page_to_the_end(pilot, app)
        assert not unseen(app)


async def test_unseen_lines_are_counted_and_a_key_goes_to_them() -> None:
    diffs = [*rewrite(60), file_diff("b.py", "a\n", "b\n", first=2), file_diff("c.py", "a\n", "b\n", first=3)]
    async with reviewing(app=of(diffs), size=(90, 30)) as (app, pilot):
        files, view = app.query_one(FileList), app.review.view
        missing = unseen(app).lines - 4
        assert f"{missing} of 120 unseen" in files.render_line(0).text
        assert " unseen" in files.render_line(1).text
        assert f"{missing} of 120 unseen" in app.text().splitlines()[0]
        for _ in range(20):
            if not unseen(app):
                break
            before = unseen(app).lines
            await pilot.press("right_parenthesis")
            assert unseen(app).lines < before
        assert files.render_line(0).text.rstrip().endswith("✓")
        await pilot.press("g", "right_parenthesis")
        assert "has been on screen" in app.text()
        assert view.cursor.number == 0


async def test_a_closed_file_is_unseen_and_the_unseen_key_opens_it() -> None:
    far = file_diff("run.sh", "a\n", "a\n", op=FileOperation.MODE)
    async with reviewing(app=of([file_diff("a.py", "1\n", "2\n"), *rewrite(30), far]), size=(80, 12)) as (app, pilot):
        assert "run.sh" in unseen(app).paths
        await pilot.press("right_curly_bracket", "enter", "G")
        missing = unseen(app)
        assert missing.lines > 50 and "run.sh" not in missing.paths, "a mode is seen with the heading of its file"
        await pilot.press("right_parenthesis")
        assert unseen(app).lines < missing.lines


async def test_a_rename_and_a_mode_are_seen_with_the_heading_of_their_file() -> None:
    texts = ["\n".join(f"{sign} {number}" for number in range(60)) for sign in "abc"]
    moved = file_diff("run.sh", texts[0], texts[0].replace("a 40", "A 40"), old_path="old.sh", mode=0o755, first=2)
    async with reviewing(
        app=of([*rewrite(60), moved, file_diff("z.py", texts[1], texts[2], first=3)]), size=(60, 20)
    ) as (app, pilot):
        seen_texts = ""
        while unseen(app):
            await pilot.press("right_parenthesis")
            seen_texts += app.text()
        assert "▾›→ old.sh → run.sh" in seen_texts


async def test_lines_behind_a_dialog_are_unseen_until_it_closes() -> None:
    class Dialog(ModalScreen[None]):
        DEFAULT_CSS = "Dialog { background: $background 60%; } Dialog Static { width: 10; height: 3; }"

        def compose(self):  # type: ignore[no-untyped-def]
            yield Static("dialog")

    async with reviewing(app=of(rewrite(20))) as (app, _pilot):
        diffs = rewrite(21)
        await app.push_screen(Dialog())
        await app.change(proposal("P1", diffs, revision=2), diffs)
        app.review.view.render_lines(Region(0, 0, *app.review.view.size))
        assert unseen(app).lines == 42, "though it is drawn, dimmed"
        app.pop_screen()
        await until(lambda: not unseen(app), "the lines behind the dialog to be drawn")


async def test_covered_or_hidden_lines_are_unseen() -> None:
    app = of(rewrite(20))
    app.review.display = False
    async with app.run_test(size=BIG) as pilot:
        await pilot.pause()
        assert unseen(app).lines == 40
        cover = Static("over it")
        cover.styles.layer, cover.styles.width, cover.styles.height = "above", "100%", 8
        app.screen.styles.layers = ("default", "above")  # type: ignore[assignment]
        await app.screen.mount(cover)
        app.review.display = True
        await until(lambda: unseen(app).lines < 40, "the lines below the cover to be drawn")
        await pilot.pause()
        assert unseen(app).lines > 0
        await cover.remove()
        await until(lambda: not unseen(app), "the lines that were covered to be drawn")


async def test_line_ends_that_a_resize_cuts_off_are_unseen() -> None:
    text = "".join(f"value_{number} = '{'a' * 60}'\n" for number in range(45))
    async with reviewing(app=of([file_diff("a.py", None, text)]), size=(120, 20)) as (app, pilot):
        before = unseen(app)
        await pilot.resize_terminal(60, 58)
        await pilot.pause()
        assert "value_44 = 'aaa" in app.text() and "aaa'" not in app.text()
        assert unseen(app) == before and before.lines > 20


async def test_a_rebase_is_reported_and_its_changes_are_unseen() -> None:
    first, second = (
        [file_diff("a.py", f"{top}1\n2\n", f"{top}1\nx{top}\n", rebased=bool(top))] for top in ("", "0\n")
    )
    async with reviewing(app=of(first)) as (app, _pilot):
        assert "re-based since" not in app.text()
        await app.change(proposal("P1", second, revision=2), second)
        assert "a.py: re-based since you last saw it here" in app.text()
        await app.change(proposal("P1", second, revision=2), second)
        assert "a.py: re-based since you last saw it here" in app.text(), "until it is decided"
        for state in (ProposalState.STALE, ProposalState.APPLIED):
            await app.change(proposal("P1", second, revision=2, state=state), second)
            assert "re-based since" not in app.text(), "nothing would be written any more"


async def test_seen_lines_stay_seen_and_approving_all_or_a_part_asks_about_unseen_lines_alike() -> None:
    items = proposed(*rewrite(60)), (proposal("P2", rewrite(90)), rewrite(90))
    async with reviewing(*items, size=(90, 24)) as (app, pilot):
        await page_to_the_end(pilot, app)
        await pilot.press("J", "K")
        assert not unseen(app), "also after another proposal was shown"
        await app.press_later("Y")
        assert "changed lines of P2 were never on screen (big.py)" in " ".join(app.text().split())
        await pilot.press("n", "J")
        await app.press_later("space")
        assert app.review.state.unseen_parts(app.proposals["P2"]) == UnseenPartsSummary(), (
            "what is left out doesn't count"
        )


async def test_the_unseen_key_works_from_the_approvals() -> None:
    async with reviewing(app=of(rewrite(150)), size=(100, 24)) as (app, pilot):
        for way in ("key", "click"):
            app.review.query_one(ReviewQueue).focus()
            await pilot.pause()
            before = unseen(app).lines
            if way == "key":
                await pilot.press("right_parenthesis")
            else:
                row, line = next((row, line) for row, line in enumerate(app.text().split("\n")) if "unseen" in line)
                await pilot.click(offset=(line.index("unseen"), row))
            await pilot.pause()
            assert unseen(app).lines < before, way
            assert app.review.view.has_focus, "what moves in the diff next moves there"
