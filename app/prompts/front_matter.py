"""Front matter: the block of settings between two lines of `---` at the start of a Markdown file.

It is often not valid YAML (for example `description: Use it when: …`), so the lines are parsed leniently: a key and
its text, a quoted text, a block after `|` or `>`, or indented lines below the key. Callers interpret the texts of the
keys that they know; other keys are ignored.
"""

import json
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct, field

_FENCE = "---"
_END_LINES = frozenset({_FENCE, "..."})
_KEY = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t]+(.*))?$")
_COMMENT = re.compile(r"""^("(?:\\.|[^"\\])*"|'(?:''|[^'])*'|[^"'].*?(?<=\S))\s+\#(?:\s.*)?$""", re.VERBOSE)
"""A value and a comment after it; "#12" is not a comment."""
_BLOCK_MARK = re.compile(r"([|>])[+-]?\d?[+-]?$")


class FrontMatterFile(Struct, frozen=True):
    """A Markdown file split into front matter and body."""

    values: Mapping[str, str] = field(default_factory=dict)
    """The texts of the front matter, by key in lower case."""
    body: str = ""
    """The text below the front matter."""
    problem: str = ""
    """Why the front matter cannot be parsed, in one line; empty if it can."""


def parse_front_matter(text: str) -> FrontMatterFile:
    """Split a Markdown text into front matter and body; without front matter, all of it is the body."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != _FENCE:
        return FrontMatterFile(body="\n".join(lines))
    end = next((position for position, line in enumerate(lines[1:], 1) if line.rstrip() in _END_LINES), None)
    if end is None:
        return FrontMatterFile(problem="its front matter has no end: a second line of ---")
    values: dict[str, str] = {}
    position = 1
    while position < end:
        line = lines[position]
        position += 1
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _KEY.match(line.rstrip())
        if match is None:
            return FrontMatterFile(problem=f"line {position} of its front matter is no `key: value`")
        start = position
        while position < end and _is_continuation(lines[position]):
            position += 1
        values[match[1].lower()] = _parse_value(match[2] or "", lines[start:position])
    return FrontMatterFile(values, "\n".join(lines[end + 1 :]).strip("\n"))


def _is_continuation(line: str) -> bool:
    """Return whether a line belongs to the key above it."""
    return not line.strip() or line[0] in " \t-"


def _parse_value(first_line: str, following_lines: Sequence[str]) -> str:
    """Return the text of a key from its line and the lines below it."""
    first_line, lines = _COMMENT.sub(r"\1", first_line).strip(), [line.strip() for line in following_lines]
    if block := _BLOCK_MARK.match(first_line):
        return ("\n" if block[1] == "|" else " ").join(lines).strip()
    return _unquote(" ".join(part for part in (first_line, *lines) if part))


def _unquote(text: str) -> str:
    if len(text) < 2 or text[0] != text[-1] or text[0] not in "\"'":
        return text
    if text[0] == "'":
        return text[1:-1].replace("''", "'")
    try:
        return str(json.loads(text, strict=False))
    except ValueError:
        return text[1:-1]
