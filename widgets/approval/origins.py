"""Whose proposals the review lists: everybody's, or those of one origin."""

from collections.abc import Iterable

from app.proposals.models import Proposal
from app.proposals.origin import Origin

_OWN = Origin().label


class Origins:
    """The filter of the review; what it leaves out is not listed, so that no key decides on it either."""

    def __init__(self) -> None:
        self.only = ""
        """The label of the origin that is listed alone; empty for all."""
        self.everything: dict[str, Proposal] = {}
        """What there is, listed or not, by id."""
        self.told_apart: frozenset[str] = frozenset()
        """The labels that rows carry: all of them where several wait, else those that are not signoff's own."""
        self._labels: tuple[str, ...] = ()
        """Of what waits, sorted."""

    def listed(self, proposals: Iterable[Proposal]) -> list[Proposal]:
        """Those of them that are listed; once nothing waits of the one origin, all are again."""
        self.everything = {one.id: one for one in proposals}
        waiting = {one.origin.label for one in self.everything.values() if one.state.waiting}
        every = {one.origin.label for one in self.everything.values()}
        self._labels = tuple(sorted(waiting))
        self.told_apart = frozenset(every if len(waiting) > 1 else every - {_OWN})
        if self.only not in waiting:
            self.only = ""
        return [one for one in self.everything.values() if self._lists(one)]

    @property
    def left_out(self) -> int:
        """How many wait that are not listed."""
        return sum(one.state.waiting and not self._lists(one) for one in self.everything.values())

    @property
    def several(self) -> bool:
        """Whether there is anything to choose."""
        return len(self._labels) > 1

    def next(self) -> None:
        """List those of the next origin alone, after the last all again."""
        rounds = ("", *self._labels)
        self.only = rounds[(rounds.index(self.only) + 1) % len(rounds)]

    def _lists(self, proposal: Proposal) -> bool:
        return self.only in ("", proposal.origin.label)
