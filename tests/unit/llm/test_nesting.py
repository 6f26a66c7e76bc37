"""JSON is read as Python's own library reads it, whichever parser does it."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.llm.response.response_limits import DEEPEST, parse_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)


def read(text: str, *, own: bool) -> str:
    """What is read, or that it is no JSON."""
    try:
        value: Any = parse_json(text) if own else json.loads(text)
    except (ValueError, RecursionError):
        return "none"
    # Not a number is not even itself.
    return repr(value)


@given(st.builds(json.dumps, VALUES, ensure_ascii=st.booleans()))
def test_every_value_is_read_as_it_was_written(text: str) -> None:
    assert read(text, own=True) == read(text, own=False)


@given(st.text('{}[]":,0123456789eE.+-truefalsn\\dc8/ \n\t\x00\x1f\ufeff\u2028\ud800é', max_size=14))
@example('"\\ud83d"')
@example('"\\ude00\\ud83d"')
@example('{"a": 1, "a": 2}')
@example("[NaN, Infinity, -Infinity, 1e999]")
@example("9" * 5_000)
@example("\ufeff{}")
def test_what_is_hardly_json_is_read_or_refused_alike(text: str) -> None:
    assert read(text, own=True) == read(text, own=False)


@pytest.mark.parametrize("levels", [DEEPEST, DEEPEST + 1, 250, 100_000])
def test_only_what_is_nested_too_deeply_is_refused(levels: int) -> None:
    text = "[" * levels + "]" * levels
    assert (read(text, own=True) == "none") == (levels > DEEPEST)
