"""Imports the OpenAI SDK without what signoff has no use for: its types, other clouds, HTTP that blocks.

Its packages import hundreds of modules to give their names out. Here such a package runs no code at first; what its
source imports by name (`from .x import Name`) is imported once somebody asks it for that name, and for all else it is
run as ever. That takes 12 MB off what signoff holds, and a third of a second of CPU off its start.
"""

import ast
import importlib
import sys
import threading
from collections.abc import Sequence
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
    """Loads of a package what is asked of it."""

    def exec_module(self, module: ModuleType) -> None:
        """Leave the package empty, with what fills it."""
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
        """How to load the package; None for everything else, which is loaded as ever."""
        if name == "openai" or f"{name}.".startswith(tuple(f"{one}." for one in _LATER)):
            spec = PathFinder.find_spec(name, path, target)
            if spec and spec.submodule_search_locations is not None and type(spec.loader) is SourceFileLoader:
                spec.loader = _LaterPackage(spec.loader.name, spec.loader.path)
            return spec
        return None


def import_openai() -> ModuleType:
    """The package `openai`; what is asked of it comes when it is asked for."""
    return _import("openai", _CLIENT)


def import_connections() -> None:
    """Import what opens connections, with what it would import on the event loop for the first of them."""
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
    """The names that a package gives out from its own modules: each with the module and its name there.

    An empty name there stands for the module itself. What is imported under a condition is not among them.
    """
    found = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            for one in node.names:
                origin = (f"{package}.{node.module}", one.name) if node.module else (f"{package}.{one.name}", "")
                found[one.asname or one.name] = origin
    return found
