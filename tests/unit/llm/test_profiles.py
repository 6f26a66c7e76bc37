"""Profiles: seeds, what was learned, and what the user says, in that order."""

from typing import Any

import pytest

from app.llm.capabilities.profile import Profile
from app.llm.capabilities.profiles import (
    SEEDS,
    ProfileError,
    cache_key,
    remember,
    replace_learned,
    resolve,
    server_kind,
)
from app.llm.types import Endpoint


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
    assert server_kind(base_url, model) == kind
    assert resolve(base_url, model) == SEEDS[kind]
    assert SEEDS[kind].name == kind


def test_what_was_learned_goes_over_the_seed_and_the_user_over_both() -> None:
    cache: dict[str, dict[str, Any]] = {}
    endpoint = Endpoint("http://localhost:11434/v1/", "q")
    before = resolve(endpoint.base_url, "q", cache=cache)
    remember(cache, endpoint, before, before.model_copy(update={"mid_system": "fold_first"}))
    remember(cache, endpoint, before, before.model_copy(update={"context_window": 4096}))
    assert cache == {
        cache_key("http://localhost:11434/v1", "q"): {"mid_system": "fold_first", "context_window": 4096}
    }
    learned = resolve("http://localhost:11434/v1", "q", cache=cache)
    assert (learned.tool_choice_none, learned.mid_system, learned.context_window) == ("ignored", "fold_first", 4096)
    told = resolve(endpoint.base_url, "q", cache=cache, overrides={"mid_system": "inline"})
    assert (told.mid_system, told.context_window) == ("inline", 4096)
    assert resolve(endpoint.base_url, "other", cache=cache) == SEEDS["ollama"]


def test_an_examination_replaces_what_was_learned() -> None:
    endpoint = Endpoint("http://localhost:11434/v1", "q")
    cache: dict[str, dict[str, Any]] = {cache_key(endpoint.base_url, "q"): {"mid_system": "fold_user"}}
    replace_learned(cache, endpoint, SEEDS["ollama"].model_copy(update={"stream_usage": False}))
    assert cache == {cache_key(endpoint.base_url, "q"): {"stream_usage": False}}


@pytest.mark.parametrize("stored", [{"mid_system": "sideways"}, {"from_the_future": 1}, {"context_window": "x"}])
def test_what_another_version_stored_does_no_harm(stored: dict[str, Any]) -> None:
    cache = {cache_key("http://x/v1", "m"): stored}
    assert resolve("http://x/v1", "m", cache=cache) == Profile()


@pytest.mark.parametrize(
    ("overrides", "words"), [({"mid_sytem": "inline"}, "mid_sytem"), ({"tool_id": 7}, "tool_id")]
)
def test_a_wrong_setting_is_named(overrides: dict[str, Any], words: str) -> None:
    with pytest.raises(ProfileError, match=words):
        resolve("http://x/v1", "m", overrides=overrides)
