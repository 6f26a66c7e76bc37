"""A scroll view that keeps its rows: one that was painted before is the same strip, wherever it has moved to.

Textual would make a new strip of every row of every picture. The same strip keeps what was made of it: what the
filters left of it, its pieces between other widgets, and the bytes for the terminal.
"""

from typing import Self

from textual.geometry import Offset, Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from widgets.common.containers import filtered


class StripView(ScrollView):
    """A scroll view without border and padding, whose `render_line` returns the same strip for the same row."""

    def __init__(self) -> None:
        """Nothing was painted yet."""
        super().__init__()
        self._painted_rows: tuple[tuple[Region, Size, Offset], list[Strip]] | None = None
        """The rows as of the last picture, and where they were; None once something has changed."""

    def refresh(self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False) -> Self:
        """Something has changed."""
        self._painted_rows = None
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def notify_style_update(self) -> None:
        """Colours have changed, or what the terminal takes."""
        super().notify_style_update()
        self._painted_rows = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """The rows of a region; those of the last picture, where only a neighbour is painted anew."""
        place = (crop, self.size, self.scroll_offset)
        if self._painted_rows is None or self._painted_rows[0] != place:
            strips = filtered(self, [self.render_line(y).crop(*crop.column_span) for y in crop.line_range])
            self._painted_rows = place, strips
        return self._painted_rows[1]
