"""What a proposal's tests tell of its hunks, on layers that hold it without them."""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.automation.evidence.evidence_runner import FilesChangedDuringTests
from app.automation.evidence.proposal_evidence import ProposalTestEvidence, hunks_unnoticed_by_tests_as_feedback
from app.config.settings import CheckTable
from app.proposals.values.models import Proposal
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from app.sandbox.captured_changes import FileOrLink, PathChange
from tests.waiting import until

pytestmark = pytest.mark.layer

RUNNER = """
import importlib, os, re, sys, traceback
sys.path.insert(0, "."); sys.dont_write_bytecode = True
names = sys.argv[1:] or sorted(f"tests/{each}" for each in os.listdir("tests") if each.startswith("test_"))
open(os.environ["RUNS"], "a").write(" ".join(names) + "\\n") if "RUNS" in os.environ else None
cases = []
for name in dict.fromkeys(name.split("::")[0] for name in names):
    wanted = [each.split("::")[1] for each in names if each.startswith(name + "::")]
    module = name[:-3].replace("/", ".")
    try:
        tests = vars(importlib.import_module(module))
    except Exception:
        cases.append((name, "", module, "<error message='collection failure'/>"))
        continue
    for test in [each for each in tests if each.startswith("test") and (not wanted or each in wanted)]:
        try:
            tests[test](); said = ""
        except Exception as error:
            said = f"<failure message='{type(error).__name__}'/>"
        cases.append((name, module, test, said))
body = "".join(f"<testcase file='{f}' classname='{c}' name='{n}'>{s}</testcase>" for f, c, n, s in cases)
report = re.search(r"--junitxml=(\\S+)", os.environ["PYTEST_ADDOPTS"])[1]
open(report, "w").write(f"<testsuites>{body}</testsuites>")
sys.exit(any(said for *_, said in cases))
"""
"""Runs tests as pytest does, as far as this needs it, in a twentieth of the time."""

SHOP = {
    "shop.py": "import math\n\n\ndef total(items):\n    return sum(items)\n\n\n"
    "def down(value):\n    return math.floor(value)\n",
    "tests/__init__.py": "",
    "tests/test_shop.py": "import shop\n\n\ndef test_total():\n    assert shop.total([1, 2]) == 3\n",
    "tests/test_else.py": "def test_else():\n    pass\n",
}


@pytest.fixture
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenWorkspace]:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    root = tmp_path / "ws"
    for path, text in {**SHOP, "pytest.py": RUNNER}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    opened = open_workspace(root, {}, {})
    yield opened
    opened.close()


def stage(runtime: OpenWorkspace, **texts: str) -> Proposal:
    draft = runtime.service.new_draft("")
    for name, text in texts.items():
        draft.write({"shop": "shop.py", "tests": "tests/test_shop.py"}.get(name, name), text)
    return runtime.service.stage(draft, "Edit")


def edited(*changes: tuple[str, str], path: str = "shop.py") -> str:
    text = SHOP[path]
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


RUN = f"{sys.executable} ./pytest.py {{tests}}"
REAL_PYTEST = (
    f"PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 {sys.executable} -m pytest -q --no-header -p no:cacheprovider {{tests}}"
)
"""Without the plugins of this environment, which take longer to import than it."""


def collect(
    runtime: OpenWorkspace,
    proposal: Proposal,
    run: str = RUN,
    *,
    chosen: set[str] | None = None,
    seconds: float = 60,
) -> ProposalTestEvidence:
    check = CheckTable.model_validate({"name": "tests", "run": run})
    return asyncio.run(runtime.evidence.collect_evidence(proposal.id, chosen, check, seconds))


def words(found: ProposalTestEvidence) -> list[str]:
    return [mark.description for mark in sorted(found.marks.values(), key=lambda mark: mark.hunk)]


HELD = "held by tests/test_shop.py::test_total"
UNNOTICED = "none of the tests that ran notices"


def test_the_tests_of_a_proposal_are_run_without_its_code(runtime: OpenWorkspace) -> None:
    ten = "\n\ndef test_ten():\n    assert shop.total([1]) == 10\n"
    idle = "\n\ndef test_idle():\n    shop.down(1)\n"
    (runtime.workspace.root / "tests/test_shop.py").write_text("import shop\n")
    proposal = stage(runtime, shop=edited(("sum(items)", "10 * sum(items)")), tests=f"import shop\n{ten}")
    assert words(collect(runtime, proposal)) == ["held by tests/test_shop.py::test_ten", "red without the change"]
    runtime.service.deny(proposal.id)
    proposal = stage(runtime, shop=edited(("sum(items)", "sum(items) + 0")), tests=f"import shop\n{idle}")
    assert words(collect(runtime, proposal)) == [UNNOTICED, "green without the change: tests nothing new"]
    runtime.service.deny(proposal.id)
    proposal = stage(runtime, tests=f"import shop\n{idle}")
    assert words(collect(runtime, proposal)) == ["not run: no code changes with it"]


def test_a_hunk_needed_to_load_or_a_flaky_test_gives_no_evidence(runtime: OpenWorkspace) -> None:
    root = runtime.workspace.root

    def verdicts(test: str, proposed: str) -> list[str]:
        (root / "tests/test_shop.py").write_text(test)
        proposal = stage(runtime, shop=proposed)
        said = words(collect(runtime, proposal))
        runtime.service.deny(proposal.id)
        return said

    test = "from shop import new\n\ndef test_new():\n    new()\n"
    assert verdicts(test, SHOP["shop.py"] + "\n\ndef new():\n    pass\n") == ["needed to load"]
    # It passes when it is run alone, as a failed one is the second time.
    test = "import sys, shop\n\n\ndef test_total():\n    assert shop.total([1]) == 2 or '::' in sys.argv[1]\n"
    flaky = "flaky: tests/test_shop.py::test_total fails now and then, which says nothing"
    assert verdicts(test, edited(("sum(items)", "2 * sum(items)"))) == [flaky]
    # A function and a call of it at the top of the module, of which neither goes without the other.
    old = "def make(a):\n    return a\n\n\nKEPT = 0\n\n\nMADE = make(1)\n"
    (root / "shop.py").write_text(old)
    assert verdicts(
        "import shop\n\n\ndef test_a():\n    pass\n", old.replace("(a)", "(a, b)").replace("(1)", "(1, 2)")
    ) == [f"{UNNOTICED}, taken out with hunk {other}" for other in (2, 1)]


def test_a_check_without_test_names_runs_completely(runtime: OpenWorkspace) -> None:
    proposal = stage(runtime, shop=edited(("sum(items)", "10 * sum(items)"), ("math.floor(value)", "int(value)")))
    found = collect(runtime, proposal, "grep -q '10 [*]' shop.py")
    assert words(found) == ["held by the check", UNNOTICED]
    assert found.selection == "all tests of the check"
    assert words(collect(runtime, proposal, "false")) == ["not run: the check fails with the proposal"] * 2
    assert words(collect(runtime, proposal, "no-such-command")) == ["not run: command not found"] * 2


JEST = """
import sys
names = sys.argv[2:] if "--findRelatedTests" in sys.argv else ["shop.py"]
if "shop.py" not in names:
    sys.exit(print("No tests found, exiting with code 1") or 1)
if "sum(items)" not in open("shop.py").read():
    sys.exit(print("  \u25cf total \u203a adds\\n\\nTests: 1 failed, 1 total") or 1)
print("Tests: 1 passed, 1 total")
"""
"""As jest: one test is related to shop.py, and none to any other file."""


def test_a_file_without_related_tests_uses_the_tests_of_other_files(runtime: OpenWorkspace) -> None:
    (runtime.workspace.root / "jest.py").write_text(JEST)
    (runtime.workspace.root / "shop.py").write_text(edited(("sum(items)", "1")))
    run = f"{sys.executable} ./jest.py {{tests}}"
    proposal = stage(runtime, shop=SHOP["shop.py"], **{"other.py": "a = 1\n"})
    found = collect(runtime, proposal, run)
    assert sorted(words(found)) == ["held by total › adds", UNNOTICED]
    runtime.service.deny(proposal.id)
    (runtime.workspace.root / "shop.py").write_text(SHOP["shop.py"])
    found = collect(runtime, stage(runtime, **{"other.py": "a = 1\n"}), run)
    assert words(found) == [UNNOTICED]
    assert found.selection == "all tests of the check"


def test_results_belong_to_exact_bytes_are_cached_and_quoted_for_the_model(
    runtime: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    executed: list[object] = []
    run_behind = runtime.checks.run_at_low_priority

    async def count(work: object) -> object:
        executed.append(work)
        return await run_behind(work)  # type: ignore[arg-type]

    monkeypatch.setattr(runtime.checks, "run_at_low_priority", count)
    proposal = stage(runtime, shop=edited(("sum(items)", "sum(items) + 0"), ("math.floor(value)", "int(value)")))
    first = collect(runtime, proposal)
    assert len(executed) == 3, "the whole, and without each hunk"
    diffs = runtime.service.file_diffs(proposal.id)
    quoted = hunks_unnoticed_by_tests_as_feedback(first, diffs)
    assert "shop.py @@ -5 +5 @@: none of the tests that ran notices" in quoted
    assert "+    return sum(items) + 0\n" in quoted
    assert hunks_unnoticed_by_tests_as_feedback(ProposalTestEvidence(proposal.id, 1), diffs) == ""
    assert collect(runtime, proposal).marks == first.marks
    assert len(executed) == 3
    one = {proposal.hunks[0].id}
    assert words(collect(runtime, proposal, chosen=one)) == [UNNOTICED]
    assert len(executed) == 4, "the first hunk alone is what was left without the second; only the disk is new"


def test_evidence_without_time_is_reported_and_found_by_the_next_call(runtime: OpenWorkspace) -> None:
    proposal = stage(runtime, shop=edited(("sum(items)", "sum(items) + 0"), ("math.floor(value)", "int(value)")))
    found = collect(runtime, proposal, "sleep 0.4", seconds=1.0)
    assert words(found).count("not run: no time was left") >= 1
    assert found.is_cut_short
    for _ in range(4):
        found = collect(runtime, proposal, "sleep 0.4", seconds=1.0)
    assert words(found) == [UNNOTICED, UNNOTICED]


def test_endless_tests_without_a_hunk_leave_time_for_other_hunks(
    runtime: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.automation.evidence.evidence_runner._MIN_LIMIT_SECONDS", 1.0)
    loop = "    while True:\n        __import__('time').sleep(1)\n"
    (runtime.workspace.root / "shop.py").write_text(edited(("    return sum(items)\n", loop)))
    proposal = stage(runtime, shop=edited(("math.floor(value)", "int(value)")))
    endless, other = words(collect(runtime, proposal, seconds=40))
    assert endless.startswith("not run: no end after ")
    assert other == UNNOTICED


def test_files_changed_during_the_tests_invalidate_the_evidence(runtime: OpenWorkspace) -> None:
    proposal = stage(runtime, shop=edited(("sum(items)", "sum(items) + 0")))
    other = runtime.workspace.root / "other.py"

    async def change_meanwhile() -> None:
        check = CheckTable.model_validate({"name": "tests", "run": "sleep 1"})
        collecting = asyncio.create_task(runtime.evidence.collect_evidence(proposal.id, None, check, 60))
        await until(lambda: runtime.checks._low_priority_work is not None, "a run")
        other.write_text("x = 1\n")
        await collecting

    with pytest.raises(FilesChangedDuringTests):
        asyncio.run(change_meanwhile())


def test_a_check_interrupts_a_running_evidence_collection(runtime: OpenWorkspace) -> None:
    proposal = stage(runtime, shop=edited(("sum(items)", "sum(items) + 0")))
    order: list[str] = []

    async def both() -> ProposalTestEvidence:
        slow = CheckTable.model_validate({"name": "tests", "run": f"sleep 0.5; {RUN}"})
        quick = CheckTable.model_validate({"name": "quick", "run": "true"})

        def tell(found: ProposalTestEvidence) -> None:
            if found.tests and "evidence" not in order:
                order.append("evidence")

        collecting = asyncio.create_task(runtime.evidence.collect_evidence(proposal.id, None, slow, 60, tell))
        await until(lambda: runtime.checks._low_priority_work is not None, "a run")
        await runtime.checks.run_check(quick, runtime.service.versions_to_check(proposal.id))
        order.append("check")
        return await collecting

    assert words(asyncio.run(both())) == [UNNOTICED]
    assert order == ["check", "evidence"]


def test_evidence_is_found_for_proposals_on_disk(runtime: OpenWorkspace) -> None:
    root = runtime.workspace.root
    (root / "tests/test_shop.py").write_text(SHOP["tests/test_shop.py"].replace("== 3", "== 30"))
    old = {"shop.py": FileOrLink(SHOP["shop.py"].encode(), 0o644)}
    new = edited(("sum(items)", "10 * sum(items)"))
    (root / "shop.py").write_text(new)
    changes = [PathChange("shop.py", old["shop.py"], FileOrLink(new.encode(), 0o644))]
    proposal = runtime.service.stage_changes(changes, ProposalOrigin(kind=OriginKind.DISK), "Edit", on_disk=True)
    assert words(collect(runtime, proposal)) == [HELD]
    assert (root / "shop.py").read_text() == new


def test_pytest_names_the_test_that_holds_a_hunk_and_a_file_that_does_not_load(runtime: OpenWorkspace) -> None:
    root = runtime.workspace.root
    (root / "pytest.py").unlink()
    (root / "tests/test_bad.py").write_text("import shop\nimport no_such_module_here\n")
    (root / "tests/test_shop.py").write_text(
        SHOP["tests/test_shop.py"].replace("== 3", "== 30") + "\n\ndef test_down():\n    assert shop.down(1.5) == 1\n"
    )
    proposal = stage(runtime, shop=edited(("sum(items)", "10 * sum(items)"), ("math.floor(value)", "int(value)")))
    found = collect(runtime, proposal, REAL_PYTEST)
    assert words(found) == [HELD, UNNOTICED]
    assert found.selection == "2 of 3 test files, by imports, tests/test_bad.py does not load"
    assert found.tests == 2
    assert (root / "shop.py").read_text() == SHOP["shop.py"], "nothing was written"
