"""What the drawing of a diff depends on, apart from the row that is drawn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.style import Style

from app.proposals.models import FileDiff, HunkState
from widgets.diff.marks import Marks
from widgets.diff.rows import LineRow, Side
from widgets.diff.syntax import Syntax

StyleOf = Callable[[tuple[str, ...]], Style]
"""The Rich style of component classes laid over each other."""


@dataclass(slots=True)
class Scene:
    """All that a row's looks depend on, apart from the row itself."""

    diffs: Sequence[FileDiff] = ()
    marks: Marks = field(default_factory=lambda: Marks(()))
    syntax: Syntax = field(default_factory=lambda: Syntax(lambda file: "", lambda file, side: ()))
    width: int = 0
    """Cells of the whole row."""
    split: bool = False
    wrap: bool = False
    scroll: int = 0
    """Cells scrolled to the right."""
    digits: int = 3
    """Cells of a line number."""
    left_out: frozenset[str] = frozenset()
    """Ids of hunks that an approval would not write."""
    undecided: bool = True
    """Whether the proposal still waits."""
    undone: bool = False
    """Whether what was applied of it was taken back."""
    collapsed: frozenset[int] = frozenset()
    query: str = ""
    """What is searched for; lower-case text matches both cases."""
    found: tuple[int, Side, int] | None = None
    """The line of the current match."""

    @property
    def gutter(self) -> int:
        """Cells before the code; before the left code, when side by side."""
        return self.digits + 5 if self.split else 2 * self.digits + 6

    @property
    def code_width(self) -> int:
        """Cells for code, on one side."""
        if not self.split:
            return max(1, self.width - self.gutter)
        return max(1, (self.width - 2 * self.gutter + 1) // 2)

    @property
    def room(self) -> int:
        """Cells for a remark of the user or of the program."""
        return max(8, self.width - 8)

    def left_out_row(self, row: LineRow) -> bool:
        """Whether an approval would not write this row, because its hunk is left out or was denied."""
        if row.hunk is None:
            return False
        hunk = self.diffs[row.file].change.hunks[row.hunk]
        if hunk.state is HunkState.DENIED:
            return True
        return hunk.state is HunkState.PENDING and self.undecided and hunk.id in self.left_out

    def line(self, file: int, side: Side, number: int) -> str:
        """A line of source."""
        diff = self.diffs[file]
        return diff.old[number] if side == "old" else diff.new[number]
