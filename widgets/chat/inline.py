"""Markdown's inline tokens to spans: emphasis, code, links, line breaks."""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from widgets.chat.lines import Face, Span

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_URL = re.compile(r"https?://[^\s<>\"'`]*[^\s<>\"'`.,;:!?)\]}]")


@lru_cache(maxsize=1)
def parser() -> "MarkdownIt":
    """The Markdown parser: CommonMark with tables and strikethrough; HTML stays text."""
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


def inline_spans(tokens: Sequence["Token"], base: Face) -> list[list[Span]]:
    """The spans of an inline token's children, one list for each hard line."""
    rows: list[list[Span]] = [[]]
    faces = [base]
    for token in tokens:
        face = faces[-1]
        match token.type:
            case "text":
                if "://" in token.content and not face.href:
                    rows[-1].extend(_with_links(token.content, face))
                elif token.content:
                    rows[-1].append((token.content, face))
            case "code_inline":
                rows[-1].append((token.content, face._replace(role="code-inline")))
            case "softbreak":
                rows[-1].append((" ", face))
            case "hardbreak":
                rows.append([])
            case "strong_open":
                faces.append(face._replace(bold=True))
            case "em_open":
                faces.append(face._replace(italic=True))
            case "s_open":
                faces.append(face._replace(strike=True))
            case "link_open":
                faces.append(face._replace(role="link", href=str(token.attrs.get("href", ""))))
            case "strong_close" | "em_close" | "s_close" | "link_close":
                faces.pop()
            case "image":
                address = str(token.attrs.get("src", ""))
                rows[-1].append((token.content or address, face._replace(role="link", href=address)))
            case _:
                if token.content:
                    rows[-1].append((token.content, face))
    return rows


def _with_links(text: str, face: Face) -> list[Span]:
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


def close_marks(text: str) -> str:
    """Text that is cut off in the middle of emphasis or code, with the marks closed, so that streaming doesn't flicker."""
    last = text[text.rfind("\n\n") + 1 :]
    if last.count("`") % 2:
        return text + "`"
    if last.endswith("*") or last.endswith("_"):
        trimmed = text.rstrip("*_")
        if trimmed and (trimmed[-1].isspace() or trimmed.endswith("(")):
            return trimmed
    if last.count("**") % 2:
        return text.rstrip("*") + "**" if not text.endswith("**") else text
    return text
