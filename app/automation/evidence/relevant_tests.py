"""Chooses the tests that can notice a change: by recorded coverage, by imports, or as the test runner knows it."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from app.automation.check_runner import all_tests_argument
from app.automation.evidence.coverage_contexts import find_recorded_tests
from app.automation.evidence.import_closure import ImportGraph, build_import_graph
from app.automation.evidence.pytest_settings import filter_by_test_paths
from app.config.config_tables import TESTS
from app.config.settings import CheckTable
from app.proposals.risk.edited_file import is_test
from app.text.plural import plural
from app.workspace.path_rules import WorkspaceError
from app.workspace.paths import Workspace

_MOST_FILES = 20_000
_LARGEST = 1 << 20
"""Bytes of a file whose imports are read."""
_LONGEST = 50_000
"""Characters of test names on one command line; of more, the files are named."""
_TEST_COMMAND = re.compile(
    r"\b(?:py\.?test|unittest|tox|nox|jest|vitest|mocha|ava|rspec|phpunit|ctest|nextest|gotestsum)\b"
    r"|\b(?:npm|pnpm|yarn|bun|make|just|cargo|go|mvn|gradle|gradlew|dotnet|mix|rake|node|deno) (?:run )?(?:--)?test\b"
)


class TestRunner(StrEnum):
    """The form in which a command takes the names of tests."""

    __test__ = False
    PYTEST = "pytest"
    JEST = "jest"
    VITEST = "vitest"
    GO = "go"
    OTHER = ""
    """It can't be told: it runs as a whole."""


_RUNNERS = (
    (re.compile(r"\bpy\.?test\b"), TestRunner.PYTEST),
    (re.compile(r"\bvitest\b"), TestRunner.VITEST),
    (re.compile(r"\bjest\b"), TestRunner.JEST),
)


def detect_test_runner(command: str) -> TestRunner:
    """Return which runner a command with `{tests}` calls."""
    found = next((runner for pattern, runner in _RUNNERS if pattern.search(command)), TestRunner.OTHER)
    return found if found or not all_tests_argument(command) else TestRunner.GO


def choose_evidence_check(checks: Sequence[CheckTable]) -> CheckTable | None:
    """Return the check whose tests are used for evidence: the one that says so, or else one that runs tests."""
    for fits in (
        lambda check: check.evidence,
        lambda check: TESTS in check.run,
        lambda check: _TEST_COMMAND.search(check.run),
    ):
        if found := next(filter(fits, checks), None):
            return found
    return None


@dataclass(frozen=True, slots=True)
class TestSelection:
    """The tests that run for a part of a proposal."""

    __test__ = False

    names: tuple[str, ...] | None = None
    """What `{tests}` stands for; None for all tests of the check."""
    words: str = "all tests of the check"
    """How they were chosen, for the user."""

    def shorten_for_command_line(self) -> "TestSelection":
        """Return it as it fits on a command line."""
        is_long = self.names is not None and sum(map(len, self.names)) > _LONGEST
        return (self.to_whole_files() if is_long else None) or self

    def to_whole_files(self) -> "TestSelection | None":
        """Return the selection of the whole files in which single tests are selected; None where none is."""
        if self.names is None or not any("::" in name for name in self.names):
            return None
        return TestSelection(tuple(dict.fromkeys(name.partition("::")[0] for name in self.names)), self.words)

    def union(self, other: "TestSelection") -> "TestSelection":
        """Return the selection of both."""
        if self.names is None or other.names is None:
            return TestSelection() if self.names is not None else self
        names = tuple(dict.fromkeys((*self.names, *other.names)))
        words = self.words
        if words != other.words:
            ways = {each.rpartition(", ")[2] for each in (words, other.words)}
            words = f"for each hunk those that could notice it, {' or '.join(sorted(ways))}"
        return TestSelection(names, words).shorten_for_command_line()


@dataclass(slots=True)
class TestSelector:
    """Chooses tests for parts of one proposal; its methods block.

    Args:
        workspace: As it is on disk.
        check: Whose tests are chosen.
        texts: The text of each file that the proposal leaves, by path; None for one that it removes.
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
            lines: The lines of them, from 1, as they are on disk, that are changed or stand beside what is added.
        """
        runner = detect_test_runner(self.check.run)
        if TESTS not in self.check.run or runner is TestRunner.OTHER:
            return TestSelection()
        if runner is TestRunner.JEST:
            return TestSelection(("--findRelatedTests", *sorted(paths)), "what jest finds related")
        if runner is TestRunner.VITEST:
            return TestSelection(("related", "--run", *sorted(paths)), "what vitest finds related")
        if runner is TestRunner.GO:
            # Its cache runs no package again that has not changed.
            return TestSelection(all_tests_argument(self.check.run), "all packages, by go's cache those that changed")
        if any(not path.endswith(".py") for path in paths):
            return TestSelection()
        recorded, where = find_recorded_tests(self.workspace, lines)
        recorded = frozenset(each for each in recorded if self._is_there(each.partition("::")[0]))
        new = {path for path, text in self.texts.items() if text is not None and _is_python_test(path)}
        if recorded:
            beside = [path for path in self._reaching(paths) if path in new]
            names = sorted({*beside, *(each for each in recorded if each.partition("::")[0] not in beside)})
            return TestSelection(
                tuple(names), f"{plural(len(recorded), 'test')} that ran it before, by {where}"
            ).shorten_for_command_line()
        files = self._reaching(paths)
        if not files:
            return TestSelection()
        every = len(self._imports().tests)
        return TestSelection(files, f"{len(files):,} of {plural(every, 'test file')}, by imports")

    def _is_there(self, path: str) -> bool:
        if path in self.texts:
            return self.texts[path] is not None
        return (self.workspace.root / path).is_file()

    def _reaching(self, paths: Collection[str]) -> tuple[str, ...]:
        return self._imports().tests_that_import(paths)

    def _imports(self) -> ImportGraph:
        if self._graph is None:
            paths = {*self.texts, *(each for each in self.workspace.walk_files() if each.endswith(".py"))}
            there = [path for path in paths if self.texts.get(path, "") is not None]
            read = self._read()
            self._graph = build_import_graph(there[:_MOST_FILES], read)
            self._graph.tests = filter_by_test_paths(self._graph.tests, read)
        return self._graph

    def _read(self) -> Callable[[str], str]:
        def read(path: str) -> str:
            if (text := self.texts.get(path)) is not None:
                return text
            try:
                return self.workspace.read(path, _LARGEST).decode("utf-8", "replace")
            except (OSError, WorkspaceError):
                return ""

        return read


def _is_python_test(path: str) -> bool:
    return path.endswith(".py") and is_test(path)
