"""The rows of decisions and tool calls."""

from typing import Any

import pytest

from app.conversation.events import DecisionKind, ProposalDecided
from app.proposals.values.decision_facts import FileDiffStat, HunkOutcome
from widgets.chat.entries.tool_entries import DecisionEntry, ProposalEntry, ToolEntry
from widgets.chat.markdown.styled_lines import cell_width


def decision_entry(decision: DecisionKind, **fields: Any) -> DecisionEntry:
    return DecisionEntry("d1", ProposalDecided(proposal="P1", decision=decision, **fields))


@pytest.mark.parametrize(
    ("decision", "landed", "words"),
    [
        (DecisionKind.PARTLY_APPROVED, "", "Approved in part: P1 · the rest still waits"),
        (DecisionKind.DENIED, "", "Denied P1 · the rest still waits"),
        (DecisionKind.EDITED, "", "Edited P1 · it still waits"),
        (DecisionKind.DENIED, "-", "✗ Denied P1 · the hunk that still waited"),
        (DecisionKind.DENIED, "--", "✗ Denied P1 · the 2 hunks that still waited"),
        (DecisionKind.DENIED, "-?", "Denied P1 · 1 of 2 hunks discarded · the rest still waits"),
        (DecisionKind.APPROVED, "++", "Approved P1 · the 2 hunks that still waited"),
        (DecisionKind.APPROVED, "+?", "Approved P1 · 1 of 2 hunks written · the rest still waits"),
    ],
)
def test_a_decision_on_a_part_says_what_was_decided_and_what_waits(
    decision: DecisionKind, landed: str, words: str
) -> None:
    reasons = {"+": "", "-": "denied", "?": "still awaits a decision"}
    hunks = tuple(
        HunkOutcome(path="a.py", hunk=f"h{number}", header="@@", landed=each == "+", reason=reasons[each])
        for number, each in enumerate(landed)
    )
    entry = decision_entry(decision, hunks=hunks, still_pending=words.endswith("waits"))
    assert [line.text.removeprefix("✗ ") for line in entry.rows(80, opened=False)] == [words.removeprefix("✗ ")]


def test_removed_lines_are_counted_with_a_minus_sign() -> None:
    """The diff beside it, the review and `git diff --stat` have the same."""
    files = (FileDiffStat(path="a.py", op="edit", added=3, removed=2),)
    card = ProposalEntry("p1", "P1", "Change a", files).rows(80, opened=False)
    decided = decision_entry(DecisionKind.APPROVED, files=files).rows(80, opened=False)
    assert all(any("+3 -2" in line.text for line in lines) for lines in (card, decided))


def test_reopened_hunks_on_disk_are_counted() -> None:
    hunks = tuple(HunkOutcome(path="a.py", hunk=name, header="@@", landed=True) for name in "ab")
    entry = decision_entry(DecisionKind.REOPENED, hunks=hunks, on_disk=True, still_pending=True)
    (line,) = entry.rows(80, opened=False)
    assert "2 hunks" in line.text and "of 2" not in line.text


LONG = "The text to replace occurs 3 times. Give more of its lines."


@pytest.mark.parametrize("width", [40, 60, 78, 100])
@pytest.mark.parametrize("target", ["a.py", "a/long/way/down/to/a/file.py", "two words"])
def test_parts_of_a_row_are_cut_only_if_needed(width: int, target: str) -> None:
    row = ToolEntry("t", "edit_file", target, "error", LONG, duration=2.3).rows(width, opened=False)[0].text
    assert cell_width(row) <= width
    assert row == f"Edit {target} · {LONG} · 2.3 s" or cell_width(f"Edit {target} · {LONG} · 2.3 s") > width
    assert row.startswith("Edit ") and " · " in row


def test_a_shortened_tail_keeps_its_distance() -> None:
    entry = ToolEntry("t", "search_text", "“return 29”", "ok", "11,000 matching lines in 2,200 files", duration=2.3)
    for width in range(30, 70):
        row = entry.rows(width, opened=False)[0].text
        assert " ·" in row and not row.endswith(("· 2…", "· 2.…", "· 2.3…", "· 2.3 …")), width


def test_a_narrow_row_still_shows_its_outcome() -> None:
    asks = ToolEntry("t", "run_command", "python3 -c 'print(6 * 7)'", "asking")
    assert asks.rows(36, opened=False)[0].text == "Run a comma… · needs your permission"
    staged = ToolEntry("t", "edit_file", "tideline/moon.py", "staged", "+1 -1", proposal="P1")
    assert staged.rows(36, opened=False)[0].text == "Edit …moon.py · +1 -1 · staged in P1"
