"""`signoff verify`: whether the changes of commits were reviewed, from git alone."""

import argparse
import time
from datetime import UTC, date, datetime
from pathlib import Path

from app.attestation.range_verification import verify_range
from app.cli.command_output import CommandError, ExitCode, check_folder
from app.cli.verify_reports import print_annotations, print_badge, print_document, print_sarif, print_text
from app.git.run_git import GitFailed

_PRINTERS = {
    "text": print_text,
    "json": print_document,
    "github": print_annotations,
    "sarif": print_sarif,
    "badge": print_badge,
}


def verify(arguments: argparse.Namespace) -> ExitCode:
    """Verify the commits of a range under the policy of its base.

    Returns:
        `ExitCode.REFUSED` if something that the policy asks is not covered.

    Raises:
        CommandError: the range is empty, or git, a note or the policy cannot be read.
    """
    check_folder(arguments.workspace)
    root, when = Path(arguments.workspace).resolve(), _time(arguments.at)
    try:
        verified = verify_range(root, arguments.range, when, policy_file=arguments.policy, more_notes=arguments.notes)
    except GitFailed as error:
        raise CommandError(str(error)) from error
    _PRINTERS["json" if arguments.json else arguments.format](verified)
    return ExitCode.DONE if verified.covered else ExitCode.REFUSED


def _time(day: str | None) -> float:
    """Return the end of a day, of UTC; the present without one."""
    if day is None:
        return time.time()
    try:
        return datetime.combine(date.fromisoformat(day), datetime.max.time(), UTC).timestamp()
    except ValueError as error:
        raise CommandError(f"{day!r} is no day; write it as 2026-01-31.", ExitCode.USAGE) from error
