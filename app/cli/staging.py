"""`signoff stage` and `push`: proposals of what was made elsewhere, and proposals for elsewhere."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.documents import ProposalLine, PushDocument
from app.cli.output import CommandError, Exit, piped_bytes, print_error, print_json, print_line
from app.cli.waiting import line_of
from app.proposals.models import Proposal, ProposalState
from app.runtime.workspace import Runtime

if TYPE_CHECKING:
    from app.runtime.from_git import Pushed

_NAMED = 10
"""Files that are named as left out."""


def stage(runtime: Runtime, arguments: argparse.Namespace) -> Exit:
    """Make a proposal of a diff made elsewhere, of commits, or of what is changed on disk."""
    if arguments.worktree is not None and arguments.source is not None:
        raise CommandError("Give --worktree or --from, one of them.", Exit.USAGE)
    if arguments.against is not None and arguments.worktree is None:
        raise CommandError("--against goes with --worktree.", Exit.USAGE)
    left_out: Sequence[str] = ()
    if arguments.worktree is not None:
        from app.runtime.from_git import stage_worktree

        # What stands behind another option belongs to this one all the same.
        paths = [*arguments.worktree, *arguments.file]
        proposal, left_out = stage_worktree(runtime, paths, arguments.against or "", everything=arguments.all)
    elif arguments.source is not None:
        from app.runtime.from_git import stage_commits

        words = [*arguments.source, *arguments.file]
        if len(words) > 2:
            raise CommandError("--from takes a reference, or a remote and a reference.", Exit.USAGE)
        proposal, left_out = stage_commits(runtime, words, everything=arguments.all)
    else:
        if len(arguments.file) > 1:
            raise CommandError("Give one diff; `cat` joins several.", Exit.USAGE)
        proposal = _stage_diff(runtime, *arguments.file, everything=arguments.all)
    for reason in left_out[:_NAMED]:
        print_error(f"Left out {reason}.")
    if len(left_out) > _NAMED:
        print_error(f"Left out {len(left_out) - _NAMED} more.")
    _print(proposal, as_json=arguments.json)
    return Exit.DONE


def push(runtime: Runtime, arguments: argparse.Namespace) -> Exit:
    """Put a proposal on a reference of another repository."""
    from app.runtime.from_git import push_proposal

    pushed: Pushed = push_proposal(
        runtime, arguments.id, arguments.remote or "", arguments.name or "", force=arguments.force
    )
    if arguments.json:
        print_json(PushDocument(id=pushed.id, remote=pushed.remote, ref=pushed.reference, commit=pushed.commit))
        return Exit.DONE
    print_line(f"{pushed.id} is {pushed.reference} of {pushed.remote} now.")
    print_line(f"Elsewhere `signoff stage --from {pushed.remote} {pushed.reference}` stages it.")
    return Exit.DONE


def _stage_diff(runtime: Runtime, file: str = "-", *, everything: bool) -> Proposal:
    try:
        data = piped_bytes("or paste the diff") if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise CommandError(f"Cannot read {file}: {error.strerror}.", Exit.USAGE) from error
    return runtime.service.stage_patch(data.decode("utf-8", "surrogateescape"), everything=everything)


def _print(proposal: Proposal, *, as_json: bool) -> None:
    if as_json:
        print_json(ProposalLine.of(proposal))
        return
    print_line(f"Staged {line_of(proposal)}")
    for left_out in proposal.left_out:
        hint = "; --all stages them too" if left_out.why == "signed" else ""
        print_line(f"{left_out.words}{hint}.")
    if proposal.on_disk:
        print_line(
            f"It is on disk already: `signoff approve {proposal.id}` keeps it, `signoff deny {proposal.id}` takes it "
            "back off the disk."
        )
    if proposal.state is ProposalState.STALE:
        print_error(f"{proposal.id} is stale: {proposal.reason}.")
    for trouble in filter(None, (change.trouble for change in proposal.files)):
        print_error(trouble)
