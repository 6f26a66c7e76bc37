"""Colours: those that a program writes for a terminal, and those of the code editor."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.color import Color
from rich.style import Style
from textual.app import App, ComposeResult

from app.ui.themes.first_theme import load_signoff_theme
from widgets.common.text_view import parse_ansi_text
from widgets.diff import code_editor
from widgets.diff.code_editor import CHUNK_LINES, LEAD_LINES, CodeEditor
from widgets.diff.diff_colours import make_diff_variable_defaults
from widgets.diff.syntax_tokens import lex_lines


def pieces(text: str) -> list[tuple[str, object]]:
    (line,) = parse_ansi_text(text)
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


def test_a_colour_continues_over_lines_until_its_reset_and_tabs_lead_to_the_stops_of_a_terminal() -> None:
    first, second = parse_ansi_text("\x1b[31ma\r\nb\x1b[mc\n")
    assert first.pieces == (("a", Style(color="color(1)")),)
    assert second.pieces == (("b", Style(color="color(1)")), ("c", Style()))
    assert "".join(words for words, _ in pieces("ab\x1b[31mc\td\x1b[0m\te")) == "abc     d       e"


@pytest.mark.parametrize(
    "sequence",
    [
        *("\x1b[2J", "\x1b[1;1H", "\x1b[?1049h", "\x1b]0;title\x07", "\x1b]52;c;aGk=\x1b\\", "\x1bPq#0\x1b\\"),
        *("\x1b]8;;https://e.org\x1b\\", "\x1bc", "\x1b(0", "\x9b2J", "\x9d0;title\x9c", "\x1b[>4;2m"),
    ],
)
def test_every_other_sequence_goes(sequence: str) -> None:
    assert "".join(words for words, _ in pieces(f"a{sequence}b")) == "ab"


@given(st.text(st.sampled_from("\x1b[]0;:358m\x9b\x07\\aP\nK?\r"), max_size=60))
def test_any_ansi_text_is_parsed(text: str) -> None:
    assert len(parse_ansi_text(text)) == text.removesuffix("\n").count("\n") + 1


SOURCE = 'import os\n\n\ndef name(value):\n    """Doc."""\n    return "text", 12\n'


class Editing(App[None]):
    def __init__(self, text: str, path: str = "a.py") -> None:
        super().__init__()
        self._text = text
        self._path = path
        self.register_theme(load_signoff_theme("signoff-dark"))
        self.theme = "signoff-dark"

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return make_diff_variable_defaults(self.available_themes[self.theme])

    def compose(self) -> ComposeResult:
        yield CodeEditor(self._text, self._path)

    def on_mount(self) -> None:
        self.query_one(CodeEditor).focus()

    def colour(self, row: int, text: str) -> Any:
        for segment in self.query_one(CodeEditor).render_line(row):
            if text in segment.text:
                return segment.style.color if segment.style else None
        raise AssertionError(f"{text!r} is not in row {row}")


async def test_a_file_is_coloured_by_its_name_and_typed_text_at_once() -> None:
    app = Editing(SOURCE)
    async with app.run_test() as pilot:
        await pilot.press("ctrl+end")
        keyword, string, plain = app.colour(0, "import"), app.colour(5, "text"), app.colour(3, "value")
        colours = {keyword, app.colour(3, "name"), string, app.colour(5, "12"), plain}
        assert len(colours) == 4, "a number has the colour of a keyword, nothing else is alike"
        await pilot.press("r", "e", "t", "u", "r", "n")
        assert app.colour(6, "return") == keyword
        app.query_one(CodeEditor).insert("x = '''\n", (0, 0))
        await pilot.pause()
        assert app.colour(1, "import") == string
    unknown = Editing(SOURCE, "a.unknown")
    async with unknown.run_test() as pilot:
        await pilot.press("ctrl+end")
        assert unknown.colour(0, "import") == unknown.colour(3, "def name")


async def test_the_lexer_sees_what_is_on_screen_and_not_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def watched(path: str, lines: Any) -> Any:
        seen.append(len(lines))
        return lex_lines(path, lines)

    monkeypatch.setattr(code_editor, "lex_lines", watched)
    app = Editing("value = 1\n" * 6_000)
    async with app.run_test(size=(80, 40)) as pilot:
        await pilot.press("ctrl+end", "x")
        assert max(seen) <= CHUNK_LINES + LEAD_LINES
        assert sum(seen) <= 12 * (CHUNK_LINES + LEAD_LINES)
