"""Findings and counts in what tools print."""

import time
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from app.automation.check_results import (
    MAX_FINDINGS,
    CheckFinding,
    CheckRunResult,
    CheckState,
    ProposalCheckResult,
    count_failures,
    format_failures_for_model,
    mark_new_findings,
    parse_findings,
)
from app.copies import replace

ROOT = Path("/work space/ws")


def test_lines_that_are_findings() -> None:
    for line, expected in (
        ("app/a.py:3: text", ("app/a.py", 3, "text")),
        ("app/a.py:3:7: E501 Line too long", ("app/a.py", 3, "E501 Line too long")),
        ("./a b.c:3: error: expected ';'", ("a b.c", 3, "error: expected ';'")),
        (f"{ROOT}/x/y.ts:12:1 - error TS2304", ("x/y.ts", 12, "- error TS2304")),
        ("  --> src/main.rs:4:5 unused", ("src/main.rs", 4, "unused")),
        ("test_calc.py:3: AssertionError", ("test_calc.py", 3, "AssertionError")),
        ("../out.py:3: text", None),
        ("/etc/passwd:3: text", None),
        ("a.py:0: text", None),
        ("a.py:3:", None),
        ("at:30: text", ("at", 30, "text")),
        ("error: nothing to do", None),
    ):
        found = [(each.path, each.line, each.text) for each in parse_findings(f"noise\n{line}\n", ROOT)]
        assert found == ([expected] if expected else [])


@given(st.text(alphabet=" :a1/.\n-->", max_size=3_000))
def test_no_output_is_too_odd(output: str) -> None:
    for each in parse_findings(output, ROOT):
        assert each.line > 0
        assert not Path(each.path).is_absolute()
        assert ".." not in Path(each.path).parts
    count_failures(output)


def test_parsing_findings_takes_linear_time() -> None:
    started = time.process_time()
    parse_findings(f"{' ' * 900}:{'1' * 80}\n" * 10_000 + "a:1:" * 250_000, ROOT)
    assert time.process_time() - started < 5


def test_failures_are_counted() -> None:
    for output, expected in (
        ("1 failed, 4 passed in 0.1s", (1, "failed")),
        ("2 failed, 1 error", (2, "failed")),
        ("FAILED (failures=1, errors=2)", (3, "failed")),
        ("Found 3 errors.\n[*] 2 fixable with `--fix`.", (3, "errors")),
        ("✖ 7 problems (7 errors, 0 warnings)", (7, "errors")),
        ("all is well", None),
    ):
        assert count_failures(output) == expected


def test_findings_are_marked_new_and_bounded() -> None:
    before = [CheckFinding("a.py", 3, "x"), CheckFinding("b.py", 1, "y")]
    now = [CheckFinding("a.py", 9, "x"), CheckFinding("a.py", 10, "x"), CheckFinding("a.py", 11, "y")]
    assert [each.new for each in mark_new_findings(now, before)] == [False, True, True]
    output = "".join(f"a.py:{number}: text\n" for number in range(1, MAX_FINDINGS + 100))
    assert [each.line for each in parse_findings(output, ROOT)] == list(range(1, MAX_FINDINGS + 1))


FAILED = CheckRunResult(CheckState.FAILED, 1, failures=(3, "failed"))


def test_failures_of_a_proposal() -> None:
    for outcome, before, red, words in (
        (CheckRunResult(CheckState.PASSED, seconds=0.2), None, False, "0.2 s"),
        (CheckRunResult(CheckState.PASSED, seconds=0.2), FAILED, False, "0.2 s, 3 failed before"),
        (FAILED, CheckRunResult(CheckState.PASSED), True, "3 failed, 0 before"),
        (FAILED, FAILED, False, "3 failed, 3 before"),
        (FAILED, CheckRunResult(CheckState.FAILED, 1, failures=(1, "failed")), True, "3 failed, 1 before"),
        (CheckRunResult(CheckState.FAILED, 2), CheckRunResult(CheckState.PASSED), True, "exit 2, passed before"),
        (CheckRunResult(CheckState.FAILED, 2), CheckRunResult(CheckState.FAILED, 2), False, "exit 2, failed before"),
        (FAILED, None, True, "3 failed"),
        (replace(FAILED, findings=(CheckFinding("a.py", 1, "x"),)), FAILED, True, "3 failed, 3 before"),
        (CheckRunResult(CheckState.TIMED_OUT, seconds=30), None, True, "no end after 30 s"),
        (FAILED, CheckRunResult(CheckState.TIMED_OUT, seconds=30, failures=(1, "failed")), True, "3 failed"),
        (CheckRunResult(CheckState.BROKEN, reason="command not found"), None, False, "command not found"),
    ):
        result = ProposalCheckResult("tests", outcome.state, outcome=outcome, before=before)
        assert (result.has_new_failure, result.summary) == (red, words)


def test_passed_and_skipped_checks_are_not_reported_to_the_model_nor_is_an_empty_output() -> None:
    passed = ProposalCheckResult("x", CheckState.PASSED, outcome=CheckRunResult(CheckState.PASSED))
    assert format_failures_for_model([]) == format_failures_for_model([passed]) == ""
    silent = ProposalCheckResult("x", CheckState.FAILED, outcome=CheckRunResult(CheckState.FAILED, 1))
    assert format_failures_for_model([silent]).endswith("The check x fails on this proposal: exit 1.")
