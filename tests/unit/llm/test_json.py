"""JSON to and from an endpoint: read and written as Python's own library does, and what is no object."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.llm.response.bounded_stream import MAX_DEPTH, is_json_object, parse_json
from app.llm.response.response_assembly import parse_call_arguments
from app.llm.transport import encode_body

OBJECTS = st.dictionaries(
    st.text(max_size=8), st.none() | st.integers() | st.text(max_size=20) | st.lists(st.text(max_size=5)), max_size=4
)


@given(OBJECTS)
def test_objects_survive_a_json_round_trip(value: dict[str, Any]) -> None:
    raw = json.dumps(value)
    assert parse_call_arguments(raw) == (value, "")
    assert parse_call_arguments(json.dumps(raw)) == (value, "")
    assert is_json_object(raw)


@given(OBJECTS, st.integers(1, 30))
def test_arguments_cut_off_never_run(value: dict[str, Any], missing: int) -> None:
    raw = json.dumps(value)
    cut = raw[: max(1, len(raw) - missing)]
    arguments, complaint = parse_call_arguments(cut)
    assert arguments is None and complaint
    assert not is_json_object(cut)


@given(st.text(max_size=40))
def test_no_text_is_too_strange(raw: str) -> None:
    arguments, complaint = parse_call_arguments(raw)
    assert (arguments is None) == bool(complaint)
    assert len(complaint) < 500


@pytest.mark.parametrize("raw", ['{"a": }', '{"n": ' + "9" * 5000 + "}", '{"a":' * 100_000 + "1" + "}" * 100_000])
def test_text_that_only_ends_like_an_object_is_incomplete(raw: str) -> None:
    assert not is_json_object(raw)
    arguments, complaint = parse_call_arguments(raw)
    assert arguments is None and complaint


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=8,
)


def read(text: str, *, own: bool) -> str:
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
def test_odd_json_is_read_or_refused_alike(text: str) -> None:
    assert read(text, own=True) == read(text, own=False)


@pytest.mark.parametrize("levels", [MAX_DEPTH, MAX_DEPTH + 1, 250, 100_000])
def test_only_too_deeply_nested_json_is_refused(levels: int) -> None:
    text = "[" * levels + "]" * levels
    assert (read(text, own=True) == "none") == (levels > MAX_DEPTH)


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
VALUE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TEXT, VALUE | st.lists(VALUE, max_size=50), max_size=4))
@example({})
@example({"messages": []})
@example({"messages": list(range(100)), "tools": [], "stream": True})
def test_a_body_is_one_compact_json_object_in_utf8(fields: dict[str, Any]) -> None:
    assert encode_body(fields) == json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


@pytest.mark.parametrize("place", [lambda value: value, lambda value: [*range(40), value]])
def test_numbers_without_a_json_form_are_null_and_such_texts_an_error(place: Any) -> None:
    for value, valid in ((float("nan"), None), (float("inf"), None), ({"deep": [float("-inf")]}, {"deep": [None]})):
        assert json.loads(encode_body({"messages": place(value)})) == {"messages": place(valid)}
    for text in ("\ud800", ["\udfff"]):
        with pytest.raises(ValueError, match=r".+"):
            encode_body({"messages": place(text)})
