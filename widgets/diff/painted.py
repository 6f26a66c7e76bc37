"""What a reader could see of a frame: the lines that nothing lay over, noted as seen."""

from textual.widget import Widget

from widgets.diff.layout import Layout
from widgets.diff.rows import FileRow, LineRow, Side
from widgets.diff.scene import Scene
from widgets.diff.seen import Seen

_PROBES = 3
"""Cells of a line, evenly spread, that have to be the widget's own for the line to count as visible."""


class Painted:
    """The terminal lines of one layout that were on the terminal."""

    def __init__(self) -> None:
        self._lines = bytearray()

    def add(self, widget: Widget, first: int, last: int, top: int) -> list[int]:
        """Of the lines `first` to `last` of a frame whose first is `top`, those that are visible for the first time.

        Textual draws a widget whole although another lies over a part of it (a toast, a scrollbar), although only a
        strip of it is on the screen, and dimmed behind a dialog.
        """
        lines = self._lines
        if len(lines) < last:
            lines.extend(bytes(last - len(lines)))
        new = [line for line in range(first, last) if not lines[line]]
        if not new or not widget.is_attached or widget.app.screen is not widget.screen:
            return []
        screen, region = widget.screen, widget.region
        if not region.width or region.x < 0 or region.right > screen.size.width:
            return []
        cells = sorted({region.x + (region.width - 1) * probe // (_PROBES - 1) for probe in range(_PROBES)})
        visible = []
        for line in new:
            y = region.y + line - top
            if 0 <= y < screen.size.height and all(_is_top(widget, x, y) for x in cells):
                lines[line] = 1
                visible.append(line)
        return visible


def _is_top(widget: Widget, x: int, y: int) -> bool:
    """Whether nothing lies over a cell of a widget."""
    top = next(iter(widget.screen.get_widgets_at(x, y)), None)
    return top is not None and top[0] is widget


def note_line(seen: Seen, layout: Layout, scene: Scene, line: int) -> LineRow | None:
    """Take in what stands on a terminal line; tells which row of a hunk it was."""
    if line >= layout.height:
        return None
    _, row, part = layout.at(line)
    if isinstance(row, FileRow):
        change = scene.diffs[row.file].change
        if not change.hunks:
            seen.note_file(change.path)
    if not isinstance(row, LineRow) or row.hunk is None:
        return None
    hunk = scene.diffs[row.file].change.hunks[row.hunk]
    if row.old is not None:
        _note_side(seen, scene, row, "old", row.old, row.old - hunk.old_start, part)
    if row.new is not None:
        _note_side(seen, scene, row, "new", row.new, hunk.old_count + row.new - hunk.new_start, part)
    return row


def _note_side(seen: Seen, scene: Scene, row: LineRow, side: Side, number: int, place: int, part: int) -> None:
    """`place` is the number of the line in its hunk."""
    assert row.hunk is not None
    hunk = scene.diffs[row.file].change.hunks[row.hunk]
    if seen.is_seen(hunk, place):
        return
    line = scene.line(row.file, side, number)
    if scene.fits(line) and not scene.scroll:
        seen.note(hunk, place)
        return
    shown = scene.shown(row, side, number)
    cut, text = scene.cut(shown, part), shown.text
    end = len(line) if cut.last == len(text.text) else text.source(cut.last)
    changed = scene.changed(row, side, number) if scene.fits(line) else shown.changed
    seen.note_part(hunk, place, (text.source(cut.first), end), changed or ((0, len(line)),))
