"""Results of the tests of one run, test by test, from the report of the runner or from its output."""

import re
from collections.abc import Mapping

from msgspec import Struct, field

from app.automation.check_results import CheckRunResult, CheckState
from app.automation.tool_reports import ToolReportError, iterate_xml_elements

PYTEST_REPORT_PATH = ".signoff-evidence.xml"
"""Path of pytest's report, on the layer of the run."""
_MAX_NAMED_TESTS = 10_000
"""Maximum number of tests that are read from a report."""
_LOAD_ERROR = re.compile(
    r"(?:failed on \w+ with \"?)?(?:NameError|ImportError|ModuleNotFoundError|SyntaxError|IndentationError"
    r"|AttributeError: (?:partially initialized )?module)\b"
)
"""Error messages of a test that lacks a name or a module."""
_LOAD_EXIT_CODES = (2, 3, 4)
"""Exit codes of pytest if it could not collect tests, or not start."""
# unittest's last line is `FAILED (failures=2, errors=1)`.
_PYTEST = re.compile(r"^(?P<kind>FAILED|ERROR) (?!\(\w+=)(?P<id>\S.*?)(?: - (?P<text>.*))?$", re.MULTILINE)
_JEST_FILE = re.compile(r"^\s{0,2}FAIL\s+(?P<id>\S+)", re.MULTILINE)
_JEST_TEST = re.compile(r"^\s{0,4}● (?P<id>(?!Test suite failed to run|Console)\S.{0,300})$", re.MULTILINE)
_JEST_LOAD = re.compile(
    r"● Test suite failed to run|Failed Suites \d|Error: Failed to load|SyntaxError:", re.MULTILINE
)
_GO_TEST = re.compile(r"^\s{0,40}--- FAIL: (?P<id>\S+)", re.MULTILINE)
_GO_LOAD = re.compile(r"\[(?:build|setup) failed\]")
_RUST_TEST = re.compile(r"^test (?P<id>\S+) \.\.\. FAILED", re.MULTILINE)
_RUST_LOAD = re.compile(r"^error: could not compile", re.MULTILINE)
_UNITTEST = re.compile(r"^(?:FAIL|ERROR): \w+ \((?P<id>(?!unittest\.loader\.)[\w.]+)\)", re.MULTILINE)
_UNITTEST_LOAD = re.compile(r"^ERROR: (?P<id>[\w.]+) \(unittest\.loader\._FailedTest\b", re.MULTILINE)
_VITEST = re.compile(r"^\s{0,2}FAIL\s+(?P<id>\S+ > \S.{0,300})$", re.MULTILINE)
_MOCHA = re.compile(r"^ {2}\d{1,5}\) (?P<id>\S[^\n]{0,200}(?:\n {7,40}\S[^\n]{0,200}){0,9}):$", re.MULTILINE)
_MOCHA_LOAD = re.compile(r"^ ?Exception during run:", re.MULTILINE)
_TAP = re.compile(
    r"^\s{0,40}not ok \d+ -? ?(?P<id>\S.{0,200}?)(?: #.*)?$(?!\n\s*---\n\s*duration_ms: \S+\n\s*type: 'suite')",
    re.MULTILINE,
)
_NODE = re.compile(r"^test at \S.{0,300}\n✖ (?P<id>\S.{0,300}) \([\d.]+ms\)$", re.MULTILINE)
_NODE_FILE = re.compile(r"\S+\.[cm]?[jt]sx?")
"""What node reports as a test if a file does not load."""
_NO_TESTS_FOUND = re.compile(r"^No test(?: file)?s found\b", re.MULTILINE)
"""Output of jest and vitest if no test is related to the files."""
_PASSED = re.compile(r"\b(\d{1,7}) (?:passed|passing)\b|^ok\s+\S+|^(?:#|ℹ) pass (\d{1,7})", re.MULTILINE)


class SuiteOutcome(Struct, frozen=True):
    """The result of one test run: failed and passed tests, and files that do not load."""

    ok: bool
    """Whether the command ended with 0."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """First line of the error message of each failed test, by id."""
    passed: frozenset[str] = frozenset()
    """Ids of the passed tests; empty if the runner names only failures."""
    broken: frozenset[str] = frozenset()
    """Files or packages that could not be loaded; one empty name if the runner does not name them."""
    named: bool = False
    """Whether every test that ran is named."""
    is_empty: bool = False
    """Whether no test was found to run."""
    problem: str = ""
    """Why the run has no result: `no end after 60 s`."""
    seconds: float = 0.0

    @property
    def test_count(self) -> int:
        """Return how many tests are known to have run."""
        return len(self.passed) + len(self.failed)

    @property
    def load_errors_text(self) -> str:
        """Return which files could not be loaded: `tests/test_x.py does not load`; empty if none."""
        if len(self.broken) > 1:
            return f"{len(self.broken)} test files or packages do not load"
        return "".join(f"{name or 'a test file'} does not load" for name in self.broken)

    def new_failures(self, before: "SuiteOutcome") -> tuple[str, ...]:
        """Return the failures that are not among the earlier ones, sorted."""
        return tuple(sorted(self.failed.keys() - before.failed.keys()))

    def has_only_load_failures(self, before: "SuiteOutcome") -> bool:
        """Return whether the new failures only show that the code does not load.

        This requires that each new failure lacks a name or a module, and that a test file could not be loaded or none
        of several tests passes any more.

        Args:
            before: The outcome with the whole proposal.
        """
        new = self.new_failures(before)
        if not all(_LOAD_ERROR.match(self.failed[test]) for test in new):
            return False
        return bool(self.broken - before.broken) or (len(new) > 1 and self.named and not self.passed)


def read_suite_outcome(outcome: CheckRunResult, junit_xml: bytes) -> SuiteOutcome:
    """Return the test results of a run.

    Args:
        outcome: The outcome of the command.
        junit_xml: The JUnit XML; empty if the run wrote none.
    """
    if outcome.state is CheckState.BROKEN:
        return SuiteOutcome(False, problem=outcome.reason, seconds=outcome.seconds)
    if outcome.state is CheckState.TIMED_OUT:
        words = f"no end after {outcome.seconds:.0f} s"
        return SuiteOutcome(False, problem=words, seconds=outcome.seconds)
    ok = outcome.state is CheckState.PASSED
    if junit_xml:
        try:
            return _parse_report(ok, junit_xml, outcome.seconds)
        except ToolReportError:
            pass
    return _parse_output(ok, outcome)


def _parse_report(ok: bool, report: bytes, seconds: float) -> SuiteOutcome:
    failed: dict[str, str] = {}
    passed: dict[str, None] = {}
    broken: set[str] = set()
    name = path = ""
    for element, attributes in iterate_xml_elements(report):
        match element:
            case "testcase" if len(passed) + len(failed) < _MAX_NAMED_TESTS:
                path, name = attributes.get("file", ""), _test_id(attributes)
                passed[name] = None
            case "failure" | "error" if name:
                passed.pop(name, None)
                message = attributes.get("message", "").partition("\n")[0][:300]
                if element == "error" and message == "collection failure":
                    broken.add(path or name)
                else:
                    failed[name] = message
            case "skipped":
                passed.pop(name, None)
    return SuiteOutcome(ok, failed, frozenset(passed), frozenset(broken), named=True, seconds=seconds)


def _test_id(attributes: Mapping[str, str]) -> str:
    """Return the id of a test as pytest accepts it: `tests/test_a.py::TestB::test_c[1]`."""
    path, dotted, name = (attributes.get(key, "") for key in ("file", "classname", "name"))
    module = path.removesuffix(".py").replace("/", ".")
    inside = dotted.removeprefix(module).strip(".") if dotted.startswith(module) else ""
    return "::".join(filter(None, (path or dotted, *inside.split("."), name)))


def _parse_output(ok: bool, outcome: CheckRunResult) -> SuiteOutcome:
    """Return the results in the output of pytest, unittest, jest, vitest, mocha, node, go, cargo or TAP.

    The output names each failed test.
    """
    text = outcome.output
    passes = sum(int(match[1] or match[2] or 1) for match in _PASSED.finditer(text))
    if not passes and _NO_TESTS_FOUND.search(text):
        return SuiteOutcome(ok, is_empty=True, seconds=outcome.seconds)
    if ok:
        return SuiteOutcome(True, seconds=outcome.seconds)
    failed: dict[str, str] = {}
    broken: set[str] = set()
    for match in _PYTEST.finditer(text):
        is_load = match["kind"] == "ERROR" and "::" not in match["id"]
        if is_load:
            broken.add(match["id"])
        else:
            failed[match["id"]] = match["text"] or ""
    for pattern in (_JEST_TEST, _VITEST, _GO_TEST, _RUST_TEST, _UNITTEST, _MOCHA):
        failed |= {" ".join(match["id"].split()): "" for match in pattern.finditer(text)}
    for pattern in (_TAP, _NODE):
        names = {match["id"].strip() for match in pattern.finditer(text)}
        files = set(filter(_NODE_FILE.fullmatch, names))
        failed |= dict.fromkeys(names - files, "")
        broken |= files
    broken.update(match["id"] for match in _UNITTEST_LOAD.finditer(text))
    if not failed and any(pattern.search(text) for pattern in (_JEST_LOAD, _MOCHA_LOAD, _GO_LOAD, _RUST_LOAD)):
        broken.update(match["id"] for match in _JEST_FILE.finditer(text))
        broken = broken or {""}
    if not failed and not broken and outcome.code in _LOAD_EXIT_CODES and not passes and "pytest" in text:
        broken = {""}
    if not failed and not broken:
        # No failed test is named, so the whole command counts as one.
        failed[""] = ""
    return SuiteOutcome(False, failed, frozenset(), frozenset(broken), seconds=outcome.seconds)
