"""What a double and a triple click select: a word, a line of source."""

import re

from textual.geometry import Offset
from textual.selection import Selection

from widgets.diff.layout import Layout
from widgets.diff.paint_code import RIGHT_SIDE, is_right
from widgets.diff.rows import LineRow, Side
from widgets.diff.scene import Scene

_WORD = re.compile(r"\w+|[^\w\s]+")
"""A name, a number, or signs that stand together."""


def word_at(layout: Layout, scene: Scene, place: Offset) -> Selection | None:
    """The word at a place as the mouse tells it: drawn character and terminal line."""
    found = _source_at(layout, scene, place)
    if found is None:
        return None
    begin, text = found
    for match in _WORD.finditer(text):
        if match.start() <= place.x - begin < match.end():
            return Selection(Offset(begin + match.start(), place.y), Offset(begin + match.end(), place.y))
    return None


def line_at(layout: Layout, scene: Scene, place: Offset) -> Selection | None:
    """The whole line of source at a place, over as many terminal lines as it is wrapped to."""
    found = _source_at(layout, scene, place)
    if found is None:
        return None
    begin, text = found
    number = layout.at(place.y).number
    top, after = layout.line_of(number), layout.line_of(number + 1) if number + 1 < layout.rows else layout.height
    return Selection(Offset(begin, top), Offset(begin + len(text), after - 1))


def _source_at(layout: Layout, scene: Scene, place: Offset) -> tuple[int, str] | None:
    """The selection offset of the first character of a line of source, and the line as it is drawn."""
    row = layout.at(place.y).row if 0 <= place.y < layout.height else None
    if not isinstance(row, LineRow):
        return None
    right = scene.split and is_right(place.x)
    side: Side = "new" if right or (not scene.split and row.new is not None) else "old"
    number = row.new if side == "new" else row.old
    if number is None:
        return None
    return RIGHT_SIDE if right else 0, scene.shown(row, side, number).text.text
