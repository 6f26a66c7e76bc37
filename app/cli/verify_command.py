"""`signoff verify`: whether the changes of commits were reviewed, from git alone."""

import argparse
import time
from datetime import UTC, date, datetime
from pathlib import Path

from app.attestation.commit_verification import CommitVerifier
from app.attestation.review_policy import POLICY_PATH, ReviewPolicy, allowed_signers, committed_file, parse_policy
from app.attestation.signatures import SignatureVerifier
from app.cli.command_output import CommandError, ExitCode, check_folder
from app.cli.verify_reports import (
    VerifiedRange,
    print_annotations,
    print_badge,
    print_document,
    print_sarif,
    print_text,
)
from app.git.borrowed_repository import BorrowedRepository
from app.git.run_git import GitFailed

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
    if base == "" and tip in borrowed.shallow_commits:
        raise CommandError(f"The clone is shallow: what {tip[:_SHOWN]} started from is missing.")
    allowed = allowed_signers(borrowed, policy, base)
    keys = SignatureVerifier(allowed, policy.gpg_keys, _time(arguments.at))
    verifier = CommitVerifier(borrowed, policy, keys, arguments.notes)
    commits = verifier.verify(base, tip)
    if not commits:
        raise CommandError("There is no commit in this range; nothing was verified.")
    verified = VerifiedRange(base, tip, source, commits, verifier.refused)
    _PRINTERS["json" if arguments.json else arguments.format](verified)
    return ExitCode.DONE if verified.is_covered else ExitCode.REFUSED


_PRINTERS = {
    "text": print_text,
    "json": print_document,
    "github": print_annotations,
    "sarif": print_sarif,
    "badge": print_badge,
}


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
