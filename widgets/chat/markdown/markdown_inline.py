"""Markdown's inline tokens to spans: emphasis, code, links, line breaks."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from widgets.chat.markdown.styled_lines import Span, TextStyle

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_DEFINITION = re.compile(r"^ {0,3}\[[^\]\n]+\]:[ \t]*\S.*$", re.MULTILINE)
_URL = re.compile(r"https?://[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]}]")


@lru_cache(maxsize=1)
def parser() -> "MarkdownIt":
    """The Markdown parser: CommonMark with tables and strikethrough; HTML stays text."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def link_references(source: str) -> dict[str, Any]:
    """Return the link references defined in a whole text, in the parser's form."""
    environment: dict[str, Any] = {}
    if definitions := _DEFINITION.findall(source):
        parser().parse("\n\n".join(definitions), environment)
    return environment


def inline_spans(tokens: Sequence["Token"], base: TextStyle) -> list[list[Span]]:
    """The spans of an inline token's children, one list for each hard line."""
    rows: list[list[Span]] = [[]]
    faces = [base]
    for token in tokens:
        face = faces[-1]
        if token.nesting == 1:
            faces.append(_opened(token, face))
        elif token.nesting == -1:
            faces.pop()
        elif token.type == "hardbreak":
            rows.append([])
        else:
            rows[-1].extend(_leaf(token, face))
    return rows


def _opened(token: "Token", face: TextStyle) -> TextStyle:
    match token.type:
        case "strong_open":
            return face._replace(bold=True)
        case "em_open":
            return face._replace(italic=True)
        case "s_open":
            return face._replace(strike=True)
        case "link_open":
            return face._replace(role="link", href=str(token.attrs.get("href", "")))
    return face


def _leaf(token: "Token", face: TextStyle) -> list[Span]:
    match token.type:
        case "softbreak":
            return [(" ", face)]
        case "code_inline":
            return [(token.content, face._replace(role="link" if face.href else "code-inline"))]
        case "image":
            address = str(token.attrs.get("src", ""))
            return [(token.content or address, face._replace(role="link", href=address))]
        case "text" if "://" in token.content and not face.href:
            return _with_links(token.content, face)
    return [(token.content, face)] if token.content else []


def _with_links(text: str, face: TextStyle) -> list[Span]:
    spans: list[Span] = []
    position = 0
    for url in _URL.finditer(text):
        if url.start() > position:
            spans.append((text[position : url.start()], face))
        spans.append((url[0], face._replace(role="link", href=url[0])))
        position = url.end()
    if position < len(text):
        spans.append((text[position:], face))
    return spans
