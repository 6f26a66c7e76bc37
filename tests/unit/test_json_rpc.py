"""Messages as they come: which are calls, which nobody answers, and what is refused."""

from typing import Any

import pytest

from app.mcp_client.json_rpc import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    RejectedRpcMessage,
    RpcRequestOrNotification,
    parse_json_line,
    parse_request_or_notification,
)


def test_a_line_that_is_no_message_is_refused() -> None:
    for line, code, words in (
        (None, INVALID_REQUEST, "longer than 64 MB"),
        (b"{nope", PARSE_ERROR, "not one JSON text"),
        (b"\xff", PARSE_ERROR, "not one JSON text"),
        (b'{"a": NaN}', PARSE_ERROR, "NaN is not a JSON number"),
        (b"[" * 100_000, PARSE_ERROR, "nested too deeply"),
    ):
        with pytest.raises(RejectedRpcMessage, match=words) as refused:
            parse_json_line(line)
        assert refused.value.code == code


def test_requests_are_told_from_answers_and_from_what_is_invalid() -> None:
    message: Any
    for message, call in (
        ({"method": "m", "id": "a"}, RpcRequestOrNotification("m", {}, "a")),
        ({"method": "m", "id": 0, "params": None}, RpcRequestOrNotification("m", {}, 0)),
        ({"method": "m", "params": {"a": 1}}, RpcRequestOrNotification("m", {"a": 1})),
        ({"method": "m", "id": 1, "result": {}}, RpcRequestOrNotification("m", {}, 1)),
        # Nobody waits for an answer that could say what is wrong with it.
        ({"method": "m", "params": [1]}, None),
        ({"id": 1, "result": {}}, None),
        ({"id": 1, "error": {}}, None),
    ):
        assert parse_request_or_notification(message) == call
    invalid: tuple[Any, ...] = (
        [],
        {"method": "m", "id": True},
        {"method": "m", "id": None},
        {"method": 7, "id": 1},
        {"id": 1},
    )
    for message, code in (
        *((each, INVALID_REQUEST) for each in invalid),
        ({"method": "m", "id": 1, "params": [1]}, INVALID_PARAMS),
    ):
        with pytest.raises(RejectedRpcMessage) as refused:
            parse_request_or_notification(message)
        assert refused.value.code == code
