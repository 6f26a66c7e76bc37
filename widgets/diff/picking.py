"""Picking lines out of a diff: from a mark to the cursor, or by a selection with the mouse."""

from dataclasses import dataclass

from textual import events

from app.proposals.splitting import Lines
from widgets.diff.rows import LineRow, Row
from widgets.diff.seen import changed_lines
from widgets.diff.unseen import UnseenPlaces


@dataclass(frozen=True, slots=True)
class Picked:
    """Changed lines that were picked, of one file."""

    lines: Lines
    hunks: frozenset[str]
    """Ids of the hunks that they are of."""
    whole: frozenset[str]
    """Those of them of which all lines were picked."""


class LinePicking(UnseenPlaces):
    """Marks the lines that the next Space is about."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.mark: int | None = None
        """The row from which on lines are picked, up to the cursor."""

    @property
    def lit(self) -> range:
        """The rows that are picked, from the mark to the cursor."""
        if self.mark is None or not self.rows.rows:
            return range(0)
        first, last = sorted((self.clamped(self.mark), self.cursor))
        return range(first, last + 1)

    def picked(self) -> Picked | None:
        """The changed lines that are marked or selected with the mouse, of the file at the cursor."""
        rows = self.lit or self._selected_rows()
        file = self.file_at_cursor if self.lit else self.rows.row(rows[0]).file if rows else -1
        if not rows or self.versions or not 0 <= file < len(self.diffs):
            return None
        hunks = self.diffs[file].change.hunks
        old: set[int] = set()
        new: set[int] = set()
        touched: dict[int, int] = {}
        for number in rows:
            row = self.rows.row(number)
            if isinstance(row, LineRow) and row.file == file and row.hunk is not None:
                lines = [(side, line) for side, line in ((old, row.old), (new, row.new)) if line is not None]
                touched[row.hunk] = touched.get(row.hunk, 0) + len(lines)
                for side, line in lines:
                    side.add(line)
        if not touched:
            return None
        return Picked(
            Lines(self.diffs[file].change.path, frozenset(old), frozenset(new)),
            frozenset(hunks[number].id for number in touched),
            frozenset(hunks[number].id for number, count in touched.items() if count == changed_lines(hunks[number])),
        )

    def _selected_rows(self) -> range:
        """The rows that a selection with the mouse lies on."""
        selection = self.text_selection
        if selection is None or selection.start is None or selection.end is None or not self.rows.rows:
            return range(0)
        first, last = sorted((selection.start.y, selection.end.y))
        last = min(last, self.rows.height - 1)
        return range(self.rows.at(first).number, self.rows.at(last).number + 1) if 0 <= first <= last else range(0)

    def action_pick_lines(self) -> None:
        """Begin to pick lines at the cursor, or stop it."""
        self._set_mark(None if self.mark is not None else self.cursor)

    def action_pick_down(self) -> None:
        """Pick the next line, too."""
        self._pick(1)

    def action_pick_up(self) -> None:
        """Pick the line before, too."""
        self._pick(-1)

    def _pick(self, step: int) -> None:
        if self.mark is None:
            self._set_mark(self.cursor)
        self.move_to(self.cursor + step)
        self.redraw()

    def end_picking(self) -> None:
        """Pick nothing any more."""
        self._set_mark(None)
        if self.text_selection is not None:
            self.screen.clear_selection()

    def _set_mark(self, row: int | None) -> None:
        if row != self.mark and self.diffs:
            self.mark = row
            self.repaint()

    def put_cursor(self, row: int) -> None:
        """Draw what is picked between the mark and the cursor."""
        super().put_cursor(row)
        if self.mark is not None:
            self.redraw()

    def forget_place(self) -> None:
        """Pick nothing in another change."""
        super().forget_place()
        self.mark = None

    def _rebuild(self, row: Row | None, offset: int) -> None:
        self.mark = None
        super()._rebuild(row, offset)

    def on_key(self, event: events.Key) -> None:
        """Escape leaves the picking."""
        if event.key == "escape" and self.mark is not None:
            event.stop()
            event.prevent_default()
            self.end_picking()
