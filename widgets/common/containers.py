"""Containers and a scroll view that cache few strips.

Textual keeps two strips, with seven caches each, for every row of every container. On an empty screen, these took 4
MB and a tenth of the first frame's time. Here, all rows of a container are one strip. `CachedStripView` returns the
same strip for the same row at every scroll position. The caches of the strip stay valid: the result of the filters,
its pieces between other widgets, and the bytes for the terminal.
"""

from typing import Self

from rich.segment import Segment
from textual.containers import Horizontal, Vertical
from textual.geometry import Offset, Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBar
from textual.strip import Strip
from textual.widget import Widget


def background_strips(widget: Widget, crop: Region) -> list[Strip]:
    """Return the rows of a widget without text, border and padding."""
    return apply_line_filters(widget, [Strip.blank(crop.width, widget.visual_style.rich_style)]) * crop.height


def apply_line_filters(widget: Widget, strips: list[Strip]) -> list[Strip]:
    """Return the strips with the app's line filters applied."""
    _, background = widget.background_colors
    for line_filter in widget.get_line_filters():
        strips = [strip.apply_filter(line_filter, background) for strip in strips]
    return strips


class Column(Vertical):
    """A container that stacks widgets vertically; its background is one cached strip."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return background rows, unless there is a border or padding."""
        return super().render_lines(crop) if self.styles.gutter else background_strips(self, crop)


class Row(Horizontal):
    """A container that places widgets side by side; its background is one cached strip."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return background rows, unless there is a border or padding."""
        return super().render_lines(crop) if self.styles.gutter else background_strips(self, crop)


class CachedStripView(ScrollView):
    """A scroll view without border and padding, whose `render_line` returns the same strip for the same row.

    The vertical scroll bar is always shown, the horizontal one never. Otherwise, a growing view would make Textual
    lay out the whole screen, because the scroll bar may appear or disappear, and paint that bar twice.
    """

    DEFAULT_CSS = "CachedStripView { overflow-x: hidden; overflow-y: scroll; }"

    def __init__(self) -> None:
        super().__init__()
        self._painted_rows: tuple[tuple[Size, Offset], list[Strip]] | None = None
        """Place and rows of the last frame, or of the next one if it is requested; None to paint all rows."""
        self._is_refresh_requested = False
        """Whether a refresh of some rows is requested but not painted yet."""
        self._bar_segments: list[Segment] = []
        """The segments of the scroll bar in the last frame."""
        self._has_bar_changed = False
        """Whether the scroll position or height has changed since the last frame."""

    def set_height(self, rows: int) -> None:
        """Set the number of rows; layout and drawing wait for the next `refresh`."""
        self.set_reactive(Widget.virtual_size, Size(self.size.width, rows))
        self._has_bar_changed = True

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Draw the newly visible rows."""
        self._has_bar_changed = True
        if round(old_value) != round(new_value):
            self.refresh(self.size.region)

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Drop the cached frame and refresh."""
        self._painted_rows = None
        self._update_scroll_bar()
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def refresh_changed(self) -> None:
        """Draw only the rows that look different.

        The rows are compared only once per frame; if more changes before the frame, all rows are drawn.
        """
        before = self._painted_rows
        if before is None or before[0] != self._size_and_offset or self._is_refresh_requested:
            self.refresh()
            return
        self._painted_rows = None
        self._update_scroll_bar()
        width = self.size.width
        rows = zip(before[1], self.render_lines(self.size.region), strict=True)
        if changed := [Region(0, y, width, 1) for y, (old, new) in enumerate(rows) if old is not new and old != new]:
            self._is_refresh_requested = True
            super().refresh(*changed)

    @property
    def _size_and_offset(self) -> tuple[Size, Offset]:
        return self.size, self.scroll_offset

    def _update_scroll_bar(self) -> None:
        """Redraw the scroll bar if it looks different; in a long text, one row more or less changes nothing."""
        if not self._has_bar_changed:
            return
        self._has_bar_changed = False
        bar, rows, height = self.vertical_scrollbar, self.virtual_size.height, self.size.height
        bar.set_reactive(ScrollBar.window_virtual_size, rows)
        bar.set_reactive(ScrollBar.position, self.scroll_y)
        segments = bar.renderer.render_bar(height, rows, height if height < rows else 0, self.scroll_y).segments
        if segments != self._bar_segments:
            self._bar_segments = list(segments)
            bar.refresh()

    def notify_style_update(self) -> None:
        """Drop the cached frame after a change of colours."""
        super().notify_style_update()
        self._painted_rows = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return the rows of a region, from the cache if nothing has changed."""
        if crop != self.size.region:
            # The region is the row under the mouse, not the whole view.
            return self._render_rows(crop)
        self._is_refresh_requested = False
        if self._painted_rows is None or self._painted_rows[0] != self._size_and_offset:
            self._painted_rows = self._size_and_offset, self._render_rows(crop)
        return self._painted_rows[1]

    def _render_rows(self, crop: Region) -> list[Strip]:
        return apply_line_filters(self, [self.render_line(y).crop(*crop.column_span) for y in crop.line_range])
