"""What a program writes for a terminal, as lines to read: colours stay, everything else of it goes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color
from rich.style import Style

from widgets.common.text_view import parse_coloured_text


def pieces(text: str) -> list[tuple[str, object]]:
    (line,) = parse_coloured_text(text)
    return [(words, style) for words, style in line.pieces if words]


@pytest.mark.parametrize(
    ("sequence", "style"),
    [
        ("1;31", Style(bold=True, color="color(1)")),
        ("92", Style(color="color(10)")),
        ("48;5;22", Style(bgcolor="color(22)")),
        ("38;2;1;2;300", Style(color=Color.from_rgb(1, 2, 255))),
        ("38:5:9", Style(color="color(9)")),
        ("4;7;9;2;3", Style(underline=True, reverse=True, strike=True, dim=True, italic=True)),
        ("103", Style(bgcolor="color(11)")),
        ("8", Style()),
        ("31;39;1;22", Style()),
        ("31;0", Style()),
        ("31;", Style()),
        ("38", Style()),
        ("38;5", Style()),
        ("99999999999999999999", Style()),
    ],
)
def test_colours_and_weight(sequence: str, style: Style) -> None:
    assert pieces(f"a\x1b[{sequence}mb") == [("a", Style()), ("b", style)]


def test_a_colour_goes_on_over_lines_and_ends_where_it_is_ended() -> None:
    first, second = parse_coloured_text("\x1b[31ma\r\nb\x1b[mc\n")
    assert first.pieces == (("a", Style(color="color(1)")),)
    assert second.pieces == (("b", Style(color="color(1)")), ("c", Style()))


def test_tabs_lead_to_the_stops_of_a_terminal_whatever_is_coloured() -> None:
    assert "".join(words for words, _ in pieces("ab\x1b[31mc\td\x1b[0m\te")) == "abc     d       e"


@pytest.mark.parametrize(
    "sequence",
    [
        "\x1b[2J",
        "\x1b[1;1H",
        "\x1b[?1049h",
        "\x1b]0;title\x07",
        "\x1b]52;c;aGk=\x1b\\",
        "\x1b]8;;https://e.org\x1b\\",
        "\x1bPq#0\x1b\\",
        "\x1bc",
        "\x1b(0",
        "\x9b2J",
        "\x9d0;title\x9c",
        "\x1b[>4;2m",
    ],
)
def test_every_other_sequence_goes(sequence: str) -> None:
    assert "".join(words for words, _ in pieces(f"a{sequence}b")) == "ab"


@given(st.text(st.sampled_from("\x1b[]0;:358m\x9b\x07\\aP\nK?\r"), max_size=60))
def test_anything_is_taken(text: str) -> None:
    assert len(parse_coloured_text(text)) == text.removesuffix("\n").count("\n") + 1
