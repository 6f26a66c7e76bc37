"""The JSON that goes over the wire: the standard library's, whatever the length of its lists."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.llm.transport import encode_body

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


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "\ud800", {"deep": [float("-inf")]}, ["\udfff"]])
@pytest.mark.parametrize("place", [lambda value: value, lambda value: [*range(40), value]])
def test_what_has_no_form_in_json_or_utf8_is_an_error(value: object, place: Any) -> None:
    with pytest.raises(ValueError, match=r".+"):
        encode_body({"messages": place(value)})
