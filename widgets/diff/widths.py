"""How wide the code on view is, fast enough for a hundred thousand lines."""

from collections.abc import Iterable, Sequence

from app.proposals.models import FileDiff
from widgets.diff.cells import TAB_SIZE, width_of
from widgets.diff.rows import Segment


def widest(diffs: Sequence[FileDiff], segments: Iterable[Segment]) -> int:
    """Cells of the longest line of source in these segments of a layout; folded lines are in none."""
    best = 0
    for segment in segments:
        old, new = segment.lines
        if old:
            best = _widest(diffs[segment.file].old, old.start, old.stop, best)
        if new:
            best = _widest(diffs[segment.file].new, new.start, new.stop, best)
    return best


def _widest(lines: Sequence[str], start: int, end: int, best: int) -> int:
    stretch = lines[start:end]
    longest = max(map(len, stretch), default=0)
    joined = "".join(stretch)
    if joined.isascii() and "\t" not in joined:
        return max(best, longest)
    for line in stretch:
        if line.isascii():
            best = max(best, len(line.expandtabs(TAB_SIZE)))
        elif 2 * len(line.expandtabs(TAB_SIZE)) > best:
            best = max(best, width_of(line))
    return best
