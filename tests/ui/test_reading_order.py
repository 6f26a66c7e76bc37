"""The review shows first what deserves eyes, says why, and goes back to path order by a key."""

from app.proposals.values.models import FileDiff, Proposal
from tests.attention.commits import as_proposal
from tests.ui.review_app import ReviewApp, reviewing
from tests.ui.sample_diffs import file_diff
from widgets.diff.diff_pane import MiniMap, minimap_cell_change_flags, rows_of_risky_hunks
from widgets.diff.diff_rows import FileRow, LineRow
from widgets.diff.file_list import FileList

ONE = "def test_one():\n    assert 1\n"
FILES = {
    "app/cli.py": ("a = 1\n", "a = 2\n"),
    "tests/test_tide.py": (f"{ONE}\n\ndef test_two():\n    assert 2\n", ONE),
    "uv.lock": ("a\n", "b\n"),
    "pyproject.toml": ("a = 1\n", "a = 2\n"),
    "zz.py": ("a = 1\n", "a = 1\nb = eval(text)\n"),
}  # fmt: skip
BY_NEED = ["zz.py", "tests/test_tide.py", "app/cli.py", "pyproject.toml", "uv.lock"]


def item(**facts: object) -> tuple[Proposal, list[FileDiff]]:
    proposal = as_proposal(FILES).model_copy(update={"summary": "Read the tides", **facts})
    diffs = [
        file_diff(change.path, *FILES[change.path]).model_copy(
            update={"change": change, "reasons": tuple(each for each in proposal.reasons if each.path == change.path)}
        )
        for change in proposal.files
    ]
    return proposal, diffs


def listed(app: ReviewApp) -> list[str]:
    files = app.query_one(FileList)
    return [files.render_line(number).text for number in range(len(app.review.view.diffs))]


def shown(app: ReviewApp) -> list[str]:
    return [diff.change.path for diff in app.review.view.diffs]


async def test_files_are_ordered_by_attention_and_a_key_orders_by_path() -> None:
    second, without_order = item(id="P2", created=1.0), item(id="P3", created=2.0, order=(), reasons=())
    async with reviewing(item(), second, without_order, size=(120, 60)) as (app, pilot):
        assert shown(app) == BY_NEED
        facts = [line.strip(" !▐▌█") for line in app.text().split("\n")]
        assert "+4 -7 in 5 files, adds eval, which runs code, removes 1 test" in facts
        lines = listed(app)
        assert "~ ! zz.py" in lines[0] and "adds eval, which runs code" in lines[0]
        assert "~ ! tests/test_tide.py" in lines[1] and "removes 1 test: test_two" in lines[1]
        assert "~   app/cli.py" in lines[2]
        text = app.text()
        assert "! Adds eval, which runs code (line 2)." in text
        assert "! Removes 1 test: test_two (old line 5)." in text
        await pilot.press("right_curly_bracket")
        before = app.review.view.cursor.row
        await pilot.press("right_square_bracket")
        view = app.review.view
        assert isinstance(view.cursor.row, LineRow) and before != view.cursor.row
        hunk = view.cursor.hunk
        await pilot.press("P")
        assert shown(app) == sorted(FILES)
        assert view.cursor.hunk == hunk, "the cursor stays on its line"
        assert "Files by path." in app.text()
        await pilot.press("P")
        assert shown(app) == BY_NEED and view.cursor.hunk == hunk
        await pilot.press("J", "J")
        assert app.review.state.current == "P3" and shown(app) == sorted(FILES), "no order is stored"
        await pilot.press("K", "P", "K")
        assert app.review.state.current == "P1" and shown(app) == sorted(FILES), "as was chosen for another proposal"
        assert not app.posted


async def test_lock_files_are_folded_and_unseen_until_opened() -> None:
    async with reviewing(item(), size=(120, 60)) as (app, pilot):
        view = app.review.view
        last = len(FILES) - 1
        assert view.model.fold_state.collapsed == {last}
        assert "unseen" in listed(app)[last] and "lock file" in listed(app)[last]
        await pilot.press("P")
        assert view.model.fold_state.collapsed == {sorted(FILES).index("uv.lock")}, "the fold goes with its file"
        await pilot.press("P", "right_parenthesis")
        assert not view.model.fold_state.collapsed
        assert "Is a lock file." in app.text()


async def test_a_lock_file_alone_is_not_folded() -> None:
    proposal, diffs = item()
    (alone,) = [diff for diff in diffs if diff.change.path == "uv.lock"]
    async with reviewing((proposal.model_copy(update={"files": (alone.change,)}), [alone])) as (app, _pilot):
        assert not app.review.view.model.fold_state.collapsed


async def test_the_minimap_marks_the_hunk() -> None:
    async with reviewing(item(), size=(120, 50)) as (app, pilot):
        view, minimap = app.review.view, app.query_one(MiniMap)
        first, second = list(rows_of_risky_hunks(view.layout_rows, view.diffs))
        assert view.layout_rows.landmarks.hunk_keys[:2] == [(0, 0), (1, 0)]
        assert [first, second] == view.layout_rows.landmarks.hunks[:2]
        cells = minimap_cell_change_flags(view.layout_rows, minimap.size.height)
        marked = [y for y in range(len(cells)) if minimap.render_line(y).text == "!"]
        assert [view.layout_rows.part_at(y).number for y in marked] == [first, second]
        # Of a file that is folded, its head is marked.
        view.cursor.go_to_file(0)
        assert isinstance(view.cursor.row, FileRow)
        await pilot.press("enter")
        assert next(rows_of_risky_hunks(view.layout_rows, view.diffs)) == view.layout_rows.landmarks.files[0]
