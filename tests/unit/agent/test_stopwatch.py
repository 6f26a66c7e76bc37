"""What a call worked is told apart from what it waited for the user."""

import pytest

from app.agent.executor import Stopwatch
from app.tools.base.contract import Confirmation, ConfirmationAnswer


async def test_the_wait_for_the_user_is_not_work() -> None:
    now = [10.0]
    watch = Stopwatch(lambda: now[0])

    async def answered_late(_: Confirmation) -> ConfirmationAnswer:
        now[0] += 60
        return ConfirmationAnswer(allowed=True)

    async def never_answered(_: Confirmation) -> ConfirmationAnswer:
        now[0] += 30
        raise TimeoutError

    question = Confirmation("command", "Run a command?", "make", ".")
    now[0] += 1
    assert (await watch.exclude_waiting(answered_late)(question)).allowed
    now[0] += 2
    with pytest.raises(TimeoutError):
        await watch.exclude_waiting(never_answered)(question)
    assert (watch.working_seconds, watch.waited) == (3.0, 90.0)
