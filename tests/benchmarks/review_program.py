"""A program for a terminal that shows a large change: in the real diff pane, or in the line prototype.

`python -P -m tests.benchmarks.review_program view|prototype CHANGED_LINES`
"""

import sys

from textual.app import App, ComposeResult

from tests.benchmarks.line_prototype import LinePrototype
from tests.ui.sample_diffs import blocks, proposal
from widgets.diff.colours import diff_variable_defaults
from widgets.diff.pane import DiffPane


class ReviewProgram(App[None]):
    """One widget, with the focus."""

    def __init__(self, kind: str, changed_lines: int) -> None:
        super().__init__()
        self.kind = kind
        self.diffs = blocks(3 * changed_lines)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return diff_variable_defaults(self.current_theme)

    def compose(self) -> ComposeResult:
        yield DiffPane() if self.kind == "view" else LinePrototype(self.diffs)

    def on_mount(self) -> None:
        """Show the change."""
        if self.kind == "view":
            view = self.query_one(DiffPane).view
            view.show(proposal("P1", self.diffs), self.diffs)
            view.focus()
        else:
            self.query_one(LinePrototype).focus()


if __name__ == "__main__":
    ReviewProgram(sys.argv[1], int(sys.argv[2])).run()
