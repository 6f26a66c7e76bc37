"""Background work on the shown change: moved lines, white space, and the rest of the layout."""

import asyncio
from collections.abc import Sequence
from functools import partial

from app.proposals.values.models import FileDiff
from app.review.hunk_lines import hunk_texts
from widgets.diff.diff_cursor import DiffViewAccess, Job
from widgets.diff.diff_layout import DiffLayout
from widgets.diff.diff_model import LAYOUT_SLICE_SECONDS, DiffModel
from widgets.diff.display_cells import widest_line_width
from widgets.diff.line_marks import find_moved_lines
from widgets.diff.render_context import RenderContext
from widgets.diff.white_space import find_hidden_whitespace

_SMALL_CHANGE = 400
"""Maximum number of changed lines for which moved lines are found at once, without a thread."""

_SHORT_LINES = 200
"""Maximum average number of characters in these lines."""

_PAUSE = 0.004
"""Pause between two steps of a layout, in seconds, for keys and frames."""


class BackgroundJobs:
    """Runs background work on the shown change, with at most one job of each kind.

    Args:
        model: The model of the shown change.
        view: Runs the jobs, and is notified of their results.
    """

    def __init__(self, model: DiffModel, view: DiffViewAccess) -> None:
        self._sheet = model
        self._view = view
        self._waiting: dict[str, Job] = {}
        self._lexing: RenderContext | None = None

    def find_moved_lines(self) -> None:
        """Find the moved lines of the shown change; at once for a small change, else in a job."""
        self._waiting.clear()
        scene = self._sheet.render_context
        if _is_small(scene.diffs):
            scene.marks.moved = find_moved_lines(scene.diffs)
        else:
            self._waiting["inspect"] = partial(self._inspect, scene)
        self.find_space_changes()

    def find_space_changes(self) -> None:
        """Find the white space changes to hide; at once for a small change, else in a job."""
        sheet = self._sheet
        if sheet.shows_white_space or sheet.hidden_space is not None:
            return
        if _is_small(sheet.diffs):
            sheet.hidden_space = find_hidden_whitespace(sheet.diffs)
        else:
            self._waiting["spaces"] = partial(self._find_spaces, sheet.diffs)

    def finish_layout(self) -> None:
        """Request the rest of the current layout as a job."""
        self._waiting.pop("layout", None)
        if not self._sheet.is_short:
            self._waiting["layout"] = partial(self._lay_out_rest, self._sheet.rows)

    def has_work_after_frame(self) -> bool:
        """Return whether a job must start after this frame, for example for syntax colours."""
        scene = self._sheet.render_context
        if scene.syntax.has_requests and self._lexing is not scene:
            self._lexing = scene
            self._waiting["syntax"] = partial(self._lex, scene)
        return bool(self._waiting and self._sheet.rows.row_count)

    def start_waiting_work(self) -> None:
        """Start the requested jobs."""
        for name, job in self._waiting.items():
            self._view.run_job(name, job)
        self._waiting.clear()

    async def _inspect(self, scene: RenderContext) -> None:
        """Find the moved lines of a large change in a thread."""
        moved = await asyncio.to_thread(find_moved_lines, scene.diffs)
        if scene is self._sheet.render_context and moved:
            scene.marks.moved = moved
            self._view.redraw_lines()

    async def _find_spaces(self, diffs: Sequence[FileDiff]) -> None:
        """Find the whitespace-only changes of a large diff in a thread."""
        found = await asyncio.to_thread(find_hidden_whitespace, diffs)
        if diffs is self._sheet.diffs:
            self._sheet.hidden_space = found
            self._view.relayout()

    async def _lay_out_rest(self, layout: DiffLayout) -> None:
        """Lay out the remaining rows in small steps on the event loop, and measure the width of all rows."""
        sheet = self._sheet
        while layout is sheet.rows and not layout.complete:
            layout.lay_out_more(seconds=LAYOUT_SLICE_SECONDS)
            await asyncio.sleep(_PAUSE)
        if layout is not sheet.rows:
            return
        self._view.handle_layout_growth()
        if not sheet.wrap:
            cells = await asyncio.to_thread(widest_line_width, sheet.diffs, layout.segments)
            if layout is sheet.rows:
                sheet.record_line_width(cells)
                self._view.handle_layout_growth()

    async def _lex(self, scene: RenderContext) -> None:
        while scene is self._sheet.render_context and await scene.syntax.lex_requested_parts():
            self._view.redraw_lines()
        if self._lexing is scene:
            self._lexing = None


def _is_small(diffs: Sequence[FileDiff]) -> bool:
    """Return whether a change is small enough to examine without a thread."""
    texts = (text for diff in diffs for hunk in diff.change.hunks for text in hunk_texts(diff, hunk))
    few = sum(diff.change.added + diff.change.removed for diff in diffs) <= _SMALL_CHANGE
    return few and sum(sum(map(len, text)) for text in texts) <= _SMALL_CHANGE * _SHORT_LINES
