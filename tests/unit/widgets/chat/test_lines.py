"""Line breaking: greedy, exact, and reversible by a copy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import split_graphemes

from widgets.chat.markdown import styled_lines
from widgets.chat.markdown.styled_lines import TEXT, TextStyle, breaks, seconds, shorten, slice_spans, width_of, wrap

TEXTS = st.text(alphabet="abc  de\u65e5\u672ce\u0301", max_size=80)


@given(TEXTS, st.integers(2, 30))
def test_rows_fit_and_join_to_the_text_again(text: str, width: int) -> None:
    joined = ""
    for start, end, joint in breaks(text, width):
        assert width_of(text[start:end]) <= width
        joined += (joint or "") + text[start:end]
    assert joined.rstrip(" ") == text.rstrip(" ")


@given(st.lists(TEXTS, max_size=5), st.integers(0, 60), st.integers(0, 60))
def test_slices_of_spans_are_slices_of_their_text(parts: list[str], start: int, end: int) -> None:
    spans = [(part, TextStyle(bold=index % 2 == 0)) for index, part in enumerate(parts)]
    assert "".join(text for text, _ in slice_spans(spans, start, end)) == "".join(parts)[start:end]


def test_prefixes_are_decoration() -> None:
    rows = wrap([("one two three", TEXT)], 8, (("- ", TEXT),), (("  ", TEXT),))
    assert [row.text for row in rows] == ["- one", "  two", "  three"]
    assert [row.gutter for row in rows] == [2, 2, 2]
    assert [row.joint for row in rows] == [None, " ", " "]


@given(TEXTS, st.integers(1, 30))
def test_shortened_text_fits(text: str, width: int) -> None:
    assert width_of(shorten(text, width)) <= width


def test_ascii_is_cut_without_being_looked_through_for_graphemes(monkeypatch: pytest.MonkeyPatch) -> None:
    """That takes hundreds of times as long."""
    looked_through: list[str] = []

    def looking(text: str) -> tuple[list[tuple[int, int, int]], int]:
        looked_through.append(text)
        return split_graphemes(text)

    monkeypatch.setattr(styled_lines, "split_graphemes", looking)
    assert shorten("one two three", 8) == "one two…"
    assert looked_through == []
    assert shorten("日本語", 5) == "日本…"
    assert looked_through != []


def test_blanks_at_the_end_of_a_full_row_take_no_row_of_their_own() -> None:
    assert list(breaks("ab  ", 2)) == [(0, 2, None)]
    assert list(breaks("ab cd ", 2)) == [(0, 2, None), (3, 5, " ")]


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
def test_a_duration_is_said_as_exactly_as_is_worth_it(duration: float, said: str) -> None:
    assert seconds(duration) == said
