"""Hunk numbers of the `--hunks 1,3-5` option."""

from app.cli.command_output import CommandError, ExitCode
from app.proposals.values.models import Proposal

_MOST_DIGITS = 12


def hunk_ids(proposal: Proposal, numbers: str | None) -> set[str] | None:
    """Return the ids of the hunks with these numbers; None for the whole proposal.

    Raises:
        CommandError: It has no hunk of such a number.
    """
    if numbers is None:
        return None
    known = {hunk.number: hunk.id for hunk in proposal.hunks}
    chosen: set[str] = set()
    for part in numbers.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise CommandError(f"--hunks takes numbers such as 1,3-5, not {_short(numbers)!r}.", ExitCode.USAGE)
        low = _number(first)
        high = _number(last) if dash else low
        wanted = [number for number in known if low <= number <= high]
        if low not in known or high not in known or low > high:
            raise CommandError(
                f"{proposal.id} has no hunk {_short(part.strip())}; `signoff show {proposal.id} --hunks` lists them.",
                ExitCode.USAGE,
            )
        chosen.update(known[number] for number in wanted)
    return chosen


def _number(digits: str) -> int:
    """The number; one that no hunk can have is as good as any other of the kind."""
    return int(digits[:_MOST_DIGITS])


def _short(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:40]}…"
