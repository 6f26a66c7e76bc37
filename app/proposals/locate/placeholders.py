"""Recognising `# ... existing code ...`: text that stands for lines it does not spell out.

Kept apart: its expressions are long, and only the last rung asks them.
"""

import re
from collections.abc import Iterable

_DOTS = r"(?:\.{3}|…)"
_BARE = re.compile(rf"\s*{_DOTS}\s*")
_COMMENT = re.compile(r"\s*(?:#|//|--|;+|%|/\*+|\*|<!--|\{/\*)\s*[\[(]?(?P<said>.*?)[\])]?\s*(?:\*/\}?|-->)?\s*")
_BETWEEN_DOTS = re.compile(rf"\s*{_DOTS}(?:[^.…]*{_DOTS})?\s*")
_LEADING_OR_TRAILING_DOTS = re.compile(rf"\s*(?:{_DOTS}.*|.*{_DOTS})\s*")
_WORDS = re.compile(r"\b(?:rest|remainder|remaining|existing|unchanged|previous|same|other|omitted|code)\b", re.I)
_PROMISE = re.compile(
    r"(?:the\s+)?(?:rest|remainder|remaining|existing|other|previous)\b.*"
    r"\b(?:unchanged|omitted|as before|the same|goes here|stays here)\.?",
    re.I,
)


def placeholder_line(lines: Iterable[str], *, bare: bool = False) -> str | None:
    """The first line that stands for others (`// ... rest of the code`), or None.

    A bare `...` is code in Python, so it counts only on demand.
    """
    for line in lines:
        if (bare and _BARE.fullmatch(line)) or (len(line) < 200 and _elides(line)):
            return line.strip()
    return None


def _elides(line: str) -> bool:
    comment = _COMMENT.fullmatch(line)
    said = comment["said"] if comment else line
    if not comment:
        return bool(_BETWEEN_DOTS.fullmatch(said) and _WORDS.search(said))
    if _BETWEEN_DOTS.fullmatch(said) or _PROMISE.fullmatch(said):
        return True
    return bool(_LEADING_OR_TRAILING_DOTS.fullmatch(said) and _WORDS.search(said))
