"""The content of the diff preview and its layout for a width: a change, plain lines, or a message."""

from collections.abc import Mapping, Sequence

from textual.geometry import Size

from app.copies import replace
from app.proposals.values.models import FileDiff, Hunk, Proposal, ProposalState
from app.review.hunk_lines import hunk_line_numbers
from widgets.diff.diff_arrangement import DiffComment, DiffFoldState, arrange_diffs
from widgets.diff.diff_layout import DiffLayout
from widgets.diff.diff_rows import HUNK_HEAD_KINDS, LineRow, NoteRow, Row, SourceLinePosition
from widgets.diff.display_cells import widest_line_width
from widgets.diff.file_facts import misleading_text_warning_notes, proposal_notes
from widgets.diff.line_marks import DiffLineMarks
from widgets.diff.render_context import RenderContext
from widgets.diff.syntax_tokens import LazySyntaxTokens
from widgets.diff.white_space import HideableWhitespaceChanges

MIN_SPLIT_WIDTH = 140
"""Minimum width in columns for side-by-side view, unless the user chose a view."""

_UNDECIDED_STATES = (ProposalState.PENDING, ProposalState.PARTLY_APPROVED)

_MAX_LINES_BEFORE_FRAME = 2_000
"""Maximum number of terminal lines that are laid out and measured before the first frame."""

LAYOUT_SLICE_SECONDS = 0.004
"""Seconds per step of a layout."""


class DiffModel:
    """Holds the shown diff and its view settings, and computes its layout."""

    def __init__(self) -> None:
        self.proposal: Proposal | None = None
        self.diffs: tuple[FileDiff, ...] = ()
        self.is_comparing_versions = False
        """Whether the diffs are between two versions of the proposal."""
        self.plain_text = False
        """Whether plain lines are shown, without a cursor."""
        self.message = ""
        """Message in the middle of an empty preview."""
        self.comments: tuple[DiffComment, ...] = ()
        self.notes: tuple[NoteRow, ...] = ()
        """Notes above the first file, below those of the proposal."""
        self.fold_state = DiffFoldState()
        self.split_wanted: bool | None = None
        """Whether the user wants side-by-side view; None means that the width decides."""
        self.wrap = False
        """Whether long lines wrap."""
        self.shows_white_space = True
        """Whether changes of white space without meaning are shown."""
        self.space_key = ""
        """Name of the key that toggles `shows_white_space`, for notes."""
        self.hidden_space: HideableWhitespaceChanges | None = None
        """Changes that can be hidden; None until they are computed."""
        self.active_hidden_space = HideableWhitespaceChanges()
        """Changes that are hidden now."""
        self.render_context = RenderContext()
        self.rows = DiffLayout()
        self._new_file_numbers: Mapping[int, int] = {}
        """New file number for each old file number of the previous diffs."""
        self._change_notes: tuple[NoteRow, ...] = ()
        self._widest_line_cells = 0

    # Content

    def show_change(self, proposal: Proposal, diffs: Sequence[FileDiff], *, versions: bool) -> None:
        """Show a change; keep folds and position, even if the order of files differs."""
        new_numbers = {diff.change.path: number for number, diff in enumerate(diffs)}
        self._new_file_numbers = {
            number: new_numbers[diff.change.path]
            for number, diff in enumerate(self.diffs)
            if diff.change.path in new_numbers
        }
        self.fold_state = self.fold_state.renumber_files(self._new_file_numbers)
        self.proposal, self.diffs, self.is_comparing_versions = proposal, tuple(diffs), versions
        self.hidden_space = None
        self.message, self.plain_text = "", False
        self._change_notes = (
            *misleading_text_warning_notes(diff.change for diff in self.diffs),
            *proposal_notes(proposal),
        )
        shown = self.diffs
        max_line_count = max((max(len(diff.old), len(diff.new)) for diff in shown), default=1)
        self.render_context = RenderContext(
            diffs=shown,
            marks=DiffLineMarks(shown),
            syntax=LazySyntaxTokens(shown),
            digits=max(3, len(str(max_line_count))),
            left_out=self.render_context.left_out,
            undecided=not versions and proposal.state in _UNDECIDED_STATES,
            undone=proposal.state is ProposalState.UNDONE,
            query=self.render_context.query,
        )
        self._widest_line_cells = 0

    def fold_generated(self) -> None:
        """Fold generated files and lock files, unless there are no others."""
        generated = frozenset(number for number, diff in enumerate(self.diffs) if diff.is_sorted_last)
        if len(generated) < len(self.diffs):
            self.fold_state = replace(self.fold_state, collapsed=self.fold_state.collapsed | generated)

    def show_message(self, message: str = "", plain_text: Sequence[NoteRow] | None = None) -> None:
        """Show a message or plain lines instead of a change."""
        self.proposal, self.diffs, self.is_comparing_versions = None, (), False
        self.message, self.plain_text = message, plain_text is not None
        self._change_notes, self.notes = (), tuple(plain_text or ())
        self.forget_view_state()

    def forget_view_state(self) -> None:
        """Forget the folds, comments and render state of the previous change."""
        self.comments = ()
        self.fold_state = DiffFoldState()
        self.render_context = RenderContext()
        self.hidden_space = None

    def is_showing(self, proposal: Proposal) -> bool:
        """Return whether this proposal is shown."""
        return self.proposal is not None and self.proposal.id == proposal.id and bool(self.diffs)

    def row_in_new_diffs(self, row: Row | None, hunk: Hunk | None = None) -> Row | None:
        """Return the row in the current diffs for a row of the previous ones; None if its file is gone.

        `hunk` is the one of the row, as it was before.
        """
        if row is not None and row.file >= 0:
            if row.file not in self._new_file_numbers:
                return None
            row = row._replace(file=self._new_file_numbers[row.file])
        if not isinstance(row, LineRow) or row.hunk is None or row.file >= len(self.diffs):
            return row
        if hunk is not None:
            # A re-base moves the hunk.
            present = next((each for each in self.diffs[row.file].change.hunks if each.id == hunk.id), hunk)
            old, new = present.old_start - hunk.old_start, present.new_start - hunk.new_start
            row = row._replace(
                old=None if row.old is None else row.old + old, new=None if row.new is None else row.new + new
            )
        for number, present in enumerate(self.diffs[row.file].change.hunks):
            if row.newest.line in hunk_line_numbers(present, row.newest.side):
                return row._replace(hunk=number)
        return row

    def long_lines_of(self, row: LineRow) -> frozenset[SourceLinePosition]:
        """Return the lines of a row that are shortened, or that the user has opened."""
        lines = frozenset(SourceLinePosition(row.file, side, line) for side, line in row.lines)
        are_shortened = any(self.render_context.visible_spans(row, side, line) for _, side, line in lines)
        return lines if are_shortened or lines & self.fold_state.lines else frozenset()

    # Layout

    def is_split(self, width: int) -> bool:
        """Return whether the view is side by side at a width."""
        return width >= MIN_SPLIT_WIDTH if self.split_wanted is None else self.split_wanted

    def lay_out(self, size: Size, row: Row | None) -> int:
        """Lay out again, as far as visible and down to `row` if given; return the number of that row, else 0."""
        if not size.width:
            # Without a width, nothing can be drawn; the first resize lays out.
            self.rows = DiffLayout()
            return 0
        context = self.render_context
        self.fold_state = replace(self.fold_state, split=self.is_split(size.width))
        context.width, context.split, context.wrap = size.width, self.fold_state.split, self.wrap
        context.collapsed, context.opened = self.fold_state.collapsed, self.fold_state.lines
        self.active_hidden_space = self._compute_active_hidden_space()
        context.marks.limit_to_parts(self.active_hidden_space.parts)
        self.rows = arrange_diffs(
            self.diffs,
            self.fold_state,
            notes_above=(*self._change_notes, *self.notes),
            comments=self.comments,
            hidden_space=self.active_hidden_space,
            notes_by_file=self.active_hidden_space.notes(self.diffs, self.space_key),
            count_terminal_lines=context.height_of,
            fits=context.all_fit_on_one_row if self.wrap else None,
        )
        # Lay out the visible rows first; then continue for a short time, which completes short changes.
        self.rows.lay_out_more(lines=2 * size.height)
        self.rows.lay_out_more(lines=_MAX_LINES_BEFORE_FRAME, seconds=LAYOUT_SLICE_SECONDS)
        number = 0 if row is None else self.rows.find_equal_row(row) or 0
        if row is not None and self.rows.row_count:
            self.rows.lay_out_more(lines=self.rows.first_line_of_row(self.rows.nearest_row(number)) + 2 * size.height)
        return number

    def _compute_active_hidden_space(self) -> HideableWhitespaceChanges:
        """Return the changes to hide; hunks that the user has opened or commented on are shown."""
        if self.shows_white_space or self.hidden_space is None:
            return HideableWhitespaceChanges()
        commented_lines = [comment.line for comment in self.comments if comment.kind not in HUNK_HEAD_KINDS]
        return self.hidden_space.without_hunks(self.diffs, self.fold_state.spaces, commented_lines)

    def is_hidden_space_change(self, line: SourceLinePosition, hunk: int) -> bool:
        """Return whether a changed line of a hunk is shown as context, or folded into one row."""
        parts = self.active_hidden_space.parts.get((line.file, hunk))
        return parts is not None and not any(line.line in hunk_line_numbers(part, line.side) for part in parts)

    def first_hunk_row(self) -> int:
        """Return the first row of the first hunk; 0 without hunks."""
        hunks = self.rows.landmarks.hunks
        while not hunks and not self.rows.complete:
            self.rows.lay_out_more(lines=self.rows.height + _MAX_LINES_BEFORE_FRAME)
        return hunks[0] if hunks else 0

    @property
    def is_short(self) -> bool:
        """Return whether the change was laid out and measured completely before the first frame."""
        return self.rows.complete and self.rows.row_count <= _MAX_LINES_BEFORE_FRAME

    def measure_line_widths(self) -> None:
        """Measure the width of the lines that are laid out before the first frame."""
        if self.wrap or self.is_short:
            self._widest_line_cells = 0
        if not self.wrap:
            segments = self.rows.segments_between(0, _MAX_LINES_BEFORE_FRAME)
            pieces = (segment.slice_rows(0, min(segment.rows, _MAX_LINES_BEFORE_FRAME)) for segment in segments)
            self.record_line_width(widest_line_width(self.diffs, pieces))

    def record_line_width(self, cells: int) -> None:
        """Record the width of a line of source, in cells."""
        self._widest_line_cells = max(self._widest_line_cells, cells)

    @property
    def size(self) -> Size:
        """Return the content size in cells and terminal lines."""
        context = self.render_context
        other_cells = context.width - context.code_width
        line_cells = other_cells + self._widest_line_cells if self._widest_line_cells else 0
        return Size(max(context.width, line_cells), self.rows.height)
