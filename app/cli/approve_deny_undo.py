"""`signoff approve`, `deny`, `undo` and `redo`, for one proposal or several."""

import argparse
import asyncio
import contextlib
import os
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from msgspec import Struct

from app.agent.decision_service import (
    approval_event,
    decision_event,
    redo_event,
    undo_event,
    unrecorded_decision_error,
)
from app.cli.command_output import (
    CommandError,
    ExitCode,
    exit_code_for,
    print_error,
    print_json,
    print_line,
    read_stdin_text,
)
from app.cli.json_documents import DecisionDocument, FileJson
from app.cli.proposal_choice import (
    mark_revision_as_unshown,
    parse_hunk_numbers,
    record_proposal_as_seen,
    require_unchanged_since_seen,
)
from app.conversation.events import DecisionKind, ProposalDecided
from app.images.image import Image
from app.proposals.stack.stacking import proposal_paths, related_pending_proposals
from app.proposals.values.decision_facts import (
    DecisionCommandCaller,
    DecisionContext,
    RecordedCheckResult,
    RecordedTestEvidence,
)
from app.proposals.values.models import DecisionResult, Proposal, ProposalState, describe_state
from app.proposals.values.origin import OriginKind
from app.proposals.values.proposal_errors import ChangedSinceShown, ProposalError
from app.runtime.open_workspace import OpenWorkspace
from app.runtime.unfinished_work import append_decision_and_resulting_changes
from app.storage import StorageError
from app.text.quantities import join_first
from app.text.safe_text import strip_unsafe

_AGENT_VARIABLE = re.compile(
    r"AGENT|AI_AGENT|CLAUDECODE|GEMINI_CLI|QWEN_CODE|OPENCODE|REPL_ID|ANTIGRAVITY_AGENT"
    r"|(?:CLAUDE_CODE|CODEX|CURSOR|AIDER|OPENCODE|GEMINI_CLI|QWEN_CODE|CLINE|GOOSE|AMP|AUGMENT|COPILOT|WINDSURF|KIRO"
    r"|DEVIN)(?:_[A-Z0-9_]{1,60})?"
)
"""Names of variables that agents set in their shells: those that @vercel/detect-agent, am-i-vibing and aws-cdk check,
and those of the agents' own settings.
"""
_MAX_VARIABLE_NAMES = 20
"""Maximum number of recorded names."""
_MAX_NAMED_FILES = 10
"""Maximum number of decided files that are named."""
_STDIN, _STDOUT = 0, 1


def find_command_caller() -> DecisionCommandCaller:
    """Return what shows whether a person or an agent ran this command: streams, parent, agents' variables."""
    markers = sorted(name for name in os.environ if _AGENT_VARIABLE.fullmatch(name))
    return DecisionCommandCaller(
        stdin_is_terminal=_is_terminal(_STDIN),
        stdout_is_terminal=_is_terminal(_STDOUT),
        parent=_process_name(os.getppid()),
        agent_variables=tuple(markers[:_MAX_VARIABLE_NAMES]),
    )


def _is_terminal(descriptor: int) -> bool:
    with contextlib.suppress(OSError):
        return os.isatty(descriptor)
    return False


def _process_name(process: int) -> str:
    """Return the name of a process; empty if the system has no /proc."""
    with contextlib.suppress(OSError):
        return strip_unsafe(Path(f"/proc/{process}/comm").read_text(encoding="utf-8", errors="replace").strip())
    return ""


class _CarriedOutDecision(Struct, frozen=True):
    """One decision that was carried out."""

    result: DecisionResult
    verb: str
    before: dict[str, ProposalState]
    """The states before the decision of other proposals that it may have changed."""
    warning: str = ""


def approve_proposals(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Approve proposals, or some hunks of one: run the required checks, write the files, commit if configured."""
    _require_one_proposal_for_hunks(arguments)
    committing = runtime.settings.commit

    def one(proposal: Proposal) -> _CarriedOutDecision:
        hunks = parse_hunk_numbers(proposal, arguments.hunks)
        checks: tuple[RecordedCheckResult, ...] = ()
        if not arguments.unchecked:
            # Imported only here: few workspaces have checks, and the import delays every command.
            from app.cli.check_evidence_reproduce import run_required_checks

            checks = run_required_checks(runtime, proposal, hunks, quiet=arguments.json)
        before = _related_proposal_states(runtime, proposal)
        with _require_shown_text(runtime, proposal, force=arguments.force):
            context = _make_decision_context(checks, _stored_evidence(runtime, proposal, hunks))
            result = runtime.service.approve(proposal.id, hunks, circumstances=context)
        record_proposal_as_seen(runtime, proposal.id)
        verb = "kept" if proposal.on_disk else "approved"
        warning = _record_decision(runtime, result, approval_event(result))
        if committing and result.proposal.can_be_committed:
            try:
                # Imported only here: few users commit at each approval.
                from app.runtime.commit_records import commit_with_trailers

                commit_with_trailers(runtime, result.proposal)
            except ProposalError as error:
                # The files are written; only the commit has failed.
                warning = " ".join(filter(None, (warning, str(error))))
        return _CarriedOutDecision(result, verb, before, warning)

    return _decide_on_each(runtime, arguments, one)


def deny_proposals(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Deny proposals, or some hunks of one; the session's next request contains the feedback."""
    _require_one_proposal_for_hunks(arguments)
    feedback = arguments.message or ""
    if feedback == "-":
        feedback = read_stdin_text("your feedback")
    images = _load_images_in_feedback(runtime, feedback)

    def one(proposal: Proposal) -> _CarriedOutDecision:
        before = _related_proposal_states(runtime, proposal)
        hunks = parse_hunk_numbers(proposal, arguments.hunks)
        # Other agents read image files themselves, by the names in the feedback.
        shown = () if proposal.origin.kind is OriginKind.AGENT else images
        as_shown = (
            _require_shown_text(runtime, proposal, force=arguments.force)
            if proposal.on_disk
            else contextlib.nullcontext()
        )
        with as_shown:
            result = runtime.service.deny(
                proposal.id, hunks, feedback, circumstances=_make_decision_context(), images=shown
            )
        event = decision_event(result, DecisionKind.DENIED, feedback=feedback, images=shown)
        verb = "reverted on disk" if proposal.on_disk else "denied"
        return _CarriedOutDecision(result, verb, before, _record_decision(runtime, result, event))

    return _decide_on_each(runtime, arguments, one)


def _load_images_in_feedback(runtime: OpenWorkspace, feedback: str) -> tuple[Image, ...]:
    if "@" not in feedback:
        return ()
    # Imported only here: few denials name images.
    from app.cli.headless_run import load_and_store_named_images

    return asyncio.run(
        load_and_store_named_images(runtime, feedback, "", "It is denied without images that your words name.")
    )


def undo_proposals(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Undo written proposals byte for byte, or reopen denied ones."""
    return _undo_or_redo(runtime, arguments, runtime.service.undo, undo_event, "undone", "reopened")


def redo_proposals(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Write undone proposals again, or deny reopened ones again."""
    return _undo_or_redo(runtime, arguments, runtime.service.redo, redo_event, "applied again", "denied again")


def _undo_or_redo(
    runtime: OpenWorkspace,
    arguments: argparse.Namespace,
    reverse: Callable[[str, DecisionContext], DecisionResult],
    event: Callable[[DecisionResult], ProposalDecided],
    of_approval: str,
    of_denial: str,
) -> ExitCode:
    def one(proposal: Proposal) -> _CarriedOutDecision:
        before = _related_proposal_states(runtime, proposal)
        result = reverse(proposal.id, _make_decision_context())
        verb = of_denial if result.denial else of_approval
        return _CarriedOutDecision(result, verb, before, _record_decision(runtime, result, event(result)))

    return _decide_on_each(runtime, arguments, one)


def _decide_on_each(
    runtime: OpenWorkspace, arguments: argparse.Namespace, one: Callable[[Proposal], _CarriedOutDecision]
) -> ExitCode:
    """Decide on each named proposal in order; an unknown id is an error before the first decision."""
    # Without repetitions, in the given order.
    ids = list(dict.fromkeys(runtime.service.get(name).id for name in arguments.ids))
    done: list[_CarriedOutDecision] = []
    for name in ids:
        try:
            done.append(one(runtime.service.get(name)))
        except Exception as error:
            code = exit_code_for(error)
            if code is None or not done:
                raise
            raise CommandError(str(error), code, [decision.result.proposal.id for decision in done]) from error
        if not arguments.json:
            _print_decision(done[-1])
        elif done[-1].warning:
            print_error(done[-1].warning)
    if arguments.json:
        documents = [_make_decision_document(decision) for decision in done]
        print_json(documents if len(ids) > 1 else documents[0])
    return ExitCode.DONE


@contextlib.contextmanager
def _require_shown_text(runtime: OpenWorkspace, proposal: Proposal, *, force: bool) -> Iterator[None]:
    """Allow a write only of text that the user has seen, unless forced; record other text as unseen."""
    if force:
        runtime.service.rebase_pending(proposal_paths(proposal))
    else:
        require_unchanged_since_seen(runtime, proposal)
    try:
        yield
    except ChangedSinceShown:
        mark_revision_as_unshown(runtime, runtime.service.get(proposal.id))
        raise


def _stored_evidence(
    runtime: OpenWorkspace, proposal: Proposal, hunks: Collection[str] | None
) -> RecordedTestEvidence | None:
    """Return the stored evidence for these hunks; None if there is none for the current content."""
    if not runtime.settings.check:
        return None
    with contextlib.suppress(ProposalError, OSError):
        found = asyncio.run(runtime.evidence.load_current_evidence(proposal.id, hunks))
        return found.as_record if found is not None else None
    return None


def _make_decision_context(
    checks: tuple[RecordedCheckResult, ...] = (), evidence: RecordedTestEvidence | None = None
) -> DecisionContext:
    """Return the context of a decision by this command for the record: the caller, check results and evidence."""
    return DecisionContext(through="command line", caller=find_command_caller(), checks=checks, evidence=evidence)


def _require_one_proposal_for_hunks(arguments: argparse.Namespace) -> None:
    if arguments.hunks is not None and len(arguments.ids) > 1:
        raise CommandError("--hunks goes with one proposal; name just that one.", ExitCode.USAGE)


def _related_proposal_states(runtime: OpenWorkspace, proposal: Proposal) -> dict[str, ProposalState]:
    return {
        related.id: related.state
        for related in related_pending_proposals(runtime.proposals, proposal_paths(proposal))
    }


def _record_decision(runtime: OpenWorkspace, result: DecisionResult, event: ProposalDecided) -> str:
    """Record a decision that was carried out; if that fails, return a warning, because the decision is in force."""
    try:
        append_decision_and_resulting_changes(runtime, event, result.changed)
    except StorageError as error:
        return str(unrecorded_decision_error(result, error))
    return ""


def _make_decision_document(done: _CarriedOutDecision) -> DecisionDocument:
    result = done.result
    return DecisionDocument(
        id=result.proposal.id,
        state=result.proposal.state,
        files=[FileJson.model_validate(file) for file in result.files],
        changed=[other.id for other in result.changed],
        warning=done.warning,
    )


def _print_decision(done: _CarriedOutDecision) -> None:
    proposal = done.result.proposal
    if done.warning:
        print_error(done.warning)
    names = join_first([file.path for file in done.result.files], _MAX_NAMED_FILES)
    reopened = done.verb in ("undone", "reopened")
    again = "it waits for your decision again" if reopened else "other hunks of it still wait"
    rest = f"; {again}" if proposal.state.is_pending else ""
    print_line(f"{proposal.id} {done.verb}{': ' + names if names else ''}{rest}.")
    for other in done.result.changed:
        if done.before.get(other.id) is not other.state:
            reason = f": {other.reason}" if other.reason else ""
            print_line(f"{other.id} is {describe_state(other.state)} now{reason}.")
