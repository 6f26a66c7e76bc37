"""Last level of the matching ladder: a block with different, missing or additional context lines.

Lines that are rare in the file vote for the position of the block. There, block and file are aligned line by line
(the semi-global alignment of Needleman and Wunsch). The requirements are strict, because a wrong place is worse than
a refusal: lines that the edit removes must be in the file, only context may differ.

If that fails, the refusal shows the places that match, or the nearest text and its first different line.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Sequence
from itertools import islice, zip_longest

from app.proposals.locate.line_index import (
    BLANKS,
    BlockPlace,
    LineIndex,
    find_indent_shift,
    normalize_spaces_and_lookalikes,
)
from app.proposals.text.line_comparison import are_similar_lines, find_offsets
from app.proposals.values.models import MatchLevel
from app.text.quantities import join_first

LINE_SIMILARITY = 0.8
"""Minimum similarity of a context line that differs."""
EQUAL_SHARE = 0.6
"""Minimum share of the block's lines that are equal except for spacing."""
ALIGNED_SHARE = 0.8
"""Minimum share of the block's lines that have a counterpart."""
SPAN_TOLERANCE = 0.2
"""Share of the block's length by which the place may be longer or shorter; at least one line."""
MIN_ALIGNED_LINES = 3
"""Minimum lines of a block that are not blank."""
MAX_ALIGNED_LINES = 300
"""Maximum lines of a block to align."""

_MAX_VOTER_OCCURRENCES = 16
_MAX_CANDIDATES = 6
_SCORE_EQUAL, _SCORE_EQUAL_BLANK, _SCORE_SIMILAR, _SCORE_GAP = 6, 1, 3, -2


def find_aligned_places(index: LineIndex, block: Sequence[str], removed: Collection[int]) -> list[BlockPlace]:
    """Return the places where the block can be aligned, without overlaps; `removed` are the lines that the edit
    deletes.
    """
    normalized = [normalize_spaces_and_lookalikes(line) for line in block]
    non_blank = [line for line in normalized if line]
    if len(non_blank) < MIN_ALIGNED_LINES or len(block) > MAX_ALIGNED_LINES:
        return []
    positions = index.positions_by_line(MatchLevel.SPACING)
    if any(normalized[line] not in positions for line in removed):
        return []
    slack = max(1, int(len(block) * SPAN_TOLERANCE))
    scored: list[tuple[int, BlockPlace]] = []
    for offset in find_likely_block_starts(index, normalized, slack):
        candidate = _align(index, block, normalized, removed, max(0, offset - slack), offset + len(block) + slack)
        if candidate is not None:
            scored.append(candidate)
    scored.sort(key=lambda item: -item[0])
    result: list[BlockPlace] = []
    for _, place in scored:
        if all(place.end <= other.start or other.end <= place.start for other in result):
            result.append(place)
    return result


def find_likely_block_starts(
    index: LineIndex, normalized: Sequence[str], min_distance: int, limit: int = _MAX_CANDIDATES
) -> list[int]:
    """Return the lines (from 0) at which the normalized block may begin, those with most votes first."""
    positions = index.positions_by_line(MatchLevel.SPACING)
    votes: Counter[int] = Counter()
    for at, line in enumerate(normalized):
        occurrences = positions.get(line, ())
        if line and len(occurrences) <= _MAX_VOTER_OCCURRENCES:
            for occurrence in occurrences:
                votes[occurrence - at] += 1
    return select_offsets_with_most_votes(votes, min_distance, limit)


def select_offsets_with_most_votes(votes: Counter[int], min_distance: int, limit: int) -> list[int]:
    """Return the offsets with most votes, each more than `min_distance` away from the others."""
    chosen: list[int] = []
    for offset, _ in votes.most_common():
        if len(chosen) < limit and all(abs(offset - other) > min_distance for other in chosen):
            chosen.append(offset)
    return chosen


def _align(
    index: LineIndex, block: Sequence[str], normalized: Sequence[str], removed: Collection[int], low: int, high: int
) -> tuple[int, BlockPlace] | None:
    """Return the best alignment of the block within lines `low` to `high`, with its score; None if it is not good
    enough.
    """
    window = index.compared_lines(MatchLevel.SPACING)[low:high]
    score, pairs = _find_best_alignment(normalized, window, removed)
    if not pairs or pairs[0][0] != 0 or pairs[-1][0] != len(block) - 1:
        return None
    alignment: list[int | None] = [None] * len(block)
    for ours, theirs in pairs:
        alignment[ours] = low + theirs
    equal = [(ours, theirs) for ours, theirs in pairs if normalized[ours] == window[theirs]]
    start, end = low + pairs[0][1], low + pairs[-1][1] + 1
    tolerance = max(1, int(len(block) * SPAN_TOLERANCE))
    if (
        len(equal) < EQUAL_SHARE * len(block)
        or len(pairs) < ALIGNED_SHARE * len(block)
        or abs(end - start - len(block)) > tolerance
        or any(alignment[line] is None for line in removed)
    ):
        return None
    shift = find_indent_shift(
        ((block[ours], index.texts[low + theirs]) for ours, theirs in equal), index.indentation_unit
    )
    if shift is None:
        return None
    similar_only = frozenset(ours for ours, theirs in pairs if normalized[ours] != window[theirs])
    return score, BlockPlace(MatchLevel.ALIGNED, start, end, tuple(alignment), shift, similar_only)


def _find_best_alignment(
    normalized: Sequence[str], window: Sequence[str], removed: Collection[int]
) -> tuple[int, list[tuple[int, int]]]:
    """Return the score and the pairs (line of the block, line of the window) of a best alignment.

    Lines at both ends of the window may stay without a partner.
    """
    width = len(window)
    rows: list[list[int]] = [[0] * (width + 1)]
    score_rows: list[list[int]] = []
    for at, line in enumerate(normalized):
        previous_row = rows[-1]
        row = [previous_row[0] + _SCORE_GAP]
        scores = [_match_score(line, other, must_be_equal=at in removed) for other in window]
        for column in range(width):
            best_score = previous_row[column + 1] + _SCORE_GAP
            if row[column] + _SCORE_GAP > best_score:
                best_score = row[column] + _SCORE_GAP
            if scores[column] and previous_row[column] + scores[column] > best_score:
                best_score = previous_row[column] + scores[column]
            row.append(best_score)
        rows.append(row)
        score_rows.append(scores)
    score = max(rows[-1])
    column = rows[-1].index(score)
    at = len(normalized)
    pairs: list[tuple[int, int]] = []
    while at and column:
        match_score = score_rows[at - 1][column - 1]
        if match_score and rows[at][column] == rows[at - 1][column - 1] + match_score:
            at, column = at - 1, column - 1
            pairs.append((at, column))
        elif rows[at][column] == rows[at - 1][column] + _SCORE_GAP:
            at -= 1
        else:
            column -= 1
    pairs.reverse()
    return score, pairs


def _match_score(line: str, other: str, *, must_be_equal: bool) -> int:
    if line == other:
        return _SCORE_EQUAL if line else _SCORE_EQUAL_BLANK
    if must_be_equal or not line or not other:
        return 0
    return _SCORE_SIMILAR if are_similar_lines(line, other, LINE_SIMILARITY) else 0


SHOWN_PLACES = 5
CONTEXT_LINES = 2
NEAREST_LINES = 12
LINE_WIDTH = 120

_WORD = re.compile(r"\w{3,}")
_MAX_WORDS = 40
_MAX_OCCURRENCES = 60
_MAX_SHOWN_CANDIDATES = 3


def format_numbered_lines(index: LineIndex, start: int, end: int) -> str:
    """Return the lines from `start` to `end` (from 0), each with its number."""
    start, end = max(0, start), min(end, len(index.texts))
    return "\n".join(f"{at + 1:>6}|{_clip_line(index.texts[at])}" for at in range(start, end))


def _clip_line(line: str) -> str:
    return line if len(line) <= LINE_WIDTH else f"{line[:LINE_WIDTH]}… ({len(line)} characters)"


def describe_places(index: LineIndex, spans: Sequence[tuple[int, int]]) -> str:
    """Return the line numbers of the places (spans of lines from 0), and the first places with their surroundings."""
    numbers = join_first([str(start + 1) for start, _ in spans], SHOWN_PLACES)
    excerpts = []
    for start, end in spans[:SHOWN_PLACES]:
        first, last = start - CONTEXT_LINES, min(end, start + 3) + CONTEXT_LINES
        excerpts.append(f"At line {start + 1}:\n{format_numbered_lines(index, first, last)}")
    return f"lines {numbers}.\n" + "\n".join(excerpts)


def describe_nearest_text(index: LineIndex, block: Sequence[str]) -> str:
    """Return the text of the file that is most like the block, with line numbers and the first line that differs."""
    if not index.texts:
        return "The file is empty."
    start = _find_nearest_start(index, block)
    if start is None:
        return "Nothing in the file is like it. Read the file again, and check that it is the right one."
    end = min(start + len(block), start + NEAREST_LINES)
    parts = [f"Nearest text in the file, from line {start + 1}:", format_numbered_lines(index, start, end)]
    for number, (given, there) in enumerate(zip_longest(block, index.texts[start : start + len(block)]), 1):
        if there is None or given.rstrip(BLANKS) != there.rstrip(BLANKS):
            parts.append(f"First difference, line {number} of the text to find:")
            parts.append(f"  given: {_make_blanks_visible(given)}")
            parts.append(f"  file:  {'(end of file)' if there is None else _make_blanks_visible(there)}")
            break
    return "\n".join(parts)


def _make_blanks_visible(line: str) -> str:
    """Return the line with visible marks for tabs and for leading and trailing blanks."""
    body = line.strip(BLANKS)
    leading = line[: len(line) - len(line.lstrip(BLANKS))]
    trailing = line[len(leading) + len(body) :]
    marks = str.maketrans({"\t": "→", " ": "·", "\r": "␍", "\f": "␌", "\v": "␋"})
    return (
        _clip_line(leading.translate(marks) + body.replace("\t", "→") + trailing.translate(marks)) or "(empty line)"
    )


def _find_nearest_start(index: LineIndex, block: Sequence[str]) -> int | None:
    normalized = [normalize_spaces_and_lookalikes(line) for line in block]
    slack = max(1, len(block) // 5)
    offsets = find_likely_block_starts(index, normalized, slack, _MAX_SHOWN_CANDIDATES) or _offsets_by_words(
        index, block, slack
    )
    offsets = [max(0, min(offset, len(index.texts) - 1)) for offset in offsets]
    file_lines = index.compared_lines(MatchLevel.SPACING)

    def similarity(offset: int) -> int:
        pairs = list(zip(normalized[:60], file_lines[offset : offset + len(normalized)], strict=False))
        return sum(
            2 if ours == theirs else 1 if are_similar_lines(ours, theirs, 0.6) else 0 for ours, theirs in pairs
        )

    return max(offsets, key=similarity, default=None)


def _offsets_by_words(index: LineIndex, block: Sequence[str], slack: int) -> list[int]:
    """Return the lines where the block may begin, by the words it shares with the file; rare words count more."""
    text = index.document.text
    votes: Counter[int] = Counter()
    first_lines: dict[str, int] = {}
    for at, line in enumerate(block):
        for word in _WORD.findall(line):
            first_lines.setdefault(word, at)
    for word, at in islice(first_lines.items(), _MAX_WORDS):
        occurrences = list(islice(find_offsets(text, word, len(word)), _MAX_OCCURRENCES + 1))
        if len(occurrences) <= _MAX_OCCURRENCES:
            for occurrence in occurrences:
                votes[bisect_right(index.offsets, occurrence) - 1 - at] += 1 + 60 // len(occurrences)
    return select_offsets_with_most_votes(votes, slack, _MAX_SHOWN_CANDIDATES)
