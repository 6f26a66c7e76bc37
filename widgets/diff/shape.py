"""How the user wants to see a diff: side by side or not, and how much of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from app.proposals.models import Hunk
from widgets.diff.rows import SourceLine


@dataclass(frozen=True, slots=True)
class Shape:
    """What is open and what is folded; a change of it is another shape."""

    split: bool = False
    whole: bool = False
    """All unchanged stretches are open."""
    opened: frozenset[tuple[int, int]] = frozenset()
    """Folds whose state differs from `whole`: (file, gap)."""
    collapsed: frozenset[int] = frozenset()
    """Files of which only the head is shown."""
    lines: frozenset[SourceLine] = frozenset()
    """Long lines of which nothing is left out."""
    spaces: frozenset[str] = frozenset()
    """Ids of hunks that are shown with their white space, whatever the others are."""

    def turn_fold(self, file: int, gap: int) -> "Shape":
        """Open an unchanged stretch, or close it."""
        return replace(self, opened=self.opened ^ {(file, gap)})

    def turn_all(self) -> "Shape":
        """Show the whole files, or only what is around the hunks."""
        return replace(self, whole=not self.whole, opened=frozenset())

    def turn_file(self, file: int) -> "Shape":
        """Show the head of a file alone, or all of it."""
        return replace(self, collapsed=self.collapsed ^ {file})

    def turn_lines(self, lines: frozenset[SourceLine]) -> "Shape":
        """Show all of some long lines, or leave out of them again what hasn't changed."""
        return replace(self, lines=self.lines - lines if self.lines & lines else self.lines | lines)

    def with_spaces(self, hunk: str) -> "Shape":
        """Show the white space of a hunk, by its id."""
        return replace(self, spaces=self.spaces | {hunk})

    def renumbered(self, numbers: Mapping[int, int]) -> "Shape":
        """The same of files that stand in another order: the new number of each by the old one."""
        return replace(
            self,
            opened=frozenset((numbers[file], gap) for file, gap in self.opened if file in numbers),
            collapsed=frozenset(numbers[file] for file in self.collapsed if file in numbers),
            lines=frozenset(line._replace(file=numbers[line.file]) for line in self.lines if line.file in numbers),
        )

    def with_file(self, file: int) -> "Shape":
        """Show a file."""
        return replace(self, collapsed=self.collapsed - {file})

    def with_unchanged(self, line: SourceLine, hunks: Sequence[Hunk]) -> "Shape":
        """Show an unchanged line of the new text of a file with these hunks."""
        fold = {(line.file, sum(hunk.new_start <= line.line for hunk in hunks))}
        return replace(self, opened=self.opened - fold if self.whole else self.opened | fold).with_file(line.file)
