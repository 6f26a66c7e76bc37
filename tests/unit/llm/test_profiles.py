"""Profiles: seeds, what was learned, and what the user says, in that order."""

import time
from typing import Any

import pytest

from app.llm.capabilities.profiles import (
    DEFAULT_PROFILES,
    InvalidProfileSetting,
    ProfileLearner,
    find_server_kind,
    profile_cache_key,
    read_learned_fields,
    replace_learned_by_diagnosis,
    resolve_profile,
)
from app.llm.client import ModelClient
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import Endpoint


@pytest.mark.parametrize(
    ("base_url", "model", "kind"),
    [
        ("https://api.openai.com/v1", "gpt", "openai"),
        ("https://eu.api.openai.com/v1", "gpt", "openai"),
        ("https://me.openai.azure.com/openai/v1", "gpt", "azure"),
        ("https://openrouter.ai/api/v1", "a/b", "openrouter"),
        ("https://api.anthropic.com/v1", "c", "anthropic"),
        ("https://generativelanguage.googleapis.com/v1beta/openai/", "g", "gemini"),
        ("https://api.mistral.ai/v1", "m", "mistral"),
        ("https://api.groq.com/openai/v1", "l", "groq"),
        ("https://api.deepseek.com", "d", "deepseek"),
        ("https://api.moonshot.ai/v1", "k", "moonshot"),
        ("http://localhost:11434/v1", "q", "ollama"),
        ("http://box.lan:11434/v1", "q", "ollama"),
        ("http://127.0.0.1:1234/v1", "q", "lmstudio"),
        ("http://[::1]:8080/v1", "q", "llama.cpp"),
        ("http://localhost:8000/v1", "q", "vllm"),
        ("http://box.lan:8000/v1", "q", "unknown"),
        ("http://localhost:4000/v1", "bedrock/claude", "bedrock"),
        ("https://api.openai.com.evil.example/v1", "gpt", "unknown"),
        ("https://example.com/api.openai.com", "gpt", "unknown"),
        ("http://[::1/v1", "gpt", "unknown"),
        ("http://localhost:99999/v1", "gpt", "unknown"),
        ("", "", "unknown"),
    ],
)
def test_the_kind_of_a_server(base_url: str, model: str, kind: str) -> None:
    assert find_server_kind(base_url, model) == kind
    assert resolve_profile(base_url, model) == DEFAULT_PROFILES[kind]
    assert DEFAULT_PROFILES[kind].name == kind


def test_learned_fields_override_the_seed_and_the_user_both() -> None:
    cache: dict[str, dict[str, Any]] = {}
    endpoint = Endpoint("http://localhost:11434/v1/", "q")
    known = resolve_profile(endpoint.base_url, "q", cache=cache)
    beliefs = ProfileLearner(endpoint, known, known, cache, time.time)
    beliefs.learn(mid_system=known.mid_system)
    assert not cache, "what is no news is not kept"
    beliefs.learn(mid_system="fold_first", tool_choice_none="ignored")
    beliefs.learn(context_window=4096)
    ((key, stored),) = cache.items()
    assert key == profile_cache_key("http://localhost:11434/v1", "q")
    assert {**stored, "learned_at": 0} == {"mid_system": "fold_first", "context_window": 4096, "learned_at": 0}
    learned = resolve_profile("http://localhost:11434/v1", "q", cache=cache)
    assert (learned.tool_choice_none, learned.mid_system, learned.context_window) == ("ignored", "fold_first", 4096)
    told = resolve_profile(endpoint.base_url, "q", cache=cache, overrides={"mid_system": "inline"})
    assert (told.mid_system, told.context_window) == ("inline", 4096)
    assert resolve_profile(endpoint.base_url, "other", cache=cache) == DEFAULT_PROFILES["ollama"]


def test_an_examination_replaces_what_was_learned() -> None:
    endpoint = Endpoint("http://localhost:11434/v1", "q")
    cache: dict[str, dict[str, Any]] = {}
    ProfileLearner(endpoint, EndpointProfile(), EndpointProfile(), cache, time.time).learn(mid_system="fold_user")
    replace_learned_by_diagnosis(
        cache, endpoint, DEFAULT_PROFILES["ollama"].model_copy(update={"stream_usage": False})
    )
    (stored,) = cache.values()
    assert stored.keys() == {"stream_usage", "learned_at"}
    assert resolve_profile(endpoint.base_url, "q", cache=cache) == DEFAULT_PROFILES["ollama"].model_copy(
        update={"stream_usage": False}
    )


def test_defaults_of_anthropic_depend_on_the_users_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Endpoint("https://api.anthropic.com/v1", "m")
    cache: dict[str, dict[str, Any]] = {}
    chat = resolve_profile(endpoint.base_url, "m", overrides={"wire": "chat"})
    replace_learned_by_diagnosis(cache, endpoint, chat.model_copy(update={"wire": "anthropic"}), "chat")
    assert [stored.keys() for stored in cache.values()] == [{"learned_at"}]
    client = ModelClient(endpoint, chat, cache=cache)
    client._learned_profile.learn(mid_system="fold_user")
    client = ModelClient(endpoint, chat.model_copy(update={"mid_system": "fold_user"}), cache=cache)
    later = time.time() + 31 * 86_400
    monkeypatch.setattr(time, "time", lambda: later)
    client._learned_profile.forget_expired()
    assert client.profile == chat


def test_learned_fields_expire_and_costly_ones_sooner() -> None:
    endpoint = Endpoint("http://x/v1", "m")
    cache: dict[str, dict[str, Any]] = {}
    today = 2_000_000_000.0
    now = [today]
    beliefs = ProfileLearner(endpoint, EndpointProfile(), EndpointProfile(), cache, lambda: now[0])
    beliefs.learn(tools_supported=False, mid_system="fold_first", context_window=4096)
    now[0] += 16 * 60
    beliefs.forget_expired()
    assert beliefs.profile == EndpointProfile(mid_system="fold_first", context_window=4096)
    now[0] += 86_400
    beliefs.forget_expired()
    assert beliefs.profile == EndpointProfile(mid_system="fold_first"), (
        "a local server is soon started with another window"
    )
    assert [belief.field for belief in read_learned_fields(cache, "http://x/v1", "m", now[0])] == ["mid_system"]
    # One that begins with what another has learned forgets it at the same time, but never what the user says.
    later = ProfileLearner(
        endpoint, EndpointProfile(), EndpointProfile(mid_system="fold_first"), cache, lambda: now[0]
    )
    told = ProfileLearner(endpoint, EndpointProfile(), EndpointProfile(mid_system="fold_user"), cache, lambda: now[0])
    now[0] = today + 40 * 86_400
    later.forget_expired()
    told.forget_expired()
    assert later.profile == EndpointProfile() and told.profile == EndpointProfile(mid_system="fold_user")
    assert read_learned_fields(cache, "http://x/v1", "m", now[0]) == []


@pytest.mark.parametrize(
    "stored",
    [
        {"mid_system": "sideways"},
        {"from_the_future": 1},
        {"context_window": "x"},
        {"mid_system": "fold_first", "learned_at": {"mid_system": "yesterday"}},
        {"mid_system": "fold_first", "learned_at": 7},
    ],
)
def test_profile_of_another_version_does_no_harm(stored: dict[str, Any]) -> None:
    if "learned_at" not in stored:
        stored = {**stored, "learned_at": dict.fromkeys(stored, time.time())}
    cache = {profile_cache_key("http://x/v1", "m"): stored}
    assert resolve_profile("http://x/v1", "m", cache=cache) == EndpointProfile()


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"mid_sytem": "inline"}, r"^profile\.mid_sytem: there is no such field\. Fields: .*mid_system"),
        ({"mid_system": "x"}, r"^profile\.mid_system: input should be 'inline', 'fold_first' or 'fold_user'\.$"),
        ({"tool_id": 7}, "tool_id"),
        ({"images_supported": "foo"}, r"^profile\.images_supported: write true or false\.$"),
    ],
)
def test_a_wrong_setting_is_named(overrides: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidProfileSetting, match=words):
        resolve_profile("http://x/v1", "m", overrides=overrides)
