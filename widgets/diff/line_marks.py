"""Marks on lines beyond added and removed: changed words, whitespace only, moved, deceptive."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from app.concurrency import iterate_cooperatively
from app.proposals.text.line_comparison import (
    are_versions_of_one_line,
    changed_words,
    common_prefix_and_suffix,
    differ_only_in_space,
    is_paired_in_order,
    pair_lines,
)
from app.proposals.values.models import FileDiff, Hunk
from app.review.hunk_lines import HunkRange, Side, hunk_line_numbers, hunk_texts, side_text, uncovered_line_numbers
from app.text.deceiving_text import find_lookalikes
from widgets.diff.diff_rows import SourceLine
from widgets.diff.display_cells import DisplayText, Span, Spans, recent_results_cache

MovedLines = Mapping[SourceLine, SourceLine]
"""For each moved line, its counterpart: the old line of a new one, and the reverse."""

_CHARACTERS = 20
"""Minimum letters and digits of a moved block; shorter equal blocks are coincidence."""
_MAX_LINES = 200_000
"""Larger changes are not searched."""
_SOURCES = 8
"""Maximum number of places that are examined for a line."""
_GAP = 6
"""Maximum lines on either side between two runs of one block."""
_EDGE = 3
"""Maximum lines above and below a block that may have moved with it."""


class _Changed(NamedTuple):
    """A removed or added line."""

    line: SourceLine
    text: str
    """Without indentation."""
    hunk: int
    """Index of the hunk in its file."""

    def is_below(self, other: "_Changed", lines: int) -> bool:
        """Return whether this line is `lines` below another with no unchanged line between."""
        return self.line.line == other.line.line + lines and self.line[:2] == other.line[:2]


class _Run(NamedTuple):
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
    removed, added = _changed(diffs, "old"), _changed(diffs, "new")
    if len(removed) + len(added) > _MAX_LINES:
        return {}
    moved: dict[SourceLine, SourceLine] = {}

    def note(source: int, target: int) -> None:
        old, new = removed[source].line, added[target].line
        moved.setdefault(new, old)
        moved.setdefault(old, new)

    blocks = [block for runs in _blocks(removed, added) for block in _accepted(runs, added)]
    for block in blocks:
        for run in block:
            for source, target in run.pairs:
                note(source, target)
    for block in blocks:
        if removed[block[0].source].hunk == added[block[0].target].hunk and _in_one_file(block, removed, added):
            # The hunk itself shows lines that were changed in place.
            continue
        for source, target in _changed_inside(block, removed, added):
            if removed[source].line not in moved and added[target].line not in moved:
                note(source, target)
    return moved


def _changed(diffs: Sequence[FileDiff], side: Side) -> list[_Changed]:
    """Return all removed or added lines."""
    found: list[_Changed] = []
    for file, diff in enumerate(iterate_cooperatively(diffs)):
        lines = diff.old if side == "old" else diff.new
        for number, hunk in enumerate(diff.change.hunks):
            found += (
                _Changed(SourceLine(file, side, line), lines[line].strip(), number)
                for line in hunk_line_numbers(hunk, side)
            )
    return found


def _in_one_file(block: Sequence[_Run], removed: Sequence[_Changed], added: Sequence[_Changed]) -> bool:
    return removed[block[0].source].line.file == added[block[0].target].line.file


def _runs(removed: Sequence[_Changed], added: Sequence[_Changed]) -> Iterator[_Run]:
    """Yield the longest run from each added line that is not in a previous run."""
    sources: dict[str, list[int]] = {}
    for number, changed in enumerate(removed):
        if changed.text:
            sources.setdefault(changed.text, []).append(number)
    at = following = 0
    while at < len(added):
        run = _longest(removed, added, at, _near(sources.get(added[at].text, ()), following))
        if run.length:
            following = run.source + run.length
            yield run
        at += max(1, run.length)


def _near(sources: Sequence[int], following: int) -> Sequence[int]:
    """Return a few indices of a line: first those after the end of the previous run."""
    first = bisect_left(sources, following)
    return (*sources[first : first + _SOURCES // 2], *sources[: min(first, _SOURCES // 2)])


def _longest(removed: Sequence[_Changed], added: Sequence[_Changed], at: int, sources: Sequence[int]) -> _Run:
    """Return the longest run of removed lines equal to the added lines from `at` on; of equal lengths, the first."""
    best, longest = 0, 0
    for source in sources:
        length = 0
        while (
            source + length < len(removed)
            and at + length < len(added)
            and removed[source + length].text == added[at + length].text
            and removed[source + length].is_below(removed[source], length)
            and added[at + length].is_below(added[at], length)
        ):
            length += 1
        if length > longest:
            best, longest = source, length
    return _Run(best, at, longest)


def _blocks(removed: Sequence[_Changed], added: Sequence[_Changed]) -> Iterator[list[_Run]]:
    """Yield groups of runs that follow each other closely on both sides."""
    block: list[_Run] = []
    for run in _runs(removed, added):
        if block and not _follows(run, block[-1], removed, added):
            yield block
            block = []
        block.append(run)
    if block:
        yield block


def _follows(run: _Run, before: _Run, removed: Sequence[_Changed], added: Sequence[_Changed]) -> bool:
    source, target = run.source - before.source, run.target - before.target
    return (
        0 <= source - before.length <= _GAP
        and target - before.length <= _GAP
        and removed[run.source].is_below(removed[before.source], source)
        and added[run.target].is_below(added[before.target], target)
    )


def _accepted(block: list[_Run], added: Sequence[_Changed]) -> Iterator[list[_Run]]:
    """Yield the block if it is significant and at least half of it is equal; else its significant runs."""
    same = sum(run.length for run in block)
    last, first = block[-1], block[0]
    lines = last.length + max(last.source - first.source, last.target - first.target)
    if len(block) > 1 and 2 * same < lines:
        for run in block:
            yield from _accepted([run], added)
    elif _characters(block, added) >= _CHARACTERS:
        yield block


def _characters(block: Sequence[_Run], added: Sequence[_Changed]) -> int:
    texts = (added[target].text for run in block for target in range(run.target, run.target + run.length))
    return sum(sum(map(str.isalnum, text)) for text in texts)


def _changed_inside(
    block: Sequence[_Run], removed: Sequence[_Changed], added: Sequence[_Changed]
) -> Iterator[tuple[int, int]]:
    """Yield the lines of a block that were moved and changed: between its runs and at its edges."""
    for before, run in pairwise(block):
        source, target = before.source + before.length, before.target + before.length
        old = [changed.text for changed in removed[source : run.source]]
        new = [changed.text for changed in added[target : run.target]]
        for here, there in pair_lines(old, new):
            if here is not None and there is not None and are_versions_of_one_line(old[here], new[there]):
                yield source + here, target + there
    first, last = block[0], block[-1]
    yield from _edge(removed, added, first.source, first.target, -1)
    yield from _edge(removed, added, last.source + last.length - 1, last.target + last.length - 1, 1)


def _edge(
    removed: Sequence[_Changed], added: Sequence[_Changed], source: int, target: int, by: int
) -> Iterator[tuple[int, int]]:
    """Yield the lines beyond the edge of a block, as long as they are similar."""
    for step in range(by, by * (_EDGE + 1), by):
        here, there = source + step, target + step
        if not (0 <= here < len(removed) and 0 <= there < len(added)):
            return
        old, new = removed[here], added[there]
        near = old.is_below(removed[source], step) and new.is_below(added[target], step)
        if not (near and are_versions_of_one_line(old.text, new.text)):
            return
        yield here, there


_LONGEST_LINE = 2_000
"""In longer lines, everything from the first to the last difference is marked."""

_REWRITTEN = 0.75
"""If at least this share of characters differs on both sides, the line counts as rewritten and has no marks."""

_NOT_PLAIN = re.compile(r"[^\x20-\x7e\t]")

_LONGEST_WORD = 500
"""Maximum characters beyond the visible range that are examined for the letters of a word."""


class LineMarks:
    """The marks of lines; each is computed when it is first drawn."""

    def __init__(self, diffs: Sequence[FileDiff]) -> None:
        self._diffs = diffs
        self._partners: dict[tuple[int, int], dict[tuple[Side, int], int]] = {}
        self.moved: MovedLines = {}
        """Moved lines, as far as they have been found."""
        self._parts: Mapping[tuple[int, int], Sequence[HunkRange]] = {}
        self.uncovered = frozenset(
            SourceLine(file, "new", line) for file, diff in enumerate(diffs) for line in uncovered_line_numbers(diff)
        )
        """Lines that no test runs."""

    def limit_to_parts(self, parts: Mapping[tuple[int, int], Sequence[HunkRange]]) -> None:
        """Mark only these parts of hunks as changed; a line is compared within its part."""
        if parts != self._parts:
            self._parts = parts
            self._partners.clear()

    def paired_line(self, file: int, hunk: int, side: Side, line: int) -> int | None:
        """Return the line of the other side that a changed line is compared with; None if there is none."""
        edit = self._diffs[file].change.hunks[hunk]
        if (file, hunk) not in self._parts and is_paired_in_order(edit.old_count, edit.new_count):
            here, there = hunk_line_numbers(edit, side), hunk_line_numbers(edit, "new" if side == "old" else "old")
            at = line - here.start
            return there[at] if at < len(there) else None
        key = (file, hunk)
        if key not in self._partners:
            self._partners[key] = self._aligned(file, self._parts.get(key, (edit,)))
        return self._partners[key].get((side, line))

    def _aligned(self, file: int, parts: Sequence[Hunk | HunkRange]) -> dict[tuple[Side, int], int]:
        partners: dict[tuple[Side, int], int] = {}
        for part in parts:
            for old, new in pair_lines(*hunk_texts(self._diffs[file], part)):
                if old is not None and new is not None:
                    partners["old", part.old_start + old] = part.new_start + new
                    partners["new", part.new_start + new] = part.old_start + old
        return partners

    def changed_words(self, file: int, hunk: int, side: Side, line: int) -> tuple[Spans, bool]:
        """Return the changed characters of a line, and whether only whitespace differs."""
        other = self.paired_line(file, hunk, side, line)
        if other is None:
            return (), False
        diff = self._diffs[file]
        old, new = (diff.old[line], diff.new[other]) if side == "old" else (diff.old[other], diff.new[line])
        before, after, spaces = changed_spans(old, new)
        return (before if side == "old" else after), spaces

    def words_changed_by_move(self, line: SourceLine) -> Spans:
        """Return the changed characters of a moved line, compared with its counterpart; ignore indentation."""
        here, there = self._text(line), self._text(self.moved[line])
        if here.strip() == there.strip():
            return ()
        before, after, _ = changed_spans(here, there) if line.side == "old" else changed_spans(there, here)
        return tuple(span for span in (before if line.side == "old" else after) if here[slice(*span)].strip())

    def _text(self, line: SourceLine) -> str:
        return side_text(self._diffs[line.file], line.side)[line.line]


@recent_results_cache(2048)
def changed_spans(old: str, new: str) -> tuple[Spans, Spans, bool]:
    """Return the differing characters of both versions of a line, and whether only whitespace differs.

    The result is empty if the versions have too little in common.
    """
    if max(len(old), len(new)) > _LONGEST_LINE:
        return *_between(old, new), False
    spaces = differ_only_in_space(old, new)
    before, after = changed_words(old, new)
    if _share(old, before) > _REWRITTEN and _share(new, after) > _REWRITTEN:
        return (), (), False
    return tuple((start, end) for start, end in before), tuple((start, end) for start, end in after), spaces


def _share(line: str, ranges: Sequence[tuple[int, int]]) -> float:
    """Return the share of a line's characters, without whitespace, in these ranges."""
    letters = len("".join(line.split()))
    return sum(len("".join(line[start:end].split())) for start, end in ranges) / letters if letters else 0.0


def _between(old: str, new: str) -> tuple[Spans, Spans]:
    """Return the ranges between the common start and the common end."""
    head, tail = common_prefix_and_suffix(old, new)
    return _range(head, len(old) - tail), _range(head, len(new) - tail)


def _range(start: int, end: int) -> Spans:
    return ((start, end),) if end > start else ()


def suspicious_spans(line: str, shown: DisplayText, first: int, last: int) -> list[Span]:
    """Return suspicious ranges: glyphs of invisible characters, and words with look-alike letters.

    The ranges are in the drawn text. Only the characters from `first` to `last` are examined, so the cost does not
    depend on the length of the line.
    """
    start, end = shown.source_index(first), shown.source_index(last)
    if line[start:end].isascii() and line[start:end].isprintable():
        return []
    found: list[Span] = []
    for match in _NOT_PLAIN.finditer(line, start, end):
        at = shown.drawn_index(match.start())
        if shown.text[at] != match[0]:
            found.append((at, at + 1))
    low = max(0, start - _LONGEST_WORD)
    found += (
        (shown.drawn_index(low + begin), shown.drawn_index(low + stop))
        for begin, stop in find_lookalikes(line[low : end + _LONGEST_WORD])
    )
    return [span for span in found if not any(begin <= span[0] < stop for begin, stop in shown.gaps)]
