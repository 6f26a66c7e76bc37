"""The profile of an endpoint: defaults, learned and tried corrections, and the user's settings."""

import contextlib
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from msgspec import Struct
from pydantic import ValidationError

from app.config.toml_files import describe_wrong_value
from app.llm.failures.request_errors import Failure
from app.llm.values.endpoint import EndpointProfile, is_loopback_url
from app.llm.values.requests_and_updates import Endpoint, Payload, ProfileCorrected

if TYPE_CHECKING:
    from app.llm.capabilities.corrections import ProfileCorrection


class RequestProfileCorrector:
    """Tries corrections of the profile for one request, one after the other, until the endpoint accepts it."""

    def __init__(self, profile: EndpointProfile) -> None:
        self.profile = profile
        """The profile for the next attempt."""
        self._confirmed = profile
        self._corrections: list[ProfileCorrection] = []
        """In the order tried; the last one is not confirmed yet."""
        self._last_refusal: tuple[EndpointProfile, Payload] | None = None
        """Profile and payload for which the last correction was made."""
        self._tried_names: set[str] = set()

    def add_confirmed_fields(self, **facts: Any) -> None:
        """Set fields that are true whether this request succeeds or not."""
        self.profile = self.profile.model_copy(update=facts)
        self._confirmed = self._confirmed.model_copy(update=facts)

    def try_correction(self, failure: Failure, payload: Payload) -> bool:
        """Set `profile` to a correction for the refusal of `payload`; return False if there is none.

        If the last correction did not change the refusal, it is taken back first.
        """
        # Imported only after a failure, because compiling its many patterns takes time.
        from app.llm.capabilities.corrections import find_correction

        if self._corrections and self._last_refusal is not None:
            last, (profile, refused) = self._corrections[-1], self._last_refusal
            again = find_correction(profile, failure, refused, self._tried_names - {last.name})
            if again is not None and again.name == last.name:
                self._corrections.pop()
                self.profile, payload = profile, refused
        found = find_correction(self.profile, failure, payload, self._tried_names)
        if found is None:
            return False
        self._last_refusal = self.profile, payload
        self._tried_names.add(found.name)
        self._corrections.append(found)
        self.profile = found.profile
        return True

    def confirmed_changes(self) -> tuple[dict[str, Any], list[ProfileCorrected]]:
        """Return the changed fields and the notices for the user; call it when a response has arrived."""
        changed = {field: value for field, value in self.profile if value != getattr(self._confirmed, field)}
        return changed, [ProfileCorrected(self.profile, correction.notice) for correction in self._corrections]


class CorrectionStore(Protocol):
    """Port to stored corrections: a mapping from keys to JSON objects, for example a dict."""

    def get(self, key: str, /) -> Mapping[str, Any] | None:
        """Return the value stored under a key."""

    def __setitem__(self, key: str, value: dict[str, Any], /) -> None:
        """Store a value under a key."""


_MINUTE, _DAY = 60.0, 86_400.0
MAX_AGE_SECONDS_BY_FIELD = {
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
"""Seconds after which a learned field expires that makes something worse: without tools the model can only talk,
without images it cannot see them, without a server's tool it lacks that tool, a local server may restart with a
larger window, without counts the context is only estimated, a refused option of the user is not used, prices change,
system messages joined to the first one break the prompt cache, the gate is weaker, the model forgets its reasoning,
and a truncated response may count as complete."""
_MAX_AGE_SECONDS = 90 * _DAY
_DATES_KEY = "learned_at"
"""Key in the cache for the Unix time of each field."""


class LearnedField(Struct, frozen=True):
    """A profile field learned from an endpoint's answers, with its value and the time."""

    field: str
    value: Any
    since: float
    """Unix time; 0 if the cache has no date for it."""

    def is_valid(self, now: float) -> bool:
        """Return whether it has not expired at `now` (Unix time)."""
        return now - self.since < MAX_AGE_SECONDS_BY_FIELD.get(self.field, _MAX_AGE_SECONDS)


def profile_cache_key(base_url: str, model: str) -> str:
    """Return the cache key for the corrections of this endpoint and model."""
    return f"{base_url.rstrip('/')}|{model}"


def read_learned_fields(
    cache: CorrectionStore, base_url: str, model: str, now: float | None = None
) -> list[LearnedField]:
    """Return the learned fields of an endpoint and model that have not expired at `now` (Unix time)."""
    now = time.time() if now is None else now
    return [learned for learned in _read_stored_fields(cache, base_url, model) if learned.is_valid(now)]


def replace_learned_fields(cache: CorrectionStore, endpoint: Endpoint, fields: Mapping[str, Any]) -> None:
    """Store the learned fields of the endpoint; they replace those stored before."""
    cache[profile_cache_key(endpoint.base_url, endpoint.model)] = {
        **fields,
        _DATES_KEY: dict.fromkeys(fields, time.time()),
    }


class ProfileLearner:
    """The profile of an endpoint, updated from its answers.

    Args:
        known: Profile for servers of this kind.
        profile: Initial profile of this endpoint.
        cache: Stores the learned fields.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        known: EndpointProfile,
        profile: EndpointProfile,
        cache: CorrectionStore | None,
        clock: Callable[[], float] = lambda: time.time(),
    ) -> None:
        self.profile = profile
        self._endpoint = endpoint
        self._cache = cache
        self._clock = clock
        self._previous_values: dict[str, Any] = {}
        """Value of each learned field before it was learned."""
        self._learned_at: dict[str, float] = {}
        stored = read_learned_fields(cache, endpoint.base_url, endpoint.model, clock()) if cache is not None else []
        for learned in stored:
            # Values from the user's settings take precedence and do not expire.
            if getattr(profile, learned.field) == learned.value:
                self._previous_values[learned.field] = getattr(known, learned.field)
                self._learned_at[learned.field] = learned.since

    def learn(self, **fields: Any) -> None:
        """Set these fields from now on. Only changed fields are stored, so that later defaults and settings of the
        user stay effective."""
        changed = {field: value for field, value in fields.items() if value != getattr(self.profile, field)}
        if not changed:
            return
        for field in changed:
            self._previous_values.setdefault(field, getattr(self.profile, field))
            self._learned_at[field] = self._clock()
        self.profile = self.profile.model_copy(update=changed)
        if self._cache is not None:
            _update_stored_fields(self._cache, self._endpoint, changed, self._clock())

    def is_learned(self, field: str) -> bool:
        """Return whether the field was learned, by this client or an earlier one."""
        return field in self._learned_at

    def forget_expired(self) -> None:
        """Reset the learned fields that have expired."""
        now = self._clock()
        expired = [
            field
            for field, since in self._learned_at.items()
            if not LearnedField(field, getattr(self.profile, field), since).is_valid(now)
        ]
        self.profile = self.profile.model_copy(update={field: self._previous_values.pop(field) for field in expired})
        for field in expired:
            del self._learned_at[field]


def _read_stored_fields(cache: CorrectionStore, base_url: str, model: str) -> Iterator[LearnedField]:
    stored = dict(cache.get(profile_cache_key(base_url, model)) or {})
    dates = stored.pop(_DATES_KEY, {})
    for field, value in stored.items():
        if field in EndpointProfile.model_fields:
            since = dates.get(field, 0.0) if isinstance(dates, dict) else 0.0
            yield LearnedField(field, value, since if isinstance(since, int | float) else 0.0)


def _update_stored_fields(cache: CorrectionStore, endpoint: Endpoint, changed: Mapping[str, Any], now: float) -> None:
    key = profile_cache_key(endpoint.base_url, endpoint.model)
    stored = dict(cache.get(key) or {})
    dates = stored.pop(_DATES_KEY, {})
    dates = dates if isinstance(dates, dict) else {}
    cache[key] = {**stored, **changed, _DATES_KEY: {**dates, **dict.fromkeys(changed, now)}}


DEFAULT_PROFILES: dict[str, EndpointProfile] = {
    "unknown": EndpointProfile(),
    # Both wires work fully there, but only this one keeps reasoning from call to call.
    "openai": EndpointProfile(
        name="openai", wire="responses", max_tokens_field="max_completion_tokens", tool_id="max64"
    ),
    "azure": EndpointProfile(name="azure", max_tokens_field="max_completion_tokens", tool_id="max64"),
    "openrouter": EndpointProfile(name="openrouter", reasoning_echo="same_model"),
    "vllm": EndpointProfile(name="vllm"),
    "ollama": EndpointProfile(name="ollama", tool_choice_none="ignored"),
    "llama.cpp": EndpointProfile(name="llama.cpp"),
    "lmstudio": EndpointProfile(name="lmstudio"),
    "anthropic": EndpointProfile(name="anthropic", wire="anthropic"),
    # Joins all system messages at the front.
    "anthropic-chat": EndpointProfile(name="anthropic-chat", mid_system="fold_first"),
    # Most servers with this wire accept no system message in mid-conversation; some ignore it without an error.
    "anthropic-like": EndpointProfile(name="anthropic-like", wire="anthropic", mid_system="fold_first"),
    "gemini": EndpointProfile(name="gemini", call_extras_echo=True),
    "mistral": EndpointProfile(
        name="mistral", mid_system="fold_first", bridge_tool_user=True, tool_id="alnum9", text_beside_calls=False
    ),
    "groq": EndpointProfile(name="groq", tool_choice_none="fails"),
    "deepseek": EndpointProfile(name="deepseek", reasoning_echo="required_on_calls"),
    "moonshot": EndpointProfile(name="moonshot", reasoning_echo="required_on_calls"),
    "bedrock": EndpointProfile(name="bedrock", tool_choice_none="rejected"),
}
"""Default profiles by kind of server."""

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


def find_server_kind(base_url: str, model: str) -> str:
    """Return the kind of server, a key of `DEFAULT_PROFILES`, by host, usual port or the model's prefix."""
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
    if model.startswith(("bedrock/", "anthropic.claude", "us.anthropic.", "eu.anthropic.")):
        return "bedrock"
    if is_loopback_url(base_url) and port in _LOCAL_PORTS:
        return _LOCAL_PORTS[port]
    return "ollama" if port == 11434 else "unknown"


def find_default_profile(base_url: str, model: str, wire: str | None = None) -> EndpointProfile:
    """Return the default profile of an endpoint; `wire` is the user's choice, if any."""
    kind = find_server_kind(base_url, model)
    return DEFAULT_PROFILES["anthropic-chat" if kind == "anthropic" and wire == "chat" else kind]


class InvalidProfileSetting(ValueError):
    """The configuration has an unknown profile field or an invalid value."""


def resolve_profile(
    base_url: str, model: str, *, cache: CorrectionStore | None = None, overrides: Mapping[str, Any] | None = None
) -> EndpointProfile:
    """Return the initial profile: defaults, then learned corrections, then the user's settings.

    Raises:
        InvalidProfileSetting: `overrides` (the `[profile]` table) has an unknown field or an invalid value.
    """
    profile = find_default_profile(base_url, model, (overrides or {}).get("wire"))
    if cache is not None:
        learned = {learned.field: learned.value for learned in read_learned_fields(cache, base_url, model)}
        # Fields that another version stored may be invalid; they will be learned again.
        with contextlib.suppress(ValidationError):
            profile = EndpointProfile.model_validate({**profile.model_dump(), **learned})
    if not overrides:
        return profile
    try:
        return EndpointProfile.model_validate({**profile.model_dump(), **overrides})
    except ValidationError as problem:
        fault = problem.errors()[0]
        field = ".".join(str(step) for step in fault["loc"])
        reason = describe_wrong_value(fault["type"], fault["msg"])
        if fault["type"] == "extra_forbidden":
            reason = f"there is no such field. Fields: {', '.join(EndpointProfile.model_fields)}"
        raise InvalidProfileSetting(f"profile.{field}: {reason}.") from problem


def replace_learned_by_diagnosis(
    cache: CorrectionStore, endpoint: Endpoint, profile: EndpointProfile, wire: str | None = None
) -> None:
    """Replace everything learned about the endpoint by the findings of a doctor run.

    Only fields that differ from the defaults are stored, so that better defaults of later versions take effect.
    `wire` is the user's choice, if any.
    """
    default_wire = find_default_profile(endpoint.base_url, endpoint.model).wire
    known = find_default_profile(endpoint.base_url, endpoint.model, wire).model_copy(update={"wire": default_wire})
    changed = {field: value for field, value in profile if value != getattr(known, field)}
    replace_learned_fields(cache, endpoint, changed)
