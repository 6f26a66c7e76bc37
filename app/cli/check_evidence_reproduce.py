"""`signoff check`, `checks`, `evidence` and `reproduce`: run checks, tests and commands on a proposal."""

import argparse
import asyncio
import sys
from collections.abc import Collection, Sequence

from app.automation.check_results import CheckRunResult, CheckState, ProposalCheckResult
from app.automation.check_runner import files_for_check
from app.automation.check_suggestions import (
    append_check_tables,
    parse_check_configuration,
    suggest_checks,
    unconfigured_suggestions,
)
from app.automation.evidence.command_reproducer import CommandNotRepeatable
from app.automation.evidence.evidence_runner import FilesChangedDuringTests
from app.automation.evidence.proposal_evidence import ProposalTestEvidence
from app.automation.evidence.relevant_tests import choose_evidence_check
from app.cli.command_output import CommandError, ExitCode, print_error, print_json, print_line
from app.cli.json_documents import (
    CheckCoverageJson,
    CheckDocument,
    CheckFindingJson,
    CheckResultJson,
    EvidenceDocument,
    HunkTestEvidenceJson,
    ProposalJson,
    ReproductionDocument,
    UnexecutedLineJson,
)
from app.cli.proposal_choice import parse_hunk_numbers
from app.cli.proposal_list import format_proposal_line
from app.config.settings import WORKSPACE_FILE, CheckTable
from app.proposals.decide.workspace_versions import FilesToCheckBeforeAndAfter
from app.proposals.values.decision_facts import HunkTestEvidence, HunkTestVerdict, RecordedCheckResult
from app.proposals.values.models import Proposal, ProposalState, describe_state
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.proposals.values.proposal_errors import NotPending, StaleProposal
from app.runtime.open_workspace import OpenWorkspace

_STATE_SIGNS = {CheckState.PASSED: "✓", CheckState.BROKEN: "!"}
_FAILED_STATES = (CheckState.FAILED, CheckState.TIMED_OUT, CheckState.BROKEN)


def run_checks(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Run the checks of a pending proposal; return 1 if one of them fails."""
    proposal = require_checkable_proposal(runtime, arguments.id)
    trees = runtime.service.versions_to_check(proposal.id, parse_hunk_numbers(proposal, arguments.hunks))
    wanted = [
        check
        for check in require_runnable_checks(runtime, arguments.only)
        if files_for_check(check, trees.files) is not None
    ]
    results = asyncio.run(_run_and_print_checks(runtime, wanted, trees, quiet=arguments.json))
    failed = any(result.state in _FAILED_STATES for result in results)
    if arguments.json:
        lines = [_make_check_result_json(result) for result in results]
        print_json(CheckDocument(id=proposal.id, revision=proposal.revision, ok=not failed, checks=lines))
    elif not results:
        print_line(f"No check is about what {proposal.id} changes.")
    return ExitCode.FAILED if failed else ExitCode.DONE


def run_required_checks(
    runtime: OpenWorkspace,
    proposal: Proposal,
    hunks: Collection[str] | None,
    *,
    quiet: bool,
    refusal_template: str = "is not written: {}. `--unchecked` writes it all the same.",
) -> tuple[RecordedCheckResult, ...]:
    """Run the checks that the workspace requires before a write, on exactly the content that would be written.

    Args:
        runtime: The open workspace; while it is not trusted, only the user's own checks run.
        hunks: Ids of the hunks to write; None for all pending hunks.
        quiet: Print no progress.
        refusal_template: The end of the error message, with a placeholder for the reasons.

    Returns:
        Their results, for the record.

    Raises:
        CommandError: A check failed because of the proposal, could not run, or the files changed meanwhile.
    """
    wanted = [check for check in runtime.settings.check if check.when == "approve"]
    if not wanted:
        return ()
    trees = runtime.service.versions_to_check(proposal.id, hunks)
    wanted = [check for check in wanted if files_for_check(check, trees.files) is not None]
    results = asyncio.run(_run_and_print_checks(runtime, wanted, trees, quiet=quiet))
    if against := [
        result for result in results if result.has_new_failure or result.state is CheckState.BROKEN or result.stale
    ]:
        said = ", ".join(f"{result.name} {result.summary}" for result in against)
        raise CommandError(f"{proposal.id} {refusal_template.format(said)}", ExitCode.REFUSED)
    return tuple(result.as_record for result in results)


def propose_check_tables(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Stage `[[check]]` tables for the tools that the workspace uses."""
    draft = runtime.service.new_draft("")
    draft.origin = ProposalOrigin(kind=OriginKind.PROGRAM)
    text = (draft.read(WORKSPACE_FILE).content or b"").decode("utf-8", "replace")
    try:
        found = unconfigured_suggestions(suggest_checks(runtime.workspace), parse_check_configuration(text))
    except ValueError as error:
        raise CommandError(f"{WORKSPACE_FILE} cannot be read: {error}.", ExitCode.USAGE) from error
    if not found:
        raise CommandError("No tool was found here that is not a check already.")
    draft.write(WORKSPACE_FILE, append_check_tables(found, text))
    names = ", ".join(suggestion.check.name for suggestion in found)
    proposal = runtime.service.stage(draft, f"Checks: {names}")
    if arguments.json:
        print_json(ProposalJson.model_validate(proposal))
    else:
        print_line(f"Staged {format_proposal_line(proposal)}")
        print_line("Once it is written, /trust in signoff has them run; edit out what you don't want.")
    return ExitCode.DONE


def require_checkable_proposal(runtime: OpenWorkspace, proposal_id: str) -> Proposal:
    """Return a proposal on which checks can run. Raises ProposalError if it is decided or stale."""
    proposal = runtime.service.get(proposal_id)
    if not proposal.state.is_pending:
        raise NotPending(
            f"{proposal.id} is {describe_state(proposal.state)}; only a proposal that waits can be checked."
        )
    if proposal.state is ProposalState.STALE:
        raise StaleProposal(f"{proposal.id} is stale: {proposal.reason}; it can be checked once it fits again.")
    return proposal


def require_runnable_checks(runtime: OpenWorkspace, names: Sequence[str]) -> list[CheckTable]:
    """Return the checks that may run, all or the named ones. Raises CommandError."""
    checks = runtime.settings.check
    if "check" in runtime.configuration.untrusted:
        raise CommandError(
            f"The checks of {WORKSPACE_FILE} run once you trust it: /trust in signoff.", ExitCode.REFUSED
        )
    if not checks:
        raise CommandError(
            f"There is no check: add a [[check]] table to {WORKSPACE_FILE}; `signoff checks suggest` proposes some.",
            ExitCode.USAGE,
        )
    if unknown := set(names) - {check.name for check in checks}:
        known = ", ".join(check.name for check in checks)
        raise CommandError(f"There is no check {min(unknown)}; there are {known}.", ExitCode.USAGE)
    return [check for check in checks if not names or check.name in names]


async def _run_and_print_checks(
    runtime: OpenWorkspace, checks: Sequence[CheckTable], trees: FilesToCheckBeforeAndAfter, *, quiet: bool
) -> list[ProposalCheckResult]:
    if checks and (reason := await runtime.checks.unavailable_reason()):
        raise CommandError(f"Not checked: {reason}.")
    results = []
    for check in checks:
        if not quiet and sys.stderr.isatty():
            print_error(f"{check.name} runs …")
        results.append(await runtime.checks.run_check(check, trees))
        if not quiet:
            _print_check_result(results[-1])
    if results:
        # Files may have changed after the first of several checks.
        now = (await runtime.checks.read_trees(trees)).after
        results = [
            result if result.tree == now and not result.stale else result.as_outdated(now) for result in results
        ]
    return results


def _print_check_result(result: ProposalCheckResult) -> None:
    print_line(f"{result.name} {_STATE_SIGNS.get(result.state, '✗')} {result.summary}")
    if result.outcome is not None and result.state is not CheckState.PASSED and result.outcome.output.strip():
        for line in result.outcome.output.rstrip("\n").split("\n"):
            print_line(f"    {line}")


def _make_coverage_json(result: ProposalCheckResult) -> CheckCoverageJson | None:
    if result.outcome is None or (coverage := result.outcome.coverage) is None:
        return None
    missed = [UnexecutedLineJson(path=line.path, line=line.line) for line in result.changed_lines(is_run=False)]
    ran = sum(map(len, coverage.ran.values()))
    return CheckCoverageJson(report=coverage.report, ran=ran, missed=missed, problem=coverage.problem)


def _make_check_result_json(result: ProposalCheckResult) -> CheckResultJson:
    outcome, before = result.outcome or CheckRunResult(result.state), result.before
    return CheckResultJson(
        name=result.name,
        state=result.state,
        ok=result.state is CheckState.PASSED,
        worse=result.has_new_failure,
        words=result.summary,
        seconds=round(outcome.seconds, 3),
        code=outcome.code,
        failures=outcome.failure_count,
        before=None if before is None else before.state,
        failures_before=None if before is None else before.failure_count,
        tree="" if result.tree is None else result.tree.id,
        stale=result.stale,
        findings=[CheckFindingJson.model_validate(finding) for finding in outcome.findings],
        coverage=_make_coverage_json(result),
        output=outcome.output,
    )


def collect_hunk_evidence(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Run tests without each hunk of a pending proposal; return 1 if no hunk was tested."""
    proposal = require_checkable_proposal(runtime, arguments.id)
    chosen = parse_hunk_numbers(proposal, arguments.hunks)
    check = choose_evidence_check(require_runnable_checks(runtime, [arguments.only] if arguments.only else []))
    if check is None:
        raise CommandError(
            f"No check seems to run tests: add evidence = true to one in {WORKSPACE_FILE}.", ExitCode.USAGE
        )
    seconds = arguments.seconds or runtime.settings.evidence_seconds

    def tell(found: ProposalTestEvidence) -> None:
        if not arguments.json and sys.stderr.isatty() and found.is_running:
            print_error(f"{check.name}: {found.summary} …")

    try:
        found = asyncio.run(runtime.evidence.collect_evidence(proposal.id, chosen, check, seconds, tell))
    except FilesChangedDuringTests as changed:
        raise CommandError(f"Nothing can be said about {proposal.id}: {changed}.") from changed
    if found.why_not:
        raise CommandError(f"Nothing was run: {found.why_not}.")
    marks = sorted(found.marks.values(), key=lambda mark: (not mark.verdict.is_unnoticed_by_tests, mark.hunk))
    tried = [mark for mark in marks if mark.verdict is not HunkTestVerdict.NOT_RUN]
    if arguments.json:
        print_json(
            EvidenceDocument(
                id=proposal.id,
                revision=found.revision,
                check=found.check,
                selection=found.selection,
                tests=found.tests,
                tree=found.tree,
                seconds=round(found.seconds, 3),
                unheld=[mark.hunk for mark in marks if mark.verdict.is_unnoticed_by_tests],
                complete=len(tried) == len(marks),
                hunks=[make_hunk_evidence_json(mark) for mark in marks],
            )
        )
    else:
        print_line(f"{check.name}: {found.summary}")
        width = max((len(mark.path) for mark in marks), default=0)
        for mark in marks:
            print_line(f"{mark.path:{width}}  hunk {mark.hunk:<3} {mark.description}")
    return ExitCode.DONE if tried or not marks else ExitCode.FAILED


def reproduce_command_proposal(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Run the command of a pending proposal again; return 1 unless it had the same result."""
    try:
        found = asyncio.run(runtime.reproduce(arguments.id))
    except CommandNotRepeatable as error:
        raise CommandError(f"Nothing was compared: {error}.", ExitCode.REFUSED) from error
    if arguments.json:
        print_json(
            ReproductionDocument(
                id=found.proposal,
                revision=found.revision,
                command=found.recipe.command,
                outcome=found.outcome,
                files=found.files,
                differing=list(found.differing),
                tree=found.recipe.tree,
                same_environment=found.is_same_environment,
            )
        )
    else:
        print_line(f"{found.proposal}: {found.summary}")
    return ExitCode.DONE if found.outcome == "same" else ExitCode.FAILED


def make_hunk_evidence_json(mark: HunkTestEvidence) -> HunkTestEvidenceJson:
    """Return the evidence of one hunk for a document."""
    return HunkTestEvidenceJson(**mark.model_dump(mode="json"), words=mark.description)
