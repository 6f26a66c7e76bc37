"""What of each proposal was on screen, and what was re-based since."""

from collections.abc import Collection
from dataclasses import dataclass

from app.proposals.models import Proposal
from widgets.diff.seen import Seen


@dataclass(frozen=True, slots=True)
class Unseen:
    """What an approval would write that has never been on screen."""

    lines: int = 0
    """Changed lines."""
    of: int = 0
    """Those that it would write in all."""
    paths: tuple[str, ...] = ()
    """The files that they are in, and files without hunks whose head was never drawn."""

    def __bool__(self) -> bool:
        return bool(self.paths)


class LookedAt:
    """Remembers what the user has looked at."""

    def __init__(self) -> None:
        self._seen: dict[str, Seen] = {}
        self._bases: dict[str, dict[str, str]] = {}
        """What each shown proposal was based on, by path."""
        self._moved: dict[str, tuple[str, ...]] = {}

    def seen_of(self, proposal: Proposal) -> Seen:
        """What of a proposal was on screen, to be added to."""
        return self._seen.setdefault(proposal.id, Seen())

    def unseen(self, proposal: Proposal, left_out: Collection[str]) -> Unseen:
        """What of it has never been on screen, apart from hunks that are left out."""
        seen = self.seen_of(proposal)
        lines = of = 0
        paths: list[str] = []
        for change in proposal.files:
            missing, changed = seen.unseen_of(change.hunks, left_out)
            lines, of = lines + missing, of + changed
            if missing or (not change.hunks and change.path not in seen.files):
                paths.append(change.path)
        return Unseen(lines, of, tuple(paths))

    def note_bases(self, proposal: Proposal) -> None:
        """The proposal is shown as it is now; what was re-based since the last time is remembered."""
        now = {change.path: change.base.sha256 for change in proposal.files if change.base is not None}
        before = self._bases.get(proposal.id, now)
        self._bases[proposal.id] = now
        rebased = [change.path for change in proposal.files if change.rebased]
        moved = [path for path in rebased if now.get(path) != before.get(path)]
        still = [path for path in self._moved.get(proposal.id, ()) if path in rebased]
        self._moved[proposal.id] = tuple(dict.fromkeys((*still, *moved)))

    def moved(self, proposal: Proposal) -> tuple[str, ...]:
        """Files that were re-based after they had been shown."""
        return self._moved.get(proposal.id, ())
