"""The hunks of each proposal that an approval would write: all pending ones that the user has not excluded."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from app.proposals.stack.hunk_splitting import HunkPart
from app.proposals.values.models import Hunk, HunkState, Proposal


@dataclass(frozen=True, slots=True)
class ChosenPart:
    """The part of a proposal that an approval would write."""

    hunks: tuple[str, ...]
    """Ids of the chosen hunks."""
    total: int
    """Hunks that wait."""
    files: int
    """Files that would change."""
    added: int
    removed: int

    @property
    def is_all(self) -> bool:
        """Return whether nothing is excluded."""
        return len(self.hunks) == self.total

    @property
    def is_empty(self) -> bool:
        """Return whether everything is excluded."""
        return bool(self.total) and not self.hunks

    @property
    def decided_hunks(self) -> tuple[str, ...] | None:
        """Return the hunks that an approval names; None for all that are pending."""
        return None if self.is_all else self.hunks


class ChosenHunks:
    """The user's choice among the hunks of all proposals."""

    def __init__(self) -> None:
        self.left_out: dict[str, set[str]] = {}
        """Ids of hunks, by proposal."""
        self._latest: tuple[Proposal, frozenset[str], ChosenPart] | None = None
        """What was asked for last: a picture asks a dozen times, and a proposal may have thousands of hunks."""

    def excluded_from(self, key: str) -> frozenset[str]:
        """Return the excluded hunks of a proposal."""
        return frozenset(self.left_out.get(key, ()))

    def chosen_part(self, proposal: Proposal) -> ChosenPart:
        """Return what an approval would write now."""
        out = self.excluded_from(proposal.id)
        if self._latest is None or self._latest[0] is not proposal or self._latest[1] != out:
            self._latest = proposal, out, _part(proposal, out)
        return self._latest[2]

    def toggle(self, proposal: Proposal, hunks: Sequence[Hunk]) -> None:
        """Include or exclude hunks; several together follow the first."""
        pending = {hunk.id for hunk in pending_among(hunks)}
        if not pending:
            return
        out = self.left_out.setdefault(proposal.id, set())
        if pending <= out:
            out -= pending
        else:
            out |= pending

    def take_parts(self, proposal: Proposal, parts: Sequence[HunkPart], whole: Collection[str]) -> None:
        """Toggle lines of a hunk that was just split, and hunks of which all lines were selected.

        `proposal` is as it was before. The selection goes in if all of it was left out, else out; the rest stays.
        """
        out = self.left_out.setdefault(proposal.id, set())
        cut = {part.whole for part in parts}
        goes_in = out.issuperset({*cut, *whole})
        left = {part.hunk.id for part in parts if (not goes_in if part.picked else part.whole in out)}
        out -= {*cut, *whole}
        out |= left if goes_in else {*left, *whole}

    def follow_changes(self, before: Proposal, after: Proposal) -> None:
        """Keep excluded hunks excluded when a re-base or edit replaces them."""
        out = self.left_out.get(after.id)
        ids = [hunk.id for hunk in after.hunks]
        if out and not out.issubset(ids):
            known = {hunk.id for hunk in before.hunks}
            out |= {identity for identity in ids if identity not in known}


def _part(proposal: Proposal, out: frozenset[str]) -> ChosenPart:
    pending = pending_among(proposal.hunks)
    chosen = [hunk for hunk in pending if hunk.id not in out]
    ids = tuple(hunk.id for hunk in chosen)
    if len(chosen) == len(pending):
        return ChosenPart(ids, len(pending), len(proposal.in_question), proposal.added, proposal.removed)
    files = sum(1 for change in proposal.files if not out.issuperset(hunk.id for hunk in pending_among(change.hunks)))
    added, removed = sum(hunk.new_count for hunk in chosen), sum(hunk.old_count for hunk in chosen)
    return ChosenPart(ids, len(pending), files, added, removed)


def pending_among(hunks: Iterable[Hunk]) -> list[Hunk]:
    """Return the pending hunks."""
    return [hunk for hunk in hunks if hunk.state is HunkState.PENDING]
