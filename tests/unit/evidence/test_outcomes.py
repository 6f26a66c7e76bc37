"""What a run of tests did is read from the report of pytest, or from what a runner prints."""

import pytest

from app.automation.check_results import CheckRunResult, CheckState
from app.automation.evidence.suite_outcome import SuiteOutcome, read_suite_outcome
from app.automation.tool_reports import ToolReportError, iterate_xml_elements

REPORT = b"""<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite>
<testcase classname="" name="sub.test_b" file="sub/test_b.py"><error message="collection failure">x</error></testcase>
<testcase classname="test_a.TestC" name="test_m[a - b]" file="test_a.py"><failure message="AssertionError: no
more">E</failure></testcase>
<testcase classname="test_a.TestC" name="test_m[2]" file="test_a.py" />
<testcase classname="tests.test_c" name="test_ok" file="tests/test_c.py" />
<testcase classname="test_a" name="test_err" file="test_a.py"><error message="failed on setup"/></testcase>
<testcase classname="test_a" name="test_s" file="test_a.py"><skipped message="no"/></testcase>
</testsuite></testsuites>"""


def failed(output: str, code: int = 1) -> CheckRunResult:
    return CheckRunResult(CheckState.FAILED, code, 1.0, output)


def test_a_report_gives_the_test_ids_of_pytest() -> None:
    found = read_suite_outcome(failed("whatever"), REPORT)
    assert found.failed == {
        "test_a.py::TestC::test_m[a - b]": "AssertionError: no more",
        "test_a.py::test_err": "failed on setup",
    }
    assert found.passed == {"test_a.py::TestC::test_m[2]", "tests/test_c.py::test_ok"}, "a skipped one has not passed"
    assert found.broken == {"sub/test_b.py"}


def test_a_report_that_declares_entities_is_not_read_and_a_document_type_loads_nothing() -> None:
    bomb = b'<!DOCTYPE a [<!ENTITY b "c"><!ENTITY d "&b;&b;">]><a>&d;</a>'
    with pytest.raises(ToolReportError, match="entity"):
        list(iterate_xml_elements(bomb))
    assert read_suite_outcome(failed("FAILED test_a.py::test_b - no"), bomb).failed == {"test_a.py::test_b": "no"}
    report = b'<!DOCTYPE report PUBLIC "-//JACOCO//DTD Report 1.1//EN" "file:///etc/passwd"><report name="x"/>'
    assert [(name, dict(said)) for name, said in iterate_xml_elements(report)] == [("report", {"name": "x"})]


def test_failed_tests_are_read_from_printed_output() -> None:
    for output, names in (
        ("FAILED tests/test_a.py::test_b - assert 1 == 2\n1 failed, 3 passed", ["tests/test_a.py::test_b"]),
        (
            "FAIL: test_b (tests.test_a.TestA.test_b)\nERROR: test_c (tests.test_a.TestA.test_c)\n"
            "Ran 3 tests in 0.1s\n\nFAILED (failures=1, errors=1)",
            ["tests.test_a.TestA.test_b", "tests.test_a.TestA.test_c"],
        ),
        ("FAIL src/a.test.js\n  ● adds › two numbers\n\nTests: 1 failed", ["adds › two numbers"]),
        (" FAIL  test/a.test.js > sums > adds two\nAssertionError: no", ["test/a.test.js > sums > adds two"]),
        (
            "    2) adds two\n\n  3 passing (53ms)\n  2 failing\n\n  1) sums\n       of two\n         adds: them:\n\n"
            "      AssertionError: no\n\n  2) adds two:\n     Error: no\n",
            ["sums of two adds: them", "adds two"],
        ),
        ("--- FAIL: TestAdd (0.00s)\nFAIL\tshop/price\t0.01s", ["TestAdd"]),
        ("test price::adds ... FAILED\ntest result: FAILED", ["price::adds"]),
        ("ok 1 - a\nnot ok 2 - adds two\n# fail 1", ["adds two"]),
        (
            "# Subtest: sums\n    not ok 1 - adds two\n      ---\n      duration_ms: 1.8\n      ...\n"
            "    1..1\nnot ok 1 - sums\n  ---\n  duration_ms: 22.8\n  type: 'suite'\n  ...\n# pass 3",
            ["adds two"],
        ),
        (
            "▶ sums\n  ✖ adds two (1.6ms)\n✖ sums (19.3ms)\nℹ pass 3\n\n✖ failing tests:\n\ntest at a.test.js:4:26\n"
            "✖ adds two (1.6ms)\n",
            ["adds two"],
        ),
        ("something is wrong", [""]),
    ):
        assert list(read_suite_outcome(failed(output), b"").failed) == names, output


def test_code_that_does_not_load_is_not_a_test_failure() -> None:
    for output, code in (
        ("ERROR tests/test_a.py\nInterrupted: 1 error during collection", 2),
        ("ImportError while loading conftest '/w/conftest.py'. pytest", 4),
        ("ERROR: tests.test_a (unittest.loader._FailedTest.tests.test_a)\nFAILED (errors=1)", 1),
        ("FAIL src/a.test.js\n  ● Test suite failed to run\n    SyntaxError: no", 1),
        ("⎯⎯ Failed Suites 1 ⎯⎯\n\n FAIL  test/a.test.js [ test/a.test.js ]\nError: no", 1),
        ("\n Exception during run: Error: no\n    at Object.<anonymous> (a.js:4:7)", 1),
        ("not ok 1 - /w/test/a.test.js\n  ---\n  duration_ms: 3.7\n  exitCode: 1\n  ...\nok 2 - else\n# pass 1", 1),
        ("✔ else (13.3ms)\n\n✖ failing tests:\n\ntest at test/a.test.js:1:1\n✖ /w/test/a.test.js (4.5ms)\n", 1),
        ("FAIL\tshop/price [build failed]", 1),
        ("error: could not compile `shop` (lib) due to 1 previous error", 101),
    ):
        found = read_suite_outcome(failed(output, code), b"")
        assert not found.failed, output
        assert found.has_only_load_failures(SuiteOutcome(True))


def named(failures: dict[str, str], *passed: str) -> SuiteOutcome:
    return SuiteOutcome(not failures, failures, frozenset(passed), named=True)


def test_only_load_failures_give_no_evidence() -> None:
    before = named({}, "a", "b")
    for outcome, loads in (
        (named({"a": "NameError: x", "b": "NameError: x"}), True),
        (named({"a": "AssertionError: x", "b": "NameError: x"}), False),
        (named({"a": "NameError: x"}, "b"), False),
        (named({"a": "assert 1 == 2"}), False),
        (named({"a": "UnboundLocalError: x", "b": "TypeError: x"}), False),
        (named({}, "a", "b"), False),
    ):
        assert outcome.has_only_load_failures(before) is loads, outcome


def test_earlier_failures_and_unfinished_runs_are_not_new_failures() -> None:
    before = named({"a": "x"}, "b")
    assert named({"a": "x", "b": "y"}).new_failures(before) == ("b",)
    assert read_suite_outcome(CheckRunResult(CheckState.TIMED_OUT, seconds=60), b"").problem == "no end after 60 s"
