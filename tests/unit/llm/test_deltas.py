"""However many tokens have come, they are given out in few pieces, in their order."""

from itertools import groupby

from hypothesis import given
from hypothesis import strategies as st

from app.llm.response.response_assembly import Delta, DeltaCollector
from app.llm.values.types import CallProgress, ReasoningDelta, TextDelta

PIECES = st.one_of(
    st.builds(TextDelta, st.text(min_size=1, max_size=3)),
    st.builds(ReasoningDelta, st.text(min_size=1, max_size=3)),
    st.builds(CallProgress, st.integers(0, 2), st.just("tool"), st.integers(0, 99)),
)


def collected(pieces: list[Delta]) -> list[Delta]:
    deltas = DeltaCollector()
    for piece in pieces:
        match piece:
            case TextDelta(text):
                deltas.add_text(text)
            case ReasoningDelta(text):
                deltas.add_reasoning(text)
            case CallProgress():
                deltas.add_call(piece)
    taken = deltas.take()
    assert deltas.take() == []
    return taken


@given(st.lists(PIECES))
def test_neighbours_of_one_kind_become_one(pieces: list[Delta]) -> None:
    expected: list[Delta] = []
    for kind, group in groupby(pieces, type):
        if kind is CallProgress:
            expected += {one.index: one for one in group if isinstance(one, CallProgress)}.values()
        else:
            text = "".join(one.text for one in group if not isinstance(one, CallProgress))
            expected.append(TextDelta(text) if kind is TextDelta else ReasoningDelta(text))
    assert collected(pieces) == expected
