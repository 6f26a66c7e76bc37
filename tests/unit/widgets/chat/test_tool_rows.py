"""The row of a tool call: as much of what came of it as there is room for."""

import pytest

from widgets.chat.entries.tool_entries import ToolEntry
from widgets.chat.markdown.styled_lines import width_of

LONG = "The text to replace occurs 3 times. Give more of its lines."


@pytest.mark.parametrize("width", [40, 60, 78, 100])
@pytest.mark.parametrize("target", ["a.py", "a/long/way/down/to/a/file.py", "two words"])
def test_nothing_is_cut_where_there_is_room_and_parts_stay_apart(width: int, target: str) -> None:
    row = ToolEntry("t", "edit_file", target, "error", LONG, duration=2.3).rows(width, opened=False)[0].text
    assert width_of(row) <= width
    assert row == f"Edit {target} · {LONG} · 2.3 s" or width_of(f"Edit {target} · {LONG} · 2.3 s") > width
    assert row.startswith("Edit ") and " · " in row


def test_a_shortened_tail_keeps_its_distance() -> None:
    entry = ToolEntry("t", "search_text", "“return 29”", "ok", "11,000 matching lines in 2,200 files", duration=2.3)
    for width in range(30, 70):
        row = entry.rows(width, opened=False)[0].text
        assert " ·" in row and not row.endswith(("· 2…", "· 2.…", "· 2.3…", "· 2.3 …")), width


def test_beside_the_review_a_row_still_says_what_came_of_it() -> None:
    asks = ToolEntry("t", "run_command", "python3 -c 'print(6 * 7)'", "asking")
    assert asks.rows(36, opened=False)[0].text == "Run a comma… · needs your permission"
    staged = ToolEntry("t", "edit_file", "tideline/moon.py", "staged", "+1 -1", proposal="P1")
    assert staged.rows(36, opened=False)[0].text == "Edit …moon.py · +1 -1 · staged in P1"
