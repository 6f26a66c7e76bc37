"""The retry policy: limits hold for every failure, and a server's wish is never cut short."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.failures.request_errors import Failure, FailureKind, RetryPolicy

MOMENTS = st.floats(0, 200)


BUSY = [FailureKind.SERVER_ERROR, FailureKind.RATE_LIMITED]


def failure(
    kind: FailureKind = FailureKind.STREAM_BROKEN, *, retryable: bool = True, retry_after: float | None = None
) -> Failure:
    """A failure as the policy sees it."""
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
def test_a_busy_server_has_half_a_minute_at_least_and_each_gap_is_longer(
    kind: FailureKind, luck: list[float]
) -> None:
    dice = iter(luck)
    policy = RetryPolicy(jitter=lambda: next(dice))
    gaps: list[float] = []
    while (gap := policy.delay(failure(kind), len(gaps) + 1, sum(gaps))) is not None:
        gaps.append(gap)
    assert 30 <= sum(gaps) <= 60
    assert gaps == sorted(gaps)


@given(st.integers(1, 6), MOMENTS)
def test_what_cannot_pass_is_not_repeated(attempt: int, elapsed: float) -> None:
    assert RetryPolicy().delay(failure(retryable=False), attempt, elapsed) is None


def test_the_bound_doubles_up_to_the_cap() -> None:
    policy = RetryPolicy(attempts=9, jitter=lambda: 1.0)
    assert [policy.delay(failure(), attempt, 0) for attempt in range(1, 9)] == [0.5, 1, 2, 4, 8, 16, 20, 20]


@pytest.mark.parametrize(("hint", "expected"), [(900.0, 900.0), (906.0, None)])
def test_patience_with_a_server_has_a_limit(hint: float, expected: float | None) -> None:
    assert RetryPolicy(jitter=lambda: 0.0).delay(failure(retry_after=hint), 1, 0) == expected
