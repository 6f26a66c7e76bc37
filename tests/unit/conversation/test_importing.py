"""Histories from elsewhere, in every state of damage, become valid ones."""

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.conversation.imports.message_import import NO_RESULT, import_messages
from app.llm.values.endpoint import EndpointProfile
from tests.unit.conversation.histories import imported_messages, marks, profiles, rules_for, words_of
from tests.unit.conversation.importing import repair
from tests.unit.conversation.validity import violations

thorough = settings(suppress_health_check=list(HealthCheck))


def calls(*ids: str) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": one, "type": "function", "function": {"name": "read", "arguments": "{}"}} for one in ids
        ],
    }


def result(call_id: str, text: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def results_of(messages: list[dict[str, Any]]) -> list[str]:
    return [message["content"] for message in messages if message["role"] == "tool"]


@thorough
@given(imported_messages(), profiles)
def test_repair_is_valid_and_idempotent_and_keeps_each_text_of_the_user_once(
    imported: tuple[list[Any], list[str]], profile: EndpointProfile
) -> None:
    messages, said = imported
    repaired = repair(messages, profile)
    assert violations(repaired, rules_for(profile)) == []
    assert repair(repaired, profile) == repaired
    users = [words_of(message["content"]) for message in repaired if message["role"] == "user"]
    assert Counter(mark for text in users for mark in marks(text)) == Counter(said)


@thorough
@given(st.lists(st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists, max_leaves=4)))
def test_anything_can_be_imported(junk: list[Any]) -> None:
    import_messages([*junk, *({"role": one, "content": one, "tool_calls": one} for one in junk)])


def test_a_valid_history_stays_as_it_is() -> None:
    messages = [
        {"role": "system", "content": "prompt"},
        user("hello"),
        calls("a", "b"),
        result("a", "one"),
        result("b", "two"),
        {"role": "assistant", "content": "done"},
        user("thanks"),
    ]
    assert repair(messages) == messages


def test_a_dangling_call_gets_a_result_wherever_it_is() -> None:
    messages = [user("hello"), {"role": "assistant", "content": "hi"}, user("go on")]
    for position in (1, 2, 3):
        damaged = [*messages[:position], calls("a"), *messages[position:]]
        assert results_of(repair(damaged)) == [NO_RESULT], position


def test_results_belong_to_the_calls_of_the_response_before_them() -> None:
    repaired = repair([user("go"), calls("a", "b", "c"), result("c", "three"), user("and?"), result("a", "one")])
    assert results_of(repaired) == ["one", NO_RESULT, "three"]
    repaired = repair([user("go"), result("z", "orphan"), calls("a"), result("a", "first"), result("a", "second")])
    assert results_of(repaired) == ["second"]
    assert results_of(repair([user("go"), calls("a"), result("z", "orphan")])) == [NO_RESULT]
    repaired = repair([user("go"), calls("a"), result("a", "one"), calls("a"), result("a", "two")])
    assert results_of(repaired) == ["one", "two"]
    ids = [call["id"] for message in repaired for call in message.get("tool_calls", ())]
    assert ids[0] == "a"
    assert len(set(ids)) == 2
    repaired = repair([user("go"), calls("a", "a"), result("a", "one"), result("a", "two")])
    assert results_of(repaired) == ["one", "two"]
    repaired = repair([user("go"), calls("", ""), {"role": "tool", "content": "one"}, result("", "two")])
    assert results_of(repaired) == ["one", "two"]


def test_prompts_and_messages_are_joined_and_empty_responses_vanish() -> None:
    prompt = {"role": "system", "content": "prompt"}
    assert repair([prompt, user("a"), prompt, prompt, user("b")]) == [prompt, user("a\n\nb")]
    empty = {"role": "assistant", "content": ""}
    assert repair([user("a"), empty, user("b"), {"role": "assistant"}, user("c")]) == [user("a\n\nb\n\nc")]


def test_broken_arguments_become_an_object_and_are_shown_in_the_result() -> None:
    broken = calls("a")
    broken["tool_calls"][0]["function"]["arguments"] = '{"path": "a.p'
    repaired = repair([user("go"), broken])
    assert repaired[1]["tool_calls"][0]["function"]["arguments"] == "{}"
    assert '{"path": "a.p' in repaired[2]["content"]
