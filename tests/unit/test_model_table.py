"""Which model is asked, where and with which key: endpoints, and what is set for some models alone."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.config.config_tables import PriceTable, matching_model_patterns
from app.config.settings import ENVIRONMENT, Configuration, Settings, load_configuration
from app.git.run_git import run_git
from app.llm.capabilities.model_list import ListedModel, find_price
from app.runtime.model_connection import ModelNotConfigured, connect_model, make_endpoint
from app.runtime.open_workspace import open_workspace
from app.sandbox.environment import command_environment, remove_signoff_api_keys
from app.ui.screens.model_settings_screen import ModelSetting, current_model_settings

USERS = """
reasoning_effort = "low"
context_window = 8000
wire = "responses"
[request]
top_p = 0.5
template = { think = true, keep = 1 }
[price]
"*" = { input = 9, output = 9 }
[models."qwen*"]
context_window = 16000
wire = "chat"
request = { template = { think = false } }
[models."qwen3-*"]
reasoning_effort = "high"
context_window = 32000
profile = { mid_system = "fold_first" }
[models."qwen3-coder"]
price = { input = 1, output = 2 }
request = { seed = 7 }
profile = { images_supported = false }
[models."claude[1m]"]
reasoning_effort = "max"
"""


def merged(
    tmp_path: Path, users: str, project: str = "", *, trusted: bool = False, effort: str = ""
) -> Configuration:
    file = tmp_path / "config.toml"
    file.write_text(users)
    flags = {"reasoning_effort": effort or None}
    return load_configuration(
        user_file=file, workspace_file_content=project.encode(), flags=flags, environment={}, trusted=trusted
    )


def of(settings: Settings, model: str) -> Settings:
    return settings.model_copy(update={"model": model}).with_model_tables


def test_the_more_specific_comes_first() -> None:
    every = ["*", "a-*", "a-b-?", "a[0]", "a-b-c", "gpt-[45]*", "gpt-[!4]*", "*[1m]", "b[3]-c"]
    prices = {pattern: PriceTable(input=number, output=0) for number, pattern in enumerate(every)}
    for model, patterns in (
        ("a-b-c", ["a-b-c", "a-b-?", "a-*", "*"]),
        ("a[0]", ["a[0]", "*"]),
        ("a0", ["*"]),
        ("A-b", ["*"]),
        ("gpt-5-mini", ["gpt-[45]*", "gpt-[!4]*", "*"]),
        ("gpt-4", ["gpt-[45]*", "*"]),
        ("x[1m]", ["*[1m]", "*"]),
        ("gpt-4.1", ["gpt-[45]*", "*"]),
        ("b[3]-c", ["b[3]-c", "*"]),
    ):
        assert matching_model_patterns(model, every) == patterns
        assert find_price(model, prices) == prices[patterns[0]], "prices go by the same patterns"


def test_the_most_specific_model_setting_wins(tmp_path: Path) -> None:
    settings = merged(tmp_path, USERS).settings
    coder = of(settings, "qwen3-coder")
    assert (coder.reasoning_effort, coder.context_window, coder.wire) == ("high", 32000, "chat")
    assert coder.request == {"top_p": 0.5, "template": {"think": False, "keep": 1}, "seed": 7}
    assert coder.profile == {"mid_system": "fold_first", "images_supported": False}
    assert coder.price["qwen3-coder"] == PriceTable(input=1, output=2)
    assert of(settings, "qwen2").context_window == 16000
    assert of(settings, "claude[1m]").reasoning_effort == "max"
    other = of(settings, "claude1")
    assert (other.reasoning_effort, other.context_window, other.wire) == ("low", 8000, "responses")
    assert other.request == settings.request and other.with_model_tables == other


def test_a_command_line_effort_wins_over_all_settings(tmp_path: Path) -> None:
    flagged = merged(tmp_path, USERS, effort="minimal").settings
    said = merged(tmp_path, USERS).settings.with_effort("minimal")
    for settings in (flagged, said):
        assert of(settings, "qwen3-coder").reasoning_effort == "minimal"
        assert of(settings, "qwen3-coder").context_window == 32000


def test_a_workspaces_tables_wait_for_trust_and_then_add_to_the_users(tmp_path: Path) -> None:
    wished = '[models."qwen3-coder"]\nreasoning_effort = "none"\nrequest = { metadata = "theirs" }\n'
    held = merged(tmp_path, USERS, wished)
    assert held.untrusted == ("models",) and held.settings == merged(tmp_path, USERS).settings
    coder = of(merged(tmp_path, USERS, wished, trusted=True).settings, "qwen3-coder")
    assert coder.reasoning_effort == "none"
    assert coder.request["metadata"] == "theirs" and coder.request["seed"] == 7
    assert coder.price["qwen3-coder"] == PriceTable(input=1, output=2)


def test_an_unknown_capability_is_named_and_an_unreadable_file_sets_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    runtime = open_workspace(tmp_path, {"base_url": "http://localhost:1/v1", "model": "m"}, {})
    tables = Settings.model_validate({"models": {"other": {"profile": {"images": False}}}}).models
    for wrong, named in (
        ({"models": tables}, r"^models\.other\.profile\.images: "),
        ({"profile": {"no_such_field": 1}}, "no_such_field"),
    ):
        with pytest.raises(ModelNotConfigured, match=named):
            connect_model(runtime, runtime.settings.model_copy(update=wrong))
    file = runtime.dirs.config_file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("[models.m]\ncontext_window = 5000\n")
    settings, window = runtime.reload().settings, ("context_window",)
    found = current_model_settings(runtime, settings, ListedModel("m"))[window]
    assert found == ModelSetting(5000, "yours, for this model", 5000)
    file.write_text("[models.m")
    found = current_model_settings(runtime, settings, ListedModel("m"))[window]
    assert (found.value, found.own_value) == (5000, None)
    runtime.close()


THEIRS, OTHERS = "sk-ant-secret", "sk-other-secret"
ANTHROPIC, OPENAI = "https://api.anthropic.com", "https://api.openai.com/v1"


def settings(**environment: str) -> Settings:
    return load_configuration(
        user_file=Path("/nowhere"), workspace_file_content=b"", flags={}, environment=environment
    ).settings


def key(given: Settings) -> str:
    found = make_endpoint(given).api_key
    return found.get_secret_value() if found else ""


def test_without_an_address_a_key_is_sent_to_its_vendor() -> None:
    for model, more, address, sent in (
        ("claude-opus-4-8", {}, ANTHROPIC, THEIRS),
        ("claude-opus-4-8", {"OPENAI_API_KEY": OTHERS}, ANTHROPIC, THEIRS),
        ("anything", {}, ANTHROPIC, THEIRS),
        ("gpt-x", {"OPENAI_API_KEY": OTHERS}, OPENAI, OTHERS),
    ):
        given = settings(ANTHROPIC_API_KEY=THEIRS, SIGNOFF_MODEL=model, **more)
        assert (make_endpoint(given).base_url, key(given)) == (address, sent)
        assert THEIRS not in repr(make_endpoint(given))
    with pytest.raises(ModelNotConfigured, match="OPENAI_API_KEY or ANTHROPIC_API_KEY"):
        make_endpoint(settings(SIGNOFF_MODEL="m"))


def test_anthropics_key_is_used_for_anthropic_first() -> None:
    for url in (ANTHROPIC, f"{ANTHROPIC}/v1", "https://API.anthropic.com:443/", f" {ANTHROPIC} "):
        given = settings(ANTHROPIC_API_KEY=THEIRS, OPENAI_API_KEY=OTHERS, OPENAI_BASE_URL=url, SIGNOFF_MODEL="m")
        assert key(given) == THEIRS, url


def test_anthropics_key_goes_to_no_other_host() -> None:
    for url in (
        "http://api.anthropic.com",
        "https://api.anthropic.com.evil.test",
        "https://api.anthropic.com@evil.test/",
        "https://api.anthropic.com:pw@evil.test/anthropic",
        "https://evil.test/api.anthropic.com/anthropic",
        "https://evil.test?https://api.anthropic.com",
        "https://evil.test#@api.anthropic.com",
        "https://notapi.anthropic.com",
        "http://localhost:8080/anthropic",
        "https://[api.anthropic.com",
    ):
        given = settings(ANTHROPIC_API_KEY=THEIRS, OPENAI_BASE_URL=url, SIGNOFF_MODEL="claude-opus-4-8")
        for wire in ("auto", "anthropic", "chat"):
            assert key(given.model_copy(update={"wire": wire})) == "", (url, wire)


def test_origin_of_the_key_is_known() -> None:
    given = settings(ANTHROPIC_API_KEY=THEIRS, OPENAI_API_KEY=OTHERS, SIGNOFF_MODEL="claude")
    origin: Callable[[str], str] = {
        "anthropic_api_key": "$ANTHROPIC_API_KEY",
        "api_key": "$OPENAI_API_KEY",
    }.__getitem__
    assert make_endpoint(given, origin).key_from == "$ANTHROPIC_API_KEY"
    assert make_endpoint(given.model_copy(update={"base_url": OPENAI}), origin).key_from == "$OPENAI_API_KEY"
    assert make_endpoint(settings(OPENAI_BASE_URL=OPENAI, SIGNOFF_MODEL="m"), origin).key_from == ""


@pytest.mark.parametrize("name", [name for name, setting in ENVIRONMENT.items() if setting.endswith("api_key")])
def test_no_key_is_handed_to_a_child_process(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert name not in command_environment({name: "plain"}, "marker")
    assert remove_signoff_api_keys({name: "plain", "GH_TOKEN": "for git's helper"}) == {
        "GH_TOKEN": "for git's helper"
    }
    monkeypatch.setenv(name, "plain")
    show = ["-c", "alias.show-environment=!env", "show-environment"]
    said = run_git(tmp_path, show, {"PATH": "/usr/bin:/bin", name: "plain"})
    assert b"PATH=" in said and name.encode() not in said
