"""What of the transcript is selected, and the text that a copy of it takes."""

import re
from collections.abc import Iterable

from textual.geometry import Offset
from textual.selection import Selection

from widgets.chat.entries.base import MARK_WIDTH
from widgets.chat.layout import Layout
from widgets.chat.lines import Line, slice_spans

_WORD = re.compile(r"[\w./:@-]+|\S")


def selected_text(layout: Layout, selection: Selection) -> str:
    """The selected text as it was written: without marks, and wrapped rows joined again."""
    last = layout.slots.total - 1
    start = selection.start.y if selection.start is not None else 0
    end = selection.end.y if selection.end is not None else last
    spans = ((row, selection.get_span(row)) for row in range(max(0, start), min(end, last) + 1))
    return _joined((layout.line(row), span) for row, span in spans if span is not None)


def word_at(layout: Layout, row: int, column: int) -> Selection | None:
    """The word at a column of a row, marks counted."""
    text = " " * MARK_WIDTH + layout.line(row).text
    word = next((match for match in _WORD.finditer(text) if match.start() <= column < match.end()), None)
    return Selection(Offset(word.start(), row), Offset(word.end(), row)) if word is not None else None


def entry_at(layout: Layout, row: int) -> Selection:
    """The whole entry that a row belongs to."""
    index = layout.slots.at(row)
    slot = layout.slots.items[index]
    top = layout.slots.top(index) + slot.gap
    last = top + slot.height - 1
    return Selection(Offset(0, top), Offset(MARK_WIDTH + len(layout.line(last).text), last))


def _joined(rows: Iterable[tuple[Line, tuple[int, int]]]) -> str:
    parts: list[str] = []
    for line, span in rows:
        if parts:
            parts.append("\n" if line.joint is None else line.joint)
        parts.append(_copied(line, *span))
    return "".join(parts)


def _copied(line: Line, start: int, end: int) -> str:
    """The text of a row between two characters of its strip (-1 for the end), without decoration."""
    begin = max(line.gutter, start - MARK_WIDTH)
    stop = len(line.text) if end < 0 else end - MARK_WIDTH
    return "".join(text for text, _ in slice_spans(line.spans, begin, stop)) if stop > begin else ""


def moved(selection: Selection, rows: int) -> Selection:
    """The selection of the same text so many rows further down."""
    return Selection(*(end if end is None else end + Offset(0, rows) for end in selection))
