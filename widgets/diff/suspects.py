"""What a reader has to look at twice: glyphs for characters that don't show, and words with look-alike letters.

Only what is on view is looked at, so that a line of any length costs the same.
"""

import re

from app.homoglyphs import lookalikes
from widgets.diff.cells import DisplayText

_NOT_PLAIN = re.compile(r"[^\x20-\x7e\t]")

_LONGEST_WORD = 500
"""How far beyond the view the letters of a word are looked for."""


def suspects(line: str, shown: DisplayText, first: int, last: int) -> list[tuple[int, int]]:
    """Ranges of the drawn text of a line, among those between two drawn characters or reaching into them."""
    start, end = shown.source(first), shown.source(last)
    if line[start:end].isascii() and line[start:end].isprintable():
        return []
    found: list[tuple[int, int]] = []
    for match in _NOT_PLAIN.finditer(line, start, end):
        at = shown.drawn(match.start())
        if shown.text[at] != match[0]:
            found.append((at, at + 1))
    low = max(0, start - _LONGEST_WORD)
    found += (
        (shown.drawn(low + begin), shown.drawn(low + stop))
        for begin, stop in lookalikes(line[low : end + _LONGEST_WORD])
    )
    return [span for span in found if not any(begin <= span[0] < stop for begin, stop in shown.gaps)]
