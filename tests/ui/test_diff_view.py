"""The diff view by keys and mouse: layouts, folds, wraps, search, copying, and text that stays harmless."""

import asyncio

import pytest
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.selection import Selection
from textual.widgets import Input

from tests.ui.review_app import ReviewApp, ready, reviewing
from tests.ui.review_states import hostile, kinds
from tests.ui.sample_diffs import blocks, file_diff, many_lines, proposed, retry_proposal
from tests.waiting import until
from widgets.diff.diff_pane import MiniMap
from widgets.diff.diff_rows import FoldRow, LineRow
from widgets.diff.diff_view import DiffView


async def test_a_narrow_diff_is_unified_and_a_wide_one_side_by_side() -> None:
    for width, split in ((100, False), (160, True)):
        async with reviewing(retry_proposal(), size=(width, 60)) as (app, pilot):
            view = app.review.view
            assert view.is_split is split
            (line,) = [line for line in app.text().splitlines() if "time.sleep(attempt)" in line]
            assert ("time.sleep(2**attempt)" in line) is split, "similar lines are on one row"
            await pilot.press("v")
            assert view.is_split is not split


async def test_a_diff_is_laid_out_although_its_region_was_queried_before_the_layout() -> None:
    app = ReviewApp(retry_proposal())
    app.review.display = False
    async with app.run_test(size=(100, 60)) as pilot:
        await pilot.pause()
        app.review.display = True
        app.screen._compositor._full_map_invalidated = True
        assert app.review.view in app.screen._compositor.full_map
        await pilot.pause()
        await until(lambda: "time.sleep(attempt)" in app.text(), "the diff")


async def test_the_cursor_stays_on_its_line_through_every_change_of_layout() -> None:
    async with reviewing(retry_proposal(), size=(120, 30)) as (app, pilot):
        view = app.review.view
        await pilot.press(*["right_square_bracket"] * 3, "j", "j")
        row = view.cursor.row
        assert isinstance(row, LineRow)
        for key in ("v", "w", "Z", "v", "w", "Z"):
            await pilot.press(key)
            now = view.cursor.row
            assert isinstance(now, LineRow)
            assert row.new is None or now.new == row.new, key
            top = view.scroll_offset.y
            assert top <= view.layout_rows.first_line_of_row(view.cursor.number) < top + view.size.height, key


async def test_cursor_moves_work_while_the_view_is_hidden() -> None:
    async with reviewing(proposed(*many_lines(400)), size=(100, 40)) as (app, pilot):
        view = app.review.view
        for row in (150, 399):
            view.cursor.move_to_top()
            view.cursor.move_to(row)
            in_sight = view.cursor.number, view.scroll_offset
            view.cursor.move_to_top()
            app.review.display = False
            await pilot.pause()
            view.cursor.move_to(row)
            assert (view.cursor.number, view.scroll_offset) == in_sight
            app.review.display = True
            await pilot.pause()
            assert (view.cursor.number, view.scroll_offset) == in_sight


async def test_a_moved_and_changed_block_shows_its_origin_and_changes() -> None:
    block = ["def total(prices, rate):", "    net = sum(prices)", "    tax = net * rate", "    return net + tax"]
    others = [f"line {number} stays" for number in range(8)]
    changed = [line.replace("net * rate", "net * rate / 100") for line in block]
    diffs = [file_diff("a.py", "\n".join([*block, *others, ""]), "\n".join([*others, *changed, ""]))]
    async with reviewing(proposed(*diffs), size=(120, 40)) as (app, pilot):
        view = app.review.view
        (line,) = [line for line in app.text().splitlines() if "/ 100" in line]
        assert "«+ " in line
        (line,) = [line for line in app.text().splitlines() if "net * rate" in line and "/ 100" not in line]
        assert "»- " in line
        await pilot.press("right_square_bracket", "j", "j")
        assert "a.py:11" in app.text() and "moved from line 3" in app.text()
        number = view.layout_rows.first_line_of_row(view.cursor.number) - view.scroll_offset.y
        segments = [segment for segment in view.render_line(number) if segment.text.strip() in ("/ 100", "/", "100")]
        word = view.get_visual_style("diff--plain", "diff--moved", "diff--added-word").rich_style.bold
        assert segments and all(segment.style and segment.style.bold == word for segment in segments)
        await pilot.press("left_square_bracket", "left_square_bracket")
        assert "moved to line 9" in app.text()


async def test_a_rename_with_edits_shows_the_edits() -> None:
    text = "".join(f"line {number}\n" for number in range(30))
    diffs = [file_diff("new/b.py", text, text.replace("line 20\n", "line twenty\n"), old_path="old/a.py")]
    async with reviewing(proposed(*diffs), size=(120, 30)) as (app, _pilot):
        view = app.review.view
        text = app.text()
        assert "old/a.py → new/b.py" in text and "renamed" in text
        assert "line 20" in text and "line twenty" in text
        assert view.cursor.hunk == diffs[0].change.hunks[0]


async def test_keys_move_by_hunks_and_files() -> None:
    async with reviewing(retry_proposal(), size=(100, 24)) as (app, pilot):
        view = app.review.view
        numbers = []
        for _ in range(6):
            hunk = view.cursor.hunk
            assert hunk is not None
            numbers.append(hunk.number)
            await pilot.press("right_square_bracket")
        assert numbers == [1, 2, 3, 4, 5, 6]
        await pilot.press("left_curly_bracket", "left_curly_bracket")
        assert view.cursor.file_index == 0
        await pilot.press("right_curly_bracket")
        assert view.cursor.file_index == 1
        await pilot.press("g")
        assert view.cursor.number == 0
        await pilot.press("G")
        assert view.cursor.number == view.layout_rows.row_count - 1


async def test_long_lines_scroll_beside_fixed_line_numbers_or_wrap() -> None:
    async with reviewing(proposed(file_diff("a.py", "x\n", f"start {'.' * 100} end\n")), size=(80, 30)) as (
        app,
        pilot,
    ):
        assert " end" not in app.text()
        await pilot.press(*["l"] * 6)
        shown = next(line for line in app.text().splitlines() if " end" in line)
        assert "1 + " in shown
        assert "start" not in shown
        await pilot.press("w")
        assert "start ." in app.text() and ". end" in app.text()


async def test_a_search_counts_matches_and_opens_folds() -> None:
    old = [f"line {number}" for number in range(200)]
    old[150] = "needle in a fold"
    new = ["a new needle", *old]
    async with reviewing(proposed(file_diff("a.txt", "\n".join(old), "\n".join(new))), size=(100, 30)) as (
        app,
        pilot,
    ):
        view = app.review.view
        await pilot.press("slash", *"ynYNu")
        assert app.posted == [] and [field.value for field in app.query(Input) if field.has_focus] == ["ynYNu"]
        await pilot.press("escape", "slash", *"needle", "enter")
        assert len(view.search.matches) == 2
        assert app.focused is view
        await pilot.press("full_stop")
        assert "needle in a fold" in app.text()
        row = view.cursor.row
        assert isinstance(row, LineRow) and row.new == 151
        await pilot.press("comma", "slash", "escape")
        assert not view.search.matches
        assert app.focused is view


async def test_a_search_starts_at_the_cursor_and_numbers_the_match() -> None:
    old = [f"line {number}" for number in range(200)]
    new = list(old)
    for number in (10, 50, 90):
        new[number] = f"a needle {number}"
    diffs = [file_diff("a.txt", "\n".join(old), "\n".join(new)), file_diff("b.txt", "needle\n", "a\nneedle\n")]
    async with reviewing(proposed(*diffs), size=(100, 30)) as (app, pilot):
        view = app.review.view
        await pilot.press("right_square_bracket", "j", "j", "j")
        await pilot.press("slash", *"needle")
        assert "Search" in app.text() and "Esc ends" in app.text()
        await pilot.press("enter")
        row = view.cursor.row
        assert isinstance(row, LineRow) and row.new == 90
        assert "“needle” 3 of 4" in app.text()
        await pilot.press("full_stop", "full_stop")
        assert "“needle” 1 of 4" in app.text()
        await pilot.press("right_curly_bracket", "slash", "enter")
        assert view.cursor.file_index == 1
        assert "“needle” 4 of 4" in app.text(), "what is found again begins at the cursor, too"


async def test_search_term_and_count_are_complete_in_narrow_panes() -> None:
    path = "packages/server/src/handlers/connections.py"
    text = "".join(f"the RETRIES of number {number}\n" for number in range(12))
    diffs = [file_diff(path, "x\n", text), file_diff("b.txt", "a\n", "b\n")]
    async with reviewing(proposed(*diffs), size=(60, 20)) as (app, pilot):
        assert path in app.text()
        await pilot.press("slash", *"RETRIES of number", "enter")
        head = app.text().splitlines()[0]
        assert "“RETRIES of number” 1 of 12" in head
        assert "…" not in head
        await pilot.press("slash", *"the RETRIES of number that is looked for", "enter")
        assert "“the RETRIES of numb…” 0 lines" in app.text()


@pytest.mark.parametrize("hunks", [1, 40])
async def test_a_move_to_a_file_shows_its_heading_at_the_top(hunks: int) -> None:
    old = "\n".join(f"line {number}" for number in range(10 * hunks))
    new = "\n".join(f"line {number}{'x' if number % 10 == 5 else ''}" for number in range(10 * hunks))
    diffs = [file_diff(f"{name}.txt", old, new) for name in ("a", "b", "c", "d", "e", "f")]
    async with reviewing(proposed(*diffs), size=(100, 30)) as (app, pilot):
        view = app.review.view
        for file in (1, 2):
            await pilot.press("right_curly_bracket")
            assert view.cursor.file_index == file
            assert view.layout_rows.part_at(view.scroll_offset.y)[0] == view.cursor.number
        await pilot.press("left_curly_bracket")
        assert view.layout_rows.part_at(view.scroll_offset.y)[0] == view.cursor.number


async def searched(pilot: Pilot[None], view: DiffView) -> None:
    await until(lambda: not view.search.running, "the end of the search")
    await pilot.pause()


async def test_a_large_change_is_searched_in_the_background() -> None:
    diffs = blocks(20_000)
    async with reviewing(proposed(*diffs), size=(100, 40)) as (app, pilot):
        view = app.review.view
        await pilot.press("slash", *"value_5999", "enter")
        assert view.has_focus
        await searched(pilot, view)
        hunks = diffs[0].change.hunks
        removed = [line for hunk in hunks for line in diffs[0].old[hunk.old_start : hunk.old_start + hunk.old_count]]
        assert len(view.search.matches) == sum("value_5999" in line for line in (*diffs[0].new, *removed)) > 0
        row = view.cursor.row
        assert isinstance(row, LineRow)
        assert row.new is not None
        assert "value_5999" in diffs[0].new[row.new]
        # Only the last of several searches counts.
        await ready(pilot)
        view.search.start("compute")
        view.search.start("value_777,")
        view.search.start("nowhere to be found")
        await searched(pilot, view)
        assert (view.search.query, view.search.matches, view.search.running) == ("nowhere to be found", [], False)
        view.search.start("compute")
        view.search.start("")
        await searched(pilot, view)
        assert (view.search.matches, view.search.running) == ([], False)


async def test_control_characters_of_a_file_are_made_visible() -> None:
    async with reviewing(hostile(), size=(100, 40)) as (app, pilot):
        for key in ("v", "w", "Z"):
            text = app.text()
            assert not set(text) & set("\x1b\x9b\u202e\u2066\u200b"), key
            await pilot.press(key)
        assert "2 bidirectional controls" in text
        assert "[bold]not bold[/bold] [/]" in text


async def test_every_line_is_as_wide_as_the_view() -> None:
    wide = proposed(file_diff("a.txt", "日本語\tx\nabc\n", "日本語\ty\nabc\n"))
    for shown, width in ((kinds(), 97), (wide, 160)):
        async with reviewing(shown, size=(width, 50)) as (app, pilot):
            view = app.review.view
            for key in "vwvw":
                await pilot.press(key)
                strips = [view.render_line(y) for y in range(view.size.height)]
                widths = {sum(segment.cell_length for segment in strip) for strip in strips}
                assert widths | {strip.cell_length for strip in strips} == {view.size.width}


async def test_a_copy_has_no_line_numbers_and_folds_open_in_place_by_key_and_mouse() -> None:
    async with reviewing(retry_proposal(), size=(100, 70)) as (app, pilot):
        view = app.review.view
        layout = view.layout_rows
        y = layout.first_line_of_row(layout.landmarks.hunks[0])
        selection = Selection(Offset(0, y), Offset(6, y + 2))
        assert view.get_selection(selection) == ("import logging\nimport time\nfrom u", "\n")
        await pilot.mouse_down("DiffView", offset=(12, y))
        await pilot.hover("DiffView", offset=(18, y))
        await pilot.mouse_up("DiffView", offset=(18, y))
        copied = app.screen.get_selected_text()
        assert copied is not None and copied.startswith("import")
        app.screen.clear_selection()
        rows = layout.row_count
        fold = next(number for number in range(rows) if isinstance(layout.row_at(number), FoldRow))
        view.cursor.move_to(fold)
        await pilot.press("enter")
        assert view.layout_rows.row_count > rows
        assert view.cursor.number == fold, "the cursor is on the first line that was hidden"
        await pilot.press("z")
        assert (view.layout_rows.row_count, view.cursor.number) == (rows, fold)
        await pilot.click("DiffView", offset=(20, view.layout_rows.first_line_of_row(fold) - view.scroll_offset.y))
        assert view.layout_rows.row_count > rows
        first, second = view.layout_rows.landmarks.files
        assert second > first + 2
        await pilot.click("DiffView", offset=(20, view.layout_rows.first_line_of_row(first) - view.scroll_offset.y))
        first, second = view.layout_rows.landmarks.files
        assert second == first + 2, "only the head of the first file is left, and the air below"
        before = view.cursor.number, view.layout_rows.row_count
        assert view.layout_rows.height < view.size.height
        await pilot.click("DiffView", offset=(20, view.size.height - 1))
        assert (view.cursor.number, view.layout_rows.row_count) == before, "below the last row"


async def test_a_click_on_the_minimap_scrolls_there() -> None:
    async with reviewing(proposed(*blocks(3_000)), size=(100, 40)) as (app, pilot):
        view = app.review.view
        height = app.query_one(MiniMap).size.height
        await pilot.click(MiniMap, offset=(0, height - 1))
        assert view.scroll_offset.y > view.max_scroll_y * 0.9


async def test_a_large_change_is_scrolled_without_a_complete_layout() -> None:
    async with reviewing(proposed(*many_lines(100_000)), size=(100, 40)) as (app, pilot):
        view = app.review.view
        await pilot.press("G")
        assert "value_99999 = 99999 * 2" in app.text()
        assert len(view.layout_rows.segments) < 10


async def test_a_diff_is_drawn_again_when_the_theme_changes() -> None:
    async with reviewing(kinds(), size=(100, 40)) as (app, pilot):
        line = app.review.view.render_line(3)
        app.theme = "textual-light"
        await pilot.pause()
        after = app.review.view.render_line(3)
        assert after.text == line.text
        assert [segment.style for segment in after] != [segment.style for segment in line]


async def test_the_splitter_can_be_dragged() -> None:
    async with reviewing(*(retry_proposal(f"P{number}") for number in range(1, 20)), size=(100, 40)) as (app, pilot):
        before, rows = app.review.approval_pane.size.height, app.review.approval_pane.queue.size.height
        await pilot.mouse_down("Splitter", offset=(10, 0))
        await pilot.hover("DiffView", offset=(10, 8))
        await pilot.mouse_up("DiffView", offset=(10, 8))
        assert app.review.approval_pane.size.height > before
        assert app.review.approval_pane.queue.size.height == rows + app.review.approval_pane.size.height - before


async def test_a_jump_beyond_the_finished_layout_arrives() -> None:
    diffs = blocks(62_000)
    async with reviewing(proposed(*diffs), size=(100, 40)) as (app, pilot):
        view = app.review.view
        hunks = diffs[0].change.hunks
        view.relayout()
        assert not view.layout_rows.complete
        view.action_bottom()
        assert view.layout_rows.complete
        assert view.cursor.number == view.layout_rows.row_count - 1
        assert view.scroll_offset.y == view.max_scroll_y
        view.action_top()
        view.relayout()
        assert not view.layout_rows.complete
        row = view.layout_rows.row_of_hunk(0, 500)
        view.update_scroll_range()
        assert row is not None
        view.cursor.go_to(row)
        assert view.cursor.hunk == hunks[500]
        top, line = view.scroll_offset.y, view.layout_rows.first_line_of_row(view.cursor.number)
        assert top <= line < top + view.size.height
        assert not view.layout_rows.complete, "what is below is laid out later"
        async with asyncio.timeout(60):
            while not view.layout_rows.complete:
                await pilot.pause()
                await view.workers.wait_for_complete()
        assert len(view.layout_rows.landmarks.hunks) == len(hunks)
        assert view.virtual_size.height == view.layout_rows.height


async def test_look_alike_letters_are_marked_anywhere_in_a_long_line() -> None:
    line = "x = f(y);" * 1_000 + "p\u0430ssword = 1;" + "x = f(y);" * 1_000
    async with reviewing(proposed(file_diff("a.js", "old\n", f"{line}\n")), size=(100, 30)) as (app, pilot):
        view = app.review.view
        view.cursor.move_to(view.layout_rows.landmarks.hunks[0] + 1)
        view.scroll_to(x=9_000 - 10, animate=False, immediate=True)
        await pilot.pause()
        y = view.layout_rows.first_line_of_row(view.cursor.number) - view.scroll_offset.y
        unsafe = view.get_component_rich_style("diff--unsafe").bgcolor
        marked = [
            piece.text for piece in view.render_line(y) if piece.style is not None and piece.style.bgcolor == unsafe
        ]
        assert marked == ["p\u0430ssword"]
