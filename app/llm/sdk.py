"""The OpenAI SDK, loaded on a thread when it is first needed: importing it takes about half a second."""

import asyncio
import gc
import importlib
import ssl
import sys
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from app.llm.later_imports import import_connections, import_openai

if TYPE_CHECKING:
    from collections.abc import Callable

_Loaded = TypeVar("_Loaded")


@dataclass(frozen=True, slots=True)
class Sdk:
    """The modules, and one SSL context for all clients."""

    openai: Any
    httpx2: Any
    ssl_context: ssl.SSLContext


_lock = threading.Lock()
_loading: "dict[str, Future[Any]]" = {}


def preload() -> "Future[ModuleType]":
    """Begin to load the package `openai`, if that has not begun yet; returns at once."""
    return _begun("packages", _load_packages)


def expect_request(*, encrypted: bool = True) -> "Future[Sdk]":
    """Begin to load besides all that connects, if that has not begun yet; returns at once.

    Args:
        encrypted: the connection needs the certificates of the authorities: a tenth of a second and 2 MB.
    """
    return _begun("encrypted" if encrypted else "plain", partial(_load_connections, encrypted))


async def loaded(*, encrypted: bool = True) -> Sdk:
    """The SDK with all that a request needs, as soon as it is there."""
    future = expect_request(encrypted=encrypted)
    return future.result() if future.done() else await asyncio.wrap_future(future)


def preload_failures() -> None:
    """Import on a thread what a failure is read with, while the first request is on its way; returns at once."""
    threading.Thread(target=_import_failures, name="load-failures", daemon=True).start()


def _import_failures() -> None:
    import app.llm.capabilities.corrections
    import app.llm.failures.classification
    import app.llm.failures.wait_hints  # noqa: F401


def _begun(what: str, load: "Callable[[], _Loaded]") -> "Future[_Loaded]":
    """What is loaded, or was, on a thread of its own; anew where it has failed."""
    with _lock:
        future = _loading.get(what)
        if future is None or (future.done() and future.exception() is not None):
            future = _loading[what] = Future()
            # Marked as running, so that an impatient waiter cannot cancel it for the others.
            future.set_running_or_notify_cancel()
            threading.Thread(target=_settle, args=(future, load), name=f"load-openai-{what}", daemon=True).start()
        return future


def _settle(future: "Future[_Loaded]", load: "Callable[[], _Loaded]") -> None:
    try:
        future.set_result(load())
    except BaseException as problem:
        future.set_exception(problem)


def _load_packages() -> ModuleType:
    is_first = "openai" not in sys.modules
    openai = import_openai()
    importlib.import_module("app.llm.bounded_bodies")
    if is_first:
        # It stays until the end. To look through it for garbage, time and again, would hold up everything else
        # for a tenth of a second.
        gc.freeze()
    return openai


def _load_connections(encrypted: bool) -> Sdk:
    openai = preload().result()
    import_connections()
    httpx2 = importlib.import_module("httpx2")
    # One that knows no authority trusts nobody, should it be used after all.
    context = httpx2.create_ssl_context() if encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return Sdk(openai, httpx2, context)
