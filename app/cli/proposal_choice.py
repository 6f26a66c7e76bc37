"""Finds the hunks that a command names, and records which proposals must be shown again before a decision."""

from app.cli.command_output import CommandError, ExitCode
from app.proposals.values.models import Proposal
from app.proposals.values.proposal_errors import ChangedSinceShown
from app.runtime.open_workspace import OpenWorkspace

_UNSEEN_SETTING_KEY = "look_needed"
_MAX_DIGITS = 12
"""Digits of a hunk number that are read; real numbers are shorter."""


def parse_hunk_numbers(proposal: Proposal, numbers: str | None) -> set[str] | None:
    """Return the ids of the hunks with these numbers; None for all. Raises CommandError for other numbers."""
    if numbers is None:
        return None
    known = {hunk.number: hunk.id for hunk in proposal.hunks}
    chosen: set[str] = set()
    for part in numbers.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise CommandError(f"--hunks takes numbers such as 1,3-5, not {_short(numbers)!r}.", ExitCode.USAGE)
        low = int(first[:_MAX_DIGITS])
        high = int(last[:_MAX_DIGITS]) if dash else low
        if low not in known or high not in known or low > high:
            raise CommandError(
                f"{proposal.id} has no hunk {_short(part.strip())}; `signoff show {proposal.id} --hunks` lists them.",
                ExitCode.USAGE,
            )
        chosen.update(known[number] for number in known if low <= number <= high)
    return chosen


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"


def rebase_and_mark_changed_as_unshown(runtime: OpenWorkspace) -> None:
    """Re-base pending proposals onto the disk, and mark the changed ones as not shown yet."""
    seen = {pending.id: pending.revision for pending in runtime.service.pending()}
    for changed in runtime.service.rebase_pending():
        if seen.get(changed.id) != changed.revision:
            mark_revision_as_unshown(runtime, changed)


def mark_revision_as_unshown(runtime: OpenWorkspace, proposal: Proposal) -> None:
    """Record that the current text of a proposal was not shown yet."""
    runtime.sessions.set_setting(f"{_UNSEEN_SETTING_KEY}:{proposal.id}", str(proposal.revision))


def record_proposal_as_seen(runtime: OpenWorkspace, proposal_id: str) -> None:
    """Record that a proposal was shown, or need not be shown any more."""
    if runtime.sessions.setting(f"{_UNSEEN_SETTING_KEY}:{proposal_id}") is not None:
        runtime.sessions.set_setting(f"{_UNSEEN_SETTING_KEY}:{proposal_id}", None)


def require_unchanged_since_seen(runtime: OpenWorkspace, proposal: Proposal) -> None:
    """Raise ChangedSinceShown if the proposal has changed since it was shown."""
    if runtime.sessions.setting(f"{_UNSEEN_SETTING_KEY}:{proposal.id}") is not None:
        raise ChangedSinceShown(
            f"{proposal.id} has changed since it was shown: `signoff show {proposal.id}` shows what it is now, "
            "and --force decides on it unseen."
        )
