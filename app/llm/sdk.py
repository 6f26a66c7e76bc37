"""Load the OpenAI SDK on a thread when it is first needed: its import takes about half a second."""

import ast
import asyncio
import gc
import importlib
import platform
import ssl
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from msgspec import Struct

_LAZY_PACKAGES = ("openai.lib", "openai.types", "httpcore2")
"""Packages that import their modules lazily, together with `openai` itself."""
_CLIENT_NAMES = ("AsyncOpenAI", "DefaultAsyncHttpxClient", "Omit", "APIStatusError")
_CONNECTION_NAMES = ("AsyncConnectionPool", "default_ssl_context", "TimeoutException")
"""Names of `openai` and `httpcore2` that every request needs."""
_namespace_lock = threading.RLock()


class _LazyPackageLoader(SourceFileLoader):
    """Loader for a package that imports its attributes on first access."""

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module empty; its attributes are imported on access."""
        package = module.__name__
        sources: dict[str, tuple[str, str]] | None = None
        has_run = False

        def __getattr__(name: str) -> Any:
            nonlocal sources, has_run
            with _namespace_lock:
                if sources is None:
                    sources = _find_reexports(package, self.get_data(self.path))
                if name in sources:
                    origin, original = sources[name]
                    found = importlib.import_module(origin)
                    module.__dict__[name] = getattr(found, original) if original else found
                elif not has_run and find_spec(f"{package}.{name}") is None:
                    has_run = True
                    super(_LazyPackageLoader, self).exec_module(module)
            # A missing name may be a submodule: `from package import name` imports it after this AttributeError.
            try:
                return module.__dict__[name]
            except KeyError:
                raise AttributeError(f"module {package!r} has no attribute {name!r}") from None

        module.__dict__["__getattr__"] = __getattr__


class _LazyPackageFinder(MetaPathFinder):
    """Finds the lazily loaded packages of the SDK."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Return a spec with a lazy loader for these packages; None for all others, which are imported normally."""
        if name == "openai" or f"{name}.".startswith(tuple(f"{one}." for one in _LAZY_PACKAGES)):
            spec = PathFinder.find_spec(name, path, target)
            if spec and spec.submodule_search_locations is not None and type(spec.loader) is SourceFileLoader:
                spec.loader = _LazyPackageLoader(spec.loader.name, spec.loader.path)
            return spec
        return None


def _import(package: str, names: Sequence[str]) -> ModuleType:
    """Import a package with these names only; its other modules are imported when they are used."""
    finder = _LazyPackageFinder()
    sys.meta_path.insert(0, finder)
    try:
        module = importlib.import_module(package)
        for name in names:
            getattr(module, name)
    finally:
        sys.meta_path.remove(finder)
    return module


def _find_reexports(package: str, source: bytes) -> dict[str, tuple[str, str]]:
    """Return the names that a package re-exports, each with its module and its name in that module.

    An empty name means the module itself. Conditional imports are not included.
    """
    origins = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            for alias in node.names:
                origin = (f"{package}.{node.module}", alias.name) if node.module else (f"{package}.{alias.name}", "")
                origins[alias.asname or alias.name] = origin
    return origins


class LoadedSdk(Struct, frozen=True):
    """The loaded modules of the OpenAI SDK and its HTTP client, and one SSL context for all clients."""

    openai: Any
    httpx2: Any
    ssl_context: ssl.SSLContext


_OWN_MODULES = ("app.llm.bounded_bodies", "app.llm.capabilities.corrections", "app.llm.failures.classification")
"""Modules of signoff that clients and failures need; importing them must not block the event loop."""

_loading_lock = threading.Lock()
_futures: "dict[bool, Future[LoadedSdk]]" = {}
"""Running and finished loads, by whether the CA certificates are loaded."""


def start_loading_sdk(*, needs_certificates: bool = True) -> "Future[LoadedSdk]":
    """Start loading the SDK and all modules that connections need, unless this has started; return at once.

    Args:
        needs_certificates: the connection needs the CA certificates, which take a tenth of a second and 2 MB.
    """
    with _loading_lock:
        future = _futures.get(needs_certificates)
        if future is None or (future.done() and future.exception() is not None):
            future = _futures[needs_certificates] = Future()
            # Mark it as running, so that no waiter can cancel it for the others.
            future.set_running_or_notify_cancel()
            threading.Thread(
                target=_load_into_future, args=(future, needs_certificates), name="load-openai", daemon=True
            ).start()
        return future


async def wait_for_sdk(*, needs_certificates: bool = True) -> LoadedSdk:
    """Return the SDK when it is loaded; raise the error of loading it."""
    future = start_loading_sdk(needs_certificates=needs_certificates)
    return future.result() if future.done() else await asyncio.wrap_future(future)


def _load_into_future(future: "Future[LoadedSdk]", encrypted: bool) -> None:
    try:
        future.set_result(_load(encrypted))
    except BaseException as problem:
        future.set_exception(problem)


def _load(encrypted: bool) -> LoadedSdk:
    is_first = "openai" not in sys.modules
    # The SDK reads it for its headers. Python would run `uname` from PATH, which may be in the workspace.
    vars(platform.uname())["processor"] = ""
    openai = _import("openai", _CLIENT_NAMES)
    # Everything that opens connections, including modules that would be imported on the event loop.
    _import("httpcore2", _CONNECTION_NAMES)
    importlib.import_module("httpcore2._backends.anyio")
    importlib.import_module("anyio._backends._asyncio")
    httpx2 = importlib.import_module("httpx2")
    for own in _OWN_MODULES:
        importlib.import_module(own)
    if is_first:
        # The modules stay until the program ends. Scanning them in garbage collections would block everything
        # else for a tenth of a second each time.
        gc.freeze()
    # A context without certificates trusts no server, should it be used anyway.
    context = httpx2.create_ssl_context() if encrypted else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return LoadedSdk(openai, httpx2, context)
