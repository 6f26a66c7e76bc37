"""Lines as the terminal shows them: tabs expanded, unsafe characters replaced, and columns that stay aligned.

A line of source is addressed in three ways: by character (what a tokeniser or a word diff counts), by character
of the text that is drawn, and by terminal cell. `DisplayText` keeps the three together. It stores only the
stops at which they part, so half a megabyte on one line costs little more than a few regular expressions.
"""

import re
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple, ParamSpec, TypeVar

from rich.cells import split_graphemes

from app.text.safe_text import escape_unsafe

_LONG = 2_000
"""From this many characters on, a string is told from others by identity."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class _Same:
    """A long string as a key that is equal only to the very same one."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __hash__(self) -> int:
        return id(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.text is other.text


def remembered(most: int) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Keep the `most` results of a function that were used last.

    A file that was read again has equal lines that are other objects. `functools.lru_cache` would compare a long one
    with its twin at every look-up, which costs more than drawing it; here it is worked out again, once.
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        def unwrapped(*arguments: object) -> Result:
            plain = (value.text if isinstance(value, _Same) else value for value in arguments)
            return function(*plain)  # type: ignore[arg-type, call-arg]

        kept = lru_cache(maxsize=most)(unwrapped)

        def call(*arguments: Parameters.args, **_: Parameters.kwargs) -> Result:
            for value in arguments:
                if isinstance(value, str) and len(value) >= _LONG:
                    return kept(*(_Same(value) if isinstance(value, str) else value for value in arguments))
            return kept(*arguments)

        return call

    return decorate


TAB_SIZE = 4
"""Cells between tab stops."""

_NARROW = r"\x20-\x7e\xa0-\xac\xae-\u02ff\u0370-\u0482\u21e0-\u21e2\u2400-\u2424\u2500-\u25fc\ufffd"
"""One cell each: Latin, Greek and Cyrillic letters, boxes, and the glyphs that stand for unsafe characters."""

_WIDE = r"\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60"
"""Two cells each: kana, the common Han characters, Hangul syllables, full-width forms."""

_NOT_NARROW = re.compile(f"[^{_NARROW}]+")

_WIDE_OR_NOT = re.compile(f"([{_WIDE}]+(?![^{_WIDE}]))|.[^{_WIDE}]*", re.DOTALL)
"""In a run that is not narrow: wide characters, or what has to be looked at closely, together with the character
before it, which a combining mark changes."""

_TAB = re.compile(r"(\t)")


Span = tuple[int, int]
"""Characters, from, to."""

Spans = tuple[Span, ...]
"""In order, apart from each other."""


class CellStop(NamedTuple):
    """Start of a stretch whose characters all take the same number of cells, or of a single grapheme."""

    source: int
    drawn: int
    cell: int
    step: int
    """Cells of each character from here to the next stop; 0 for a single grapheme."""


@dataclass(frozen=True, slots=True)
class DisplayText:
    """One line, ready to be drawn."""

    text: str
    """Safe for a terminal, without tabs."""
    width: int
    """Cells."""
    stops: tuple[CellStop, ...] = ()
    """Empty where character, drawn character and cell are the same number; else the last is the end of the line."""
    gaps: Spans = ()
    """Of `text`, what stands for what is left out of the line."""

    def drawn(self, source: int) -> int:
        """The index in `text` of a character of the source line."""
        if not self.stops:
            return min(source, len(self.text))
        number = bisect_right(self.stops, source, key=lambda stop: stop.source) - 1
        stop = self.stops[max(0, number)]
        end = self.stops[number + 1].drawn if number + 1 < len(self.stops) else len(self.text)
        return min(stop.drawn + source - stop.source, end)

    def source(self, drawn: int) -> int:
        """Return the index in the source line for a character of `text`."""
        if not self.stops:
            return drawn
        number = bisect_right(self.stops, drawn, key=lambda stop: stop.drawn) - 1
        stop = self.stops[max(0, number)]
        source = stop.source + drawn - stop.drawn
        return min(source, self.stops[number + 1].source) if number + 1 < len(self.stops) else source

    def cell(self, drawn: int) -> int:
        """The column at which a character of `text` begins."""
        if not self.stops:
            return drawn
        number = bisect_right(self.stops, drawn, key=lambda stop: stop.drawn) - 1
        stop = self.stops[max(0, number)]
        return stop.cell + (drawn - stop.drawn) * stop.step

    def cut(self, start: int, end: int) -> tuple[int, int, int]:
        """The characters of `text` wholly inside the cells `start` to `end`, and the cells left blank before them.

        A wide character that `start` would halve is left out and counted as one blank cell.
        """
        if not self.stops:
            return min(start, len(self.text)), min(end, len(self.text)), 0
        first, blank = self._at(start, up=True)
        last, _ = self._at(end, up=False)
        return first, max(first, last), blank

    def covering(self, cell: int) -> int:
        """The character of `text` that takes this cell."""
        return min(cell, len(self.text)) if not self.stops else self._at(cell, up=False)[0]

    def _at(self, cell: int, up: bool) -> tuple[int, int]:
        """The character at a cell, and how many cells further it begins."""
        if cell >= self.width:
            return len(self.text), 0
        number = bisect_right(self.stops, cell, key=lambda stop: stop.cell) - 1
        stop = self.stops[max(0, number)]
        if stop.step:
            characters, rest = divmod(cell - stop.cell, stop.step)
            return stop.drawn + characters + (up and rest > 0), stop.step - rest if up and rest else 0
        if stop.cell == cell or not up:
            return stop.drawn, 0
        following = self.stops[number + 1]
        return following.drawn, following.cell - cell


@remembered(2048)
def display(line: str) -> DisplayText:
    """Return how a line is drawn; `line` is source text of any origin, without its line ending."""
    if line.isascii() and line.isprintable():
        return DisplayText(line, len(line))
    return _compose(line)


def _size_of(grapheme: tuple[int, int, int]) -> tuple[int, int]:
    """Return characters and cells of the result of `split_graphemes`."""
    start, end, cells = grapheme
    return end - start, cells


def _compose(line: str) -> DisplayText:
    # Each unsafe character becomes exactly one glyph, so the two texts are counted alike.
    safe = escape_unsafe(line, keep="\t")
    pieces: list[str] = []
    stops: list[CellStop] = []
    source = drawn = cell = 0

    def put(text: str, length: int, cells: int, step: int) -> None:
        nonlocal source, drawn, cell
        stops.append(CellStop(source, drawn, cell, step))
        pieces.append(text)
        source, drawn, cell = source + length, drawn + len(text), cell + cells

    def put_run(end: int, step: int) -> None:
        if end > source:
            put(safe[source:end], end - source, (end - source) * step, step)

    def put_rest(end: int) -> None:
        """Tabs, and graphemes one by one."""
        for run in _TAB.split(safe[source:end]):
            if run == "\t":
                gap = TAB_SIZE - cell % TAB_SIZE
                put(" " * gap, 1, gap, 1)
            else:
                for (length, cells), alike in groupby(split_graphemes(run)[0], _size_of):
                    if length == 1 and cells:
                        put_run(source + sum(1 for _ in alike), cells)
                    else:
                        for start, stop, _ in alike:
                            put(run[start:stop], length, cells, 0)

    for run in _NOT_NARROW.finditer(safe):
        for match in _WIDE_OR_NOT.finditer(safe, run.start(), run.end()):
            if match[1]:
                put_run(match.start(), 1)
                put_run(match.end(), 2)
            else:
                put_run(match.start() - 1, 1)
                put_rest(match.end())
    put_run(len(safe), 1)
    stops.append(CellStop(source, drawn, cell, 1))
    return DisplayText("".join(pieces), cell, tuple(stops))
