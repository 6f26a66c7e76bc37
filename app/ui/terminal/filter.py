"""The last line of defence between untrusted text and the terminal.

Kept apart: the whole defence can be read at a glance.
"""

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from app.safe_text import is_plain, strip_unsafe


class UnsafeTextFilter(LineFilter):
    """Deletes characters that a terminal acts upon, or that reorder text, from everything that is drawn.

    Widgets show such characters as glyphs; what a widget forgets ends here. They have no width, so nothing moves.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments, each without unsafe characters."""
        if all(is_plain(segment.text, keep="") for segment in segments):
            return segments
        return [Segment(strip_unsafe(segment.text, keep=""), segment.style, segment.control) for segment in segments]
