"""What the rungs take for equal, how indentation carries over, how alike two lines are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.proposals.locate.line_index import (
    IndentShift,
    find_indent_shift,
    indentation_unit,
    normalize_spaces_and_lookalikes,
    strip_trailing_space,
)
from app.proposals.text.line_comparison import are_similar_lines, common_subsequence_length


def longest_common(first: str, second: str) -> int:
    """The textbook table."""
    row = [0] * (len(second) + 1)
    for character in first:
        before = row
        row = [0]
        for at, other in enumerate(second):
            row.append(before[at] + 1 if character == other else max(row[at], before[at + 1]))
    return row[-1]


@given(st.text("abc ", max_size=40), st.text("abc ", max_size=40))
def test_common_length_is_the_table_s(first: str, second: str) -> None:
    assert common_subsequence_length(first, second) == longest_common(first, second)


def test_spacing_and_likeness() -> None:
    assert are_similar_lines("return value", "return values", 0.8)
    assert not are_similar_lines("return value", "raise error", 0.8)
    assert are_similar_lines("", "", 0.8)
    assert not are_similar_lines("", "x", 0.8)
    assert normalize_spaces_and_lookalikes("  a –  “b”\u00a0c\t") == 'a - "b" c'
    assert strip_trailing_space("a\u00a0 \t") == "a\u00a0"


INDENTS = st.sampled_from(["", "  ", "    ", "\t", "\t\t", "      "])


@given(st.lists(INDENTS, min_size=1, max_size=6), INDENTS, st.booleans())
def test_an_indentation_prefix_is_found_and_applied(indents: list[str], prefix: str, removed: bool) -> None:
    deep = [f"{prefix}{indent}x" for indent in indents]
    flat = [f"{indent}x" for indent in indents]
    pairs = list(zip(deep, flat, strict=True) if removed else zip(flat, deep, strict=True))
    shift = find_indent_shift(pairs, 4)
    assert shift is not None
    assert [shift.apply(ours) for ours, _ in pairs] == [theirs for _, theirs in pairs]


def test_tabs_and_spaces() -> None:
    for ours, theirs, line, expected in (
        (["    a", "        b"], ["\ta", "\t\tb"], "            c", "\t\t\tc"),
        (["  a", "    b"], ["\t\ta", "\t\t\tb"], "  c", "\t\tc"),
        (["\ta", "\t\tb"], ["  a", "    b"], "\t\t\tc", "      c"),
        (["a"], ["\ta"], "    c", "\t    c"),
    ):
        shift = find_indent_shift(zip(ours, theirs, strict=True), indentation_unit(theirs))
        assert shift is not None and shift.apply(line) == expected


def test_lines_without_one_shift() -> None:
    assert find_indent_shift([("", "  "), (" ", "")], 4) == IndentShift()
    assert find_indent_shift([("a", "  a"), ("b", "   b")], 4) is None
    assert IndentShift("  ", removed=True).apply(" x") is None
    assert IndentShift("  ", removed=True).apply("") == ""
    assert find_indent_shift([("", "    "), ("  ", "")], 4) == IndentShift()


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("a\n  b\n    c\n", 2),
        ("a\n    b\n        c", 4),
        ("a\n\tb\n", 4),
        ("a\n\t\tb", 4),
        ("", 4),
        ("a\n        b\na\n", 8),
        ("a\n  b\n    c\n\n    d\n\n    e\n\n    f", 2),
        ("a\n\t\tb\na\n\t\tc\na\n    d\n", 4),
    ],
)
def test_blank_lines_and_tabs_say_nothing_of_the_files_unit(text: str, unit: int) -> None:
    assert indentation_unit(text.split("\n")) == unit
