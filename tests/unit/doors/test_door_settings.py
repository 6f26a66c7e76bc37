"""signoff's hook in the settings of other agents: put in and taken out, and all else is as it was."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.doors.hook import hook_installation
from app.doors.hook.agents import AGENTS, DEFAULT_LIMIT_SECONDS, ExternalAgent, HookOptions, find_agent
from app.doors.hook.hook_installation import (
    UneditableSettings,
    add_hook,
    find_hook,
    known_release_weaknesses,
    make_hook_command,
    remove_hook,
)
from app.launcher.deadline import DEFAULT_SECONDS

CLAUDE, GEMINI = find_agent("claude"), find_agent("gemini")
WITH_JSON = [agent for agent in AGENTS if agent.form == "json"]
OPTIONS = HookOptions(wait=30, commands="deny")
DENIAL = "|| sh -c 'echo Denied by signoff. >&2; exit 2'"
WRITTEN = """{
    // ours
    "permissions": { "allow": ["Write"],   "deny": [] },
    "hooks": {
        "PreToolUse": [
            {"matcher": "Bash", "hooks": [{"type": "command", "command": "true"}]}
        ],
        "SessionEnd": []
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


@given(settings, layouts, st.sampled_from(WITH_JSON))
def test_install_and_remove_restore_text(
    document: dict[str, Any], indent: int | str | None, agent: ExternalAgent
) -> None:
    text = json.dumps(document, indent=indent) + "\n"
    there = add_hook(agent, text, OPTIONS)
    parsed = json.loads(there)
    found = find_hook(agent, there)
    assert found and found.command == f"signoff hook {agent.name} --wait 30 --commands deny {DENIAL}"
    assert (found.options, list(found.weaknesses(agent))) == (OPTIONS, [])
    assert add_hook(agent, there, OPTIONS) == there, "twice is once"
    for event, each in document.get("hooks", {}).items():
        assert parsed["hooks"][event][: len(each)] == each
    assert {key: value for key, value in parsed.items() if key != "hooks"} == {
        key: value for key, value in document.items() if key != "hooks"
    }
    back = remove_hook(agent, there)
    assert find_hook(agent, back) is None
    assert json.loads(back) == document
    if document:
        assert back == text


@given(values, layouts)
def test_a_text_is_read_as_json_is(value: object, indent: int | str | None) -> None:
    text = json.dumps(value, indent=indent)
    assert hook_installation.json_node_value(text, hook_installation.parse_json_with_comments(text)) == value


def test_order_comments_and_layout_stay() -> None:
    there = add_hook(CLAUDE, WRITTEN, HookOptions())
    added = [line for line in there.splitlines() if line not in WRITTEN.splitlines()]
    assert all(line in there for line in WRITTEN.splitlines() if '"command": "true"' not in line and line != "    },")
    assert any(f"signoff hook claude {DENIAL}" in line for line in added)
    assert remove_hook(CLAUDE, there) == WRITTEN


@pytest.mark.parametrize(
    ("text", "back"),
    [
        ("{\n  // note\n}\n", "{\n  // note\n}\n"),
        ("{ /* note */ }\n", "{ /* note */\n}\n"),
        ('{\n  "hooks": {\n    // note\n  }\n}\n', '{\n  "hooks": {\n    // note\n  }\n}\n'),
        ('{\n  "hooks": {}, // note\n  "a": 1,\n}\n', '{\n  // note\n  "a": 1,\n}\n'),
        ('{\n  "hooks": {} /* note */ ,\n  "a": 1\n}\n', '{\n  /* note */ \n  "a": 1\n}\n'),
        ('{ "hooks": {}, }\n', "{ }\n"),
    ],
)
def test_install_and_remove_keep_comments_beside_the_hooks(text: str, back: str) -> None:
    there = add_hook(GEMINI, text, OPTIONS)
    assert find_hook(GEMINI, there) and ("note" in there) is ("note" in text)
    assert remove_hook(GEMINI, there) == back
    hook_installation.parse_json_with_comments(back)


@pytest.mark.parametrize("agent", WITH_JSON, ids=lambda agent: agent.name)
def test_the_agent_waits_far_longer_than_signoff_takes(agent: ExternalAgent) -> None:
    (group,) = json.loads(add_hook(agent, "", HookOptions(wait=600, limit=45)))["hooks"][agent.before_tool]
    limit = group["hooks"][0]["timeout"] / (1000 if agent.milliseconds else 1)
    assert (group["matcher"], limit) == ("*", 600 + 45 + 570)
    assert group["hooks"][0].get("onFailure") == ("block" if agent.name == "claude" else None)


def test_the_default_deadline_is_the_same_in_both_modules() -> None:
    assert DEFAULT_LIMIT_SECONDS == DEFAULT_SECONDS


def test_installing_the_hook_again_replaces_its_options() -> None:
    text = add_hook(GEMINI, add_hook(GEMINI, "", HookOptions(wait=600)), OPTIONS)
    found = find_hook(GEMINI, text)
    assert found and found.command == make_hook_command(GEMINI, OPTIONS)
    assert text.count("signoff hook gemini") == 5, "before tools and prompts, after searches and turns, at starts"


@pytest.mark.parametrize("agent", WITH_JSON, ids=lambda agent: agent.name)
@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"timeout": 49}, "the time limit of 49 s there is too short: signoff takes up to 30 s"),
        ({"timeout": 60}, ""),
        ({"timeout": None}, ""),
        ({"timeout": None, "command": f"signoff hook {{}} --wait 60 {DENIAL}"}, "limit of 60 s there is too short"),
        ({"command": "signoff hook {}"}, "without `|| sh -c"),
        ({"command": f"signoff hook {{}} 'unclosed {DENIAL}"}, ""),
        ({"async": True}, "does not wait for the hook"),
    ],
)
def test_settings_that_let_calls_through_are_reported(
    agent: ExternalAgent, changed: dict[str, Any], told: str
) -> None:
    if "timeout" in changed and changed["timeout"] is None and agent.default_limit < DEFAULT_LIMIT_SECONDS + 20:
        told = "is too short"
    document = json.loads(add_hook(agent, "", HookOptions()))
    (hook,) = document["hooks"][agent.before_tool][0]["hooks"]
    for key, value in changed.items():
        if key == "timeout" and value:
            hook[key] = value * (1000 if agent.milliseconds else 1)
        elif value is None:
            del hook[key]
        else:
            hook[key] = value.format(agent.name) if isinstance(value, str) else value
    found = find_hook(agent, json.dumps(document))
    assert found is not None
    weaknesses = list(found.weaknesses(agent))
    assert len(weaknesses) == bool(told) and told in "".join(weaknesses)


@pytest.mark.parametrize("agent", WITH_JSON, ids=lambda agent: agent.name)
def test_an_exit_code_without_a_message_is_reported_as_weak(agent: ExternalAgent) -> None:
    found = find_hook(agent, add_hook(agent, "", HookOptions()).replace(DENIAL, "|| exit 2"))
    assert found is not None
    weaknesses = list(found.weaknesses(agent))
    if agent.silent_denial:
        assert weaknesses == []
    else:
        assert len(weaknesses) == 1 and f"`signoff doors install {agent.name}` adds it" in weaknesses[0]


def test_a_hook_that_covers_only_some_tools_is_reported() -> None:
    text = add_hook(CLAUDE, "", HookOptions()).replace('"*"', '"Write|Edit"')
    found = find_hook(CLAUDE, text)
    assert found and list(found.weaknesses(CLAUDE)) == ["the hook is called there only for the tools 'Write|Edit'"]


@pytest.mark.parametrize("agent", WITH_JSON, ids=lambda agent: agent.name)
def test_events_that_settings_of_an_earlier_release_lack_are_named(agent: ExternalAgent) -> None:
    text = add_hook(agent, "", HookOptions())
    events = [event for event in json.loads(text)["hooks"] if event != agent.before_tool]
    for event in events:
        document = json.loads(text)
        del document["hooks"][event]
        found = find_hook(agent, json.dumps(document))
        assert found and found.missing_events == (event,)
        assert not list(found.weaknesses(agent))
    complete = find_hook(agent, text)
    assert complete and not complete.missing_events


def test_comments_stand_anywhere() -> None:
    text = '{"a": [1, /* two */ 2, {"b": // three\n []}], // end\n "c": "// none"}'
    assert hook_installation.json_node_value(text, hook_installation.parse_json_with_comments(text)) == {
        "a": [1, 2, {"b": []}],
        "c": "// none",
    }


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
def test_invalid_json_text_is_reported_with_its_position(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        hook_installation.parse_json_with_comments(text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[]", "they are not an object"),
        ('"x"', "they are not an object"),
        ('{"hooks": []}', "their hooks are not an object"),
        ('{"hooks": {"PreToolUse": {}}}', "their PreToolUse is not a list"),
        *((text, "they are no usable JSON") for text in ("{", "{} {}", "{a: 1}")),
        ('{"hooks": {"Stop": []}, "z": 1, "hooks": {}}', 'the key "hooks" is there twice, again at character 32'),
    ],
)
def test_invalid_agent_settings_are_not_changed_and_reported_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(UneditableSettings, match=why):
        add_hook(CLAUDE, text, HookOptions())


def test_a_byte_order_mark_stays_where_it_was() -> None:
    text = add_hook(CLAUDE, f"\ufeff{WRITTEN}", OPTIONS)
    assert find_hook(CLAUDE, text) and text == "\ufeff" + add_hook(CLAUDE, WRITTEN, OPTIONS)


def test_agents_that_fail_open_are_reported() -> None:
    told = {agent.name: list(known_release_weaknesses(agent, "")) for agent in AGENTS}
    assert {name for name, each in told.items() if each} == {"qwen", "droid", "kimi"}
    (words,) = told["qwen"]
    assert words.startswith("Qwen Code fails open: a call passes if its hook ends without exit code 2 and a word")
