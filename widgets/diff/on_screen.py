"""What of a diff was on screen: the lines of each frame that nothing lay over, noted as seen."""

from textual.widget import Widget

from widgets.diff.rows import FileRow, LineRow, Side, number_of
from widgets.diff.seen import Seen
from widgets.diff.sheet import Sheet
from widgets.diff.unseen import UnseenLines

_PROBES = 3
"""Cells of a line, evenly spread, that have to be the widget's own for the line to count as visible."""


class OnScreen:
    """Watches what a widget draws of a sheet."""

    def __init__(self, sheet: Sheet, widget: Widget) -> None:
        self._sheet = sheet
        self._widget = widget
        self._painted = bytearray()
        """The terminal lines of the layout that were on the terminal, at one position of the view to the side."""
        self._painted_at = 0
        """How far that was scrolled to the side."""
        self.seen = Seen()
        """Of what is shown, as far as it waits for a decision."""
        self.unseen = UnseenLines(sheet.scene, self.seen)

    def begin(self, seen: Seen | None = None) -> None:
        """Another change is shown, or the same as it is now; `seen` is what of it was on screen before."""
        self.seen = Seen() if seen is None else seen
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
        """Take in a frame whose first line is `top`, of which these lines were drawn; whether any was unseen."""
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
        """Those lines that are visible for the first time.

        Textual draws a widget whole although another lies over a part of it (a toast, a scrollbar), although only a
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
        """Take in what stands on a terminal line."""
        _, row, part = self._sheet.rows.at(line)
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
