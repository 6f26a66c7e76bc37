"""Chooses the tests that can notice a change: by recorded coverage, by imports, or by the test runner."""

import configparser
import re
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

from msgspec import Struct

from app.automation.check_runner import all_tests_placeholder_arguments
from app.concurrency import iterate_when_event_loop_idle
from app.config.config_tables import TESTS
from app.config.settings import CheckTable
from app.config.toml_files import parse_toml
from app.proposals.risk.edited_file import is_test_or_test_data
from app.text.quantities import format_count
from app.workspace.path_rules import WorkspaceError
from app.workspace.paths import Workspace

_COVERAGE, _TESTMON = ".coverage", ".testmondata"
_MAX_DATABASE_BYTES = 128 << 20
"""Maximum size of a coverage database in bytes."""
_MAX_READ_SECONDS = 5.0
"""Time limit for reading a database."""
_STEPS_BETWEEN_CHECKS = 100_000
"""SQLite instructions between two checks of the time limit."""


def find_tests_that_ran_lines(
    workspace: Workspace, lines: Mapping[str, Collection[int]]
) -> tuple[frozenset[str], str]:
    """Return the ids of the tests that ran some lines, and the database that records this; both empty if none does.

    If tests ran the file but none of the lines, all these tests are returned, because the lines may have moved.

    Args:
        workspace: The workspace, in which the tools write their databases.
        lines: Lines from 1 by workspace path, in the files on disk.
    """
    for name, read in ((_COVERAGE, _tests_in_coverage), (_TESTMON, _tests_in_testmon)):
        with suppress(OSError, WorkspaceError, sqlite3.Error), closing(sqlite3.connect(":memory:")) as database:
            # Read a copy in memory with untrusted schema: the database may come from another person.
            data = workspace.read(name, _MAX_DATABASE_BYTES)
            # Clear the WAL mode in the header: without its journal file the copy could not be opened.
            database.deserialize(b"".join((data[:18], b"\1\1", data[20:])))
            database.execute("PRAGMA trusted_schema = OFF")
            end = time.monotonic() + _MAX_READ_SECONDS
            database.set_progress_handler(partial(_is_past, end), _STEPS_BETWEEN_CHECKS)
            if found := frozenset(read(database, workspace.root, lines)):
                return found, name
    return frozenset(), ""


def _is_past(end: float) -> int:
    return time.monotonic() > end


def _tests_in_coverage(
    database: sqlite3.Connection, root: Path, lines: Mapping[str, Collection[int]]
) -> Iterator[str]:
    """Yield tests from coverage.py's schema 7 (https://coverage.readthedocs.io/en/latest/dbschema.html)."""
    contexts = dict(database.execute("SELECT id, context FROM context"))
    files = {path: number for number, path in database.execute("SELECT id, path FROM file")}
    for path, wanted in lines.items():
        number = next((files[name] for name in (str(root / path), path) if name in files), None)
        if number is None:
            continue
        by_context = _lines_by_context(database, number)
        near = {each for each, ran in by_context.items() if not ran.isdisjoint(wanted)}
        for each in near or by_context:
            if test := _test_id_in_context(contexts.get(each, "")):
                yield test


def _lines_by_context(database: sqlite3.Connection, file: int) -> dict[int, set[int]]:
    found: dict[int, set[int]] = {}
    for context, bits in database.execute("SELECT context_id, numbits FROM line_bits WHERE file_id = ?", (file,)):
        ran = found.setdefault(context, set())
        ran.update(at * 8 + bit for at, byte in enumerate(bits) for bit in range(8) if byte & 1 << bit)
    for context, line in database.execute("SELECT context_id, ABS(tono) FROM arc WHERE file_id = ?", (file,)):
        found.setdefault(context, set()).add(line)
    return found


def _test_id_in_context(context: str) -> str:
    """Return the test id in a context of pytest-cov, `tests/test_a.py::test_b|run`; empty if it has none."""
    test, _, phase = context.rpartition("|")
    test = test if phase in ("setup", "run", "teardown") else context
    return test if "::" in test and not test.startswith("-") else ""


def _tests_in_testmon(
    database: sqlite3.Connection, root: Path, lines: Mapping[str, Collection[int]]
) -> Iterator[str]:
    """Yield tests from the tables of pytest-testmon 2, which record files and methods, not lines."""
    for path in lines:
        yield from (
            name
            for (name,) in database.execute(
                "SELECT DISTINCT t.test_name FROM test_execution t "
                "JOIN test_execution_file_fp x ON x.test_execution_id = t.id "
                "JOIN file_fp f ON f.id = x.fingerprint_id WHERE f.filename = ?",
                (path,),
            )
            if not name.startswith("-")
        )


_IMPORT_LINE = re.compile(
    r"^[^\S\n]*(?:from[^\S\n]+(?P<module>\.{0,20}[\w.]*)[^\S\n]+import[^\S\n]*(?:\((?P<many>[^)]{0,20000})\)|"
    r"(?P<names>[^\n#;]{1,2000}))|import[^\S\n]+(?P<plain>[\w., \t]{1,2000}))",
    re.MULTILINE,
)
_DOTTED_NAME = re.compile(r"[\w.]+")
_CONFTEST = "conftest.py"


class ImportGraph(Struct):
    """The modules of a workspace, and the importers of each."""

    modules: dict[str, str] = {}
    """Path by dotted name."""
    importers: dict[str, set[str]] = {}
    """The paths of the files that import a file."""
    tests: tuple[str, ...] = ()
    """The files that contain tests."""

    def tests_that_import(self, paths: Collection[str]) -> tuple[str, ...]:
        """Return the test files that import one of these files, directly or indirectly, sorted.

        Importing a module also runs its packages. A `conftest.py` that imports one counts for all test files in its
        folder and below.
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
        paths: Workspace paths, including files that are missing in a tested variant.
        load_text: Returns the text of a file; empty if it can't be read.
    """
    python = sorted(path for path in paths if path.endswith(".py"))
    packages = {path.removesuffix("/__init__.py") for path in python if path.endswith("/__init__.py")}
    graph = ImportGraph(tests=tuple(path for path in python if _is_test_file_name(path)))
    for path in python:
        for name in _dotted_names(path, packages):
            graph.modules.setdefault(name, path)
    for path in iterate_when_event_loop_idle(python):
        package = _dotted_names(path, packages)[0]
        if not path.endswith("__init__.py"):
            package = package.rpartition(".")[0]
        for name in _imported_names(load_text(path), package):
            for target in _files_of_import(name, graph.modules):
                if target != path:
                    graph.importers.setdefault(target, set()).add(path)
    return graph


def _is_test_file_name(path: str) -> bool:
    name = path.rpartition("/")[2]
    return (
        (is_test_or_test_data(path) and name.startswith("test_")) or name.endswith("_test.py") or name == "tests.py"
    )


def _dotted_names(path: str, packages: Collection[str]) -> list[str]:
    """Return the names by which a file may be imported, relative to its outermost package and to the root."""
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


def _imported_names(text: str, package: str) -> Iterator[str]:
    """Yield the dotted names that a text imports; for `from a import b` both `a` and `a.b`."""
    for match in _IMPORT_LINE.finditer(text):
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
            if name := _DOTTED_NAME.match(part.strip()):
                yield f"{module}.{name[0]}" if module else name[0]


def _files_of_import(name: str, modules: Mapping[str, str]) -> Iterator[str]:
    """Yield the files that an import of a dotted name runs: the module and its packages."""
    while name:
        if path := modules.get(name):
            yield path
        name = name.rpartition(".")[0]


# In the order of https://docs.pytest.org/en/stable/reference/customize.html
_INI_FILES = (
    ("pytest.ini", "pytest"),
    (".pytest.ini", "pytest"),
    ("pyproject.toml", ""),
    ("tox.ini", "pytest"),
    ("setup.cfg", "tool:pytest"),
)


def filter_tests_collected_by_default(tests: Sequence[str], read: Callable[[str], str]) -> tuple[str, ...]:
    """Return the test files that pytest collects if no names are given.

    Args:
        tests: Paths in the workspace.
        read: Returns the text of a file; empty if it can't be read.
    """
    folders = [folder.removeprefix("./").strip("/") for folder in _test_paths(read)]
    inside = [path for path in tests if any(_is_inside_folder(path, folder) for folder in folders)]
    return tuple(inside or tests)


def _is_inside_folder(path: str, folder: str) -> bool:
    return folder in ("", ".", path) or fnmatchcase(path, f"{folder}/*") or fnmatchcase(path, folder)


def _test_paths(read: Callable[[str], str]) -> Sequence[str]:
    """Return `testpaths` from the first file that has settings of pytest."""
    for name, section in _INI_FILES:
        if not (text := read(name)):
            continue
        if section:
            parser = configparser.ConfigParser(interpolation=None, strict=False)
            try:
                parser.read_string(text)
            except configparser.Error:
                continue
            if parser.has_section(section):
                return parser.get(section, "testpaths", fallback="").split()
            continue
        try:
            options: Any = parse_toml(text.encode("utf-8", "replace"))["tool"]["pytest"]
            paths = options.get("ini_options", options).get("testpaths", [])
        except (ValueError, LookupError, AttributeError, TypeError):
            continue
        paths = paths.split() if isinstance(paths, str) else paths
        return [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []
    return ()


_MAX_FILES = 20_000
_MAX_SOURCE_BYTES = 1 << 20
"""Maximum size in bytes of a file whose imports are read."""
_MAX_ARGUMENT_CHARACTERS = 50_000
"""Maximum characters of test names on one command line; beyond it, only files are named."""
_TEST_COMMAND = re.compile(
    r"\b(?:py\.?test|unittest|tox|nox|jest|vitest|mocha|ava|rspec|phpunit|ctest|nextest|gotestsum)\b"
    r"|\b(?:npm|pnpm|yarn|bun|make|just|cargo|go|mvn|gradle|gradlew|dotnet|mix|rake|node|deno) (?:run )?(?:--)?test\b"
)


class TestRunner(StrEnum):
    """The test runner, which determines how a command takes the names of tests."""

    __test__ = False
    PYTEST = "pytest"
    JEST = "jest"
    VITEST = "vitest"
    GO = "go"
    OTHER = ""
    """Unknown: the command always runs all tests."""


_RUNNERS = (
    (re.compile(r"\bpy\.?test\b"), TestRunner.PYTEST),
    (re.compile(r"\bvitest\b"), TestRunner.VITEST),
    (re.compile(r"\bjest\b"), TestRunner.JEST),
)


def detect_test_runner(command: str) -> TestRunner:
    """Return which runner a command with `{tests}` calls."""
    found = next((runner for pattern, runner in _RUNNERS if pattern.search(command)), TestRunner.OTHER)
    return found if found or not all_tests_placeholder_arguments(command) else TestRunner.GO


def choose_evidence_check(checks: Sequence[CheckTable]) -> CheckTable | None:
    """Return the check whose tests are used for evidence: one with `evidence = true`, else one that runs tests."""
    for fits in (
        lambda check: check.evidence,
        lambda check: TESTS in check.run,
        lambda check: _TEST_COMMAND.search(check.run),
    ):
        if found := next(filter(fits, checks), None):
            return found
    return None


class TestSelection(Struct, frozen=True):
    """The tests that run for a part of a proposal."""

    __test__ = False

    names: tuple[str, ...] | None = None
    """The value of `{tests}`; None for all tests of the check."""
    words: str = "all tests of the check"
    """How they were chosen, for the user."""

    def shorten_for_command_line(self) -> "TestSelection":
        """Return a selection that fits on a command line."""
        is_long = self.names is not None and sum(map(len, self.names)) > _MAX_ARGUMENT_CHARACTERS
        return (self.to_whole_files() if is_long else None) or self

    def to_whole_files(self) -> "TestSelection | None":
        """Return the selection of the files that contain the selected tests; None if no single test is selected."""
        if self.names is None or not any("::" in name for name in self.names):
            return None
        return TestSelection(tuple(dict.fromkeys(name.partition("::")[0] for name in self.names)), self.words)

    def union(self, other: "TestSelection") -> "TestSelection":
        """Return the union of both selections."""
        if self.names is None or other.names is None:
            return TestSelection() if self.names is not None else self
        names = tuple(dict.fromkeys((*self.names, *other.names)))
        words = self.words
        if words != other.words:
            ways = {word.rpartition(", ")[2] for word in (words, other.words)}
            words = f"for each hunk those that could notice it, {' or '.join(sorted(ways))}"
        return TestSelection(names, words).shorten_for_command_line()


@dataclass(slots=True)
class TestSelector:
    """Chooses tests for parts of one proposal; its methods block.

    Args:
        check: The check whose tests are chosen.
        texts: The text of each file after the proposal, by path; None for a removed file.
    """

    __test__ = False

    workspace: Workspace
    check: CheckTable
    texts: Mapping[str, str | None]
    _graph: ImportGraph | None = field(default=None, init=False)

    def select(self, paths: Collection[str], lines: Mapping[str, Collection[int]]) -> TestSelection:
        """Return the tests for a change of these files.

        Args:
            paths: The changed files.
            lines: Their changed lines on disk, from 1; for an insertion the lines beside it.
        """
        runner = detect_test_runner(self.check.run)
        if TESTS not in self.check.run or runner is TestRunner.OTHER:
            return TestSelection()
        if runner is TestRunner.JEST:
            return TestSelection(("--findRelatedTests", *sorted(paths)), "what jest finds related")
        if runner is TestRunner.VITEST:
            return TestSelection(("related", "--run", *sorted(paths)), "what vitest finds related")
        if runner is TestRunner.GO:
            # Go's cache skips packages that have not changed.
            return TestSelection(
                all_tests_placeholder_arguments(self.check.run), "all packages, by go's cache those that changed"
            )
        if any(not path.endswith(".py") for path in paths):
            return TestSelection()
        recorded, where = find_tests_that_ran_lines(self.workspace, lines)
        recorded = frozenset(each for each in recorded if self._exists_after_proposal(each.partition("::")[0]))
        new = {path for path, text in self.texts.items() if text is not None and _is_python_test(path)}
        if recorded:
            beside = [path for path in self._import_graph().tests_that_import(paths) if path in new]
            names = sorted({*beside, *(each for each in recorded if each.partition("::")[0] not in beside)})
            return TestSelection(
                tuple(names), f"{format_count(len(recorded), 'test')} that ran it before, by {where}"
            ).shorten_for_command_line()
        files = self._import_graph().tests_that_import(paths)
        if not files:
            return TestSelection()
        every = len(self._import_graph().tests)
        return TestSelection(files, f"{len(files):,} of {format_count(every, 'test file')}, by imports")

    def _exists_after_proposal(self, path: str) -> bool:
        if path in self.texts:
            return self.texts[path] is not None
        return (self.workspace.root / path).is_file()

    def _import_graph(self) -> ImportGraph:
        if self._graph is None:
            paths = {*self.texts, *(path for path in self.workspace.walk_files() if path.endswith(".py"))}
            there = [path for path in paths if self.texts.get(path, "") is not None]
            self._graph = build_import_graph(there[:_MAX_FILES], self._read_text)
            self._graph.tests = filter_tests_collected_by_default(self._graph.tests, self._read_text)
        return self._graph

    def _read_text(self, path: str) -> str:
        """Return the text of a file after the proposal; empty if it can't be read."""
        if (text := self.texts.get(path)) is not None:
            return text
        try:
            return self.workspace.read(path, _MAX_SOURCE_BYTES).decode("utf-8", "replace")
        except (OSError, WorkspaceError):
            return ""


def _is_python_test(path: str) -> bool:
    return path.endswith(".py") and is_test_or_test_data(path)
