"""The OpenAI SDK, loaded on a thread when it is first needed: importing it takes about half a second."""

import asyncio
import importlib
import ssl
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from app.llm.later_types import import_openai


@dataclass(frozen=True, slots=True)
class Sdk:
    """The modules, and one SSL context for all clients (building it takes a tenth of a second)."""

    openai: Any
    httpx2: Any
    ssl_context: ssl.SSLContext


_lock = threading.Lock()
_loading: "Future[Sdk] | None" = None


def preload() -> "Future[Sdk]":
    """Begin to load it, if that has not begun yet; returns at once."""
    global _loading
    with _lock:
        if _loading is None or (_loading.done() and _loading.exception() is not None):
            _loading = Future()
            # Marked as running, so that an impatient waiter cannot cancel it for the others.
            _loading.set_running_or_notify_cancel()
            threading.Thread(target=_load, args=(_loading,), name="load-openai", daemon=True).start()
        return _loading


async def loaded() -> Sdk:
    """The SDK, as soon as it is there."""
    future = preload()
    return future.result() if future.done() else await asyncio.wrap_future(future)


def _load(future: "Future[Sdk]") -> None:
    try:
        openai = import_openai()
        httpx2 = importlib.import_module("httpx2")
        for needed_on_failure in (
            "app.llm.failures.classification",
            "app.llm.capabilities.corrections",
            "app.llm.failures.wait_hints",
        ):
            importlib.import_module(needed_on_failure)
        future.set_result(Sdk(openai, httpx2, httpx2.create_ssl_context()))
    except BaseException as problem:
        future.set_exception(problem)
