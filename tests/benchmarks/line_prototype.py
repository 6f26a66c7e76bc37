"""A minimal diff view, as the baseline for the real one.

It has only the necessary parts: rows computed from hunks, a cursor that moves by lines and hunks, text without
control characters, one style for a line, and cached strips. It has no syntax highlighting, word differences, folds,
wrapping, search, selection or comments.
"""

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from app.proposals.values.models import FileDiff

_CONTEXT = 3
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


class LinePrototype(ScrollView, can_focus=True):
    """Hunks with three lines of context, drawn line by line."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down,j", "move(1)"),
        Binding("up,k", "move(-1)"),
        Binding("right_square_bracket", "next_hunk"),
        Binding("ctrl+d", "move(38)"),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"line--plain", "line--added", "line--removed", "line--cursor"}
    DEFAULT_CSS = """
    LinePrototype {
        .line--added { background: $success 20%; }
        .line--removed { background: $error 20%; }
        .line--cursor { background: $foreground 15%; }
    }
    """

    def __init__(self, diffs: Sequence[FileDiff]) -> None:
        super().__init__()
        self.diffs = diffs
        self.cursor = 0
        self._hunks = [(file, hunk) for file, diff in enumerate(diffs) for hunk in diff.change.hunks]
        self._starts = list(
            accumulate((hunk.old_count + hunk.new_count + 2 * _CONTEXT for _, hunk in self._hunks), initial=0)
        )
        self._strips: LRUCache[tuple[int, int, int, bool], Strip] = LRUCache(1024)
        self._styles: dict[str, Style] = {}

    def on_mount(self) -> None:
        self.virtual_size = Size(self.size.width, self._starts[-1])

    def action_move(self, rows: int) -> None:
        self._move_to(self.cursor + rows)

    def action_next_hunk(self) -> None:
        self._move_to(self._starts[min(bisect_right(self._starts, self.cursor), len(self._hunks) - 1)])

    def _move_to(self, row: int) -> None:
        before, self.cursor = self.cursor, max(0, min(row, self._starts[-1] - 1))
        top, height = self.scroll_offset.y, self.size.height
        if self.cursor < top:
            self.scroll_to(y=self.cursor, animate=False, immediate=True)
        elif self.cursor >= top + height:
            self.scroll_to(y=self.cursor - height + 1, animate=False, immediate=True)
        self.refresh_line(before)
        self.refresh_line(self.cursor)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._styles.clear()
        self._strips.clear()

    def render_line(self, y: int) -> Strip:
        row, width, scroll = y + self.scroll_offset.y, self.size.width, self.scroll_offset.x
        key = (row, scroll, width, row == self.cursor)
        strip = self._strips.get(key)
        if strip is None:
            strip = self._strips[key] = self._draw(row, width, scroll)
        return strip

    def _draw(self, row: int, width: int, scroll: int) -> Strip:
        if row >= self._starts[-1]:
            return Strip.blank(width, self._style("line--plain"))
        number, sign, text = self._line(row)
        kind = {"+": "line--added", "-": "line--removed"}.get(sign, "line--plain")
        style = self._style("line--cursor" if row == self.cursor else kind)
        safe = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text[scroll : scroll + width])
        segments = [Segment(f"{number:>7} {sign} ", style), Segment(safe, style)]
        return Strip(segments).adjust_cell_length(width, style)

    def _line(self, row: int) -> tuple[int, str, str]:
        index = bisect_right(self._starts, row) - 1
        file, hunk = self._hunks[index]
        old, new = self.diffs[file].old, self.diffs[file].new
        inner = row - self._starts[index] - _CONTEXT
        if 0 <= inner < hunk.old_count:
            return hunk.old_start + inner + 1, "-", old[hunk.old_start + inner]
        inner -= max(0, hunk.old_count if inner >= 0 else 0)
        line = hunk.new_start + inner
        sign = "+" if 0 <= inner < hunk.new_count else " "
        return line + 1, sign, new[line] if 0 <= line < len(new) else ""

    def _style(self, name: str) -> Style:
        if name not in self._styles:
            self._styles[name] = self.get_visual_style(name).rich_style
        return self._styles[name]
