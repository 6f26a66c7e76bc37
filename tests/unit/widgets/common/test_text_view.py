"""The view of a long text: matches of a query, and the lines that are visible after a resize."""

import pytest
from textual.app import App, ComposeResult

from widgets.common.text_view import TextView, TextViewLine, find_smartcase_matches


@pytest.mark.parametrize(
    ("text", "query", "positions"),
    [
        ("abc ABC", "abc", [0, 4]),
        ("abc ABC", "ABC", [4]),
        ("aaa", "aa", [0]),
        ("İİİ abc", "abc", [4]),
        ("a.c abc", "a.c", [0]),
        ("é abc É", "é", [0, 6]),
        ("abc", "", []),
    ],
)
def test_matches_are_found_at_their_positions(text: str, query: str, positions: list[int]) -> None:
    assert find_smartcase_matches(text, query) == positions


class Viewing(App[None]):
    def compose(self) -> ComposeResult:
        yield TextView()


async def test_after_a_resize_the_same_line_is_at_the_top() -> None:
    app = Viewing()
    async with app.run_test(size=(100, 20)) as pilot:
        view = app.query_one(TextView)
        view.set_lines([TextViewLine(((f"{number} " + "word " * 30, ""),)) for number in range(50)])
        await pilot.pause()
        view.go_to_line(20)
        await pilot.pause()
        before = view.first_line
        for size in ((60, 20), (60, 12), (120, 20)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert view.first_line == before, size
