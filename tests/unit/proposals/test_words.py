"""Which words of a line changed."""

from hypothesis import given
from hypothesis import strategies as st

from app.proposals.text.line_comparison import Ranges, changed_words


def cut(line: str, ranges: Ranges) -> list[str]:
    return [line[start:end] for start, end in ranges]


def test_a_changed_word_is_marked_whole() -> None:
    old, new = "return load(path)", "return load(name)"
    gone, added = changed_words(old, new)
    assert (cut(old, gone), cut(new, added)) == (["path"], ["name"])


def test_a_longer_word_is_not_marked_in_part() -> None:
    old, new = "value = counter", "value = counters"
    gone, added = changed_words(old, new)
    assert (cut(old, gone), cut(new, added)) == (["counter"], ["counters"])


def test_words_with_only_space_between_are_one_range() -> None:
    old, new = "x", "x one two"
    assert changed_words(old, new) == ([], [(1, 9)])


def test_a_very_long_line_is_marked_from_first_to_last_difference() -> None:
    old = "a" * 5_000_000
    new = "a" * 2_000_000 + "b" + "a" * 2_999_999
    assert changed_words(old, new) == ([(2_000_000, 2_000_001)], [(2_000_000, 2_000_001)])


@given(st.text("ab _.(", max_size=60), st.text("ab _.(", max_size=60))
def test_the_unmarked_parts_are_equal(old: str, new: str) -> None:
    gone, added = changed_words(old, new)

    def rest(line: str, ranges: Ranges) -> str:
        kept, at = "", 0
        for start, end in ranges:
            assert at <= start < end <= len(line)
            kept += line[at:start]
            at = end
        return kept + line[at:]

    assert rest(old, gone).replace(" ", "") == rest(new, added).replace(" ", "")
    if old == new:
        assert gone == added == []
