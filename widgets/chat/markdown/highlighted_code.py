"""Highlighted code: lexed piece by piece, when a row of the piece is drawn for the first time."""

import re
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from widgets.chat.markdown.styled_lines import Span, StyledLine, TextStyle, find_fitting_end

if TYPE_CHECKING:
    from pygments.lexer import Lexer

_PLAIN = TextStyle("code")
_OVERLAP_LINES = 4
"""Number of non-blank lines with known styles that are lexed again together with new lines."""
_HANGING_INDENT_CELLS = 4
"""Extra indentation, in cells, of the continuation rows of a cut line."""

_ROLES_BY_TOKEN: tuple[tuple[str, str], ...] = (
    ("Comment.Preproc", "code-keyword"),
    ("Comment", "code-comment"),
    ("Keyword.Constant", "code-number"),
    ("Keyword.Type", "code-type"),
    ("Keyword", "code-keyword"),
    ("Operator.Word", "code-keyword"),
    ("Literal.String", "code-string"),
    ("Literal.Number", "code-number"),
    ("Name.Function", "code-function"),
    ("Name.Decorator", "code-function"),
    ("Name.Class", "code-type"),
    ("Name.Exception", "code-type"),
    ("Name.Builtin", "code-type"),
    ("Name.Namespace", "code-type"),
    ("Name.Tag", "code-keyword"),
    ("Name.Attribute", "code-function"),
    ("Name.Constant", "code-number"),
    ("Generic.Deleted", "removed"),
    ("Generic.Inserted", "added"),
    ("Generic.Heading", "code-keyword"),
    ("Generic.Subheading", "code-function"),
    ("Generic.Prompt", "code-comment"),
)
"""Pygments token names with their roles; the first one that is a prefix of the token's name applies."""


@lru_cache(maxsize=256)
def _token_style(token: Any) -> TextStyle:
    name = str(token).removeprefix("Token.")
    for prefix, role in _ROLES_BY_TOKEN:
        if name.startswith(prefix):
            return TextStyle(role, italic=role == "code-comment")
    return _PLAIN


_lexers: "dict[str, Lexer | None]" = {"": None}
"""The loaded lexers by name of the language; None for an unknown language."""


def find_code_language(info_string: str) -> str:
    """Return the language in a fence's info string: `python` for `python title=x` and `{.python}`."""
    return re.split(r"[\s,:{]", info_string.strip().lstrip("{."), maxsplit=1)[0].rstrip("}").lower()


def load_lexers(languages: Iterable[str]) -> None:
    """Load the lexers of these languages; call it in a thread, because one takes up to 40 ms."""
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    for language in languages:
        try:
            _lexers[language] = get_lexer_by_name(language, stripnl=False, ensurenl=False)
        except ClassNotFound:
            _lexers[language] = None


class LazyHighlightedCode:
    """Code lines of one language, highlighted only when first used; plain until the lexer is loaded.

    Args:
        lines: The lines, without line ends.
        info_string: Info string of the fence.
        previous: The shorter, previous state of the piece.
    """

    __slots__ = ("_highlighted_lines", "_previous_piece", "language", "lines")

    def __init__(self, lines: Sequence[str], info_string: str, previous: "LazyHighlightedCode | None" = None) -> None:
        self.lines = lines
        self.language = find_code_language(info_string)
        self._highlighted_lines: list[list[Span]] | None = None
        # If the previous piece was never highlighted, use the one before it.
        self._previous_piece: LazyHighlightedCode | None = previous
        if previous is not None and previous._highlighted_lines is None:
            self._previous_piece = previous._previous_piece

    @property
    def missing_lexer(self) -> str:
        """Return the language whose lexer must be loaded first; empty if none is missing."""
        return "" if self.language in _lexers else self.language

    def spans(self, index: int) -> Sequence[Span]:
        """Return the spans of line `index`."""
        if self.missing_lexer:
            return [(self.lines[index], _PLAIN)]
        if self._highlighted_lines is None:
            self._highlighted_lines = self._continue_styles() or _highlight_lines(self.lines, self.language)
            self._previous_piece = None
        return self._highlighted_lines[index]

    def _continue_styles(self) -> list[list[Span]]:
        """Return the styles of the previous piece plus those of the added text; empty if they cannot be combined.

        A lexer does not reveal its state at the end of a line, for example inside a string. Therefore, it begins some
        lines above the new text. If it finds the known styles there, it is in the correct state.
        """
        previous = self._previous_piece
        if previous is None or previous._highlighted_lines is None or previous.language != self.language:
            return []
        # The last line of the previous piece may have been incomplete.
        same_count = len(previous.lines) - 1
        if self.lines[:same_count] != previous.lines[:same_count]:
            return []
        begin, left = same_count, _OVERLAP_LINES
        while begin and left:
            begin -= 1
            left -= bool(self.lines[begin].strip())
        rows = _highlight_lines(self.lines[begin:], self.language)
        known = previous._highlighted_lines[:same_count]
        return [*known, *rows[same_count - begin :]] if begin and rows[: same_count - begin] == known[begin:] else []


def _highlight_lines(lines: Sequence[str], language: str) -> list[list[Span]]:
    """Return the lines with their styles, lexed from the first line."""
    lexer = _lexers[language]
    if lexer is None:
        return [[(line, _PLAIN)] for line in lines]
    rows: list[list[Span]] = [[]]
    # Some lexers, for example that of diffs, need the end of a line.
    for token, value in lexer.get_tokens("\n".join([*lines, ""])):
        style = _token_style(token)
        first, *others = value.split("\n")
        if first:
            rows[-1].append((first, style))
        for other in others:
            rows.append([(other, style)] if other else [])
    # A lexer that drops or adds characters must not change the text: show the line plain.
    return [
        rows[index] if index < len(rows) and "".join(text for text, _ in rows[index]) == line else [(line, _PLAIN)]
        for index, line in enumerate(lines)
    ]


def lay_out_code(
    source: str,
    info_string: str,
    width: int,
    prefix: tuple[Span, ...] = (),
    continuation_lines: Collection[int] = (),
    previous: LazyHighlightedCode | None = None,
) -> list[StyledLine]:
    """Return the rows of code, cut at the width rather than at words, so that a copy is exact; styles are lazy.

    Args:
        width: In cells.
        prefix: Spans before each row.
        continuation_lines: Indices of the lines that continue the line before.
        previous: The shorter, previous state of the code.
    """
    texts = source.expandtabs(4).split("\n")
    piece = LazyHighlightedCode(texts, info_string, previous)
    gutter: tuple[Span, ...] = (*prefix, (" ", _PLAIN))
    gutter_length = sum(len(text) for text, _ in gutter)
    room = max(8, width - gutter_length - 1)
    rows: list[StyledLine] = []
    for index, text in enumerate(texts):
        joint = "" if index in continuation_lines else None
        hanging_indent = min(len(text) - len(text.lstrip(" ")) + _HANGING_INDENT_CELLS, room // 2)
        for start, end in _find_cuts(text, room, room - hanging_indent):
            row_prefix = (*gutter, (" " * hanging_indent, _PLAIN)) if start else gutter
            length = gutter_length + hanging_indent if start else gutter_length
            row = (*row_prefix, (text[start:end], _PLAIN))
            rows.append(StyledLine(row, length, "" if start else joint, "code", (piece, index, start, end)))
    return rows


def _find_cuts(text: str, width: int, later_width: int) -> list[tuple[int, int]]:
    """Return the cuts of a code line, at a space in the last third of the row if possible; keep all characters.

    The first row has `width` cells, the others `later_width`.
    """
    cuts: list[tuple[int, int]] = []
    position = 0
    while True:
        end = find_fitting_end(text, position, later_width if cuts else width)
        if end >= len(text):
            cuts.append((position, len(text)))
            return cuts
        space = text.rfind(" ", end - (end - position) // 3, end)
        stop = space + 1 if space > position else end
        cuts.append((position, stop))
        position = stop
