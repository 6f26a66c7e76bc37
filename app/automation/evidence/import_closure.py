"""Finds the test files of a Python workspace that can reach a module by imports, from the text of its files."""

import re
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from app.concurrency import iterate_cooperatively
from app.proposals.risk.edited_file import is_test

_IMPORT = re.compile(
    r"^[^\S\n]*(?:from[^\S\n]+(?P<module>\.{0,20}[\w.]*)[^\S\n]+import[^\S\n]*(?:\((?P<many>[^)]{0,20000})\)|"
    r"(?P<names>[^\n#;]{1,2000}))|import[^\S\n]+(?P<plain>[\w., \t]{1,2000}))",
    re.MULTILINE,
)
_NAME = re.compile(r"[\w.]+")
_CONFTEST = "conftest.py"


@dataclass(slots=True)
class ImportGraph:
    """The modules of a workspace, and the importers of each."""

    modules: dict[str, str] = field(default_factory=dict)
    """Path by dotted name."""
    importers: dict[str, set[str]] = field(default_factory=dict)
    """The paths of the files that import a file."""
    tests: tuple[str, ...] = ()
    """The files that hold tests."""

    def tests_that_import(self, paths: Collection[str]) -> tuple[str, ...]:
        """Return the test files that import one of these files, themselves or through others, sorted.

        Importing a module runs the packages that it lies in. A `conftest.py` that reaches a file stands for all test
        files at and below its folder.
        """
        reached = set(paths)
        waiting = deque(paths)
        while waiting:
            for importer in self.importers.get(waiting.popleft(), ()):
                if importer not in reached:
                    reached.add(importer)
                    waiting.append(importer)
        folders = [path.removesuffix(_CONFTEST) for path in reached if path.rpartition("/")[2] == _CONFTEST]
        return tuple(path for path in self.tests if path in reached or path.startswith(tuple(folders)))


def build_import_graph(paths: Iterable[str], load_text: Callable[[str], str]) -> ImportGraph:
    """Return the import graph of the Python files among some paths; for threads.

    Args:
        paths: Of the workspace, those that a variant may lack among them.
        load_text: Gives the text of a file; empty where it can't be read.
    """
    python = sorted(path for path in paths if path.endswith(".py"))
    packages = {path.removesuffix("/__init__.py") for path in python if path.endswith("/__init__.py")}
    graph = ImportGraph(tests=tuple(path for path in python if _holds_tests(path)))
    for path in python:
        for name in _dotted_names(path, packages):
            graph.modules.setdefault(name, path)
    for path in iterate_cooperatively(python):
        package = _dotted_names(path, packages)[0]
        if not path.endswith("__init__.py"):
            package = package.rpartition(".")[0]
        for name in _imported(load_text(path), package):
            for target in _files_of(name, graph.modules):
                if target != path:
                    graph.importers.setdefault(target, set()).add(path)
    return graph


def _holds_tests(path: str) -> bool:
    name = path.rpartition("/")[2]
    return (is_test(path) and name.startswith("test_")) or name.endswith("_test.py") or name == "tests.py"


def _dotted_names(path: str, packages: Collection[str]) -> list[str]:
    """The names by which a file may be imported: from above its outermost package, and from the workspace's root."""
    stem = path.removesuffix(".py").removesuffix("/__init__")
    parts = stem.split("/")
    first = len(parts) - 1
    if path.endswith("/__init__.py"):
        first = len(parts)
    while first and "/".join(parts[:first]) in packages:
        first -= 1
    names = [".".join(parts[first:]) or parts[-1], ".".join(parts)]
    if parts[0] in ("src", "lib") and len(parts) > 1:
        # A folder without `__init__.py` may be a package, too.
        names.append(".".join(parts[1:]))
    return list(dict.fromkeys(names))


def _imported(text: str, package: str) -> Iterator[str]:
    """The dotted names that a text imports; of `from a import b` both `a.b` and `a`."""
    for match in _IMPORT.finditer(text):
        if plain := match["plain"]:
            yield from (part.split(" as ")[0].strip() for part in plain.split(","))
            continue
        module = match["module"]
        if module.startswith("."):
            above = len(module) - len(module.lstrip("."))
            parts = package.split(".") if package else []
            base = parts[: len(parts) - above + 1]
            module = ".".join((*base, *filter(None, (module.lstrip("."),))))
        names = match["many"] if match["many"] is not None else match["names"] or ""
        yield module
        for part in names.split(","):
            if name := _NAME.match(part.strip()):
                yield f"{module}.{name[0]}" if module else name[0]


def _files_of(name: str, modules: Mapping[str, str]) -> Iterator[str]:
    """The files that an import of a dotted name runs: the module and the packages above it."""
    while name:
        if path := modules.get(name):
            yield path
        name = name.rpartition(".")[0]
