"""The profile of an endpoint: defaults, learned and tried corrections, and the settings of the user."""

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from pydantic import ValidationError

from app.llm.failures.request_errors import Failure
from app.llm.values.endpoint import Profile, is_local
from app.llm.values.requests_and_updates import Endpoint, Payload, ProfileCorrected

if TYPE_CHECKING:
    from app.llm.capabilities.corrections import Correction


class CorrectionTrial:
    """The corrections of one request."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        """What the next attempt is to follow."""
        self._known = profile
        self._kept: list[Correction] = []
        """In the order tried; the last one is on trial."""
        self._before: tuple[Profile, Payload] | None = None
        """Profile and payload that the last correction was made for."""
        self._tried: set[str] = set()

    def add_confirmed_fields(self, **facts: Any) -> None:
        """Add something that is true however this request ends."""
        self.profile = self.profile.model_copy(update=facts)
        self._known = self._known.model_copy(update=facts)

    def try_correction(self, failure: Failure, payload: Payload) -> bool:
        """Take the refusal of `payload`; return whether there is another profile to try, which `profile` is then."""
        # Imported when something fails: its many patterns take their time to compile.
        from app.llm.capabilities.corrections import find_correction

        if self._kept and self._before is not None:
            last, (profile, refused) = self._kept[-1], self._before
            again = find_correction(profile, failure, refused, self._tried - {last.name})
            if again is not None and again.name == last.name:
                self._kept.pop()
                self.profile, payload = profile, refused
        found = find_correction(self.profile, failure, payload, self._tried)
        if found is None:
            return False
        self._before = self.profile, payload
        self._tried.add(found.name)
        self._kept.append(found)
        self.profile = found.profile
        return True

    def pop_confirmed(self) -> tuple[dict[str, Any], list[ProfileCorrected]]:
        """Return, once a response has come, the confirmed fields and the notices for the user."""
        changed = {field: value for field, value in iter(self.profile) if value != getattr(self._known, field)}
        return changed, [ProfileCorrected(self.profile, one.notice) for one in self._kept]


class ProfileCache(Protocol):
    """Port to stored corrections: a mapping from a key to a JSON object; a dict will do."""

    def get(self, key: str, /) -> Mapping[str, Any] | None:
        """Return the value stored under a key."""

    def __setitem__(self, key: str, value: dict[str, Any], /) -> None:
        """Store."""


_MINUTE, _DAY = 60.0, 86_400.0
LASTS = {
    "tools_supported": 15 * _MINUTE,
    "images_supported": _DAY,
    "refused_tools": _DAY,
    "context_window": _DAY,
    "refused_images": 7 * _DAY,
    "stream_usage": 7 * _DAY,
    "refused": 7 * _DAY,
    "price": 7 * _DAY,
    "mid_system": 30 * _DAY,
    "rendered": 30 * _DAY,
    "tool_choice_none": 30 * _DAY,
    "opaque_echo": 30 * _DAY,
    "cache_breakpoints": 30 * _DAY,
    "finish_optional": 30 * _DAY,
}
"""Seconds that a belief lasts which costs something: without tools the model can only talk, without images it cannot
see them, without a server's tool it cannot do what that does, a local server is started again with a larger window,
without counts the context is estimated, what the user wants is not in force, prices change, what is joined to the
first message costs the prompt cache, the gate is weaker, the model forgets what it has reasoned, and what is cut off
may pass for whole."""
_MAX_AGE_SECONDS = 90 * _DAY
_DATES = "learned_at"
"""Where the cache keeps the Unix time of each field."""


@dataclass(frozen=True, slots=True)
class LearnedField:
    """A learned field of the profile."""

    field: str
    value: Any
    since: float
    """Unix time; 0 if it was learned before beliefs were dated."""

    def is_valid(self, now: float) -> bool:
        """Return whether it is still believed."""
        return now - self.since < LASTS.get(self.field, _MAX_AGE_SECONDS)


def profile_cache_key(base_url: str, model: str) -> str:
    """Return the key under which corrections of this endpoint and model are stored."""
    return f"{base_url.rstrip('/')}|{model}"


def read_valid_fields(cache: ProfileCache, base_url: str, model: str, now: float | None = None) -> list[LearnedField]:
    """Return the learned fields of an endpoint and model that have not expired at `now` (Unix time)."""
    now = time.time() if now is None else now
    return [belief for belief in _stored(cache, base_url, model) if belief.is_valid(now)]


def store_fields(cache: ProfileCache, endpoint: Endpoint, fields: Mapping[str, Any]) -> None:
    """Store exactly these learned fields of the endpoint."""
    cache[profile_cache_key(endpoint.base_url, endpoint.model)] = {
        **fields,
        _DATES: dict.fromkeys(fields, time.time()),
    }


class LearnedProfile:
    """The profile of an endpoint, with what was learned from its answers.

    Args:
        known: What servers of this kind honour.
        profile: What is believed of this endpoint.
        cache: What was learned about it earlier.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        known: Profile,
        profile: Profile,
        cache: ProfileCache | None,
        clock: Callable[[], float] = lambda: time.time(),
    ) -> None:
        self.profile = profile
        self._endpoint = endpoint
        self._cache = cache
        self._clock = clock
        self._before: dict[str, Any] = {}
        """What was believed before of a field that was learned."""
        self._since: dict[str, float] = {}
        stored = read_valid_fields(cache, endpoint.base_url, endpoint.model, clock()) if cache is not None else []
        for belief in stored:
            # What the user says goes over it, and does not age.
            if getattr(profile, belief.field) == belief.value:
                self._before[belief.field] = getattr(known, belief.field)
                self._since[belief.field] = belief.since

    def learn(self, **fields: Any) -> None:
        """Adopt these fields from now on. Only differences are stored, so that better seeds and the user's settings
        stay visible."""
        changed = {field: value for field, value in fields.items() if value != getattr(self.profile, field)}
        if not changed:
            return
        for field in changed:
            self._before.setdefault(field, getattr(self.profile, field))
            self._since[field] = self._clock()
        self.profile = self.profile.model_copy(update=changed)
        if self._cache is not None:
            _store(self._cache, self._endpoint, changed, self._clock())

    def is_learned(self, field: str) -> bool:
        """Return whether this was learned, by this client or before."""
        return field in self._since

    def forget_expired(self) -> None:
        """Forget facts that were learned too long ago."""
        now = self._clock()
        gone = [
            field
            for field, since in self._since.items()
            if not LearnedField(field, getattr(self.profile, field), since).is_valid(now)
        ]
        self.profile = self.profile.model_copy(update={field: self._before.pop(field) for field in gone})
        for field in gone:
            del self._since[field]


def _stored(cache: ProfileCache, base_url: str, model: str) -> Iterator[LearnedField]:
    stored = dict(cache.get(profile_cache_key(base_url, model)) or {})
    dates = stored.pop(_DATES, {})
    for field, value in stored.items():
        if field in Profile.model_fields:
            since = dates.get(field, 0.0) if isinstance(dates, dict) else 0.0
            yield LearnedField(field, value, since if isinstance(since, int | float) else 0.0)


def _store(cache: ProfileCache, endpoint: Endpoint, changed: Mapping[str, Any], now: float) -> None:
    key = profile_cache_key(endpoint.base_url, endpoint.model)
    stored = dict(cache.get(key) or {})
    dates = stored.pop(_DATES, {})
    dates = dates if isinstance(dates, dict) else {}
    cache[key] = {**stored, **changed, _DATES: {**dates, **dict.fromkeys(changed, now)}}


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
    """Return the key into `SEEDS`: from the host, a local server's usual port, or the model's prefix."""
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


def seed_profile(base_url: str, model: str, wire: str | None = None) -> Profile:
    """Return what is known of an endpoint before the first request; `wire` is the one that the user has chosen."""
    kind = server_kind(base_url, model)
    return SEEDS["anthropic-chat" if kind == "anthropic" and wire == "chat" else kind]


class ProfileError(ValueError):
    """The configuration names a capability that does not exist, or gives it an impossible value."""


def resolve_profile(
    base_url: str,
    model: str,
    *,
    cache: ProfileCache | None = None,
    overrides: Mapping[str, Any] | None = None,
) -> Profile:
    """Return the profile to start with: defaults, then corrections learned before, then the user's settings.

    Raises:
        ProfileError: `overrides` (the `[profile]` table of the config) has a field or value that does not exist.
    """
    profile = seed_profile(base_url, model, (overrides or {}).get("wire"))
    if cache is not None:
        learned = {belief.field: belief.value for belief in read_valid_fields(cache, base_url, model)}
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


def store_diagnosis(cache: ProfileCache, endpoint: Endpoint, profile: Profile) -> None:
    """Store the findings of an examination in place of everything that was learned before.

    Only what differs from the seed is kept, so that a better one is not hidden by what never was in question.
    """
    known = seed_profile(endpoint.base_url, endpoint.model)
    store_fields(cache, endpoint, {field: value for field, value in profile if value != getattr(known, field)})
