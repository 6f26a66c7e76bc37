"""Containers that show only their background: all their rows are one strip.

Textual would keep two strips, with seven caches each, for every row of every container, one behind the other: on an
empty screen that was 4 MB, and a tenth of the first picture.
"""

from textual.containers import Horizontal, Vertical
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget


def background_strips(widget: Widget, crop: Region) -> list[Strip]:
    """Return the rows of a widget without text, border and padding."""
    return filter_strips(widget, [Strip.blank(crop.width, widget.visual_style.rich_style)]) * crop.height


def filter_strips(widget: Widget, strips: list[Strip]) -> list[Strip]:
    """Return the strips after the app's line filters."""
    _, background = widget.background_colors
    for line_filter in widget.get_line_filters():
        strips = [strip.apply_filter(line_filter, background) for strip in strips]
    return strips


class Column(Vertical):
    """Widgets stacked vertically."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return background rows, unless there is a border or padding."""
        return super().render_lines(crop) if self.styles.gutter else background_strips(self, crop)


class Row(Horizontal):
    """Widgets side by side."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return background rows, unless there is a border or padding."""
        return super().render_lines(crop) if self.styles.gutter else background_strips(self, crop)
