"""Questions that a running tool puts to the user, such as "may this command run"."""

import asyncio
import itertools
from collections.abc import Callable

from app.agent.allowances import Allowances
from app.agent.interrupt import Interrupted
from app.agent.updates import ConfirmationRequested, ConfirmationResolved, Failed, Update
from app.tools.contract import Confirmation, ConfirmationAnswer


class Confirmations:
    """What tools wait for."""

    def __init__(self, publish: Callable[[Update], None], allowances: Allowances) -> None:
        self._publish = publish
        self._allowances = allowances
        self._numbers = itertools.count(1)
        self._open: dict[str, tuple[Confirmation, asyncio.Future[ConfirmationAnswer]]] = {}

    @property
    def waiting(self) -> dict[str, Confirmation]:
        """Key to confirmation, oldest first."""
        return {key: confirmation for key, (confirmation, _) in self._open.items()}

    async def ask(self, call: str, confirmation: Confirmation) -> ConfirmationAnswer:
        """Wait for the user, unless it was allowed before.

        Args:
            call: the tool call that waits.
            confirmation: what is asked.

        Raises:
            Interrupted: the turn ended before the user answered.
        """
        if before := await self._covered(confirmation):
            return ConfirmationAnswer(allowed=True, unasked=before)
        key = f"confirm-{next(self._numbers)}"
        future: asyncio.Future[ConfirmationAnswer] = asyncio.get_running_loop().create_future()
        self._open[key] = (confirmation, future)
        self._publish(ConfirmationRequested(key, call, confirmation))
        try:
            answer = await future
        finally:
            del self._open[key]
            self._publish(ConfirmationResolved(key, call))
        try:
            await self._allowances.keep(confirmation, answer)
        except Exception as error:
            # The store failed; the user's yes holds all the same.
            self._publish(Failed(f"Allowed in this session; it could not be kept for the project: {error}"))
        return answer

    async def _covered(self, confirmation: Confirmation) -> str:
        try:
            return await self._allowances.covering(confirmation)
        except Exception as error:
            self._publish(Failed(f"What is allowed in this project could not be read, so you are asked: {error}"))
            return ""

    def answer(self, key: str, answer: ConfirmationAnswer) -> None:
        """The user's answer; a key that is no longer open is left alone."""
        if (waiting := self._open.get(key)) and not waiting[1].done():
            waiting[1].set_result(answer)

    def withdraw(self) -> None:
        """The turn is over: nothing waits any more."""
        for _, future in self._open.values():
            if not future.done():
                future.set_exception(Interrupted())
