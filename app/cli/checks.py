"""`signoff check`: the workspace's checks on a proposal, without the screen."""

import argparse
import asyncio
import sys
from collections.abc import Collection, Sequence

from app.checks.results import Outcome, Result, State
from app.checks.running import files_for
from app.checks.suggesting import as_tables, checks_in, missing, suggestions
from app.cli.chosen_hunks import hunks_named
from app.cli.documents import CheckDocument, CheckResultLine, FindingLine, ProposalLine
from app.cli.output import CommandError, Exit, print_error, print_json, print_line
from app.cli.waiting import line_of
from app.config.settings import WORKSPACE_FILE, Check
from app.proposals.errors import NotWaiting, StaleProposal
from app.proposals.facts import CheckFact
from app.proposals.models import Proposal, ProposalState
from app.proposals.origin import Origin, OriginKind
from app.proposals.states import words
from app.proposals.trees import Trees
from app.runtime.workspace import Runtime

_SIGNS = {State.PASSED: "✓", State.BROKEN: "!"}
_FAILED = (State.FAILED, State.TIMED_OUT, State.BROKEN)


def check(runtime: Runtime, arguments: argparse.Namespace) -> Exit:
    """Run the checks of a proposal that waits; 1 if one of them fails."""
    proposal = runtime.service.get(arguments.id)
    if not proposal.state.waiting:
        raise NotWaiting(f"{proposal.id} is {words(proposal.state)}; there is nothing to check before it is decided.")
    if proposal.state is ProposalState.STALE:
        raise StaleProposal(
            f"{proposal.id} is stale: {proposal.reason}; there is nothing to check before it fits again."
        )
    trees = runtime.service.trees(proposal.id, hunks_named(proposal, arguments.hunks))
    wanted = [each for each in _configured(runtime, arguments.only) if files_for(each, trees.files) is not None]
    results = asyncio.run(_run(runtime, wanted, trees, quiet=arguments.json))
    failed = any(result.state in _FAILED for result in results)
    if arguments.json:
        lines = [_line(result) for result in results]
        print_json(CheckDocument(id=proposal.id, revision=proposal.revision, ok=not failed, checks=lines))
    elif not results:
        print_line(f"No check is about what {proposal.id} changes.")
    return Exit.FAILED if failed else Exit.DONE


def check_before_writing(
    runtime: Runtime, proposal: Proposal, hunks: Collection[str] | None, *, quiet: bool
) -> tuple[CheckFact, ...]:
    """Run the checks that the workspace wants before a write, on exactly what it would leave.

    Args:
        runtime: The open workspace; while it is not trusted, the user's own checks are in force, and none of its.
        proposal: What is about to be written.
        hunks: Ids of the hunks that are; None for all that waits.
        quiet: Print no results.

    Returns:
        What they came to, for the record.

    Raises:
        CommandError: One of them speaks against it, could not be run, or ran while the files changed.
    """
    wanted = [each for each in runtime.settings.check if each.when == "approve"]
    if not wanted:
        return ()
    trees = runtime.service.trees(proposal.id, hunks)
    wanted = [each for each in wanted if files_for(each, trees.files) is not None]
    results = asyncio.run(_run(runtime, wanted, trees, quiet=quiet))
    if against := [one for one in results if one.red or one.state is State.BROKEN or one.stale]:
        said = ", ".join(f"{result.name} {result.words}" for result in against)
        raise CommandError(
            f"{proposal.id} is not written: {said}. `--unchecked` writes it all the same.", Exit.REFUSED
        )
    return tuple(result.fact for result in results)


def suggest(runtime: Runtime, arguments: argparse.Namespace) -> Exit:
    """Stage `[[check]]` tables for what the workspace has."""
    draft = runtime.service.draft("")
    draft.origin = Origin(kind=OriginKind.PROGRAM)
    text = (draft.read(WORKSPACE_FILE).content or b"").decode("utf-8", "replace")
    try:
        found = missing(suggestions(runtime.workspace), checks_in(text))
    except ValueError as error:
        raise CommandError(f"{WORKSPACE_FILE} cannot be read: {error}.", Exit.USAGE) from error
    if not found:
        raise CommandError("Nothing was found here to make a check of that is not one already.")
    draft.write(WORKSPACE_FILE, as_tables(found, text))
    names = ", ".join(each.check.name for each in found)
    proposal = runtime.service.stage(draft, f"Checks: {names}")
    if arguments.json:
        print_json(ProposalLine.of(proposal))
    else:
        print_line(f"Staged {line_of(proposal)}")
        print_line("Once it is written, /trust in signoff has them run; edit out what you don't want.")
    return Exit.DONE


def _configured(runtime: Runtime, only: Sequence[str]) -> list[Check]:
    checks = runtime.settings.check
    if "check" in runtime.configuration.untrusted:
        raise CommandError(f"The checks of {WORKSPACE_FILE} run once you trust it: /trust in signoff.", Exit.REFUSED)
    if not checks:
        raise CommandError(
            f"There is no check: add a [[check]] table to {WORKSPACE_FILE}; `signoff checks suggest` proposes some.",
            Exit.USAGE,
        )
    if unknown := set(only) - {each.name for each in checks}:
        names = ", ".join(each.name for each in checks)
        raise CommandError(f"There is no check {min(unknown)}; there are {names}.", Exit.USAGE)
    return [each for each in checks if not only or each.name in only]


async def _run(runtime: Runtime, checks: Sequence[Check], trees: Trees, *, quiet: bool) -> list[Result]:
    if checks and (reason := await runtime.checks.why_not()):
        raise CommandError(f"Not checked: {reason}.")
    results = []
    for each in checks:
        if not quiet and sys.stderr.isatty():
            print_error(f"{each.name} runs …")
        results.append(await runtime.checks.run(each, trees))
        if not quiet:
            _print(results[-1])
    if results:
        # Files may have changed after the first of several.
        now = (await runtime.checks.read(trees)).after
        results = [
            result if result.tree == now and not result.stale else result.outdated_by(now) for result in results
        ]
    return results


def _print(result: Result) -> None:
    print_line(f"{result.name} {_SIGNS.get(result.state, '✗')} {result.words}")
    if result.outcome is not None and result.state is not State.PASSED and result.outcome.output.strip():
        for line in result.outcome.output.rstrip("\n").split("\n"):
            print_line(f"    {line}")


def _line(result: Result) -> CheckResultLine:
    outcome, before = result.outcome or Outcome(result.state), result.before
    return CheckResultLine(
        name=result.name,
        state=result.state,
        ok=result.state is State.PASSED,
        worse=result.red,
        words=result.words,
        seconds=round(outcome.seconds, 3),
        code=outcome.code,
        failures=outcome.count,
        before=None if before is None else before.state,
        failures_before=None if before is None else before.count,
        tree="" if result.tree is None else result.tree.id,
        stale=result.stale,
        findings=[
            FindingLine(path=each.path, line=each.line, text=each.text, new=each.new) for each in outcome.findings
        ],
        output=outcome.output,
    )
