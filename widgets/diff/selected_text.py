"""Text that is selected with the mouse: the word or line that a click selects, and what is copied of a selection.

That is source as it is in the file, without line numbers, signs and padding.
"""

import re

from textual.geometry import Offset
from textual.selection import Selection

from app.text.safe_text import visible
from widgets.diff.cells import display
from widgets.diff.layout import Layout
from widgets.diff.paint_code import RIGHT_SIDE, is_right, selected
from widgets.diff.rows import CommentRow, FileRow, LineRow, NoteRow, Row, Side
from widgets.diff.scene import Scene

_WORD = re.compile(r"\w+|[^\w\s]+")
"""A name, a number, or signs that stand together."""


def copied_text(layout: Layout, scene: Scene, selection: Selection) -> str:
    """What the selected terminal lines say, wrapped lines joined again.

    Tabs stay tabs. An unsafe character is copied as the glyph that was seen: what is pasted into a shell holds no
    escape sequence.
    """
    first = selection.start.y if selection.start is not None else 0
    last = selection.end.y if selection.end is not None else layout.height - 1
    parts: list[str] = []
    previous = -1
    for line in range(max(0, first), min(last, layout.height - 1) + 1):
        number, row, part = layout.at(line)
        if number == previous and not isinstance(row, LineRow):
            continue
        text = _selected_text(scene, row, part, selection, line)
        if text is None:
            continue
        if number == previous:
            parts[-1] += text
        else:
            parts.append(text)
        previous = number
    return "\n".join(parts)


def _selected_text(scene: Scene, row: Row, part: int, selection: Selection, line: int) -> str | None:
    match row:
        case LineRow():
            side: Side = "old" if row.new is None else "new"
            if scene.split:
                right = selected(selection, line, True, "new")
                side = "old" if right is None else "new"
            span = selected(selection, line, scene.split, side)
            number = row.old if side == "old" else row.new
            if span is None or number is None:
                return None
            return _source(scene, row, side, number, part, span)
        case NoteRow() | CommentRow():
            return visible(row.text)
        case FileRow():
            return display(scene.diffs[row.file].change.path).text
        case _:
            return None


def _source(scene: Scene, row: LineRow, side: Side, number: int, part: int, span: tuple[int, int]) -> str:
    """The selected characters of a line, or of one part of it where lines are wrapped; `span` counts drawn ones."""
    source = scene.line(row.file, side, number)
    drawn = scene.drawn(row, side, number)
    shown, starts = drawn.text, drawn.starts
    if part >= len(starts):
        return ""
    end = starts[part + 1] if part + 1 < len(starts) else len(shown.text)
    begin = max(starts[part], span[0])
    end = end if span[1] < 0 else min(end, span[1])
    last = len(source) if end == len(shown.text) else shown.source(end)
    return visible(source, keep="\t")[shown.source(begin) : last]


def word_at(layout: Layout, scene: Scene, offset: Offset) -> Selection | None:
    """The word at an offset as the mouse tells it: drawn character and terminal line."""
    found = _source_at(layout, scene, offset)
    if found is None:
        return None
    begin, text = found
    for match in _WORD.finditer(text):
        if match.start() <= offset.x - begin < match.end():
            return Selection(Offset(begin + match.start(), offset.y), Offset(begin + match.end(), offset.y))
    return None


def line_at(layout: Layout, scene: Scene, offset: Offset) -> Selection | None:
    """The whole line of source there, over as many terminal lines as it is wrapped to."""
    found = _source_at(layout, scene, offset)
    if found is None:
        return None
    begin, text = found
    number = layout.at(offset.y).number
    top, after = layout.line_of(number), layout.line_of(number + 1) if number + 1 < layout.rows else layout.height
    return Selection(Offset(begin, top), Offset(begin + len(text), after - 1))


def _source_at(layout: Layout, scene: Scene, offset: Offset) -> tuple[int, str] | None:
    """The selection offset of the first character of a line of source, and the line as it is drawn."""
    row = layout.at(offset.y).row if 0 <= offset.y < layout.height else None
    if not isinstance(row, LineRow):
        return None
    right = scene.split and is_right(offset.x)
    side: Side = "new" if right or (not scene.split and row.new is not None) else "old"
    number = row.new if side == "new" else row.old
    if number is None:
        return None
    return RIGHT_SIDE if right else 0, scene.drawn(row, side, number).text.text
