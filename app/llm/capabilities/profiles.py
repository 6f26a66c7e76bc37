"""The profile of an endpoint: what is known of its kind, what was learned from it, what the user says about it."""

import contextlib
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pydantic import ValidationError

from app.llm.address import is_local
from app.llm.capabilities.beliefs import ProfileCache, believed, replace
from app.llm.capabilities.profile import Profile
from app.llm.types import Endpoint

SEEDS: dict[str, Profile] = {
    "unknown": Profile(),
    # Both wires are whole there, but reasoning is kept from call to call on this one only.
    "openai": Profile(name="openai", wire="responses", max_tokens_field="max_completion_tokens", tool_id="max64"),
    "azure": Profile(name="azure", max_tokens_field="max_completion_tokens", tool_id="max64"),
    "openrouter": Profile(name="openrouter", reasoning_echo="same_model"),
    "vllm": Profile(name="vllm"),
    "ollama": Profile(name="ollama", tool_choice_none="ignored"),
    "llama.cpp": Profile(name="llama.cpp"),
    "lmstudio": Profile(name="lmstudio"),
    "anthropic": Profile(name="anthropic", wire="anthropic"),
    # It joins all system messages at the front.
    "anthropic-chat": Profile(name="anthropic-chat", mid_system="fold_first"),
    # Most of those who offer Anthropic's wire take no system message in mid-conversation, and not all of them say so.
    "anthropic-like": Profile(name="anthropic-like", wire="anthropic", mid_system="fold_first"),
    "gemini": Profile(name="gemini", call_extras_echo=True),
    "mistral": Profile(
        name="mistral",
        mid_system="fold_first",
        bridge_tool_user=True,
        tool_id="alnum9",
        text_beside_calls=False,
    ),
    "groq": Profile(name="groq", tool_choice_none="fails"),
    "deepseek": Profile(name="deepseek", reasoning_echo="required_on_calls"),
    "moonshot": Profile(name="moonshot", reasoning_echo="required_on_calls"),
    "bedrock": Profile(name="bedrock", tool_choice_none="rejected"),
}
"""What is known of each kind of server before the first request."""

_HOSTS = (
    ("openai", r"(?:^|\.)api\.openai\.com$"),
    ("azure", r"\.(?:openai\.azure\.com|services\.ai\.azure\.com|cognitiveservices\.azure\.com)$"),
    ("openrouter", r"(?:^|\.)openrouter\.ai$"),
    ("anthropic", r"(?:^|\.)api\.anthropic\.com$"),
    ("gemini", r"(?:^|\.)generativelanguage\.googleapis\.com$"),
    ("mistral", r"(?:^|\.)(?:api|codestral)\.mistral\.ai$"),
    ("groq", r"(?:^|\.)api\.groq\.com$"),
    ("deepseek", r"(?:^|\.)api\.deepseek\.com$"),
    ("moonshot", r"(?:^|\.)api\.moonshot\.(?:ai|cn)$"),
    ("ollama", r"(?:^|\.)ollama\.com$"),
)
_LOCAL_PORTS = {11434: "ollama", 1234: "lmstudio", 8080: "llama.cpp", 8000: "vllm"}


def server_kind(base_url: str, model: str) -> str:
    """The key into `SEEDS`, from the host, a local server's usual port, or the model's prefix behind a proxy."""
    try:
        parts = urlsplit(base_url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "unknown"
    if re.search(r"/anthropic(?:/v1)?/?$", parts.path):
        return "anthropic-like"
    for kind, pattern in _HOSTS:
        if re.search(pattern, host):
            return kind
    if model.startswith("bedrock/") or model.startswith(("anthropic.claude", "us.anthropic.", "eu.anthropic.")):
        return "bedrock"
    if is_local(base_url) and port in _LOCAL_PORTS:
        return _LOCAL_PORTS[port]
    return "ollama" if port == 11434 else "unknown"


def seed(base_url: str, model: str, wire: str | None = None) -> Profile:
    """What is known of an endpoint before the first request; `wire` is the one that the user has chosen."""
    kind = server_kind(base_url, model)
    return SEEDS["anthropic-chat" if kind == "anthropic" and wire == "chat" else kind]


class ProfileError(ValueError):
    """The configuration names a capability that does not exist, or gives it an impossible value."""


def resolve(
    base_url: str,
    model: str,
    *,
    cache: ProfileCache | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Profile:
    """The profile to start with: the seed, what was learned before, and over both what the user says.

    Raises:
        ProfileError: `overrides` (the `[profile]` table of the config) has a field or value that does not exist.
    """
    profile = seed(base_url, model, (overrides or {}).get("wire"))
    if cache is not None:
        learned = {belief.field: belief.value for belief in believed(cache, base_url, model)}
        # What another version wrote may be unusable; it will be learned again.
        with contextlib.suppress(ValidationError):
            profile = Profile.model_validate({**profile.model_dump(), **learned})
    if not overrides:
        return profile
    try:
        return Profile.model_validate({**profile.model_dump(), **overrides})
    except ValidationError as problem:
        fault = problem.errors()[0]
        field = ".".join(str(step) for step in fault["loc"])
        raise ProfileError(
            f"profile.{field}: {fault['msg']}. Fields: {', '.join(Profile.model_fields)}."
        ) from problem


def replace_learned(cache: ProfileCache, endpoint: Endpoint, profile: Profile) -> None:
    """Store what an examination found, in place of everything that was learned before.

    Only what differs from the seed is kept, so that a better one is not hidden by what never was in question.
    """
    known = seed(endpoint.base_url, endpoint.model)
    replace(cache, endpoint, {field: value for field, value in profile if value != getattr(known, field)})
