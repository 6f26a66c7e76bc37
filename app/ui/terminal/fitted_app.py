"""Base class of the app, with colours fitted to the terminal, safe output and notifications."""

import re
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from math import atan2, cos, hypot, inf
from typing import Any

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import App
from textual.cache import FIFOCache
from textual.color import Color
from textual.driver import Driver
from textual.filter import LineFilter
from textual.message import Message
from textual.strip import Strip
from textual.theme import Theme
from textual.timer import Timer, TimerCallback

from app.text.safe_text import is_surely_plain, strip_unsafe
from app.ui.terminal.attention import TerminalNotifier
from app.ui.themes.first_theme import theme_for_colour_system
from widgets.common.input_order import (
    AltKey,
    OrderedInputApp,
    PossiblyPastedKey,
    mark_burst_keys,
    neutralize_possible_paste,
)
from widgets.diff.diff_colours import make_diff_variable_defaults

Rgb = tuple[int, int, int]

_CUBE_LEVELS = (0, 95, 135, 175, 215, 255)
_CUBE_COLOURS = {
    16 + 36 * red + 6 * green + blue: (_CUBE_LEVELS[red], _CUBE_LEVELS[green], _CUBE_LEVELS[blue])
    for red in range(6)
    for green in range(6)
    for blue in range(6)
}
_GREY_COLOURS = {232 + step: (8 + 10 * step,) * 3 for step in range(24)}

_PASTE_START, _PASTE_END = "\x1b[200~", "\x1b[201~"
"""Marks of a bracketed paste."""
_AFTER_PASTE_SECONDS = 0.3
"""Seconds after a paste in which input decides nothing, because it may be its end."""
_PASTE_PAUSE_SECONDS = 0.1
"""Seconds without input after which a paste has ended."""
_ALT_PATTERN = re.compile(r"\x1b(?:[fb](?=[^\x1b])|O(?=[^A-DFHMP-Sa-djkm-y])|[^\x00-\x1f\x7f\[Ofb])")
"""An escape character and a character that begin no longer sequence.

`ESC O` and one of these letters are a key like F1. Terminals on macOS send `ESC f` and `ESC b`, without a character
after it, for Alt and an arrow.
"""
_UNFINISHED_PATTERN = re.compile(r"\x1b(?:O|\[(?:2(?:00?)?)?)?\Z")
"""End of a read that may be the beginning of a start mark or of Alt and a character."""
_MARK_SECONDS = 1.0
"""More seconds to wait for the rest of a start mark: a paste without it would be typed, and its lines sent."""

_MIN_CHROMA = 0.04
"""Oklab chroma below which a colour looks grey."""


class Palette256Filter(LineFilter):
    """Replaces all colours by the 240 fixed colours of a terminal with 256."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            segment if segment.style is None else Segment(segment.text, _fit_style(segment.style), segment.control)
            for segment in segments
        ]


@lru_cache(4096)
def _fit_style(style: Style) -> Style:
    colours = tuple(None if colour is None else _fit_colour(colour) for colour in (style.color, style.bgcolor))
    return style + Style.from_color(*colours)


def _fit_colour(colour: RichColor) -> RichColor:
    return colour if colour.triplet is None else RichColor.from_ansi(nearest_palette_colour(*colour.triplet))


@lru_cache(4096)
def nearest_palette_colour(red: int, green: int, blue: int) -> int:
    """Return the number of the palette colour that looks most like this one (each part 0 to 255)."""
    target = _to_oklab(red, green, blue)

    def distance(number: int) -> float:
        return sum((part - other) ** 2 for part, other in zip(target, _palette_in_oklab()[number], strict=True))

    return min(_palette_in_oklab(), key=distance)


def keep_tints_visible_in_256_colours(variables: Mapping[str, str], theme: Theme) -> dict[str, str]:
    """Return the variables of a theme, changed so that tints stay visible in 256 colours.

    `nearest_palette_colour` would turn a weakly tinted background into a grey. So the backgrounds of changed lines
    and words are replaced by palette colours that keep the hue.
    """
    if theme.ansi:
        return dict(variables)
    palette = theme.to_color_system().generate()
    fitted = dict(variables)
    for kind, role in (("added", "success"), ("removed", "error"), ("moved", "secondary")):
        hue_source, used = Color.parse(palette[role]), set[Rgb]()
        for part in (f"diff-{kind}-background", f"diff-{kind}-word-background"):
            if part in variables:
                rgb = _find_tint(hue_source, Color.parse(variables[part]), used)
                fitted[part] = Color(*rgb).hex
                used.add(rgb)
    return fitted


def _find_tint(hue_source: Color, lightness_source: Color, used: Collection[Rgb]) -> Rgb:
    """Return the cube colour with the hue of one colour and about the lightness of another, except those in
    `used`."""
    _, a, b = _to_oklab(*hue_source.rgb)
    hue, (lightness, *_) = atan2(b, a), _to_oklab(*lightness_source.rgb)

    def distance(rgb: Rgb) -> float:
        light, a, b = _to_oklab(*rgb)
        chroma = hypot(a, b)
        if chroma < _MIN_CHROMA:
            return inf
        # Dark tints in the cube are all strong; among light ones, prefer weak tints.
        return abs(light - lightness) + 1.5 * (1 - cos(atan2(b, a) - hue)) + lightness**2 * chroma

    return min((rgb for rgb in _CUBE_COLOURS.values() if rgb not in used), key=distance)


@lru_cache(1)
def _palette_in_oklab() -> dict[int, tuple[float, float, float]]:
    """Return the fixed colours by number, in Oklab; the first sixteen are left out because users change them."""
    return {number: _to_oklab(*rgb) for number, rgb in {**_CUBE_COLOURS, **_GREY_COLOURS}.items()}


def _to_oklab(red: int, green: int, blue: int) -> tuple[float, float, float]:
    """Return lightness and the two colour axes of an sRGB colour."""
    r, g, b = (_to_linear(part / 255) for part in (red, green, blue))
    long = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    middle = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    short = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


def _to_linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


class UnsafeTextFilter(LineFilter):
    """Deletes from all output the characters that control a terminal or reorder text.

    Widgets show these characters as glyphs; this filter catches those that a widget misses. They have no width, so
    the layout stays the same.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        if all(is_surely_plain(segment.text, keep="") for segment in segments):
            return segments
        return [Segment(strip_unsafe(segment.text, keep=""), segment.style, segment.control) for segment in segments]


class _CombinedFilter(LineFilter):
    """Applies several filters in turn, so that Textual rebuilds a row only once."""

    def __init__(self, filters: Sequence[LineFilter]) -> None:
        super().__init__()
        self._filters = filters

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        for line_filter in self._filters:
            segments = line_filter.apply(segments, background)
        return segments


@lru_cache(maxsize=8)
def combine_filters(filters: tuple[LineFilter, ...]) -> LineFilter:
    """Return a filter that applies these filters in turn; for the same filters the same object, as Textual caches by
    it."""
    return _CombinedFilter(filters)


class TerminalAdaptedApp(OrderedInputApp):
    """Base class of the app: fits colours, output and keys to the terminal."""

    def __init__(self, theme: Theme) -> None:
        _patch_strips()
        self.notifier = TerminalNotifier()
        self._first_theme = theme
        # Set before Textual reads it: a later change of the theme would parse all style sheets a second time.
        self.set_reactive(App.theme, theme.name)
        super().__init__()
        self.register_theme(theme)
        self.theme = theme_for_colour_system(theme.name, self.console.color_system)

    def set_timer(
        self, delay: float, callback: TimerCallback | None = None, *, name: str | None = None, pause: bool = False
    ) -> Timer:
        """Call a function after a delay, even if the process is suspended while the timer starts.

        Textual lets each timer skip the ticks that are overdue when it starts. The only tick of this timer would be
        lost, and without the tick of its resize timer, Textual ignores every later resize of the terminal.
        """
        timer = super().set_timer(delay, callback, name=name, pause=pause)
        timer._skip = False
        return timer

    def get_theme(self, theme_name: str) -> Theme | None:
        """Return a theme by name; the first theme is found even before it is registered."""
        first = self._first_theme
        return super().get_theme(theme_name) or (first if theme_name == first.name else None)

    def get_driver_class(self) -> type[Driver]:
        """Return the platform's driver, extended to mark keys that were read together and to notify the user."""
        driver = super().get_driver_class()
        _patch_parser(driver)
        return self.notifier.wrap_driver(driver)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return defaults for the diff colours of our style sheets, derived from the theme."""
        theme = self.get_theme(self.theme)
        return make_diff_variable_defaults(theme) if theme is not None else {}

    def get_css_variables(self) -> dict[str, str]:
        """Return the theme's variables, fitted to a terminal of 256 colours."""
        variables = super().get_css_variables()
        if self._has_palette:
            variables = self.theme_variables = keep_tints_visible_in_256_colours(variables, self.current_theme)
        return variables

    @property
    def _has_palette(self) -> bool:
        """Return whether the terminal has just 256 colours."""
        return self.console.color_system == "256"

    def get_line_filters(self) -> list[LineFilter]:
        """Return Textual's filters and ours as one filter."""
        return [combine_filters((*super().get_line_filters(), *self._line_filters))]

    @cached_property
    def _line_filters(self) -> list[LineFilter]:
        """Return the filter that removes control characters, and the one for the palette."""
        filters: list[LineFilter] = [UnsafeTextFilter()]
        if self._has_palette:
            filters.append(Palette256Filter())
        return filters


def _is_beyond_limit(message: Message) -> bool:
    return isinstance(message, PossiblyPastedKey) and message.is_beyond_limit


def _patch_parser(driver: type[Driver]) -> None:
    """Replace the parser in a driver's module by one that marks keys that were read together, and reads pastes."""
    module: Any = sys.modules[driver.__module__]
    parser = getattr(module, "XTermParser", None)
    if parser is None or getattr(parser, "joins", False):
        return

    class JoiningParser(parser):  # type: ignore[misc, valid-type]
        """Textual's parser, which would take an escape character in a bracketed paste for the start of a key.

        It would also wait for more after an escape character and a letter, take the keys after it for a part of the
        sequence, and return them later as keys that came alone.
        """

        joins = True
        _timeout_time: float | None

        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            self._paste: list[str] | None = None
            """Parts of the paste that is being read; the last one may end in a part of its end mark."""
            self._unfinished = ""
            """End of the last read that may belong to the next one; Textual's parser has it too."""
            self._paste_until = 0.0
            """Until when input may be part of a paste, in monotonic seconds."""

        def feed(self, data: str) -> Iterable[Message]:
            """Return the messages of the result of one read; it is empty at the end of the input."""
            if data and self._unfinished and self._timeout_time is not None:
                self._end_sequence()
                data = self._unfinished + data
            self._unfinished = ""
            in_paste = self._paste is not None
            messages = mark_burst_keys(self._split_pastes(data) if data else super().feed(data))
            now = time.monotonic()
            if in_paste or _PASTE_START in data or _PASTE_END in data or any(map(_is_beyond_limit, messages)):
                self._paste_until = now + _AFTER_PASTE_SECONDS
            elif now < self._paste_until:
                # The rest of a long paste follows without a pause.
                self._paste_until = max(self._paste_until, now + _PASTE_PAUSE_SECONDS)
            return neutralize_possible_paste(messages) if now < self._paste_until else messages

        def tick(self) -> Iterable[Message]:
            """Return the keys of a sequence that was not completed in time."""
            messages = list(super().tick())
            if messages and self._unfinished == "\x1bO":
                messages = [self._alt_key("O")]
            return mark_burst_keys(messages)

        def _split_pastes(self, data: str) -> Iterator[Message]:
            while data:
                if self._paste is None:
                    keys, start, data = data.partition(_PASTE_START)
                    yield from self._split_alt_keys(keys)
                    self._paste = [""] if start else None
                    continue
                text, end, rest = (self._paste.pop() + data).partition(_PASTE_END)
                if end:
                    yield events.Paste("".join([*self._paste, text]).replace("\0", ""))
                    self._paste, data = None, rest
                else:
                    self._paste += text[: 1 - len(_PASTE_END)], text[1 - len(_PASTE_END) :]
                    return

        def _split_alt_keys(self, data: str) -> Iterator[Message]:
            position = 0
            for match in _ALT_PATTERN.finditer(data):
                if match.start() > position:
                    yield from super().feed(data[position : match.start()])
                yield from self._end_sequence()
                yield self._alt_key(match[0][1])
                position = match.end()
            if position < len(data):
                yield from super().feed(data[position:])
            unfinished = _UNFINISHED_PATTERN.search(data, position)
            self._unfinished = unfinished[0] if unfinished else ""
            if self._unfinished.startswith("\x1b[2") and self._timeout_time is not None:
                self._timeout_time += _MARK_SECONDS

        def _end_sequence(self) -> list[Message]:
            """Return the keys of a sequence that is not complete, and wait no longer for the rest of it."""
            if self._timeout_time is not None:
                self._timeout_time = 0.0
            return list(super().tick())

        def _alt_key(self, character: str) -> AltKey:
            (plain_key,) = self._sequence_to_key_events(character)
            keys = [*self._sequence_to_key_events("\x1b" + character)]
            (key,) = keys or self._sequence_to_key_events(character, alt=True)
            return AltKey(key, plain_key)

    module.XTermParser = JoiningParser


original_strip_divide = Strip.divide
"""Textual's `Strip.divide`."""


def divide_strip_uncached(self: Strip, cuts: Iterable[int]) -> Sequence[Strip]:
    """Divide a strip as `Strip.divide` does, but do not cache a result that is the strip itself.

    Textual caches it: a reference cycle in each painted row of a scroll bar, a diff or a status bar. Only the garbage
    collector frees such a row, with the 35 objects of its caches; rows that survive two young collections wait for a
    full one. This was nearly all garbage of a turn. Measured in Textual 8.2.8; a test fails when Textual no longer
    does it, and then this can be removed. A subclass would not help, since Textual makes these strips itself, in
    `StylesCache` and `Strip.apply_filter`.
    """
    length = self.cell_length
    cuts = [cut for cut in cuts if cut <= length]
    return [self] if cuts == [length] else original_strip_divide(self, cuts)


_STRIP_VALUES = {"_segments", "_cell_length", "_render_cache", "_link_ids", "_cell_count"}
"""Attributes of a strip that are no caches, as in Textual 8.2.8."""


class _CacheSlot:
    """Makes a cache of a strip when it is first used."""

    def __init__(self, slot: Any, size: int) -> None:
        self._slot = slot
        self._size = size

    def __get__(self, strip: Strip, owner: type[Strip]) -> FIFOCache[Any, Any]:
        try:
            return self._slot.__get__(strip)  # type: ignore[no-any-return]
        except AttributeError:
            cache: FIFOCache[Any, Any] = FIFOCache(self._size)
            self._slot.__set__(strip, cache)
            return cache

    def __set__(self, strip: Strip, cache: FIFOCache[Any, Any]) -> None:
        self._slot.__set__(strip, cache)


def _init_strip(self: Strip, segments: Iterable[Segment], cell_length: int | None = None) -> None:
    self._segments = list(segments)
    self._cell_length = cell_length
    self._render_cache = None
    self._link_ids = None
    self._cell_count = None


def _patch_strips() -> None:
    """Make the strips of Textual cheaper: without the cycle of `divide_strip_uncached`, and without unused caches.

    Textual makes seven caches for each strip, which takes six times as long as all else, and most strips use one or
    two of them. Strips of a later version with other values stay as they are.
    """
    Strip.divide = divide_strip_uncached  # type: ignore[method-assign]
    attributes = {name: getattr(Strip([]), name) for name in Strip.__slots__}
    caches = {name: cache for name, cache in attributes.items() if isinstance(cache, FIFOCache)}
    if Strip.__init__ is not _init_strip and attributes.keys() - caches.keys() == _STRIP_VALUES:
        for name, cache in caches.items():
            setattr(Strip, name, _CacheSlot(getattr(Strip, name), cache._maxsize))
        Strip.__init__ = _init_strip  # type: ignore[method-assign]
