"""The lines that none of the known versions of a text had."""

from hypothesis import given, settings
from hypothesis import strategies as st

from app.proposals.text.diff import diff_lines
from app.proposals.text.line_comparison import LineSpan, lines_unlike_all
from tests.unit.proposals.applied_changes import apply_changes

LINES = st.lists(st.sampled_from("abcd"), max_size=12)


def spans(now: list[str], *known: list[str]) -> tuple[LineSpan, ...]:
    return lines_unlike_all([diff_lines(version, now) for version in known])


def test_lines_that_came_went_and_changed() -> None:
    assert spans(list("aXcdfgY"), list("abcdefg")) == (LineSpan(1, 2), LineSpan(4, 4), LineSpan(6, 7))


def test_what_comes_from_either_version_is_no_news() -> None:
    assert spans(list("aXcde"), list("abcde"), list("aXcYe")) == ()
    assert spans(list("aXcdZ"), list("abcde"), list("aXcYe")) == (LineSpan(4, 5),)


def test_a_line_that_is_gone_from_both_is() -> None:
    assert spans(list("aXde"), list("abcde"), list("aXcde")) == (LineSpan(2, 2),)


def test_no_version_says_nothing() -> None:
    assert lines_unlike_all([]) == ()


@given(st.lists(st.sampled_from(["both", "old", "new"]), max_size=20), st.data())
@settings(deadline=None)
def test_a_mix_of_two_versions_is_no_news_where_no_line_comes_twice(owners: list[str], data: st.DataObject) -> None:
    numbered = [(owner, f"{owner} {number}") for number, owner in enumerate(owners)]
    old = [line for owner, line in numbered if owner != "new"]
    new = [line for owner, line in numbered if owner != "old"]
    chosen = [change for change in diff_lines(old, new) if data.draw(st.booleans())]
    assert spans(apply_changes(old, new, chosen), old, new) == ()


@given(LINES, st.lists(LINES, min_size=1, max_size=3))
@settings(deadline=None)
def test_a_line_that_no_version_has_is_always_named(now: list[str], known: list[list[str]]) -> None:
    now = [*now, "new", *now]
    at = len(now) // 2
    assert any(span.start <= at < span.end for span in spans(now, *known))


@given(LINES, LINES)
@settings(deadline=None)
def test_a_known_version_is_known(now: list[str], other: list[str]) -> None:
    assert spans(now, now, other) == spans(now, other, now) == ()
