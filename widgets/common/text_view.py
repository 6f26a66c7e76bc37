"""A long text that is read, not edited: only the rows on screen are drawn, long lines wrap, lines can be marked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from app.safe_text import visible


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text, cut into pieces of one role each."""

    pieces: tuple[tuple[str, str], ...]
    """Text and role; a role is the component class `text--ROLE`, empty for plain text."""
    mark: str = ""
    """A role for the whole line: its bar at the left and its background."""

    @property
    def text(self) -> str:
        """The line as plain text."""
        return "".join(text for text, _ in self.pieces)


class TextView(ScrollView, can_focus=True):
    """Shows lines; the keys are those of a pager."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "step(1)", "Down", show=False),
        Binding("k,up", "step(-1)", "Up", show=False),
        Binding("pagedown,space,ctrl+d", "page(1)", "Page down", show=False),
        Binding("pageup,ctrl+u", "page(-1)", "Page up", show=False),
        Binding("g,home", "top", "Top", show=False),
        Binding("G,end", "bottom", "Bottom", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "text--key",
        "text--string",
        "text--number",
        "text--quiet",
        "text--program",
        "text--important",
        "text--heading",
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
    }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._lines: list[Line] = []
        self._rows: list[tuple[int, int, int]] = []
        """Line, and from and to which of its characters."""
        self._first_rows: list[int] = []
        self._width = 0

    def set_lines(self, lines: Sequence[Line]) -> None:
        """Show these from the top."""
        self._lines = [_safe(line) for line in lines]
        self._width = 0
        self._wrap()
        self.scroll_to(y=0, animate=False, force=True)

    def go_to_line(self, line: int) -> None:
        """Bring a line to the upper part of the view."""
        if 0 <= line < len(self._first_rows):
            self.scroll_to(y=max(0, self._first_rows[line] - 2), animate=False, force=True)

    @property
    def first_line(self) -> int:
        """The line at the top of the view."""
        row = self.scroll_offset.y
        return self._rows[row][0] if row < len(self._rows) else 0

    @property
    def is_at_end(self) -> bool:
        """Whether nothing is left to scroll."""
        return self.scroll_offset.y >= self.max_scroll_y

    def marked_lines(self, role: str) -> list[int]:
        """The first lines of each stretch with this mark."""
        return [
            index
            for index, line in enumerate(self._lines)
            if line.mark == role and (index == 0 or self._lines[index - 1].mark != role)
        ]

    def on_resize(self, event: events.Resize) -> None:
        """Wrap anew."""
        line = self.first_line
        self._wrap()
        if line:
            self.go_to_line(line + 2)

    def _wrap(self) -> None:
        width = max(10, self.scrollable_content_region.width - 2)
        if width == self._width or not self.is_attached:
            return
        self._width = width
        self._rows, self._first_rows = [], []
        for index, line in enumerate(self._lines):
            self._first_rows.append(len(self._rows))
            text = line.text
            cuts = (list(range(0, len(text), width)) or [0]) if text.isascii() else _cuts(text, width)
            ends = [*cuts[1:], len(text)]
            self._rows += [(index, start, end) for start, end in zip(cuts, ends, strict=True)]
        self.virtual_size = Size(width, len(self._rows))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """One row."""
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
        for text, role in line.pieces:
            piece = text[max(0, start - position) : max(0, end - position)]
            position += len(text)
            if piece:
                segments.append(Segment(piece, base if line.mark or not role else base + self._style(role)))
        return Strip(segments).adjust_cell_length(width, base)

    def _style(self, role: str) -> Style:
        return Style(color=self.get_component_rich_style(f"text--{role}").color)

    def action_step(self, by: int) -> None:
        """A row up or down."""
        self.scroll_relative(y=by, animate=False, force=True)

    def action_page(self, by: int) -> None:
        """A page up or down."""
        self.scroll_relative(y=by * max(1, self.size.height - 2), animate=False, force=True)

    def action_top(self) -> None:
        """To the beginning."""
        self.scroll_to(y=0, animate=False, force=True)

    def action_bottom(self) -> None:
        """To the end."""
        self.scroll_to(y=self.max_scroll_y, animate=False, force=True)


def _safe(line: Line) -> Line:
    return Line(tuple((visible(text, keep="").expandtabs(4), role) for text, role in line.pieces), line.mark)


def _cuts(text: str, width: int) -> list[int]:
    """Where to break a text that may hold wide characters."""
    from rich.cells import cell_len

    cuts, used = [0], 0
    for index, character in enumerate(text):
        cells = cell_len(character)
        if used + cells > width:
            cuts.append(index)
            used = 0
        used += cells
    return cuts
