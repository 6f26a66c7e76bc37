"""The transcript without a screen: the place of the keys, and what is laid out at each width."""

from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from app.conversation.events import InterventionKind
from widgets.chat.entries.entry_base import EntryAddedOrReplaced, EntryRemoved, TranscriptEntry
from widgets.chat.entries.message_entries import (
    ModelAnswerEntry,
    NoticeToUserEntry,
    ProgramMessageToModelEntry,
    ReasoningEntry,
)
from widgets.chat.transcript import EntryCursor, Transcript
from widgets.chat.transcript_layout import EntrySlots, TranscriptLayout


def laid_out(*texts: str, height: int = 100) -> TranscriptLayout:
    layout = TranscriptLayout()
    for number, text in enumerate(texts):
        layout.apply_change(EntryAddedOrReplaced(NoticeToUserEntry(f"n{number}", text)))
    layout.lay_out_screen_from(0, height)
    return layout


def test_an_empty_transcript_has_no_cursor_position() -> None:
    for slots in (EntrySlots(), laid_out("one", "two").slots):
        cursor = EntryCursor(slots)
        assert (cursor.slot, cursor.entry, cursor.find_next_index(1)) == (None, None, None)
        assert (cursor.scroll_row_within_entry(1, 0, 10), cursor.scroll_row_to_show(0, 10)) == (None, None)
        cursor.on_removed(0)
        assert cursor.index is None
    cursor = EntryCursor(EntrySlots())
    cursor.place_at_row(3)
    assert cursor.index is None


def test_an_entry_below_the_screen_comes_up_to_its_last_row() -> None:
    layout = laid_out(*(f"notice {number}" for number in range(20)))
    cursor = EntryCursor(layout.slots)
    cursor.index = 15
    bottom = layout.slots.first_row(15) + layout.slots.items[15].gap + layout.slots.items[15].height
    assert cursor.scroll_row_to_show(0, 6) == bottom - 6
    assert cursor.scroll_row_to_show(bottom - 6, 6) is None
    assert cursor.scroll_row_to_show(bottom + 20, 6) == layout.slots.first_row(15)


def test_an_empty_layout_has_no_rows_and_a_dropped_entry_is_not_laid_out() -> None:
    empty, full = TranscriptLayout(), laid_out("one", "two")
    assert empty.lay_out_screen_from(7, 10) == 7
    assert empty.anchor_at(0) is None
    assert empty.adopt_layouts(laid_out("one"), 0) == full.adopt_layouts(TranscriptLayout(), 0) == (0, 0)
    assert [slot.entry.key for slot in full.slots.items] == ["n0", "n1"]
    full.apply_change(EntryRemoved("n1"))
    full.lay_out_changed({0, 1}, range(100))
    assert full.laid_out_entry_count == 1


def test_an_unmounted_transcript_keeps_entries_without_layout() -> None:
    """Without an app it has no scroll bar either."""
    transcript = Transcript()
    transcript.show_greeting([Content("Hello.")])
    layout = transcript.make_empty_layout()
    layout.apply_change(EntryAddedOrReplaced(ModelAnswerEntry("a1", "one")))
    transcript.show_layout(layout)
    assert transcript.apply_changes([EntryAddedOrReplaced(ModelAnswerEntry("a2", "two"))])
    assert [entry.copy_text for entry in transcript.entries] == ["one", "two"]
    assert transcript.laid_out_entry_count == 0


WORDS = st.lists(st.sampled_from(["word", "a longer one", "\n\n", "```\ncode\n```\n", "- item\n"]), max_size=20).map(
    " ".join
)
KEYS = st.sampled_from("abcd")
WIDTHS = st.sampled_from([20, 45])


def entry(key: str, text: str) -> TranscriptEntry:
    match key:
        case "a":
            return ProgramMessageToModelEntry(key, InterventionKind.STAGED, text, "system")
        case "b":
            return ReasoningEntry(key, text)
        case _:
            return ModelAnswerEntry(key, text)


def rows(layout: TranscriptLayout) -> list[str]:
    layout.lay_out_screen_from(0, 10_000)
    return [layout.line(row).text for row in range(layout.slots.total_rows - 1)] if len(layout.slots) else []


CHANGES = st.one_of(
    st.tuples(st.just("put"), KEYS, WORDS),
    st.tuples(st.just("turn"), KEYS, st.just("")),
    st.tuples(st.just("hide"), st.just(""), st.just("")),
    st.tuples(st.just("drop"), KEYS, st.just("")),
)


@given(st.lists(st.tuples(CHANGES, WIDTHS), min_size=4, max_size=12))
def test_a_resized_transcript_equals_a_new_one(
    steps: list[tuple[tuple[str, str, str], int]],
) -> None:
    layout = TranscriptLayout()
    for key in "abc":
        layout.apply_change(
            EntryAddedOrReplaced(entry(key, "some words that take more than one row where there is little room " * 2))
        )
    for (what, key, text), width in steps:
        index = layout.slots.index_of_key(key)
        if what == "put":
            layout.apply_change(EntryAddedOrReplaced(entry(key, text)))
        elif what == "hide":
            layout.slots.toggle_interventions()
        elif index is not None and what == "turn":
            layout.toggle_open(index)
        elif index is not None:
            layout.apply_change(EntryRemoved(key))
        layout.resize(width)
        assert rows(layout) == rows(always(width, layout))


def always(width: int, other: TranscriptLayout) -> TranscriptLayout:
    """A layout with the entries of another, as that shows them, which never had another width."""
    layout = TranscriptLayout()
    layout.resize(width)
    if other.slots.hide_interventions:
        layout.slots.toggle_interventions()
    for slot in other.slots.items:
        layout.apply_change(EntryAddedOrReplaced(slot.entry))
    for index, slot in enumerate(other.slots.items):
        if slot.opened:
            layout.toggle_open(index)
    return layout
