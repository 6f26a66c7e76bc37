"""Colours for terminals that know 256: the nearest of their palette to the eye, and tints that stay tints.

The distance is that of Oklab (Björn Ottosson, 2020). By it the dark surfaces of a theme become the greys that they
nearly are, where rounding each channel to the colour cube would turn them black or navy.
"""

from collections.abc import Collection, Mapping
from functools import lru_cache
from math import atan2, cos, hypot, inf

from rich.color import Color as RichColor
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.theme import Theme

Rgb = tuple[int, int, int]

_LEVELS = (0, 95, 135, 175, 215, 255)
_CUBE = {
    16 + 36 * red + 6 * green + blue: (_LEVELS[red], _LEVELS[green], _LEVELS[blue])
    for red in range(6)
    for green in range(6)
    for blue in range(6)
}
_GREYS = {232 + step: (8 + 10 * step,) * 3 for step in range(24)}

_LEAST_CHROMA = 0.04
"""Below this a colour reads as grey."""


class PaletteFilter(LineFilter):
    """Draws everything with the 240 fixed colours of a terminal's palette."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The segments in colours of the palette."""
        return [
            segment if segment.style is None else Segment(segment.text, _fitted(segment.style), segment.control)
            for segment in segments
        ]


@lru_cache(4096)
def _fitted(style: Style) -> Style:
    colours = tuple(None if colour is None else _in_palette(colour) for colour in (style.color, style.bgcolor))
    return style + Style.from_color(*colours)


def _in_palette(colour: RichColor) -> RichColor:
    return colour if colour.triplet is None else RichColor.from_ansi(nearest(*colour.triplet))


@lru_cache(4096)
def nearest(red: int, green: int, blue: int) -> int:
    """The number of the colour of the palette that looks most like this one (each part 0 to 255)."""
    wanted = _oklab(red, green, blue)

    def distance(number: int) -> float:
        return sum((one - other) ** 2 for one, other in zip(wanted, _palette()[number], strict=True))

    return min(_palette(), key=distance)


def with_tints(variables: Mapping[str, str], theme: Theme) -> dict[str, str]:
    """The variables of a theme for a terminal of 256 colours.

    A background that is only just tinted would become a grey by `nearest`, and say nothing any more: those of changed
    lines and words are exchanged for colours of the palette that keep the hue.
    """
    if theme.ansi:
        return dict(variables)
    palette = theme.to_color_system().generate()
    found = dict(variables)
    for kind, role in (("added", "success"), ("removed", "error"), ("moved", "secondary")):
        hue_of, taken = Color.parse(palette[role]), set[Rgb]()
        for part in (f"diff-{kind}-background", f"diff-{kind}-word-background"):
            if part in variables:
                rgb = _tint(hue_of, Color.parse(variables[part]), taken)
                found[part] = Color(*rgb).hex
                taken.add(rgb)
    return found


def _tint(hue_of: Color, like: Color, taken: Collection[Rgb]) -> Rgb:
    """The colour of the cube with the hue of one colour and about the lightness of another."""
    _, a, b = _oklab(*hue_of.rgb)
    hue, (lightness, *_) = atan2(b, a), _oklab(*like.rgb)

    def distance(rgb: Rgb) -> float:
        light, a, b = _oklab(*rgb)
        chroma = hypot(a, b)
        if chroma < _LEAST_CHROMA:
            return inf
        # In the dark there are only strong tints to choose from; in the light a strong one would shout.
        return abs(light - lightness) + 1.5 * (1 - cos(atan2(b, a) - hue)) + lightness**2 * chroma

    return min((rgb for rgb in _CUBE.values() if rgb not in taken), key=distance)


@lru_cache(1)
def _palette() -> dict[int, tuple[float, float, float]]:
    """Number and Oklab of every fixed colour; the first sixteen are the user's own to set."""
    return {number: _oklab(*rgb) for number, rgb in {**_CUBE, **_GREYS}.items()}


def _oklab(red: int, green: int, blue: int) -> tuple[float, float, float]:
    """Lightness and the two colour axes of an sRGB colour."""
    r, g, b = (_linear(part / 255) for part in (red, green, blue))
    long = (0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b) ** (1 / 3)
    middle = (0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b) ** (1 / 3)
    short = (0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b) ** (1 / 3)
    return (
        0.2104542553 * long + 0.7936177850 * middle - 0.0040720468 * short,
        1.9779984951 * long - 2.4285922050 * middle + 0.4505937099 * short,
        0.0259040371 * long + 0.7827717662 * middle - 0.8086757660 * short,
    )


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
