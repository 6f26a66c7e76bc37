"""What a refused edit shows: the places that match, or the nearest text and its first different line."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import islice

from app.proposals.locate.alignment import likely_offsets, most_voted
from app.proposals.locate.equivalence import BLANKS, fold_spacing
from app.proposals.locate.line_index import TextIndex
from app.proposals.text.line_comparison import is_alike
from app.proposals.values.models import MatchLevel

SHOWN_PLACES = 5
CONTEXT_LINES = 2
NEAREST_LINES = 12
LINE_WIDTH = 120

_WORD = re.compile(r"\w{3,}")
_MAX_WORDS = 40
_MAX_OCCURRENCES = 60
_CANDIDATES = 3


def numbered_lines(index: TextIndex, start: int, end: int) -> str:
    """Return the lines from `start` to `end` (from 0), each with its number."""
    start, end = max(0, start), min(end, len(index.texts))
    return "\n".join(f"{at + 1:>6}|{_clipped(index.texts[at])}" for at in range(start, end))


def _clipped(line: str) -> str:
    return line if len(line) <= LINE_WIDTH else f"{line[:LINE_WIDTH]}… ({len(line)} characters)"


def describe_places(index: TextIndex, spans: Sequence[tuple[int, int]]) -> str:
    """Line numbers of the places (spans of lines from 0), and the first ones with their surroundings."""
    numbers = ", ".join(str(start + 1) for start, _ in spans[:SHOWN_PLACES])
    more = f" and {len(spans) - SHOWN_PLACES} more" if len(spans) > SHOWN_PLACES else ""
    shown = []
    for start, end in spans[:SHOWN_PLACES]:
        first, last = start - CONTEXT_LINES, min(end, start + 3) + CONTEXT_LINES
        shown.append(f"At line {start + 1}:\n{numbered_lines(index, first, last)}")
    return f"lines {numbers}{more}.\n" + "\n".join(shown)


def describe_nearest(index: TextIndex, block: Sequence[str]) -> str:
    """The text of the file that is most like the block, with its line numbers and the first line that differs."""
    if not index.texts:
        return "The file is empty."
    start = _nearest_start(index, block)
    if start is None:
        return "Nothing in the file is like it. Read the file again, and check that it is the right one."
    ours, theirs = _first_difference(index, block, start)
    end = min(start + len(block), start + NEAREST_LINES)
    parts = [f"Nearest text in the file, from line {start + 1}:", numbered_lines(index, start, end)]
    if ours is not None:
        parts.append(f"First difference, line {ours + 1} of the text to find:")
        parts.append(f"  given: {_visible(block[ours])}")
        there = index.texts[theirs] if theirs is not None and theirs < len(index.texts) else None
        parts.append(f"  file:  {'(end of file)' if there is None else _visible(there)}")
    return "\n".join(parts)


def _visible(line: str) -> str:
    """The line with tabs, leading and trailing blanks as marks."""
    body = line.strip(BLANKS)
    head = line[: len(line) - len(line.lstrip(BLANKS))]
    tail = line[len(head) + len(body) :]
    marks = str.maketrans({"\t": "→", " ": "·", "\r": "␍", "\f": "␌", "\v": "␋"})
    return _clipped(head.translate(marks) + body.replace("\t", "→") + tail.translate(marks)) or "(empty line)"


def _first_difference(index: TextIndex, block: Sequence[str], start: int) -> tuple[int | None, int | None]:
    """The first line of the block that the file lacks at its place, and that place."""
    for at, line in enumerate(block):
        if start + at >= len(index.texts) or index.texts[start + at].rstrip(BLANKS) != line.rstrip(BLANKS):
            return at, start + at
    return None, None


def _nearest_start(index: TextIndex, block: Sequence[str]) -> int | None:
    wanted = [fold_spacing(line) for line in block]
    slack = max(1, len(block) // 5)
    offsets = likely_offsets(index, wanted, slack, _CANDIDATES) or _offsets_by_words(index, block, slack)
    offsets = [max(0, min(offset, len(index.texts) - 1)) for offset in offsets]
    keys = index.keys(MatchLevel.SPACING)

    def likeness(offset: int) -> int:
        pairs = list(zip(wanted[:60], keys[offset : offset + len(wanted)], strict=False))
        return sum(2 if ours == theirs else 1 if is_alike(ours, theirs, 0.6) else 0 for ours, theirs in pairs)

    return max(offsets, key=likeness, default=None)


def _offsets_by_words(index: TextIndex, block: Sequence[str], slack: int) -> list[int]:
    """Where the block may begin, by the words it shares with the file; a rare word counts for more."""
    text = index.document.text
    votes: Counter[int] = Counter()
    first_lines: dict[str, int] = {}
    for at, line in enumerate(block):
        for word in _WORD.findall(line):
            first_lines.setdefault(word, at)
    for word, at in islice(first_lines.items(), _MAX_WORDS):
        hits = _hits(text, word)
        if len(hits) <= _MAX_OCCURRENCES:
            for hit in hits:
                votes[bisect_right(index.offsets, hit) - 1 - at] += 1 + 60 // len(hits)
    return most_voted(votes, slack, _CANDIDATES)


def _hits(text: str, word: str) -> list[int]:
    hits: list[int] = []
    start = text.find(word)
    while start >= 0 and len(hits) <= _MAX_OCCURRENCES:
        hits.append(start)
        start = text.find(word, start + len(word))
    return hits
