"""The editor's colours: right on screen, anew after an edit, and never of the whole file."""

from typing import Any

import pytest
from textual.app import App, ComposeResult

from app.ui.themes.first_theme import own_theme
from widgets.diff import code_editor
from widgets.diff.code_editor import LEAD, STRETCH, CodeEditor
from widgets.diff.diff_colours import diff_variable_defaults
from widgets.diff.syntax_tokens import lex

SOURCE = 'import os\n\n\ndef name(value):\n    """Doc."""\n    return "text", 12\n'


class Editing(App[None]):
    """One editor over the whole screen."""

    def __init__(self, text: str, path: str = "a.py") -> None:
        super().__init__()
        self._text = text
        self._path = path
        self.register_theme(own_theme("signoff-dark"))
        self.theme = "signoff-dark"

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return diff_variable_defaults(self.available_themes[self.theme])

    def compose(self) -> ComposeResult:
        yield CodeEditor(self._text, self._path)

    def on_mount(self) -> None:
        self.query_one(CodeEditor).focus()

    def colour(self, row: int, text: str) -> Any:
        """The colour of a text in a row of the screen."""
        for segment in self.query_one(CodeEditor).render_line(row):
            if text in segment.text:
                return segment.style.color if segment.style else None
        raise AssertionError(f"{text!r} is not in row {row}")


async def test_a_file_is_coloured_by_its_name() -> None:
    app = Editing(SOURCE)
    async with app.run_test() as pilot:
        await pilot.press("ctrl+end")
        plain = app.colour(3, "value")
        colours = {app.colour(0, "import"), app.colour(3, "name"), app.colour(5, "text"), app.colour(5, "12"), plain}
        assert len(colours) == 4, "a number has the colour of a keyword, nothing else is alike"


async def test_a_file_of_no_known_kind_is_plain() -> None:
    app = Editing(SOURCE, "a.unknown")
    async with app.run_test() as pilot:
        await pilot.press("ctrl+end")
        assert app.colour(0, "import") == app.colour(3, "def name")


async def test_what_is_typed_is_coloured_at_once_and_so_is_what_follows_from_it() -> None:
    app = Editing(SOURCE)
    async with app.run_test() as pilot:
        await pilot.press("ctrl+end")
        keyword, string = app.colour(0, "import"), app.colour(5, "text")
        await pilot.press("r", "e", "t", "u", "r", "n")
        assert app.colour(6, "return") == keyword
        editor = app.query_one(CodeEditor)
        editor.insert("x = '''\n", (0, 0))
        await pilot.pause()
        assert app.colour(1, "import") == string


@pytest.mark.parametrize("count", [3_000, 30_000])
async def test_the_lexer_sees_what_is_on_screen_and_not_the_file(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    seen: list[int] = []

    def watched(path: str, lines: Any) -> Any:
        seen.append(len(lines))
        return lex(path, lines)

    monkeypatch.setattr(code_editor, "lex", watched)
    app = Editing("value = 1\n" * count)
    async with app.run_test(size=(80, 40)) as pilot:
        await pilot.press("ctrl+end", "x")
        assert max(seen) <= STRETCH + LEAD
        assert sum(seen) <= 12 * (STRETCH + LEAD)
