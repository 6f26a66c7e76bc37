"""Updates put together: nothing that a subscriber could tell is lost or comes in another order."""

from itertools import groupby

from hypothesis import given, settings
from hypothesis import strategies as st

from app.agent.updates import (
    CallStreamed,
    CommandOutputStreamed,
    PhaseChanged,
    ReasoningStreamed,
    SessionPhase,
    SideAnswerStreamed,
    TextStreamed,
    Update,
    merge_updates,
)
from tests.examples import scale_examples

UPDATES = st.one_of(
    st.builds(TextStreamed, st.text(max_size=3)),
    st.builds(ReasoningStreamed, st.text(max_size=3)),
    st.builds(CommandOutputStreamed, st.sampled_from("ab"), st.text(max_size=3)),
    st.builds(SideAnswerStreamed, st.sampled_from("ab"), st.text(max_size=3)),
    st.builds(CallStreamed, st.integers(0, 1), st.just("edit_file"), st.integers(0, 9)),
    st.builds(PhaseChanged, st.sampled_from(SessionPhase)),
)


def stream(update: Update) -> object:
    """What the update goes on with, as a reader of the docstrings would say."""
    match update:
        case TextStreamed() | ReasoningStreamed():
            return type(update).__name__
        case CommandOutputStreamed(call=call):
            return f"output of {call}"
        case SideAnswerStreamed(question=question):
            return f"answer to {question}"
        case CallStreamed(index=index):
            return f"call {index}"
    return object()


def said(updates: list[Update]) -> list[object]:
    """Of each stretch of one stream all of its text, or the last that was said of it."""
    return [told(list(stretch)) for _, stretch in groupby(updates, stream)]


def told(stretch: list[Update]) -> object:
    streamed = (TextStreamed, ReasoningStreamed, CommandOutputStreamed, SideAnswerStreamed)
    texts = [one.text for one in stretch if isinstance(one, streamed)]
    return (stream(stretch[0]), "".join(texts)) if texts else stretch[-1]


@settings(max_examples=scale_examples(20))
@given(st.lists(UPDATES, max_size=12))
def test_merged_updates_have_the_same_content_in_the_fewest_updates(updates: list[Update]) -> None:
    together = merge_updates(updates)
    assert said(together) == said(updates)
    assert len(together) == len(said(updates))
