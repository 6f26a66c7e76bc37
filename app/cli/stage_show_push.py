"""`signoff show`, `stage` and `push`."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.command_output import (
    CommandError,
    ExitCode,
    print_error,
    print_json,
    print_line,
    print_text,
    read_stdin_bytes,
)
from app.cli.json_documents import ProposalJson, ProposalPushDocument, ProposalWithHunksJson
from app.cli.proposal_choice import rebase_and_mark_changed_as_unshown, record_proposal_as_seen
from app.cli.proposal_list import format_proposal_line
from app.proposals.text.file_warnings import describe_proposal_cautions
from app.proposals.values.models import FileDiff, Proposal, ProposalState
from app.proposals.values.origin import OriginKind
from app.runtime.open_workspace import OpenWorkspace
from app.text.quantities import format_path
from app.text.safe_text import escape_unsafe

if TYPE_CHECKING:
    from app.proposals.values.decision_facts import RecordedCheckResult
    from app.runtime.git_proposals import ProposalPushResult


_MAX_NAMED_FILES = 10
"""Maximum number of left-out files that are named."""


def stage_proposal(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Stage a diff made elsewhere, commits, or the changes on disk as a proposal."""
    if arguments.worktree is not None and arguments.source is not None:
        raise CommandError("Give --worktree or --from, one of them.", ExitCode.USAGE)
    if arguments.against is not None and arguments.worktree is None:
        raise CommandError("--against goes with --worktree.", ExitCode.USAGE)
    left_out: Sequence[str] = ()
    if arguments.worktree is not None:
        from app.runtime.git_proposals import stage_worktree_changes

        # argparse puts paths after another option into `file`.
        paths = [*arguments.worktree, *arguments.file]
        proposal, left_out = stage_worktree_changes(
            runtime, paths, arguments.against or "", include_approved=arguments.all
        )
    elif arguments.source is not None:
        from app.runtime.git_proposals import stage_commits_or_pull_request

        words = [*arguments.source, *arguments.file]
        if len(words) > 2:
            raise CommandError("--from takes a reference, or a remote and a reference.", ExitCode.USAGE)
        proposal, left_out = stage_commits_or_pull_request(runtime, words, include_approved=arguments.all)
    else:
        if len(arguments.file) > 1:
            raise CommandError("Give one diff; `cat` joins several.", ExitCode.USAGE)
        proposal = _stage_diff(runtime, *arguments.file, everything=arguments.all)
    for reason in left_out[:_MAX_NAMED_FILES]:
        print_error(f"Left out {reason}.")
    if len(left_out) > _MAX_NAMED_FILES:
        print_error(f"Left out {len(left_out) - _MAX_NAMED_FILES} more.")
    _print_staged_proposal(proposal, as_json=arguments.json)
    if arguments.source is not None and not arguments.json:
        from app.runtime.git_proposals import describe_who_approved_commits

        for line in describe_who_approved_commits(runtime, words):
            print_line(f"Approved before: {line}")
    return ExitCode.DONE


def push_proposal_as_commit(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Push a proposal as a commit to a reference of another repository, signed if `--sign` is given."""
    from app.cli.check_evidence_reproduce import run_required_checks
    from app.runtime.git_proposals import push_proposal

    proposal = runtime.service.get(arguments.id)
    checks: tuple[RecordedCheckResult, ...] = ()
    if arguments.sign and proposal.state.is_pending:
        refusal = "is not signed: {}."
        checks = run_required_checks(runtime, proposal, None, quiet=arguments.json, refusal_template=refusal)
    pushed: ProposalPushResult = push_proposal(
        runtime,
        arguments.id,
        arguments.remote or "",
        arguments.name or "",
        force=arguments.force,
        sign=arguments.sign,
        checks=checks,
    )
    if arguments.json:
        print_json(
            ProposalPushDocument(
                id=pushed.id, remote=pushed.remote, ref=pushed.reference, commit=pushed.commit, signed=pushed.signed
            )
        )
        return ExitCode.DONE
    print_line(f"{pushed.id} is {pushed.reference} of {pushed.remote} now.")
    if pushed.signed:
        print_line("Your signed review went with it.")
    print_line(f"Elsewhere `signoff stage --from {pushed.remote} {pushed.reference}` stages it.")
    return ExitCode.DONE


def _stage_diff(runtime: OpenWorkspace, file: str = "-", *, everything: bool) -> Proposal:
    try:
        data = read_stdin_bytes("or paste the diff") if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise CommandError(f"Cannot read {file}: {error.strerror}.", ExitCode.USAGE) from error
    if not data.strip():
        raise CommandError("The diff is empty: there is nothing to stage.", ExitCode.REFUSED)
    return runtime.service.stage_patch(data.decode("utf-8", "surrogateescape"), include_approved=everything)


def _print_staged_proposal(proposal: Proposal, *, as_json: bool) -> None:
    if as_json:
        print_json(ProposalJson.model_validate(proposal))
        return
    print_line(f"Staged {format_proposal_line(proposal)}")
    for left_out in proposal.left_out:
        pronoun = "it" if left_out.hunks == 1 else "them"
        hint = f"; --all stages {pronoun} too" if left_out.why == "signed" else ""
        print_line(f"{left_out.description}{hint}.")
    if proposal.on_disk:
        print_line(
            f"It is on disk: `signoff approve {proposal.id}` keeps it, `signoff deny {proposal.id}` reverts it."
        )
    if proposal.state is ProposalState.STALE:
        print_error(f"{proposal.id} is stale: {proposal.reason}.")
    for trouble in filter(None, (change.name_problem for change in proposal.files)):
        print_error(trouble)


def print_proposal_and_record_as_seen(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Print a proposal as a unified diff, or its hunks with `--hunks`, and record that it was shown."""
    rebase_and_mark_changed_as_unshown(runtime)
    proposal = runtime.service.get(arguments.id)
    record_proposal_as_seen(runtime, proposal.id)
    if arguments.json or arguments.hunks:
        diffs = runtime.service.file_diffs(proposal.id)
        document = ProposalWithHunksJson.from_proposal(proposal, diffs)
        if arguments.json:
            print_json(document)
        else:
            _list_hunks(document, diffs)
        return ExitCode.DONE
    # `git apply`, patch and `signoff stage` ignore text before the first file of a diff.
    if proposal.ignored_files_note:
        print_line(f"# {escape_unsafe(proposal.ignored_files_note, keep='')}")
    if proposal.origin.kind is OriginKind.AGENT:
        print_line(f"# From {escape_unsafe(proposal.origin.description, keep='')}")
    notes = [(change.path, words) for change in proposal.files for words in change.notes]
    for path, words in (*describe_proposal_cautions(proposal), *notes):
        print_line(f"# {escape_unsafe(f'{path}: {words}', keep='')}")
    if proposal.state is ProposalState.STALE:
        from app.review.line_review import format_conflicts

        for line in (f"{proposal.id} is stale: {proposal.reason}", *format_conflicts(proposal)):
            print_line(f"# {escape_unsafe(line, keep='')}")
    print_text(runtime.service.unified_diff(proposal.id))
    return ExitCode.DONE


def _list_hunks(proposal: ProposalWithHunksJson, diffs: Sequence[FileDiff]) -> None:
    """Print each hunk with its number, without context; a file without hunks is decided as a whole."""
    from app.review.line_review import format_hunk_lines

    for file, diff in zip(proposal.files, diffs, strict=True):
        print_line(f"{format_path(file.path, file.old_path)} ({file.op}, +{file.added} -{file.removed})")
        for words in file.warnings:
            print_line(f"! {words}")
        for words in file.notes:
            print_line(f"· {words}")
        for hunk, source in zip(file.hunks, diff.change.hunks, strict=True):
            # A decided hunk of a file that still waits has no lines any more.
            place = f": {hunk.header}" if hunk.removed or hunk.added else ""
            print_line(f"hunk {hunk.number}, {hunk.state}{place}")
            for line in format_hunk_lines(diff, source, context=0):
                print_line(line)
