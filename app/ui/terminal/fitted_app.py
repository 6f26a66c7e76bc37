"""An app fitted to its terminal: the palette, safe output, and calls for attention."""

import sys
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache
from typing import Any

from rich.segment import Segment
from textual.app import App
from textual.color import Color
from textual.driver import Driver
from textual.filter import LineFilter
from textual.message import Message
from textual.strip import Strip
from textual.theme import Theme

from app.text.safe_text import is_plain, strip_unsafe
from app.ui.terminal.attention import Attention
from app.ui.themes.first_theme import fitting
from widgets.common.input_order import OrderedApp, mark_joined_keys
from widgets.diff.diff_colours import diff_variable_defaults


class UnsafeTextFilter(LineFilter):
    """Deletes characters that a terminal acts upon, or that reorder text, from everything that is drawn.

    Widgets show such characters as glyphs; what a widget forgets ends here. They have no width, so nothing moves.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments, each without unsafe characters."""
        if all(is_plain(segment.text, keep="") for segment in segments):
            return segments
        return [Segment(strip_unsafe(segment.text, keep=""), segment.style, segment.control) for segment in segments]


class _Together(LineFilter):
    """Applies several filters in turn, so that a row is rebuilt once."""

    def __init__(self, filters: Sequence[LineFilter]) -> None:
        super().__init__()
        self._filters = filters

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments as they may go to the terminal."""
        for one in self._filters:
            segments = one.apply(segments, background)
        return segments


@lru_cache(maxsize=8)
def together(filters: tuple[LineFilter, ...]) -> LineFilter:
    """Return a filter that applies these filters in turn; the same object for the same filters, for its cache."""
    return _Together(filters)


class FittedApp(OrderedApp):
    """Textual's hooks for the terminal, filled."""

    def __init__(self, theme: Theme) -> None:
        _free_strips_at_once()
        self.attention = Attention()
        self._first_theme = theme
        # There before Textual looks for one: with a theme that comes later all style sheets would be read twice.
        self.set_reactive(App.theme, theme.name)
        super().__init__()
        self.register_theme(theme)
        self.theme = fitting(theme.name, self.console.color_system)

    def get_theme(self, theme_name: str) -> Theme | None:
        """A theme by name; that of the first picture is known before it can be registered."""
        first = self._first_theme
        return super().get_theme(theme_name) or (first if theme_name == first.name else None)

    def get_driver_class(self) -> type[Driver]:
        """The platform's driver, which marks keys of one read, and through which attention is called for."""
        driver = super().get_driver_class()
        _join_reads(driver)
        return self.attention.listen_in(driver)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Defaults of the variables that our own style sheets use, mixed from the theme."""
        theme = self.get_theme(self.theme)
        return diff_variable_defaults(theme) if theme is not None else {}

    def get_css_variables(self) -> dict[str, str]:
        """The theme's variables, fitted to a terminal of 256 colours."""
        variables = super().get_css_variables()
        if self._has_palette:
            from app.ui.themes.palette_filter import with_tints

            variables = self.theme_variables = with_tints(variables, self.current_theme)
        return variables

    @property
    def _has_palette(self) -> bool:
        """Whether the terminal knows just 256 colours."""
        return self.console.color_system == "256"

    def get_line_filters(self) -> list[LineFilter]:
        """Textual's filters and our own, as one."""
        return [together((*super().get_line_filters(), *self._line_filters))]

    @cached_property
    def _line_filters(self) -> list[LineFilter]:
        """Return the filter that removes control characters, and the one for the palette."""
        filters: list[LineFilter] = [UnsafeTextFilter()]
        if self._has_palette:
            from app.ui.themes.palette_filter import PaletteFilter

            filters.append(PaletteFilter())
        return filters


def _join_reads(driver: type[Driver]) -> None:
    """Replace the parser of a driver's module by one that marks keys read together."""
    module: Any = sys.modules[driver.__module__]
    parser = getattr(module, "XTermParser", None)
    if parser is None or getattr(parser, "joins", False):
        return

    class JoiningParser(parser):  # type: ignore[misc, valid-type]
        """Textual's parser; it is fed with what one read returned."""

        joins = True

        def feed(self, data: str) -> Iterable[Message]:
            return mark_joined_keys(super().feed(data))

    module.XTermParser = JoiningParser


textuals_divide = Strip.divide
"""`Strip.divide` as Textual has it."""


def divide(self: Strip, cuts: Iterable[int]) -> Sequence[Strip]:
    """Divide a strip as `Strip.divide` does, but keep no result that is the strip itself.

    Textual keeps it: a reference cycle in each row of a scroll bar, a diff and a status bar that was painted. Only
    the garbage collector frees such a row, with the 35 objects of its caches, and what has survived two young
    collections waits for a full one: that was nearly all garbage of a turn. Read and measured in Textual 8.2.8; a
    test fails once Textual doesn't do it any more, and then this can go. No subclass would do, since Textual makes
    these strips itself, in `StylesCache` and `Strip.apply_filter`.
    """
    length = self.cell_length
    cuts = [cut for cut in cuts if cut <= length]
    return [self] if cuts == [length] else textuals_divide(self, cuts)


def _free_strips_at_once() -> None:
    Strip.divide = divide  # type: ignore[method-assign]
