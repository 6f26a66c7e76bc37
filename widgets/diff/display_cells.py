"""Lines as the terminal shows them: tabs expanded, unsafe characters replaced, columns aligned.

A position in a line of source has three forms: index of the source character (from a tokeniser or a word diff), index
of the drawn character, and terminal cell. `DisplayText` converts between them. It stores only the runs of characters
with equal width: half a megabyte on one line costs little more than a few regular expressions.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple, ParamSpec, TypeVar

from msgspec import Struct
from rich.cells import cell_len, chop_cells, split_graphemes

from app.proposals.values.models import FileDiff
from app.text.safe_text import escape_unsafe
from widgets.diff.diff_rows import RowSegment

_MIN_LONG_TEXT_CHARACTERS = 2_000
"""Minimum length, in characters, of strings that are compared by identity."""

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


class _IdentityKey:
    """A long string as a cache key that is equal only to the same object."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __hash__(self) -> int:
        return id(self.text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _IdentityKey) and self.text is other.text


def lru_cache_by_text_identity(size: int) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Return an LRU cache decorator that compares long texts by identity, because comparing them would be slow.

    A file that is read again has equal lines in new objects. `functools.lru_cache` would compare a long line with its
    equal at each look-up, which costs more than drawing it. This cache computes the result for the new object once.
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        def unwrapped(*arguments: object) -> Result:
            plain_arguments = (value.text if isinstance(value, _IdentityKey) else value for value in arguments)
            return function(*plain_arguments)  # type: ignore[arg-type, call-arg]

        cached = lru_cache(maxsize=size)(unwrapped)

        def call(*arguments: Parameters.args, **_: Parameters.kwargs) -> Result:
            for value in arguments:
                if isinstance(value, str) and len(value) >= _MIN_LONG_TEXT_CHARACTERS:
                    return cached(*(_IdentityKey(value) if isinstance(value, str) else value for value in arguments))
            return cached(*arguments)

        return call

    return decorate


TAB_SIZE = 4
"""Cells between tab stops."""

_NARROW_CHARACTERS = r"\x20-\x7e\xa0-\xac\xae-\u02ff\u0370-\u0482\u21e0-\u21e2\u2400-\u2424\u2500-\u25fc\ufffd"
"""One cell each: Latin, Greek and Cyrillic letters, boxes, and the glyphs for unsafe characters."""

_WIDE_CHARACTERS = r"\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60"
"""Two cells each: kana, the common Han characters, Hangul syllables, full-width forms."""

_NOT_NARROW_PATTERN = re.compile(f"[^{_NARROW_CHARACTERS}]+")

_WIDE_OR_OTHER_PATTERN = re.compile(
    f"([{_WIDE_CHARACTERS}]+(?![^{_WIDE_CHARACTERS}]))|.[^{_WIDE_CHARACTERS}]*", re.DOTALL
)
"""In a run that is not narrow: wide characters, or other characters with the character before them, because a
combining mark changes that.
"""

_TAB_PATTERN = re.compile(r"(\t)")


Span = tuple[int, int]
"""Range of characters: (start, end)."""

Spans = tuple[Span, ...]
"""In order and not adjacent."""


class WidthRun(NamedTuple):
    """A run of characters with the same width, or a single grapheme, by its start; it ends where the next begins."""

    source: int
    drawn: int
    cell: int
    step: int
    """Cells of each character of the run; 0 for a single grapheme."""


_SOURCE_OF_RUN, _DRAWN_OF_RUN, _CELL_OF_RUN = attrgetter("source"), attrgetter("drawn"), attrgetter("cell")


class DisplayText(Struct, frozen=True):
    """A line of source as it is drawn: tabs expanded, unsafe characters replaced; converts indices to cells."""

    text: str
    """Safe for a terminal, without tabs."""
    width: int
    """In cells."""
    width_runs: tuple[WidthRun, ...] = ()
    """Empty if source index, drawn index and cell are equal everywhere; else the last run is the end of the line."""
    gaps: Spans = ()
    """Ranges of `text` that replace hidden parts of the line."""

    def drawn_index(self, source: int) -> int:
        """Return the index in `text` of a character of the source line."""
        if not self.width_runs:
            return min(source, len(self.text))
        run, following = self._run_at(source, _SOURCE_OF_RUN)
        return min(run.drawn + source - run.source, following.drawn)

    def source_index(self, drawn_index: int) -> int:
        """Return the index in the source line of a character of `text`."""
        if not self.width_runs:
            return drawn_index
        run, following = self._run_at(drawn_index, _DRAWN_OF_RUN)
        return min(run.source + drawn_index - run.drawn, following.source)

    def first_column_of(self, drawn_index: int) -> int:
        """Return the first cell of a character of `text`."""
        if not self.width_runs:
            return drawn_index
        run, _ = self._run_at(drawn_index, _DRAWN_OF_RUN)
        return run.cell + (drawn_index - run.drawn) * run.step

    def slice_cells(self, start: int, end: int) -> tuple[int, int, int]:
        """Return first and end index of the characters completely inside some cells, and the blank cells before.

        A wide character that `start` would cut in half is omitted and counts as one blank cell.
        """
        if not self.width_runs:
            return min(start, len(self.text)), min(end, len(self.text)), 0
        first, blank = self._index_and_blank_at(start, up=True)
        last, _ = self._index_and_blank_at(end, up=False)
        return first, max(first, last), blank

    def index_at_cell(self, cell: int) -> int:
        """Return the index of the character of `text` at this cell."""
        return min(cell, len(self.text)) if not self.width_runs else self._index_and_blank_at(cell, up=False)[0]

    def _index_and_blank_at(self, cell: int, up: bool) -> tuple[int, int]:
        """Return the index of the character at a cell, and the number of cells to its start if it begins later."""
        if cell >= self.width:
            return len(self.text), 0
        run, following = self._run_at(cell, _CELL_OF_RUN)
        if run.step:
            characters, rest = divmod(cell - run.cell, run.step)
            return run.drawn + characters + (up and rest > 0), run.step - rest if up and rest else 0
        return (run.drawn, 0) if run.cell == cell or not up else (following.drawn, following.cell - cell)

    def _run_at(self, position: int, start_of: Callable[[WidthRun], int]) -> tuple[WidthRun, WidthRun]:
        """Return the run at a position and the run after it; at the end of the line, the last run twice."""
        number = bisect_right(self.width_runs, position, key=start_of)
        return self.width_runs[number - 1], self.width_runs[min(number, len(self.width_runs) - 1)]


@lru_cache_by_text_identity(2048)
def display_text(line: str) -> DisplayText:
    """Return the drawn form of a line; `line` is untrusted source text without its line ending."""
    if line.isascii() and line.isprintable():
        return DisplayText(line, len(line))
    return _compose_display_text(line)


def _grapheme_size(grapheme: tuple[int, int, int]) -> tuple[int, int]:
    """Return characters and cells of an item of `split_graphemes`."""
    start, end, cells = grapheme
    return end - start, cells


def _compose_display_text(line: str) -> DisplayText:
    # Each unsafe character becomes exactly one glyph, so the indices of both texts are equal.
    safe = escape_unsafe(line, keep="\t")
    pieces: list[str] = []
    width_runs: list[WidthRun] = []
    source = drawn = cell = 0

    def put(text: str, length: int, cells: int, step: int) -> None:
        nonlocal source, drawn, cell
        width_runs.append(WidthRun(source, drawn, cell, step))
        pieces.append(text)
        source, drawn, cell = source + length, drawn + len(text), cell + cells

    def put_run(end: int, step: int) -> None:
        if end > source:
            put(safe[source:end], end - source, (end - source) * step, step)

    def put_rest(end: int) -> None:
        """Add tabs, and the graphemes one by one."""
        for run in _TAB_PATTERN.split(safe[source:end]):
            if run == "\t":
                gap = TAB_SIZE - cell % TAB_SIZE
                put(" " * gap, 1, gap, 1)
            else:
                for (length, cells), alike in groupby(split_graphemes(run)[0], _grapheme_size):
                    if length == 1 and cells:
                        put_run(source + sum(1 for _ in alike), cells)
                    else:
                        for start, end_of_grapheme, _ in alike:
                            put(run[start:end_of_grapheme], length, cells, 0)

    for run in _NOT_NARROW_PATTERN.finditer(safe):
        for match in _WIDE_OR_OTHER_PATTERN.finditer(safe, run.start(), run.end()):
            if match[1]:
                put_run(match.start(), 1)
                put_run(match.end(), 2)
            else:
                put_run(match.start() - 1, 1)
                put_rest(match.end())
    put_run(len(safe), 1)
    width_runs.append(WidthRun(source, drawn, cell, 1))
    return DisplayText("".join(pieces), cell, tuple(width_runs))


_CONTEXT_CHARACTERS = 12
"""Unchanged characters shown at each side of a change, if lines do not wrap."""
_MIN_HIDDEN_CHARACTERS = 60
"""Minimum length of an unchanged stretch that is hidden."""

_WRAPPED_CONTEXT_CHARACTERS = 120
_MIN_WRAPPED_HIDDEN_CHARACTERS = 600
"""The same for wrapped lines."""

_LONG_LINE_HEAD_CHARACTERS = 400
"""Shown characters of a long unchanged line that wraps."""
_MIN_LONG_LINE_CHARACTERS = 2_000
"""Minimum length of an unchanged line that is shortened to `_LONG_LINE_HEAD_CHARACTERS`."""


@lru_cache_by_text_identity(1024)
def choose_shown_spans_of_changed_line(line: str, changed: Spans, width: int, wrap: bool) -> Spans | None:
    """Return the spans of a line in a hunk that are shown; None for the whole line, if it is new or fits."""
    if not changed:
        return None
    shown = display_text(line)
    if shown.width <= width or (not wrap and shown.first_column_of(shown.drawn_index(changed[-1][1])) < width):
        return None
    context, min_hidden = (
        (_WRAPPED_CONTEXT_CHARACTERS, _MIN_WRAPPED_HIDDEN_CHARACTERS)
        if wrap
        else (_CONTEXT_CHARACTERS, _MIN_HIDDEN_CHARACTERS)
    )
    spans: list[Span] = []
    end_of_last = 0
    for start, end in (*changed, (len(line), len(line))):
        # At both ends of the line, the unchanged stretch has a change on one side only.
        before = context if end_of_last else 0
        after = context if start < len(line) else 0
        if start - end_of_last > min_hidden + before + after:
            if end_of_last:
                spans[-1] = (spans[-1][0], end_of_last + before)
            spans.append((start - after, end))
        elif spans:
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((0, end))
        end_of_last = end
    spans = [span for span in spans if span[0] < span[1]]
    return None if spans == [(0, len(line))] else tuple(spans)


def choose_shown_spans_of_context_line(line: str, wrap: bool) -> Spans | None:
    """Return the spans of an unchanged line that are shown: its beginning; None for the whole line."""
    return ((0, _LONG_LINE_HEAD_CHARACTERS),) if wrap and len(line) > _MIN_LONG_LINE_CHARACTERS else None


@lru_cache_by_text_identity(1024)
def make_display_text_with_gaps(line: str, shown_spans: Spans) -> DisplayText:
    """Return the drawn form of a line of which only some spans are shown; the gaps show how much is hidden."""
    texts: list[str] = []
    width_runs: list[WidthRun] = []
    gaps: list[Span] = []
    drawn = cell = 0
    for start, end, shown in _split_at_gaps(line, shown_spans):
        if shown is None:
            text = f"⋯{end - start:,} unchanged⋯"
            gaps.append((drawn, drawn + len(text)))
            width_runs.append(WidthRun(start, drawn, cell, 1))
            width = len(text)
        else:
            text, width = shown.text, shown.width
            inner: Sequence[WidthRun] = shown.width_runs[:-1] or (WidthRun(0, 0, 0, 1),)
            width_runs += (
                WidthRun(run.source + start, run.drawn + drawn, run.cell + cell, run.step) for run in inner
            )
        texts.append(text)
        drawn, cell = drawn + len(text), cell + width
    width_runs.append(WidthRun(len(line), drawn, cell, 1))
    return DisplayText("".join(texts), cell, tuple(width_runs), tuple(gaps))


def _split_at_gaps(line: str, spans: Spans) -> Iterator[tuple[int, int, DisplayText | None]]:
    """Yield the shown and hidden spans of a line; the text is None for hidden ones."""
    position = 0
    for start, end in (*spans, (len(line), len(line))):
        if position < start:
            yield position, start, None
        if start < end:
            yield start, end, display_text(line[start:end])
        position = end


_INDENT_PATTERN = re.compile(" *(?! |$)")

_LETTERS_PATTERN = re.compile(r"\w+")

_NAME_START_PATTERN = re.compile(r".*\W(?=\w)", re.DOTALL)
"""Up to the last place where a name or number begins after punctuation."""

_IDEOGRAPH_RANGES = "\u3041-\u30ff\u3400-\u4dbf\u4e00-\u9fff"

_IDEOGRAPH_PATTERN = re.compile(f"[{_IDEOGRAPH_RANGES}]")

_BESIDE_IDEOGRAPH_PATTERN = re.compile(
    rf".*(?:[{_IDEOGRAPH_RANGES}\u3001-\u3003\uff01-\uff60](?=\w)|\w(?=[{_IDEOGRAPH_RANGES}]))", re.DOTALL
)
"""Up to the last place where Japanese or Chinese text may break; the next row never begins with punctuation."""

_MAX_WORD_CHARACTERS_PER_CELL = 4
"""Maximum characters examined of a word per cell of a row; includes marks without width."""


class LineBreaks(NamedTuple):
    """Where a source line wraps: the start of each terminal line, and the indentation of all but the first."""

    starts: Sequence[int]
    """Index of the first drawn character of each terminal line."""
    hang: int
    """Blank cells at the left of all terminal lines but the first, to align them with the code of the first."""


@lru_cache_by_text_identity(512)
def find_line_breaks(line: str, width: int, spans: Spans | None = None) -> LineBreaks:
    """Return the break positions of a source line; its own spaces stay at the ends of the rows.

    Lines break after spaces and between ideographs. A word that is longer than a row starts in the same row, and
    breaks at the start of a name in it if possible.

    Args:
        width: Cells of a terminal line.
        spans: The shown spans of the line; None for the whole line.
    """
    shown = display_text(line) if spans is None else make_display_text_with_gaps(line, spans)
    text, plain = shown.text, not shown.width_runs
    ideographs = not plain and _IDEOGRAPH_PATTERN.search(text) is not None
    indent = _INDENT_PATTERN.match(text)
    hang = indent.end() if indent and 2 * indent.end() <= width else 0
    starts, start, cells = [0], 0, width
    while (cell := shown.first_column_of(start) + cells) < shown.width:
        cells = width - hang
        end = max(shown.index_at_cell(cell), start + 1)
        start = _find_break(shown, start, end, cells, ideographs)
        starts.append(start)
        if (
            plain
            and start == end
            and (letters := _LETTERS_PATTERN.match(text, start))
            and letters.end() - start > cells
        ):
            # A line of several megabytes can be a single word.
            starts += range(start + cells, letters.end(), cells)
            start = starts[-1]
    return LineBreaks(tuple(starts), hang)


def _find_break(shown: DisplayText, start: int, end: int, cells: int, ideographs: bool) -> int:
    """Return the index at which a row breaks.

    Args:
        start: Index of the first character of the row.
        end: Index of the first character that does not fit.
        cells: Cells of the next row.
        ideographs: Whether the line contains ideographs.
    """
    text = shown.text
    cut = text.rfind(" ", start, end) + 1
    if ideographs and (ideograph_match := _BESIDE_IDEOGRAPH_PATTERN.match(text, start, end + 1)):
        cut = max(cut, _start_of_grapheme(shown, ideograph_match.end()))
    if cut == end:
        return cut
    if cut > start:
        longest = min(cut + _MAX_WORD_CHARACTERS_PER_CELL * cells, len(text))
        word = text.find(" ", cut, longest)
        if shown.first_column_of(longest if word < 0 else word) - shown.first_column_of(cut) <= cells:
            return cut
    name = _NAME_START_PATTERN.match(text, start, end + 1)
    if name and (name_start := _start_of_grapheme(shown, name.end())) > max(cut, start):
        letters = _LETTERS_PATTERN.match(text, name_start, name_start + cells + 1)
        if letters and letters.end() - name_start <= cells:
            return name_start
    return end


def _start_of_grapheme(shown: DisplayText, character: int) -> int:
    """Return the index of the grapheme that contains a drawn character."""
    return (
        character if not shown.width_runs else min(character, shown.index_at_cell(shown.first_column_of(character)))
    )


def wrapped_row_count(line: str, width: int, spans: Spans | None = None) -> int:
    """Return the number of terminal lines of a wrapped source line; `spans` as in `find_line_breaks`."""
    if spans is None and len(line) <= width and line.isascii() and line.isprintable():
        return 1
    return len(find_line_breaks(line, width, spans).starts)


def wrap_into_safe_lines(text: str, width: int) -> list[str]:
    """Return untrusted text as safe lines of at most `width` cells, broken between words if possible."""
    width = max(2, width)
    lines: list[str] = []
    for line in text.split("\n"):
        current: str | None = None
        for word in display_text(line).text.split(" "):
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


_MAX_MEASURED_CHARACTERS = 20_000
"""Number of characters above which a line counts as two cells a character: to measure a million takes seconds."""


def widest_line_width(diffs: Sequence[FileDiff], segments: Iterable[RowSegment]) -> int:
    """Return the width in cells of the longest source line in these segments; folded lines do not count."""
    widest = 0
    for segment in segments:
        old, new = segment.lines
        if old:
            widest = _widest_line(diffs[segment.file].old[old.start : old.stop], widest)
        if new:
            widest = _widest_line(diffs[segment.file].new[new.start : new.stop], widest)
    return widest


def _widest_line(lines: Sequence[str], widest: int) -> int:
    joined = "".join(lines)
    if joined.isascii() and "\t" not in joined:
        # All in one step, because a change may have 50,000 lines.
        widest = max([widest, *map(len, lines)])
    else:
        for line in lines:
            if line.isascii():
                widest = max(widest, len(line.expandtabs(TAB_SIZE)))
            elif (bound := 2 * len(line.expandtabs(TAB_SIZE))) > widest:
                widest = bound if len(line) > _MAX_MEASURED_CHARACTERS else max(widest, display_text(line).width)
    return widest
