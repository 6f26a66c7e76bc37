"""Arguments that a model made up, as any JSON parser takes them."""

import json
import math
from typing import Any

from app.conversation.payload.wire_ids import arguments_text


def nested(depth: int, core: Any) -> dict[str, Any]:
    for _ in range(depth):
        core = [core]
    return {"a": core}


def test_a_nest_that_json_can_hold_goes_out_as_it_is() -> None:
    assert json.loads(arguments_text(nested(60, 1))) == nested(60, 1)


def test_a_deep_nest_with_what_json_has_not_is_cut() -> None:
    assert json.loads(arguments_text(nested(60, math.nan))) == nested(49, [None])


def test_a_nest_that_no_parser_follows_is_left_out() -> None:
    assert arguments_text(nested(100_000, 1)) == "{}"
