"""Records which changed lines were on the screen: rows as a whole, long lines by the drawn characters.

A line is known by its hunk and its number in it, the removed lines before the added ones, so that what was seen stays
seen when a re-base moves the hunk.
"""

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from textual.widget import Widget

from app.proposals.values.models import FileChange, Hunk, HunkState
from widgets.diff.diff_cursor import CursorView, DiffCursor
from widgets.diff.diff_model import DiffModel
from widgets.diff.diff_rows import FileRow, LineRow, Row, Side, SourceLine, line_of, number_of, row_of
from widgets.diff.display_cells import Span
from widgets.diff.render_context import RenderContext


def changed_lines(hunk: Hunk) -> int:
    """Removed and added lines."""
    return hunk.old_count + hunk.new_count


class SeenLines:
    """The lines of one proposal that have been on the screen."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        """Paths of files without hunks whose head was drawn."""
        self.count = 0
        """How often something came on screen for the first time."""
        self.lines = 0
        """Lines that were seen."""
        self._lines: dict[str, bytearray] = {}
        """By hunk, one byte for each of its lines: whether all that matters of it was drawn."""
        self._left: dict[str, int] = {}
        """By hunk, how many of these are still 0."""
        self._parts: dict[tuple[str, int], list[Span]] = {}
        """The characters drawn of lines that were drawn in part, in order, apart from each other."""
        self._unsaved: set[str] = set()
        """Hunks, and paths of files without any, of which something was seen since `take_new`."""

    # Taking in

    def note_file(self, path: str) -> None:
        """The head of a file without hunks was drawn."""
        if path not in self.files:
            self.files.add(path)
            self.count += 1
            self._unsaved.add(path)

    def note(self, hunk: Hunk, number: int) -> None:
        """A line was drawn from its first to its last changed character."""
        lines = self._lines.get(hunk.id)
        if lines is None:
            lines = self._lines[hunk.id] = bytearray(changed_lines(hunk))
            self._left[hunk.id] = len(lines)
        if number < len(lines) and not lines[number]:
            lines[number] = 1
            self._left[hunk.id] -= 1
            self._parts.pop((hunk.id, number), None)
            self.count += 1
            self.lines += 1
            self._unsaved.add(hunk.id)

    def note_part(self, hunk: Hunk, number: int, drawn: Span, wanted: Sequence[Span]) -> None:
        """Record drawn characters of a line; `wanted` are those that must be drawn before it counts as seen."""
        if self.is_seen(hunk, number):
            return
        before = self._parts.get((hunk.id, number), [])
        spans = _joined(before, drawn)
        if spans != before:
            self._parts[hunk.id, number] = spans
            self.count += 1
        if _first_gap(spans, wanted) is None:
            self.note(hunk, number)

    def inherit(self, whole: Hunk, part: Hunk) -> None:
        """Copy the seen lines of a hunk to a part that was split off."""
        for number in range(changed_lines(part)):
            if self.is_seen(whole, number_of(whole, *line_of(part, number))):
                self.note(part, number)

    # Sharing with other windows and runs

    def take_new(self) -> dict[str, bytes]:
        """Return what was seen since the last call: a byte per line by hunk id, one by the path of a bare file."""
        new, self._unsaved = self._unsaved, set()
        return {key: bytes(self._lines.get(key, b"\1")) for key in new}

    def restore(self, seen: Mapping[str, bytes], changes: Iterable[FileChange]) -> None:
        """Take what was seen of these files in another window or run."""
        for change in changes:
            if not change.hunks and change.path in seen:
                self.files.add(change.path)
            for hunk in change.hunks:
                stored = seen.get(hunk.id, b"")
                if len(stored) == changed_lines(hunk) and any(stored):
                    lines = bytearray(map(max, stored, self._lines.get(hunk.id, bytes(len(stored)))))
                    self.lines += sum(lines) - sum(self._lines.get(hunk.id, b""))
                    self._lines[hunk.id], self._left[hunk.id] = lines, len(lines) - sum(lines)

    # Asking

    def is_seen(self, hunk: Hunk, number: int) -> bool:
        """Whether a line was seen."""
        lines = self._lines.get(hunk.id)
        return lines is not None and number < len(lines) and bool(lines[number])

    def unseen(self, hunk: Hunk) -> int:
        """Return how many of its lines were not on the screen."""
        return self._left.get(hunk.id, changed_lines(hunk)) if hunk.old_count or hunk.new_count else 0

    def unseen_of(self, hunks: Iterable[Hunk], left_out: Collection[str]) -> tuple[int, int]:
        """Return how many lines of the waiting, chosen hunks were not on the screen, and how many there are."""
        missing = of = 0
        get = self._left.get
        for hunk in hunks:  # there may be tens of thousands, and this is asked after every page
            if hunk.state is HunkState.PENDING and hunk.id not in left_out:
                lines = hunk.old_count + hunk.new_count
                left = get(hunk.id)
                of += lines
                missing += lines if left is None else left
        return missing, of

    def first_unseen(self, hunk: Hunk, start: int = 0) -> int | None:
        """The first of its lines from `start` on that was not seen."""
        if start >= changed_lines(hunk):
            return None
        lines = self._lines.get(hunk.id)
        found = start if lines is None else lines.find(0, start)
        return None if found < 0 else found

    def missing(self, hunk: Hunk, number: int, wanted: Sequence[Span]) -> int:
        """The first of the wanted characters of a line that was not drawn; the first of all, if all were."""
        gap = _first_gap(self._parts.get((hunk.id, number), []), wanted)
        return gap if gap is not None else wanted[0][0] if wanted else 0


def _joined(spans: Sequence[Span], new: Span) -> list[Span]:
    """Return the spans with one more; touching spans are joined."""
    start, end = new
    if start >= end:
        return list(spans)
    before = [span for span in spans if span[1] < start]
    after = [span for span in spans if span[0] > end]
    touching = spans[len(before) : len(spans) - len(after)]
    if touching:
        start, end = min(start, touching[0][0]), max(end, touching[-1][1])
    return [*before, (start, end), *after]


def _first_gap(spans: Sequence[Span], wanted: Sequence[Span]) -> int | None:
    """Return the first wanted character outside all spans; None if there is none."""
    for start, end in wanted:
        at = start
        for low, high in spans:
            if low <= at < high:
                at = high
        if at < end:
            return at
    return None


_BESIDE = 4
"""Cells left of an unseen place that are shown with it."""


class UnseenLine(NamedTuple):
    """A changed line that was not wholly on screen, or the head of a file without hunks."""

    file: int
    hunk: int
    """Index in the file; -1 for the head of a file."""
    number: int
    """Of the line in the hunk."""


class UnseenLines:
    """Counts and finds the unseen lines of a diff.

    Hunks that are left out, and those that were decided while others wait, don't count.
    """

    def __init__(self, scene: RenderContext, seen: SeenLines) -> None:
        """`seen` may grow, if `note` is told; where something else is left out, begin anew."""
        self._scene = scene
        self._seen = seen
        self._counted: dict[int, tuple[int, int]] = {}
        """By file, which may have many hunks."""

    def count(self, file: int) -> tuple[int, int]:
        """Changed lines of a file that were never on screen, and all of them; a file without hunks is one line."""
        change = self._scene.diffs[file].change
        if not change.hunks:
            return int(change.path not in self._seen.files), 1
        if file not in self._counted:
            hunks = [hunk for hunk in change.hunks if self._scene.counts(hunk)]
            self._counted[file] = sum(map(self._seen.unseen, hunks)), sum(map(changed_lines, hunks))
        return self._counted[file]

    def note(self, row: LineRow, lines: int) -> None:
        """Record that `lines` more lines on a row of a hunk have been seen."""
        if row.hunk is None or row.file not in self._counted:
            return
        if self._scene.counts(self._scene.diffs[row.file].change.hunks[row.hunk]):
            missing, of = self._counted[row.file]
            self._counted[row.file] = missing - lines, of

    def below(self, file: int, row: Row | None) -> Iterator[UnseenLine]:
        """Yield the unseen lines from a row of a file to the end, then from the beginning."""
        diffs = self._scene.diffs
        start_hunk, start_number = self._place_of(file, row)
        for index in (*range(file, len(diffs)), *range(file + 1)):
            change = diffs[index].change
            if not change.hunks and change.path not in self._seen.files:
                yield UnseenLine(index, -1, 0)
            for at, hunk in enumerate(change.hunks):
                if index == file and at < start_hunk < len(change.hunks):
                    continue
                if not self._scene.counts(hunk):
                    continue
                first = start_number if (index, at) == (file, start_hunk) else 0
                number = self._seen.first_unseen(hunk, first)
                if number is not None:
                    yield UnseenLine(index, at, number)
            start_hunk = start_number = 0

    def _place_of(self, file: int, row: Row | None) -> tuple[int, int]:
        """The hunk that a row is in or above, and the number of its line in it."""
        hunks = self._scene.diffs[file].change.hunks
        if not isinstance(row, LineRow):
            return 0, 0
        if row.hunk is None:
            return bisect_right(hunks, row.new or 0, key=lambda hunk: hunk.new_start), 0
        return row.hunk, number_of(hunks[row.hunk], *row.lines[0])


def go_to_unseen(place: UnseenLine, seen: SeenLines, sheet: DiffModel, cursor: DiffCursor, view: CursorView) -> None:
    """Bring the first unseen character of a line into view, and the cursor with it."""
    hunk, scene = sheet.diffs[place.file].change.hunks[place.hunk], sheet.scene
    side, line = line_of(hunk, place.number)
    row = row_of(SourceLine(place.file, side, line), place.hunk)
    found = cursor.find(row)
    if found is None:
        return
    drawn = scene.drawn(row, side, line)
    wanted = scene.changed(row, side, line) or ((0, len(scene.line(place.file, side, line))),)
    character = drawn.text.drawn(seen.missing(hunk, place.number, wanted))
    part = max(0, bisect_right(drawn.starts, character) - 1)
    if not sheet.wrap:
        cell = drawn.text.cell(character)
        view.scroll_to(x=0 if cell < scene.code_width - 1 else cell - _BESIDE, animate=False, immediate=True)
    top, first = sheet.rows.line_of(found) + part, view.scroll_offset.y
    if not first <= top < first + view.room:
        view.scroll_to(y=max(0, top - 1), animate=False, immediate=True)
    cursor.put(found)


_PROBES = 3
"""Cells of a line, evenly spread, that have to be the widget's own for the line to count as visible."""


class SeenRecorder:
    """Records what a widget draws of a diff."""

    def __init__(self, sheet: DiffModel, widget: Widget) -> None:
        self._sheet = sheet
        self._widget = widget
        self._painted = bytearray()
        """The terminal lines of the layout that were on the terminal, at one position of the view to the side."""
        self._painted_at = 0
        """How far that was scrolled to the side."""
        self.seen = SeenLines()
        """Of what is shown, as far as it waits for a decision."""
        self.unseen = UnseenLines(sheet.scene, self.seen)

    def begin(self, seen: SeenLines | None = None) -> None:
        """Begin to record a change; `seen` are its lines that were on the screen before."""
        self.seen = SeenLines() if seen is None else seen
        self.reset()
        self.count_anew()

    def count_anew(self) -> None:
        """Something else counts."""
        self.unseen = UnseenLines(self._sheet.scene, self.seen)

    def reset(self) -> None:
        """There is another layout."""
        self._painted = bytearray()

    def first_unpainted(self, last: int) -> int | None:
        """The first terminal line before `last` that was never on screen as it is laid out now."""
        line = self._painted.find(0, 0, last)
        return line if line >= 0 else len(self._painted) if len(self._painted) < last else None

    def note(self, first: int, last: int, top: int) -> bool:
        """Record a frame whose first line is `top`, of which these lines were drawn; return whether any was
        unseen."""
        sheet, seen = self._sheet, self.seen
        if self._painted_at != sheet.scene.scroll:
            self._painted_at = sheet.scene.scroll
            self.reset()
        before = seen.count
        for line in self._newly_visible(first, last, top):
            if sheet.proposal is not None and not sheet.versions and line < sheet.rows.height:
                self._note_line(line)
        return seen.count != before

    def _newly_visible(self, first: int, last: int, top: int) -> list[int]:
        """Return the lines that are visible for the first time.

        Textual draws a whole widget although another covers a part of it (a toast, a scrollbar), although only a
        strip of it is on the screen, and dimmed behind a dialog.
        """
        lines, widget = self._painted, self._widget
        if len(lines) < last:
            lines.extend(bytes(last - len(lines)))
        new = [line for line in range(first, last) if not lines[line]]
        if not new or not widget.is_attached or widget.app.screen is not widget.screen:
            return []
        screen, region = widget.screen, widget.region
        cells = sorted({region.x + (region.width - 1) * probe // (_PROBES - 1) for probe in range(_PROBES)})
        visible = []
        for line in new:
            y = region.y + line - top
            if 0 <= y < screen.size.height and all(_is_top(widget, x, y) for x in cells):
                lines[line] = 1
                visible.append(line)
        return visible

    def _note_line(self, line: int) -> None:
        """Record the line on a terminal line."""
        _, row, part = self._sheet.rows.part_at(line)
        if isinstance(row, FileRow):
            change = self._sheet.diffs[row.file].change
            if not change.hunks:
                self.seen.note_file(change.path)
        if isinstance(row, LineRow) and row.hunk is not None:
            known = self.seen.lines
            for side, number in row.lines:
                self._note_side(row, side, number, part)
            if self.seen.lines > known:
                self.unseen.note(row, self.seen.lines - known)

    def _note_side(self, row: LineRow, side: Side, number: int, part: int) -> None:
        assert row.hunk is not None
        scene, hunk = self._sheet.scene, self._sheet.diffs[row.file].change.hunks[row.hunk]
        in_hunk = number_of(hunk, side, number)
        line = scene.line(row.file, side, number)
        if scene.fits(line) and not scene.scroll:
            self.seen.note(hunk, in_hunk)
            return
        drawn = scene.drawn(row, side, number)
        cut, text = scene.cut(drawn, part), drawn.text
        end = len(line) if cut.last == len(text.text) else text.source(cut.last)
        changed = scene.changed(row, side, number) if scene.fits(line) else drawn.changed
        self.seen.note_part(hunk, in_hunk, (text.source(cut.first), end), changed or ((0, len(line)),))


def _is_top(widget: Widget, x: int, y: int) -> bool:
    """Whether nothing lies over a cell of a widget."""
    top = next(iter(widget.screen.get_widgets_at(x, y)), None)
    return top is not None and top[0] is widget
