"""Parses text with terminal colour sequences into styled lines.

Every other escape sequence goes: what moves the cursor, erases, asks or names things. To conceal is no colour.
"""

import re
from collections.abc import Iterator, Sequence

from rich.color import Color
from rich.style import Style

from widgets.common.text_view import TextLine

_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)(?P<parameters>[0-9;:]*)(?P<final>[@-~])"
    r"|(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90-\x9f\n]*(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"
)
"""Control sequences of ECMA-48; those with numbers alone in groups."""

_ON = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "reverse", 9: "strike"}
_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("reverse",), 29: ("strike",)}
_TAB = 8
"""Where a terminal has its tab stops."""
_PALETTE, _DIRECT = 5, 2
"""How a colour is given after 38 or 48: by number, or red, green and blue."""


class TextPen:
    """The style of the next characters."""

    def __init__(self) -> None:
        self._marks: set[str] = set()
        self._colour: Color | None = None
        self._ground: Color | None = None

    @property
    def style(self) -> Style:
        """Return the style for Rich."""
        return Style(color=self._colour, bgcolor=self._ground) + Style.parse(" ".join(sorted(self._marks)))

    def apply_sequence(self, parameters: str) -> None:
        """Apply the numbers of one Select Graphic Rendition sequence."""
        numbers = [int(part[:6] or 0) for part in re.split("[;:]", parameters)]
        while numbers:
            match numbers:
                case [38 | 48 as which, int(kind), *rest] if kind in (_PALETTE, _DIRECT):
                    count = 1 if kind == _PALETTE else 3
                    self._set(_colour(rest[:count]), ground=which == 48)
                    numbers = rest[count:]
                case [number, *numbers]:
                    self._turn(number)

    def _turn(self, number: int) -> None:
        if number in _ON:
            self._marks.add(_ON[number])
        elif number in _OFF:
            self._marks.difference_update(_OFF[number])
        elif number in (39, 49):
            self._set(None, ground=number == 49)
        elif 30 <= number <= 47 or 90 <= number <= 107:
            bright = 8 if number >= 90 else 0
            if number % 10 <= 7:
                self._set(Color.from_ansi(number % 10 + bright), ground=number // 10 in (4, 10))
        elif not number:
            self._marks.clear()
            self._colour = self._ground = None

    def _set(self, colour: Color | None, *, ground: bool) -> None:
        if ground:
            self._ground = colour
        else:
            self._colour = colour


def _colour(numbers: Sequence[int]) -> Color | None:
    match [min(number, 255) for number in numbers]:
        case [number]:
            return Color.from_ansi(number)
        case [red, green, blue]:
            return Color.from_rgb(red, green, blue)
    return None


def parse_coloured_text(text: str) -> list[TextLine]:
    """Return the styled lines of a text with colour sequences."""
    pen = TextPen()
    return [TextLine(tuple(_pieces(line.rstrip("\r"), pen))) for line in text.removesuffix("\n").split("\n")]


def _pieces(line: str, pen: TextPen) -> Iterator[tuple[str, Style]]:
    at = column = 0
    for match in (*_SEQUENCE.finditer(line), None):
        piece = line[at : len(line) if match is None else match.start()]
        if "\t" in piece:
            before = " " * (column % _TAB)
            piece = f"{before}{piece}".expandtabs(_TAB)[len(before) :]
        column += len(piece)
        if piece or match is None:
            yield piece, pen.style
        if match is not None:
            if match["final"] == "m":
                pen.apply_sequence(match["parameters"])
            at = match.end()
