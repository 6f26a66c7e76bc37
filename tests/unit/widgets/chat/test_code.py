"""Code rows: exact for a copy, highlighted only when drawn."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pygments.lexer import RegexLexer

from widgets.chat.markdown.highlighted_code import LazyHighlightedCode, find_code_language, lay_out_code, load_lexers
from widgets.chat.markdown.styled_lines import cell_width


@pytest.fixture(scope="module", autouse=True)
def _lexers() -> None:
    load_lexers(["python", "js", "diff", "text", "output", "nonsense", "no-such-language"])


CODE = st.text(alphabet='ab =()"#日\t :\n', max_size=200)


@given(CODE, st.integers(12, 60), st.sampled_from(["python", "", "nonsense", "js"]))
def test_rows_join_to_the_code_again(source: str, width: int, language: str) -> None:
    joined: list[str] = []
    for line in lay_out_code(source, language, width):
        text = line.text[line.gutter :]
        assert cell_width(line.text) <= width
        assert "".join(part for part, _ in line.resolve_spans())[line.gutter :] == text
        if line.joint is None:
            joined.append(text)
        else:
            joined[-1] += text
    assert "\n".join(joined) == source.expandtabs(4)


def test_python_gets_faces() -> None:
    piece = LazyHighlightedCode(["def f():", '    return "x"  # why'], "python")
    roles = {text: face.role for text, face in [*piece.spans(0), *piece.spans(1)]}
    assert roles["def"] == "code-keyword"
    assert roles["f"] == "code-function"
    assert roles["# why"] == "code-comment"


PYTHON = [
    "def f(a: int) -> str:",
    '    """Says what',
    "    class it is.",
    '    """',
    "    # comment",
    "    return f'{a} {b!r}' + \\",
    "",
    "x = [1, 'two', (3,",
    "'' 'its",
    "@decorated",
]


@given(st.lists(st.sampled_from(PYTHON), max_size=40), st.data())
def test_growing_code_loses_no_character(lines: list[str], data: st.DataObject) -> None:
    source, piece, end = "\n".join(lines), None, 0
    while end < len(source):
        end = min(len(source), end + data.draw(st.integers(1, 30)))
        written = source[:end].split("\n")
        piece = LazyHighlightedCode(written, "python", piece)
        if data.draw(st.booleans()):
            assert ["".join(text for text, _ in piece.spans(at)) for at in range(len(written))] == written


def test_growing_code_is_highlighted_like_complete_code() -> None:
    lines = ["def f():", "    return 'x'  # why", *("", ""), "class A:", "    x = 1", '    y = """', "a", '"""', "z"]
    grown = None
    for count in range(1, len(lines) + 1):
        grown = LazyHighlightedCode(lines[:count], "python", grown)
        fresh = LazyHighlightedCode(lines[:count], "python")
        assert [grown.spans(at) for at in range(count)] == [fresh.spans(at) for at in range(count)]


def test_other_code_with_the_same_end_is_lexed_completely() -> None:
    lines = [f"value_{number} = {number}" for number in range(10)]
    before = LazyHighlightedCode(lines, "python")
    before.spans(0)
    other = ['"""Said first."""', *lines[1:], "end"]
    piece = LazyHighlightedCode(other, "python", before)
    assert ["".join(text for text, _ in piece.spans(at)) for at in range(len(other))] == other


def test_growing_code_is_lexed_only_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    lexed: list[int] = []
    get_tokens = RegexLexer.get_tokens

    def counting(self: RegexLexer, text: str, unfiltered: bool = False) -> Iterator[tuple[Any, str]]:
        lexed.append(len(text))
        return get_tokens(self, text, unfiltered)

    monkeypatch.setattr(RegexLexer, "get_tokens", counting)
    lines = [f"value_{number} = {number}" for number in range(50)]
    piece = LazyHighlightedCode(lines, "python")
    piece.spans(0)
    for typed in range(1, 10):
        piece = LazyHighlightedCode([*lines[:-1], "value = 49"[:typed]], "python", piece)
        piece.spans(0)
    whole, *again = lexed
    assert max(again) < whole / 5


@pytest.mark.parametrize("info", ["python", "Python", "python title=x", "{.python}", " python,linenos"])
def test_info_strings_name_their_language_in_many_ways(info: str) -> None:
    assert find_code_language(info) == "python"


def test_code_is_plain_until_its_lexer_is_loaded() -> None:
    piece = LazyHighlightedCode(["let x = 1"], "nim")
    assert piece.missing_lexer == "nim"
    assert [face.role for _, face in piece.spans(0)] == ["code"]
    load_lexers([piece.missing_lexer])
    assert not piece.missing_lexer
    assert next(face.role for _, face in piece.spans(0)) == "code-keyword"
    assert not LazyHighlightedCode(["x"], "").missing_lexer, "where no language is named"


@pytest.mark.parametrize("language", ["", "text", "output", "no-such-language"])
def test_what_is_no_code_is_plain(language: str) -> None:
    piece = LazyHighlightedCode(["def f():", "", "  1 # x"], language)
    faces = {face for at in range(3) for _, face in piece.spans(at)}
    assert [face.role for face in faces] == ["code"]


def test_a_line_of_a_megabyte_is_cut_in_linear_time() -> None:
    lines = lay_out_code("x" * 1_000_000, "", 100)
    assert len(lines) > 10_000


def test_the_rest_of_a_long_line_is_indented_and_copied_as_it_was() -> None:
    source = "if x:\n    return one_thing + another_thing + a_third_thing"
    rows = lay_out_code(source, "python", 30)
    first, *rest = (row.text for row in rows)
    assert first == " if x:"
    assert rest == ["     return one_thing + ", "         another_thing + ", "         a_third_thing"]
    assert "".join(("\n" if row.joint is None else "") + row.text[row.gutter :] for row in rows)[1:] == source


def test_every_line_of_a_diff_has_its_colour_the_last_one_too() -> None:
    piece = LazyHighlightedCode(["-old", "+  new", "+  last"], "diff")
    assert [face.role for index in range(3) for _, face in piece.spans(index)] == ["removed", "added", "added"]
