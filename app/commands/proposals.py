"""`signoff show`, `approve`, `deny`, `undo`, `redo` and `stage`."""

import argparse
from pathlib import Path

from app.agent.deciding import approval, decided, not_recorded, redone, undone
from app.commands.documents import DecisionDocument, FileLine, ProposalDetail, ProposalLine
from app.commands.output import (
    CommandError,
    Exit,
    piped_bytes,
    piped_text,
    print_error,
    print_json,
    print_line,
    print_text,
)
from app.commands.waiting import line_of
from app.conversation.events import Decision, ProposalDecided
from app.proposals.commit import commit_proposal
from app.proposals.desk import DecisionResult
from app.proposals.errors import ProposalError
from app.proposals.models import Proposal
from app.proposals.refusals import EditRefused
from app.proposals.remarks import all_cautions
from app.recovery import record_decision
from app.runtime import Runtime
from app.safe_text import visible
from app.storage.errors import StorageError


def show(runtime: Runtime, arguments: argparse.Namespace) -> Exit:
    """Print one proposal as a unified diff that `git apply` takes, or with `--hunks` what can be decided apart."""
    runtime.desk.refresh()
    proposal = runtime.desk.get(arguments.id)
    if arguments.json:
        print_json(ProposalDetail.of(proposal, runtime.desk.diffs(proposal.id)))
        return Exit.DONE
    if arguments.hunks:
        _list_hunks(ProposalDetail.of(proposal, runtime.desk.diffs(proposal.id)))
        return Exit.DONE
    # What stands before the first file of a diff is passed over by `git apply`, by patch and by `signoff stage`.
    for path, words in all_cautions(proposal):
        print_line(f"# {visible(f'{path}: {words}', keep='')}")
    print_text(runtime.desk.as_unified_diff(proposal.id))
    return Exit.DONE


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


def approve(runtime: Runtime, arguments: argparse.Namespace) -> Exit:
    """Write a proposal to disk, or some of its hunks."""
    proposal = runtime.desk.get(arguments.id)
    hunks = _hunks(proposal, arguments.hunks)
    committing = runtime.settings.commit
    result = runtime.desk.approve(proposal.id, hunks)
    warning = _record(runtime, result, approval(result))
    if committing:
        try:
            commit_proposal(runtime.workspace.root, result.proposal)
        except ProposalError as error:
            # The files are written all the same; what failed is only the commit.
            print_error(str(error))
    return _report(result, arguments, "approved", warning)


def deny(runtime: Runtime, arguments: argparse.Namespace) -> Exit:
    """Discard a proposal; the feedback reaches the model in its session's next request."""
    feedback = arguments.message or ""
    if feedback == "-":
        feedback = piped_text("your feedback")
    proposal = runtime.desk.get(arguments.id)
    result = runtime.desk.deny(proposal.id, None, feedback)
    warning = _record(runtime, result, decided(result, Decision.DENIED, feedback=feedback))
    return _report(result, arguments, "denied", warning)


def undo(runtime: Runtime, arguments: argparse.Namespace) -> Exit:
    """Undo an applied proposal, byte for byte, or have a denied one wait again."""
    result = runtime.desk.undo(arguments.id)
    warning = _record(runtime, result, undone(result))
    return _report(result, arguments, "reopened" if result.denial else "undone", warning)


def redo(runtime: Runtime, arguments: argparse.Namespace) -> Exit:
    """Apply an undone proposal again, or deny again one whose denial was undone."""
    result = runtime.desk.redo(arguments.id)
    warning = _record(runtime, result, redone(result))
    return _report(result, arguments, "denied again" if result.denial else "applied again", warning)


def stage(runtime: Runtime, arguments: argparse.Namespace) -> Exit:
    """Make a proposal of a diff made elsewhere."""
    try:
        data = piped_bytes("or paste the diff") if arguments.file == "-" else Path(arguments.file).read_bytes()
    except OSError as error:
        raise CommandError(f"Cannot read {arguments.file}: {error.strerror}.", Exit.USAGE) from error
    try:
        proposal = runtime.desk.stage_patch(data.decode("utf-8", "surrogateescape"))
    except EditRefused as error:
        raise CommandError(f"Nothing was staged: {error}", Exit.REFUSED) from error
    if arguments.json:
        print_json(ProposalLine.of(proposal))
    else:
        print_line(f"Staged {line_of(proposal)}")
        for trouble in filter(None, (change.trouble for change in proposal.files)):
            print_error(trouble)
    return Exit.DONE


def _hunks(proposal: Proposal, numbers: str | None) -> set[str] | None:
    """The ids of the hunks that `--hunks 1,3-5` names; None for all."""
    if numbers is None:
        return None
    known = {hunk.number: hunk.id for hunk in proposal.hunks}
    chosen: set[str] = set()
    for part in numbers.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise CommandError(f"--hunks takes numbers such as 1,3-5, not {numbers!r}.", Exit.USAGE)
        low, high = int(first), int(last) if dash else int(first)
        wanted = [number for number in known if low <= number <= high]
        if low not in known or high not in known or low > high:
            raise CommandError(
                f"{proposal.id} has no hunk {part.strip()}; `signoff show {proposal.id} --hunks` lists them.",
                Exit.USAGE,
            )
        chosen.update(known[number] for number in wanted)
    return chosen


def _record(runtime: Runtime, result: DecisionResult, event: ProposalDecided) -> str:
    """Record a decision that was carried out; what to warn of if that could not be done, for the decision stands."""
    try:
        record_decision(runtime, event, result.changed)
    except StorageError as error:
        return str(not_recorded(result, error))
    return ""


def _report(result: DecisionResult, arguments: argparse.Namespace, verb: str, warning: str) -> Exit:
    proposal = result.proposal
    if warning:
        print_error(warning)
    if arguments.json:
        files = [
            FileLine(path=file.path, op=file.op, added=file.added, removed=file.removed) for file in result.files
        ]
        print_json(
            DecisionDocument(
                id=proposal.id,
                state=proposal.state,
                files=files,
                changed=[other.id for other in result.changed],
                warning=warning,
            )
        )
        return Exit.DONE
    names = ", ".join(file.path for file in result.files)
    again = "it waits for your decision again" if verb in ("undone", "reopened") else "other hunks of it still wait"
    rest = f"; {again}" if proposal.state.waiting else ""
    print_line(f"{proposal.id} {verb}{': ' + names if names else ''}{rest}.")
    for other in result.changed:
        print_line(f"{other.id} is {other.state.replace('_', ' ')} now{': ' + other.reason if other.reason else ''}.")
    return Exit.DONE
