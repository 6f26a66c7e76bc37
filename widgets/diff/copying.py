"""The text behind a selection: source as it is in the file, without line numbers, signs and padding."""

from textual.selection import Selection

from widgets.diff.cells import display
from widgets.diff.layout import Layout
from widgets.diff.paint_code import selected
from widgets.diff.rows import CommentRow, FileRow, LineRow, NoteRow, Row, Side
from widgets.diff.scene import Scene


def copied_text(layout: Layout, scene: Scene, selection: Selection) -> str:
    """What the selected terminal lines say, wrapped lines joined again."""
    first = selection.start.y if selection.start is not None else 0
    last = selection.end.y if selection.end is not None else layout.height - 1
    parts: list[str] = []
    previous = -1
    for line in range(max(0, first), min(last, layout.height - 1) + 1):
        number, row, _ = layout.at(line)
        text = _selected_text(scene, row, selection, line)
        if text is None:
            continue
        if number == previous:
            parts[-1] += text
        else:
            parts.append(text)
        previous = number
    return "\n".join(parts)


def _selected_text(scene: Scene, row: Row, selection: Selection, line: int) -> str | None:
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
            text = display(scene.line(row.file, side, number)).text
            return text[span[0] : None if span[1] < 0 else span[1]]
        case NoteRow() | CommentRow():
            return display(row.text).text
        case FileRow():
            return display(scene.diffs[row.file].change.path).text
        case _:
            return None
