"""Rows to strips, and rows to the text that a copy takes."""

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from widgets.chat.colours import Palette
from widgets.chat.lines import BLANK, TEXT, Line, slice_spans
from widgets.chat.marks import MARK_WIDTH, fill_of, marks_of
from widgets.chat.slots import Slot

RIGHT_MARGIN = 1
"""Cells between the rows and the scroll bar."""


def row_strip(
    palette: Palette,
    slot: Slot,
    offset: int,
    width: int,
    cursor: bool = False,
    selected: tuple[int, int] | None = None,
    selection_style: Style | None = None,
) -> Strip:
    """Row `offset` of a slot in `width` cells; `selected` are first and last character, -1 for the end."""
    line = slot_line(slot, offset)
    marks = marks_of(slot.entry, slot.opened)
    text, face = marks.at(offset, slot.height)
    under = fill_of(slot.entry)
    segments = [Segment(text, palette.style(face, under, cursor))]
    # The cursor lights the first row, and the edge of the others: a screenful of text stays calm.
    lit = cursor and offset == 0
    fill = line.fill or under
    inside = line.code is None
    for part, part_face in line.resolved():
        # The background of code begins with the code, not with the indent of the list that it is in.
        inside = inside or part_face.role.startswith("code")
        if part:
            segments.append(Segment(part, palette.style(part_face, fill if inside else under, lit)))
    if selected is not None and selection_style is not None:
        segments = _select(segments, *selected, selection_style)
    body = Strip(segments).adjust_cell_length(width - RIGHT_MARGIN, palette.style(TEXT, fill, lit))
    return body.adjust_cell_length(width, palette.base)


def slot_line(slot: Slot, offset: int) -> Line:
    """Row `offset` of a slot that was laid out."""
    lines = slot.lines or ()
    return lines[offset] if 0 <= offset < len(lines) else BLANK


def copied(line: Line, start: int, end: int) -> str:
    """The text of a row between two characters of its strip (-1 for the end), without decoration."""
    begin = max(line.gutter, start - MARK_WIDTH)
    stop = len(line.text) if end < 0 else end - MARK_WIDTH
    return "".join(text for text, _ in slice_spans(line.spans, begin, stop)) if stop > begin else ""


def _select(segments: list[Segment], start: int, end: int, style: Style) -> list[Segment]:
    chosen: list[Segment] = []
    position = 0
    for text, own, _ in segments:
        stop = len(text) if end < 0 else max(0, min(len(text), end - position))
        begin = max(0, min(len(text), start - position))
        if begin >= stop:
            chosen.append(Segment(text, own))
        else:
            combined = own + style if own else style
            parts = ((text[:begin], own), (text[begin:stop], combined), (text[stop:], own))
            chosen.extend(Segment(part, part_style) for part, part_style in parts if part)
        position += len(text)
    return chosen
