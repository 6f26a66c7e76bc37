"""A scroll view that caches rows: a painted row is the same strip wherever it is scrolled to.

Textual would make a new strip of every row of every picture. The same strip keeps what was made of it: what the
filters left of it, its pieces between other widgets, and the bytes for the terminal. And for a view that grows it
would lay out the whole screen, as the scroll bar may have to come or go, and paint that bar twice.
"""

from typing import Self

from rich.segment import Segment
from textual.geometry import Offset, Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip
from textual.widget import Widget

from widgets.common.containers import filter_strips


class StripView(ScrollView):
    """A scroll view without border and padding, whose `render_line` returns the same strip for the same row.

    Its styles show the vertical scroll bar always, and never the other.
    """

    DEFAULT_CSS = """
    StripView {
        overflow-x: hidden;
        overflow-y: scroll;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._painted_rows: tuple[tuple[Size, Offset], list[Strip]] | None = None
        """The rows as of the last picture, or of the next where that is asked for already, and where they are; None
        once all are to be painted."""
        self._asked = False
        """Some rows are to be painted, and were not yet."""
        self._bar: list[Segment] = []
        """What the scroll bar looks like."""
        self._bar_moves = False
        """Its place has changed since."""

    def set_height(self, rows: int) -> None:
        """Set the number of rows, without layout or drawing before a `refresh`."""
        self.set_reactive(Widget.virtual_size, Size(self.size.width, rows))
        self._bar_moves = True

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Draw the newly visible rows."""
        self._bar_moves = True
        if round(old_value) != round(new_value):
            self.refresh(self.size.region)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Drop the cached picture and refresh."""
        self._painted_rows = None
        self._move_bar()
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def refresh_changed(self) -> None:
        """Draw only the rows that look different.

        Which they are is looked at once for a picture: where more changes before it, all are drawn.
        """
        before = self._painted_rows
        if before is None or before[0] != self._place or self._asked:
            self.refresh()
            return
        self._painted_rows = None
        self._move_bar()
        width = self.size.width
        rows = zip(before[1], self.render_lines(self.size.region), strict=True)
        if changed := [Region(0, y, width, 1) for y, (old, new) in enumerate(rows) if old is not new and old != new]:
            self._asked = True
            super().refresh(*changed)

    @property
    def _place(self) -> tuple[Size, Offset]:
        return self.size, self.scroll_offset

    def _move_bar(self) -> None:
        """Redraw the scroll bar if it looks different: in a long text one row more or less doesn't show."""
        if not self._bar_moves:
            return
        self._bar_moves = False
        bar, rows, height = self.vertical_scrollbar, self.virtual_size.height, self.size.height
        bar.set_reactive(ScrollBar.window_virtual_size, rows)
        bar.set_reactive(ScrollBar.position, self.scroll_y)
        looks = bar.renderer.render_bar(height, rows, height if height < rows else 0, self.scroll_y).segments
        if looks != self._bar:
            self._bar = list(looks)
            bar.refresh()

    def notify_style_update(self) -> None:
        """Drop the cached picture after a change of colours."""
        super().notify_style_update()
        self._painted_rows = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the rows of a region, from the cache where nothing changed."""
        if crop != self.size.region:
            # A row that the mouse is over: not all that is painted.
            return self._rows(crop)
        self._asked = False
        if self._painted_rows is None or self._painted_rows[0] != self._place:
            self._painted_rows = self._place, self._rows(crop)
        return self._painted_rows[1]

    def _rows(self, crop: Region) -> list[Strip]:
        return filter_strips(self, [self.render_line(y).crop(*crop.column_span) for y in crop.line_range])
