"""JSON-RPC 2.0 messages with size limits, shared by signoff's MCP server and client.

https://www.jsonrpc.org/specification
"""

import json
from typing import Any, NamedTuple, NoReturn

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Maximum number of bytes of one message: three times the largest file that signoff accepts."""
MAX_BATCH_MESSAGES = 1_000
"""Maximum number of messages in one array, which version 2025-03-26 allowed."""

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
INTERNAL_ERROR = -32603
UNSUPPORTED_VERSION = -32022

RequestId = str | int
Message = dict[str, Any]


class RejectedRpcMessage(Exception):
    """An invalid or refused message, which is answered with a JSON-RPC error; the text says what is valid."""

    def __init__(self, code: int, text: str, *, id: RequestId | None = None, data: object = None) -> None:  # noqa: A002
        super().__init__(text)
        self.code = code
        self.id = id
        self.data = data

    def to_response(self) -> Message:
        """Return the error response."""
        error: Message = {"code": self.code, "message": str(self)}
        if self.data is not None:
            error["data"] = self.data
        return {"jsonrpc": "2.0", "id": self.id, "error": error}


class RpcRequestOrNotification(NamedTuple):
    """A received request, or a notification if it has no id."""

    method: str
    params: Message
    id: RequestId | None = None

    @property
    def meta(self) -> Message:
        """Return `_meta` of the parameters: client, turn, progress token."""
        meta = self.params.get("_meta")
        return meta if isinstance(meta, dict) else {}


def parse_json_line(line: bytes | None) -> Any:
    """Return the JSON value in a line: a message or a list of messages; raises RejectedRpcMessage."""
    if line is None:
        raise RejectedRpcMessage(
            INVALID_REQUEST, f"The message is longer than {MAX_MESSAGE_BYTES // 1024**2} MB; send less at once."
        )
    try:
        return json.loads(line.decode("utf-8"), parse_constant=_reject_constant)
    except RecursionError as error:
        raise RejectedRpcMessage(PARSE_ERROR, "The message is nested too deeply.") from error
    except ValueError as error:
        raise RejectedRpcMessage(PARSE_ERROR, f"The line is not one JSON text in UTF-8: {error}.") from error


def parse_request_or_notification(message: object) -> RpcRequestOrNotification | None:
    """Return the request or notification in a message; None for a response. Raises RejectedRpcMessage."""
    if not isinstance(message, dict):
        raise RejectedRpcMessage(INVALID_REQUEST, "A message is a JSON object.")
    raw_id = message.get("id")
    request_id = (
        raw_id if isinstance(raw_id, str) or (isinstance(raw_id, int) and not isinstance(raw_id, bool)) else None
    )
    method, params = message.get("method"), message.get("params", {})
    if "method" not in message and ("result" in message or "error" in message):
        return None
    if "id" in message and request_id is None:
        raise RejectedRpcMessage(INVALID_REQUEST, "The id of a request is a string or a whole number.")
    if not isinstance(method, str):
        raise RejectedRpcMessage(INVALID_REQUEST, "A request names its method, as text.", id=request_id)
    if params is None:
        params = {}
    if not isinstance(params, dict):
        if request_id is None:
            return None
        raise RejectedRpcMessage(INVALID_PARAMS, "The params of a request are an object.", id=request_id)
    return RpcRequestOrNotification(method, params, request_id)


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")
