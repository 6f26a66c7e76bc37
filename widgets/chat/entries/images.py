"""An image that went with the user's words, in one line: its name, its size in pixels and in bytes.

Kept apart: messages and decisions have them alike.
"""

from app.images.image import Image
from widgets.chat.lines import MUTED, Face, Line, Span, end_of_path, shorten, visible, width_of

_SIGN = "▣ "
_SHORTEST_NAME = 12
"""Cells that the name of an image keeps, however narrow it is."""


def image_line(image: Image, width: int, lead: tuple[Span, ...] = ()) -> Line:
    """The line, behind the cells that lead all lines of its entry; the name is shortened where it is narrow."""
    room = width - sum(width_of(text) for text, _ in lead) - len(_SIGN)
    facts = shorten(image.facts, room - _SHORTEST_NAME - 2)
    name = end_of_path(visible(image.name), max(_SHORTEST_NAME, room - 2 - len(facts)))
    return Line((*lead, (_SIGN, Face("user-mark")), (name, Face("user")), (f"  {facts}", MUTED)))
