"""What a terminal of 256 colours is sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import BLACK, Color
from textual.theme import BUILTIN_THEMES

from app.ui.terminal.fitted_app import PaletteFilter, nearest, with_tints
from app.ui.themes.first_theme import OWN_THEMES
from app.ui.themes.theme_files import load_themes
from tests.unit.test_theme_files import contrast
from widgets.diff.diff_colours import diff_variable_defaults

THEMES = [theme.as_theme() for theme in load_themes((OWN_THEMES,)).themes]
PARTS = st.integers(0, 255)
THEME = pytest.mark.parametrize("theme", THEMES, ids=[theme.name for theme in THEMES])


@given(PARTS, PARTS, PARTS)
def test_every_colour_becomes_one_that_the_user_cannot_have_redefined(red: int, green: int, blue: int) -> None:
    assert 16 <= nearest(red, green, blue) <= 255


@given(st.integers(16, 255))
def test_a_colour_of_the_palette_is_its_own_nearest(number: int) -> None:
    assert nearest(*RichColor.from_ansi(number).get_truecolor()) == number


@THEME
def test_surfaces_that_are_nearly_grey_become_greys(theme) -> None:  # type: ignore[no-untyped-def]
    for surface in (theme.background, theme.surface, theme.panel):
        red, green, blue = RichColor.from_ansi(nearest(*Color.parse(surface).rgb)).get_truecolor()
        assert red == green == blue, surface


@THEME
def test_changed_lines_and_words_keep_a_tint_on_which_text_can_be_read(theme) -> None:  # type: ignore[no-untyped-def]
    variables = with_tints({**diff_variable_defaults(theme), **theme.variables}, theme)
    seen = set()
    for kind in ("added", "removed"):
        line, word = (Color.parse(variables[f"diff-{kind}-{part}"]) for part in ("background", "word-background"))
        for colour, least in ((line, 4.4), (word, 3)):
            number = nearest(*colour.rgb)
            assert RichColor.from_ansi(number).get_truecolor() == colour.rgb, "it is one of the palette"
            assert len(set(colour.rgb)) > 1, "it is no grey"
            assert contrast(theme.foreground, colour.hex) >= least
            seen.add(number)
    assert len(seen) == 4, "each can be told from the others"


def test_a_style_keeps_all_but_its_colours() -> None:
    style = Style(
        color="#abcdef", bgcolor="red", bold=True, underline=True, link="https://example.org", meta={"a": 1}
    )
    (segment,) = PaletteFilter().apply([Segment("text", style)], BLACK)
    assert segment.text == "text"
    assert segment.style is not None
    assert segment.style.color == RichColor.from_ansi(nearest(0xAB, 0xCD, 0xEF))
    assert segment.style.bgcolor == style.bgcolor, "the user's own red"
    assert (segment.style.bold, segment.style.underline) == (True, True)
    assert (segment.style.link, segment.style.meta) == (style.link, style.meta)


def test_the_colours_of_a_theme_that_has_the_terminals_own_stay_those() -> None:
    theme = next(theme for name, theme in BUILTIN_THEMES.items() if theme.ansi)
    variables = {"diff-added-background": "#002200", "diff-added-word-background": "#004400"}
    assert with_tints(variables, theme) == variables
    own = diff_variable_defaults(theme)
    assert {own[f"diff-{kind}-background"] for kind in ("added", "removed", "moved")} == {"transparent"}
