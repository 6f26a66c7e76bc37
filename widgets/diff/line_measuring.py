"""Measures lines: where long ones break, and how wide they are.

Source and words of people and of the program break between words.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len, chop_cells

from app.proposals.values.models import FileDiff
from widgets.diff.diff_rows import Segment
from widgets.diff.display_cells import TAB_SIZE, CellStop, DisplayText, Span, Spans, display, remembered

_BESIDE = 12
"""Unchanged characters kept at each side of a change, where a line is cut at the edge."""
_LEAST = 60
"""Shorter unchanged runs stay there."""

_WRAPPED_BESIDE = 120
_WRAPPED_LEAST = 600
"""The same where lines wrap, which shows all that is kept."""

_HEAD = 400
"""Characters kept of an unchanged line that wraps."""
_LONG = 2_000
"""From this many characters on, unchanged lines are cut there."""


@remembered(1024)
def kept_of_change(line: str, changed: Spans, width: int, wrap: bool) -> Spans | None:
    """Return the shown stretches of a line in a hunk; None for the whole line, if it is new or fits into `width`
    cells."""
    if not changed:
        return None
    shown = display(line)
    if shown.width <= width or (not wrap and shown.cell(shown.drawn(changed[-1][1])) < width):
        return None
    beside, least = (_WRAPPED_BESIDE, _WRAPPED_LEAST) if wrap else (_BESIDE, _LEAST)
    kept: list[Span] = []
    at = 0
    for start, end in (*changed, (len(line), len(line))):
        # At the ends of the line there is a change on one side of the run only.
        before = beside if at else 0
        after = beside if start < len(line) else 0
        if start - at > least + before + after:
            if at:
                kept[-1] = (kept[-1][0], at + before)
            kept.append((start - after, end))
        elif kept:
            kept[-1] = (kept[-1][0], end)
        else:
            kept.append((0, end))
        at = end
    kept = [span for span in kept if span[0] < span[1]]
    return None if kept == [(0, len(line))] else tuple(kept)


def kept_of_context(line: str, wrap: bool) -> Spans | None:
    """Return the shown stretches of an unchanged line."""
    return ((0, _HEAD),) if wrap and len(line) > _LONG else None


@remembered(1024)
def display_around(line: str, kept: Spans) -> DisplayText:
    """A line of which only some stretches are shown, and between them how much is left out."""
    texts: list[str] = []
    stops: list[CellStop] = []
    gaps: list[Span] = []
    drawn = cell = 0
    for start, end, shown in _pieces(line, kept):
        if shown is None:
            text = f"⋯{end - start:,} unchanged⋯"
            gaps.append((drawn, drawn + len(text)))
            stops.append(CellStop(start, drawn, cell, 1))
            width = len(text)
        else:
            text, width = shown.text, shown.width
            inner: Sequence[CellStop] = shown.stops[:-1] or (CellStop(0, 0, 0, 1),)
            stops += (
                CellStop(stop.source + start, stop.drawn + drawn, stop.cell + cell, stop.step) for stop in inner
            )
        texts.append(text)
        drawn, cell = drawn + len(text), cell + width
    stops.append(CellStop(len(line), drawn, cell, 1))
    return DisplayText("".join(texts), cell, tuple(stops), tuple(gaps))


def _pieces(line: str, kept: Spans) -> Iterator[tuple[int, int, DisplayText | None]]:
    """The stretches of a line, shown or (None) left out."""
    at = 0
    for start, end in (*kept, (len(line), len(line))):
        if at < start:
            yield at, start, None
        if start < end:
            yield start, end, display(line[start:end])
        at = end


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


class LineBreaks(NamedTuple):
    """Break positions of a source line."""

    starts: Sequence[int]
    """The characters of the drawn text at which its terminal lines begin."""
    hang: int
    """Cells left free at the left of all of these but the first, so that they stand below the code of the first."""


@remembered(512)
def breaks(line: str, width: int, kept: Spans | None = None) -> LineBreaks:
    """Return where a line of source breaks in this many cells; its own spaces stay at the ends of the rows.

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
    return LineBreaks(tuple(starts), hang)


def _break(shown: DisplayText, start: int, end: int, room: int, ideographs: bool) -> int:
    """Return where a row breaks.

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
