"""signoff's hook in the settings of other agents: put in and taken out, and all else is as it was."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.doors import json_text
from app.doors.agents import AGENTS, Agent
from app.doors.settings import UnreadableSettings, command, installed, with_hook, without_hook

CLAUDE, CODEX, GEMINI = AGENTS
WRITTEN = """{
    // ours
    "permissions": { "allow": ["Write"],   "deny": [] },
    "hooks": {
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}
        ],
        "Stop": []
    },
    "z": [1,2 ,3]
}
"""
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)
own_hooks = st.fixed_dictionaries(
    {"type": st.just("command"), "command": st.text(max_size=12)}, optional={"timeout": st.integers(1, 99)}
)
groups = st.lists(
    st.fixed_dictionaries({"hooks": st.lists(own_hooks, min_size=1, max_size=2)}, optional={"matcher": st.text()}),
    min_size=1,
    max_size=2,
)
hooks = st.dictionaries(st.sampled_from(["PreToolUse", "UserPromptSubmit", "BeforeTool", "Stop"]), groups, min_size=1)
settings = st.builds(
    lambda rest, own: {**rest, **({"hooks": own} if own else {})},
    st.dictionaries(st.text(max_size=8).filter(lambda key: key != "hooks"), values, max_size=3),
    st.none() | hooks,
)
layouts = st.sampled_from([None, 1, 2, 4, "\t"])


@given(settings, layouts, st.sampled_from(AGENTS))
def test_what_is_put_in_and_taken_out_leaves_the_text_as_it_was(
    document: dict[str, Any], indent: int | str | None, agent: Agent
) -> None:
    text = json.dumps(document, indent=indent) + "\n"
    there = with_hook(agent, text, 30, "deny")
    parsed = json.loads(there)
    assert installed(agent, there) == f"signoff hook {agent.name} --wait 30 --commands deny || exit 2"
    assert with_hook(agent, there, 30, "deny") == there, "twice is once"
    for event, each in document.get("hooks", {}).items():
        assert parsed["hooks"][event][: len(each)] == each
    assert {key: value for key, value in parsed.items() if key != "hooks"} == {
        key: value for key, value in document.items() if key != "hooks"
    }
    back = without_hook(agent, there)
    assert installed(agent, back) == ""
    assert json.loads(back) == document
    if document:
        assert back == text


@given(values, layouts)
def test_a_text_is_read_as_json_is(value: object, indent: int | str | None) -> None:
    text = json.dumps(value, indent=indent)
    assert json_text.value(text, json_text.parse(text)) == value


def test_order_comments_and_layout_stay() -> None:
    there = with_hook(CLAUDE, WRITTEN, 0, "allow")
    added = [line for line in there.splitlines() if line not in WRITTEN.splitlines()]
    assert all(line in there for line in WRITTEN.splitlines() if '"command": "true"' not in line and line != "    },")
    assert any("signoff hook claude || exit 2" in line for line in added)
    assert without_hook(CLAUDE, there) == WRITTEN


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_the_agent_waits_longer_than_signoff_does(agent: Agent) -> None:
    (group,) = json.loads(with_hook(agent, "", 600, "allow"))["hooks"][agent.before_tool]
    limit = group["hooks"][0]["timeout"] / (1000 if agent.milliseconds else 1)
    assert (group["matcher"], limit) == ("*", 660)


def test_another_choice_takes_the_place_of_the_one_before() -> None:
    text = with_hook(GEMINI, with_hook(GEMINI, "", 600, "allow"), 0, "deny")
    assert installed(GEMINI, text) == command(GEMINI, 0, "deny")
    assert text.count("signoff hook gemini") == 2, "before tools and before prompts"


@pytest.mark.parametrize(
    "text", ["{", "[]", "{} {}", '{"hooks": []}', '{"hooks": {"PreToolUse": {}}}', "{a: 1}", '"x"']
)
def test_settings_that_are_none_are_left_alone(text: str) -> None:
    with pytest.raises(UnreadableSettings):
        with_hook(CLAUDE, text, 0, "allow")


def test_comments_stand_anywhere() -> None:
    text = '{"a": [1, /* two */ 2, {"b": // three\n []}], // end\n "c": "// none"}'
    assert json_text.value(text, json_text.parse(text)) == {"a": [1, 2, {"b": []}], "c": "// none"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 200 + "]" * 200, "nested too deep"),
        ('{"a": }', "no value at character 6"),
        ("[1 2]", "a comma or ] is missing at character 3"),
        ('{"a" 1}', "no colon at character 5"),
        ("{a: 1}", "no key at character 1"),
        ("{} {}", "more after the end, from character 2"),
        ("[1] 2", "more after the end"),
        ("nonsense", "Expecting value"),
    ],
)
def test_a_text_that_is_none_says_where(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        json_text.parse(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "they are not an object"),
        ('{"hooks": []}', "their hooks are not an object"),
        ('{"hooks": {"PreToolUse": {}}}', "their PreToolUse is not a list"),
        ("{", "they are no JSON"),
    ],
)
def test_settings_that_are_none_say_what_is_wrong(text: str, why: str) -> None:
    with pytest.raises(UnreadableSettings, match=why):
        with_hook(CLAUDE, text, 0, "allow")
