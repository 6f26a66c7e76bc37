"""Paints rows of the transcript as strips of styled cells."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.cache import FIFOCache
from textual.content import Content
from textual.strip import Strip

from widgets.chat.markdown.styled_lines import TEXT_STYLE, Span, StyledLine, TextStyle, cell_width
from widgets.chat.transcript_layout import EntrySlot, TranscriptLayout

if TYPE_CHECKING:
    from textual.widget import Widget


_CSS_BY_ROLE: dict[str, str] = {
    "text": "color: $foreground;",
    "muted": "color: $text-muted;",
    "user": "color: $foreground;",
    "user-mark": "color: $accent;",
    "answer-mark": "color: $primary;",
    "heading": "color: $text-primary;",
    "subheading": "color: $foreground;",
    "quote": "color: $text-muted;",
    "quote-text": "color: $text-muted;",
    "list-mark": "color: $text-primary;",
    "rule": "color: $text-disabled;",
    "table-rule": "color: $text-disabled;",
    "table-head": "color: $text-primary;",
    "link": "color: $text-primary; text-style: underline;",
    "tool": "color: $text-muted;",
    "tool-name": "color: $foreground;",
    "success": "color: $text-success;",
    "warning": "color: $text-warning;",
    "error": "color: $text-error;",
    "program": "color: $text-muted; text-style: italic;",
    "program-mark": "color: $secondary;",
    "card": "background: $surface;",
    "card-id": "color: $text-accent; text-style: bold;",
    "key": "color: $text-accent; text-style: bold;",
    "added": "color: $text-success;",
    "removed": "color: $text-error;",
    "code": "color: $foreground; background: $surface;",
    "code-inline": "color: $text-secondary;",
    "code-comment": "color: $foreground 62%;",
    "code-keyword": "color: $text-accent;",
    "code-string": "color: $text-success;",
    "code-number": "color: $text-warning;",
    "code-function": "color: $text-primary;",
    "code-type": "color: $text-secondary;",
    "cursor": "background: $foreground 8%;",
}
"""CSS of each role; the component class of a role is `chat--ROLE`."""

COMPONENT_CLASSES: set[str] = {f"chat--{role}" for role in _CSS_BY_ROLE}

_QUIET_ROLES = ("muted", "quote", "quote-text", "rule", "table-rule", "tool", "program", "code-comment")


_TRANSCRIPT_CSS = """{
    height: 1fr;
    scrollbar-size-vertical: 1;
    scrollbar-background: $background;
    scrollbar-background-hover: $background;
    scrollbar-background-active: $background;
    scrollbar-color: $foreground 15%;
    scrollbar-color-hover: $foreground 30%;
    scrollbar-color-active: $foreground 40%;
    background: $background;
}
"""


def transcript_css(selector: str) -> str:
    """Return the default CSS of the transcript for `selector`, with the CSS of all roles."""
    return f"{selector} {_TRANSCRIPT_CSS}{_component_css(selector)}"


def _component_css(selector: str) -> str:
    rules = [f"& > .chat--{role} {{ {rule} }}" for role, rule in _CSS_BY_ROLE.items()]
    # The colours of an ANSI theme cannot be mixed, so quiet text is dim.
    rules += [
        f"&:ansi > .chat--{role} {{ text-style: dim{' italic' * (role == 'program')}; }}" for role in _QUIET_ROLES
    ]
    return f"{selector} {{\n" + "\n".join(rules) + "\n}\n"


_MAX_CACHED_STYLES = 256
"""Each link address has a separate style."""


class TranscriptStyles:
    """The styles of one widget under one theme; make a new object when the styles change."""

    def __init__(self, widget: "Widget") -> None:
        self._widget = widget
        self._styles: FIFOCache[tuple[TextStyle, str, bool], Style] = FIFOCache(_MAX_CACHED_STYLES)
        self._component_styles: dict[str, Style] = {}
        self.base = widget.rich_style
        """The style of the widget, with its background."""

    def resolve_style(self, text_style: TextStyle, fill: str = "", cursor: bool = False) -> Style:
        """Return the style of a face on the background of the role `fill`."""
        key = (text_style, fill, cursor)
        style = self._styles.get(key)
        if style is None:
            style = self._styles[key] = self._resolve_style(text_style, fill, cursor)
        return style

    def _resolve_style(self, text_style: TextStyle, fill: str, cursor: bool) -> Style:
        style = self.base
        if fill:
            style += Style(bgcolor=self._component_style(fill).bgcolor)
        if cursor:
            style += Style(bgcolor=self._component_style("cursor").bgcolor)
        component = self._component_style(text_style.role)
        style += Style(
            color=component.color,
            bold=text_style.bold or component.bold or None,
            italic=text_style.italic or component.italic or None,
            underline=component.underline or None,
            strike=text_style.strike or None,
            dim=component.dim or None,
        )
        if text_style.href:
            style += Style.from_meta({"href": text_style.href})
        return style

    def _component_style(self, role: str) -> Style:
        style = self._component_styles.get(role)
        if style is None:
            style = self._component_styles[role] = self._widget.get_component_rich_style(f"chat--{role}")
        return style


_GREETING_MARGIN_CELLS, _MIN_GREETING_CELLS = 2, 20
"""Blank cells at each side of the greeting, and its minimum width."""
_KEY_COLUMN_PATTERN = re.compile(r"\S+ {2,}(?=\S)")
_MAX_CACHED_STRIPS = 256
"""A few screens of rows."""
RIGHT_MARGIN = 1
"""Cells between the rows and the scroll bar."""


class TranscriptPainter:
    """Paints the rows of one widget under its theme."""

    def __init__(self, widget: "Widget") -> None:
        self._widget = widget
        self._styles = TranscriptStyles(widget)
        self.missing_lexers: set[str] = set()
        """Languages of code that is painted plain because their lexers are not loaded."""
        # Entries of an LRUCache form reference cycles: the strips of a replaced painter would stay in memory.
        self._strips: FIFOCache[tuple[int, Span, int, bool], tuple[StyledLine, Strip]] = FIFOCache(_MAX_CACHED_STRIPS)

    def paint_row(
        self,
        layout: TranscriptLayout,
        row: int,
        width: int,
        cursor: int | None,
        selected: tuple[tuple[int, int], Style] | None,
    ) -> Strip:
        """Return a row of the transcript.

        Args:
            row: Row number from the top of the layout.
            width: In cells.
            cursor: Index of the highlighted entry; None if there is none.
            selected: First and last character of the selection (-1 for the end), and its style.
        """
        index, offset = layout.slot_at_row(row)
        slot = layout.slots.items[index]
        if not 0 <= offset < slot.height:
            return self._blank_strip(width)
        is_under_cursor = index == cursor
        if selected is None:
            return self._cached_row(slot, offset, width, is_under_cursor)
        segments = _style_selection(self._row_segments(slot, offset, is_under_cursor), *selected[0], selected[1])
        return self._row_strip(segments, slot, offset, width, is_under_cursor)

    def _blank_strip(self, width: int) -> Strip:
        return Strip.blank(width, self._styles.base)

    def _cached_row(self, slot: EntrySlot, offset: int, width: int, cursor: bool) -> Strip:
        """Return a row, cached while its line is the same object, like the finished rows of a growing answer."""
        line = slot.line(offset)
        key = (id(line), slot.marks.mark_at(offset, slot.height), width, cursor)
        cached = self._strips.get(key)
        if cached is not None and cached[0] is line:
            return cached[1]
        strip = self._row_strip(self._row_segments(slot, offset, cursor), slot, offset, width, cursor)
        self._strips[key] = (line, strip)
        return strip

    def paint_greeting(self, lines: Sequence[Content], row: int, width: int, height: int) -> Strip:
        """Return a row of the greeting, a block of lines in the middle; lines are wrapped if needed.

        If they don't fit the height, the empty ones are left out.
        """
        max_cells = max(_MIN_GREETING_CELLS, width - 2 * _GREETING_MARGIN_CELLS)
        lines = [piece for line in lines for piece in _wrap_line(line, max_cells)]
        if len(lines) > height:
            lines = [line for line in lines if line.plain]
        top = max(0, (height - len(lines)) // 2)
        if not 0 <= row - top < len(lines):
            return self._blank_strip(width)
        left = max(_GREETING_MARGIN_CELLS, (width - max(line.cell_length for line in lines)) // 2)
        line = Content(" " * left) + lines[row - top]
        segments = line.render_segments(self._widget.visual_style)
        return Strip(segments).adjust_cell_length(width, self._styles.base)

    def _row_segments(self, slot: EntrySlot, offset: int, cursor: bool) -> list[Segment]:
        line = slot.line(offset)
        text, text_style = slot.marks.mark_at(offset, slot.height)
        entry_fill = slot.entry.fill
        segments = [Segment(text, self._styles.resolve_style(text_style, entry_fill, cursor))]
        fill = line.fill or entry_fill
        is_inside_code = line.code is None
        if line.code is not None and (language := line.code[0].missing_lexer):
            self.missing_lexers.add(language)
        for part, span_style in line.resolve_spans():
            # The code background begins at the code, not at the indentation of its list.
            is_inside_code = is_inside_code or span_style.role.startswith("code")
            if part:
                span_fill = fill if is_inside_code else entry_fill
                style = self._styles.resolve_style(span_style, span_fill, _is_highlighted(offset, cursor))
                segments.append(Segment(part, style))
        return segments

    def _row_strip(self, segments: list[Segment], slot: EntrySlot, offset: int, width: int, cursor: bool) -> Strip:
        fill = slot.line(offset).fill or slot.entry.fill
        fill_style = self._styles.resolve_style(TEXT_STYLE, fill, _is_highlighted(offset, cursor))
        fill_cells = width - RIGHT_MARGIN - sum(cell_width(text) for text, _, _ in segments)
        if fill_cells < 0:
            return (
                Strip(segments).adjust_cell_length(width - RIGHT_MARGIN).adjust_cell_length(width, self._styles.base)
            )
        # An intermediate strip would create caches that are never used.
        padding = [Segment(" " * fill_cells, fill_style)] if fill_cells else []
        return Strip([*segments, *padding, Segment(" " * RIGHT_MARGIN, self._styles.base)], width)


def _wrap_line(line: Content, width: int) -> Sequence[Content]:
    """Return the rows of a line for a width; wrapped text is aligned after the key column."""
    if line.cell_length <= width:
        return [line]
    key = _KEY_COLUMN_PATTERN.match(line.plain)
    indent = key.end() if key else 0
    first, *rest = line[indent:].wrap(width - indent)
    return [line[:indent] + first, *(Content(" " * indent) + piece for piece in rest)]


def _is_highlighted(offset: int, cursor: bool) -> bool:
    """Return whether the cursor highlights a row: only the first row of an entry."""
    return cursor and offset == 0


def _style_selection(segments: list[Segment], start: int, end: int, style: Style) -> list[Segment]:
    chosen: list[Segment] = []
    position = 0
    for text, segment_style, _ in segments:
        stop = len(text) if end < 0 else max(0, min(len(text), end - position))
        begin = max(0, min(len(text), start - position))
        if begin >= stop:
            chosen.append(Segment(text, segment_style))
        else:
            combined = segment_style + style if segment_style else style
            parts = ((text[:begin], segment_style), (text[begin:stop], combined), (text[stop:], segment_style))
            chosen.extend(Segment(part, part_style) for part, part_style in parts if part)
        position += len(text)
    return chosen
