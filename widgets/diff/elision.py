"""A long line around its changes: unchanged runs are left out and counted, as folds do with lines."""

from collections.abc import Iterator, Sequence

from widgets.diff.cells import DisplayText, Span, Spans, Stop, display
from widgets.diff.remembering import remembered

_BESIDE = 12
"""Unchanged characters kept at each side of a change, where a line is cut at the edge."""
_LEAST = 60
"""Shorter unchanged runs stay there."""

_WRAPPED_BESIDE = 120
_WRAPPED_LEAST = 600
"""The same where lines wrap, which shows all that is kept."""

_HEAD = 400
"""Characters kept of an unchanged line that wraps."""
_LONG = 2_000
"""From this many characters on, unchanged lines are cut there."""


@remembered(1024)
def kept_of_change(line: str, changed: Spans, width: int, wrap: bool) -> Spans | None:
    """What is shown of a line of a hunk; None for all of it, as where it is wholly new or fits into `width` cells."""
    if not changed:
        return None
    shown = display(line)
    if shown.width <= width or (not wrap and shown.cell(shown.drawn(changed[-1][1])) < width):
        return None
    beside, least = (_WRAPPED_BESIDE, _WRAPPED_LEAST) if wrap else (_BESIDE, _LEAST)
    kept: list[Span] = []
    at = 0
    for start, end in (*changed, (len(line), len(line))):
        # At the ends of the line there is a change on one side of the run only.
        before = beside if at else 0
        after = beside if start < len(line) else 0
        if start - at > least + before + after:
            if at:
                kept[-1] = (kept[-1][0], at + before)
            kept.append((start - after, end))
        elif kept:
            kept[-1] = (kept[-1][0], end)
        else:
            kept.append((0, end))
        at = end
    kept = [span for span in kept if span[0] < span[1]]
    return None if kept == [(0, len(line))] else tuple(kept)


def kept_of_context(line: str, wrap: bool) -> Spans | None:
    """What is shown of an unchanged line."""
    return ((0, _HEAD),) if wrap and len(line) > _LONG else None


@remembered(1024)
def display_around(line: str, kept: Spans) -> DisplayText:
    """A line of which only some stretches are shown, and between them how much is left out."""
    texts: list[str] = []
    stops: list[Stop] = []
    gaps: list[Span] = []
    drawn = cell = 0
    for start, end, shown in _pieces(line, kept):
        if shown is None:
            text = f"⋯{end - start:,} unchanged⋯"
            gaps.append((drawn, drawn + len(text)))
            stops.append(Stop(start, drawn, cell, 1))
            width = len(text)
        else:
            text, width = shown.text, shown.width
            inner: Sequence[Stop] = shown.stops[:-1] or (Stop(0, 0, 0, 1),)
            stops += (Stop(stop.source + start, stop.drawn + drawn, stop.cell + cell, stop.step) for stop in inner)
        texts.append(text)
        drawn, cell = drawn + len(text), cell + width
    stops.append(Stop(len(line), drawn, cell, 1))
    return DisplayText("".join(texts), cell, tuple(stops), tuple(gaps))


def _pieces(line: str, kept: Spans) -> Iterator[tuple[int, int, DisplayText | None]]:
    """The stretches of a line, shown or (None) left out."""
    at = 0
    for start, end in (*kept, (len(line), len(line))):
        if at < start:
            yield at, start, None
        if start < end:
            yield start, end, display(line[start:end])
        at = end
