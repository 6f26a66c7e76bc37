"""Picking lines out of a diff: from where it began to the cursor, or by a selection with the mouse."""

from collections.abc import Callable
from dataclasses import dataclass

from textual.selection import Selection

from app.proposals.splitting import Lines
from widgets.diff.cursor import Cursor
from widgets.diff.rows import LineRow, Side
from widgets.diff.seen import changed_lines
from widgets.diff.sheet import Sheet


@dataclass(frozen=True, slots=True)
class Picked:
    """Changed lines that were picked, of one file."""

    lines: Lines
    hunks: frozenset[str]
    """Ids of the hunks that they are of."""
    whole: frozenset[str]
    """Those of them of which all lines were picked."""


class Picking:
    """Knows the lines that the next Space is about."""

    def __init__(self, sheet: Sheet, cursor: Cursor, repaint: Callable[[], None]) -> None:
        self._sheet = sheet
        self._cursor = cursor
        self._repaint = repaint
        self.start: int | None = None
        """The row from which on lines are picked, up to the cursor."""

    @property
    def lit(self) -> range:
        """The rows that are picked, from the start to the cursor."""
        rows = self._sheet.rows
        if self.start is None or not rows.rows:
            return range(0)
        first, last = sorted((rows.nearest(self.start), self._cursor.number))
        return range(first, last + 1)

    def set_start(self, row: int | None) -> None:
        """Begin to pick at a row, or stop it."""
        if row != self.start and self._sheet.diffs:
            self.start = row
            self._repaint()

    def toggle(self) -> None:
        """Begin to pick at the cursor, or stop it."""
        self.set_start(None if self.start is not None else self._cursor.number)

    def extend(self, step: int) -> None:
        """Pick the next line, too, or the one before (-1)."""
        if self.start is None:
            self.set_start(self._cursor.number)
        self._cursor.move_to(self._cursor.number + step)

    def picked(self, selection: Selection | None) -> Picked | None:
        """The changed lines, of one file, that are picked by key, or else lie in a selection."""
        sheet = self._sheet
        rows = self.lit or self._rows_in(selection)
        file = self._cursor.file if self.lit else sheet.rows.row(rows[0]).file if rows else -1
        if sheet.versions or file < 0:
            return None
        change = sheet.diffs[file].change
        lines: dict[Side, set[int]] = {"old": set(), "new": set()}
        touched: dict[int, int] = {}
        for row in map(sheet.rows.row, rows):
            if isinstance(row, LineRow) and row.file == file and row.hunk is not None:
                touched[row.hunk] = touched.get(row.hunk, 0) + len(row.lines)
                for side, line in row.lines:
                    lines[side].add(line)
        if not touched:
            return None
        hunks = [(change.hunks[number], count) for number, count in touched.items()]
        return Picked(
            Lines(change.path, frozenset(lines["old"]), frozenset(lines["new"])),
            frozenset(hunk.id for hunk, _ in hunks),
            frozenset(hunk.id for hunk, count in hunks if count == changed_lines(hunk)),
        )

    def _rows_in(self, selection: Selection | None) -> range:
        """The rows that a selection with the mouse lies on."""
        rows = self._sheet.rows
        if selection is None or selection.start is None or selection.end is None or not rows.rows:
            return range(0)
        first, last = sorted((selection.start.y, selection.end.y))
        last = min(last, rows.height - 1)
        return range(rows.at(first).number, rows.at(last).number + 1) if 0 <= first <= last else range(0)
