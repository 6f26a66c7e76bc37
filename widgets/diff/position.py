"""One line above the diff: which file, where in it, which hunk of how many, and what a search found."""

from bisect import bisect_right

from textual.content import Content
from textual.widget import Widget

from app.text.plural import plural
from widgets.common.parts import Part, fitting, line_of
from widgets.diff.cells import display
from widgets.diff.rows import LineRow
from widgets.diff.surface import DiffSurface

_GAP = "  "
_LONGEST_QUERY = 20
"""Characters of what was searched for that are repeated beside the count."""


class PositionBar(Widget):
    """Tells where the cursor of a diff view is."""

    DEFAULT_CSS = """
    PositionBar {
        height: 1;
        padding: 0 1;
        background: $surface;
        color: $foreground 70%;
        text-wrap: nowrap;
        text-overflow: ellipsis;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[Part] = []

    def follow(self, view: DiffSurface, title: Content, origin: Content) -> None:
        """Show the position of a view, after a title and whose the change is."""
        parts = [Part(7, title), Part(1, origin)]
        if view.diffs:
            parts += self._place(view)
        if view.diffs and view.search.query:
            count = "searching …" if view.search.running else _count(view)
            parts.append(Part(9, Content.styled(f"“{_quoted(view.search.query)}” {count}", "$text-warning")))
        self._parts = [part for part in parts if part.content.plain]
        # One line whatever it says, so nothing has to be laid out anew.
        self.refresh()

    def render(self) -> Content:
        """As much of it as there is room for: what was searched for stays, and which file it is."""
        return line_of(fitting(self._parts, self.content_size.width, _GAP), _GAP)

    def _place(self, view: DiffSurface) -> list[Part]:
        """File, line, hunk, and how far down."""
        row = view.cursor.row
        diff = view.diffs[min(view.cursor.file, len(view.diffs) - 1)]
        line = ""
        if isinstance(row, LineRow):
            number = row.new if row.new is not None else row.old
            line = f":{number + 1}" if number is not None else ""
        parts = [Part(8, Content.assemble((display(diff.change.path).text, "bold $foreground"), line))]
        if len(view.diffs) > 1:
            parts.append(Part(3, Content(f"file {view.cursor.file + 1} of {len(view.diffs)}")))
        hunks = view.rows.landmarks.hunks
        if hunks:
            # As long as not everything is laid out, it isn't known how many are in files that are closed.
            total = len(hunks) if view.rows.complete else sum(len(diff.change.hunks) for diff in view.diffs)
            place, hunk = max(1, bisect_right(hunks, view.cursor.number)), view.cursor.hunk
            # Files may stand in another order than that by which their hunks are numbered, and named everywhere else.
            differs = hunk is not None and hunk.number != place
            named = f"hunk {hunk.number:,}, " if hunk is not None and differs else "hunk "
            from_top = " from the top" if differs else ""
            parts.append(Part(4, Content(f"{named}{place:,} of {total:,}{from_top}")))
        missing, of = view.on_screen.unseen.count(min(view.cursor.file, len(view.diffs) - 1))
        # Of a single file the approvals say it.
        several = len(view.diffs) > 1
        if several and missing and diff.change.hunks and view.sheet.scene.undecided and not view.sheet.versions:
            parts.append(Part(6, Content.styled(f"{missing:,} of {of:,} unseen", "$text-warning")))
        if isinstance(row, LineRow) and (moved := _moved(view, row)):
            parts.append(Part(5, Content(moved)))
        if not view.sheet.white_space:
            parts.append(Part(5, Content.styled(_spaces(view), "$text-warning")))
        if view.rows.complete:
            total = view.rows.height
            end = min(total, view.scroll_offset.y + view.size.height)
            all_of_it = end >= total and not view.scroll_offset.y
            parts.append(Part(2, Content("all" if all_of_it else f"{100 * end // total} %")))
        return parts


def _moved(view: DiffSurface, row: LineRow) -> str:
    """From where to where a line was moved, if it was."""
    line = row.newest
    other = view.sheet.scene.marks.moved.get(line) if row.hunk is not None else None
    if other is None:
        return ""
    path = f"{display(view.diffs[other.file].change.path).text} " if other.file != line.file else ""
    return f"moved {'from' if line.side == 'new' else 'to'} {path}line {other.line + 1}"


def _spaces(view: DiffSurface) -> str:
    sheet = view.sheet
    if sheet.spaces is None:
        return "looking for white space …"
    count = sheet.left_out.total
    return f"white space off: {plural(count, 'line')}" if count else "white space off"


def _quoted(query: str) -> str:
    text = display(query).text
    return text if len(text) <= _LONGEST_QUERY else text[: _LONGEST_QUERY - 1] + "…"


def _count(view: DiffSurface) -> str:
    lines = len(view.search.found)
    if view.search.current is not None and lines:
        return f"{view.search.current + 1:,} of {lines:,}"
    return plural(lines, "line")
