"""What `signoff verify` prints: text, JSON, annotations of GitHub, SARIF, a badge."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from app.attestation.commit_verification import AcceptedReview, CommitVerification, FileVerification
from app.cli.command_output import format_time, print_error, print_json, print_line
from app.cli.json_documents import (
    CommitVerificationDocument,
    ReviewerLine,
    VerifiedCommitLine,
    VerifiedFileLine,
)
from app.text.plural import plural
from app.text.safe_text import escape_unsafe

_SHOWN = 7
"""Digits of an id."""


@dataclass(frozen=True, slots=True)
class VerifiedRange:
    """The commits of a range and whether each was reviewed."""

    base: str
    """The commit before it; empty if it begins with the first."""
    tip: str
    policy: str
    """Where the policy was read; empty for the default one."""
    commits: Sequence[CommitVerification]
    refused: Mapping[str, str]
    """Signed statements that don't count, by id, with the reason."""

    @property
    def is_covered(self) -> bool:
        """Return whether all commits are covered."""
        return all(commit.is_covered for commit in self.commits)

    @property
    def summary(self) -> str:
        """Return one sentence for people."""
        missing = sum(not commit.is_covered for commit in self.commits)
        under = f"under {self.policy}" if self.policy else "with no policy in the base: one review of every change"
        of = f"{missing} of " if missing else ""
        return f"{of}{plural(len(self.commits), 'commit')} {'not ' if missing else ''}covered by reviews, {under}."


def print_text(verified: VerifiedRange) -> None:
    """Print a line for each commit and each file of it."""
    for commit in verified.commits:
        mark = "✓" if commit.is_covered else "✗"
        print_line(f"{mark} {commit.commit[:_SHOWN]} {commit.subject}{f'  ({commit.exempt})' * bool(commit.exempt)}")
        for file in commit.files:
            path = escape_unsafe(file.path, keep="")
            print_line(f"  {'✗' if file.problem else '✓'} {path}: {_describe(file)}")
    for name, reason in sorted(verified.refused.items()):
        print_error(f"Statement {name[:_SHOWN]} does not count: {reason}.")
    print_line(verified.summary)


def print_document(verified: VerifiedRange) -> None:
    """Print it as JSON."""
    print_json(
        CommitVerificationDocument(
            base=verified.base,
            tip=verified.tip,
            policy=verified.policy,
            covered=verified.is_covered,
            commits=[_commit_line(commit) for commit in verified.commits],
            refused=dict(verified.refused),
        )
    )


def print_annotations(verified: VerifiedRange) -> None:
    """Print workflow commands of GitHub Actions, which it shows at the lines.

    https://docs.github.com/actions/reference/workflows-and-actions/workflow-commands#setting-an-error-message
    """
    for path, line, message in _findings(verified):
        place = _escape(path).replace(":", "%3A").replace(",", "%2C")
        print_line(f"::error file={place}{f',line={line}' if line else ''},title=Not reviewed::{_escape(message)}")
    print_line(verified.summary)


def print_sarif(verified: VerifiedRange) -> None:
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
                        **({"region": {"startLine": line}} if line else {}),
                    }
                }
            ],
        }
        for path, line, message in _findings(verified)
    ]
    rule = {"id": "not-reviewed", "shortDescription": {"text": "A change that no review covers"}}
    _print_data(
        {
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{"tool": {"driver": {"name": "signoff", "rules": [rule]}}, "results": results}],
        }
    )


def print_badge(verified: VerifiedRange) -> None:
    """Print the JSON of a badge, as https://shields.io/badges/endpoint-badge reads it."""
    covered = sum(commit.is_covered for commit in verified.commits)
    _print_data(
        {
            "schemaVersion": 1,
            "label": "reviewed",
            "message": f"{covered} of {plural(len(verified.commits), 'commit')}",
            "color": "brightgreen" if verified.is_covered else "red",
        }
    )


def _print_data(data: dict[str, Any]) -> None:
    print_line(json.dumps(data, indent=2))


def _findings(verified: VerifiedRange) -> Iterator[tuple[str, int, str]]:
    """Yield each uncovered place: the path, the line from 1 or 0 for the whole file, a sentence."""
    for commit in verified.commits:
        for file in commit.files:
            for line in file.lines or [0] if file.problem else ():
                yield file.path, line, f"{commit.commit[:_SHOWN]}: {file.problem} not reviewed."


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


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
