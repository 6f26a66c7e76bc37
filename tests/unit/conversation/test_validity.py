"""The validator finds each thing that some server refuses."""

from typing import Any

import pytest

from tests.unit.conversation.validity import Rules, violations

SYSTEM = {"role": "system", "content": "prompt"}
USER = {"role": "user", "content": "hello"}
TEXT = {"role": "assistant", "content": "hi"}


def calls(*ids: Any, arguments: Any = "{}", name: Any = "read") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"role": "assistant", "tool_calls": [{"id": one, "type": "function", "function": function} for one in ids]}


def result(call_id: str, content: Any = "x") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


GOOD = [SYSTEM, USER, calls("a", "b"), result("a"), result("b"), SYSTEM, TEXT, USER, calls("c"), result("c")]


def test_a_good_history_has_none() -> None:
    assert violations(GOOD) == []
    assert violations([]) == []


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        ([USER, calls("a")], "no results for a"),
        ([USER, calls("a", "b"), result("a")], "no results for b"),
        ([USER, calls("a"), USER, result("a")], "user before the results of a"),
        ([USER, calls("a"), SYSTEM, result("a")], "system before the results of a"),
        ([USER, calls("a"), TEXT], "assistant before the results of a"),
        ([USER, result("a")], "no open call"),
        ([USER, calls("a"), result("a"), result("a")], "no open call"),
        ([USER, calls("a"), result("a"), TEXT, result("a")], "no open call"),
        ([USER, calls("a"), result("a"), calls("a"), result("a")], "used twice"),
        ([USER, calls("a", "a"), result("a"), result("a")], "used twice"),
        ([USER, calls("")], "without an id"),
        ([USER, calls(None)], "without an id"),
        ([USER, calls("a", name=""), result("a")], "without a name"),
        ([USER, calls("a", arguments="{"), result("a")], "not a JSON object"),
        ([USER, calls("a", arguments="[]"), result("a")], "not a JSON object"),
        ([USER, calls("a", arguments={}), result("a")], "not a JSON object"),
        ([USER, calls("a"), result("a", None)], "result without text"),
        ([USER, {"role": "assistant", "content": ""}], "empty assistant"),
        ([USER, {"role": "assistant", "content": None}], "empty assistant"),
        ([USER, {"role": "assistant", "content": "x", "tool_calls": []}], "not a filled list"),
        ([{"role": "user", "content": " \n"}], "empty user"),
        ([{"role": "system", "content": ""}], "empty system"),
        ([{"role": "robot", "content": "x"}], "unknown role"),
        ([{"content": "x"}], "unknown role"),
        ([{"role": "user", "content": "half \ud83d"}], "not encodable"),
        ([{"role": "user", "content": "x", "extra": float("nan")}], "not encodable"),
    ],
)
def test_each_problem_is_found(messages: list[dict[str, Any]], problem: str) -> None:
    assert any(problem in found for found in violations(messages)), violations(messages)


@pytest.mark.parametrize(
    ("messages", "rules"),
    [
        ([SYSTEM, USER, SYSTEM], Rules(system="first")),
        ([SYSTEM, USER], Rules(system="none")),
        ([USER, USER], Rules(alternate=True)),
        ([USER, calls("a"), result("a"), USER], Rules(alternate=True)),
        ([SYSTEM, TEXT], Rules(alternate=True)),
        ([USER, TEXT, SYSTEM, TEXT], Rules(alternate=True)),
        ([USER, calls("a", "b"), result("a"), result("b")], Rules(single_calls=True)),
        ([USER, calls("a" * 65), result("a" * 65)], Rules(id_length=64)),
        ([USER, calls("abc_efghi"), result("abc_efghi")], Rules(alnum9=True)),
    ],
)
def test_rules_of_single_servers_find_their_problems(messages: list[dict[str, Any]], rules: Rules) -> None:
    assert violations(messages) == []
    assert len(violations(messages, rules)) == 1
