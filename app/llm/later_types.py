"""Imports the OpenAI SDK without the five hundred modules of its types, of which a raw request needs none.

Its packages of types import each of their modules to give their names out; here a package does so only once somebody
asks it for a name, as it would if it had a module-level `__getattr__` (PEP 562) of its own. That takes 9 MB off what
signoff holds, and a quarter of a second of CPU off its start.
"""

import importlib
import sys
import threading
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType
from typing import Any

_TYPES = "openai.types"
_filling = threading.RLock()


class _LaterPackage(SourceFileLoader):
    """Runs the code of a package when one of its names is first asked for."""

    def exec_module(self, module: ModuleType) -> None:
        """Leave the package empty, with what fills it."""
        begun = False

        def __getattr__(name: str) -> Any:
            nonlocal begun
            with _filling:
                if not begun:
                    begun = True
                    super(_LaterPackage, self).exec_module(module)
            # Found now if the package has it; what it has not may be a module, which importing it asks for first.
            try:
                return module.__dict__[name]
            except KeyError:
                raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}") from None

        module.__dict__["__getattr__"] = __getattr__


class _LaterTypes(MetaPathFinder):
    """Finds the packages of the SDK's types."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        """How to load the package; None for everything else, which is loaded as ever."""
        if f"{name}.".startswith(f"{_TYPES}."):
            spec = PathFinder.find_spec(name, path, target)
            if spec and spec.submodule_search_locations is not None and type(spec.loader) is SourceFileLoader:
                spec.loader = _LaterPackage(spec.loader.name, spec.loader.path)
            return spec
        return None


def import_openai() -> ModuleType:
    """The package `openai` and what a completion needs of it; its types come when they are needed."""
    finder = _LaterTypes()
    sys.meta_path.insert(0, finder)
    try:
        package = importlib.import_module("openai")
        importlib.import_module("openai.resources.chat.completions")
    finally:
        sys.meta_path.remove(finder)
    return package
