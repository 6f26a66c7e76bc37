"""A program that scrolls through a large change, and prints its peak memory in megabytes.

`python -P -m tests.benchmarks.review_program view|prototype CHANGED_LINES`: in the diff pane or the prototype.
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
    def __init__(self, kind: str, changed_lines: int) -> None:
        super().__init__()
        self.diffs = blocks(3 * changed_lines)
        self.pane = DiffPane() if kind == "view" else LinePrototype(self.diffs)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return make_diff_variable_defaults(self.current_theme)

    def compose(self) -> ComposeResult:
        yield self.pane

    def on_mount(self) -> None:
        if isinstance(self.pane, DiffPane):
            self.pane.view.show_change(proposal("P1", self.diffs), self.diffs)


async def walk(app: ReviewProgram) -> None:
    async with app.run_test(size=SIZE) as pilot:
        shown: ScrollView = app.pane.view if isinstance(app.pane, DiffPane) else app.pane
        await shown.workers.wait_for_complete()
        await pilot.pause()
        while shown.scroll_offset.y < shown.max_scroll_y:
            shown.scroll_relative(y=PAGES_AT_ONCE * SIZE[1], animate=False)
            await shown.wait_for_refresh()
        await shown.workers.wait_for_complete()


if __name__ == "__main__":
    asyncio.run(walk(ReviewProgram(sys.argv[1], int(sys.argv[2]))))
    # `getrusage` is not used: its value starts at the peak of the parent process.
    match = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert match is not None
    print(int(match[1]) / 1024)
