"""A terminal program that shows a large change in the real diff pane or in the line prototype.

`python -P -m tests.benchmarks.review_program view|prototype CHANGED_LINES [walk]`

With `walk` it has no terminal: it scrolls through the whole change, and prints its peak memory.
"""

import asyncio
import re
import sys
from pathlib import Path

from textual.app import App, ComposeResult
from textual.scroll_view import ScrollView

from tests.benchmarks.line_prototype import LinePrototype
from tests.ui.sample_diffs import blocks, proposal
from widgets.diff.diff_colours import make_diff_variable_defaults
from widgets.diff.diff_pane import DiffPane

SIZE = (120, 40)

PAGES_AT_ONCE = 5
"""Number of pages in one scroll step, small enough that more rows are drawn than any cache keeps."""


class ReviewProgram(App[None]):
    """One focused widget."""

    def __init__(self, kind: str, changed_lines: int) -> None:
        super().__init__()
        self.kind = kind
        self.diffs = blocks(3 * changed_lines)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return make_diff_variable_defaults(self.current_theme)

    def compose(self) -> ComposeResult:
        yield DiffPane() if self.kind == "view" else LinePrototype(self.diffs)

    def on_mount(self) -> None:
        """Show the change."""
        if self.kind == "view":
            view = self.query_one(DiffPane).view
            view.show_change(proposal("P1", self.diffs), self.diffs)
        self.shown.focus()

    @property
    def shown(self) -> ScrollView:
        """The widget that draws the change."""
        return self.query_one(DiffPane).view if self.kind == "view" else self.query_one(LinePrototype)


async def walk(app: ReviewProgram) -> None:
    """Scroll through the whole change."""
    async with app.run_test(size=SIZE) as pilot:
        shown = app.shown
        await shown.workers.wait_for_complete()
        await pilot.pause()
        while shown.scroll_offset.y < shown.max_scroll_y:
            shown.scroll_relative(y=PAGES_AT_ONCE * SIZE[1], animate=False)
            await shown.wait_for_refresh()
        await shown.workers.wait_for_complete()


def peak_memory() -> float:
    """Return the peak resident memory of this process in megabytes."""
    # `getrusage` is not used: its value starts at the peak of the parent process.
    match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1]) / 1024


if __name__ == "__main__":
    program = ReviewProgram(sys.argv[1], int(sys.argv[2]))
    if "walk" in sys.argv:
        asyncio.run(walk(program))
        print(peak_memory())
    else:
        program.run()
