"""Changed lines that no test runs, from the coverage report that a check's run leaves on its layer."""

import asyncio
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.automation.check_results import (
    ProposalCheckResult,
    ProposalChecks,
    format_failures_for_model,
    uncovered_lines_as_feedback,
)
from app.config.settings import CheckTable
from app.copies import replace
from app.proposals.values.models import Proposal
from app.runtime.open_workspace import OpenWorkspace, open_workspace

pytestmark = pytest.mark.layer

SHOP = "def total(items):\n    return sum(items)\n\n\nclass Till:\n    money = 0\n\n\ndef last():\n    return 1\n"
PROPOSED = SHOP.replace(
    "    return sum(items)\n",
    "    if not items:\n        print('none')\n        return 0\n    return sum(items)\n",
).replace("    return 1\n", "    value = 2\n    return value\n")
"""Line 3 and 4 are run by no test; line 12 and 13 are in the second hunk."""
TEST = "import shop\nassert shop.total([1, 2]) == 3\nshop.last()\n"
COVERAGE = f"{shlex.quote(sys.executable)} -m coverage"
COVERAGE_PY = f"{COVERAGE} run --data-file=.data test_shop.py && {COVERAGE} xml -q --data-file=.data"
RUN = "printf 'SF:shop.py\\nDA:2,1\\nDA:3,0\\nDA:4,0\\nDA:5,1\\nDA:13,1\\nDA:14,1\\n' > lcov.info"
"""Writes what coverage.py finds, in a tenth of its time."""


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenWorkspace]:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    root = tmp_path / "ws"
    root.mkdir()
    (root / "shop.py").write_text(SHOP)
    (root / "test_shop.py").write_text(TEST)
    opened = open_workspace(root, {}, {})
    yield opened
    opened.close()


def stage(runtime: OpenWorkspace, **texts: str) -> Proposal:
    draft = runtime.service.new_draft("")
    for name, text in (texts or {"shop.py": PROPOSED}).items():
        draft.write(name, text)
    return runtime.service.stage(draft, "Edit")


def run(
    runtime: OpenWorkspace, command: str = RUN, *, hunks: tuple[str, ...] | None = None, **more: object
) -> ProposalCheckResult:
    check = CheckTable.model_validate({"name": "tests", "run": command, **more})
    return asyncio.run(runtime.checks.run_check(check, runtime.service.versions_to_check("P1", hunks)))


def missed(result: ProposalCheckResult) -> list[str]:
    return [f"{one.path}:{one.line}" for one in result.changed_lines(is_run=False)]


def problem(result: ProposalCheckResult) -> str:
    assert result.outcome is not None
    assert result.outcome.coverage is not None
    assert not missed(result)
    return result.outcome.coverage.problem


def test_coverage_py_on_the_layer_finds_uncovered_changed_lines(runtime: OpenWorkspace) -> None:
    stage(runtime)
    by_source = COVERAGE_PY.replace("coverage run", "coverage run --source=.")
    for command in (COVERAGE_PY, by_source.replace("xml -q", "lcov -q -o lcov.info"), RUN):
        result = run(runtime, command)
        assert missed(result) == ["shop.py:3", "shop.py:4"], command
        assert "3 of 5 changed lines run" in result.summary
        assert result.as_record.words.endswith("; not run: shop.py:3, shop.py:4")
        names = ("coverage.xml", "lcov.info", ".data")
        assert not any((runtime.workspace.root / name).exists() for name in names)
    assert not missed(replace(result, stale="before a.py changed")), "an outdated result has no marks"
    result = run(runtime, f"sed -i '1i # moved' shop.py; {RUN}")
    assert problem(result) == "the check itself has changed shop.py"
    result = run(runtime, f"{RUN}; ! grep -q none shop.py || {{ echo 1 failed; exit 1; }}")
    assert missed(result) and "changed lines" in result.summary
    said = format_failures_for_model([result])
    assert "fails on this proposal" in said
    assert "changed line" not in said and "shop.py:3" not in said
    result = run(runtime, coverage="off")
    assert result.outcome is not None and result.outcome.coverage is None


def test_lines_that_no_check_runs_are_assigned_to_their_hunks(runtime: OpenWorkspace) -> None:
    proposal = stage(runtime)
    first, second = proposal.hunks
    report = write("SF:shop.py\n" + "".join(f"DA:{line},0\n" for line in range(1, 15)), "lcov.info")
    alone = run(runtime, report, hunks=(second.id,))
    assert [(one.line, one.hunk, one.offset) for one in alone.changed_lines(is_run=False)] == [
        (10, second.id, 0),
        (11, second.id, 1),
    ]
    assert {one.hunk for one in run(runtime, report).changed_lines(is_run=False)} == {first.id, second.id}
    other = run(runtime, write('<coverage><class filename="shop.py"><line number="3" hits="1"/></class></coverage>'))
    checked = ProposalChecks("P1", 1, (run(runtime), other))
    assert [one.line for one in checked.uncovered_lines] == [4], "what any check runs is covered"
    assert uncovered_lines_as_feedback(checked).splitlines()[1:] == ["shop.py:4"]


def test_a_coverage_report_on_disk_or_in_the_proposal_says_nothing(runtime: OpenWorkspace) -> None:
    (runtime.workspace.root / "coverage.xml").write_text(cobertura("shop.py"))
    stage(runtime, **{"shop.py": PROPOSED, "lcov.info": "SF:shop.py\nDA:3,0\n"})
    result = run(runtime, "true")
    assert result.outcome is not None and result.outcome.coverage is None
    assert problem(run(runtime, "true", coverage="coverage.xml")) == "the check did not write it"


def write(text: str, name: str = "coverage.xml") -> str:
    return f"mkdir -p $(dirname {name}); printf %s {shlex.quote(text)} > {name}"


def cobertura(*names: str, source: str = "") -> str:
    sources = f"<sources><source>{source}</source></sources>" if source else ""
    line = '<lines><line number="3" hits="0"/><line number="2" hits="7"/></lines>'
    classes = "".join(f'<class filename="{name}">{line}</class>' for name in names)
    return f"<coverage>{sources}{classes}</coverage>"


JACOCO = (
    '<!DOCTYPE report PUBLIC "-//JACOCO//DTD Report 1.1//EN" "report.dtd"><report name="r">'
    '<package name="{}"><class name="Shop" sourcefilename="shop.py"/><sourcefile name="shop.py">'
    '<line nr="2" mi="0" ci="3" mb="0" cb="0"/><line nr="3" mi="2" ci="0" mb="0" cb="0"/>'
    "</sourcefile></package></report>"
)


REPORTS = (
    (write(cobertura("shop.py")), "shop.py"),
    (write(cobertura("shop.py", source="lib")), "lib/shop.py"),
    (write(cobertura("lib/shop.py", source=".")), "lib/shop.py"),
    (write(cobertura("shop.py", source="/elsewhere")), ""),
    (write(cobertura("../ws/shop.py")), "shop.py"),
    (write(cobertura("other/shop.py")), ""),
    ('printf "SF:$PWD/lib/shop.py\\nDA:2,1\\nDA:3,0\\nend_of_record\\n" > lcov.info', "lib/shop.py"),
    ("mkdir -p lib/coverage; printf 'SF:../shop.py\\nDA:2,1,abc=\\nDA:3,0\\n' > lib/coverage/lcov.info", ""),
    (write("SF:shop.py\nDA:2,1\nDA:3,0\n", "lcov.info"), "shop.py"),
    (write(JACOCO.format("com/example")), "com/example/shop.py"),
    (write(JACOCO.format("example")), ""),
)


def test_files_are_found_by_all_path_forms_of_coverage_reports(runtime: OpenWorkspace) -> None:
    names = ("shop.py", "lib/shop.py", "com/example/shop.py", "x/example/shop.py", "packages/a/src/x.js")
    stage(runtime, **dict.fromkeys(names, "a\nb\nc\n"))
    for command, path in REPORTS:
        assert missed(run(runtime, command)) == ([f"{path}:3"] if path else []), command
    below = "packages/a/coverage/lcov.info"
    result = run(runtime, write("SF:src/x.js\nDA:3,0\n", below), coverage=below)
    assert missed(result) == ["packages/a/src/x.js:3"], "from the folder of the report"
    ambiguous = run(runtime, write(cobertura("shop.py", source="lib</source><source>.")))
    assert not missed(ambiguous) and "changed line" not in ambiguous.summary


BOMB = '<!DOCTYPE c [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><coverage>&b;</coverage>'


HOSTILE = (
    (write(BOMB), "it declares an entity", "coverage.xml"),
    (write("<coverage><class"), "no XML", "coverage.xml"),
    (write("<html></html>"), "no coverage report", "coverage.xml"),
    (write("no report"), "no coverage report", "coverage.xml"),
    (write(cobertura("shop.py").replace("2", "x")), "damaged", "coverage.xml"),
    (write('<coverage><class name="shop.py"/></coverage>'), "damaged", "coverage.xml"),
    (write("SF:shop.py\nDA:3\n", "lcov.info"), "damaged", "lcov.info"),
    (write(f"SF:shop.py\nDA:{'9' * 5000},1\n", "lcov.info"), "damaged", "lcov.info"),
    ("truncate -s 33M coverage.xml", "larger than 33,554,432 bytes", "coverage.xml"),
    ("ln -s /etc/passwd coverage.xml", "symbolic link", "coverage.xml"),
    ("ln -s /etc coverage", "", "coverage/lcov.info"),
    ("mkfifo coverage.xml", "", "coverage.xml"),
    ("mkdir coverage.xml", "", "coverage.xml"),
)


def test_a_damaged_huge_or_hostile_report_is_one_line(runtime: OpenWorkspace) -> None:
    stage(runtime)
    for command, says, report in HOSTILE:
        result = run(runtime, command, coverage=report)
        assert result.state == "passed"
        assert says in problem(result) and "\n" not in result.summary


def test_a_coverage_setting_names_no_path_outside() -> None:
    for path in ("../coverage.xml", "/tmp/coverage.xml", ""):
        with pytest.raises(ValueError, match="coverage"):
            CheckTable.model_validate({"name": "x", "run": "true", "coverage": path})
