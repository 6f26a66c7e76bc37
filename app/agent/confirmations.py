"""Questions that a running tool puts to the user, such as "may this command run"."""

import asyncio
import itertools
from collections.abc import Callable

from app.agent.interrupt import Interrupted
from app.agent.updates import ConfirmationRequested, ConfirmationResolved, Update
from app.tools.contract import Confirmation, ConfirmationAnswer


class Confirmations:
    """What tools wait for, and what the user allowed for the whole session."""

    def __init__(self, publish: Callable[[Update], None]) -> None:
        self._publish = publish
        self._numbers = itertools.count(1)
        self._open: dict[str, tuple[Confirmation, asyncio.Future[ConfirmationAnswer]]] = {}
        self._allowed: set[Confirmation] = set()

    @property
    def waiting(self) -> dict[str, Confirmation]:
        """Key to confirmation, oldest first."""
        return {key: confirmation for key, (confirmation, _) in self._open.items()}

    async def ask(self, confirmation: Confirmation) -> ConfirmationAnswer:
        """Wait for the user; what was allowed for the session is allowed at once, and only if it is the very same.

        Raises:
            Interrupted: the turn ended before the user answered.
        """
        if confirmation in self._allowed:
            return ConfirmationAnswer(allowed=True)
        key = f"confirm-{next(self._numbers)}"
        future: asyncio.Future[ConfirmationAnswer] = asyncio.get_running_loop().create_future()
        self._open[key] = (confirmation, future)
        self._publish(ConfirmationRequested(key, confirmation))
        try:
            answer = await future
        finally:
            del self._open[key]
            self._publish(ConfirmationResolved(key))
        if answer.allowed and answer.remember:
            self._allowed.add(confirmation)
        return answer

    def answer(self, key: str, answer: ConfirmationAnswer) -> None:
        """The user's answer; a key that is no longer open is left alone."""
        if (waiting := self._open.get(key)) and not waiting[1].done():
            waiting[1].set_result(answer)

    def withdraw(self) -> None:
        """The turn is over: nothing waits any more."""
        for _, future in self._open.values():
            if not future.done():
                future.set_exception(Interrupted())
