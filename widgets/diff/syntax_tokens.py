"""Syntax colours, computed near the viewport, outside of the event loop.

A file of moderate size is lexed once, as a whole. A long file is lexed in chunks that begin at an unindented line
above them. Strings and comments of several lines are nearly always correct, and the cost does not depend on the
size of the file. Pygments is imported when the first line is lexed.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from app.concurrency import wait_while_event_loop_busy
from app.proposals.values.models import FileDiff
from app.review.hunk_lines import Side, diff_side_lines

if TYPE_CHECKING:
    from pygments.lexer import Lexer


StyledStretch = tuple[int, int, str]
"""(start, end, component class); the stretches of a line are in order and do not overlap."""

FlaggedStretch = tuple[int, int, int]
"""(start, end, marks as bits); in any order, may overlap each other and the stretches."""

StyledRun = tuple[int, int, str, int]
"""(start, end, class of the stretch or empty, marks as bits)."""


def clip_stretches(stretches: Sequence[StyledStretch], first: int, stop: int) -> list[StyledStretch]:
    """Return the stretches between two characters."""
    return [
        (max(begin, first), min(end, stop), name) for begin, end, name in stretches if begin < stop and end > first
    ]


def overlay_stretches(
    stretches: Sequence[StyledStretch], ranges: Sequence[tuple[int, int]], component_class: str
) -> list[StyledStretch]:
    """Return the stretches with ranges of another component class laid over them."""
    result: list[StyledStretch] = []
    position = 0
    for begin, end in ranges:
        result += clip_stretches(stretches, position, begin)
        result.append((begin, end, component_class))
        position = end
    if stretches:
        result += clip_stretches(stretches, position, stretches[-1][1])
    return result


def split_into_style_runs(
    length: int, stretches: Sequence[StyledStretch], flags: Sequence[FlaggedStretch]
) -> Iterator[StyledRun]:
    """Yield the runs of a line with equal style and equal flags, in order."""
    edges = sorted({edge for begin, end, _ in flags for edge in (begin, end)})
    for start, end, name in _with_gaps(length, stretches):
        cuts = [start, *(edge for edge in edges if start < edge < end), end]
        for run_start, run_end in pairwise(cuts):
            flags_here = 0
            for begin, stop, flag in flags:
                if begin <= run_start < stop:
                    flags_here |= flag
            yield run_start, run_end, name, flags_here


def _with_gaps(length: int, stretches: Sequence[StyledStretch]) -> Iterator[StyledStretch]:
    """Yield the stretches of a line, and the gaps between them without a component class."""
    position = 0
    for begin, end, name in (*stretches, (length, length, "")):
        if begin > position:
            yield position, begin, ""
        if end > begin:
            yield begin, end, name
        position = end


WHOLE_FILE_LINES = 1_500
"""Files up to this length are lexed as a whole."""

CHUNK_LINES = 200
"""Number of lines that are lexed together in longer files."""

LEAD_LINES = 120
"""Minimum number of lines above a chunk at which the lexer begins; the maximum is twice this."""

MAX_LINE_CHARACTERS = 2_000
"""Longer lines have no syntax colours."""

_MAX_CHUNKS_PER_STEP = 4
"""Number of chunks that are lexed between two repaints."""

_MAX_CACHED_CHUNKS = 400


class _ChunkKey(NamedTuple):
    """A chunk of one side of a file."""

    file: int
    side: Side
    chunk: int
    """-1 for the whole file."""


class LazySyntaxTokens:
    """The syntax tokens of the shown files, lexed in chunks after a line is first drawn."""

    def __init__(self, diffs: Sequence[FileDiff]) -> None:
        self._diffs = diffs
        self._chunks: OrderedDict[_ChunkKey, list[tuple[StyledStretch, ...]]] = OrderedDict()
        self._requested_chunks: OrderedDict[_ChunkKey, None] = OrderedDict()

    def line_tokens(self, file: int, side: Side, line: int) -> tuple[StyledStretch, ...]:
        """Return the tokens of a line; if it is not lexed yet, request it and return none."""
        whole = len(diff_side_lines(self._diffs[file], side)) <= WHOLE_FILE_LINES
        key = _ChunkKey(file, side, -1 if whole else line // CHUNK_LINES)
        chunk = self._chunks.get(key)
        if chunk is None:
            self._requested_chunks[key] = None
            return ()
        return chunk[line if whole else line % CHUNK_LINES]

    @property
    def has_requests(self) -> bool:
        """Return whether requested chunks are not lexed yet."""
        return bool(self._requested_chunks)

    async def lex_requested_parts(self) -> bool:
        """Lex the latest requested chunks in a thread; return whether there were any."""
        if not self._requested_chunks:
            return False
        keys = [
            self._requested_chunks.popitem()[0] for _ in range(min(_MAX_CHUNKS_PER_STEP, len(self._requested_chunks)))
        ]
        self._chunks |= await asyncio.to_thread(self._lex_chunks, keys)
        while len(self._chunks) > _MAX_CACHED_CHUNKS:
            self._chunks.popitem(last=False)
        return True

    def _lex_chunks(self, keys: Sequence[_ChunkKey]) -> dict[_ChunkKey, list[tuple[StyledStretch, ...]]]:
        diffs = self._diffs
        return {
            key: _lex_chunk(diffs[key.file].change.path, diff_side_lines(diffs[key.file], key.side), key.chunk)
            for key in keys
        }


def _lex_chunk(path: str, lines: Sequence[str], chunk: int) -> list[tuple[StyledStretch, ...]]:
    """Return the tokens of each line of a chunk; empty if no lexer knows the file."""
    if chunk < 0:
        return lex_lines(path, lines)
    start = chunk * CHUNK_LINES
    lead = max(0, start - LEAD_LINES)
    above = range(lead, max(0, lead - LEAD_LINES), -1)
    lead = next((line for line in above if lines[line][:1].strip()), lead)
    return lex_lines(path, lines[lead : start + CHUNK_LINES])[start - lead :]


def lex_lines(path: str, lines: Sequence[str]) -> list[tuple[StyledStretch, ...]]:
    """Return the tokens of these lines, which need not begin at the start of the file."""
    lexer = _find_lexer(path)
    if lexer is None:
        return [()] * len(lines)
    lines_stretches: list[list[StyledStretch]] = [[] for _ in lines]
    text = "\n".join(line if len(line) <= MAX_LINE_CHARACTERS else "" for line in lines)
    row = column = 0
    for _, kind, value in lexer.get_tokens_unprocessed(text):
        name = _component_class(kind)
        for number, piece in enumerate(value.split("\n")):
            if number:
                wait_while_event_loop_busy()
                row, column = row + 1, 0
            end = column + len(piece)
            if piece and name:
                line = lines_stretches[row]
                if line and line[-1][1:] == (column, name):
                    # Join quotes, escapes and the text between them: they look the same, and fewer stretches are
                    # faster to draw.
                    line[-1] = (line[-1][0], end, name)
                else:
                    line.append((column, end, name))
            column = end
    return [tuple(spans) for spans in lines_stretches]


def preload_lexers() -> None:
    """Import the Pygments lexers in advance, because the first search for a lexer takes a tenth of a second."""
    _find_lexer("preload.py")


@cache
def _find_lexer(path: str) -> "Lexer | None":
    from pygments.lexers import get_lexer_for_filename
    from pygments.util import ClassNotFound

    name = path.rsplit("/", 1)[-1]
    try:
        lexer = get_lexer_for_filename("style.scss" if name.endswith(".tcss") else name)
    except ClassNotFound:
        return None
    return None if lexer.name == "Text only" else lexer


@cache
def _component_class(kind: object) -> str:
    """Return the component class for a kind of token; empty for plain text."""
    from pygments.token import Comment, Generic, Keyword, Literal, Name, Number, Operator, String, Token

    names = {
        Comment: "remark",
        Keyword: "keyword",
        Keyword.Constant: "constant",
        Keyword.Type: "builtin",
        Name.Builtin: "builtin",
        Name.Builtin.Pseudo: "variable",
        Name.Class: "class",
        Name.Exception: "class",
        Name.Function: "function",
        Name.Decorator: "decorator",
        Name.Attribute: "attribute",
        Name.Tag: "tag",
        Name.Constant: "constant",
        Name.Variable: "variable",
        Name.Property: "attribute",
        String: "string",
        String.Doc: "remark",
        Literal: "string",
        Number: "number",
        Operator: "operator",
        Operator.Word: "keyword",
        Generic.Heading: "heading",
        Generic.Subheading: "heading",
        Generic.Strong: "strong",
        Generic.Emph: "emphasis",
    }
    step = kind
    while step is not None and step is not Token:
        if step in names:
            return f"diff--{names[step]}"
        step = getattr(step, "parent", None)
    return ""
