"""Lines as the terminal shows them: tabs expanded, unsafe characters replaced, and columns that stay aligned.

A line of source is addressed in three ways: by character (what a tokeniser or a word diff counts), by character
of the text that is drawn, and by terminal cell. `DisplayText` keeps the three together. It stores only the
places where they part, so half a megabyte of ASCII on one line costs one regular expression.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass, replace
from functools import lru_cache

from rich.cells import split_graphemes

from app.safe_text import inspect, visible

TAB_SIZE = 4
"""Cells between tab stops."""

_COMPLEX = re.compile(r"[\x20-\x7e]?[^\x20-\x7e\xa0-\xac\xae-\u02ff\u0370-\u0482\u2500-\u25fc]+")
"""Runs whose cells are not simply their characters, with the character before, which a combining mark changes."""

_LONGEST_INSPECTED = 2_000
"""In longer lines look-alike letters are counted in the warning but not marked."""

_TAB = re.compile(r"(\t)")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stretch begins in which the three ways of counting agree, or a single grapheme."""

    source: int
    drawn: int
    cell: int
    plain: bool
    """Whether one character is one cell from here to the next place."""


@dataclass(frozen=True, slots=True)
class DisplayText:
    """One line, ready to be drawn."""

    text: str
    """Safe for a terminal, without tabs."""
    width: int
    """Cells."""
    places: tuple[Place, ...] = ()
    """Empty where character, drawn character and cell are the same number."""
    flagged: tuple[tuple[int, int], ...] = ()
    """Ranges of `text` that a reader has to look at: glyphs for characters that don't show, look-alike words."""

    def drawn(self, source: int) -> int:
        """The index in `text` of a character of the source line."""
        if not self.places:
            return min(source, len(self.text))
        number = bisect_right(self.places, source, key=lambda place: place.source) - 1
        place = self.places[max(0, number)]
        end = self.places[number + 1].drawn if number + 1 < len(self.places) else len(self.text)
        return min(place.drawn + source - place.source, end)

    def cell(self, drawn: int) -> int:
        """The column at which a character of `text` begins."""
        if not self.places:
            return drawn
        number = bisect_right(self.places, drawn, key=lambda place: place.drawn) - 1
        place = self.places[max(0, number)]
        return place.cell + (drawn - place.drawn if place.plain else 0)

    def cut(self, start: int, end: int) -> tuple[int, int, int]:
        """The characters of `text` wholly inside the cells `start` to `end`, and the cells left blank before them.

        A wide character that `start` would halve is left out and counted as one blank cell.
        """
        if not self.places:
            return min(start, len(self.text)), min(end, len(self.text)), 0
        first, blank = self._at(start, up=True)
        last, _ = self._at(end, up=False)
        return first, max(first, last), blank

    def covering(self, cell: int) -> int:
        """The character of `text` that takes this cell."""
        return min(cell, len(self.text)) if not self.places else self._at(cell, up=False)[0]

    def _at(self, cell: int, up: bool) -> tuple[int, int]:
        """The character at a cell, and how many cells further it begins."""
        if cell >= self.width:
            return len(self.text), 0
        number = bisect_right(self.places, cell, key=lambda place: place.cell) - 1
        place = self.places[max(0, number)]
        if place.plain or place.cell == cell:
            return place.drawn + cell - place.cell, 0
        following = self.places[number + 1] if number + 1 < len(self.places) else None
        if not up:
            return place.drawn, 0
        if following is None:
            return len(self.text), 0
        return following.drawn, following.cell - cell


@lru_cache(maxsize=2048)
def display(line: str) -> DisplayText:
    """How a line is drawn; `line` is source text without its line ending, of any origin."""
    if line.isascii() and line.isprintable():
        return DisplayText(line, len(line))
    return _compose(line)


def width_of(line: str) -> int:
    """Cells that a line takes."""
    if line.isascii() and line.isprintable():
        return len(line)
    return display(line).width


def _compose(line: str) -> DisplayText:
    # Each unsafe character becomes exactly one glyph, so the two texts are counted alike.
    safe = visible(line, keep="\t")
    pieces: list[str] = []
    places: list[Place] = []
    source = drawn = cell = 0

    def put(text: str, length: int, cells: int, *, plain: bool) -> None:
        nonlocal source, drawn, cell
        places.append(Place(source, drawn, cell, plain))
        pieces.append(text)
        source, drawn, cell = source + length, drawn + len(text), cell + cells

    def put_plain(end: int) -> None:
        if end > source:
            put(safe[source:end], end - source, end - source, plain=True)

    for match in _COMPLEX.finditer(safe):
        put_plain(match.start())
        for run in _TAB.split(match[0]):
            if run == "\t":
                gap = TAB_SIZE - cell % TAB_SIZE
                put(" " * gap, 1, gap, plain=True)
            else:
                for start, end, cells in split_graphemes(run)[0]:
                    put(run[start:end], end - start, cells, plain=False)
    put_plain(len(safe))
    places.append(Place(source, drawn, cell, True))
    shown = DisplayText("".join(pieces), cell, tuple(places))
    suspects = [(mark, mark + 1) for mark, (was, now) in enumerate(zip(line, safe, strict=True)) if was != now]
    if not line.isascii() and len(line) <= _LONGEST_INSPECTED:
        for word in inspect(line).lookalikes:
            suspects += [(match.start(), match.end()) for match in re.finditer(re.escape(word), line)]
    return replace(shown, flagged=tuple((shown.drawn(start), shown.drawn(end)) for start, end in suspects))
