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
from app.storage.record_store import RecordStore
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
    trust.store_trust(trust.read_workspace_configuration(opened.workspace), opened.sessions)
    opened.reload()
    opened.service.stage_patch(PATCH)
    yield opened
    opened.close()


def asked(*, only: tuple[str, ...] = (), as_json: bool = False) -> argparse.Namespace:
    return argparse.Namespace(id="P1", hunks=None, only=list(only), json=as_json)


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
def test_a_single_check_can_be_run(runtime: OpenWorkspace, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_checks(runtime, asked(only=("one",))) == ExitCode.DONE
    assert capsys.readouterr().out.startswith("one ✓ ")
    with pytest.raises(CommandError, match="no check three") as raised:
        run_checks(runtime, asked(only=("three",)))
    assert raised.value.code == ExitCode.USAGE


def test_a_decided_proposal_is_not_checked(runtime: OpenWorkspace) -> None:
    runtime.service.deny("P1")
    with pytest.raises(NotPending, match="P1 is denied; there is nothing to check before it is decided"):
        run_checks(runtime, asked())


def test_an_untrusted_or_changed_configuration_runs_no_check(runtime: OpenWorkspace, root: Path) -> None:
    (root / ".signoff.toml").write_text(TABLES + "# another\n")
    runtime.reload()
    with pytest.raises(CommandError, match="/trust") as raised:
        run_checks(runtime, asked())
    assert raised.value.code == ExitCode.REFUSED


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
    with pytest.raises(CommandError, match="Nothing was found"):
        propose_check_tables(runtime, arguments)


def approving(*, unchecked: bool = False) -> argparse.Namespace:
    return argparse.Namespace(ids=["P1"], hunks=None, force=False, unchecked=unchecked, json=False)


@pytest.mark.layer
@pytest.mark.parametrize(("says", "code"), [("two", ExitCode.REFUSED), ("one", ExitCode.DONE)])
def test_approve_runs_checks_before_it_writes(root: Path, runtime: OpenWorkspace, says: str, code: ExitCode) -> None:
    (root / ".signoff.toml").write_text(
        f"""[[check]]\nname = "no {says}"\nrun = "! grep {says} a.txt"\nwhen = "approve"\n"""
    )
    trust.store_trust(trust.read_workspace_configuration(runtime.workspace), runtime.sessions)
    runtime.reload()
    if code is ExitCode.DONE:
        assert approve_proposals(runtime, approving()) == code
    else:
        with pytest.raises(CommandError, match=f"not written: no {says}.*--unchecked") as refused:
            approve_proposals(runtime, approving())
        assert refused.value.code == code
        assert (root / "a.txt").read_text() == "one\n"
        assert approve_proposals(runtime, approving(unchecked=True)) == ExitCode.DONE
    assert (root / "a.txt").read_text() == "two\n"


def test_without_trust_no_check_blocks_an_approval(root: Path, runtime: OpenWorkspace) -> None:
    (root / ".signoff.toml").write_text(
        """[[check]]\nname = "no two"\nrun = "! grep two a.txt"\nwhen = "approve"\n"""
    )
    runtime.reload()
    assert approve_proposals(runtime, approving()) == ExitCode.DONE


@pytest.mark.layer
def test_an_untrusted_workspace_disables_no_check_of_the_user(root: Path, runtime: OpenWorkspace) -> None:
    own = runtime.dirs.config_file
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text("""[[check]]\nname = "no two"\nrun = "! grep two a.txt"\nwhen = "approve"\n""")
    (root / ".signoff.toml").write_text(TABLES + "# another\n")
    runtime.reload()
    with pytest.raises(CommandError, match="not written: no two"):
        approve_proposals(runtime, approving())
    assert (root / "a.txt").read_text() == "one\n"


@pytest.mark.layer
def test_approving_a_decided_proposal_runs_no_check(
    root: Path, runtime: OpenWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / ".signoff.toml").write_text("""[[check]]\nname = "never"\nrun = "false"\nwhen = "approve"\n""")
    trust.store_trust(trust.read_workspace_configuration(runtime.workspace), runtime.sessions)
    runtime.reload()
    runtime.service.deny("P1")
    with pytest.raises(NotPending, match="P1 is denied"):
        approve_proposals(runtime, approving())
    assert "never" not in capsys.readouterr().out


def test_suggestions_do_not_change_an_unreadable_configuration(runtime: OpenWorkspace, root: Path) -> None:
    (root / ".signoff.toml").write_text("nonsense")
    with pytest.raises(CommandError, match="cannot be read: ") as raised:
        propose_check_tables(runtime, argparse.Namespace(what="suggest", json=False))
    assert raised.value.code == ExitCode.USAGE


def test_checks_that_cannot_run_name_the_reason(runtime: OpenWorkspace, monkeypatch: pytest.MonkeyPatch) -> None:
    async def obstacle(_: CheckRunner) -> str:
        return "the system has no room"

    monkeypatch.setattr(CheckRunner, "unavailable_reason", obstacle)
    with pytest.raises(CommandError, match="Not checked: the system has no room"):
        run_checks(runtime, asked())


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
    (root / ".signoff.toml").write_text(
        """[[check]]\nname = "both"\nrun = "! grep -q 'Hi 2' b.txt || grep -q 'Hi 15' b.txt"\nwhen = "approve"\n"""
    )
    (root / "b.txt").write_text(TWO_HUNKS)
    trust.store_trust(trust.read_workspace_configuration(runtime.workspace), runtime.sessions)
    runtime.reload()
    draft = runtime.service.new_draft("")
    draft.write("b.txt", TWO_HUNKS.replace("line 2\n", "Hi 2\n").replace("line 15\n", "Hi 15\n"))
    proposal = runtime.service.stage(draft, "Edit")

    def named(hunks: str | None) -> argparse.Namespace:
        return argparse.Namespace(ids=[proposal.id], hunks=hunks, force=False, unchecked=False, json=False)

    record_proposal_as_seen(runtime, proposal.id)
    with pytest.raises(CommandError, match="not written: both exit 1"):
        approve_proposals(runtime, named("1"))
    assert (root / "b.txt").read_text() == TWO_HUNKS
    tree = asyncio.run(runtime.checks.read_trees(runtime.service.versions_to_check(proposal.id))).after.id
    assert approve_proposals(runtime, named(None)) == ExitCode.DONE
    *_, entry = RecordStore(runtime.database, runtime.name).entries()
    (fact,) = entry.circumstances.checks
    assert (fact.name, fact.state, fact.tree, fact.stale) == ("both", "passed", tree, "")


@pytest.mark.layer
def test_a_check_can_be_run_on_some_hunks(runtime: OpenWorkspace, capsys: pytest.CaptureFixture[str]) -> None:
    chosen = asked(only=("one",), as_json=True)
    chosen.hunks = "1"
    assert run_checks(runtime, chosen) == ExitCode.DONE
    (line,) = json.loads(capsys.readouterr().out)["checks"]
    assert (line["state"], line["stale"], len(line["tree"])) == ("passed", "", 64)


def test_coverage_of_the_changed_lines_is_in_the_document(
    root: Path, runtime: OpenWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    run = "printf 'SF:a.txt\\nDA:1,0\\n' > lcov.info"
    (root / ".signoff.toml").write_text(f'[[check]]\nname = "tests"\nrun = "{run}"\n')
    trust.store_trust(trust.read_workspace_configuration(runtime.workspace), runtime.sessions)
    runtime.reload()
    assert run_checks(runtime, asked(as_json=True)) is ExitCode.DONE
    (said,) = json.loads(capsys.readouterr().out)["checks"]
    assert said["coverage"] == {
        "report": "lcov.info",
        "ran": 0,
        "missed": [{"path": "a.txt", "line": 1}],
        "problem": "",
    }
    assert said["words"].endswith("0 of 1 changed line run")


def evidence_of(**more: object) -> argparse.Namespace:
    values = {"id": "P2", "hunks": None, "only": None, "seconds": None, "json": True, **more}
    return argparse.Namespace(**values)


@pytest.fixture
def code(runtime: OpenWorkspace) -> OpenWorkspace:
    (runtime.workspace.root / "a.py").write_text("one\n")
    runtime.service.stage_patch(PATCH.replace("a.txt", "a.py"))
    return runtime


@pytest.mark.layer
def test_evidence_names_the_check_that_holds_each_hunk(
    code: OpenWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    (code.workspace.root / ".signoff.toml").write_text(
        '[[check]]\nname = "tests"\nrun = "grep -q two a.py"\nevidence = true\n'
    )
    with pytest.raises(CommandError, match="once you trust it") as raised:
        code.reload()
        collect_hunk_evidence(code, evidence_of())
    assert raised.value.code == ExitCode.REFUSED
    trust.store_trust(trust.read_workspace_configuration(code.workspace), code.sessions)
    code.reload()
    assert collect_hunk_evidence(code, evidence_of()) == ExitCode.DONE
    said = json.loads(capsys.readouterr().out)
    assert (said["id"], said["check"], said["unheld"], said["complete"]) == ("P2", "tests", [], True)
    [hunk] = said["hunks"]
    assert (hunk["path"], hunk["hunk"], hunk["verdict"]) == ("a.py", 1, "held")
    assert hunk["words"] == "held by the check"
    assert collect_hunk_evidence(code, evidence_of(json=False)) == ExitCode.DONE
    assert capsys.readouterr().out.splitlines()[1] == "a.py  hunk 1   held by the check"


@pytest.mark.layer
@pytest.mark.parametrize(("moved", "verdicts"), [(False, ["held"]), (True, [])])
def test_an_approval_records_evidence_only_of_the_same_files(
    code: OpenWorkspace, capsys: pytest.CaptureFixture[str], moved: bool, verdicts: list[str]
) -> None:
    (code.workspace.root / ".signoff.toml").write_text(
        '[[check]]\nname = "tests"\nrun = "grep -q two a.py"\nwhen = "asked"\nevidence = true\n'
    )
    trust.store_trust(trust.read_workspace_configuration(code.workspace), code.sessions)
    code.reload()
    assert collect_hunk_evidence(code, evidence_of()) == ExitCode.DONE
    if moved:
        (code.workspace.root / "other.txt").write_text("new\n")
    record_proposal_as_seen(code, "P2")
    assert approve_proposals(code, argparse.Namespace(**{**vars(approving()), "ids": ["P2"]})) == ExitCode.DONE
    *_, entry = RecordStore(code.database, code.name).entries()
    fact = entry.circumstances.evidence
    assert [one.verdict for one in (fact.hunks if fact else ())] == verdicts


@pytest.mark.layer
def test_evidence_without_tests_or_of_a_decided_proposal_is_refused(
    code: OpenWorkspace, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CommandError, match="No check seems to run tests") as raised:
        collect_hunk_evidence(code, evidence_of())
    assert raised.value.code == ExitCode.USAGE
    (code.workspace.root / ".signoff.toml").write_text('[[check]]\nname = "tests"\nrun = "false"\nevidence = true\n')
    trust.store_trust(trust.read_workspace_configuration(code.workspace), code.sessions)
    code.reload()
    assert collect_hunk_evidence(code, evidence_of()) == ExitCode.FAILED
    assert json.loads(capsys.readouterr().out)["hunks"][0]["words"] == "not run: the check fails with the proposal"
    code.service.deny("P2")
    with pytest.raises(NotPending):
        collect_hunk_evidence(code, evidence_of())
