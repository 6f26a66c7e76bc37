"""One column at the right edge: the whole diff in small, with the visible part lit. It is the scrollbar, too."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from widgets.diff.places import Found, locate
from widgets.diff.rows import CommentRow, Layout, Single, Split, Unified

if TYPE_CHECKING:
    from widgets.diff.view import DiffView

_ADDED, _REMOVED, _MATCH, _COMMENT = 1, 2, 4, 8
_MATCH_WORK = 100_000
"""Matches times segments beyond which matches are left out of the map."""
_GLYPHS = {_ADDED: "▐", _REMOVED: "▌", _ADDED | _REMOVED: "█"}


def map_rows(layout: Layout, height: int) -> list[int]:
    """What each of `height` cells stands for: bits for added and removed lines and for comments."""
    cells = [0] * height
    total = max(layout.height, height)
    if not height or not layout.height:
        return cells
    for first, last, segment in layout.spans():
        bits = 0
        if isinstance(segment, Single):
            bits = _COMMENT if isinstance(segment.content, CommentRow) else 0
            _fill(cells, first, last, total, bits)
        elif isinstance(segment, Unified):
            removed = max(0, min(segment.old_count - segment.offset, segment.rows))
            middle = first + (last - first) * removed // max(1, segment.rows)
            _fill(cells, first, middle, total, _REMOVED)
            _fill(cells, middle, last, total, _ADDED)
        elif isinstance(segment, Split):
            bits |= _REMOVED if segment.old_count else 0
            bits |= _ADDED if segment.new_count else 0
            _fill(cells, first, last, total, bits)
    return cells


def _fill(cells: list[int], first: int, last: int, total: int, bits: int) -> None:
    if last <= first or not bits:
        return
    height = len(cells)
    for cell in range(first * height // total, min(height - 1, (last - 1) * height // total) + 1):
        cells[cell] |= bits


class MiniMap(Widget):
    """Shows where the changes are; a click or a drag goes there."""

    DEFAULT_CSS = """
    MiniMap {
        width: 1;
        height: 1fr;
        background: $background;
        pointer: default;
    }
    """
    ALLOW_SELECT: ClassVar[bool] = False

    def __init__(self, view: "DiffView") -> None:
        super().__init__()
        self.view = view
        self._cells: list[int] = []
        self._made_for: tuple[Layout, int, Sequence[Found]] | None = None
        self._dragging = False

    def render_line(self, y: int) -> Strip:
        """One cell of the map."""
        view = self.view
        height = self.size.height
        layout = view.rows
        made = self._made_for
        if made is None or made[0] is not layout or made[1] != height or made[2] is not view.found:
            self._made_for = (layout, height, view.found)
            self._cells = map_rows(layout, height)
            self._add_matches(view.found)
        bits = self._cells[y] if y < len(self._cells) else 0
        total = max(1, layout.height)
        first = view.scroll_offset.y * height // max(total, height)
        last = first + max(1, view.size.height * height // max(total, height))
        classes = ["diff--map", *(("diff--map-view",) if first <= y < last and total > height else ())]
        glyph = " "
        if bits & _MATCH:
            glyph, name = "◆", "diff--map-match"
            classes.append(name)
        elif bits & _COMMENT:
            glyph = "▪"
            classes.append("diff--map-comment")
        elif bits:
            glyph = _GLYPHS[bits]
            classes.append(
                "diff--map-changed" if bits == 3 else "diff--map-added" if bits == _ADDED else "diff--map-removed"
            )
        return Strip([Segment(glyph, view.get_visual_style(*classes).rich_style)], 1)

    def _add_matches(self, found: Sequence[Found]) -> None:
        layout, height = self.view.rows, self.size.height
        total = max(layout.height, height)
        if len(found) * len(layout.segments) > _MATCH_WORK:
            return
        for hit in found:
            row = locate(layout, hit.row)
            if row is not None:
                _fill(self._cells, layout.line_of(row), layout.line_of(row) + 1, total, _MATCH)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Go there."""
        self._dragging = True
        self.capture_mouse()
        self._go(event.y)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Follow the drag."""
        if self._dragging:
            self._go(event.y)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """End the drag."""
        self._dragging = False
        self.release_mouse()

    def _go(self, y: int) -> None:
        height, total = max(1, self.size.height), self.view.rows.height
        line = max(0, min(y, height - 1)) * max(total, height) // height
        self.view.scroll_to(y=max(0, line - self.view.size.height // 2), animate=False, immediate=True)
