"""Pairs of lines, changed words, moved blocks, tokens and warnings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.geometry import Size

from app.proposals.text.line_comparison import differ_only_in_space, pair_lines
from app.proposals.values.models import FileDiff
from app.review.hunk_lines import hunk_line_numbers
from tests.ui.sample_diffs import file_diff, file_diff_of_hunks, many_lines, proposal
from tests.unit.widgets.diff.diff_canvas import RecordingView
from widgets.diff.background_jobs import DiffBackgroundJobs
from widgets.diff.diff_arrangement import DiffFoldState, arrange_diffs
from widgets.diff.diff_cursor import Job
from widgets.diff.diff_layout import DiffLayout
from widgets.diff.diff_model import DiffModel
from widgets.diff.diff_pane import minimap_cell_change_flags
from widgets.diff.diff_rows import SingleRowSegment, SourceLinePosition
from widgets.diff.file_facts import misleading_text_warning_notes
from widgets.diff.line_marks import DiffLineMarks, changed_spans, find_moved_lines
from widgets.diff.syntax_tokens import CHUNK_LINES, LEAD_LINES, WHOLE_FILE_LINES, LazySyntaxTokens, lex_lines

LINES = st.lists(st.sampled_from(["a = b", "a = c", "return x", "", "def f(a):", "if x > y:"]), max_size=12)


@given(LINES, LINES)
def test_pairs_contain_every_line_once_in_order(old: list[str], new: list[str]) -> None:
    pairs = pair_lines(old, new)
    assert [left for left, _ in pairs if left is not None] == list(range(len(old)))
    assert [right for _, right in pairs if right is not None] == list(range(len(new)))


def test_similar_lines_meet_and_as_many_are_paired_one_by_one() -> None:
    old = ["total = price * count", "return total"]
    new = ["check(price)", "total = price * count * tax", "log(total)", "return round(total)"]
    assert (0, 1) in pair_lines(old, new)
    assert pair_lines(["one = 1", "two = 2"], ["two = 2 + 0", "zero = 0"]) == [(0, 0), (1, 1)]
    differing = [differ_only_in_space(*lines) for lines in (("  a =1", "a = 1"), ("a", "a"), ("a", "b"))]
    assert differing == [True, False, False]


def test_changed_words_of_a_pair_are_marked_but_not_those_of_a_rewritten_line() -> None:
    assert changed_spans("RETRIES = 2", "RETRIES = 3") == (((10, 11),), ((10, 11),), False)
    assert changed_spans("return None", "raise TimeoutError(url)") == ((), (), False)
    long, short = "call(alpha, beta, gamma, delta, epsilon)", "call(x)"
    for old, new in ((long, short), (short, long)):
        assert all(changed_spans(old, new)[:2]), "one of them stands in the other"


def test_the_difference_in_a_very_long_line_is_found_from_both_ends() -> None:
    old = "x" * 300_000 + "old" + "y" * 200_000
    new = "x" * 300_000 + "new" + "y" * 200_000
    before, after, _ = changed_spans(old, new)
    assert before == after == ((300_000, 300_003),)
    before, after, _ = changed_spans(f"{old}old", f"{new}new")
    assert before == after == ((300_000, 500_006),), "as one stretch"
    assert changed_spans("x" * 3_000, "y" * 3_000) == (((0, 3_000),), ((0, 3_000),), False)


def test_a_block_that_moved_is_marked_on_both_sides() -> None:
    block = "def helper(value):\n    return value * 2 + offset\n"
    old = block + "\n\nA = 1\nB = 2\nC = 3\n"
    new = "A = 1\nB = 2\nC = 3\n\n\n" + block
    moved = find_moved_lines([file_diff("a.py", old, new)])
    assert {(0, "old", 0), (0, "old", 1), (0, "new", 5), (0, "new", 6)} <= moved.keys()


def shuffled(*, changed: bool) -> FileDiff:
    """A function that was moved below others, as it was or with changes inside."""
    block = [
        "def total(prices, rate):",
        "    net = sum(prices)",
        "    tax = net * rate",
        "    log(net)",
        "    return net",
    ]
    others = [f"line {number} stays" for number in range(8)]
    target = [line.replace("net * rate", "net * rate / 100").replace("def total", "def whole") for line in block]
    target.insert(4, "    check(tax)")
    moved = target if changed else [f"    {line}" for line in block]
    return file_diff("a.py", "\n".join([*block, *others]) + "\n", "\n".join([*others, *moved]) + "\n")


def test_a_moved_and_changed_block_is_marked_with_its_changes() -> None:
    diff = shuffled(changed=True)
    marks = DiffLineMarks([diff])
    marks.moved = find_moved_lines([diff])
    new = {line: other for line, other in marks.moved.items() if line.side == "new"}
    assert {(line.line - 8, other.line) for line, other in new.items()} == {(0, 0), (1, 1), (2, 2), (3, 3), (5, 4)}
    assert marks.words_changed_by_move(SourceLinePosition(0, "new", 10)) == ((20, 26),)
    assert diff.new[10][20:26].strip() == "/ 100"
    assert marks.words_changed_by_move(SourceLinePosition(0, "new", 8)) == ((4, 9),)
    assert marks.words_changed_by_move(SourceLinePosition(0, "old", 0)) == ((4, 9),)
    assert marks.words_changed_by_move(SourceLinePosition(0, "new", 9)) == ()


def test_white_space_around_moved_lines_is_no_change_inside() -> None:
    diff = shuffled(changed=False)
    marks = DiffLineMarks([diff])
    marks.moved = find_moved_lines([diff])
    assert len(marks.moved) == 10
    assert all(marks.words_changed_by_move(line) == () for line in marks.moved)
    here = "x" * 3_000
    marks = DiffLineMarks([file_diff("a.py", f"{here} \nstays\n", f"stays\n    {here}\n")])
    marks.moved = {SourceLinePosition(0, "new", 1): SourceLinePosition(0, "old", 0)}
    assert marks.words_changed_by_move(SourceLinePosition(0, "new", 1)) == ()


def test_a_block_with_less_than_half_kept_is_not_moved() -> None:
    block = ["def total(prices):", *(f"    step_{number}(prices)" for number in range(6)), "    return prices"]
    other = [block[0], *(f"    {number} + {number}" for number in range(6)), block[-1]]
    old, new = "\n".join([*block, *STAYS]) + "\n", "\n".join([*STAYS, *other]) + "\n"
    assert find_moved_lines([file_diff("a.py", old, new)]) == {}


@given(st.lists(st.integers(0, 6), max_size=14), st.lists(st.integers(0, 6), max_size=14))
def test_moved_lines_are_changed_lines_and_know_each_other(old: list[int], new: list[int]) -> None:
    words = ["", "}", "alpha beta gamma", "alpha beta delta", "one_long_name_of_it()", "return value", "x = 1"]
    texts = ["".join(f"{words[number]}\n" for number in numbers) for numbers in (old, new)]
    diff = file_diff("a.py", *texts)
    moved = find_moved_lines([diff])
    for line, other in moved.items():
        assert line.side != other.side
        assert any(line.line in hunk_line_numbers(hunk, line.side) for hunk in diff.change.hunks)
        assert other in moved


BLOCK, STAYS = (
    ["def helper(value):", "    return value * 2 + offset"],
    [f"line {number} stays" for number in range(8)],
)


@pytest.mark.parametrize(
    ("old", "new", "hunks", "moved"),
    [
        pytest.param(
            ["alpha beta gamma", *BLOCK, "print(left, right)", *STAYS],
            [*STAYS, "what else is there", *BLOCK, "del everything[0]"],
            [(0, 4, 0, 0), (12, 0, 8, 4)],
            {("old", 1), ("old", 2), ("new", 9), ("new", 10)},
            id="neighbours that are not similar",
        ),
        pytest.param(
            ["rate = net * 1", "stays", *BLOCK, *STAYS],
            ["stays", *STAYS, "rate = net * 2", *BLOCK],
            [(0, 1, 0, 0), (2, 2, 1, 0), (12, 0, 9, 3)],
            {("old", 2), ("old", 3), ("new", 10), ("new", 11)},
            id="lines apart",
        ),
        pytest.param(
            [*BLOCK, "rate = net * 1"],
            ["import numbers", *BLOCK, "rate = net * 2"],
            [(0, 3, 0, 4)],
            {("old", 0), ("old", 1), ("new", 1), ("new", 2)},
            id="a changed line beside its own block",
        ),
    ],
)
def test_only_the_moved_block_has_moved(
    old: list[str], new: list[str], hunks: list[tuple[int, int, int, int]], moved: set[tuple[str, int]]
) -> None:
    found = find_moved_lines([file_diff_of_hunks("a.py", old, new, hunks)])
    assert {(line.side, line.line) for line in found} == moved


def test_in_short_coincidences_and_large_changes_nothing_has_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_moved_lines([file_diff("a.py", "}\nx\n", "y\n}\nx\nz\n}\n")]) == {}
    assert find_moved_lines(many_lines(20_000)) == {}
    diff = shuffled(changed=False)
    monkeypatch.setattr("widgets.diff.line_marks._MAX_SEARCHED_LINES", 9)
    assert find_moved_lines([diff]) == {}
    monkeypatch.setattr("widgets.diff.line_marks._MAX_SEARCHED_LINES", 10)
    assert find_moved_lines([diff])


def test_the_partner_of_a_line_is_found_and_needs_no_table_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    marks = DiffLineMarks([file_diff("a.py", "a = 1\nb = 2\n", "a = 1\nb = 3\n")])
    assert marks.paired_line(0, 0, "old", 1) == 1
    assert marks.changed_words(0, 0, "new", 1) == (((4, 5),), False)
    monkeypatch.setattr("widgets.diff.line_marks.pair_lines", None)
    assert DiffLineMarks(many_lines(5_000)).paired_line(0, 0, "new", 4_999) is None


def test_tokens_stay_within_their_lines_and_unknown_or_very_long_ones_stay_plain() -> None:
    lines = ['"""Two', 'lines."""', "def f(x):", "    return 'y'  # z"]
    spans = lex_lines("a.py", lines)
    for line, tokens in zip(lines, spans, strict=True):
        assert all(0 <= start < end <= len(line) for start, end, _ in tokens)
    assert spans[0][0][2] == spans[1][0][2] == "diff--remark"
    assert (4, 5, "diff--function") in spans[2]
    assert lex_lines("data.unknown-kind", ["x = 1"]) == [()]
    assert lex_lines("a.py", ["x = 1;" * 10_000, "y = 2"])[0] == ()


async def test_long_files_are_lexed_near_the_viewport_only() -> None:
    lines = [f"value_{number} = {number}" for number in range(WHOLE_FILE_LINES * 10)]
    syntax = LazySyntaxTokens([file_diff("a.py", "", "\n".join(lines))])
    assert syntax.line_tokens(0, "new", 9_000) == ()
    assert await syntax.lex_requested_parts()
    assert syntax.line_tokens(0, "new", 9_000)
    assert not syntax.has_requests
    assert syntax.line_tokens(0, "new", 0) == ()


async def test_lexing_of_a_long_file_begins_at_a_definition() -> None:
    lines = [f"value_{number} = {number}" for number in range(WHOLE_FILE_LINES + CHUNK_LINES)]
    start = 2 * CHUNK_LINES
    begun = start - LEAD_LINES - 5
    lines[begun : start + 3] = ['text = """', *["    words"] * (start - begun + 1), '"""']
    syntax = LazySyntaxTokens([file_diff("a.py", "", "\n".join(lines))])
    assert syntax.line_tokens(0, "new", start) == ()
    assert await syntax.lex_requested_parts()
    assert syntax.line_tokens(0, "new", start) == ((0, 9, "diff--string"),)


def test_trojan_source_is_warned_about_but_not_in_old_lines_and_context() -> None:
    diff = file_diff("a.py", "x\n", "x\nif admin:  # \u202e } \u2066\n    p\u0430ssword = 1\n")
    (warning,) = misleading_text_warning_notes([diff.change])
    assert "2 bidirectional controls" in warning.text
    assert "p\u0430ssword" in warning.text
    old = file_diff("a.py", "\u202e\nold\u200b\n", "\u202e\nnew\n")
    assert list(misleading_text_warning_notes([old.change])) == []


def test_the_map_shows_every_hunk_however_small() -> None:
    diffs = many_lines(10)
    assert minimap_cell_change_flags(DiffLayout(), 20) == [0] * 20
    assert minimap_cell_change_flags(DiffLayout(), 0) == []
    layout = arrange_diffs(diffs, DiffFoldState(), count_terminal_lines=lambda row: 1)
    layout.lay_out_more()
    assert sum(bool(cell) for cell in minimap_cell_change_flags(layout, 40)) == 10
    assert not any(isinstance(segment, SingleRowSegment) and segment.hunk for segment in layout.segments)


class Desk:
    """A sheet with a change, the jobs that its background has begun, and what it said."""

    def __init__(self, *diffs: FileDiff, white_space: bool = True) -> None:
        self.sheet = DiffModel()
        self.sheet.shows_white_space = white_space
        self.jobs: dict[str, Job] = {}
        self.said: list[str] = []
        self.background = DiffBackgroundJobs(self.sheet, RecordingView(self.jobs, self.said))
        self.sheet.show_change(proposal("P1", diffs), diffs, versions=False)

    def looked(self) -> "Desk":
        """It has begun what is to be found out about the change."""
        self.background.find_moved_lines()
        self.background.start_waiting_work()
        return self


@pytest.mark.parametrize(
    ("diffs", "white_space", "begun"),
    [
        (many_lines(1_000), True, {"inspect"}),
        (many_lines(1_000), False, {"inspect", "spaces"}),
        ([file_diff("a.py", None, "x" * 100_000)], False, {"inspect", "spaces"}),
        (many_lines(10), False, set()),
    ],
)
def test_slow_marks_come_later(diffs: list[FileDiff], white_space: bool, begun: set[str]) -> None:
    assert Desk(*diffs, white_space=white_space).looked().jobs.keys() == begun


def test_space_changes_are_found_once() -> None:
    desk = Desk(*many_lines(10), white_space=False).looked()
    found = desk.sheet.hidden_space
    desk.background.find_space_changes()
    assert desk.sheet.hidden_space is found is not None
    desk = Desk(*many_lines(10)).looked()
    assert desk.sheet.hidden_space is None


async def test_a_replaced_layout_reports_no_growth() -> None:
    desk = Desk(*many_lines(50_000))
    desk.sheet.lay_out(Size(80, 30), None)
    desk.background.finish_layout()
    desk.background.start_waiting_work()
    desk.sheet.rows = DiffLayout()
    await desk.jobs["layout"]()
    assert desk.said == []
