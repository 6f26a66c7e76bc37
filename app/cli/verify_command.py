"""`signoff verify`: prints whether the changes of commits were reviewed: text, JSON, annotations, SARIF, a badge."""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from app.attestation.commit_verification import AcceptedReview, FileVerification, RangeVerification, verify_range
from app.cli.command_output import (
    CommandError,
    ExitCode,
    print_error,
    print_json,
    print_line,
    require_workspace_folder,
)
from app.cli.json_documents import CommitVerificationDocument
from app.git.run_git import GitFailed
from app.text.quantities import format_count, format_time
from app.text.safe_text import escape_unsafe


def verify_commits(arguments: argparse.Namespace) -> ExitCode:
    """Verify the commits of a range under the policy of its base.

    Returns:
        `ExitCode.REFUSED` if a change that the policy covers was not reviewed.

    Raises:
        CommandError: The options conflict, the range is empty, or git, a note or the policy cannot be read.
    """
    if arguments.json and arguments.format:
        raise CommandError("Give --json or --format, one of them.", ExitCode.USAGE)
    require_workspace_folder(arguments.workspace)
    root, when = Path(arguments.workspace).resolve(), _parse_verification_time(arguments.at)
    try:
        verified = verify_range(root, arguments.range, when, policy_file=arguments.policy, more_notes=arguments.notes)
    except GitFailed as error:
        raise CommandError(str(error)) from error
    _PRINTERS["json" if arguments.json else arguments.format or "text"](verified)
    return ExitCode.DONE if verified.covered else ExitCode.REFUSED


def _parse_verification_time(day: str | None) -> float:
    """Return the end of a day in UTC as Unix time; without a day, the current time. Raises CommandError."""
    if day is None:
        return time.time()
    try:
        return datetime.combine(date.fromisoformat(day), datetime.max.time(), UTC).timestamp()
    except ValueError as error:
        raise CommandError(f"{day!r} is no day; write it as 2026-01-31.", ExitCode.USAGE) from error


_ID_DIGITS = 7
"""Digits of an id."""


def print_verification(verified: RangeVerification) -> None:
    """Print a line for each commit and each file of it."""
    for commit in verified.commits:
        mark = "✓" if commit.covered else "✗"
        print_line(
            f"{mark} {commit.commit[:_ID_DIGITS]} {commit.subject}{f'  ({commit.exempt})' * bool(commit.exempt)}"
        )
        for file in commit.files:
            path = escape_unsafe(file.path, keep="")
            print_line(f"  {'✗' if file.problem else '✓'} {path}: {_describe_file(file)}")
    for name, reason in sorted(verified.refused.items()):
        print_error(f"Statement {name[:_ID_DIGITS]} does not count: {reason}.")
    print_line(verified.summary)


def print_verification_json(verified: RangeVerification) -> None:
    """Print the verification as JSON."""
    print_json(CommitVerificationDocument.model_validate(verified))


def print_github_annotations(verified: RangeVerification) -> None:
    """Print workflow commands of GitHub Actions, which it shows at the lines.

    https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands#setting-an-error-message
    """
    for path, line, message in _uncovered_places(verified):
        place = _escape_annotation(path).replace(":", "%3A").replace(",", "%2C")
        print_line(
            f"::error file={place}{f',line={line}' if line else ''},title=Not reviewed::{_escape_annotation(message)}"
        )
    print_line(verified.summary)


def print_sarif(verified: RangeVerification) -> None:
    """Print SARIF 2.1.0: https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html."""
    results = [
        {
            "ruleId": "not-reviewed",
            "level": "error",
            "message": {"text": message},
            "locations": [
                {
                    "physicalLocation": {
                        "artifactLocation": {"uri": quote(path.encode("utf-8", "surrogateescape"))},
                        # GitHub shows only results that have a line.
                        "region": {"startLine": line or 1},
                    }
                }
            ],
        }
        for path, line, message in _uncovered_places(verified)
    ]
    rule = {"id": "not-reviewed", "shortDescription": {"text": "A change that no review covers"}}
    _print_indented_json(
        {
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{"tool": {"driver": {"name": "signoff", "rules": [rule]}}, "results": results}],
        }
    )


def print_badge_json(verified: RangeVerification) -> None:
    """Print the JSON of a badge, for https://shields.io/badges/endpoint-badge."""
    covered = sum(commit.covered for commit in verified.commits)
    _print_indented_json(
        {
            "schemaVersion": 1,
            "label": "reviewed",
            "message": f"{covered} of {format_count(len(verified.commits), 'commit')}",
            "color": "brightgreen" if verified.covered else "red",
        }
    )


def _print_indented_json(data: dict[str, Any]) -> None:
    print_line(json.dumps(data, indent=2))


def _uncovered_places(verified: RangeVerification) -> Iterator[tuple[str, int, str]]:
    """Yield each uncovered place: the path, the line from 1 or 0 for the whole file, a sentence."""
    for commit in verified.commits:
        for file in commit.files:
            for line in file.lines or [0] if file.problem else ():
                yield file.path, line, f"{commit.commit[:_ID_DIGITS]}: {file.problem} {file.requirement}."


def _escape_annotation(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _describe_file(file: FileVerification) -> str:
    if file.problem:
        lines = f" (line{'s' * (len(file.lines) > 1)} {', '.join(map(str, file.lines))})" if file.lines else ""
        reviewed = "".join(
            f"; line {hunk.line} by {_describe_reviews(hunk.reviews)}" for hunk in file.hunks if hunk.covered
        )
        return f"{file.problem}{lines} {file.requirement}{reviewed}"
    if not file.reviews:
        return "no review asked"
    return f"reviewed by {_describe_reviews(file.reviews)}{', on another base' * file.rebased}"


def _describe_reviews(reviews: Sequence[AcceptedReview]) -> str:
    return ", ".join(dict.fromkeys(_describe_review(review) for review in reviews))


def _describe_review(one: AcceptedReview) -> str:
    review = one.review
    unseen = f", {format_count(review.unseen_lines, 'line')} unseen" if review.unseen_lines else ""
    checks = "".join(f", {check.name} {check.state}" for check in review.checks)
    by = f" from {review.origin.model or review.origin.agent}" if review.origin.model or review.origin.agent else ""
    return f"{one.signer} at {format_time(review.time)} ({review.proposal}{by}{unseen}{checks})"


_PRINTERS = {
    "text": print_verification,
    "json": print_verification_json,
    "github": print_github_annotations,
    "sarif": print_sarif,
    "badge": print_badge_json,
}
