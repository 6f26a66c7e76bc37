"""Classify failures. The body is read before the status, because the status is often wrong: template errors come
as 500, context overflows as 400, 413 or 429, an exhausted quota as 429."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from app.config.config_tables import MIN_WINDOW_TOKENS
from app.llm.failures.request_errors import FailureKind

_SECONDS_BY_UNIT = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|d|h|m|s)")
_WHOLE_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|d|h|m|s))+")
_DELAY_IN_TEXT = re.compile(
    r"(?:try again|retry|available again|wait|reset[s]?)(?:\s+(?:in|after|for|at least))?\s+(?:about\s+)?"
    r"(?P<value>(?:\d+(?:\.\d+)?\s*(?:ms|milliseconds?|days?|hours?|minutes?|min|seconds?|secs?|sec|[dhms])(?![a-z])\s*)+)",
    re.IGNORECASE,
)
_DELAY_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|milli|d|h|m|s)", re.IGNORECASE)
_RETRY_INFO = re.compile(r"retryDelay[\"':\s]*(\d+(?:\.\d+)?)s", re.IGNORECASE)
_RATE_LIMIT_HEADER = re.compile(
    r"^(?:x-|anthropic-)?ratelimit-(?:(?P<before>reset|remaining)(?P<rest>.*)|(?P<name>.+)-(?P<after>reset|remaining))$"
)

_MAX_DELAY_SECONDS = 366 * _SECONDS_BY_UNIT["d"]
"""Longest plausible delay in seconds; longer ones are ignored."""


def parse_retry_delay(headers: Mapping[str, str], text: str, now: float) -> float | None:
    """Return the seconds to wait from `now` (Unix time); None if the response names no usable time.

    The most precise source wins: `retry-after-ms`, then `retry-after`, then the body, then the reset time of the
    exhausted rate-limit bucket.
    """
    lowered = {name.lower(): value.strip() for name, value in headers.items()}
    return (
        _plausible_delay(_parse_number(lowered.get("retry-after-ms")), scale=0.001)
        or _parse_delay(lowered.get("retry-after", ""), now)
        or _find_delay_in_text(text)
        or _find_delay_in_rate_limits(lowered, now)
    )


def _find_delay_in_text(text: str) -> float | None:
    if found := _RETRY_INFO.search(text):
        return _plausible_delay(float(found[1]))
    if not (found := _DELAY_IN_TEXT.search(text)):
        return None
    seconds = 0.0
    for number, unit in _DELAY_PART.findall(found["value"]):
        seconds += float(number) * _SECONDS_BY_UNIT["ms" if unit.lower() in ("ms", "milli") else unit.lower()]
    return _plausible_delay(seconds)


def _find_delay_in_rate_limits(headers: Mapping[str, str], now: float) -> float | None:
    resets: dict[str, float] = {}
    remaining: dict[str, float] = {}
    for name, value in headers.items():
        if not (found := _RATE_LIMIT_HEADER.match(name)):
            continue
        bucket = (found["rest"] or found["name"] or "").strip("-")
        if "reset" in (found["before"], found["after"]):
            if (seconds := _parse_delay(value, now)) is not None:
                resets[bucket] = seconds
        elif (left := _parse_number(value)) is not None:
            remaining[bucket] = left
    exhausted = [seconds for bucket, seconds in resets.items() if remaining.get(bucket) == 0]
    if exhausted:
        return max(exhausted)
    return min(resets.values(), default=None)


def _parse_delay(value: str, now: float) -> float | None:
    """Parse `6m0s`, `1.57s`, `20ms`, seconds, Unix time in seconds or milliseconds, or a date; return seconds."""
    number = _parse_number(value)
    if number is None:
        return _parse_duration(value) or _parse_date(value, now)
    if number > 1e11:
        return _plausible_delay(number / 1000 - now)
    return _plausible_delay(number - now if number > 1e8 else number)


def _parse_duration(value: str) -> float | None:
    if not _WHOLE_DURATION.fullmatch(value):
        return None
    return _plausible_delay(sum(float(number) * _SECONDS_BY_UNIT[unit] for number, unit in _DURATION.findall(value)))


def _parse_date(value: str, now: float) -> float | None:
    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return _plausible_delay(moment.timestamp() - now)


def _parse_number(value: str | None) -> float | None:
    try:
        number = float(value) if value is not None else None
    except ValueError:
        return None
    return number if number is not None and math.isfinite(number) else None


def _plausible_delay(value: float | None, scale: float = 1.0) -> float | None:
    """Return the value in seconds; None if it is not positive or is longer than `_MAX_DELAY_SECONDS`."""
    return value * scale if value is not None and 0 < value * scale <= _MAX_DELAY_SECONDS else None


_CONTEXT_FULL = re.compile(
    r"context[ _]length[ _]exceeded|context[ _]?window[ _]?exceed|exceed_context_size|prompt exceeds max length|"
    r"exceed(?:s|ed)? (?:the |this )?(?:model'?s )?(?:max(?:imum)? )?context|input length \d+ exceeds|"
    r"maximum (?:context|prompt) length|(?:available|configured) context size|(?:prompt|input) (?:is )?too long|"
    r"input token count.{0,40}exceed|exceeds the maximum number of tokens|more than max tokens allowed|"
    r"reduce the length of the (?:messages|prompt|input)|(?:greater|longer) than the (?:model'?s )?context|"
    r"longer than the maximum model length|when context (?:the )?overflows|too large for model with \d+|"
    r"exceeded model token limit|prompt token count of \d+ exceeds|range of input length|inputs\W+tokens \+|"
    r"tokens_limit_reached|max_prompt_tokens_exceeded",
    re.IGNORECASE,
)
_TOO_LARGE_FOR_TIER = re.compile(r"request too large for", re.IGNORECASE)
_THROTTLED = re.compile(
    r"rate.?limit|too many requests|too many tokens, please wait|throttl|quota exceeded for|resource.?exhausted|"
    r"no deployments available",
    re.IGNORECASE,
)
_QUOTA_EXHAUSTED = re.compile(
    r"insufficient_quota|insufficient[ _](?:balance|credits?|funds)|exceeded your current quota|billing|"
    r"credit balance|requires more credits|payment required|spend(?:ing)? limit|usage[ _](?:limit|quota)|"
    r"free usage exceeded|budget has been exceeded",
    re.IGNORECASE,
)
_DAILY_LIMIT = re.compile(r"per[ -]?day|daily|\((?:TPD|RPD)\)", re.IGNORECASE)
SPEAKING_ORDER = (
    r"jinja|raise_exception|generate parser for this template|must be at the beginning|must alternate|"
    r"unexpected role|only user.{0,60}roles|invalid message role|invalid_request_message_order|no user query"
)
"""Messages of chat templates with rules about the order of roles."""
NO_SYSTEM = r"system role (?:is )?not supported"
SINGLE_CALL = r"single tool-calls? at once"
NINE_CHARACTERS = r"a-z, A-Z, 0-9.{0,20}length of 9|alphanumeric strings?.{0,20}length (?:of )?9"
"""Call ids: messages of Mistral's validators and of its models' templates."""
_TEMPLATE_ERROR = re.compile(
    rf"{SPEAKING_ORDER}|{NO_SYSTEM}|{SINGLE_CALL}|{NINE_CHARACTERS}|"
    r"failed to parse tool call arguments|invalid tool call arguments|UnsupportedParamsError",
    re.IGNORECASE,
)
_TOOL_USE_FAILED = re.compile(r"tool_use_failed|tool choice is none, but model called a tool", re.IGNORECASE)
_KEY_REFUSED = re.compile(
    r"invalid_api_key|incorrect api key|invalid api key|api key not valid|api key.{0,20}(?:expired|missing|required)|"
    r"no auth credentials|unauthori[sz]ed|authentication|login fail",
    re.IGNORECASE,
)
_MODEL_NOT_FOUND = re.compile(
    r"model_not_(?:found|available)|not found the model|deployment for this resource does not exist|"
    r"model.{0,80}(?:not found|does not exist|not exist|is not available|not a valid model|unknown|"
    r"no endpoints found)|not_found_error\W+message\W+model:|"
    r"(?:no such|unknown|invalid) model|not a valid model id|no endpoints found",
    re.IGNORECASE | re.DOTALL,
)
_MODEL_TOO_LARGE = re.compile(r"requires more system memory", re.IGNORECASE)
"""Ollama cannot load the model."""
_OVERLOADED = re.compile(r"overloaded|temporarily unavailable|capacity|try again later|timed? ?out", re.IGNORECASE)
_WINDOW_SIZE = re.compile(
    r"(?:(?:context|maximum (?:prompt|model|input)|allowed input) (?:length|window|size)(?: is| of|:)?(?: only)?[ (]*"
    r"|n_ctx\s*[=:]|model with|tokens allowed \(|tokens >|token limit:?|exceeds the limit of|the maximum length|"
    r"must be <=)\s*(\d[\d,]{2,9})",
    re.IGNORECASE,
)
_RETRYABLE_STATUSES = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})


def classify_failure(status: int | None, text: str, *, has_retry_delay: bool) -> tuple[FailureKind, bool]:
    """Return the kind of a failure, and whether the same request may succeed later.

    Args:
        status: None for an error inside a stream that has no status.
        has_retry_delay: whether the server named a time to wait.
    """
    if _TEMPLATE_ERROR.search(text) or _MODEL_TOO_LARGE.search(text):
        return FailureKind.INVALID_REQUEST, False
    if _TOOL_USE_FAILED.search(text):
        return FailureKind.TOOL_USE_FAILED, "tool choice is none" not in text.lower()
    if status == 413 or _TOO_LARGE_FOR_TIER.search(text):
        return FailureKind.CONTEXT_FULL, False
    throttled = bool(_THROTTLED.search(text)) or status == 429
    if _CONTEXT_FULL.search(text) and not _THROTTLED.search(text):
        return FailureKind.CONTEXT_FULL, False
    may_be_quota = throttled or status in (400, 401, 403, None)
    if status == 402 or (may_be_quota and _is_quota_exhausted(text, has_retry_delay=has_retry_delay)):
        return FailureKind.QUOTA, False
    if throttled:
        return FailureKind.RATE_LIMITED, True
    return _classify_by_status(status, text)


def parse_context_window(text: str) -> int | None:
    """Return the context window in tokens that an overflow message names; None if it is missing or too small."""
    found = _WINDOW_SIZE.search(text)
    size = int(found[1].replace(",", "")) if found else 0
    return size if size >= MIN_WINDOW_TOKENS else None


def _is_quota_exhausted(text: str, *, has_retry_delay: bool) -> bool:
    """Return whether credit or a daily limit is used up. Gemini uses the same words for its limit per minute, but
    then it names a time to wait."""
    if "insufficient_quota" in text or _DAILY_LIMIT.search(text):
        return True
    return bool(_QUOTA_EXHAUSTED.search(text)) and not has_retry_delay


def _classify_by_status(status: int | None, text: str) -> tuple[FailureKind, bool]:
    if status is None:
        return _classify_without_status(text)
    if status == 401 or (status in (400, 422, 500) and _KEY_REFUSED.search(text)):
        return FailureKind.AUTH, False
    if status in (400, 403, 404, 422) and _MODEL_NOT_FOUND.search(text):
        return FailureKind.MODEL_NOT_FOUND, False
    if status == 403:
        return FailureKind.AUTH, False
    if status >= 500 or status in _RETRYABLE_STATUSES:
        return FailureKind.SERVER_ERROR, status in _RETRYABLE_STATUSES or bool(_OVERLOADED.search(text))
    return FailureKind.INVALID_REQUEST, False


def _classify_without_status(text: str) -> tuple[FailureKind, bool]:
    """Classify an error without a status inside a stream: retryable unless it is clearly the request's fault."""
    if _KEY_REFUSED.search(text):
        return FailureKind.AUTH, False
    if re.search("invalid[ _](?:request|params)", text, re.IGNORECASE):
        return FailureKind.INVALID_REQUEST, False
    return FailureKind.SERVER_ERROR, True
