"""One line above the diff: which file, where in it, which hunk of how many, and what a search found."""

from bisect import bisect_right

from textual.content import Content
from textual.widgets import Static

from app.plural import plural
from widgets.diff.cells import display
from widgets.diff.rows import LineRow
from widgets.diff.surface import DiffSurface


class PositionBar(Static):
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
        super().__init__(markup=False)

    def follow(self, view: DiffSurface, title: Content) -> None:
        """Show the position of a view, after a title."""
        parts = [title]
        if view.diffs:
            row = view.cursor.row
            diff = view.diffs[min(view.cursor.file, len(view.diffs) - 1)]
            line = ""
            if isinstance(row, LineRow):
                number = row.new if row.new is not None else row.old
                line = f":{number + 1}" if number is not None else ""
            parts.append(Content.assemble((display(diff.change.path).text, "bold $foreground"), line))
            if len(view.diffs) > 1:
                parts.append(Content(f"file {view.cursor.file + 1} of {len(view.diffs)}"))
            hunks = view.rows.landmarks.hunks
            if hunks:
                # As long as not everything is laid out, it isn't known how many are in files that are closed.
                total = len(hunks) if view.rows.complete else sum(len(diff.change.hunks) for diff in view.diffs)
                parts.append(Content(f"hunk {max(1, bisect_right(hunks, view.cursor.number)):,} of {total:,}"))
            missing, of = view.on_screen.unseen.count(min(view.cursor.file, len(view.diffs) - 1))
            if missing and diff.change.hunks and view.sheet.scene.undecided and not view.sheet.versions:
                parts.append(Content.styled(f"{missing:,} of {of:,} unseen", "$text-warning"))
            if view.rows.complete:
                total = view.rows.height
                end = min(total, view.scroll_offset.y + view.size.height)
                all_of_it = end >= total and not view.scroll_offset.y
                parts.append(Content("all" if all_of_it else f"{100 * end // total} %"))
            if view.search.query:
                count = "searching …" if view.search.running else _count(view)
                parts.append(Content.styled(f"“{display(view.search.query).text}” {count}", "$text-warning"))
        # One line whatever it says, so nothing has to be laid out anew.
        self.update(Content("  ").join(part for part in parts if part.plain), layout=False)


def _count(view: DiffSurface) -> str:
    lines = len(view.search.found)
    if view.search.current is not None and lines:
        return f"{view.search.current + 1:,} of {lines:,}"
    return plural(lines, "line")
