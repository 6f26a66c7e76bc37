"""How the lines look that begin a block of Markdown (CommonMark 0.31, and GitHub's tables).

Kept apart: a grammar, without what the splitter makes of it.
"""

import re

FENCE = re.compile(r"( {0,3})(`{3,}(?=[^`]*$)|~{3,})(.*)$")
INNER_FENCE = re.compile(r"\s*(`{3,}(?=[^`]*$)|~{3,})")
ITEM_MARK = re.compile(r"^\s*(?:[-*+]|\d{1,9}[.)])\s+")
HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
RULE = re.compile(r" {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$")
UNDERLINE = re.compile(r" {0,3}(?:-+|=+)[ \t]*$")
ITEM = re.compile(r"( {0,3})(?:([-*+])|(\d{1,9})([.)]))(?:([ \t]+)(?=\S)|[ \t]*$)")
NESTED_ITEM = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+\S")
QUOTE = re.compile(r" {0,3}>")
DELIMITER = re.compile(r" {0,3}\|?[ \t]*:?-+:?[ \t]*+(?:\|[ \t]*:?-+:?[ \t]*+)*(?:\|[ \t]*)?$")


def indentation(line: str) -> int:
    """Spaces before the text of a line."""
    return len(line) - len(line.lstrip(" "))


def starts_block(line: str, inside_paragraph: bool = False) -> bool:
    """Whether the line begins a block of its own, so that an open paragraph, table or quote ends before it."""
    if FENCE.match(line) or HEADING.match(line) or RULE.match(line) or QUOTE.match(line):
        return True
    item = ITEM.match(line)
    if not item:
        return False
    # In the middle of a paragraph an empty item or a number other than 1 is just text.
    return not inside_paragraph or (item[5] is not None and item[3] in (None, "1"))
