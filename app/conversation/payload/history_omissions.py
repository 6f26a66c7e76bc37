"""What compactions and prunings leave out of payloads."""

from collections.abc import Sequence
from dataclasses import dataclass

from app.conversation.events import Compacted, Event, Pruned


@dataclass(frozen=True, slots=True)
class HistoryOmissions:
    """The parts of a history that compaction and pruning leave out of payloads."""

    cut: int = -1
    """Position of the last event that is left out; -1 if none is."""
    summary: str = ""
    """What stands for the events left out, or for the older ones among them."""
    truncated: bool = False
    """Events after those of the summary were left out with nothing in their place."""
    pruned: frozenset[int] = frozenset()
    """Ids of results whose texts are left out."""
    pruned_images: frozenset[int] = frozenset()
    """Ids of events whose images are left out."""


def read_omissions(events: Sequence[Event]) -> HistoryOmissions:
    """Return what the compactions and prunings of a log leave out, whichever order they came in."""
    compacted: Compacted | None = None
    pruned: set[int] = set()
    images: set[int] = set()
    summaries: list[Compacted] = []
    for event in events:
        match event:
            case Pruned():
                pruned.update(event.results)
                images.update(event.images)
            case Compacted():
                if compacted is None or event.upto >= compacted.upto:
                    compacted = event
                if event.summary.strip():
                    summaries.append(event)
    cut = -1
    if compacted is not None:
        for position, event in enumerate(events):
            if event is compacted or not 0 < event.id <= compacted.upto:
                break
            cut = position
    if compacted is None or cut < 0:
        return HistoryOmissions(pruned=frozenset(pruned), pruned_images=frozenset(images))
    summary = max(summaries, key=lambda one: one.upto, default=None)
    return HistoryOmissions(
        cut=cut,
        summary=summary.summary.strip() if summary else "",
        truncated=summary is None or summary.upto < compacted.upto,
        pruned=frozenset(pruned),
        pruned_images=frozenset(images),
    )
