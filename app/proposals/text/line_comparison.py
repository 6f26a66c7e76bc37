"""Pair removed with added lines, for changed words and for rows side by side."""

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from app.proposals.text.diff import LineChange, count_equal_lines, diff_lines


class LineRange(Struct, frozen=True):
    """Lines `start` to `end` of a text, from 0; if the two are equal, lines were removed before `start`."""

    start: int
    end: int


def find_lines_unlike_every_version(version_changes: Sequence[Sequence[LineChange]]) -> tuple[LineRange, ...]:
    """Return the lines that differ from every known version.

    Args:
        version_changes: For each version, the changes from it to the text, in order.
    """
    if not version_changes:
        return ()
    spans = [LineRange(change.new_start, change.new_end) for change in version_changes[0]]
    for changes in version_changes[1:]:
        spans = _intersect_spans(spans, [LineRange(change.new_start, change.new_end) for change in changes])
    return tuple(spans)


def _intersect_spans(ours: Sequence[LineRange], theirs: Sequence[LineRange]) -> list[LineRange]:
    """Return the overlap of two lists of spans; a position of removed lines is in each span that it touches."""
    overlaps: list[LineRange] = []
    our_index = their_index = 0
    while our_index < len(ours) and their_index < len(theirs):
        our_span, their_span = ours[our_index], theirs[their_index]
        start, end = max(our_span.start, their_span.start), min(our_span.end, their_span.end)
        if start < end or (start == end and (our_span.start == our_span.end or their_span.start == their_span.end)):
            overlaps.append(LineRange(start, end))
        if our_span.end < their_span.end:
            our_index += 1
        else:
            their_index += 1
    return overlaps


MAX_CHARACTERS = 2_000
"""Longer lines are marked from their first to their last difference, and compared by this many first characters."""

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")

Ranges = list[tuple[int, int]]
"""Half-open character ranges, in order, each with at least one character."""


def changed_words(old_line: str, new_line: str) -> tuple[Ranges, Ranges]:
    """Return the character ranges removed from `old_line` and added in `new_line`.

    Equal ends are cut off at token boundaries, then tokens (words, runs of space, single marks) are compared. Two
    ranges with only space between them are joined, because a reader sees them as one.
    """
    head, tail = common_prefix_and_suffix(old_line, new_line)
    if max(len(old_line), len(new_line)) > MAX_CHARACTERS:
        return _range_between_ends(old_line, head, tail), _range_between_ends(new_line, head, tail)
    head, tail = _shrink_to_word_boundaries(old_line, new_line, head, tail)
    old_tokens = _TOKEN.findall(old_line[head : len(old_line) - tail])
    new_tokens = _TOKEN.findall(new_line[head : len(new_line) - tail])
    changes = diff_lines(old_tokens, new_tokens, anchored=False)
    return (
        _character_ranges(old_line, head, old_tokens, [(change.old_start, change.old_end) for change in changes]),
        _character_ranges(new_line, head, new_tokens, [(change.new_start, change.new_end) for change in changes]),
    )


def common_prefix_and_suffix(old: str, new: str) -> tuple[int, int]:
    """Return the length of the common start of two texts, and that of the common end of the rest."""
    head = count_equal_lines(old, new, 0, 0)
    return head, count_equal_lines(old[head:][::-1], new[head:][::-1], 0, 0)


def _shrink_to_word_boundaries(old: str, new: str, head: int, tail: int) -> tuple[int, int]:
    """Shrink the equal ends until neither cuts a word on either side."""
    while head and any(is_inside_word(line, head) for line in (old, new)):
        head -= 1
    while tail and any(is_inside_word(line, len(line) - tail) for line in (old, new)):
        tail -= 1
    return head, tail


def find_offsets(text: str, part: str, min_distance: int = 1) -> Iterator[int]:
    """Yield the offsets of a part of a text; the next one is searched `min_distance` characters after each."""
    at = text.find(part)
    while at >= 0:
        yield at
        at = text.find(part, at + min_distance)


def is_inside_word(line: str, at: int) -> bool:
    """Return whether an offset is between two characters of one word."""
    return 0 < at < len(line) and _is_word_character(line[at - 1]) and _is_word_character(line[at])


def _is_word_character(character: str) -> bool:
    return character.isalnum() or character == "_"


def _range_between_ends(line: str, head: int, tail: int) -> Ranges:
    return [(head, len(line) - tail)] if head < len(line) - tail else []


def _character_ranges(line: str, offset: int, tokens: list[str], spans: Ranges) -> Ranges:
    starts = [offset]
    for token in tokens:
        starts.append(starts[-1] + len(token))
    result: Ranges = []
    for first, last in spans:
        if first == last:
            continue
        start, end = starts[first], starts[last]
        if result and not line[result[-1][1] : start].strip():
            start = result.pop()[0]
        result.append((start, end))
    return result


def common_subsequence_length(first: str, second: str) -> int:
    """Return the length of the longest common subsequence of characters.

    Bit-parallel, one row in one integer: M. Crochemore et al., "A fast and practical bit-vector algorithm for the
    longest common subsequence problem" (2001).
    """
    masks: dict[str, int] = {}
    for index, character in enumerate(first):
        masks[character] = masks.get(character, 0) | 1 << index
    all_bits = (1 << len(first)) - 1
    row = all_bits
    for character in second:
        matched = row & masks.get(character, 0)
        row = ((row + matched) | (row - matched)) & all_bits
    return len(first) - row.bit_count()


def are_similar_lines(first: str, second: str, min_similarity: float) -> bool:
    """Return whether two lines are similar: whether twice their common length over both lengths is large enough."""
    first, second = first[:MAX_CHARACTERS], second[:MAX_CHARACTERS]
    total = len(first) + len(second)
    if 2 * min(len(first), len(second)) < min_similarity * total:
        return False
    return 2 * common_subsequence_length(first, second) >= min_similarity * total


Pair = tuple[int | None, int | None]
"""The numbers of an old and a new line in the hunk; None for a line without a counterpart."""

ALIGN_LIMIT = 900
"""Maximum comparisons for one hunk; beyond it, lines are paired in order."""

_MIN_SIMILARITY = 0.4
"""Minimum share of common words with which two lines count as one changed line."""

_WORD = re.compile(r"\w+|[^\w\s]")


def is_paired_by_position(old_count: int, new_count: int) -> bool:
    """Return whether a hunk of this size is paired line by line without comparing its text."""
    return old_count == new_count or not old_count or not new_count or old_count * new_count > ALIGN_LIMIT


def pair_lines(old: Sequence[str], new: Sequence[str]) -> list[Pair]:
    """Pair the lines of a hunk, in order, so that the most similar ones are together.

    Hunks with as many old as new lines are paired one to one. Others are aligned by the common words of their lines
    (a longest common subsequence, weighted by similarity); the lines between two pairs share rows.
    """
    if is_paired_by_position(len(old), len(new)):
        return _pair_in_order(0, len(old), 0, len(new))
    anchors = _find_similar_pairs(
        [set(_WORD.findall(line)) for line in old], [set(_WORD.findall(line)) for line in new]
    )
    pairs: list[Pair] = []
    from_old = from_new = 0
    for at_old, at_new in [*anchors, (len(old), len(new))]:
        pairs += _pair_in_order(from_old, at_old, from_new, at_new)
        if at_old < len(old):
            pairs.append((at_old, at_new))
        from_old, from_new = at_old + 1, at_new + 1
    return pairs


def are_versions_of_one_line(old: str, new: str) -> bool:
    """Return whether two lines count as one changed line."""
    return _word_similarity(set(_WORD.findall(old)), set(_WORD.findall(new))) > 0


def differ_only_in_space(old: str, new: str) -> bool:
    """Return whether two different lines are equal without their white space."""
    return old != new and "".join(old.split()) == "".join(new.split())


def _pair_in_order(from_old: int, to_old: int, from_new: int, to_new: int) -> list[Pair]:
    rows = max(to_old - from_old, to_new - from_new)
    return [
        (from_old + row if from_old + row < to_old else None, from_new + row if from_new + row < to_new else None)
        for row in range(rows)
    ]


def _find_similar_pairs(old: list[set[str]], new: list[set[str]]) -> list[tuple[int, int]]:
    """Return the chain of similar lines with the greatest sum of similarities."""
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    similarities = [[_word_similarity(left, right) for right in new] for left in old]
    for row in range(len(old) - 1, -1, -1):
        for column in range(len(new) - 1, -1, -1):
            best_without = max(best[row + 1][column], best[row][column + 1])
            similarity = similarities[row][column]
            best[row][column] = (
                max(similarity + best[row + 1][column + 1], best_without) if similarity else best_without
            )
    chain: list[tuple[int, int]] = []
    row = column = 0
    while row < len(old) and column < len(new):
        if similarities[row][column] and best[row][column] == similarities[row][column] + best[row + 1][column + 1]:
            chain.append((row, column))
            row, column = row + 1, column + 1
        elif best[row + 1][column] >= best[row][column + 1]:
            row += 1
        else:
            column += 1
    return chain


def _word_similarity(left: set[str], right: set[str]) -> float:
    """Return the share of common words (Jaccard index); 0 below the threshold."""
    smaller, larger = sorted((len(left), len(right)))
    if smaller < _MIN_SIMILARITY * larger or not larger:
        return 0.0
    common = len(left & right)
    similarity = common / (smaller + larger - common)
    return similarity if similarity >= _MIN_SIMILARITY else 0.0
