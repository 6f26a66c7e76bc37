"""Marks on lines beyond added and removed: changed words, whitespace only, moved, deceptive."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from app.concurrency import iterate_when_event_loop_idle
from app.proposals.text.line_comparison import (
    are_versions_of_one_line,
    changed_words,
    common_prefix_and_suffix,
    differ_only_in_space,
    is_paired_by_position,
    pair_lines,
)
from app.proposals.values.models import FileDiff, Hunk
from app.review.hunk_lines import (
    HunkPartRanges,
    Side,
    diff_side_lines,
    hunk_line_numbers,
    removed_and_added_lines,
    uncovered_line_numbers,
)
from app.text.deceiving_text import find_ascii_lookalikes
from widgets.diff.diff_rows import SourceLinePosition
from widgets.diff.display_cells import DisplayText, Span, Spans, lru_cache_by_text_identity

MovedLines = Mapping[SourceLinePosition, SourceLinePosition]
"""For each moved line, its counterpart: the old line of a new one, and the reverse."""

_MIN_MOVED_CHARACTERS = 20
"""Minimum letters and digits of a moved block; shorter equal blocks are coincidence."""
_MAX_SEARCHED_LINES = 200_000
"""Larger changes are not searched."""
_MAX_SOURCES_PER_LINE = 8
"""Maximum number of places that are examined for a line."""
_MAX_GAP_LINES = 6
"""Maximum lines on either side between two runs of one block."""
_MAX_EDGE_LINES = 3
"""Maximum lines above and below a block that may have moved with it."""


class _ChangedLine(NamedTuple):
    """A removed or added line."""

    line: SourceLinePosition
    text: str
    """Without indentation."""
    hunk: int
    """Index of the hunk in its file."""

    def is_below(self, other: "_ChangedLine", lines: int) -> bool:
        """Return whether this line is `lines` below another with no unchanged line between."""
        return self.line.line == other.line.line + lines and self.line[:2] == other.line[:2]


class _EqualRun(NamedTuple):
    """Equal lines on both sides; `source` and `target` are indices in all removed and all added lines."""

    source: int
    target: int
    length: int

    @property
    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield the index pairs of its lines."""
        return zip(
            range(self.source, self.source + self.length), range(self.target, self.target + self.length), strict=True
        )


def find_moved_lines(diffs: Sequence[FileDiff]) -> MovedLines:
    """Return the moved lines of a change; call it in a thread for a large change."""
    removed, added = _changed_lines(diffs, "old"), _changed_lines(diffs, "new")
    if len(removed) + len(added) > _MAX_SEARCHED_LINES:
        return {}
    moved: dict[SourceLinePosition, SourceLinePosition] = {}

    def add_pair(source: int, target: int) -> None:
        old, new = removed[source].line, added[target].line
        moved.setdefault(new, old)
        moved.setdefault(old, new)

    blocks = [block for runs in _group_runs(removed, added) for block in _significant_blocks(runs, added)]
    for block in blocks:
        for run in block:
            for source, target in run.pairs:
                add_pair(source, target)
    for block in blocks:
        first_old, first_new = removed[block[0].source], added[block[0].target]
        if (first_old.line.file, first_old.hunk) == (first_new.line.file, first_new.hunk):
            # The hunk itself shows lines that were changed in place.
            continue
        for source, target in _lines_changed_by_move(block, removed, added):
            if removed[source].line not in moved and added[target].line not in moved:
                add_pair(source, target)
    return moved


def _changed_lines(diffs: Sequence[FileDiff], side: Side) -> list[_ChangedLine]:
    """Return all removed or added lines."""
    changed_lines: list[_ChangedLine] = []
    for file, diff in enumerate(iterate_when_event_loop_idle(diffs)):
        lines = diff.old if side == "old" else diff.new
        for number, hunk in enumerate(diff.change.hunks):
            changed_lines += (
                _ChangedLine(SourceLinePosition(file, side, line), lines[line].strip(), number)
                for line in hunk_line_numbers(hunk, side)
            )
    return changed_lines


def _find_runs(removed: Sequence[_ChangedLine], added: Sequence[_ChangedLine]) -> Iterator[_EqualRun]:
    """Yield the longest run from each added line that is not in a previous run."""
    sources: dict[str, list[int]] = {}
    for removed_number, changed in enumerate(removed):
        if changed.text:
            sources.setdefault(changed.text, []).append(removed_number)
    target = source_after_run = 0
    while target < len(added):
        nearest = _nearest_sources(sources.get(added[target].text, ()), source_after_run)
        run = _longest_run(removed, added, target, nearest)
        if run.length:
            source_after_run = run.source + run.length
            yield run
        target += max(1, run.length)


def _nearest_sources(sources: Sequence[int], source_after_run: int) -> Sequence[int]:
    """Return a few indices of a line: first those after the end of the previous run."""
    first = bisect_left(sources, source_after_run)
    return (*sources[first : first + _MAX_SOURCES_PER_LINE // 2], *sources[: min(first, _MAX_SOURCES_PER_LINE // 2)])


def _longest_run(
    removed: Sequence[_ChangedLine], added: Sequence[_ChangedLine], target: int, sources: Sequence[int]
) -> _EqualRun:
    """Return the longest run of removed lines equal to the added lines from `target` on; the first of equal ones."""
    longest = _EqualRun(0, target, 0)
    for source in sources:
        length = 0
        while (
            source + length < len(removed)
            and target + length < len(added)
            and removed[source + length].text == added[target + length].text
            and removed[source + length].is_below(removed[source], length)
            and added[target + length].is_below(added[target], length)
        ):
            length += 1
        if length > longest.length:
            longest = _EqualRun(source, target, length)
    return longest


def _group_runs(removed: Sequence[_ChangedLine], added: Sequence[_ChangedLine]) -> Iterator[list[_EqualRun]]:
    """Yield groups of runs that follow each other closely on both sides."""
    block: list[_EqualRun] = []
    for run in _find_runs(removed, added):
        if block and not _is_close_below(run, block[-1], removed, added):
            yield block
            block = []
        block.append(run)
    if block:
        yield block


def _is_close_below(
    run: _EqualRun, previous: _EqualRun, removed: Sequence[_ChangedLine], added: Sequence[_ChangedLine]
) -> bool:
    source, target = run.source - previous.source, run.target - previous.target
    return (
        0 <= source - previous.length <= _MAX_GAP_LINES
        and target - previous.length <= _MAX_GAP_LINES
        and removed[run.source].is_below(removed[previous.source], source)
        and added[run.target].is_below(added[previous.target], target)
    )


def _significant_blocks(block: list[_EqualRun], added: Sequence[_ChangedLine]) -> Iterator[list[_EqualRun]]:
    """Yield the block if it is significant and at least half of it is equal; else its significant runs."""
    equal_lines = sum(run.length for run in block)
    last, first = block[-1], block[0]
    spanned_lines = last.length + max(last.source - first.source, last.target - first.target)
    if len(block) > 1 and 2 * equal_lines < spanned_lines:
        for run in block:
            yield from _significant_blocks([run], added)
    elif _count_letters(block, added) >= _MIN_MOVED_CHARACTERS:
        yield block


def _count_letters(block: Sequence[_EqualRun], added: Sequence[_ChangedLine]) -> int:
    texts = (added[target].text for run in block for target in range(run.target, run.target + run.length))
    return sum(sum(map(str.isalnum, text)) for text in texts)


def _lines_changed_by_move(
    block: Sequence[_EqualRun], removed: Sequence[_ChangedLine], added: Sequence[_ChangedLine]
) -> Iterator[tuple[int, int]]:
    """Yield the lines of a block that were moved and changed: between its runs and at its edges."""
    for previous, run in pairwise(block):
        source, target = previous.source + previous.length, previous.target + previous.length
        old = [changed.text for changed in removed[source : run.source]]
        new = [changed.text for changed in added[target : run.target]]
        for old_index, new_index in pair_lines(old, new):
            if old_index is None or new_index is None:
                continue
            if are_versions_of_one_line(old[old_index], new[new_index]):
                yield source + old_index, target + new_index
    first, last = block[0], block[-1]
    yield from _similar_lines_at_edge(removed, added, first.source, first.target, -1)
    yield from _similar_lines_at_edge(removed, added, last.source + last.length - 1, last.target + last.length - 1, 1)


def _similar_lines_at_edge(
    removed: Sequence[_ChangedLine], added: Sequence[_ChangedLine], source: int, target: int, direction: int
) -> Iterator[tuple[int, int]]:
    """Yield the lines beyond the edge of a block, as long as they are similar."""
    for step in range(direction, direction * (_MAX_EDGE_LINES + 1), direction):
        old_index, new_index = source + step, target + step
        if not (0 <= old_index < len(removed) and 0 <= new_index < len(added)):
            return
        old, new = removed[old_index], added[new_index]
        are_adjacent = old.is_below(removed[source], step) and new.is_below(added[target], step)
        if not (are_adjacent and are_versions_of_one_line(old.text, new.text)):
            return
        yield old_index, new_index


_MAX_COMPARED_CHARACTERS = 2_000
"""In longer lines, everything from the first to the last difference is marked."""

_MIN_REWRITTEN_SHARE = 0.75
"""If at least this share of characters differs on both sides, the line counts as rewritten and has no marks."""

_NOT_PLAIN_PATTERN = re.compile(r"[^\x20-\x7e\t]")

_MAX_WORD_CHARACTERS = 500
"""Maximum characters beyond the visible range that are examined for the letters of a word."""


class DiffLineMarks:
    """Marks in the lines of a diff: changed words, moved lines, and lines that no test runs."""

    def __init__(self, diffs: Sequence[FileDiff]) -> None:
        self._diffs = diffs
        self._paired_lines: dict[tuple[int, int], dict[tuple[Side, int], int]] = {}
        self.moved: MovedLines = {}
        """Moved lines, as far as they have been found."""
        self._parts: Mapping[tuple[int, int], Sequence[HunkPartRanges]] = {}
        self.uncovered = frozenset(
            SourceLinePosition(file, "new", line)
            for file, diff in enumerate(diffs)
            for line in uncovered_line_numbers(diff)
        )
        """Lines that no test runs."""

    def limit_to_parts(self, parts: Mapping[tuple[int, int], Sequence[HunkPartRanges]]) -> None:
        """Mark only these parts of hunks as changed; a line is compared within its part."""
        if parts != self._parts:
            self._parts = parts
            self._paired_lines.clear()

    def paired_line(self, file: int, hunk: int, side: Side, line: int) -> int | None:
        """Return the line of the other side that a changed line is compared with; None if there is none."""
        changed_hunk = self._diffs[file].change.hunks[hunk]
        if (file, hunk) not in self._parts and is_paired_by_position(changed_hunk.old_count, changed_hunk.new_count):
            index = line - hunk_line_numbers(changed_hunk, side).start
            other_lines = hunk_line_numbers(changed_hunk, "new" if side == "old" else "old")
            return other_lines[index] if index < len(other_lines) else None
        key = (file, hunk)
        if key not in self._paired_lines:
            self._paired_lines[key] = self._pair_lines_of_parts(file, self._parts.get(key, (changed_hunk,)))
        return self._paired_lines[key].get((side, line))

    def _pair_lines_of_parts(self, file: int, parts: Sequence[Hunk | HunkPartRanges]) -> dict[tuple[Side, int], int]:
        paired_lines: dict[tuple[Side, int], int] = {}
        for part in parts:
            for old, new in pair_lines(*removed_and_added_lines(self._diffs[file], part)):
                if old is not None and new is not None:
                    paired_lines["old", part.old_start + old] = part.new_start + new
                    paired_lines["new", part.new_start + new] = part.old_start + old
        return paired_lines

    def changed_words(self, file: int, hunk: int, side: Side, line: int) -> tuple[Spans, bool]:
        """Return the changed characters of a line, and whether only whitespace differs."""
        other = self.paired_line(file, hunk, side, line)
        if other is None:
            return (), False
        diff = self._diffs[file]
        old, new = (diff.old[line], diff.new[other]) if side == "old" else (diff.old[other], diff.new[line])
        before, after, spaces = changed_spans(old, new)
        return (before if side == "old" else after), spaces

    def words_changed_by_move(self, line: SourceLinePosition) -> Spans:
        """Return the changed characters of a moved line, compared with its counterpart; ignore indentation."""
        own_text, other_text = self._line_text(line), self._line_text(self.moved[line])
        if own_text.strip() == other_text.strip():
            return ()
        if line.side == "old":
            own_spans, _, _ = changed_spans(own_text, other_text)
        else:
            _, own_spans, _ = changed_spans(other_text, own_text)
        return tuple(span for span in own_spans if own_text[slice(*span)].strip())

    def _line_text(self, line: SourceLinePosition) -> str:
        return diff_side_lines(self._diffs[line.file], line.side)[line.line]


@lru_cache_by_text_identity(2048)
def changed_spans(old: str, new: str) -> tuple[Spans, Spans, bool]:
    """Return the differing characters of both versions of a line, and whether only whitespace differs.

    The result is empty if the versions have too little in common.
    """
    if max(len(old), len(new)) > _MAX_COMPARED_CHARACTERS:
        head, tail = common_prefix_and_suffix(old, new)
        return _non_empty_span(head, len(old) - tail), _non_empty_span(head, len(new) - tail), False
    spaces = differ_only_in_space(old, new)
    before, after = changed_words(old, new)
    if _changed_share(old, before) > _MIN_REWRITTEN_SHARE and _changed_share(new, after) > _MIN_REWRITTEN_SHARE:
        return (), (), False
    return tuple((start, end) for start, end in before), tuple((start, end) for start, end in after), spaces


def _changed_share(line: str, ranges: Sequence[tuple[int, int]]) -> float:
    """Return the share of a line's characters, without whitespace, in these ranges."""
    letters = len("".join(line.split()))
    return sum(len("".join(line[start:end].split())) for start, end in ranges) / letters if letters else 0.0


def _non_empty_span(start: int, end: int) -> Spans:
    return ((start, end),) if end > start else ()


def suspicious_spans(line: str, shown: DisplayText, first: int, last: int) -> list[Span]:
    """Return suspicious ranges: glyphs of invisible characters, and words with look-alike letters.

    The ranges are in the drawn text. Only the characters from `first` to `last` are examined, so the cost does not
    depend on the length of the line.
    """
    start, end = shown.source_index(first), shown.source_index(last)
    if line[start:end].isascii() and line[start:end].isprintable():
        return []
    spans: list[Span] = []
    for match in _NOT_PLAIN_PATTERN.finditer(line, start, end):
        index = shown.drawn_index(match.start())
        if shown.text[index] != match[0]:
            spans.append((index, index + 1))
    search_start = max(0, start - _MAX_WORD_CHARACTERS)
    spans += (
        (shown.drawn_index(search_start + begin), shown.drawn_index(search_start + stop))
        for begin, stop in find_ascii_lookalikes(line[search_start : end + _MAX_WORD_CHARACTERS])
    )
    return [span for span in spans if not any(begin <= span[0] < stop for begin, stop in shown.gaps)]
