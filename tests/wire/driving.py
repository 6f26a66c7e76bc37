"""Driving a `ModelClient` against the test server."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from app.llm.client import ModelClient
from app.llm.failures.request_errors import RequestError, RetryPolicy
from app.llm.transport import Timeouts
from app.llm.values.endpoint import EndpointProfile
from app.llm.values.requests_and_updates import (
    NO_OPTIONS,
    AttemptDiscarded,
    Endpoint,
    Payload,
    RequestOptions,
    ResponseCompleted,
    StreamUpdate,
    TextDelta,
)
from app.llm.wires.wire import Item, SystemItem, UserItem
from app.llm.wires.wire_registry import wire_for
from tests.wire.server import WireServer

FAST = RetryPolicy(base=0.002, busy_base=0.002, cap=0.004, jitter=lambda: 0.5)
"""The standard policy at a five-hundredth of its delays."""
BRISK = Timeouts(connect=10, read=30, first=30, idle=30, linger=0.3, closing=30)
"""Long where a test does not wait for the end of it, so that a busy machine fails no test."""

TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": name,
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
    for name in ("read_file", "edit_file")
]
SYSTEM = {"role": "system", "content": "You are signoff."}
USER = {"role": "user", "content": "Fix it."}
NOTE = {"role": "system", "content": "Edits staged as P1. Hand control back."}


def called(call_id: str = "call_1", arguments: str = '{"path": "a.py"}') -> list[dict[str, Any]]:
    call = {"id": call_id, "type": "function", "function": {"name": "edit_file", "arguments": arguments}}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": "staged"},
    ]


def opening(profile: EndpointProfile) -> Payload:
    return Payload([SYSTEM, USER], TOOLS)


def asking(
    *more: Item, closing: bool = False, limit: int | None = None, options: RequestOptions = NO_OPTIONS
) -> Callable[[EndpointProfile], Payload]:
    """What builds a request on any wire: one of the user, and these items."""

    def build(profile: EndpointProfile) -> Payload:
        wire = wire_for(profile)
        items = [SystemItem("You are signoff."), UserItem("Fix it."), *more]
        messages, system = wire.make_messages(items, wire.adapt_profile(profile))
        return Payload(messages, TOOLS, "none" if closing else None, limit, system, options)

    return build


def closing(profile: EndpointProfile) -> Payload:
    """A closing request as the projection places its parts."""
    exchange = called("abcdef123" if profile.tool_id == "alnum9" else "call_1")
    match profile.mid_system:
        case "inline":
            messages = [SYSTEM, USER, *exchange, NOTE]
        case "fold_first":
            joined = {"role": "system", "content": f"{SYSTEM['content']}\n\n{NOTE['content']}"}
            messages = [joined, USER, *exchange]
        case _:
            marked = {"role": "user", "content": f"<system>{SYSTEM['content']} {NOTE['content']}</system> Fix it."}
            messages = [marked, *exchange]
    return Payload(messages, TOOLS, "none")


@asynccontextmanager
async def client_of(
    server: WireServer, profile: EndpointProfile | None = None, **options: Any
) -> AsyncIterator[ModelClient]:
    settings = {"retry": FAST, "timeouts": BRISK, **options}
    client = ModelClient(Endpoint(server.base_url, "test-model"), profile or EndpointProfile(), **settings)
    try:
        yield client
    finally:
        await client.aclose()


async def updates_of(
    client: ModelClient, build: Callable[[EndpointProfile], Payload] = opening, *, closing: bool = False
) -> list[StreamUpdate]:
    return [update async for update in client.stream(build, closing=closing)]


async def complete(server: WireServer, profile: EndpointProfile | None = None, **options: Any) -> ResponseCompleted:
    """The response to one opening request; checks what holds for every response on the way."""
    async with client_of(server, profile, **options) as client:
        return response(await updates_of(client))


async def failure_of(request: Awaitable[object], match: str | None = None) -> RequestError:
    """The error that a request ends in; `match` is a regular expression for its message."""
    with pytest.raises(RequestError, match=match) as caught:
        await request
    return caught.value


def response(updates: list[StreamUpdate]) -> ResponseCompleted:
    """The completed response among all updates, whose text is exactly what was streamed and not discarded."""
    last = updates[-1]
    assert isinstance(last, ResponseCompleted)
    assert not any(isinstance(update, ResponseCompleted) for update in updates[:-1])
    streamed = ""
    for update in updates:
        match update:
            case TextDelta(text):
                streamed += text
            case AttemptDiscarded(text):
                assert text == streamed
                streamed = ""
    assert streamed == last.text
    return last
