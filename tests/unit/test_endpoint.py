"""Where requests go by the settings, and which key goes there."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.config.settings import ENVIRONMENT, Settings, load_configuration
from app.git.run_git import run_git
from app.runtime.model_connection import NotConnected, endpoint_of
from app.sandbox.environment import command_environment, without_own_keys

THEIRS, OTHERS = "sk-ant-secret", "sk-other-secret"
ANTHROPIC, OPENAI = "https://api.anthropic.com", "https://api.openai.com/v1"


def settings(**environment: str) -> Settings:
    return load_configuration(user_file=Path("/nowhere"), project=b"", flags={}, environment=environment).settings


def key(given: Settings) -> str:
    found = endpoint_of(given).api_key
    return found.get_secret_value() if found else ""


@pytest.mark.parametrize(
    ("model", "both", "address"),
    [
        ("claude-opus-4-8", False, ANTHROPIC),
        ("claude-opus-4-8", True, ANTHROPIC),
        ("anything", False, ANTHROPIC),
        ("gpt-x", True, OPENAI),
    ],
)
def test_without_an_address_a_key_goes_to_whoever_it_is_from(model: str, both: bool, address: str) -> None:
    more = {"OPENAI_API_KEY": OTHERS} if both else {}
    endpoint = endpoint_of(settings(ANTHROPIC_API_KEY=THEIRS, SIGNOFF_MODEL=model, **more))
    assert endpoint.base_url == address
    assert endpoint.api_key is not None
    assert endpoint.api_key.get_secret_value() == (THEIRS if address == ANTHROPIC else OTHERS)
    assert THEIRS not in repr(endpoint)


@pytest.mark.parametrize("url", [ANTHROPIC, f"{ANTHROPIC}/v1", "https://API.anthropic.com:443/", f" {ANTHROPIC} "])
def test_anthropics_key_goes_to_anthropic_before_another(url: str) -> None:
    given = settings(ANTHROPIC_API_KEY=THEIRS, OPENAI_API_KEY=OTHERS, OPENAI_BASE_URL=url, SIGNOFF_MODEL="m")
    assert key(given) == THEIRS


@pytest.mark.parametrize("wire", ["auto", "anthropic", "chat"])
@pytest.mark.parametrize(
    "url",
    [
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
    ],
)
def test_anthropics_key_goes_to_no_other_host(url: str, wire: str) -> None:
    given = settings(ANTHROPIC_API_KEY=THEIRS, OPENAI_BASE_URL=url, SIGNOFF_MODEL="claude-opus-4-8")
    assert key(given.model_copy(update={"wire": wire})) == ""


def test_without_key_and_address_both_variables_are_named() -> None:
    with pytest.raises(NotConnected, match="OPENAI_API_KEY or ANTHROPIC_API_KEY"):
        endpoint_of(settings(SIGNOFF_MODEL="m"))


def test_where_the_key_comes_from_is_known() -> None:
    given = settings(ANTHROPIC_API_KEY=THEIRS, OPENAI_API_KEY=OTHERS, SIGNOFF_MODEL="claude")
    origin: Callable[[str], str] = {
        "anthropic_api_key": "$ANTHROPIC_API_KEY",
        "api_key": "$OPENAI_API_KEY",
    }.__getitem__
    assert endpoint_of(given, origin).key_from == "$ANTHROPIC_API_KEY"
    assert endpoint_of(given.model_copy(update={"base_url": OPENAI}), origin).key_from == "$OPENAI_API_KEY"
    assert endpoint_of(settings(OPENAI_BASE_URL=OPENAI, SIGNOFF_MODEL="m"), origin).key_from == ""


@pytest.mark.parametrize("name", [name for name, setting in ENVIRONMENT.items() if setting.endswith("api_key")])
def test_no_key_is_handed_to_a_child_process(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert name not in command_environment({name: "plain"}, "marker")
    assert without_own_keys({name: "plain", "GH_TOKEN": "for git's helper"}) == {"GH_TOKEN": "for git's helper"}
    monkeypatch.setenv(name, "plain")
    show = ["-c", "alias.show-environment=!env", "show-environment"]
    said = run_git(tmp_path, show, {"PATH": "/usr/bin:/bin", name: "plain"})
    assert b"PATH=" in said and name.encode() not in said
