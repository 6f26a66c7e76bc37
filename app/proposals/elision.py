"""Recognising `... existing code ...`: text that stands for lines it does not spell out."""

import re
from collections.abc import Iterable

_BARE = re.compile(r"^\s*(?:\.{3}|…)\s*$")
_LEADER = r"(?:#|//|--|;+|%|/\*|<!--|\{/\*|\*|\"\"\")"
_COMMENT = re.compile(rf"^\s*{_LEADER}?\s*(?:\.{{3}}|…)[^.…]*(?:\.{{3}}|…)\s*(?:\*/\}}?|-->)?\s*$")
_SAID = re.compile(
    rf"^\s*{_LEADER}\s*(?:\[|\()?\s*(?:\.{{3}}|…)?\s*"
    r"(?:the\s+)?(?:rest|remainder|remaining|existing|unchanged|previous|same|other|omitted)\b"
    r"[\w\s,'-]*(?:\.{3}|…|unchanged|omitted|as before|stays? the same|remains?(?: the same| unchanged)?|goes here)"
    r"\s*(?:\]|\))?\s*(?:\*/\}?|-->)?\s*$",
    re.IGNORECASE,
)


def elided_line(lines: Iterable[str], *, bare: bool = False) -> str | None:
    """The first line that stands for others (`# ... rest of the code ...`), or None.

    A bare `...` is code in Python, so it counts only on demand.
    """
    for line in lines:
        if (bare and _BARE.match(line)) or _SAID.match(line):
            return line.strip()
        if _COMMENT.match(line) and not _BARE.match(line):
            return line.strip()
    return None
