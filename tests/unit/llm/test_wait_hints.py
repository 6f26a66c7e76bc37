"""Hints about how long to wait, in all forms in use."""

from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.failures.classification import wait_hint

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
    assert wait_hint(headers, "", NOW) == (None if expected is None else pytest.approx(expected))


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
    assert wait_hint({}, text, NOW) == (None if expected is None else pytest.approx(expected))


@given(
    st.dictionaries(
        st.sampled_from(
            ["retry-after", "retry-after-ms", "x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens"]
        ),
        st.text(max_size=12) | st.integers().map(str) | st.floats().map(str),
    ),
    st.text(max_size=40),
)
def test_nothing_is_too_strange(headers: dict[str, str], text: str) -> None:
    hint = wait_hint(headers, text, NOW)
    assert hint is None or hint > 0
