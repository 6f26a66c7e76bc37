"""Line breaking and table columns: greedy, exact, reversible by a copy, and the same however a text grows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widgets.chat.entries.message_entries import GrowingPlainTextRows
from widgets.chat.markdown.markdown_blocks import TableRow, table_column_widths
from widgets.chat.markdown.styled_lines import (
    BLANK_LINE,
    TEXT_STYLE,
    TextStyle,
    cell_width,
    find_row_breaks,
    format_seconds,
    make_safe_text,
    shorten_to_one_line,
    slice_spans,
    wrap_spans,
    wrap_text,
)

TEXTS = st.text(alphabet="abc  de\u65e5\u672ce\u0301", max_size=80)


@given(TEXTS, st.integers(2, 30))
def test_rows_fit_and_join_to_the_text_again(text: str, width: int) -> None:
    joined = ""
    for start, end, joint in find_row_breaks(text, width):
        assert cell_width(text[start:end]) <= width
        joined += (joint or "") + text[start:end]
    assert joined.rstrip(" ") == text.rstrip(" ")


@given(st.lists(TEXTS, max_size=5), st.integers(0, 60), st.integers(0, 60))
def test_slices_of_spans_are_slices_of_their_text(parts: list[str], start: int, end: int) -> None:
    spans = [(part, TextStyle(bold=index % 2 == 0)) for index, part in enumerate(parts)]
    assert "".join(text for text, _ in slice_spans(spans, start, end)) == "".join(parts)[start:end]


def test_prefixes_are_decoration() -> None:
    rows = wrap_spans([("one two three", TEXT_STYLE)], 8, (("- ", TEXT_STYLE),), (("  ", TEXT_STYLE),))
    assert [row.text for row in rows] == ["- one", "  two", "  three"]
    assert [row.gutter for row in rows] == [2, 2, 2]
    assert [row.joint for row in rows] == [None, " ", " "]


@given(TEXTS, st.integers(1, 30))
def test_shortened_text_fits(text: str, width: int) -> None:
    assert cell_width(shorten_to_one_line(text, width)) <= width
    assert (shorten_to_one_line("one two three", 8), shorten_to_one_line("日本語", 5)) == ("one two…", "日本…")


def test_blanks_at_the_end_of_a_full_row_take_no_extra_row() -> None:
    assert list(find_row_breaks("ab  ", 2)) == [(0, 2, None)]
    assert list(find_row_breaks("ab cd ", 2)) == [(0, 2, None), (3, 5, " ")]


@pytest.mark.parametrize(
    ("duration", "said"),
    [
        (0.04, ""),
        (0.05, "0.1 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (185.2, "3 min 05 s"),
    ],
)
def test_a_duration_is_shown_with_useful_precision(duration: float, said: str) -> None:
    assert format_seconds(duration) == said


PIECES = st.lists(st.text("ab \n\r\x1b", max_size=12), max_size=12)


@given(PIECES, st.integers(1, 9))
def test_a_growing_text_has_the_rows_of_the_whole(pieces: list[str], width: int) -> None:
    document, text = GrowingPlainTextRows(width, TEXT_STYLE), ""
    for piece in pieces:
        text += piece
        document.set_text(BLANK_LINE, text)
    document.set_text(BLANK_LINE, text)
    assert document.lines == [BLANK_LINE, *wrap_text(make_safe_text(text), TEXT_STYLE, width)]


def test_rows_of_whole_lines_stay() -> None:
    document = GrowingPlainTextRows(20, TEXT_STYLE)
    document.set_text(BLANK_LINE, "first line\nsecond")
    kept = document.lines[1]
    document.set_text(BLANK_LINE, "first line\nsecond and more\nthird")
    assert document.lines[1] is kept
    assert [line.text for line in document.lines[1:]] == ["first line", "second and more", "third"]


GAP = 3


def row(*cells: str) -> TableRow:
    return [[(cell, TEXT_STYLE)] for cell in cells]


CELLS = st.lists(st.lists(st.text("ab 日", max_size=30), min_size=1, max_size=5), min_size=1, max_size=4)


@given(CELLS, st.integers(1, 120))
def test_table_columns_fit_and_avoid_broken_words(cells: list[list[str]], width: int) -> None:
    rows = [row(*line) for line in cells]
    columns = max(map(len, rows))
    widths = table_column_widths(rows, width)
    room = max(columns, width - GAP * (columns - 1))
    longest = [
        max([1, *(cell_width(word) for line in cells if index < len(line) for word in line[index].split())])
        for index in range(columns)
    ]
    wanted = [max([1, *(cell_width(line[index]) for line in cells if index < len(line))]) for index in range(columns)]
    assert len(widths) == columns
    assert sum(widths) <= room
    assert all(1 <= given <= most for given, most in zip(widths, wanted, strict=True))
    assert sum(widths) == min(room, sum(wanted)), "no room is wasted"
    if sum(longest) <= room:
        assert all(given >= word for given, word in zip(widths, longest, strict=True))
