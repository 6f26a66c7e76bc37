"""What the terminal is sent: 256 colours, strips, calls for the user; and nothing else that acts there."""

import asyncio
import gc
import os
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color as RichColor
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.cache import FIFOCache
from textual.color import BLACK, Color
from textual.strip import Strip
from textual.theme import BUILTIN_THEMES, Theme

from app.ui.terminal.attention import (
    TerminalNotifier,
    bell_or_notification_sequence,
    desktop_notification_sequence,
    typed_lines_to_key_events,
)
from app.ui.terminal.fitted_app import (
    Palette256Filter,
    TerminalAdaptedApp,
    UnsafeTextFilter,
    divide_strip_uncached,
    keep_tints_visible_in_256_colours,
    nearest_palette_colour,
    original_strip_divide,
)
from app.ui.themes.first_theme import OWN_THEMES_FOLDER, STANDARD_THEME, load_signoff_theme
from app.ui.themes.theme_files import load_themes
from tests.unit.test_theme_files import contrast
from widgets.diff.diff_colours import make_diff_variable_defaults

THEMES = [theme.to_textual_theme() for theme in load_themes(OWN_THEMES_FOLDER).themes]
PARTS = st.integers(0, 255)


@given(PARTS, PARTS, PARTS)
def test_every_colour_becomes_one_that_the_user_cannot_have_redefined(red: int, green: int, blue: int) -> None:
    number = nearest_palette_colour(red, green, blue)
    assert 16 <= number <= 255
    assert nearest_palette_colour(*RichColor.from_ansi(number).get_truecolor()) == number, "it is its own nearest"


@pytest.mark.parametrize("theme", THEMES, ids=[theme.name for theme in THEMES])
def test_surfaces_become_greys_and_tints_of_changed_lines_keep_text_readable(theme: Theme) -> None:
    for surface in (theme.background, theme.surface, theme.panel):
        assert surface is not None
        red, green, blue = RichColor.from_ansi(nearest_palette_colour(*Color.parse(surface).rgb)).get_truecolor()
        assert red == green == blue, surface
    variables = keep_tints_visible_in_256_colours({**make_diff_variable_defaults(theme), **theme.variables}, theme)
    seen = set()
    for kind in ("added", "removed"):
        line, word = (Color.parse(variables[f"diff-{kind}-{part}"]) for part in ("background", "word-background"))
        for colour, least in ((line, 4.4), (word, 3)):
            number = nearest_palette_colour(*colour.rgb)
            assert RichColor.from_ansi(number).get_truecolor() == colour.rgb, "it is one of the palette"
            assert len(set(colour.rgb)) > 1, "it is no grey"
            assert contrast(str(theme.foreground), colour.hex) >= least
            seen.add(number)
    assert len(seen) == 4, "each can be told from the others"


def test_a_style_keeps_all_but_its_colours() -> None:
    style = Style(
        color="#abcdef", bgcolor="red", bold=True, underline=True, link="https://example.org", meta={"a": 1}
    )
    (segment,) = Palette256Filter().apply([Segment("text", style)], BLACK)
    assert segment.text == "text"
    assert segment.style is not None
    assert segment.style.color == RichColor.from_ansi(nearest_palette_colour(0xAB, 0xCD, 0xEF))
    assert segment.style.bgcolor == style.bgcolor, "the user's own red"
    assert (segment.style.bold, segment.style.underline) == (True, True)
    assert (segment.style.link, segment.style.meta) == (style.link, style.meta)


def test_a_terminal_colour_theme_keeps_its_colours() -> None:
    theme = next(theme for name, theme in BUILTIN_THEMES.items() if theme.ansi)
    variables = {"diff-added-background": "#002200", "diff-added-word-background": "#004400"}
    assert keep_tints_visible_in_256_colours(variables, theme) == variables
    own = make_diff_variable_defaults(theme)
    assert {own[f"diff-{kind}-background"] for kind in ("added", "removed", "moved")} == {"transparent"}


TEXTS = st.lists(st.text("ab\N{CJK UNIFIED IDEOGRAPH-4E2D}", max_size=4), max_size=4)


@pytest.fixture
def uncollected() -> Iterator[None]:
    """No garbage, and nothing that collects it."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@given(TEXTS, st.lists(st.integers(1, 20), max_size=4, unique=True).map(sorted))
def test_the_parts_are_those_of_textual(texts: list[str], cuts: list[int]) -> None:
    strips = Strip(segments := [Segment(text) for text in texts]), Strip(segments)
    for _ in range(2):
        assert list(divide_strip_uncached(strips[0], cuts)) == list(original_strip_divide(strips[1], cuts))


def test_a_strip_that_nothing_divides_is_freed_without_the_collector(uncollected: None) -> None:
    assert divide_strip_uncached(Strip([Segment("text")]), [4, 9])
    assert gc.collect() == 0
    assert original_strip_divide(Strip([Segment("text")]), [4])
    assert gc.collect() > 0, "Textual caches it inside itself; once it does not, divide_strip_uncached is not needed"


def test_all_strips_of_an_app_are_freed_at_once(uncollected: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Strip, "divide", original_strip_divide)
    TerminalAdaptedApp(load_signoff_theme(STANDARD_THEME))
    assert Strip([Segment("text")]).divide([4])
    assert not any(isinstance(one, Strip) and one.text == "text" for one in gc.get_objects())


def test_a_strip_of_an_app_makes_only_the_caches_it_uses_and_paints_as_those_of_textual() -> None:
    TerminalAdaptedApp(load_signoff_theme(STANDARD_THEME))
    strip = Strip([Segment("some text")])
    assert caches_of(strip) == 0, "Textual's strips have other attributes now: compare `_STRIP_VALUES`"
    assert [(strip.crop(2, 6).text, strip.divide([4, 9])[1].text) for _ in range(2)] == [("me t", " text")] * 2
    assert strip.crop(2, 6) is strip.crop(2, 6)
    assert caches_of(strip) == 2
    first, second = strip.apply_style(Style(bold=True)), strip.apply_style(Style(bold=True))
    assert first is second and first.render(Console(force_terminal=True, color_system="truecolor")) != strip.text


def caches_of(strip: Strip) -> int:
    return sum(isinstance(one, FIFOCache) for one in gc.get_referents(strip))


class Driver:
    """A driver that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[str] = []

    def start_application_mode(self) -> None: ...

    def stop_application_mode(self) -> None: ...

    def write(self, data: str) -> None:
        self.written.append(data)

    def flush(self) -> None: ...


@pytest.fixture
def terminal_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard error is a terminal; nothing is written to one that is gone."""
    monkeypatch.setattr(os, "isatty", lambda descriptor: True)


def attention_on(terminal: str) -> tuple[TerminalNotifier, Any]:
    """Attention on a terminal of this kind, with its driver in application mode."""
    made = TerminalNotifier({"TERM": terminal})
    driver: Any = made.wrap_driver(Driver)()  # type: ignore[arg-type, call-arg]
    driver.start_application_mode()
    return made, driver


@pytest.mark.usefixtures("terminal_exists")
def test_the_title_of_the_window_is_saved_set_once_and_restored() -> None:
    made, driver = attention_on("xterm-256color")
    made.set_title("signoff (1) - work")
    made.set_title("signoff (1) - work")
    assert driver.written == ["\x1b[22;2t", "\x1b]2;signoff (1) - work\a"]
    driver.stop_application_mode()
    assert driver.written[2:] == ["\x1b[23;2t"]
    made.set_title("signoff - work")
    driver.start_application_mode()
    assert driver.written[3:] == ["\x1b[22;2t", "\x1b]2;signoff - work\a"]


@pytest.mark.usefixtures("terminal_exists")
def test_a_terminal_without_titles_gets_none() -> None:
    for terminal in ("dumb", "linux", ""):
        made, driver = attention_on(terminal)
        made.set_title("signoff (1) - work")
        driver.stop_application_mode()
        assert driver.written == []


@pytest.mark.usefixtures("terminal_exists")
def test_a_bell_rings_unless_it_is_off_or_another_program_has_the_terminal() -> None:
    made, driver = attention_on("dumb")
    made.notify("off", "text")
    made.paused = True
    made.notify("bell", "text")
    assert driver.written == []
    made.paused = False
    made.notify("bell", "text")
    assert driver.written == ["\a"]
    driver.stop_application_mode()
    made.notify("bell", "text")
    assert driver.written == ["\a"]


def test_no_text_ends_a_notification_early() -> None:
    plain = r"[^;\x00-\x1f\x7f-\x9f]*"
    pattern = rf"\x1b\]9;[^\x00-\x1f\x7f-\x9f]*\x1b\\\x1b\]777;notify;{plain};{plain}\x1b\\"
    for text in ("plain", "a\x1b\\b", "a\x07b", "a;b;c", "a\x9cb", "line\nbreak", "\x1b]52;c;aGk=\x07"):
        sent = desktop_notification_sequence("signoff", text)
        assert re.fullmatch(pattern, sent), repr(sent)


def test_a_terminal_that_would_print_a_notification_gets_a_bell_and_tmux_passes_it_through() -> None:
    for environment in ({"TERM": "linux"}, {"TERM": "dumb"}, {}, {"TERM": "screen", "STY": "1.x"}):
        assert bell_or_notification_sequence("desktop", "text", environment) == "\a"
    sent = bell_or_notification_sequence(
        "desktop", "text", {"TERM": "tmux-256color", "TMUX": "/tmp/tmux-0/default,1,0"}
    )
    wrapped = re.fullmatch("\a\x1bPtmux;((?:[^\x1b]|\x1b\x1b)*)\x1b\\\\", sent)
    assert wrapped is not None
    assert wrapped[1].replace("\x1b\x1b", "\x1b") == desktop_notification_sequence("signoff", "text")


def test_typed_letters_become_keys_and_escape_sequences_are_dropped() -> None:
    typed = [(key.key, key.character) for key in typed_lines_to_key_events("aß7 /-\x1b[A\x1bOP\t\n")]
    signs = [("space", " "), ("slash", "/"), ("minus", "-"), ("enter", "\r")]
    assert typed == [("a", "a"), ("ß", "ß"), ("7", "7"), *signs]


NO_COLOUR, BOLD = Color(0, 0, 0), Style(bold=True)


def test_unsafe_characters_are_removed_and_a_plain_row_is_unchanged() -> None:
    plain, unsafe = Segment("naïve ✓ 日本", BOLD), Segment("\x1b]0;title\x07a\u202eb\n", BOLD)
    row = [plain]
    assert UnsafeTextFilter().apply(row, NO_COLOUR) is row
    assert UnsafeTextFilter().apply([plain, unsafe], NO_COLOUR) == [plain, Segment("]0;titleab", BOLD)]


async def test_a_timer_fires_although_the_process_was_suspended_while_it_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app, fired = TerminalAdaptedApp(load_signoff_theme(STANDARD_THEME)), asyncio.Event()
    async with app.run_test():
        calls = iter(range(1_000_000))
        monkeypatch.setattr("textual._time.get_time", lambda: time.monotonic() + next(calls))
        app.set_timer(0.01, fired.set)
        await asyncio.wait_for(fired.wait(), 5)
