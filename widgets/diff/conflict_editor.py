"""An editor for a file with conflict markers: each side has a colour, and a choice replaces the block."""

from typing import ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.geometry import Region
from textual.strip import Strip

from app.proposals.decide.conflicts import ConflictSide, FileConflict, MarkedBlock
from widgets.diff.code_editor import CodeEditor


class ConflictEditor(CodeEditor):
    """Editor of conflicts, read-only until the user starts to type; without line numbers."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"conflict--{side}{part}" for side in ("disk", "base", "proposed") for part in ("", "-marker", "-here")
    }
    DEFAULT_CSS = """
    ConflictEditor {
        & > .conflict--disk { background: $secondary 16%; }
        & > .conflict--disk-marker { background: $secondary 28%; color: $foreground 75%; }
        & > .conflict--disk-here { background: $secondary 60%; color: $foreground; text-style: bold; }
        & > .conflict--base { color: $foreground 55%; text-style: italic; }
        & > .conflict--base-marker { background: $foreground 10%; color: $foreground 75%; }
        & > .conflict--base-here { background: $foreground 22%; color: $foreground; text-style: bold; }
        & > .conflict--proposed { background: $success 16%; }
        & > .conflict--proposed-marker { background: $success 28%; color: $foreground 75%; }
        & > .conflict--proposed-here { background: $success 60%; color: $foreground; text-style: bold; }
        &:ansi {
            & > .conflict--disk { background: transparent; color: ansi_blue; }
            & > .conflict--disk-marker { background: transparent; color: ansi_blue; }
            & > .conflict--disk-here { background: transparent; color: ansi_blue; text-style: bold reverse; }
            & > .conflict--base { color: ansi_default; text-style: italic; }
            & > .conflict--base-marker { background: transparent; color: ansi_default; }
            & > .conflict--base-here { background: transparent; color: ansi_default; text-style: bold reverse; }
            & > .conflict--proposed { background: transparent; color: ansi_green; }
            & > .conflict--proposed-marker { background: transparent; color: ansi_green; }
            & > .conflict--proposed-here { background: transparent; color: ansi_green; text-style: bold reverse; }
        }
    }
    """

    def __init__(self, conflict: FileConflict) -> None:
        super().__init__(conflict.text(), conflict.path)
        self.show_line_numbers = False
        self.read_only = True
        self.highlight_cursor_line = False
        self._conflict = conflict
        self._known: tuple[str, int] | None = None
        """The text and the line of the cursor for which the styles below hold."""
        self._blocks: list[MarkedBlock] = []
        self._roles: dict[int, str] = {}
        """The component class of each line in a block."""
        self._words: dict[int, str] = {}
        """What is shown behind a marker."""

    def show_conflict(self, conflict: FileConflict) -> None:
        """Show another conflict file."""
        self._conflict = conflict
        self.source = conflict.text()

    @property
    def blocks(self) -> list[MarkedBlock]:
        """Return the conflicts that are still open."""
        self._find_blocks()
        return self._blocks

    @property
    def current_block(self) -> MarkedBlock | None:
        """Return the open conflict at the cursor, else the next one, else the one before."""
        row = self.cursor_location[0]
        blocks = self.blocks
        return next((block for block in blocks if block.end >= row), blocks[-1] if blocks else None)

    def step(self, by: int) -> None:
        """Move the cursor to the next open conflict, or to the previous one with -1."""
        row = self.cursor_location[0]
        if by > 0:
            found = next((block for block in self.blocks if block.start > row), None)
        else:
            found = next((block for block in reversed(self.blocks) if block.end < row), None)
        if found is not None:
            self.show_block(found)

    def show_block(self, block: MarkedBlock | None) -> None:
        """Move the cursor to a conflict and scroll its start near the top."""
        if block is not None:
            self.move_cursor((block.start, 0))
            self.scroll_to(x=0, y=max(0, block.start - 2), animate=False)

    def choose(self, side: ConflictSide) -> bool:
        """Replace the open conflict at the cursor by one side or both; return whether there was one."""
        block = self.current_block
        if block is None:
            return False
        lines = list(block.region.lines(side))
        start, end = (block.start, 0), (block.end, len(self.document.get_line(block.end)))
        if not lines and block.end + 1 < self.document.line_count:
            end = (block.end + 1, 0)
        elif not lines and block.start:
            start = (block.start - 1, len(self.document.get_line(block.start - 1)))
        self.history.checkpoint()
        self.replace("\n".join(lines), start, end)
        self.history.checkpoint()
        self.move_cursor((min(block.start, self.document.line_count - 1), 0))
        self.show_block(self.current_block)
        return True

    def render_lines(self, crop: Region) -> list[Strip]:
        """Find the conflicts again if the text or the cursor has changed, and render."""
        self._find_blocks()
        return super().render_lines(crop)

    def get_line(self, line_index: int) -> Text:
        """Return a line in the colour of its side."""
        line = super().get_line(line_index)
        if (role := self._roles.get(line_index)) is not None:
            # The cursor may stand behind the last character.
            line.pad_right(1)
            line.stylize(self._style_of(role))
        return line

    def render_line(self, y: int) -> Strip:
        """Extend the colour of a line to the edge; add a description to a marker."""
        strip = super().render_line(y)
        index = y + self.scroll_offset.y
        if (role := self._roles.get(index)) is None:
            return strip
        used = cell_len(self.document.get_line(index).expandtabs(self.indent_width)) + 1 - self.scroll_offset.x
        words = self._words.get(index, "") if self.read_only else ""
        rest = Segment(words.ljust(max(0, strip.cell_length - used)), self.rich_style + self._style_of(role))
        return Strip([*strip.crop(0, max(0, used)), rest]).adjust_cell_length(strip.cell_length)

    def _style_of(self, role: str) -> Style:
        """The style of a component class, which leaves the colours of the syntax where the background is enough."""
        found = self.get_component_rich_style(role)
        # What is behind a transparent background is the editor's own.
        background = found.bgcolor if self.get_component_styles(role).background.a else None
        keeps_colours = role in ("conflict--disk", "conflict--proposed") and background is not None
        colour = None if keeps_colours else found.color
        return Style(color=colour, bgcolor=background, bold=found.bold, italic=found.italic, reverse=found.reverse)

    def _find_blocks(self) -> None:
        known = (self.text, self.cursor_location[0])
        if known == self._known:
            return
        self._known = known
        self._blocks = self._conflict.unresolved_blocks(known[0])
        here = self.current_block
        self._words = {}
        roles: dict[int, str] = {}
        for block in self._blocks:
            part = "-here" if block is here else "-marker"
            for side, first, end in (
                ("disk", block.start, block.base),
                ("base", block.base, block.proposed),
                ("proposed", block.proposed, block.end),
            ):
                roles |= dict.fromkeys(range(first + 1, end), f"conflict--{side}")
                roles[first] = f"conflict--{side}{part}"
            roles[block.end] = roles[block.proposed]
            takes = ("  d takes this", "   p takes this") if block is here else ("", "")
            self._words[block.start] = takes[0]
            self._words[block.proposed] = f"{self._conflict.labels.proposed}{takes[1]}"
        if roles != self._roles:
            self._roles = roles
            self.notify_style_update()
