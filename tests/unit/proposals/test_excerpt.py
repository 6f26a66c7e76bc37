"""A hunk and its surroundings as plain text, for a question about it."""

from collections.abc import Callable

import pytest

from app.agent.side_questions import clip_middle, format_hunk, format_surroundings
from tests.unit.proposals.bench import Bench, numbered

Make = Callable[..., Bench]


@pytest.mark.parametrize(
    ("text", "characters", "expected"),
    [
        ("abcdef", 6, "abcdef"),
        ("", 0, ""),
        ("abcdefghij", 6, "abcd\n[… 4 characters left out …]\nij"),
        ("abc", 0, "\n[… 3 characters left out …]\n"),
    ],
)
def test_the_middle_of_what_is_too_long_is_left_out(text: str, characters: int, expected: str) -> None:
    assert clip_middle(text, characters) == expected


def test_a_hunk_stands_in_the_text_that_there_will_be_or_in_that_which_goes(bench: Make) -> None:
    site = bench({"a.txt": numbered(9), "gone.txt": numbered(3)})
    edited = site.edit("a.txt", ("line 5\n", "five\nmore\n"))
    (diff,) = site.service.diffs(edited.id)
    (hunk,) = diff.change.hunks
    assert format_hunk(diff, hunk, 99) == "-line 5\n+five\n+more"
    assert format_surroundings(diff, hunk, 1, 999) == "4  line 4\n5  five\n6  more\n7  line 6"
    assert format_surroundings(diff, None, 2, 999) == "1  line 1\n2  line 2"
    (diff,) = site.service.diffs(site.write(**{"gone.txt": None}).id)
    (hunk,) = diff.change.hunks
    assert format_surroundings(diff, hunk, 1, 999) == "1  line 1\n2  line 2\n3  line 3"


def test_the_lines_next_to_a_hunk_come_first_where_there_is_little_room(bench: Make) -> None:
    site = bench({"a.txt": numbered(9, l6="x" * 90, l7="y")})
    proposal = site.edit("a.txt", ("line 5\n", "five\n"))
    (diff,) = site.service.diffs(proposal.id)
    assert format_surroundings(diff, diff.change.hunks[0], 3, 40) == "4  line 4\n5  five"
