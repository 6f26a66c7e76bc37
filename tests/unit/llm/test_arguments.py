"""Arguments: an object comes out as it went in, anything else as a complaint."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.response.response_assembly import is_complete, parse_arguments

OBJECTS = st.dictionaries(
    st.text(max_size=8), st.none() | st.integers() | st.text(max_size=20) | st.lists(st.text(max_size=5)), max_size=4
)


@given(OBJECTS)
def test_objects_come_out_as_they_went_in(value: dict[str, Any]) -> None:
    raw = json.dumps(value)
    assert parse_arguments(raw) == (value, "")
    assert parse_arguments(json.dumps(raw)) == (value, "")
    assert is_complete(raw)


@given(OBJECTS, st.integers(1, 30))
def test_what_is_cut_off_never_runs(value: dict[str, Any], missing: int) -> None:
    raw = json.dumps(value)
    cut = raw[: max(1, len(raw) - missing)]
    arguments, complaint = parse_arguments(cut)
    assert arguments is None and complaint
    assert not is_complete(cut)


@given(st.text(max_size=40))
def test_no_text_is_too_strange(raw: str) -> None:
    arguments, complaint = parse_arguments(raw)
    assert (arguments is None) == bool(complaint)
    assert len(complaint) < 500


def test_a_number_too_long_for_python_is_a_complaint() -> None:
    arguments, complaint = parse_arguments('{"n": ' + "9" * 5000 + "}")
    assert arguments is None and "not usable JSON" in complaint


@pytest.mark.parametrize("raw", ['{"a": }', '{"n": ' + "9" * 5000 + "}", '{"a":' * 100_000 + "1" + "}" * 100_000])
def test_what_ends_like_an_object_and_is_none_is_not_complete(raw: str) -> None:
    assert not is_complete(raw)
