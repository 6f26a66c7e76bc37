"""Map of the whole diff in one column at the right edge, with the visible part lit; it is also the scrollbar."""

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.strip import Strip
from textual.widget import Widget

from widgets.diff.diff_layout import DiffLayout
from widgets.diff.diff_rows import SplitSegment, UnifiedSegment
from widgets.diff.diff_search import SearchMatch

if TYPE_CHECKING:
    from app.proposals.values.models import FileDiff
    from widgets.diff.diff_surface import DiffSurface

_ADDED, _REMOVED, _MATCH, _COMMENT, _REASON = 1, 2, 4, 8, 16
_MOST_SEGMENTS = 500
"""Segments that are looked at for one cell."""
_MOST_MATCHES = 2_000
"""Matches that are put on the map; of more, evenly chosen ones."""
_GLYPHS = {_ADDED: "▐", _REMOVED: "▌", _ADDED | _REMOVED: "█"}


def map_rows(layout: DiffLayout, height: int) -> list[int]:
    """Return the content of each of `height` cells: bits for added and removed lines and for comments."""
    total = max(layout.height, height)
    if not height:
        return []
    firsts = [-(-cell * total // height) for cell in range(height + 1)]
    cells = [_changes(layout, first, last) for first, last in pairwise(firsts)]
    for row in layout.landmarks.comments:
        cells[layout.line_of(row) * height // total] |= _COMMENT
    return cells


def reason_rows(layout: DiffLayout, diffs: Sequence["FileDiff"]) -> Iterator[int]:
    """The rows at which something begins that deserves eyes: a hunk, or a file as a whole."""
    known = layout.landmarks
    rows = dict(zip(known.hunk_keys, known.hunks, strict=True))
    for file, diff in enumerate(diffs[: len(known.files)]):
        marks = [reason for reason in diff.reasons if reason.kind.is_risk]
        numbers = {hunk.id: number for number, hunk in enumerate(diff.change.hunks)} if marks else {}
        for reason in marks:
            for place in reason.places or (None,):
                number = -1 if place is None else numbers.get(place.hunk, -1)
                yield rows.get((file, number), known.files[file])


def _changes(layout: DiffLayout, low: int, high: int) -> int:
    """Whether lines are added or removed on the terminal lines `low` to `high`; looked at only until it is both."""
    bits = 0
    for first, last, segment in islice(layout.spans_between(low, high), _MOST_SEGMENTS):
        if isinstance(segment, UnifiedSegment):
            removed = max(0, min(segment.old_count - segment.offset, segment.rows))
            middle = first + (last - first) * removed // max(1, segment.rows)
            bits |= _REMOVED if first < min(middle, high) and low < middle else 0
            bits |= _ADDED if max(middle, low) < min(last, high) else 0
        elif isinstance(segment, SplitSegment):
            bits |= _REMOVED if segment.old_count else 0
            bits |= _ADDED if segment.new_count else 0
        if bits == _ADDED | _REMOVED:
            break
    return bits


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

    def __init__(self, view: "DiffSurface") -> None:
        super().__init__()
        self.view = view
        self._cells: list[int] = []
        self._made_for: tuple[DiffLayout, int, Sequence[SearchMatch], bool] | None = None
        self._shown: Sequence[FileDiff] = ()
        self._dragging = False
        self._lit = (0, 0)
        self._styles: dict[tuple[str, ...], Style] = {}

    def follow(self) -> None:
        """Redraw if the layout or the visible part has changed."""
        if self._is_old or self._lit != self._visible:
            self.refresh()

    def notify_style_update(self) -> None:
        """Forget the old colours."""
        super().notify_style_update()
        self._styles.clear()

    @property
    def _is_old(self) -> bool:
        view = self.view
        if not view.rows.complete and self._shown is view.diffs:
            # Folds of a long change were opened or closed: the picture stays until there is a whole new one.
            return False
        made = self._made_for
        return (
            made is None
            or made[0] is not view.rows
            or made[1] != self.size.height
            or made[2] is not view.search.found
            or made[3] != view.rows.complete
        )

    @property
    def _colourless(self) -> bool:
        """Return whether the theme shows no difference behind the visible part."""
        return self.view.has_pseudo_class("ansi") or self.view.has_pseudo_class("nocolor")

    @property
    def _visible(self) -> tuple[int, int]:
        """Return the cells of the visible part, from and to; none if everything is visible."""
        view, height = self.view, self.size.height
        if view.rows.height <= view.size.height:
            return 0, 0
        total = max(view.rows.height, height, 1)
        first = view.scroll_offset.y * height // total
        return first, first + max(1, view.size.height * height // total)

    def render_line(self, y: int) -> Strip:
        """One cell of the map."""
        view = self.view
        if self._is_old:
            self._made_for = (view.rows, self.size.height, view.search.found, view.rows.complete)
            self._shown = view.diffs
            self._cells = map_rows(view.rows, self.size.height)
            self._add_reasons()
            self._add_matches(view.search.found)
        self._lit = first, last = self._visible
        bits = self._cells[y] if y < len(self._cells) else 0
        classes = ["diff--map", *(("diff--map-view",) if first <= y < last else ())]
        glyph = " "
        if not bits and first <= y < last and self._colourless:
            glyph = "┊"
        if bits & _MATCH:
            glyph, name = "◆", "diff--map-match"
            classes.append(name)
        elif bits & _REASON:
            glyph = "!"
            classes.append("diff--map-reason")
        elif bits & _COMMENT:
            glyph = "▪"
            classes.append("diff--map-comment")
        elif bits:
            glyph = _GLYPHS[bits]
            classes.append(
                "diff--map-changed" if bits == 3 else "diff--map-added" if bits == _ADDED else "diff--map-removed"
            )
        key = tuple(classes)
        if key not in self._styles:
            self._styles[key] = view.get_visual_style(*classes).rich_style
        return Strip([Segment(glyph, self._styles[key])], 1)

    def _add_reasons(self) -> None:
        """Mark reasons for attention, as far as the diff is laid out."""
        layout, height = self.view.rows, self.size.height
        total = max(layout.height, height)
        for row in reason_rows(layout, self.view.diffs):
            self._cells[layout.line_of(row) * height // total] |= _REASON

    def _add_matches(self, found: Sequence[SearchMatch]) -> None:
        layout, height = self.view.rows, self.size.height
        total = max(layout.height, height)
        for hit in found[:: max(1, len(found) // _MOST_MATCHES)]:
            row = layout.locate(hit.row)
            if row is not None:
                self._cells[layout.line_of(row) * height // total] |= _MATCH

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
        self.view.cursor.lay_out_all()
        height, total = max(1, self.size.height), self.view.rows.height
        line = max(0, min(y, height - 1)) * max(total, height) // height
        self.view.scroll_to(y=max(0, line - self.view.size.height // 2), animate=False, immediate=True)
