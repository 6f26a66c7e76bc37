"""`signoff proposals`: lists pending proposals. Shell prompts call it often, so an empty list must be fast."""

import argparse
from typing import TYPE_CHECKING

from app.cli.command_output import CommandError, ExitCode, print_error, print_json, print_line
from app.runtime.open_workspace import OpenWorkspace
from app.storage.database import has_no_unfinished_work, parent_workspaces_with_pending_proposals
from app.text.quantities import join_first

if TYPE_CHECKING:
    from app.proposals.values.models import Proposal


def print_or_watch_proposals(runtime: OpenWorkspace, arguments: argparse.Namespace) -> int:
    """Print the pending proposals, or all with `--all`; with `--watch`, print each change after that."""
    if arguments.watch:
        if not arguments.json or arguments.all or arguments.origin is not None:
            raise CommandError("--watch goes with --json, and with nothing else.", ExitCode.USAGE)
        from app.cli.proposal_watch import watch_proposals

        return watch_proposals(runtime)
    found = _find_proposals(runtime, arguments)
    if arguments.json:
        _print_documents(found)
        return ExitCode.DONE
    if not found:
        above = parent_workspaces_with_pending_proposals(runtime.database, runtime.name)
        from_whom = "" if arguments.origin is None else f" from {arguments.origin}"
        print_line(f"Nothing waits for you here{from_whom}{f', but in {above[0]} (--workspace)' if above else ''}.")
    for proposal in found:
        print_line(format_proposal_line(proposal))
        if proposal.state.is_pending:
            if proposal.ignored:
                print_line(f"    · {proposal.ignored_files_note}")
            from app.proposals.text.file_warnings import describe_proposal_cautions

            for path, words in describe_proposal_cautions(proposal):
                print_line(f"    ! {path}: {words}")
    return ExitCode.DONE


def format_proposal_line(proposal: "Proposal") -> str:
    """Return one proposal as a line of text."""
    files = join_first([change.path for change in proposal.files], 4)
    from app.proposals.values.models import describe_proposal_state

    state = describe_proposal_state(proposal)
    counts = f"+{proposal.added} -{proposal.removed}"
    return f"{proposal.id}  {state:<9} {counts}  {proposal.origin.name}: {proposal.summary}  [{files}]"


def _find_proposals(runtime: OpenWorkspace, arguments: argparse.Namespace) -> "list[Proposal]":
    # The marker file of `WorkspaceBackup`, whose import would take long.
    was_command_killed = any(runtime.dirs.runs.glob("guard-*/running"))
    if not (arguments.all or was_command_killed) and has_no_unfinished_work(runtime.database, runtime.name):
        return []
    from app.cli.proposal_choice import rebase_and_mark_changed_as_unshown
    from app.runtime.unfinished_work import recover_interrupted_work_and_notify

    recover_interrupted_work_and_notify(runtime, print_error)
    rebase_and_mark_changed_as_unshown(runtime)
    found = runtime.service.all() if arguments.all else runtime.service.pending()
    wanted = arguments.origin
    return found if wanted is None else [proposal for proposal in found if proposal.origin.matches(wanted)]


def _print_documents(found: "list[Proposal]") -> None:
    if not found:
        print_json([])
        return
    from app.cli.json_documents import ProposalJson

    print_json([ProposalJson.model_validate(proposal) for proposal in found])
