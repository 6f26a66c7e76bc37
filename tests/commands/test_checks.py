"""`signoff check` and `signoff checks suggest`, as scripts use them."""

import argparse
import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.automation.check_runner import CheckRunner
from app.cli.approve_deny_undo import approve_proposals
from app.cli.check_evidence_reproduce import collect_hunk_evidence, propose_check_tables, run_checks
from app.cli.command_output import CommandError, ExitCode
from app.cli.proposal_choice import record_proposal_as_seen
from app.proposals.values.proposal_errors import NotPending
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from app.storage.record_store import DecisionRecordReader
from app.workspace import trust

PATCH = "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n"
TABLES = """
[[check]]
name = "two"
run = "grep -Hn two {files} | sed 's/two/there is a two/' ; ! grep -q two {files}"
[[check]]
name = "one"
run = "! grep one {files}"
when = "asked"
[[check]]
name = "python"
run = "false"
files = "*.py"
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    (tmp_path / "ws").mkdir()
    (tmp_path / "ws/a.txt").write_text("one\n")
    (tmp_path / "ws/.signoff.toml").write_text(TABLES)
    return tmp_path / "ws"


@pytest.fixture
def runtime(root: Path) -> Iterator[OpenWorkspace]:
    opened = open_workspace(root, {}, {})
    configure(opened, TABLES)
    opened.service.stage_patch(PATCH)
    yield opened
    opened.close()


def asked(*, only: tuple[str, ...] = (), as_json: bool = False, hunks: str | None = None) -> argparse.Namespace:
    return argparse.Namespace(id="P1", hunks=hunks, only=list(only), json=as_json)


def configure(runtime: OpenWorkspace, tables: str, *, trusted: bool = True) -> None:
    (runtime.workspace.root / ".signoff.toml").write_text(tables)
    if trusted:
        trust.store_trust(trust.read_untrusted_workspace_configuration(runtime.workspace), runtime.sessions)
    runtime.reload()


def check_table(name: str, run: str) -> str:
    """A check that runs before an approval."""
    return f"""[[check]]\nname = "{name}"\nrun = "{run}"\nwhen = "approve"\n"""


@pytest.mark.layer
def test_check_reports_failures_in_exit_code_and_output(
    runtime: OpenWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_checks(runtime, asked(as_json=True)) == ExitCode.FAILED
    said = json.loads(capsys.readouterr().out)
    assert (said["id"], said["ok"]) == ("P1", False)
    two, one = said["checks"]
    assert (two["name"], two["state"], two["before"], two["worse"]) == ("two", "failed", "passed", True)
    assert two["findings"] == [{"path": "a.txt", "line": 1, "text": "there is a two", "new": True}]
    assert (one["name"], one["ok"], one["before"]) == ("one", True, "failed")
    assert (runtime.workspace.root / "a.txt").read_text() == "one\n"


@pytest.mark.layer
def test_a_single_check_can_be_run_also_on_some_hunks(
    runtime: OpenWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_checks(runtime, asked(only=("one",))) == ExitCode.DONE
    assert capsys.readouterr().out.startswith("one ✓ ")
    assert run_checks(runtime, asked(only=("one",), as_json=True, hunks="1")) == ExitCode.DONE
    (line,) = json.loads(capsys.readouterr().out)["checks"]
    assert (line["state"], line["stale"], len(line["tree"])) == ("passed", "", 64)
    with pytest.raises(CommandError, match="no check three") as raised:
        run_checks(runtime, asked(only=("three",)))
    assert raised.value.code == ExitCode.USAGE


def test_what_is_decided_untrusted_or_cannot_run_is_not_checked(
    runtime: OpenWorkspace, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def obstacle(_: CheckRunner) -> str:
        return "the system has no room"

    with monkeypatch.context() as patch:
        patch.setattr(CheckRunner, "unavailable_reason", obstacle)
        with pytest.raises(CommandError, match="Not checked: the system has no room"):
            run_checks(runtime, asked())
    configure(runtime, TABLES + "# another\n", trusted=False)
    with pytest.raises(CommandError, match="/trust") as raised:
        run_checks(runtime, asked())
    assert raised.value.code == ExitCode.REFUSED
    configure(runtime, check_table("never", "false"))
    runtime.service.deny("P1")
    with pytest.raises(NotPending, match="P1 is denied; only a proposal that waits can be checked"):
        run_checks(runtime, asked())
    with pytest.raises(NotPending, match="P1 is denied"):
        approve_proposals(runtime, approving())
    assert "never" not in capsys.readouterr().out


def test_suggested_checks_are_added(runtime: OpenWorkspace, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "Makefile").write_text("test:\n\ttrue\n")
    arguments = argparse.Namespace(what="suggest", json=True)
    assert propose_check_tables(runtime, arguments) == ExitCode.DONE
    said = json.loads(capsys.readouterr().out)
    assert [file["path"] for file in said["files"]] == [".signoff.toml"]
    assert (root / ".signoff.toml").read_text() == TABLES
    runtime.service.approve(said["id"])
    text = (root / ".signoff.toml").read_text()
    assert text.startswith(TABLES.strip()) and 'run = "make test"' in text
    with pytest.raises(CommandError, match="No tool was found"):
        propose_check_tables(runtime, arguments)
    (root / ".signoff.toml").write_text("nonsense")
    with pytest.raises(CommandError, match="cannot be read: ") as raised:
        propose_check_tables(runtime, arguments)
    assert raised.value.code == ExitCode.USAGE


def approving(name: str = "P1", *, hunks: str | None = None, unchecked: bool = False) -> argparse.Namespace:
    return argparse.Namespace(ids=[name], hunks=hunks, force=False, unchecked=unchecked, json=False)


@pytest.mark.layer
def test_approve_runs_checks_before_it_writes(root: Path, runtime: OpenWorkspace) -> None:
    configure(runtime, check_table("no two", "! grep two a.txt"))
    with pytest.raises(CommandError, match=r"not written: no two.*--unchecked") as refused:
        approve_proposals(runtime, approving())
    assert refused.value.code == ExitCode.REFUSED
    assert (root / "a.txt").read_text() == "one\n"
    assert approve_proposals(runtime, approving(unchecked=True)) == ExitCode.DONE
    assert (root / "a.txt").read_text() == "two\n"
    runtime.service.undo("P1")
    runtime.service.stage_patch(PATCH)
    configure(runtime, check_table("no one", "! grep one a.txt"))
    assert approve_proposals(runtime, approving("P2")) == ExitCode.DONE
    assert (root / "a.txt").read_text() == "two\n"


@pytest.mark.layer
def test_without_trust_only_checks_of_the_user_block_an_approval(root: Path, runtime: OpenWorkspace) -> None:
    own = runtime.dirs.config_file
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text(check_table("no two", "! grep two a.txt"))
    configure(runtime, TABLES + "# another\n", trusted=False)
    with pytest.raises(CommandError, match="not written: no two"):
        approve_proposals(runtime, approving())
    assert (root / "a.txt").read_text() == "one\n"
    own.unlink()
    configure(runtime, check_table("no two", "! grep two a.txt"), trusted=False)
    assert approve_proposals(runtime, approving()) == ExitCode.DONE


def test_an_unexpected_exception_in_approve_is_raised(
    runtime: OpenWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(runtime.service, "approve", broken)
    with pytest.raises(ZeroDivisionError):
        approve_proposals(runtime, approving())


TWO_HUNKS = "".join(f"line {number}\n" for number in range(20))


@pytest.mark.layer
def test_chosen_hunks_are_checked_alone_and_the_tree_is_recorded(root: Path, runtime: OpenWorkspace) -> None:
    (root / "b.txt").write_text(TWO_HUNKS)
    configure(runtime, check_table("both", "! grep -q 'Hi 2' b.txt || grep -q 'Hi 15' b.txt"))
    draft = runtime.service.new_draft("")
    draft.write("b.txt", TWO_HUNKS.replace("line 2\n", "Hi 2\n").replace("line 15\n", "Hi 15\n"))
    proposal = runtime.service.stage(draft, "Edit")
    record_proposal_as_seen(runtime, proposal.id)
    with pytest.raises(CommandError, match="not written: both exit 1"):
        approve_proposals(runtime, approving(proposal.id, hunks="1"))
    assert (root / "b.txt").read_text() == TWO_HUNKS
    tree = asyncio.run(runtime.checks.read_trees(runtime.service.versions_to_check(proposal.id))).after.id
    assert approve_proposals(runtime, approving(proposal.id)) == ExitCode.DONE
    *_, entry = DecisionRecordReader(runtime.database, runtime.name).entries()
    (fact,) = entry.circumstances.checks
    assert (fact.name, fact.state, fact.tree, fact.stale) == ("both", "passed", tree, "")


def test_coverage_of_the_changed_lines_is_in_the_document(
    runtime: OpenWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    run = "printf 'SF:a.txt\\\\nDA:1,0\\\\n' > lcov.info"
    configure(runtime, f'[[check]]\nname = "tests"\nrun = "{run}"\n')
    assert run_checks(runtime, asked(as_json=True)) is ExitCode.DONE
    (said,) = json.loads(capsys.readouterr().out)["checks"]
    missed = [{"path": "a.txt", "line": 1}]
    assert said["coverage"] == {"report": "lcov.info", "ran": 0, "missed": missed, "problem": ""}
    assert said["words"].endswith("0 of 1 changed line run")


def evidence_of(*, as_json: bool = True) -> argparse.Namespace:
    return argparse.Namespace(id="P2", hunks=None, only=None, seconds=None, json=as_json)


@pytest.fixture
def code(runtime: OpenWorkspace) -> OpenWorkspace:
    (runtime.workspace.root / "a.py").write_text("one\n")
    runtime.service.stage_patch(PATCH.replace("a.txt", "a.py"))
    return runtime


@pytest.mark.layer
def test_evidence_names_the_check_that_holds_each_hunk(
    code: OpenWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = '[[check]]\nname = "tests"\nrun = "grep -q two a.py"\nevidence = true\n'
    configure(code, tables, trusted=False)
    with pytest.raises(CommandError, match="once you trust it") as raised:
        collect_hunk_evidence(code, evidence_of())
    assert raised.value.code == ExitCode.REFUSED
    configure(code, tables)
    assert collect_hunk_evidence(code, evidence_of()) == ExitCode.DONE
    said = json.loads(capsys.readouterr().out)
    assert (said["id"], said["check"], said["unheld"], said["complete"]) == ("P2", "tests", [], True)
    [hunk] = said["hunks"]
    assert (hunk["path"], hunk["hunk"], hunk["verdict"]) == ("a.py", 1, "held")
    assert hunk["words"] == "held by the check"
    assert collect_hunk_evidence(code, evidence_of(as_json=False)) == ExitCode.DONE
    assert capsys.readouterr().out.splitlines()[1] == "a.py  hunk 1   held by the check"


@pytest.mark.layer
@pytest.mark.parametrize(("moved", "verdicts"), [(False, ["held"]), (True, [])])
def test_an_approval_records_evidence_only_of_the_same_files(
    code: OpenWorkspace, moved: bool, verdicts: list[str]
) -> None:
    configure(code, '[[check]]\nname = "tests"\nrun = "grep -q two a.py"\nwhen = "asked"\nevidence = true\n')
    assert collect_hunk_evidence(code, evidence_of()) == ExitCode.DONE
    if moved:
        (code.workspace.root / "other.txt").write_text("new\n")
    record_proposal_as_seen(code, "P2")
    assert approve_proposals(code, approving("P2")) == ExitCode.DONE
    *_, entry = DecisionRecordReader(code.database, code.name).entries()
    fact = entry.circumstances.evidence
    assert [one.verdict for one in (fact.hunks if fact else ())] == verdicts


@pytest.mark.layer
def test_evidence_without_tests_or_of_a_decided_proposal_is_refused(
    code: OpenWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CommandError, match="No check seems to run tests") as raised:
        collect_hunk_evidence(code, evidence_of())
    assert raised.value.code == ExitCode.USAGE
    configure(code, '[[check]]\nname = "tests"\nrun = "false"\nevidence = true\n')
    assert collect_hunk_evidence(code, evidence_of()) == ExitCode.FAILED
    assert json.loads(capsys.readouterr().out)["hunks"][0]["words"] == "not run: the check fails with the proposal"
    code.service.deny("P2")
    with pytest.raises(NotPending):
        collect_hunk_evidence(code, evidence_of())
