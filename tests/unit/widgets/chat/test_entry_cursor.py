"""The place of the keys in the transcript, and what of it is laid out."""

import gc

from textual.content import Content

from widgets.chat.entries.entry_base import DropEntry, PutEntry
from widgets.chat.entries.message_entries import AnswerEntry
from widgets.chat.entries.program_entries import NoticeEntry
from widgets.chat.transcript import EntryCursor, Transcript
from widgets.chat.transcript_layout import EntrySlots, SlotLayout, TranscriptLayout


def laid_out(*texts: str, height: int = 100) -> TranscriptLayout:
    """A layout of notices."""
    layout = TranscriptLayout()
    for number, text in enumerate(texts):
        layout.apply(PutEntry(NoticeEntry(f"n{number}", text)))
    layout.show_from(0, height)
    return layout


def test_nowhere_there_is_nothing_to_go_to_or_to_show() -> None:
    for slots in (EntrySlots(), laid_out("one", "two").slots):
        cursor = EntryCursor(slots)
        assert (cursor.slot, cursor.entry, cursor.next(1)) == (None, None, None)
        assert (cursor.row_through(1, 0, 10), cursor.row_to_show(0, 10)) == (None, None)
        cursor.on_removed(0)
        assert cursor.index is None
    cursor = EntryCursor(EntrySlots())
    cursor.start(3)
    assert cursor.index is None


def test_an_entry_below_the_screen_comes_up_to_its_last_row() -> None:
    layout = laid_out(*(f"notice {number}" for number in range(20)))
    cursor = EntryCursor(layout.slots)
    cursor.index = 15
    bottom = layout.slots.top(15) + layout.slots.items[15].gap + layout.slots.items[15].height
    assert cursor.row_to_show(0, 6) == bottom - 6
    assert cursor.row_to_show(bottom - 6, 6) is None
    assert cursor.row_to_show(bottom + 20, 6) == layout.slots.top(15)


def test_a_layout_of_nothing_holds_nothing() -> None:
    empty, full = TranscriptLayout(), laid_out("one", "two")
    assert empty.show_from(7, 10) == 7
    assert empty.anchor_at(0) is None
    assert empty.adopt(laid_out("one"), 0) == full.adopt(TranscriptLayout(), 0) == (0, 0)
    assert [slot.entry.key for slot in full.slots.items] == ["n0", "n1"]


def test_what_is_gone_meanwhile_is_not_laid_out() -> None:
    layout = laid_out("one", "two")
    layout.apply(DropEntry("n1"))
    layout.update({0, 1}, range(100))
    assert layout.laid_out_count == 1


def test_a_transcript_that_has_no_place_yet_takes_what_it_is_to_show_and_lays_nothing_out() -> None:
    """Without an app it has no scroll bar either."""
    transcript = Transcript()
    transcript.show_greeting([Content("Hello.")])
    layout = transcript.new_layout()
    layout.apply(PutEntry(AnswerEntry("a1", "one")))
    transcript.show_layout(layout)
    assert transcript.apply([PutEntry(AnswerEntry("a2", "two"))])
    assert [entry.copy_text for entry in transcript.entries] == ["one", "two"]
    assert transcript.laid_out_count == 0


def test_rows_of_the_width_before_are_kept_of_what_was_laid_out_alone() -> None:
    layout = TranscriptLayout()
    for number in range(1_000):
        layout.apply(PutEntry(NoticeEntry(f"n{number}", "some words")))
    layout.show_end(10)
    gc.collect()
    before = sum(isinstance(one, SlotLayout) for one in gc.get_objects())
    layout.resize(40)
    kept = sum(isinstance(one, SlotLayout) for one in gc.get_objects()) - before
    assert 5 <= kept <= 20
