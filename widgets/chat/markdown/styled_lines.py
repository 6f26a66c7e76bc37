"""Lines of styled text, laid out for a width but without colours, for painting and for copying."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from rich.cells import cell_len, split_graphemes

from app.text.quantities import format_count
from app.text.safe_text import escape_unsafe


class TextStyle(NamedTuple):
    """Style of a stretch of text; the theme assigns the colours."""

    role: str = "text"
    """The component class without its prefix: `heading` is painted as `chat--heading`."""
    bold: bool = False
    italic: bool = False
    strike: bool = False
    href: str = ""
    """Address of the link; empty for none."""


TEXT_STYLE = TextStyle()
MUTED_STYLE = TextStyle("muted")

Span = tuple[str, TextStyle]
"""Text without line breaks, and its style."""


class LazySpans(Protocol):
    """Text whose styles are computed only when it is drawn (highlighted code)."""

    def spans(self, index: int) -> Sequence[Span]:
        """Return the spans of line `index`."""
        ...

    @property
    def missing_lexer(self) -> str:
        """Return the language whose lexer must be loaded first; empty if none is missing."""
        ...


class StyledLine(NamedTuple):
    """A row of styled text."""

    spans: tuple[Span, ...]
    gutter: int = 0
    """Number of leading characters that a copy omits, because they are decoration (an indentation, a bar)."""
    joint: str | None = None
    """None for the start of a line; else the row continues the row above, and a copy joins both with this text."""
    fill: str = ""
    """The role whose background extends to the right edge."""
    code: tuple[LazySpans, int, int, int] | None = None
    """For code, instead of the text after the gutter: source, line index, start and end."""
    action: str = ""
    """The action of a click on the row; empty for none."""

    @property
    def text(self) -> str:
        """Return the row's characters."""
        return "".join(text for text, _ in self.spans)

    def resolve_spans(self) -> Sequence[Span]:
        """Return the spans with computed styles."""
        if self.code is None:
            return self.spans
        source, index, start, end = self.code
        return [*slice_spans(self.spans, 0, self.gutter), *slice_spans(source.spans(index), start, end)]


BLANK_LINE = StyledLine(())


def make_safe_text(text: str) -> str:
    """Return untrusted text with unsafe characters made visible and with newlines as line ends."""
    return escape_unsafe(text.replace("\r\n", "\n"))


def cell_width(text: str) -> int:
    """Return the width of a text in cells."""
    return len(text) if text.isascii() else cell_len(text)


def slice_spans(spans: Sequence[Span], start: int, end: int) -> tuple[Span, ...]:
    """Return the characters from `start` up to `end`, with their styles."""
    result: list[Span] = []
    position = 0
    for text, style in spans:
        after = position + len(text)
        if after > start and position < end:
            result.append((text[max(0, start - position) : end - position], style))
        position = after
    return tuple(result)


def find_row_breaks(text: str, width: int) -> Iterator[tuple[int, int, str | None]]:
    """Yield (start, end, joint to the row above) of rows broken at spaces; the joint of the first row is None.

    A word wider than a row is cut between graphemes.
    """
    width = max(1, width)
    joint: str | None = None
    position, length = 0, len(text)
    ascii_only = text.isascii()
    while True:
        end = min(length, position + width) if ascii_only else find_fitting_end(text, position, width)
        if end >= length:
            yield position, length, joint
            return
        cut = end if text[end] == " " else text.rfind(" ", position + 1, end)
        if cut <= position or not text[position:cut].strip():
            yield position, end, joint
            position, joint = end, ""
            continue
        start, position = position, cut
        while position < length and text[position] == " ":
            position += 1
        yield start, cut, joint
        joint = text[cut:position]
        if position >= length:
            return


def find_fitting_end(text: str, position: int, width: int) -> int:
    """Return the end of the longest piece from `position` that fits into `width` cells; at least one grapheme."""
    window = text[position : position + 2 * width + 8]
    if window.isascii():
        return min(len(text), position + width)
    graphemes, _ = split_graphemes(window)
    used = end = 0
    for start, stop, cells in graphemes:
        if used + cells > width and start:
            return position + start
        used += cells
        end = stop
    return position + end


def wrap_spans(
    spans: Sequence[Span],
    width: int,
    first_prefix: tuple[Span, ...] = (),
    later_prefix: tuple[Span, ...] = (),
    fill: str = "",
    joint: str | None = None,
) -> list[StyledLine]:
    """Return the spans as rows of `width` cells, with a prefix before the first row and one before the others.

    `joint` joins the first row to the row above it.
    """
    text = "".join([part for part, _ in spans])
    first_gutter = sum(len(part) for part, _ in first_prefix)
    rest_gutter = sum(len(part) for part, _ in later_prefix)
    room = width - sum(cell_width(part) for part, _ in later_prefix)
    lines: list[StyledLine] = []
    for start, end, row_joint in find_row_breaks(text, room):
        if lines:
            lines.append(StyledLine((*later_prefix, *slice_spans(spans, start, end)), rest_gutter, row_joint, fill))
        else:
            lines.append(StyledLine((*first_prefix, *slice_spans(spans, start, end)), first_gutter, joint, fill))
    return lines


def wrap_text(text: str, style: TextStyle, width: int, prefix: tuple[Span, ...] = ()) -> list[StyledLine]:
    """Return the rows of plain text; keep its line breaks and indentation, and start each line with `prefix`."""
    sources = text.expandtabs(4).split("\n")
    return [line for source in sources for line in wrap_spans([(source, style)], width, prefix, prefix)]


def hidden_lines_note(rows: Sequence[StyledLine], more_lines: int = 0) -> str:
    """Return a note about the number of hidden source lines.

    Args:
        rows: The hidden rows; at least one.
        more_lines: Number of lines after them that are not laid out.
    """
    more = sum(row.joint is None for row in rows) + more_lines
    lines = format_count(more, "more line") if more else ""
    rest = "the rest of this line" if rows[0].joint is not None else ""
    return f"… {' and '.join(part for part in (rest, lines) if part)}"


def shorten_to_one_line(text: str, width: int) -> str:
    """Return the text in one row of at most `width` cells, with an ellipsis if it is shortened."""
    one_line = " ".join(text.split())
    if cell_width(one_line) <= width:
        return one_line
    end = find_fitting_end(one_line, 0, width - 1) if width > 1 else 0
    beginning = one_line[:end]
    return beginning + "…" if cell_width(beginning) < width else "…"


def shorten_path_or_text(text: str, width: int) -> str:
    """Return a path shortened at its start; other text is shortened at its end."""
    return shorten_to_one_line(text, width) if "/" not in text or " " in text else fit_path_end(text, width)


def fit_path_end(path: str, width: int) -> str:
    """Return the end of a path that fits into `width` cells, from the start of a folder's name if possible."""
    if cell_width(path) <= width:
        return path
    tail = path[-max(1, width - 1) :]
    while len(tail) > 1 and cell_width(tail) >= width:
        tail = tail[1:]
    return "…" + (tail[tail.find("/") :] if "/" in tail[:-1] else tail)


def format_seconds(duration: float) -> str:
    """Return a duration for the user: `0.4 s`, `12 s`, `3 min 05 s`; empty below 0.05 s."""
    if duration < 0.05:
        return ""
    if duration < 9.95:
        return f"{duration:.1f} s"
    if duration < 59.5:
        return f"{duration:.0f} s"
    minutes, seconds = divmod(round(duration), 60)
    return f"{minutes} min {seconds:02d} s"
