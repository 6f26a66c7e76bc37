"""The end of a Markdown text that is still being written, shown as what it is about to become.

Read as it stands, it would be something else a moment later: a dash under a paragraph makes a heading of it before it
is a list, an address is text before it is behind a link, a row of a table is a paragraph before the rule below it is
there. Rows would come, jump and go while somebody reads them.
"""

import re
from dataclasses import replace

from widgets.chat.chunks import Chunk

_ONLY_MARKS = re.compile(r"[\s>]*+(?:[-+*_=#`~|]++|\d{1,3}|(?:[-+*]|\d{1,3}[.)])(?:\s++\[[ xX]?\]?)?)?\s*+$")
"""A line that has nothing of its own to show yet, whatever it becomes."""
_CODE = re.compile(r"(?<!`)(`++)[^`]++\1(?!`)")
_RUN = re.compile(r"\*+|_+|~~")
_OPEN_LINK = re.compile(r"!?\[[^\[\]\n]*\]\([^()\s]*$")
_PARAGRAPH = re.compile(r"\n[ \t>]*+\n|\n(?=[ \t>]*+(?:[-*+]|\d{1,9}[.)])\s)")
"""Where a paragraph of a list or a quotation begins."""
_LONGEST_EMPHASIS = 80
"""Characters after which a single mark was none: bold goes on for longer than words in italics."""
_RULE_BELOW = re.compile(r"[|:\- \t]*$")


def is_worth_showing(line: str, fence: str) -> bool:
    """Whether an unfinished line says something already; `fence` are the marks that end the code that it is in."""
    if fence:
        return not fence.startswith(line.strip())
    return _ONLY_MARKS.match(line) is None


def expected(chunk: Chunk) -> Chunk:
    """The last chunk of a text as it is when what is open in it is closed."""
    match chunk.kind:
        case "fence":
            return chunk
        case "table" if chunk.text or not chunk.begins:
            *rows, last = chunk.text.split("\n")
            before, pipe, cell = last.rpartition("|")
            return replace(chunk, text="\n".join([*rows, before + pipe + close_marks(cell)]))
        case "table":
            heading, rule, _ = chunk.header.split("\n")
            return chunk if _cells(heading) == _cells(rule) else _table(chunk, heading)
        case "block" if chunk.text.startswith("|"):
            heading, _, rule = chunk.text.partition("\n")
            return _table(chunk, heading) if _RULE_BELOW.match(rule) else chunk
        case _:
            return replace(chunk, text=close_marks(chunk.text))


def close_marks(text: str) -> str:
    """Text that was cut off inside emphasis, code or an address, with the marks closed."""
    begins = max((found.end() for found in _PARAGRAPH.finditer(text)), default=0)
    last = _CODE.sub(lambda code: "x" * len(code[0]), text[begins:])
    if last.count("`") % 2:
        return text.rstrip("`") if last.endswith("`") else text + "`"
    if _OPEN_LINK.search(last):
        return text + ")"
    opened: list[tuple[str, int, int]] = []
    """What is open: the mark, how many of it, and where."""
    for run in _RUN.finditer(last):
        _take(run, last, opened)
    trimmed = text.rstrip("*_~")
    if len(trimmed) < len(text) and (not trimmed or trimmed[-1].isspace() or trimmed[-1] in "(["):
        text = trimmed
    near = [(mark, count) for mark, count, at in opened if count > 1 or len(last) - at <= _LONGEST_EMPHASIS]
    return text + "".join(mark * count for mark, count in reversed(near))


def _take(run: re.Match[str], text: str, opened: list[tuple[str, int, int]]) -> None:
    """Open or close emphasis by the rules of CommonMark, roughly."""
    mark, count = run[0][0], len(run[0])
    before, after = text[run.start() - 1 : run.start()] or " ", text[run.end() : run.end() + 1] or " "
    if not before.isspace() and not (mark == "_" and after.isalnum()):
        while count and opened and opened[-1][0] == mark:
            _, held, at = opened.pop()
            count, held = max(0, count - held), max(0, held - count)
            if held:
                opened.append((mark, held, at))
    if count and not after.isspace() and not (mark == "_" and before.isalnum()):
        opened.append((mark, count, run.start()))


def _cells(row: str) -> int:
    return row.replace("\\|", "").strip().strip("|").count("|") + 1


def _table(chunk: Chunk, heading: str) -> Chunk:
    """A table of which there is but the heading, with the rule that is to come."""
    return replace(chunk, kind="table", text="", header=f"{heading}\n|{'---|' * _cells(heading)}\n")
