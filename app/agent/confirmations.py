"""Questions that a running tool puts to the user, such as "may this command run"."""

import asyncio
import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

from app.agent.allowances import Allowances
from app.agent.interrupt import Interrupted
from app.agent.updates import ConfirmationRequested, ConfirmationResolved, Failed, Update
from app.conversation.events import CallDenied
from app.conversation.log import EventLog
from app.tools.contract import Confirmation, ConfirmationAnswer

_LONGEST_SUBJECT = 200
"""Characters of what was denied, as the model is reminded of it; its call has all of it."""


@dataclass(frozen=True, slots=True)
class _Open:
    call: str
    confirmation: Confirmation
    answer: asyncio.Future[ConfirmationAnswer]


class Confirmations:
    """What tools wait for. Words that come with a no are recorded as the user's; no tool gets them."""

    def __init__(self, publish: Callable[[Update], None], allowances: Allowances, log: EventLog) -> None:
        self._publish = publish
        self._allowances = allowances
        self._log = log
        self._numbers = itertools.count(1)
        self._open: dict[str, _Open] = {}

    @property
    def waiting(self) -> dict[str, Confirmation]:
        """Key to confirmation, oldest first."""
        return {key: waiting.confirmation for key, waiting in self._open.items()}

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
        self._open[key] = _Open(call, confirmation, future)
        self._publish(ConfirmationRequested(key, call, confirmation))
        try:
            answer = await future
        finally:
            del self._open[key]
            self._publish(ConfirmationResolved(key, call))
        if not answer.allowed:
            # Words that came with it are on disk before the tool goes on.
            await self._log.append()
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
        if (waiting := self._open.get(key)) and not waiting.answer.done():
            if not answer.allowed and answer.feedback.strip():
                self._log.defer(_denied(waiting, answer.feedback))
            waiting.answer.set_result(replace(answer, feedback=""))

    def withdraw(self) -> None:
        """The turn is over: nothing waits any more."""
        for waiting in self._open.values():
            if not waiting.answer.done():
                waiting.answer.set_exception(Interrupted())


def _denied(waiting: _Open, feedback: str) -> CallDenied:
    asked = waiting.confirmation
    # Of a command, its changes and a server's tool, the first line names it.
    subject = asked.detail.removeprefix("$ ").strip().partition("\n")[0]
    if len(subject) > _LONGEST_SUBJECT:
        subject = f"{subject[:_LONGEST_SUBJECT]}…"
    return CallDenied(call=waiting.call, asked=asked.kind, subject=subject, feedback=feedback)
