"""The MCP session protocol for any transport: requests with responses, and messages from the server.

The `mcp` package is not used, for three reasons. The data of a hostile server (endless lines or answers, floods of
messages) must be limited where bytes are read, which is below its interface. Server programs must run on a layer over
the workspace, but the package starts them itself. And it adds 27 packages and more than a second of import time,
while this code needs only an HTTP client, which signoff has already. In the tests, the package is the server.
"""

import asyncio
import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.mcp_client.json_rpc import (
    MAX_BATCH_MESSAGES,
    METHOD_NOT_FOUND,
    Message,
    RejectedRpcMessage,
    RpcRequestOrNotification,
    parse_json_line,
    parse_request_or_notification,
)

MAX_SERVER_MESSAGE_BYTES = 16 * 1024 * 1024
"""Maximum number of bytes of one message."""
MAX_UNREQUESTED_BYTES = 4 * 1024 * 1024
"""Maximum number of bytes of unrequested messages between two awaited answers."""
_MIN_COUNTED_BYTES = 64
"""Minimum number of bytes that a message counts as: each message takes time, however short it is."""
_THREAD_PARSE_BYTES = 256 * 1024
"""Bytes from which a message is parsed on a thread."""

HandleNotification = Callable[[str, Message], None]
"""Called with the method and the parameters of a notification."""


_SIGN_IN_NEEDED = "you have to sign in: /mcp"
_SIGN_IN_AGAIN = "you have to sign in again, with more permissions: /mcp"


class McpServerError(Exception):
    """The server responded with an error; the message is untrusted text of the server."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


class ConnectionLost(Exception):
    """The server cannot be reached any more; the message says why."""


class SessionEnded(ConnectionLost):
    """The server has ended the session and has not carried out the request."""


class SignInNeeded(ConnectionLost):
    """The user has to sign in.

    Args:
        challenge: The header that says where to sign in, and for which scopes.
        needs_more_scopes: The user is signed in, but needs more scopes.
    """

    def __init__(self, challenge: str, *, needs_more_scopes: bool = False) -> None:
        super().__init__(_SIGN_IN_AGAIN if needs_more_scopes else _SIGN_IN_NEEDED)
        self.challenge = challenge
        self.needs_more_scopes = needs_more_scopes


class McpServerTimeout(Exception):
    """The server did not respond in time."""


class McpConnection(ABC):
    """A session with one server; the server may ask for `root`, the workspace."""

    def __init__(self, root: Path, on_notification: HandleNotification) -> None:
        self._root = root
        self._on_notification = on_notification
        self._ids = itertools.count(1)
        self._open_answers: dict[int, asyncio.Future[Message]] = {}
        self._unrequested_bytes = 0
        self.meta: Message = {}
        """`_meta` of each request, for servers without `initialize`."""

    async def request(self, method: str, params: Message, seconds: float) -> Message:
        """Send a request and return its result.

        Raises:
            McpServerError: The server responded with an error.
            McpServerTimeout: There was no answer in time; the server was told that the request is cancelled.
            ConnectionLost: The server cannot be reached.
        """
        number = next(self._ids)
        answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._open_answers[number] = answer
        if self.meta:
            params = {**params, "_meta": self.meta}
        try:
            async with asyncio.timeout(seconds):
                await self._send_request({"jsonrpc": "2.0", "id": number, "method": method, "params": params}, answer)
                return _parse_result(await answer)
        except TimeoutError as error:
            await self._cancel_request(number, "it took too long")
            raise McpServerTimeout(f"no answer within {seconds:g} s") from error
        except asyncio.CancelledError:
            await self._cancel_request(number, "the user stopped it")
            raise
        finally:
            self._open_answers.pop(number, None)

    async def notify(self, method: str, params: Message | None = None) -> None:
        """Send a notification. Raises ConnectionLost."""
        await self._send({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})

    async def _cancel_request(self, number: int, reason: str) -> None:
        notification = self.notify("notifications/cancelled", {"requestId": number, "reason": reason})
        task = asyncio.ensure_future(notification)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            # Wait at most a second: the server may have stopped reading.
            await asyncio.wait({task}, timeout=1.0)
        finally:
            task.cancel()

    def _handle_messages(self, message: object, size: int) -> list[Message]:
        """Handle a received message; return the messages to send. Raises ConnectionLost for a flood."""
        messages = message if isinstance(message, list) else [message]
        if len(messages) > MAX_BATCH_MESSAGES:
            raise ConnectionLost(f"it sent more than {MAX_BATCH_MESSAGES:,} messages at once")
        unrequested = [item for item in messages if not self._deliver_answer(item)]
        if unrequested or not messages:
            self._unrequested_bytes += max(size, _MIN_COUNTED_BYTES)
            if self._unrequested_bytes > MAX_UNREQUESTED_BYTES:
                raise ConnectionLost(
                    f"it sent more than {MAX_UNREQUESTED_BYTES // 1024**2} MB of messages that were not requested"
                )
        return [answer for item in unrequested for answer in self._handle_unrequested(item)]

    def _deliver_answer(self, message: object) -> bool:
        """Return whether the message is an awaited answer; if it is, deliver it."""
        if not isinstance(message, dict) or "method" in message:
            return False
        number = message.get("id")
        waiting = self._open_answers.get(number) if isinstance(number, int) else None
        if waiting is None or waiting.done():
            return False
        waiting.set_result(message)
        self._unrequested_bytes = 0
        return True

    def _handle_unrequested(self, message: object) -> list[Message]:
        """Handle a message that is not an awaited answer; return the messages to send."""
        try:
            call = parse_request_or_notification(message)
        except RejectedRpcMessage as refusal:
            return [refusal.to_response()] if refusal.id is not None else []
        if call is None:
            return []
        if call.id is None:
            self._on_notification(call.method, call.params)
            return []
        return [self._answer_request(call)]

    def _answer_request(self, call: RpcRequestOrNotification) -> Message:
        """Return the answer to a request of the server: ping or root folder; all others are refused."""
        answer: Message = {"jsonrpc": "2.0", "id": call.id}
        match call.method:
            case "ping":
                return {**answer, "result": {}}
            case "roots/list":
                return {**answer, "result": {"roots": [{"uri": self._root.as_uri(), "name": self._root.name}]}}
            case _:
                text = f"signoff does not offer {call.method[:80]}; go on without."
                return {**answer, "error": {"code": METHOD_NOT_FOUND, "message": text}}

    def _fail_open_requests(self, reason: str) -> None:
        """Fail all open requests with this reason."""
        for answer in self._open_answers.values():
            if not answer.done():
                answer.set_exception(ConnectionLost(reason))

    def on_initialized(self, version: str) -> None:  # noqa: B027
        """Take note of the server's protocol version."""

    @abstractmethod
    async def _send_request(self, message: Message, answer: "asyncio.Future[Message]") -> None:
        """Send a request; its answer goes to `_handle_messages`. Raises ConnectionLost."""

    @abstractmethod
    async def _send(self, message: Message) -> None:
        """Send a message that gets no answer. Raises ConnectionLost."""

    @abstractmethod
    async def close(self) -> None:
        """Close the connection; pending requests raise ConnectionLost."""


async def parse_server_message(data: bytes) -> Any:
    """Parse a message of the server, a long one on a thread. Raises `RejectedRpcMessage`."""
    return (
        parse_json_line(data) if len(data) < _THREAD_PARSE_BYTES else await asyncio.to_thread(parse_json_line, data)
    )


def _parse_result(message: Message) -> Message:
    error: Any = message.get("error")
    if isinstance(error, dict):
        code = error.get("code")
        error_text = error.get("message")
        message_text = error_text if isinstance(error_text, str) and error_text else "an error without words"
        raise McpServerError(code if isinstance(code, int) else 0, message_text)
    result = message.get("result")
    if not isinstance(result, dict):
        raise McpServerError(0, "its answer has no result")
    return result
