"""The last line of defence between untrusted text and the terminal.

Kept apart: the whole defence can be read at a glance.
"""

from collections.abc import Sequence
from functools import lru_cache

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

from app.text.safe_text import is_plain, strip_unsafe


class UnsafeTextFilter(LineFilter):
    """Deletes characters that a terminal acts upon, or that reorder text, from everything that is drawn.

    Widgets show such characters as glyphs; what a widget forgets ends here. They have no width, so nothing moves.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments, each without unsafe characters."""
        if all(is_plain(segment.text, keep="") for segment in segments):
            return segments
        return [Segment(strip_unsafe(segment.text, keep=""), segment.style, segment.control) for segment in segments]


class _Together(LineFilter):
    """Several filters, each applied to what the one before it left: a row is made anew once and not for each."""

    def __init__(self, filters: Sequence[LineFilter]) -> None:
        super().__init__()
        self._filters = filters

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments as they may go to the terminal."""
        for one in self._filters:
            segments = one.apply(segments, background)
        return segments


@lru_cache(maxsize=8)
def together(filters: tuple[LineFilter, ...]) -> LineFilter:
    """One filter that does what these do in turn; always the same one, since what it made of a row is kept by it."""
    return _Together(filters)
