"""The OpenAI SDK, loaded on a thread when it is first needed: importing it takes about half a second."""

import asyncio
import gc
import importlib
import ssl
import sys
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from app.llm.later_imports import import_connections, import_openai


@dataclass(frozen=True, slots=True)
class Sdk:
    """The modules, and one SSL context for all clients."""

    openai: Any
    httpx2: Any
    ssl_context: ssl.SSLContext


_OWN = (
    "app.llm.bounded_bodies",
    "app.llm.capabilities.corrections",
    "app.llm.failures.classification",
    "app.llm.failures.wait_hints",
)
"""What of signoff's own a client is made with, and a failure is read with: the event loop must not import it."""

_lock = threading.Lock()
_loading: "dict[bool, Future[Sdk]]" = {}
"""With and without the certificates of the authorities."""


def expect_request(*, encrypted: bool = True) -> "Future[Sdk]":
    """Begin to load the SDK with all that connects, if that has not begun yet; returns at once.

    Args:
        encrypted: the connection needs the certificates of the authorities: a tenth of a second and 2 MB.
    """
    with _lock:
        future = _loading.get(encrypted)
        if future is None or (future.done() and future.exception() is not None):
            future = _loading[encrypted] = Future()
            # Marked as running, so that an impatient waiter cannot cancel it for the others.
            future.set_running_or_notify_cancel()
            threading.Thread(target=_settle, args=(future, encrypted), name="load-openai", daemon=True).start()
        return future


async def loaded(*, encrypted: bool = True) -> Sdk:
    """The SDK with all that a request needs, as soon as it is there."""
    future = expect_request(encrypted=encrypted)
    return future.result() if future.done() else await asyncio.wrap_future(future)


def _settle(future: "Future[Sdk]", encrypted: bool) -> None:
    try:
        future.set_result(_load(encrypted))
    except BaseException as problem:
        future.set_exception(problem)


def _load(encrypted: bool) -> Sdk:
    is_first = "openai" not in sys.modules
    openai = import_openai()
    import_connections()
    httpx2 = importlib.import_module("httpx2")
    for own in _OWN:
        importlib.import_module(own)
    if is_first:
        # It stays until the end. To look through it for garbage, time and again, would hold up everything else
        # for a tenth of a second.
        gc.freeze()
    # One that knows no authority trusts nobody, should it be used after all.
    context = httpx2.create_ssl_context() if encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return Sdk(openai, httpx2, context)
