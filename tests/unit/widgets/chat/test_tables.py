"""Widths of table columns."""

from hypothesis import given
from hypothesis import strategies as st

from widgets.chat.markdown.markdown_blocks import Row, column_widths
from widgets.chat.markdown.styled_lines import TEXT, width_of

GAP = 3


def row(*cells: str) -> Row:
    return [[(cell, TEXT)] for cell in cells]


def test_words_stay_whole_where_there_is_room() -> None:
    rows = [row("File", "Lines", "Why"), row("tests/test_fetch.py", "40", "covers the back-off and giving up")]
    assert column_widths(rows, 47)[0] == len("tests/test_fetch.py")


CELLS = st.lists(st.lists(st.text("ab 日", max_size=30), min_size=1, max_size=5), min_size=1, max_size=4)


@given(CELLS, st.integers(1, 120))
def test_columns_fit_and_keep_words_whole_if_they_can(cells: list[list[str]], width: int) -> None:
    rows = [row(*line) for line in cells]
    columns = max(map(len, rows))
    widths = column_widths(rows, width)
    room = max(columns, width - GAP * (columns - 1))
    longest = [
        max([1, *(width_of(word) for line in cells if index < len(line) for word in line[index].split())])
        for index in range(columns)
    ]
    wanted = [max([1, *(width_of(line[index]) for line in cells if index < len(line))]) for index in range(columns)]
    assert len(widths) == columns
    assert sum(widths) <= room
    assert all(1 <= given <= most for given, most in zip(widths, wanted, strict=True))
    assert sum(widths) == min(room, sum(wanted)), "no room is wasted"
    if sum(longest) <= room:
        assert all(given >= word for given, word in zip(widths, longest, strict=True))
