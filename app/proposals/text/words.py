"""What two lines have in common: which words of a changed line changed, for the diff view, and how alike they are."""

import re

from app.proposals.text.diff import diff

MAX_CHARACTERS = 2_000
"""Longer lines are marked from their first to their last difference, and likened by this many first characters."""

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")

Ranges = list[tuple[int, int]]
"""Half-open character ranges, in order, none empty."""


def changed_words(old_line: str, new_line: str) -> tuple[Ranges, Ranges]:
    """The character ranges of `old_line` that are gone and of `new_line` that are new.

    Equal ends are set aside at token boundaries, then tokens (words, runs of space, single marks) are compared. Two
    ranges with nothing but space between them are joined, because a reader takes them as one.
    """
    head, tail = equal_ends(old_line, new_line)
    if max(len(old_line), len(new_line)) > MAX_CHARACTERS:
        return _whole(old_line, head, tail), _whole(new_line, head, tail)
    head, tail = _at_boundaries(old_line, new_line, head, tail)
    old_tokens = _TOKEN.findall(old_line[head : len(old_line) - tail])
    new_tokens = _TOKEN.findall(new_line[head : len(new_line) - tail])
    changes = diff(old_tokens, new_tokens, anchored=False)
    return (
        _ranges(old_line, head, old_tokens, [(change.old_start, change.old_end) for change in changes]),
        _ranges(new_line, head, new_tokens, [(change.new_start, change.new_end) for change in changes]),
    )


def equal_ends(old: str, new: str) -> tuple[int, int]:
    """How many characters two texts have in common at their start, and how many behind these at their end."""
    head = _equal_start(old, new)
    return head, _equal_start(old[head:][::-1], new[head:][::-1])


def _equal_start(old: str, new: str) -> int:
    low, high = 0, min(len(old), len(new))
    while low < high:
        # Halves are compared as a whole: a line can have millions of characters.
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _at_boundaries(old: str, new: str, head: int, tail: int) -> tuple[int, int]:
    """Shrink the equal ends until neither cuts a word on either side."""
    while head and any(_inside_word(line, head) for line in (old, new)):
        head -= 1
    while tail and any(_inside_word(line, len(line) - tail) for line in (old, new)):
        tail -= 1
    return head, tail


def _inside_word(line: str, at: int) -> bool:
    return 0 < at < len(line) and _is_word(line[at - 1]) and _is_word(line[at])


def _is_word(character: str) -> bool:
    return character.isalnum() or character == "_"


def _whole(line: str, head: int, tail: int) -> Ranges:
    return [(head, len(line) - tail)] if head < len(line) - tail else []


def _ranges(line: str, offset: int, tokens: list[str], spans: Ranges) -> Ranges:
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


def common_length(first: str, second: str) -> int:
    """The length of the longest common subsequence of characters.

    Bit-parallel, one row in one integer: M. Crochemore et al., "A fast and practical bit-vector algorithm for the
    longest common subsequence problem" (2001).
    """
    masks: dict[str, int] = {}
    for index, character in enumerate(first):
        masks[character] = masks.get(character, 0) | 1 << index
    everything = (1 << len(first)) - 1
    row = everything
    for character in second:
        matched = row & masks.get(character, 0)
        row = ((row + matched) | (row - matched)) & everything
    return len(first) - row.bit_count()


def alike(first: str, second: str, least: float) -> bool:
    """Whether the lines have a similarity (twice the common length over both lengths) of at least `least`."""
    first, second = first[:MAX_CHARACTERS], second[:MAX_CHARACTERS]
    total = len(first) + len(second)
    if 2 * min(len(first), len(second)) < least * total:
        return False
    return 2 * common_length(first, second) >= least * total
