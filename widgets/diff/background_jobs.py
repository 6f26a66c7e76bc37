"""Background work on the shown change: moved lines, white space, and the rest of the layout."""

import asyncio
from collections.abc import Sequence
from functools import partial

from app.proposals.values.models import FileDiff
from app.review.hunk_lines import removed_and_added_lines
from widgets.diff.diff_cursor import DiffViewInterface, Job
from widgets.diff.diff_layout import DiffLayout
from widgets.diff.diff_model import LAYOUT_SLICE_SECONDS, DiffModel
from widgets.diff.display_cells import widest_line_width
from widgets.diff.line_marks import find_moved_lines
from widgets.diff.render_context import RenderContext
from widgets.diff.white_space import find_hideable_whitespace_changes

_MAX_SMALL_CHANGE_LINES = 400
"""Maximum number of changed lines for which moved lines are found at once, without a thread."""

_MAX_AVERAGE_LINE_CHARACTERS = 200
"""Maximum average number of characters in these lines."""

_LAYOUT_PAUSE_SECONDS = 0.004
"""Pause between two steps of a layout, in seconds, for keys and frames."""


class DiffBackgroundJobs:
    """Runs the diff view's background work: moved lines, white space, syntax colours, rest of the layout."""

    def __init__(self, model: DiffModel, view: DiffViewInterface) -> None:
        self._model = model
        self._view = view
        self._waiting_jobs: dict[str, Job] = {}
        self._lexed_context: RenderContext | None = None

    def find_moved_lines(self) -> None:
        """Find the moved lines of the shown change; at once for a small change, else in a job."""
        self._waiting_jobs.clear()
        context = self._model.render_context
        if _is_small(context.diffs):
            context.marks.moved = find_moved_lines(context.diffs)
        else:
            self._waiting_jobs["inspect"] = partial(self._find_moved_lines_in_thread, context)
        self.find_space_changes()

    def find_space_changes(self) -> None:
        """Find the white space changes to hide; at once for a small change, else in a job."""
        model = self._model
        if model.shows_white_space or model.hidden_space is not None:
            return
        if _is_small(model.diffs):
            model.hidden_space = find_hideable_whitespace_changes(model.diffs)
        else:
            self._waiting_jobs["spaces"] = partial(self._find_space_changes_in_thread, model.diffs)

    def finish_layout(self) -> None:
        """Request the rest of the current layout as a job."""
        self._waiting_jobs.pop("layout", None)
        if not self._model.is_short:
            self._waiting_jobs["layout"] = partial(self._lay_out_rest, self._model.rows)

    def has_work_after_frame(self) -> bool:
        """Return whether a job must start after this frame, for example for syntax colours."""
        context = self._model.render_context
        if context.syntax.has_requests and self._lexed_context is not context:
            self._lexed_context = context
            self._waiting_jobs["syntax"] = partial(self._lex_requested_parts, context)
        return bool(self._waiting_jobs and self._model.rows.row_count)

    def start_waiting_work(self) -> None:
        """Start the requested jobs."""
        for name, job in self._waiting_jobs.items():
            self._view.run_job(name, job)
        self._waiting_jobs.clear()

    async def _find_moved_lines_in_thread(self, context: RenderContext) -> None:
        moved = await asyncio.to_thread(find_moved_lines, context.diffs)
        if context is self._model.render_context and moved:
            context.marks.moved = moved
            self._view.redraw_lines()

    async def _find_space_changes_in_thread(self, diffs: Sequence[FileDiff]) -> None:
        hidden_space = await asyncio.to_thread(find_hideable_whitespace_changes, diffs)
        if diffs is self._model.diffs:
            self._model.hidden_space = hidden_space
            self._view.relayout()

    async def _lay_out_rest(self, layout: DiffLayout) -> None:
        """Lay out the remaining rows in small steps on the event loop, and measure the width of all rows."""
        model = self._model
        while layout is model.rows and not layout.complete:
            layout.lay_out_more(seconds=LAYOUT_SLICE_SECONDS)
            await asyncio.sleep(_LAYOUT_PAUSE_SECONDS)
        if layout is not model.rows:
            return
        self._view.handle_layout_growth()
        if not model.wrap:
            cells = await asyncio.to_thread(widest_line_width, model.diffs, layout.segments)
            if layout is model.rows:
                model.record_line_width(cells)
                self._view.handle_layout_growth()

    async def _lex_requested_parts(self, context: RenderContext) -> None:
        while context is self._model.render_context and await context.syntax.lex_requested_parts():
            self._view.redraw_lines()
        if self._lexed_context is context:
            self._lexed_context = None


def _is_small(diffs: Sequence[FileDiff]) -> bool:
    """Return whether a change is small enough to examine without a thread."""
    texts = (text for diff in diffs for hunk in diff.change.hunks for text in removed_and_added_lines(diff, hunk))
    if sum(diff.change.added + diff.change.removed for diff in diffs) > _MAX_SMALL_CHANGE_LINES:
        return False
    return sum(sum(map(len, text)) for text in texts) <= _MAX_SMALL_CHANGE_LINES * _MAX_AVERAGE_LINE_CHARACTERS
