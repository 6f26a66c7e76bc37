"""How much room lines take: where long ones break, and how wide they are.

Source breaks at the last cell, words of people and of the program between words.
"""

from collections.abc import Iterable, Sequence

from rich.cells import cell_len, chop_cells

from app.proposals.models import FileDiff
from widgets.diff.cells import TAB_SIZE, Spans, display
from widgets.diff.elision import display_around
from widgets.diff.remembering import remembered
from widgets.diff.rows import Segment


@remembered(512)
def breaks(line: str, width: int, kept: Spans | None = None) -> tuple[int, ...]:
    """The characters of the drawn text at which each terminal line of a wrapped source line begins.

    `kept` are the stretches of the line that are shown, if that is not all of it.
    """
    shown = display(line) if kept is None else display_around(line, kept)
    starts, cell = [0], 0
    while cell + width < shown.width:
        start = max(shown.covering(cell + width), starts[-1] + 1)
        starts.append(start)
        cell = shown.cell(start)
    return tuple(starts)


def rows_of(line: str, width: int, kept: Spans | None = None) -> int:
    """Terminal lines that a wrapped source line takes; `kept` as in `breaks`."""
    plain = kept is None and line.isascii() and line.isprintable()
    return max(1, -(-len(line) // width)) if plain else len(breaks(line, width, kept))


def wrap_words(text: str, width: int) -> list[str]:
    """Untrusted text as safe lines of at most `width` cells, broken between words where that is possible."""
    width = max(2, width)
    lines: list[str] = []
    for line in text.split("\n"):
        current: str | None = None
        for word in display(line).text.split(" "):
            candidate = word if current is None else f"{current} {word}"
            if cell_len(candidate) <= width:
                current = candidate
                continue
            if current:
                lines.append(current)
            *full, current = chop_cells(word, width) or [""]
            lines += full
        lines.append(current or "")
    return lines


def widest(diffs: Sequence[FileDiff], segments: Iterable[Segment]) -> int:
    """Cells of the longest line of source in these segments of a layout; folded lines are in none."""
    best = 0
    for segment in segments:
        old, new = segment.lines
        if old:
            best = _widest_of(diffs[segment.file].old, old.start, old.stop, best)
        if new:
            best = _widest_of(diffs[segment.file].new, new.start, new.stop, best)
    return best


def _widest_of(lines: Sequence[str], start: int, end: int, best: int) -> int:
    stretch = lines[start:end]
    joined = "".join(stretch)
    if joined.isascii() and "\t" not in joined:
        # All at once: a change may have 50,000 such lines.
        best = max([best, *map(len, stretch)])
    else:
        for line in stretch:
            if line.isascii():
                best = max(best, len(line.expandtabs(TAB_SIZE)))
            elif 2 * len(line.expandtabs(TAB_SIZE)) > best:
                best = max(best, display(line).width)
    return best
