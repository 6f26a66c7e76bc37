"""`signoff show`."""

import argparse
from collections.abc import Iterator

from app.cli.documents import ProposalDetail
from app.cli.looks import looked_at, refresh
from app.cli.output import Exit, print_json, print_line, print_text
from app.proposals.models import Proposal, ProposalState
from app.proposals.origin import OriginKind
from app.proposals.remarks import all_cautions
from app.runtime.workspace import Runtime
from app.text.safe_text import visible


def show(runtime: Runtime, arguments: argparse.Namespace) -> Exit:
    """Print one proposal as a unified diff that `git apply` takes, or with `--hunks` what can be decided apart."""
    refresh(runtime)
    proposal = runtime.service.get(arguments.id)
    looked_at(runtime, proposal.id)
    if arguments.json:
        print_json(ProposalDetail.of(proposal, runtime.service.diffs(proposal.id)))
        return Exit.DONE
    if arguments.hunks:
        _list_hunks(ProposalDetail.of(proposal, runtime.service.diffs(proposal.id)))
        return Exit.DONE
    # What stands before the first file of a diff is passed over by `git apply`, by patch and by `signoff stage`.
    if proposal.ignored_words:
        print_line(f"# {visible(proposal.ignored_words, keep='')}")
    if proposal.origin.kind is OriginKind.AGENT:
        print_line(f"# From {visible(proposal.origin.words, keep='')}")
    for path, words in all_cautions(proposal):
        print_line(f"# {visible(f'{path}: {words}', keep='')}")
    if proposal.state is ProposalState.STALE:
        for line in _conflict_lines(proposal):
            print_line(f"# {visible(line, keep='')}")
    print_text(runtime.service.as_unified_diff(proposal.id))
    return Exit.DONE


def _conflict_lines(proposal: Proposal) -> Iterator[str]:
    """Why a proposal is stale, with each conflict as `git merge-file --diff3` writes it."""
    yield f"{proposal.id} is stale: {proposal.reason}"
    for change in proposal.files:
        for conflict in change.conflicts:
            yield f"{change.old_path or change.path}, line {conflict.line}:"
            yield "<<<<<<< on disk now"
            yield from conflict.disk
            yield "||||||| before"
            yield from conflict.base
            yield "======="
            yield from conflict.proposed
            yield ">>>>>>> proposed"


def _list_hunks(proposal: ProposalDetail) -> None:
    """Each hunk with its number, without context; a file that is decided as a whole has none."""
    for file in proposal.files:
        moved = f"{file.old_path} → " if file.old_path else ""
        print_line(f"{moved}{file.path} ({file.op}, +{file.added} -{file.removed})")
        for words in file.warnings:
            print_line(f"! {words}")
        for words in file.notes:
            print_line(f"· {words}")
        for hunk in file.hunks:
            print_line(f"hunk {hunk.number}, {hunk.state}: {hunk.header}")
            for mark, lines in (("-", hunk.removed), ("+", hunk.added)):
                for line in lines:
                    print_line(f"{mark}{line}")
