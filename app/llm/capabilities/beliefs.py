"""What was learned of an endpoint, and for how long that is believed.

A server is updated, a model gets another template, a proxy learns a field. So each belief is dated, and forgotten
after a while: then the first request finds out anew, at the price of one refusal. What costs much to believe is
forgotten soon.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from app.llm.capabilities.profile import Profile
from app.llm.types import Endpoint


class ProfileCache(Protocol):
    """What was learned, kept by the caller: a mapping from a key to a JSON object. A dict will do."""

    def get(self, key: str, /) -> Mapping[str, Any] | None:
        """What is stored under the key."""

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
_LASTS_AT_MOST = 90 * _DAY
_DATES = "learned_at"
"""Where the cache keeps the Unix time of each field."""


@dataclass(frozen=True, slots=True)
class Belief:
    """One field of the profile that was learned."""

    field: str
    value: Any
    since: float
    """Unix time; 0 if it was learned before beliefs were dated."""

    def lasts(self, now: float) -> bool:
        """Whether it is still believed."""
        return now - self.since < LASTS.get(self.field, _LASTS_AT_MOST)


def cache_key(base_url: str, model: str) -> str:
    """Where the cache keeps what was learned about this endpoint and model."""
    return f"{base_url.rstrip('/')}|{model}"


def believed(cache: ProfileCache, base_url: str, model: str, now: float | None = None) -> list[Belief]:
    """What was learned of this endpoint and model and is still believed at `now` (Unix time, by default today's)."""
    now = time.time() if now is None else now
    return [belief for belief in _stored(cache, base_url, model) if belief.lasts(now)]


def replace(cache: ProfileCache, endpoint: Endpoint, fields: Mapping[str, Any]) -> None:
    """Believe just this of the endpoint, from now on."""
    cache[cache_key(endpoint.base_url, endpoint.model)] = {**fields, _DATES: dict.fromkeys(fields, time.time())}


class Beliefs:
    """What one client believes of its endpoint."""

    def __init__(
        self,
        endpoint: Endpoint,
        known: Profile,
        profile: Profile,
        cache: ProfileCache | None,
        clock: Callable[[], float],
    ) -> None:
        """`known` is what such servers honour, `profile` what is believed of this one, with what `cache` has."""
        self.profile = profile
        self._endpoint = endpoint
        self._cache = cache
        self._clock = clock
        self._before: dict[str, Any] = {}
        """What was believed before of a field that was learned."""
        self._since: dict[str, float] = {}
        stored = believed(cache, endpoint.base_url, endpoint.model, clock()) if cache is not None else []
        for belief in stored:
            # What the user says goes over it, and does not age.
            if getattr(profile, belief.field) == belief.value:
                self._before[belief.field] = getattr(known, belief.field)
                self._since[belief.field] = belief.since

    def learn(self, **fields: Any) -> None:
        """Believe this from now on. Only differences are kept, so that better seeds and the user's settings are not
        hidden by what never was in question."""
        changed = {field: value for field, value in fields.items() if value != getattr(self.profile, field)}
        if not changed:
            return
        for field in changed:
            self._before.setdefault(field, getattr(self.profile, field))
            self._since[field] = self._clock()
        self.profile = self.profile.model_copy(update=changed)
        if self._cache is not None:
            _store(self._cache, self._endpoint, changed, self._clock())

    def learned(self, field: str) -> bool:
        """Whether what is believed of this was learned, by this client or before."""
        return field in self._since

    def age(self) -> None:
        """Give up what was believed for long enough."""
        now = self._clock()
        gone = [
            field
            for field, since in self._since.items()
            if not Belief(field, getattr(self.profile, field), since).lasts(now)
        ]
        self.profile = self.profile.model_copy(update={field: self._before.pop(field) for field in gone})
        for field in gone:
            del self._since[field]


def _stored(cache: ProfileCache, base_url: str, model: str) -> Iterator[Belief]:
    stored = dict(cache.get(cache_key(base_url, model)) or {})
    dates = stored.pop(_DATES, {})
    for field, value in stored.items():
        if field in Profile.model_fields:
            since = dates.get(field, 0.0) if isinstance(dates, dict) else 0.0
            yield Belief(field, value, since if isinstance(since, int | float) else 0.0)


def _store(cache: ProfileCache, endpoint: Endpoint, changed: Mapping[str, Any], now: float) -> None:
    key = cache_key(endpoint.base_url, endpoint.model)
    stored = dict(cache.get(key) or {})
    dates = stored.pop(_DATES, {})
    dates = dates if isinstance(dates, dict) else {}
    cache[key] = {**stored, **changed, _DATES: {**dates, **dict.fromkeys(changed, now)}}
