"""The retry policy: limits hold for every failure, and a server's wish is never cut short."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.llm.failures.errors import Failure, FailureKind
from app.llm.failures.retry import RetryPolicy

MOMENTS = st.floats(0, 200)


def failure(*, retryable: bool = True, retry_after: float | None = None) -> Failure:
    """A failure as the policy sees it."""
    return Failure(FailureKind.SERVER_ERROR, "busy", retryable=retryable, retry_after=retry_after)


@given(
    st.integers(1, 6), MOMENTS, st.none() | st.floats(0.001, 500), st.floats(0, 1, exclude_max=True), st.booleans()
)
def test_limits(attempt: int, elapsed: float, hint: float | None, luck: float, closing: bool) -> None:
    policy = RetryPolicy(jitter=lambda: luck)
    delay = policy.delay(failure(retry_after=hint), attempt, elapsed, closing=closing)
    if delay is None:
        return
    assert attempt < (2 if closing else 4)
    assert elapsed + delay <= (5 if closing else 120)
    if hint is None:
        assert 0 <= delay <= min(8, 0.5 * 2 ** (attempt - 1))
    else:
        assert hint <= delay <= hint * 1.1 and hint <= 60


@given(st.integers(1, 6), MOMENTS)
def test_what_cannot_pass_is_not_repeated(attempt: int, elapsed: float) -> None:
    assert RetryPolicy().delay(failure(retryable=False), attempt, elapsed) is None


def test_the_bound_doubles_up_to_the_cap() -> None:
    policy = RetryPolicy(attempts=9, jitter=lambda: 1.0)
    assert [policy.delay(failure(), attempt, 0) for attempt in range(1, 8)] == [0.5, 1, 2, 4, 8, 8, 8]


@pytest.mark.parametrize(("hint", "expected"), [(60.0, 60.0), (60.1, None)])
def test_patience_with_a_server_has_a_limit(hint: float, expected: float | None) -> None:
    assert RetryPolicy(jitter=lambda: 0.0).delay(failure(retry_after=hint), 1, 0) == expected
