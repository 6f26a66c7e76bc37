"""A transcript that changes its width, its entries and what is open: as if it had always been that wide."""

from hypothesis import given
from hypothesis import strategies as st

from app.conversation.events import InterventionKind
from widgets.chat.entries.entry_base import DropEntry, PutEntry, TranscriptEntry
from widgets.chat.entries.message_entries import AnswerEntry, InterventionEntry, ReasoningEntry
from widgets.chat.transcript_layout import TranscriptLayout

WORDS = st.lists(st.sampled_from(["word", "a longer one", "\n\n", "```\ncode\n```\n", "- item\n"]), max_size=20).map(
    " ".join
)
KEYS = st.sampled_from("abcd")
WIDTHS = st.sampled_from([20, 45])


def entry(key: str, text: str) -> TranscriptEntry:
    """An entry, of a kind that its key decides."""
    match key:
        case "a":
            return InterventionEntry(key, InterventionKind.STAGED, text, "system")
        case "b":
            return ReasoningEntry(key, text)
        case _:
            return AnswerEntry(key, text)


def rows(layout: TranscriptLayout) -> list[str]:
    """All that is shown, from the top."""
    layout.show_from(0, 10_000)
    return [layout.line(row).text for row in range(layout.slots.total - 1)] if len(layout.slots) else []


CHANGES = st.one_of(
    st.tuples(st.just("put"), KEYS, WORDS),
    st.tuples(st.just("turn"), KEYS, st.just("")),
    st.tuples(st.just("hide"), st.just(""), st.just("")),
    st.tuples(st.just("drop"), KEYS, st.just("")),
)


@given(st.lists(st.tuples(CHANGES, WIDTHS), min_size=4, max_size=12))
def test_it_shows_the_same_as_one_that_always_had_this_width(
    steps: list[tuple[tuple[str, str, str], int]],
) -> None:
    layout = TranscriptLayout()
    for key in "abc":
        layout.apply(PutEntry(entry(key, "some words that take more than one row where there is little room " * 2)))
    for (what, key, text), width in steps:
        index = layout.slots.index_of(key)
        if what == "put":
            layout.apply(PutEntry(entry(key, text)))
        elif what == "hide":
            layout.slots.toggle_interventions()
        elif index is not None and what == "turn":
            layout.toggle_open(index)
        elif index is not None:
            layout.apply(DropEntry(key))
        layout.resize(width)
        assert rows(layout) == rows(always(width, layout))


def always(width: int, other: TranscriptLayout) -> TranscriptLayout:
    """A layout with the entries of another, as that shows them, which never had another width."""
    layout = TranscriptLayout()
    layout.resize(width)
    if other.slots.hide_interventions:
        layout.slots.toggle_interventions()
    for slot in other.slots.items:
        layout.apply(PutEntry(slot.entry))
    for index, slot in enumerate(other.slots.items):
        if slot.opened:
            layout.toggle_open(index)
    return layout
