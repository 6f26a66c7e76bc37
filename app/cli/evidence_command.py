"""`signoff evidence` and `signoff reproduce`: what tests and a second run say about a proposal."""

import argparse
import asyncio
import sys

from app.automation.evidence.evidence_runner import FilesChangedDuringTests
from app.automation.evidence.proposal_evidence import ProposalEvidence
from app.automation.evidence.relevant_tests import choose_evidence_check
from app.automation.recipe_runner import NotReproducible
from app.cli.check_command import configured_checks, require_checkable_proposal
from app.cli.command_output import CommandError, ExitCode, print_error, print_json, print_line
from app.cli.json_documents import EvidenceDocument, EvidenceLine, ReproductionDocument
from app.cli.proposal_choice import parse_hunk_numbers
from app.config.settings import WORKSPACE_FILE
from app.proposals.values.decision_facts import EvidenceVerdict, HunkEvidence
from app.runtime.open_workspace import OpenWorkspace


def collect_evidence(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Run tests without each hunk of a waiting proposal; return 1 if there is no verdict on any hunk."""
    proposal = require_checkable_proposal(runtime, arguments.id)
    chosen = parse_hunk_numbers(proposal, arguments.hunks)
    check = choose_evidence_check(configured_checks(runtime, [arguments.only] if arguments.only else []))
    if check is None:
        raise CommandError(
            f"No check seems to run tests: add evidence = true to one in {WORKSPACE_FILE}.", ExitCode.USAGE
        )
    seconds = arguments.seconds or runtime.settings.evidence_seconds

    def tell(found: ProposalEvidence) -> None:
        if not arguments.json and sys.stderr.isatty() and found.is_running:
            print_error(f"{check.name}: {found.summary} …")

    try:
        found = asyncio.run(runtime.evidence.collect_evidence(proposal.id, chosen, check, seconds, tell))
    except FilesChangedDuringTests as changed:
        raise CommandError(f"Nothing can be said about {proposal.id}: {changed}.") from changed
    if found.why_not:
        raise CommandError(f"Nothing was run: {found.why_not}.")
    marks = sorted(found.marks.values(), key=lambda mark: (not mark.verdict.is_unnoticed_by_tests, mark.hunk))
    tried = [mark for mark in marks if mark.verdict is not EvidenceVerdict.NOT_RUN]
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
                hunks=[make_evidence_line(mark) for mark in marks],
            )
        )
    else:
        print_line(f"{check.name}: {found.summary}")
        width = max((len(mark.path) for mark in marks), default=0)
        for mark in marks:
            print_line(f"{mark.path:{width}}  hunk {mark.hunk:<3} {mark.description}")
    return ExitCode.DONE if tried or not marks else ExitCode.FAILED


def reproduce_command_proposal(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Run the command of a waiting proposal again; return 1 unless it gave the same."""
    try:
        found = asyncio.run(runtime.reproduce(arguments.id))
    except NotReproducible as error:
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


def make_evidence_line(mark: HunkEvidence) -> EvidenceLine:
    """Return the evidence of one hunk for a document."""
    return EvidenceLine(**mark.model_dump(mode="json"), words=mark.description)
