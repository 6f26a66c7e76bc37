"""An editor for source text with the syntax colours of the diff preview.

Textual's editor needs compiled grammars, an extra dependency, for its colours. This editor colours the lines on
screen with Pygments, in chunks of `CHUNK_LINES`. Opening and typing cost the same in a file of any length.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.strip import Strip
from textual.widgets import TextArea

from app.proposals.decide.conflicts import ConflictChoice, ConflictMarkerBlock, FileConflict
from widgets.common.text_colours import syntax_classes, syntax_css
from widgets.diff.syntax_tokens import MAX_LINE_CHARACTERS, StyledStretch, lex_lines

if TYPE_CHECKING:
    from widgets.vim.vim_keys import VimKeyHandler


CHUNK_LINES = 50
"""Number of lines that are coloured together."""
LEAD_LINES = 60
"""Number of lines above the chunk that the lexer also reads, so that it recognises an open string."""
_MAX_CACHED_CHUNKS = 60

_SEPARATOR_PATTERN = re.compile("\r(?!\n)|[\v\f\x1c-\x1e\x85\u2028\u2029]")
"""Line ends for Textual's editor that are not line ends in a file."""
_SEPARATOR_GLYPHS = {"\r": "␍", "\v": "␋", "\f": "␌", "\x1c": "␜", "\x1d": "␝", "\x1e": "␞"}
_PRIVATE_USE_CHARACTERS = range(0xE000, 0xF900)
"""Characters without a meaning (Unicode private use area)."""


class CodeEditor(TextArea):
    """Text area with line numbers and syntax colours by file name, without wrapping.

    Args:
        text: The source text.
        path: Path of the file; selects the lexer.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+home", "document_start", "To the beginning", show=False),
        Binding("ctrl+end", "document_end", "To the end", show=False),
        Binding("ctrl+underscore", "undo", "Undo", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = syntax_classes("code")
    DEFAULT_CSS = (
        """
    CodeEditor {
        border: none;
        padding: 0;
        background: $background;
        scrollbar-size: 1 1;
        &:focus { border: none; }
        & .text-area--gutter { color: $foreground 50%; }
        & .text-area--cursor-gutter { color: $text-accent; background: $foreground 8%; text-style: bold; }
        & .text-area--cursor-line { background: $foreground 5%; }
        &:ansi {
            & .text-area--selection { background: transparent; color: ansi_default; text-style: reverse; }
            & .text-area--cursor-line { background: transparent; }
            & .text-area--cursor-gutter { background: transparent; color: ansi_default; text-style: bold; }
        }
    """
        + syntax_css("code")
        + """
    }
    """
    )

    def __init__(self, text: str, path: str) -> None:
        self._glyphs = _choose_glyphs(text)
        shown = text.translate(self._glyphs)
        super().__init__(shown, show_line_numbers=True, tab_behavior="indent", soft_wrap=False)
        self._path = path
        self._lexed_chunks: OrderedDict[tuple[int, tuple[str, ...]], list[tuple[StyledStretch, ...]]] = OrderedDict()
        """By the lines that the lexer read, so that only changed chunks are coloured again."""
        self._styles_by_kind: dict[str, Style] = {}
        self._vim: VimKeyHandler | None = None

    @property
    def splits_alt_keys(self) -> bool:
        """Return whether Alt and a key are Escape and the key, as in vim."""
        return self._vim is not None

    @property
    def source(self) -> str:
        """Return the text with the original separators instead of their glyphs."""
        text = self.text
        for separator, glyph in self._glyphs.items():
            text = text.replace(glyph, chr(separator))
        return text

    @source.setter
    def source(self, text: str) -> None:
        """Load a text, without undo; line separators in it are shown as glyphs."""
        self._glyphs = _choose_glyphs(text)
        self.text = text.translate(self._glyphs)

    def replace_source(self, text: str) -> None:
        """Replace the whole text in one step that can be undone."""
        if any(glyph in text for glyph in self._glyphs.values()):
            # With other glyphs, `source` would be wrong after an undo.
            self.source = text
            return
        self._glyphs = _choose_glyphs(self.text + text, self._glyphs)
        row = self.cursor_location[0]
        self.history.checkpoint()
        self.replace(text.translate(self._glyphs), self.document.start, self.document.end)
        self.history.checkpoint()
        self.move_cursor((min(row, self.document.line_count - 1), 0))

    def use_vim(self, on_mode: Callable[[str], None]) -> None:
        """Use vim's keys from now on; `on_mode` is called with each new mode."""
        from widgets.vim.vim_keys import VimKeyHandler

        self._vim = VimKeyHandler(self, on_mode)
        self.handle_escape()

    @property
    def mode(self) -> str:
        """Return the label of the vim mode for the status line; empty without vim or in a read-only editor."""
        return self._vim.mode_label if self._vim is not None and not self.read_only else ""

    def handle_escape(self) -> bool:
        """Let vim's keys handle Escape; return whether they did."""
        return self._vim is not None and self._vim.handle_key(events.Key("escape", None))

    def on_key(self, event: events.Key) -> None:
        """Offer the key to vim's keys first."""
        if self._vim is not None and not self.read_only and event.key != "escape" and self._vim.handle_key(event):
            event.stop()
            event.prevent_default()

    def get_line(self, line_index: int) -> Text:
        """Return a line with its syntax colours."""
        line = super().get_line(line_index)
        if len(line.plain) <= MAX_LINE_CHARACTERS:
            for start, end, kind in self._syntax_stretches(line_index):
                line.stylize(self._syntax_style(kind), start, end)
        return line

    def get_component_rich_style(self, *names: str, partial: bool = False, default: Style | None = None) -> Style:
        """Return a style; for the cursor line, keep only the background, so that syntax colours stay."""
        style = super().get_component_rich_style(*names, partial=partial, default=default)
        return Style(bgcolor=style.bgcolor) if names == ("text-area--cursor-line",) else style

    def action_document_start(self) -> None:
        self.move_cursor((0, 0))

    def action_document_end(self) -> None:
        self.move_cursor(self.document.end)

    def notify_style_update(self) -> None:
        self._styles_by_kind = {}
        super().notify_style_update()

    def _syntax_stretches(self, line_index: int) -> tuple[StyledStretch, ...]:
        first = line_index - line_index % CHUNK_LINES
        lead_count = min(first, LEAD_LINES)
        document = self.document
        last = min(document.line_count, first + CHUNK_LINES)
        chunk_lines = tuple(document.get_line(index) for index in range(first - lead_count, last))
        key = (lead_count, chunk_lines)
        stretches = self._lexed_chunks.get(key)
        if stretches is None:
            stretches = self._lexed_chunks[key] = lex_lines(self._path, chunk_lines)[lead_count:]
            if len(self._lexed_chunks) > _MAX_CACHED_CHUNKS:
                self._lexed_chunks.popitem(last=False)
        return stretches[line_index - first]

    def _syntax_style(self, kind: str) -> Style:
        style = self._styles_by_kind.get(kind)
        if style is None:
            component_style = self.get_component_rich_style(kind.replace("diff--", "code--"))
            style = self._styles_by_kind[kind] = Style(
                color=component_style.color, bold=component_style.bold, italic=component_style.italic
            )
        return style


def _choose_glyphs(text: str, known: Mapping[int, str] = MappingProxyType({})) -> dict[int, str]:
    """Return the known glyphs, and one for each other separator in a text; the text does not contain the new ones."""
    glyphs = dict(known)
    for separator in sorted(set(_SEPARATOR_PATTERN.findall(text)) - set(map(chr, known))):
        candidates = (_SEPARATOR_GLYPHS.get(separator, "␤"), *map(chr, _PRIVATE_USE_CHARACTERS))
        glyphs[ord(separator)] = next(
            candidate for candidate in candidates if candidate not in text and candidate not in glyphs.values()
        )
    return glyphs


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
        super().__init__(conflict.text_with_choices(), conflict.path)
        self.show_line_numbers = False
        self.read_only = True
        self.highlight_cursor_line = False
        self._conflict = conflict
        self._styled_state: tuple[str, int] | None = None
        """The text and the cursor line for which the styles below are computed."""
        self._blocks: list[ConflictMarkerBlock] = []
        self._roles: dict[int, str] = {}
        """The component class of each line in a block."""
        self._marker_texts: dict[int, str] = {}
        """Text shown after a conflict marker, by line."""

    def show_conflict(self, conflict: FileConflict) -> None:
        """Show another conflict file."""
        self._conflict = conflict
        self.source = conflict.text_with_choices()

    @property
    def blocks(self) -> list[ConflictMarkerBlock]:
        """Return the conflicts that are still open."""
        self._update_blocks()
        return self._blocks

    @property
    def current_block(self) -> ConflictMarkerBlock | None:
        """Return the open conflict at the cursor, else the next one, else the last one."""
        row = self.cursor_location[0]
        blocks = self.blocks
        return next((block for block in blocks if block.end >= row), blocks[-1] if blocks else None)

    def go_to_conflict(self, step: int) -> None:
        """Move the cursor to the next open conflict, or to the previous one with -1."""
        row = self.cursor_location[0]
        if step > 0:
            target = next((block for block in self.blocks if block.start > row), None)
        else:
            target = next((block for block in reversed(self.blocks) if block.end < row), None)
        if target is not None:
            self.show_block(target)

    def show_block(self, block: ConflictMarkerBlock | None) -> None:
        """Move the cursor to a conflict and scroll its start near the top."""
        if block is not None:
            self.move_cursor((block.start, 0))
            self.scroll_to(x=0, y=max(0, block.start - 2), animate=False)

    def resolve_current_conflict(self, side: ConflictChoice) -> bool:
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
        self._update_blocks()
        return super().render_lines(crop)

    def get_line(self, line_index: int) -> Text:
        """Return a line in the colour of its side."""
        line = super().get_line(line_index)
        if (role := self._roles.get(line_index)) is not None:
            # The cursor may be behind the last character.
            line.pad_right(1)
            line.stylize(self._role_style(role))
        return line

    def render_line(self, y: int) -> Strip:
        """Extend the colour of a line to the edge; add a description to a marker."""
        strip = super().render_line(y)
        index = y + self.scroll_offset.y
        if (role := self._roles.get(index)) is None:
            return strip
        used_cells = cell_len(self.document.get_line(index).expandtabs(self.indent_width)) + 1 - self.scroll_offset.x
        marker_text = self._marker_texts.get(index, "") if self.read_only else ""
        rest = Segment(
            marker_text.ljust(max(0, strip.cell_length - used_cells)), self.rich_style + self._role_style(role)
        )
        return Strip([*strip.crop(0, max(0, used_cells)), rest]).adjust_cell_length(strip.cell_length)

    def _role_style(self, role: str) -> Style:
        """Return the style of a component class; keep syntax colours if the background marks the side."""
        component_style = self.get_component_rich_style(role)
        # A transparent background would show the background of the editor.
        background = component_style.bgcolor if self.get_component_styles(role).background.a else None
        keeps_colours = role in ("conflict--disk", "conflict--proposed") and background is not None
        colour = None if keeps_colours else component_style.color
        return Style(
            color=colour,
            bgcolor=background,
            bold=component_style.bold,
            italic=component_style.italic,
            reverse=component_style.reverse,
        )

    def _update_blocks(self) -> None:
        state = (self.text, self.cursor_location[0])
        if state == self._styled_state:
            return
        self._styled_state = state
        self._blocks = self._conflict.unresolved_blocks(state[0])
        current = self.current_block
        self._marker_texts = {}
        roles: dict[int, str] = {}
        for block in self._blocks:
            part = "-here" if block is current else "-marker"
            for side, first, end in (
                ("disk", block.start, block.base),
                ("base", block.base, block.proposed),
                ("proposed", block.proposed, block.end),
            ):
                roles |= dict.fromkeys(range(first + 1, end), f"conflict--{side}")
                roles[first] = f"conflict--{side}{part}"
            roles[block.end] = roles[block.proposed]
            key_hints = ("  d takes this", "   p takes this") if block is current else ("", "")
            self._marker_texts[block.start] = key_hints[0]
            self._marker_texts[block.proposed] = f"{self._conflict.labels.proposed}{key_hints[1]}"
        if roles != self._roles:
            self._roles = roles
            self.notify_style_update()
