"""Load the OpenAI SDK on a thread when it is first needed: its import takes about half a second."""

import ast
import asyncio
import gc
import importlib
import ssl
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_LATER = ("openai.lib", "openai.types", "httpcore2")
"""Packages that are loaded so, with those inside them; and `openai` itself."""
_CLIENT = ("AsyncOpenAI", "DefaultAsyncHttpxClient", "Omit", "APIStatusError")
_CONNECTIONS = ("AsyncConnectionPool", "default_ssl_context", "TimeoutException")
"""What every request asks for, of `openai` and of `httpcore2`."""
_filling = threading.RLock()


class _LaterPackage(SourceFileLoader):
    """Module that imports attributes of its package on first access."""

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module empty; its attributes are imported on access."""
        package = module.__name__
        sources: dict[str, tuple[str, str]] | None = None
        ran = False

        def __getattr__(name: str) -> Any:
            nonlocal sources, ran
            with _filling:
                if sources is None:
                    sources = _imported_names(package, self.get_data(self.path))
                if name in sources:
                    origin, original = sources[name]
                    found = importlib.import_module(origin)
                    module.__dict__[name] = getattr(found, original) if original else found
                elif not ran and find_spec(f"{package}.{name}") is None:
                    ran = True
                    super(_LaterPackage, self).exec_module(module)
            # What is found nowhere may be a module, which whoever imports it asks for first.
            try:
                return module.__dict__[name]
            except KeyError:
                raise AttributeError(f"module {package!r} has no attribute {name!r}") from None

        module.__dict__["__getattr__"] = __getattr__


class _LaterPackages(MetaPathFinder):
    """Finds the SDK's packages."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return a module spec for the package; None for all others, which are imported normally."""
        if name == "openai" or f"{name}.".startswith(tuple(f"{one}." for one in _LATER)):
            spec = PathFinder.find_spec(name, path, target)
            if spec and spec.submodule_search_locations is not None and type(spec.loader) is SourceFileLoader:
                spec.loader = _LaterPackage(spec.loader.name, spec.loader.path)
            return spec
        return None


def import_openai() -> ModuleType:
    """Return the package `openai`; its modules are imported when they are used."""
    return _import("openai", _CLIENT)


def import_network_modules() -> None:
    """Import everything that opens connections, also what it would import on the event loop."""
    _import("httpcore2", _CONNECTIONS)
    importlib.import_module("httpcore2._backends.anyio")
    importlib.import_module("anyio._backends._asyncio")


def _import(package: str, names: Sequence[str]) -> ModuleType:
    finder = _LaterPackages()
    sys.meta_path.insert(0, finder)
    try:
        module = importlib.import_module(package)
        for name in names:
            getattr(module, name)
    finally:
        sys.meta_path.remove(finder)
    return module


def _imported_names(package: str, source: bytes) -> dict[str, tuple[str, str]]:
    """Return the names that a package re-exports, each with its module and its name there.

    An empty name there stands for the module itself. What is imported under a condition is not among them.
    """
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            for one in node.names:
                origin = (f"{package}.{node.module}", one.name) if node.module else (f"{package}.{one.name}", "")
                found[one.asname or one.name] = origin
    return found


@dataclass(frozen=True, slots=True)
class Sdk:
    """The loaded modules, and one SSL context for all clients."""

    openai: Any
    httpx2: Any
    ssl_context: ssl.SSLContext


_OWN = (
    "app.llm.bounded_bodies",
    "app.llm.capabilities.corrections",
    "app.llm.failures.classification",
    "app.llm.failures.classification",
)
"""What of signoff's own a client is made with, and a failure is read with: the event loop must not import it."""

_lock = threading.Lock()
_loading: "dict[bool, Future[Sdk]]" = {}
"""With and without the certificates of the authorities."""


def start_loading_sdk(*, encrypted: bool = True) -> "Future[Sdk]":
    """Start to load the SDK and everything that connections need, unless this has begun; return at once.

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


async def wait_for_sdk(*, encrypted: bool = True) -> Sdk:
    """Return the SDK as soon as it is loaded."""
    future = start_loading_sdk(encrypted=encrypted)
    return future.result() if future.done() else await asyncio.wrap_future(future)


def _settle(future: "Future[Sdk]", encrypted: bool) -> None:
    try:
        future.set_result(_load(encrypted))
    except BaseException as problem:
        future.set_exception(problem)


def _load(encrypted: bool) -> Sdk:
    is_first = "openai" not in sys.modules
    openai = import_openai()
    import_network_modules()
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
