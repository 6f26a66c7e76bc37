"""An editor for source text with the syntax colours of the diff preview.

Textual colours its editor by compiled grammars, which are a dependency of their own. Here the lines on screen are
coloured by Pygments in stretches of some fifty lines, so neither opening nor typing costs more in a longer file.
"""

import re
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.widgets import TextArea

from widgets.common.text_colours import syntax_classes, syntax_css
from widgets.diff.syntax_tokens import LONGEST_LINE, Stretch, lex

if TYPE_CHECKING:
    from widgets.vim.vim_keys import VimKeys

STRETCH = 50
"""Lines that are coloured at a time."""
LEAD = 60
"""Lines above them that the lexer is shown, so that it knows when it begins inside of a string."""
_KEPT = 60

_SEPARATOR = re.compile("\r(?!\n)|[\v\f\x1c-\x1e\x85\u2028\u2029]")
"""What Textual's editor takes for the end of a line, and no file does."""
_GLYPHS = {"\r": "␍", "\v": "␋", "\f": "␌", "\x1c": "␜", "\x1d": "␝", "\x1e": "␞"}
_PRIVATE = range(0xE000, 0xF900)
"""Characters that stand for nothing (Unicode, private use area)."""


class CodeEditor(TextArea):
    """Text area with line numbers and syntax colours by file name, without wrapping.

    Args:
        path: Tells the language.
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
        self._glyphs = _glyphs_for(text)
        shown = text.translate(self._glyphs)
        super().__init__(shown, show_line_numbers=True, tab_behavior="indent", soft_wrap=False)
        self._path = path
        self._lexed: OrderedDict[tuple[int, tuple[str, ...]], list[tuple[Stretch, ...]]] = OrderedDict()
        """By the lines that the lexer was shown, so that only what was touched is coloured again."""
        self._colours: dict[str, Style] = {}
        self._vim: VimKeys | None = None

    @property
    def source(self) -> str:
        """The text with the separators for which `text` has glyphs."""
        text = self.text
        for separator, glyph in self._glyphs.items():
            text = text.replace(glyph, chr(separator))
        return text

    @source.setter
    def source(self, text: str) -> None:
        """The text, with line separators that `text` shows as glyphs."""
        self._glyphs = _glyphs_for(text)
        self.text = text.translate(self._glyphs)

    def use_vim(self, tell: Callable[[str], None]) -> None:
        """Use vim's keys from now on; `tell` is called with each new mode."""
        from widgets.vim.vim_keys import VimKeys

        self._vim = VimKeys(self, tell)
        self.take_escape()

    @property
    def mode(self) -> str:
        """Return the mode of vim's keys for the status line; empty without vim."""
        return self._vim.told if self._vim is not None and not self.read_only else ""

    def take_escape(self) -> bool:
        """Let vim's keys handle Escape; return whether they did."""
        return self._vim is not None and self._vim.take(events.Key("escape", None))

    def on_key(self, event: events.Key) -> None:
        """Offer a key to vim's keys first."""
        if self._vim is not None and not self.read_only and event.key != "escape" and self._vim.take(event):
            event.stop()
            event.prevent_default()

    def get_line(self, line_index: int) -> Text:
        """Return a line with its syntax colours."""
        line = super().get_line(line_index)
        if len(line.plain) <= LONGEST_LINE:
            for start, end, kind in self._spans(line_index):
                line.stylize(self._style(kind), start, end)
        return line

    def get_component_rich_style(self, *names: str, partial: bool = False, default: Style | None = None) -> Style:
        """Return a style; the cursor line keeps the colours of its code."""
        style = super().get_component_rich_style(*names, partial=partial, default=default)
        return Style(bgcolor=style.bgcolor) if names == ("text-area--cursor-line",) else style

    def action_document_start(self) -> None:
        """Move the cursor to the start of the text."""
        self.move_cursor((0, 0))

    def action_document_end(self) -> None:
        """Move the cursor to the end of the text."""
        self.move_cursor(self.document.end)

    def notify_style_update(self) -> None:
        """Drop colours of the previous theme."""
        self._colours = {}
        super().notify_style_update()

    def _spans(self, line_index: int) -> tuple[Stretch, ...]:
        first = line_index - line_index % STRETCH
        above = min(first, LEAD)
        document = self.document
        last = min(document.line_count, first + STRETCH)
        shown = tuple(document.get_line(index) for index in range(first - above, last))
        key = (above, shown)
        spans = self._lexed.get(key)
        if spans is None:
            spans = self._lexed[key] = lex(self._path, shown)[above:]
            if len(self._lexed) > _KEPT:
                self._lexed.popitem(last=False)
        return spans[line_index - first]

    def _style(self, kind: str) -> Style:
        style = self._colours.get(kind)
        if style is None:
            found = self.get_component_rich_style(kind.replace("diff--", "code--"))
            style = self._colours[kind] = Style(color=found.color, bold=found.bold, italic=found.italic)
        return style


def _glyphs_for(text: str) -> dict[int, str]:
    """A character for each separator in a text that the text does not have itself."""
    found: dict[int, str] = {}
    for separator in sorted(set(_SEPARATOR.findall(text))):
        candidates = (_GLYPHS.get(separator, "␤"), *map(chr, _PRIVATE))
        found[ord(separator)] = next(each for each in candidates if each not in text and each not in found.values())
    return found
