"""How long a server asks to wait: headers and bodies in all the forms in use.

`Retry-After` is RFC 9110 section 10.2.3 (seconds or a date); `retry-after-ms` and `x-ratelimit-*` are OpenAI's,
`anthropic-ratelimit-*` Anthropic's, `RetryInfo` Google's (google.rpc.error_details), the sentences in bodies those of
Gemini, Groq, OpenAI and LiteLLM.
"""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|d|h|m|s)")
_WHOLE_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|d|h|m|s))+")
_BODY = re.compile(
    r"(?:try again|retry|available again|wait|reset[s]?)(?:\s+(?:in|after|for|at least))?\s+(?:about\s+)?"
    r"(?P<value>(?:\d+(?:\.\d+)?\s*(?:ms|milliseconds?|days?|hours?|minutes?|min|seconds?|secs?|sec|[dhms])(?![a-z])\s*)+)",
    re.IGNORECASE,
)
_BODY_UNIT = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milli|d|h|m|s)", re.IGNORECASE)
_RETRY_INFO = re.compile(r"retryDelay[\"':\s]*(\d+(?:\.\d+)?)s", re.IGNORECASE)
_BUCKET = re.compile(
    r"^(?:x-|anthropic-)?ratelimit-(?:(?P<before>reset|remaining)(?P<rest>.*)|(?P<name>.+)-(?P<after>reset|remaining))$"
)

_LONGEST = 366 * _UNITS["d"]
"""Seconds; who says more has said something else."""


def wait_hint(headers: Mapping[str, str], text: str, now: float) -> float | None:
    """Seconds to wait from `now` (Unix time), or None where nothing usable is said.

    The most precise source wins: `retry-after-ms`, then `retry-after`, then the body, then the reset time of the
    rate-limit bucket that is exhausted.
    """
    lowered = {name.lower(): value.strip() for name, value in headers.items()}
    return (
        _positive(_number(lowered.get("retry-after-ms")), scale=0.001)
        or _retry_after(lowered.get("retry-after"), now)
        or _body_hint(text)
        or _bucket_hint(lowered, now)
    )


def _retry_after(value: str | None, now: float) -> float | None:
    return _reset(value, now) if value is not None else None


def _body_hint(text: str) -> float | None:
    if found := _RETRY_INFO.search(text):
        return _positive(float(found[1]))
    if not (found := _BODY.search(text)):
        return None
    seconds = 0.0
    for number, unit in _BODY_UNIT.findall(found["value"]):
        seconds += float(number) * _UNITS["ms" if unit.lower() in ("ms", "milli") else unit.lower()]
    return _positive(seconds)


def _bucket_hint(headers: Mapping[str, str], now: float) -> float | None:
    resets: dict[str, float] = {}
    remaining: dict[str, float] = {}
    for name, value in headers.items():
        if not (found := _BUCKET.match(name)):
            continue
        bucket = (found["rest"] or found["name"] or "").strip("-")
        if "reset" in (found["before"], found["after"]):
            if (seconds := _reset(value, now)) is not None:
                resets[bucket] = seconds
        elif (left := _number(value)) is not None:
            remaining[bucket] = left
    exhausted = [seconds for bucket, seconds in resets.items() if remaining.get(bucket) == 0]
    if exhausted:
        return max(exhausted)
    return min(resets.values(), default=None)


def _reset(value: str, now: float) -> float | None:
    """`6m0s`, `1.57s`, `20ms`, seconds, Unix time in seconds or milliseconds, or a date."""
    number = _number(value)
    if number is None:
        return _span(value) or _date(value, now)
    if number > 1e11:
        return _positive(number / 1000 - now)
    return _positive(number - now if number > 1e8 else number)


def _span(value: str) -> float | None:
    if not _WHOLE_DURATION.fullmatch(value):
        return None
    return _positive(sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(value)))


def _date(value: str, now: float) -> float | None:
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return _positive(moment.timestamp() - now)


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value is not None else None
    except ValueError:
        return None
    return number if number is not None and math.isfinite(number) else None


def _positive(value: float | None, scale: float = 1.0) -> float | None:
    """The value in seconds, if it is a time that somebody may wait for."""
    return value * scale if value is not None and 0 < value * scale <= _LONGEST else None
