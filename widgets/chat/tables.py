"""Tables: columns as wide as they need to be, shared fairly when the room is short."""

from collections.abc import Sequence

from widgets.chat.lines import Face, Line, Span, width_of, wrap

Cell = list[Span]
Row = list[Cell]

_RULE = Face("table-rule")
_GAP = 3
"""Cells between two columns: a space, a thin rule, a space."""


def column_widths(rows: Sequence[Row], width: int) -> list[int]:
    """Widths of the columns so that these rows fit into `width` cells.

    Long columns give way first; words stay whole as long as all the longest ones have room.
    """
    columns = max((len(row) for row in rows), default=0)
    wanted, least = [1] * columns, [1] * columns
    for row in rows:
        for index, cell in enumerate(row):
            text = "".join(part for part, _ in cell)
            wanted[index] = max(wanted[index], width_of(text))
            least[index] = max([least[index], *map(width_of, text.split())])
    room = max(columns, width - _GAP * (columns - 1))
    if sum(least) > room:
        least = [1] * columns
    return _shared(wanted, least, room)


def _shared(wanted: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Share the room so that the widest columns get the same, if they need no more (max-min fairness)."""
    result = list(wanted)
    left, reserved = room, sum(least)
    narrow_first = sorted(range(len(wanted)), key=lambda index: wanted[index])
    for position, index in enumerate(narrow_first):
        share = left // (len(wanted) - position)
        reserved -= least[index]
        result[index] = max(least[index], min(wanted[index], share, left - reserved))
        left -= result[index]
    return result


def table_lines(
    rows: Sequence[Row], widths: Sequence[int], aligns: Sequence[str], prefix: tuple[Span, ...], heading: bool
) -> list[Line]:
    """Lay rows out in columns of these widths; with `heading`, the first row is followed by a rule."""
    lines: list[Line] = []
    gutter = sum(len(text) for text, _ in prefix)
    for number, row in enumerate(rows):
        lines.extend(_row_lines(row, widths, aligns, prefix, gutter))
        if heading and number == 0:
            rule = "─┼─".join("─" * width for width in widths)
            lines.append(Line((*prefix, (rule, _RULE)), gutter))
    return lines


def _row_lines(
    row: Row, widths: Sequence[int], aligns: Sequence[str], prefix: tuple[Span, ...], gutter: int
) -> list[Line]:
    cells = [wrap(row[index] if index < len(row) else [], width) for index, width in enumerate(widths)]
    lines: list[Line] = []
    for level in range(max((len(cell) for cell in cells), default=0)):
        spans: list[Span] = [*prefix]
        for index, cell in enumerate(cells):
            if index:
                spans.append((" │ ", _RULE))
            content = cell[level].spans if level < len(cell) else ()
            free = max(0, widths[index] - sum(width_of(text) for text, _ in content))
            align = aligns[index] if index < len(aligns) else ""
            before = free if align == "right" else free // 2 if align == "center" else 0
            after = free - before
            if before:
                spans.append((" " * before, Face()))
            spans.extend(content)
            if after and index < len(widths) - 1:
                spans.append((" " * after, Face()))
        lines.append(Line(tuple(spans), gutter))
    return lines
