"""The retry policy, and the hints about how long to wait in all forms in use."""

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.failures.classification import parse_retry_delay
from app.llm.failures.request_errors import Failure, FailureKind, RetryPolicy

MOMENTS = st.floats(0, 200)


BUSY = [FailureKind.SERVER_ERROR, FailureKind.RATE_LIMITED]


def failure(
    kind: FailureKind = FailureKind.STREAM_BROKEN, *, retryable: bool = True, retry_after: float | None = None
) -> Failure:
    return Failure(kind, "busy", retryable=retryable, retry_after=retry_after)


@given(
    st.sampled_from([FailureKind.STREAM_BROKEN, *BUSY]),
    st.integers(1, 8),
    MOMENTS,
    st.none() | st.floats(0.001, 2000),
    st.floats(0, 1, exclude_max=True),
    st.booleans(),
)
def test_limits(
    kind: FailureKind, attempt: int, elapsed: float, hint: float | None, luck: float, closing: bool
) -> None:
    policy = RetryPolicy(jitter=lambda: luck)
    assert policy.delay(failure(kind, retryable=False, retry_after=hint), attempt, elapsed, closing=closing) is None
    delay = policy.delay(failure(kind, retry_after=hint), attempt, elapsed, closing=closing)
    if delay is None:
        return
    assert attempt < (2 if closing else 6 if kind in BUSY else 4)
    assert elapsed + delay <= (5 if closing else 120 if hint is None else 905)
    if hint is None:
        assert 0 < delay <= min(20, (1.5 if kind in BUSY else 0.5) * 2 ** (attempt - 1))
    else:
        assert hint <= delay <= min(hint * 1.1, hint + 5)


@given(st.sampled_from(BUSY), st.lists(st.floats(0, 1, exclude_max=True), min_size=5, max_size=5))
def test_a_busy_server_has_half_a_minute_and_growing_gaps(kind: FailureKind, luck: list[float]) -> None:
    dice = iter(luck)
    policy = RetryPolicy(jitter=lambda: next(dice))
    gaps: list[float] = []
    while (gap := policy.delay(failure(kind), len(gaps) + 1, sum(gaps))) is not None:
        gaps.append(gap)
    assert 30 <= sum(gaps) <= 60
    assert gaps == sorted(gaps)


def test_the_bound_doubles_up_to_the_cap_and_patience_with_a_server_has_a_limit() -> None:
    policy = RetryPolicy(attempts=9, jitter=lambda: 1.0)
    assert [policy.delay(failure(), attempt, 0) for attempt in range(1, 9)] == [0.5, 1, 2, 4, 8, 16, 20, 20]
    hinted = [RetryPolicy(jitter=lambda: 0.0).delay(failure(retry_after=hint), 1, 0) for hint in (900.0, 906.0)]
    assert hinted == [900.0, None]


NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC).timestamp()
LATER = datetime(2026, 3, 1, 12, 0, 42, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Retry-After": "42"}, 42),
        ({"retry-after": "1.25"}, 1.25),
        ({"retry-after": format_datetime(LATER, usegmt=True)}, 42),
        ({"retry-after": LATER.isoformat()}, 42),
        ({"retry-after": "1m30s"}, 90),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "junk", "retry-after": "9"}, 9),
        ({"x-ratelimit-reset-requests": "6m0s"}, 360),
        ({"x-ratelimit-reset-tokens": "1.57s"}, 1.57),
        ({"x-ratelimit-reset-tokens": "20ms"}, 0.02),
        ({"x-ratelimit-reset-requests": "1h2m3s"}, 3723),
        ({"X-RateLimit-Reset": str(int(NOW) + 42)}, 42),
        ({"X-RateLimit-Reset": str((int(NOW) + 42) * 1000)}, 42),
        ({"x-ratelimit-reset": "42"}, 42),
        ({"ratelimit-reset": "42"}, 42),
        ({"anthropic-ratelimit-requests-reset": LATER.isoformat()}, 42),
        (
            {
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "42s",
                "x-ratelimit-remaining-tokens": "100",
                "x-ratelimit-reset-tokens": "1s",
            },
            42,
        ),
        ({"x-ratelimit-reset-requests": "42s", "x-ratelimit-reset-tokens": "1s"}, 1),
        ({"retry-after": "0"}, None),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        # What only holds a duration is none: this moment has passed.
        ({"x-ratelimit-reset-requests": "-6m0s"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": format_datetime(datetime(2020, 1, 1, tzinfo=UTC), usegmt=True)}, None),
        ({"x-ratelimit-reset-requests": "never"}, None),
        ({}, None),
    ],
)
def test_headers(headers: dict[str, str], expected: float | None) -> None:
    assert parse_retry_delay(headers, "", NOW) == (None if expected is None else pytest.approx(expected))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Please retry in 12.3s.", 12.3),
        ("Please try again in 7m12.5s. Visit us", 432.5),
        ("Please try again in 20ms.", 0.02),
        ("Try again in 5 seconds", 5),
        ("try again after 2 minutes", 120),
        ("Please wait 30 seconds", 30),
        ('"retryDelay": "30s"', 30),
        ("retryDelay\n30s", 30),
        ("Please try again in 1h", 3600),
        ("Try again later.", None),
        ("I waited 5 seconds", None),
        ("Limit 3 requests, 20s", None),
    ],
)
def test_bodies(text: str, expected: float | None) -> None:
    assert parse_retry_delay({}, text, NOW) == (None if expected is None else pytest.approx(expected))


@given(
    st.dictionaries(
        st.sampled_from(
            ["retry-after", "retry-after-ms", "x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens"]
        ),
        st.text(max_size=12) | st.integers().map(str) | st.floats().map(str),
    ),
    st.text(max_size=40),
)
def test_any_retry_hint_is_parsed_without_an_error(headers: dict[str, str], text: str) -> None:
    hint = parse_retry_delay(headers, text, NOW)
    assert hint is None or hint > 0
