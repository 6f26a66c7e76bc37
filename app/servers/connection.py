"""What two ends of MCP say to each other, whatever carries it: requests with answers, and what comes unasked.

The `mcp` package would do this too. It is not depended on: what a hostile server can do (a line or an answer without
end, a flood of messages) has to be bounded where bytes are read, which is beneath it; programs are to run on a layer
over the workspace, and it would start them itself; and it brings 27 packages and over a second of import, while what
this needs beyond the standard library, an HTTP client, is here already. In the tests it plays the other end.
"""

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.json_rpc import METHOD_NOT_FOUND, Call, Message, Refusal, call_of

LONGEST_MESSAGE = 16 * 1024 * 1024
"""Bytes of one message."""
MOST_UNASKED = 4 * 1024 * 1024
"""Bytes of messages that nobody asked for, until something is answered."""

Notified = Callable[[str, Message], None]
"""Takes the method and the parameters of a notification."""


class ServerError(Exception):
    """The server answered with an error; the message is its own, of any origin."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class ConnectionLost(Exception):
    """There is no server at the other end any more, or none to be talked to; the message says why."""


class SessionEnded(ConnectionLost):
    """The server knows nothing of us any more; it did not do what it was asked."""


class SignInNeeded(ConnectionLost):
    """The user has to sign in."""

    def __init__(self, challenge: str) -> None:
        """`challenge` is the header that says where."""
        super().__init__("you have to sign in: /mcp")
        self.challenge = challenge


class TooSlow(Exception):
    """It did not answer within its time."""


class Connection(ABC):
    """One server, as long as it can be talked to."""

    def __init__(self, root: Path, notified: Notified) -> None:
        """Begin to count.

        Args:
            root: The workspace, which the server may ask for.
            notified: Takes what the server tells unasked.
        """
        self._root = root
        self._notified = notified
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._unasked = 0
        self.meta: Message = {}
        """Goes with each request where there was no greeting."""

    async def request(self, method: str, params: Message, seconds: float) -> Message:
        """Ask for something.

        Raises:
            ServerError: It said no.
            TooSlow: It said nothing; it was told that nobody waits any more.
            ConnectionLost: It is gone.
        """
        number = next(self._ids)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        if self.meta:
            params = {**params, "_meta": self.meta}
        try:
            async with asyncio.timeout(seconds):
                await self._ask({"jsonrpc": "2.0", "id": number, "method": method, "params": params}, answer)
                return _result(await answer)
        except TimeoutError as error:
            await self._give_up(number, "it took too long")
            raise TooSlow(f"no answer within {seconds:g} s") from error
        except asyncio.CancelledError:
            await self._give_up(number, "the user stopped it")
            raise
        finally:
            self._waiting.pop(number, None)

    async def notify(self, method: str, params: Message | None = None) -> None:
        """Tell something. Raises ConnectionLost."""
        await self._send({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})

    async def _give_up(self, number: int, reason: str) -> None:
        told = self.notify("notifications/cancelled", {"requestId": number, "reason": reason})
        # Whoever does not read is not waited for.
        task = asyncio.ensure_future(told)
        done, _ = await asyncio.wait({task}, timeout=1.0)
        for each in done:
            each.exception()
        task.cancel()

    def _take(self, message: object, size: int) -> list[Message]:
        """Take what has come; returns what is to be sent for it. Raises ConnectionLost for a flood."""
        if isinstance(message, list):
            return [answer for each in message for answer in self._take(each, size // max(1, len(message)))]
        if isinstance(message, dict) and "method" not in message:
            number = message.get("id")
            waiting = self._waiting.get(number) if isinstance(number, int) else None
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
                self._unasked = 0
                return []
        self._unasked += size
        if self._unasked > MOST_UNASKED:
            raise ConnectionLost(f"it sent more than {MOST_UNASKED // 1024**2} MB that nobody asked for")
        try:
            call = call_of(message)
        except Refusal as refusal:
            return [refusal.answer()] if refusal.id is not None else []
        if call is None:
            return []
        if call.id is None:
            self._notified(call.method, call.params)
            return []
        return [self._answer(call)]

    def _answer(self, call: Call) -> Message:
        """What a server gets that asks something of signoff: little, and nothing that a user has to say."""
        answer: Message = {"jsonrpc": "2.0", "id": call.id}
        match call.method:
            case "ping":
                return {**answer, "result": {}}
            case "roots/list":
                return {**answer, "result": {"roots": [{"uri": self._root.as_uri(), "name": self._root.name}]}}
            case _:
                text = f"signoff does not offer {call.method[:80]}; go on without."
                return {**answer, "error": {"code": METHOD_NOT_FOUND, "message": text}}

    def _lost(self, why: str) -> None:
        """Nobody will be answered any more."""
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(ConnectionLost(why))

    def greeted(self, version: str) -> None:  # noqa: B027
        """The server speaks this version."""

    @abstractmethod
    async def _ask(self, message: Message, answer: "asyncio.Future[Message]") -> None:
        """Send a request; what comes back is given to `_take`, by then or later. Raises ConnectionLost."""

    @abstractmethod
    async def _send(self, message: Message) -> None:
        """Send what is not answered. Raises ConnectionLost."""

    @abstractmethod
    async def close(self) -> None:
        """End it; whoever waits gets ConnectionLost."""


def _result(message: Message) -> Message:
    error: Any = message.get("error")
    if isinstance(error, dict):
        code = error.get("code")
        raise ServerError(code if isinstance(code, int) else 0, str(error.get("message") or "an error without words"))
    result = message.get("result")
    if not isinstance(result, dict):
        raise ServerError(0, "its answer has no result")
    return result
