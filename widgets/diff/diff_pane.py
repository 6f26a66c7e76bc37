"""The diff preview with its position bar, minimap, search line, and comment field."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import ClassVar

from rich.segment import Segment
from textual import events, on
from textual.app import ComposeResult
from textual.content import Content
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from app.proposals.values.models import FileDiff, Proposal
from app.review.unfinished_review import UnsentComment, move_comment_to_revision
from app.text.quantities import format_count
from widgets.common.containers import Column, Row
from widgets.common.figures import RankedLinePart, join_parts, select_fitting_parts
from widgets.diff.diff_arrangement import DiffComment
from widgets.diff.diff_layout import DiffLayout
from widgets.diff.diff_rows import LineRow, SourceLinePosition, SplitSegment, UnifiedSegment
from widgets.diff.diff_search import MatchingLine, SearchBar
from widgets.diff.diff_view import DiffView
from widgets.diff.display_cells import display_text
from widgets.diff.file_list import FileList
from widgets.diff.writing_field import WritingField

_ADDED, _REMOVED, _MATCH, _COMMENT, _REASON = 1, 2, 4, 8, 16
_MAX_CELL_SEGMENTS = 500
"""Maximum number of segments examined for one cell."""
_MAX_MAP_MATCHES = 2_000
"""Maximum number of matches on the map; more matches are sampled evenly."""
_MAP_MARKS = (
    (_MATCH, "◆", "diff--map-match"),
    (_REASON, "!", "diff--map-reason"),
    (_COMMENT, "▪", "diff--map-comment"),
    (_ADDED | _REMOVED, "█", "diff--map-changed"),
    (_ADDED, "▐", "diff--map-added"),
    (_REMOVED, "▌", "diff--map-removed"),
)
"""Bits, sign and component class of the marks on the minimap; the first one that applies is shown."""


def minimap_cell_change_flags(layout: DiffLayout, height: int) -> list[int]:
    """Return for each cell of the minimap, as bits, whether it has added lines, removed lines or comments."""
    total = max(layout.height, height)
    if not height:
        return []
    firsts = [-(-cell * total // height) for cell in range(height + 1)]
    cells = [_change_bits(layout, first, last) for first, last in pairwise(firsts)]
    _mark_rows(cells, layout, layout.landmarks.comments, _COMMENT)
    return cells


def _mark_rows(cells: list[int], layout: DiffLayout, rows: Iterable[int], bit: int) -> None:
    """Set a bit in the minimap's cells of these rows."""
    total = max(layout.height, len(cells))
    for row in rows:
        cells[layout.first_line_of_row(row) * len(cells) // total] |= bit


def rows_of_risky_hunks(layout: DiffLayout, diffs: Sequence["FileDiff"]) -> Iterator[int]:
    """Yield the rows of hunks, or of whole files, that need attention."""
    landmarks = layout.landmarks
    rows = dict(zip(landmarks.hunk_keys, landmarks.hunks, strict=True))
    for file, diff in enumerate(diffs[: len(landmarks.files)]):
        risks = [reason for reason in diff.reasons if reason.kind.is_risk]
        numbers = {hunk.id: number for number, hunk in enumerate(diff.change.hunks)} if risks else {}
        for reason in risks:
            for place in reason.places or (None,):
                number = -1 if place is None else numbers.get(place.hunk, -1)
                yield rows.get((file, number), landmarks.files[file])


def _change_bits(layout: DiffLayout, top: int, bottom: int) -> int:
    """Return as bits whether the terminal lines `top` to `bottom` show added or removed lines."""
    bits = 0
    for first, last, segment in islice(layout.segments_with_lines(top, bottom), _MAX_CELL_SEGMENTS):
        if isinstance(segment, UnifiedSegment):
            removed = max(0, min(segment.old_count - segment.offset, segment.rows))
            middle = first + (last - first) * removed // max(1, segment.rows)
            bits |= _REMOVED if first < min(middle, bottom) and top < middle else 0
            bits |= _ADDED if max(middle, top) < min(last, bottom) else 0
        elif isinstance(segment, SplitSegment):
            bits |= _REMOVED if segment.old_count else 0
            bits |= _ADDED if segment.new_count else 0
        if bits == _ADDED | _REMOVED:
            break
    return bits


class MiniMap(Widget):
    """Shows the positions of changes; a click or a drag scrolls there."""

    DEFAULT_CSS = """
    MiniMap {
        width: 1;
        height: 1fr;
        background: $background;
        pointer: default;
    }
    """
    ALLOW_SELECT: ClassVar[bool] = False

    def __init__(self, view: DiffView) -> None:
        super().__init__()
        self.view = view
        self._cells: list[int] = []
        self._map_state: tuple[DiffLayout, int, Sequence[MatchingLine], bool] | None = None
        self._mapped_diffs: Sequence[FileDiff] = ()
        self._dragging = False
        self._drawn_visible_cells = (0, 0)

    def update_from_view(self) -> None:
        """Redraw if the layout or the visible part has changed."""
        if self._is_outdated or self._drawn_visible_cells != self._visible_cells:
            self.refresh()

    @property
    def _is_outdated(self) -> bool:
        view = self.view
        if not view.layout_rows.complete and self._mapped_diffs is view.diffs:
            # Folds of a long change were opened or closed: keep the old map until the new layout is complete.
            return False
        state = self._map_state
        return (
            state is None
            or state[0] is not view.layout_rows
            or state[1] != self.size.height
            or state[2] is not view.search.matches
            or state[3] != view.layout_rows.complete
        )

    @property
    def _has_no_colours(self) -> bool:
        """Return whether the theme has no background colour for the visible part."""
        return self.view.has_pseudo_class("ansi") or self.view.has_pseudo_class("nocolor")

    @property
    def _visible_cells(self) -> tuple[int, int]:
        """Return the range of cells of the visible part; empty if everything is visible."""
        view, height = self.view, self.size.height
        if view.layout_rows.height <= view.size.height:
            return 0, 0
        total = max(view.layout_rows.height, height, 1)
        first = view.scroll_offset.y * height // total
        return first, first + max(1, view.size.height * height // total)

    def render_line(self, y: int) -> Strip:
        view = self.view
        if self._is_outdated:
            self._map_state = (view.layout_rows, self.size.height, view.search.matches, view.layout_rows.complete)
            self._mapped_diffs = view.diffs
            self._cells = self._map_cells()
        self._drawn_visible_cells = first, last = self._visible_cells
        bits = self._cells[y] if y < len(self._cells) else 0
        is_visible = first <= y < last
        default = (0, "┊" if is_visible and self._has_no_colours else " ", "")
        _, glyph, name = next((mark for mark in _MAP_MARKS if bits & mark[0] == mark[0]), default)
        classes = filter(None, ("diff--map", "diff--map-view" if is_visible else "", name))
        return Strip([Segment(glyph, view.get_visual_style(*classes).rich_style)], 1)

    def _map_cells(self) -> list[int]:
        """Return the cells of the minimap, with the rows that need attention and the matches of the search."""
        layout, matches = self.view.layout_rows, self.view.search.matches
        cells = minimap_cell_change_flags(layout, self.size.height)
        _mark_rows(cells, layout, rows_of_risky_hunks(layout, self.view.diffs), _REASON)
        shown_matches = matches[:: max(1, len(matches) // _MAX_MAP_MATCHES)]
        rows = [layout.find_equal_row(match.row) for match in shown_matches]
        _mark_rows(cells, layout, (row for row in rows if row is not None), _MATCH)
        return cells

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._dragging = True
        self.capture_mouse()
        self._scroll_to_cell(event.y)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragging:
            self._scroll_to_cell(event.y)

    def on_mouse_up(self, event: events.MouseUp) -> None:
        self._dragging = False
        self.release_mouse()

    def _scroll_to_cell(self, y: int) -> None:
        self.view.cursor.lay_out_all()
        height, total = max(1, self.size.height), self.view.layout_rows.height
        line = max(0, min(y, height - 1)) * max(total, height) // height
        self.view.scroll_to(y=max(0, line - self.view.size.height // 2), animate=False, immediate=True)


_PART_GAP = "  "
_MAX_QUERY_CHARACTERS = 20
"""Maximum characters of the query that are shown beside the count."""


class DiffStatusBar(Widget):
    """Shows a title, the change's origin, and the cursor's position in it: file, line, hunk, search matches."""

    DEFAULT_CSS = """
    DiffStatusBar {
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
        self._parts: list[RankedLinePart] = []

    def show_position(self, view: DiffView, title: Content, origin: Content) -> None:
        """Show the position of a view, after a title and the change's origin."""
        parts = [RankedLinePart(7, title), RankedLinePart(1, origin)]
        if view.diffs:
            parts += self._position_parts(view)
        if view.diffs and view.search.query:
            count = "searching …" if view.search.running else _match_count_text(view)
            parts.append(
                RankedLinePart(9, Content.styled(f"“{_shorten_query(view.search.query)}” {count}", "$text-warning"))
            )
        self._parts = [part for part in parts if part.content.plain]
        # The bar always has one line, so no new layout is needed.
        self.refresh()

    def render(self) -> Content:
        """Render the parts that fit; the search query and the file have the highest priority."""
        return join_parts(select_fitting_parts(self._parts, self.content_size.width, _PART_GAP), _PART_GAP)

    def _position_parts(self, view: DiffView) -> list[RankedLinePart]:
        """Return the parts about file, line, hunk, and scroll position."""
        row = view.cursor.row
        file_index = min(view.cursor.file_index, len(view.diffs) - 1)
        diff, has_several_files = view.diffs[file_index], len(view.diffs) > 1
        path = (display_text(diff.change.path).text, "bold $foreground")
        line_suffix = f":{row.newest.line + 1}" if isinstance(row, LineRow) else ""
        parts = [RankedLinePart(8, Content.assemble(path, line_suffix))]
        if has_several_files:
            parts.append(RankedLinePart(3, Content(f"file {file_index + 1} of {len(view.diffs)}")))
        if hunk_text := _hunk_position_text(view, file_index):
            parts.append(RankedLinePart(4, Content(hunk_text)))
        missing, total_lines = view.seen_recorder.unseen.count_unseen(file_index)
        # For a single file, the approval pane shows it.
        if (
            has_several_files
            and missing
            and diff.change.hunks
            and view.model.render_context.undecided
            and not view.model.is_comparing_versions
        ):
            parts.append(RankedLinePart(6, Content.styled(f"{missing:,} of {total_lines:,} unseen", "$text-warning")))
        if isinstance(row, LineRow) and (move_text := _move_text(view, row)):
            parts.append(RankedLinePart(5, Content(move_text)))
        if not view.model.shows_white_space:
            parts.append(RankedLinePart(5, Content.styled(_white_space_text(view), "$text-warning")))
        if view.layout_rows.complete:
            total = view.layout_rows.height
            end = min(total, view.scroll_offset.y + view.size.height)
            is_all_visible = end >= total and not view.scroll_offset.y
            parts.append(RankedLinePart(2, Content("all" if is_all_visible else f"{100 * end // total} %")))
        return parts


def _hunk_position_text(view: DiffView, file_index: int) -> str:
    """Return the position among the hunks: at or below a hunk of the file, or at its heading; else their number."""
    landmarks, keys = view.layout_rows.landmarks, view.layout_rows.landmarks.hunk_keys
    if not keys:
        return ""
    # While the layout is incomplete, the number of hunks in folded files is unknown.
    is_complete = view.layout_rows.complete
    total = len(keys) if is_complete else sum(len(diff.change.hunks) for diff in view.diffs)
    position = bisect_right(landmarks.hunks, view.cursor.number)
    if not position or keys[position - 1][0] < file_index:
        # The cursor is above the first hunk of the file.
        position += 1
    if position > len(keys) or keys[position - 1][0] > file_index:
        return format_count(total, "hunk")
    hunk = view.cursor.hunk
    # Files may be sorted in another order than the hunk numbers, which are used everywhere else.
    if hunk is not None and hunk.number != position:
        if total == 1:
            return f"hunk {hunk.number:,}, the only one"
        return f"hunk {hunk.number:,}, {position:,} of {total:,} from the top"
    return f"hunk {position:,} of {total:,}"


def _move_text(view: DiffView, row: LineRow) -> str:
    """Return the source or target of a moved line as text; empty if the line was not moved."""
    line = row.newest
    other = view.model.render_context.marks.moved.get(line) if row.hunk is not None else None
    if other is None:
        return ""
    path = f"{display_text(view.diffs[other.file].change.path).text} " if other.file != line.file else ""
    return f"moved {'from' if line.side == 'new' else 'to'} {path}line {other.line + 1}"


def _white_space_text(view: DiffView) -> str:
    model = view.model
    if model.hidden_space is None:
        return "looking for white space …"
    count = model.active_hidden_space.hidden_line_count
    return f"white space off: {format_count(count, 'line')}" if count else "white space off"


def _shorten_query(query: str) -> str:
    text = display_text(query).text
    return text if len(text) <= _MAX_QUERY_CHARACTERS else text[: _MAX_QUERY_CHARACTERS - 1] + "…"


def _match_count_text(view: DiffView) -> str:
    lines = len(view.search.matches)
    if view.search.current is not None and lines:
        return f"{view.search.current + 1:,} of {lines:,}"
    return format_count(lines, "line")


class DiffPane(Column):
    """The diff view with its position bar, file list, minimap, search bar and comment field."""

    DEFAULT_CSS = """
    DiffPane {
        height: 1fr;
        & > Horizontal { height: 1fr; }
        DiffView { width: 1fr; height: 1fr; }
        /* Textual restyles the children on a change of focus only if a rule of the pane itself uses :focus-within. */
        &:focus-within { height: 1fr; }
        &:focus-within DiffStatusBar { background: $primary 30%; color: $foreground; }
        &:ansi:focus-within DiffStatusBar { background: ansi_blue; color: ansi_bright_white; }
    }
    """

    @dataclass
    class CommentEdited(Message):
        """The user wrote a comment on a line; an empty text removes the comment."""

        proposal: str
        path: str
        line: SourceLinePosition
        text: str
        saved: bool
        """Whether the comment is complete; otherwise it is a draft."""

    def __init__(self) -> None:
        super().__init__(id="diff-pane")
        self.view = DiffView(id="diff")
        self._title = self._origin = Content("")
        self._comments: tuple[DiffComment, ...] = ()
        self._drafts: tuple[DiffComment, ...] = ()
        self._findings: tuple[DiffComment, ...] = ()
        self._thread_marks: tuple[DiffComment, ...] = ()
        self._commented_line: tuple[str, str, SourceLinePosition] | None = None
        """Proposal, path and line of the comment in the field; the view may show another proposal meanwhile."""

    def compose(self) -> ComposeResult:
        yield DiffStatusBar()
        yield FileList(self.view)
        with Row():
            yield self.view
            yield MiniMap(self.view)
        yield SearchBar()
        yield WritingField("save the comment", id="comment")

    def on_resize(self) -> None:
        """Adapt the position and the file list."""
        self._update_position()

    def set_title(self, title: Content, origin: Content) -> None:
        """Set the title and origin shown before the position."""
        self._title, self._origin = title, origin
        self._update_position()

    def set_drafts(self, drafts: Sequence[DiffComment]) -> None:
        """Set the unsaved comments, which the field restores."""
        self._drafts = tuple(drafts)

    def set_comments(self, comments: Sequence[DiffComment]) -> None:
        """Show the user's comments."""
        self._comments = tuple(comments)
        self._show_comments()

    def set_findings(self, findings: Sequence[DiffComment]) -> None:
        """Show the findings of checks below the comments."""
        self._findings = tuple(findings)
        self._show_comments()

    def set_thread_marks(self, marks: Sequence[DiffComment]) -> None:
        """Show a mark for each side thread below its hunk."""
        if tuple(marks) != self._thread_marks:
            self._thread_marks = tuple(marks)
            self._show_comments()

    def _show_comments(self) -> None:
        self.view.set_comments((*self._comments, *self._findings, *self._thread_marks))

    @on(DiffView.ViewMoved)
    @on(DiffView.CameOnScreen)
    def _update_position(self) -> None:
        if self.is_mounted:
            self.query_one(DiffStatusBar).show_position(self.view, self._title, self._origin)
            self.query_one(MiniMap).update_from_view()
            self.query_one(FileList).update_from_view(self.size.height)

    # Files

    @on(DiffView.FilesWanted)
    def _go_to_files(self) -> None:
        files = self.query_one(FileList)
        if self.view.diffs:
            files.wanted = True
            files.update_from_view(self.size.height)
            self.screen.set_focus(files)

    @on(FileList.FocusLeft)
    def _leave_files(self) -> None:
        self.screen.set_focus(self.view)
        self.query_one(FileList).update_from_view(self.size.height)

    # Search

    @on(DiffView.SearchWanted)
    def _open_search(self) -> None:
        # A new search starts at the cursor, not at the last match.
        self.view.search.current = None
        self.query_one(SearchBar).open()

    @on(SearchBar.Typed)
    def _start_search(self, event: SearchBar.Typed) -> None:
        self.view.search.start(event.query)

    @on(SearchBar.Finished)
    def _end_search(self, event: SearchBar.Finished) -> None:
        self.screen.set_focus(self.view)
        if event.query:
            self.view.action_search_next()
        else:
            self.view.search.start("")

    # Comments

    @property
    def commented_proposal(self) -> str:
        """Return the id of the proposal for which a comment is being written; empty if none is."""
        is_open = self.query_one("#comment", WritingField).is_open
        return self._commented_line[0] if is_open and self._commented_line is not None else ""

    def close_comment_field(self) -> None:
        """Close the comment field after its text was sent."""
        self.query_one("#comment", WritingField).close()

    @on(DiffView.CommentWanted)
    def _open_comment(self, event: DiffView.CommentWanted) -> None:
        line, path = event.line, self.view.diffs[event.line.file].change.path
        proposal = self.view.proposal.id if self.view.proposal else ""
        self._commented_line = (proposal, path, line)
        texts = [comment.text for comment in (*self._drafts, *self._comments) if comment.line == line]
        field = self.query_one("#comment", WritingField)
        field.open(proposal, self._comment_title(path, line.line), texts[0] if texts else "")
        self.view.cursor.scroll_into_view()

    def _comment_title(self, path: str, line: int) -> Content:
        return Content.assemble("Comment on ", (f"{display_text(path).text}:{line + 1}", "$text-accent"))

    def move_comment(self, before: Proposal, after: Proposal) -> None:
        """Keep the comment that is being written on its line in another revision of its proposal."""
        if self._commented_line is not None and self.commented_proposal == after.id:
            _, path, line = self._commented_line
            moved = move_comment_to_revision(UnsentComment(path, line.side, line.line, ""), before, after)
            self._commented_line = (after.id, path, line._replace(side=moved.side, line=moved.line))
            self.query_one("#comment", WritingField).set_title(self._comment_title(path, moved.line))

    @on(WritingField.Typed, "#comment")
    def _post_comment_draft(self, event: WritingField.Typed) -> None:
        event.stop()
        self._post_comment(event.text, saved=False)

    @on(WritingField.Closed, "#comment")
    def _leave_comment_field(self) -> None:
        self.screen.set_focus(self.view)

    @on(WritingField.Sent, "#comment")
    def _save_comment(self, event: WritingField.Sent) -> None:
        event.stop()
        self.screen.set_focus(self.view)
        self._post_comment(event.text, saved=True)

    def _post_comment(self, text: str, *, saved: bool) -> None:
        if self._commented_line is not None:
            self.post_message(self.CommentEdited(*self._commented_line, text.strip(), saved))
