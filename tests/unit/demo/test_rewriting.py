"""Edits that turn one text into another: unique, apart from each other, and exactly right."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from app.demo.editing_skills import edits_between

LINES = st.lists(st.sampled_from(["a", "b", "ab", "", "  a", "x = 1"]), min_size=1, max_size=14)
TEXTS = st.builds(lambda lines, end: "\n".join(lines) + end, LINES, st.sampled_from(["", "\n"])).filter(str.strip)


@given(before=TEXTS, after=TEXTS)
def test_edits_lead_from_one_text_to_the_other(before: str, after: str) -> None:
    places = []
    for edit in edits_between(before, after):
        assert edit["old"], "a place to edit has to be named"
        start = before.index(edit["old"])
        assert before.find(edit["old"], start + 1) < 0
        places.append((start, start + len(edit["old"]), edit["new"]))
    places.sort()
    assert all(left[1] <= right[0] for left, right in pairwise(places))
    result = before
    for start, end, new in reversed(places):
        result = result[:start] + new + result[end:]
    assert result == after


@given(text=TEXTS)
def test_no_change_is_no_edit(text: str) -> None:
    assert edits_between(text, text) == []


def test_a_small_change_stays_small() -> None:
    before = "".join(f"line {number}\n" for number in range(100))
    edits = edits_between(before, before.replace("line 50\n", "line fifty\n"))
    assert edits == [{"old": "line 50\n", "new": "line fifty\n"}]
