"""How much room lines take: where long ones break, and how wide they are.

Source and words of people and of the program break between words.
"""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich.cells import cell_len, chop_cells

from app.proposals.models import FileDiff
from widgets.diff.cells import TAB_SIZE, DisplayText, Spans, display
from widgets.diff.elision import display_around
from widgets.diff.remembering import remembered
from widgets.diff.rows import Segment

_INDENT = re.compile(" *(?! |$)")

_LETTERS = re.compile(r"\w+")

_NAME_START = re.compile(r".*\W(?=\w)", re.DOTALL)
"""Up to the last place where a name or a number begins behind a sign."""

_IDEOGRAPH = "\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff"

_IDEOGRAPHS = re.compile(f"[{_IDEOGRAPH}]")

_BESIDE_IDEOGRAPH = re.compile(
    rf".*(?:[{_IDEOGRAPH}\u3001-\u3003\uff01-\uff60](?=\w)|\w(?=[{_IDEOGRAPH}]))", re.DOTALL
)
"""Up to the last place where Japanese or Chinese text may break; the next row begins with no sign."""

_CHARACTERS_OF_WORD = 4
"""For each cell of a row, how many characters a word may have that is looked at, marks that take no cell included."""


class Breaks(NamedTuple):
    """Where a line of source breaks."""

    starts: Sequence[int]
    """The characters of the drawn text at which its terminal lines begin."""
    hang: int
    """Cells left free at the left of all of these but the first, so that they stand below the code of the first."""


@remembered(512)
def breaks(line: str, width: int, kept: Spans | None = None) -> Breaks:
    """Where a line of source breaks in so many cells, its own spaces kept at the ends of the rows.

    Breaks are behind spaces and between ideographs. A word that is longer than a row goes on in the same row, and
    breaks where a name begins in it, if there is such a place.

    Args:
        line: it, without its line ending.
        width: cells of a terminal line.
        kept: the stretches of it that are shown, if that is not all of it.
    """
    shown = display(line) if kept is None else display_around(line, kept)
    text, plain = shown.text, not shown.stops
    ideographs = not plain and _IDEOGRAPHS.search(text) is not None
    indent = _INDENT.match(text)
    hang = indent.end() if indent and 2 * indent.end() <= width else 0
    starts, start, room = [0], 0, width
    while (cell := shown.cell(start) + room) < shown.width:
        room = width - hang
        end = max(shown.covering(cell), start + 1)
        start = _break(shown, start, end, room, ideographs)
        starts.append(start)
        if plain and start == end and (letters := _LETTERS.match(text, start)) and letters.end() - start > room:
            # A line of megabytes may be a single word.
            starts += range(start + room, letters.end(), room)
            start = starts[-1]
    return Breaks(tuple(starts), hang)


def _break(shown: DisplayText, start: int, end: int, room: int, ideographs: bool) -> int:
    """Where a row breaks.

    Args:
        shown: the line.
        start: the character with which the row begins.
        end: the first that it has no room for.
        room: cells of the next row.
        ideographs: whether there are any in the line.
    """
    text = shown.text
    cut = text.rfind(" ", start, end) + 1
    if ideographs and (found := _BESIDE_IDEOGRAPH.match(text, start, end + 1)):
        cut = max(cut, _whole(shown, found.end()))
    if cut == end:
        return cut
    if cut > start:
        longest = min(cut + _CHARACTERS_OF_WORD * room, len(text))
        word = text.find(" ", cut, longest)
        if shown.cell(longest if word < 0 else word) - shown.cell(cut) <= room:
            return cut
    name = _NAME_START.match(text, start, end + 1)
    if name and (at := _whole(shown, name.end())) > max(cut, start):
        letters = _LETTERS.match(text, at, at + room + 1)
        if letters and letters.end() - at <= room:
            return at
    return end


def _whole(shown: DisplayText, character: int) -> int:
    """A character of the drawn text, or the one with which its grapheme begins."""
    return character if not shown.stops else min(character, shown.covering(shown.cell(character)))


def rows_of(line: str, width: int, kept: Spans | None = None) -> int:
    """Terminal lines that a wrapped source line takes; `kept` as in `breaks`."""
    if kept is None and len(line) <= width and line.isascii() and line.isprintable():
        return 1
    return len(breaks(line, width, kept).starts)


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
