"""Stages proposals from git or from the disk, and pushes proposals to git."""

from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct

from app.attestation.commit_verification import CommitVerifier, describe_signers
from app.attestation.review_notes import REVIEWS
from app.attestation.review_policy import read_committed_policy
from app.git.borrowed_repository import ObjectBorrowingRepository
from app.git.commits import CommitRangeChanges, create_unreferenced_commit, read_range_changes, read_worktree_changes
from app.git.remotes import (
    PROPOSAL_REFERENCES,
    default_remote,
    push_commit,
    push_notes,
    remote_url,
    resolve_or_fetch_commit_range,
)
from app.git.run_git import GitFailed
from app.proposals.decide.proposal_commits import format_summary_as_commit_message
from app.proposals.values.decision_facts import RecordedCheckResult
from app.proposals.values.models import Proposal
from app.proposals.values.origin import OriginKind, ProposalOrigin
from app.proposals.values.proposal_errors import NothingToStage
from app.proposals.values.record_entries import has_proposal_changes_on_disk_after
from app.runtime.commit_records import make_signed_approval, sign_reviews_into_git_notes, to_signed_review
from app.runtime.open_workspace import OpenWorkspace
from app.storage.record_store import DecisionRecordReader
from app.text.quantities import format_count, join_first

_MAX_AUTHORS = 3


class ProposalPushResult(Struct, frozen=True):
    """A proposal that was pushed to another repository."""

    id: str
    remote: str
    reference: str
    commit: str
    signed: bool
    """Whether the user's signed review was pushed with it."""


def stage_worktree_changes(
    runtime: OpenWorkspace, paths: Sequence[str], against: str, *, include_approved: bool = False
) -> tuple[Proposal, Sequence[str]]:
    """Stage the changes on disk as a proposal; return it with the files left out and the reasons.

    Args:
        paths: Paths to which the proposal is limited; empty for all.
        against: The commit to compare with; empty for the index.
        include_approved: Whether to include changes that were approved before.

    Raises:
        GitFailed: there is no repository or no such commit.
        NothingToStage: nothing differs.
        UnsafePath: a path is outside the workspace.
    """
    worktree = read_worktree_changes(runtime.workspace, paths, against)
    if not worktree.changes:
        hint = "" if against else "; `--against HEAD` compares with the last commit, to review what is in the index"
        first_left_out = f" ({worktree.left_out[0]})" if worktree.left_out else ""
        raise NothingToStage(f"Nothing on disk differs from {worktree.against}{first_left_out}{hint}.")
    origin = ProposalOrigin(kind=OriginKind.DISK, ref=worktree.against)
    proposal = runtime.service.stage_changes(
        worktree.changes, origin, "", on_disk=True, include_approved=include_approved
    )
    return proposal, worktree.left_out


def stage_commits_or_pull_request(
    runtime: OpenWorkspace, arguments: Sequence[str], *, include_approved: bool = False
) -> tuple[Proposal, Sequence[str]]:
    """Stage a commit, a range or a pull request as a proposal; return it with the files left out and the reasons.

    Args:
        arguments: A reference, a range or an address; or a remote and a reference.
        include_approved: Whether to include changes that were approved before.

    Raises:
        GitFailed: it can't be found or fetched.
        NothingToStage: the workspace already contains all of it, or no tool may touch its paths.
    """
    with ObjectBorrowingRepository(runtime.workspace.root) as borrowed:
        commit_changes = read_range_changes(
            borrowed, resolve_or_fetch_commit_range(borrowed, list(arguments)), runtime.workspace
        )
    if not commit_changes.changes:
        first_left_out = f" but {commit_changes.left_out[0]}" if commit_changes.left_out else ""
        raise NothingToStage(f"{commit_changes.picked.name} changes nothing here{first_left_out}.")
    origin = ProposalOrigin(kind=OriginKind.REF, ref=_git_origin(commit_changes))
    proposal = runtime.service.stage_changes(
        commit_changes.changes, origin, commit_changes.subject, include_approved=include_approved
    )
    return proposal, commit_changes.left_out


def push_proposal(
    runtime: OpenWorkspace,
    proposal_id: str,
    remote: str,
    ref_name: str,
    *,
    force: bool,
    sign: bool = False,
    checks: Sequence[RecordedCheckResult] = (),
) -> ProposalPushResult:
    """Push a proposal to a reference of another repository, as a commit on top of HEAD.

    Args:
        remote: A remote's name or address; empty for the default remote.
        ref_name: Last part of the reference; empty for the proposal's id.
        force: Whether to overwrite an existing reference.
        sign: Whether to sign an approval if the proposal still waits; a review of a written one is signed anyway.
        checks: Results of the checks on the approved state, which are signed with that approval.

    Raises:
        GitFailed: the proposal does not fit HEAD, the remote rejects it, or there is no key although `sign` is set.
    """
    proposal = runtime.service.get(proposal_id)
    changes = runtime.service.path_changes(proposal.id)
    with ObjectBorrowingRepository(runtime.workspace.root) as borrowed:
        remote = remote or default_remote(borrowed)
        remote_url(borrowed, remote, pushing=True)
        message = f"{format_summary_as_commit_message(proposal)}\n\nSignoff-Proposal: {proposal.id}\n"
        commit = create_unreferenced_commit(borrowed, changes, message, runtime.workspace.read_limit)
        reference = f"{PROPOSAL_REFERENCES}{ref_name or proposal.id}"
        push_commit(borrowed, commit, remote, reference, force=force)
        entries = DecisionRecordReader(runtime.database, runtime.name).entries(proposal.id)
        written = (
            [entry for entry in entries if entry.has_written and entry.files]
            if has_proposal_changes_on_disk_after(entries)
            else []
        )
        reviews = [to_signed_review(runtime, borrowed, entry) for entry in written]
        if sign and not reviews:
            reviews = [make_signed_approval(runtime, borrowed, proposal, checks)]
        signed = bool(reviews) and bool(sign_reviews_into_git_notes(borrowed, reviews))
        if sign and not signed:
            raise GitFailed(
                f"{proposal.id} is pushed, but git has no key to sign with: set gpg.format and user.signingkey."
            )
        if signed:
            push_notes(borrowed, remote, REVIEWS)
    return ProposalPushResult(proposal.id, remote, reference, commit, signed)


def describe_who_approved_commits(runtime: OpenWorkspace, arguments: Sequence[str]) -> list[str]:
    """Return who approved the changes of commits, one line for each file, by the local git notes.

    Args:
        arguments: As for `stage_commits_or_pull_request`.
    """
    with suppress(GitFailed), ObjectBorrowingRepository(runtime.workspace.root) as borrowed:
        commit_range = resolve_or_fetch_commit_range(borrowed, list(arguments))
        head = borrowed.resolve_object_id("HEAD")
        verifier = CommitVerifier(borrowed, read_committed_policy(borrowed, head), head)
        return [
            f"{file.path}: {describe_signers(file.reviews)}"
            for file in verifier.find_covering_reviews(commit_range.base, commit_range.tip)
            if file.reviews
        ]
    return []


def _git_origin(changes: CommitRangeChanges) -> str:
    """Return a description of the origin: the name, the commit and its authors."""
    tip = changes.picked.tip[:7]
    name = changes.picked.name if changes.picked.name.startswith(tip) else f"{changes.picked.name} ({tip})"
    count = f"{format_count(changes.count, 'commit')} " if changes.count > 1 else ""
    authors = join_first(changes.authors, _MAX_AUTHORS)
    return f"{name}, {count}by {authors}" if authors else name
