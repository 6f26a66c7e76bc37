"""What counts as seen: lines by rows, long lines by the characters that were drawn, and long lines around changes."""

from hypothesis import given
from hypothesis import strategies as st

from app.proposals.values.models import Hunk
from app.review.seen import SeenLines
from widgets.diff.display_cells import display
from widgets.diff.line_measuring import display_around, kept_of_change, kept_of_context

SPANS = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda span: (min(span), max(span))), max_size=8
)


def hunk(old: int, new: int, name: str = "h") -> Hunk:
    """A hunk of so many lines."""
    return Hunk(id=name, number=1, old_start=0, old_count=old, new_start=0, new_count=new)


@given(SPANS, SPANS)
def test_a_line_is_seen_once_all_of_its_changed_characters_were_drawn(
    drawn: list[tuple[int, int]], wanted: list[tuple[int, int]]
) -> None:
    seen, one = SeenLines(), hunk(0, 1)
    for span in drawn:
        seen.note_part(one, 0, span, wanted)
    shown = {place for start, end in drawn for place in range(start, end)}
    missing = [place for start, end in wanted for place in range(start, end) if place not in shown]
    if drawn:
        assert seen.is_seen(one, 0) == (not missing)
        if missing:
            assert seen.missing(one, 0, wanted) == missing[0]


@given(st.integers(0, 5), st.integers(0, 5), st.lists(st.integers(0, 12)))
def test_the_lines_that_were_drawn_are_counted_once(old: int, new: int, drawn: list[int]) -> None:
    seen, one = SeenLines(), hunk(old, new)
    for number in drawn:
        seen.note(one, number)
    left = [number for number in range(old + new) if number not in drawn]
    assert seen.unseen(one) == len(left)
    assert seen.first_unseen(one) == (left[0] if left else None)
    assert seen.lines == old + new - len(left)


def test_what_was_seen_already_and_what_is_nothing_is_no_news() -> None:
    seen, one = SeenLines(), hunk(0, 2)
    seen.note(one, 0)
    seen.note_part(one, 0, (0, 5), ((0, 9),))
    seen.note_part(one, 1, (5, 5), ((0, 9),))
    assert (seen.count, seen.lines) == (1, 1)


def test_of_a_line_that_fits_all_is_shown() -> None:
    line = "word " * 400
    assert kept_of_change(line, ((0, 4),), 2_000, True) is None
    assert kept_of_change(line, ((0, 4),), 1_999, True) is not None
    assert kept_of_change(line, ((0, 4),), 100, False) is None, "what is beyond the edge is not in the way"
    assert kept_of_change(line, ((0, 4), (1_900, 1_904)), 100, False) is not None


LINES = st.text(st.sampled_from("abc, \t中é\u200b"), max_size=900)


@given(LINES, SPANS, st.integers(10, 60), st.booleans())
def test_what_is_shown_of_a_long_line_holds_its_changes_and_counts_the_rest(
    line: str, spans: list[tuple[int, int]], width: int, wrap: bool
) -> None:
    changed = tuple((10 * start, min(len(line), 10 * start + 7)) for start in sorted({start for start, _ in spans}))
    changed = tuple(span for span in changed if span[0] < span[1])
    kept = kept_of_change(line, changed, width, wrap)
    if kept is None:
        return
    assert all(any(low <= start and end <= high for low, high in kept) for start, end in changed)
    shown = display_around(line, kept)
    texts, at = [], 0
    for start, end in (*kept, (len(line), len(line))):
        if at < start:
            texts.append(f"⋯{start - at:,} unchanged⋯")
        texts.append(display(line[start:end]).text)
        at = end
    assert shown.text == "".join(texts)
    assert [shown.text[start:end] for start, end in shown.gaps] == [text for text in texts if text.startswith("⋯")]
    drawn = [shown.drawn(index) for index in range(len(line) + 1)]
    assert drawn == sorted(drawn) and drawn[-1] == len(shown.text)
    cells = [shown.cell(index) for index in range(len(shown.text) + 1)]
    assert cells == sorted(cells) and cells[-1] == shown.width


def test_a_line_that_shows_its_change_is_left_alone_and_an_unchanged_one_is_cut() -> None:
    assert kept_of_change("x" * 500, ((3, 5),), 80, False) is None
    assert kept_of_change("x" * 500, ((400, 405),), 80, False) == ((388, 417),)
    assert kept_of_change("x" * 500, (), 80, False) is None, "a new line is shown whole"
    assert kept_of_context("x" * 1_999, True) is None
    assert kept_of_context("x" * 5_000, True) == ((0, 400),)
