"""A read-only view of a long text: draws only visible rows, wraps long lines."""

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice, pairwise
from typing import ClassVar

from msgspec import Struct
from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from app.text.safe_text import escape_unsafe


def find_smartcase_matches(text: str, query: str) -> list[int]:
    """Return the positions of a query in a text, without overlaps; an empty query has none.

    Case matters only if the query has upper-case letters ("smartcase" of vim). A match is as long as the query.
    """
    if not query:
        return []
    if query == query.lower():
        if not text.isascii():
            # The lower case of some letters is longer, which would move the positions.
            return [match.start() for match in re.finditer(re.escape(query), text, re.IGNORECASE)]
        text = text.lower()
    positions: list[int] = []
    position = text.find(query)
    while position >= 0:
        positions.append(position)
        position = text.find(query, position + len(query))
    return positions


class TextViewLine(Struct, frozen=True):
    """A line for a `TextView`, as pieces with one role or style each."""

    pieces: tuple[tuple[str, str | Style], ...]
    """(text, role); a role is the component class `text--ROLE`, empty for plain text, or a Rich style."""
    mark: str = ""
    """A role for the whole line: its bar at the left and its background."""

    @property
    def text(self) -> str:
        """Return the line as plain text."""
        return "".join(text for text, _ in self.pieces)


class TextView(ScrollView, can_focus=True):
    """A read-only, scrollable view of lines, with the keys of a pager."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "step(1)", "Down", show=False),
        Binding("k,up", "step(-1)", "Up", show=False),
        Binding("pagedown,space,ctrl+d", "page(1)", "Page down", show=False),
        Binding("pageup,ctrl+u", "page(-1)", "Page up", show=False),
        Binding("g,home", "top", "Top", show=False),
        Binding("G,end", "bottom", "Bottom", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"text--{role}" for role in ("key", "string", "number", "quiet", "program", "important", "heading", "match")
    }
    DEFAULT_CSS = """
    TextView {
        background: $surface;
        color: $foreground;
        scrollbar-size-vertical: 1;
        & > .text--key { color: $text-primary; }
        & > .text--string { color: $foreground; }
        & > .text--number { color: $text-warning; }
        & > .text--quiet { color: $foreground 65%; }
        & > .text--heading { color: $text-primary; text-style: bold; }
        & > .text--program { background: $secondary 14%; color: $text-secondary; }
        & > .text--important { background: $warning 22%; color: $text-warning; text-style: bold; }
        & > .text--match { background: $warning 45%; color: $foreground; }
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._lines: list[TextViewLine] = []
        self._rows: list[tuple[int, int, int]] = []
        """For each row: (line, start, end), with characters of the line."""
        self._first_rows: list[int] = []
        self._width = 0
        self.query_text = ""
        """The query whose matches are highlighted; lower-case text matches both cases."""
        self._matches: list[int] = []
        """Numbers of the lines that contain the query."""
        self._match: int | None = None
        """Index of the match to which the view last scrolled."""

    def set_lines(self, lines: Sequence[TextViewLine]) -> None:
        """Show these lines from the top."""
        self._lines = [_make_safe(line) for line in lines]
        self.set_query(self.query_text)
        self._width = 0
        self._wrap()
        self.scroll_to(y=0, animate=False, force=True)

    def go_to_line(self, line: int) -> None:
        """Scroll a line to the upper part of the view."""
        if 0 <= line < len(self._first_rows):
            self.scroll_to(y=max(0, self._first_rows[line] - 2), animate=False, force=True)

    def set_query(self, query: str) -> None:
        """Highlight the matches of a query; none if it is empty."""
        self.query_text, self._match = query, None
        lines = enumerate(self._lines)
        self._matches = [number for number, line in lines if find_smartcase_matches(line.text, query)]
        self.refresh()

    def go_to_match(self, step: int) -> tuple[int, int]:
        """Scroll to the next line with a match, or to the previous one with -1.

        Returns:
            The number of this match, from 1, and the number of all matches; (0, 0) if there are none.
        """
        if not self._matches:
            return 0, 0
        if self._match is None:
            below = (at for at, line in enumerate(self._matches) if line >= self.first_line)
            self._match = next(below, 0)
        else:
            self._match = (self._match + step) % len(self._matches)
        self.go_to_line(self._matches[self._match])
        return self._match + 1, len(self._matches)

    @property
    def first_line(self) -> int:
        """Return the line at the top of the view."""
        row = self.scroll_offset.y
        return self._rows[row][0] if row < len(self._rows) else 0

    @property
    def is_at_end(self) -> bool:
        """Return whether the view is scrolled to the end."""
        return self.scroll_offset.y >= self.max_scroll_y

    def marked_lines(self, role: str) -> list[int]:
        """Return the first line of each stretch with this role."""
        return [
            index
            for index, line in enumerate(self._lines)
            if line.mark == role and (index == 0 or self._lines[index - 1].mark != role)
        ]

    def on_resize(self, event: events.Resize) -> None:
        """Wrap the lines for the new width."""
        line, width = self.first_line, self._width
        self._wrap()
        if self._width != width and 0 < line < len(self._first_rows):
            self.scroll_to(y=self._first_rows[line], animate=False, force=True)

    def _wrap(self) -> None:
        width = max(10, self.scrollable_content_region.width - 2)
        if width == self._width:
            return
        self._width = width
        self._rows, self._first_rows = [], []
        for index, line in enumerate(self._lines):
            self._first_rows.append(len(self._rows))
            text = line.text
            starts = _row_starts(text, width)
            self._rows += [(index, start, end) for start, end in pairwise((*starts, len(text)))]
        self.virtual_size = Size(width, len(self._rows))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        width, row = self.size.width, y + self.scroll_offset.y
        base = self.rich_style
        if row >= len(self._rows):
            return Strip.blank(width, base)
        index, start, end = self._rows[row]
        line = self._lines[index]
        if line.mark:
            base += self.get_component_rich_style(f"text--{line.mark}")
        segments = [Segment("▌" if line.mark else " ", base)]
        position = 0
        query = self.query_text
        highlights = [(start, start + len(query)) for start in find_smartcase_matches(line.text, query)]
        match = self.get_component_rich_style("text--match") if highlights else base
        for text, role in line.pieces:
            style = base if line.mark or not role else base + self._style(role)
            first_visible, last_visible = max(start, position), min(end, position + len(text))
            for first, last, is_highlighted in _split_at_highlights(highlights, first_visible, last_visible):
                segments.append(Segment(text[first - position : last - position], match if is_highlighted else style))
            position += len(text)
        return Strip(segments).adjust_cell_length(width, base)

    def _style(self, role: str | Style) -> Style:
        if isinstance(role, Style):
            return role
        return Style(color=self.get_component_rich_style(f"text--{role}").color)

    def action_step(self, step: int) -> None:
        self.scroll_relative(y=step, animate=False, force=True)

    def action_page(self, step: int) -> None:
        self.scroll_relative(y=step * max(1, self.size.height - 2), animate=False, force=True)

    def action_top(self) -> None:
        self.scroll_to(y=0, animate=False, force=True)

    def action_bottom(self) -> None:
        self.scroll_to(y=self.max_scroll_y, animate=False, force=True)


def _split_at_highlights(
    highlights: Sequence[tuple[int, int]], start: int, end: int
) -> Iterator[tuple[int, int, bool]]:
    """Yield (start, end, whether it is highlighted) for stretches of characters."""
    for first, last in highlights:
        if start < min(first, end):
            yield start, min(first, end), False
        if max(start, first) < min(last, end):
            yield max(start, first), min(last, end), True
        start = max(start, min(last, end))
    if start < end:
        yield start, end, False


def _make_safe(line: TextViewLine) -> TextViewLine:
    pieces = ((escape_unsafe(text, keep="").expandtabs(4), role) for text, role in line.pieces)
    return TextViewLine(tuple(pieces), line.mark)


def _row_starts(text: str, width: int) -> list[int]:
    """Return the indices at which the rows of a line begin: after a space, or within a word longer than a row."""
    starts, length = [0], len(text.rstrip())
    while (end := _cut_index(text, starts[-1], width)) < length:
        space = text.rfind(" ", starts[-1], end + 1)
        has_words = space > starts[-1] and not text[starts[-1] : space].isspace()
        starts.append(space + 1 if has_words else end)
    return starts


def _cut_index(text: str, start: int, width: int) -> int:
    """Return the index of the first character that does not fit into a row of `width` cells."""
    if text.isascii():
        return start + width
    ends = accumulate(cell_len(character) for character in islice(text, start, None))
    return next((index for index, end in enumerate(ends, start) if end > width), len(text))


_SEQUENCE_PATTERN = re.compile(
    r"(?:\x1b\[|\x9b)(?P<parameters>[0-9;:]*)(?P<final>[@-~])"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90-\x9f\n]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"
)
"""Control sequences of ECMA-48; those with only numbers as parameters set the groups."""

_ATTRIBUTES_ON = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
_ATTRIBUTES_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",), 29: ("strike",)}
_TAB_CELLS = 8
"""Cells between the tab stops of a terminal."""
_PALETTE_FORMAT, _DIRECT_FORMAT = 5, 2
"""Formats of a colour after 38 or 48: by number, or as red, green and blue."""


class AnsiStyleState:
    """The style for the next characters, as set by the ANSI sequences before them."""

    def __init__(self) -> None:
        self._attributes: set[str] = set()
        self._colour: Color | None = None
        self._background: Color | None = None

    @property
    def style(self) -> Style:
        """Return the style for Rich."""
        return Style(color=self._colour, bgcolor=self._background) + Style.parse(" ".join(sorted(self._attributes)))

    def apply_sequence(self, parameters: str) -> None:
        """Apply the numbers of one Select Graphic Rendition sequence."""
        numbers = [int(part[:6] or 0) for part in re.split("[;:]", parameters)]
        while numbers:
            match numbers:
                case [38 | 48 as code, int(kind), *rest] if kind in (_PALETTE_FORMAT, _DIRECT_FORMAT):
                    count = 1 if kind == _PALETTE_FORMAT else 3
                    self._set_colour(_parse_colour(rest[:count]), is_background=code == 48)
                    numbers = rest[count:]
                case [number, *numbers]:
                    self._apply_attribute(number)

    def _apply_attribute(self, number: int) -> None:
        if number in _ATTRIBUTES_ON:
            self._attributes.add(_ATTRIBUTES_ON[number])
        elif number in _ATTRIBUTES_OFF:
            self._attributes.difference_update(_ATTRIBUTES_OFF[number])
        elif number in (39, 49):
            self._set_colour(None, is_background=number == 49)
        elif 30 <= number <= 47 or 90 <= number <= 107:
            bright = 8 if number >= 90 else 0
            if number % 10 <= 7:
                self._set_colour(Color.from_ansi(number % 10 + bright), is_background=number // 10 in (4, 10))
        elif not number:
            self._attributes.clear()
            self._colour = self._background = None

    def _set_colour(self, colour: Color | None, *, is_background: bool) -> None:
        if is_background:
            self._background = colour
        else:
            self._colour = colour


def _parse_colour(numbers: Sequence[int]) -> Color | None:
    match [min(number, 255) for number in numbers]:
        case [number]:
            return Color.from_ansi(number)
        case [red, green, blue]:
            return Color.from_rgb(red, green, blue)
    return None


def parse_ansi_text(text: str) -> list[TextViewLine]:
    """Return the styled lines of a text with ANSI colour sequences."""
    state, lines = AnsiStyleState(), text.removesuffix("\n").split("\n")
    return [TextViewLine(tuple(_parse_pieces(line.rstrip("\r"), state))) for line in lines]


def _parse_pieces(line: str, state: AnsiStyleState) -> Iterator[tuple[str, Style]]:
    at = column = 0
    for match in (*_SEQUENCE_PATTERN.finditer(line), None):
        piece = line[at : len(line) if match is None else match.start()]
        if "\t" in piece:
            before = " " * (column % _TAB_CELLS)
            piece = f"{before}{piece}".expandtabs(_TAB_CELLS)[len(before) :]
        column += len(piece)
        if piece or match is None:
            yield piece, state.style
        if match is not None:
            if match["final"] == "m":
                state.apply_sequence(match["parameters"])
            at = match.end()
