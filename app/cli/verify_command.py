"""`signoff verify`: whether the changes of commits were reviewed, from git alone."""

import argparse
import time
from datetime import UTC, date, datetime
from pathlib import Path

from app.attestation.commit_verification import AcceptedReview, CommitVerification, CommitVerifier, FileVerification
from app.attestation.review_policy import POLICY_PATH, ReviewPolicy, committed_file, parse_policy
from app.attestation.signatures import SignatureVerifier, user_allowed_signers
from app.cli.command_output import (
    CommandError,
    ExitCode,
    check_folder,
    format_time,
    print_error,
    print_json,
    print_line,
)
from app.cli.json_documents import CommitVerificationDocument, ReviewerLine, VerifiedCommitLine, VerifiedFileLine
from app.git.borrowed_repository import BorrowedRepository
from app.git.run_git import GitFailed
from app.text.plural import plural

_SHOWN = 7
"""Digits of a commit's id."""
_LARGEST = 1 << 20
"""Bytes of a policy file."""


def verify(arguments: argparse.Namespace) -> ExitCode:
    """Verify the commits of a range under the policy of its base.

    Returns:
        `ExitCode.REFUSED` if something that the policy asks is not covered.

    Raises:
        CommandError: the range is empty, or git, a note or the policy cannot be read.
    """
    check_folder(arguments.workspace)
    try:
        with BorrowedRepository(Path(arguments.workspace).resolve()) as borrowed:
            return _verify(borrowed, arguments)
    except GitFailed as error:
        raise CommandError(str(error)) from error


def _verify(borrowed: BorrowedRepository, arguments: argparse.Namespace) -> ExitCode:
    base, tip = _range(borrowed, arguments.range)
    policy, source = _policy(borrowed, base, arguments.policy)
    if policy.allowed_signers:
        allowed = committed_file(borrowed, base, policy.allowed_signers) if base else None
        if allowed is None:
            raise CommandError(f"{policy.allowed_signers}, which the policy names, is not in the base of the range.")
    else:
        allowed = user_allowed_signers()
    if not allowed.strip() and not policy.gpg_keys:
        raise CommandError(
            "No keys are allowed to sign: name them in `allowed_signers` or `gpg_keys` of the policy, "
            "or in git's gpg.ssh.allowedSignersFile."
        )
    verifier = CommitVerifier(borrowed, policy, SignatureVerifier(allowed, policy.gpg_keys, _time(arguments.at)))
    commits = verifier.verify(base, tip)
    if not commits:
        raise CommandError("There is no commit in this range; nothing was verified.")
    covered = all(commit.is_covered for commit in commits)
    if arguments.json:
        print_json(
            CommitVerificationDocument(
                base=base,
                tip=tip,
                policy=source,
                covered=covered,
                commits=[_commit_line(commit) for commit in commits],
                refused=verifier.refused,
            )
        )
    else:
        _print(commits, verifier, source)
    return ExitCode.DONE if covered else ExitCode.REFUSED


def _range(borrowed: BorrowedRepository, words: str) -> tuple[str, str]:
    """Return the commit before a range, empty for none, and its last commit."""
    if not words:
        upstream = borrowed.resolve("HEAD@{upstream}")
        words = f"{upstream}..HEAD" if upstream else "HEAD"
    first, dots, last = words.partition("..")
    tip = borrowed.resolve((last.removeprefix(".") or "HEAD") if dots else first)
    if not tip:
        raise CommandError(f"There is no commit {(last if dots else first)!r} here.")
    if not dots:
        return borrowed.resolve(f"{tip}^"), tip
    base = borrowed.resolve(first or "HEAD")
    if not base:
        raise CommandError(f"There is no commit {first!r} here.")
    return base, tip


def _time(day: str | None) -> float:
    """Return the end of a day, of UTC; the present without one."""
    if day is None:
        return time.time()
    try:
        return datetime.combine(date.fromisoformat(day), datetime.max.time(), UTC).timestamp()
    except ValueError as error:
        raise CommandError(f"{day!r} is no day; write it as 2026-01-31.", ExitCode.USAGE) from error


def _policy(borrowed: BorrowedRepository, base: str, file: str | None) -> tuple[ReviewPolicy, str]:
    """Return the policy and where it was read: in a file that the user names, or in the base of the range."""
    if file is not None:
        try:
            with Path(file).open("rb") as stream:
                return parse_policy(stream.read(_LARGEST), file), file
        except OSError as error:
            raise CommandError(f"{file} cannot be read ({error.strerror}).") from error
    text = committed_file(borrowed, base, POLICY_PATH) if base else None
    if text is None:
        return ReviewPolicy(), ""
    source = f"{POLICY_PATH} of {base[:_SHOWN]}"
    return parse_policy(text, source), source


def _print(commits: list[CommitVerification], verifier: CommitVerifier, source: str) -> None:
    for commit in commits:
        mark = "✓" if commit.is_covered else "✗"
        print_line(f"{mark} {commit.commit[:_SHOWN]} {commit.subject}{f'  ({commit.exempt})' * bool(commit.exempt)}")
        for file in commit.files:
            print_line(f"  {'✗' if file.problem else '✓'} {file.path}: {_describe(file)}")
    for name, reason in sorted(verifier.refused.items()):
        print_error(f"Statement {name[:_SHOWN]} does not count: {reason}.")
    missing = sum(not commit.is_covered for commit in commits)
    under = f"under {source}" if source else "with no policy in the base: one review of every change"
    if missing:
        print_line(f"{missing} of {plural(len(commits), 'commit')} not covered by reviews, {under}.")
    else:
        print_line(f"{plural(len(commits), 'commit')} covered by reviews, {under}.")


def _describe(file: FileVerification) -> str:
    if file.problem:
        lines = f" (line {', '.join(map(str, file.lines))})" if file.lines else ""
        return f"{file.problem}{lines} not reviewed"
    if not file.reviews:
        return "no review asked"
    told = dict.fromkeys(_describe_review(one) for one in file.reviews)
    return f"reviewed by {'; '.join(told)}{', on another base' * file.rebased}"


def _describe_review(one: AcceptedReview) -> str:
    review = one.review
    unseen = f", {plural(review.unseen_lines, 'line')} unseen" if review.unseen_lines else ""
    checks = "".join(f", {check.name} {check.state}" for check in review.checks)
    by = f" from {review.origin.model or review.origin.agent}" if review.origin.model or review.origin.agent else ""
    return f"{one.signer} at {format_time(review.time)} ({review.proposal}{by}{unseen}{checks})"


def _commit_line(commit: CommitVerification) -> VerifiedCommitLine:
    return VerifiedCommitLine(
        commit=commit.commit,
        subject=commit.subject,
        author=commit.author,
        covered=commit.is_covered,
        exempt=commit.exempt,
        files=[
            VerifiedFileLine(
                path=file.path,
                covered=not file.problem,
                rebased=file.rebased,
                problem=file.problem,
                lines=file.lines,
                reviews=[_reviewer_line(one) for one in file.reviews],
            )
            for file in commit.files
        ],
    )


def _reviewer_line(one: AcceptedReview) -> ReviewerLine:
    review = one.review
    return ReviewerLine(
        signer=one.signer,
        key=one.key,
        reviewer=review.reviewer,
        time=review.time,
        proposal=review.proposal,
        agent=review.origin.agent,
        model=review.origin.model,
        unseen_lines=review.unseen_lines,
        checks={check.name: check.state for check in review.checks},
    )
