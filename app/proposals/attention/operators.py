"""Lines of which a change replaces but an operator: the smallest edit that turns what a program does around.

Kept apart: the one reason that looks at a removed line together with the one in its stead.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from app.proposals.attention.edited import EditedFile, Line
from app.proposals.attention.kinds import is_prose
from app.proposals.attention.reason import Reason, ReasonKind
from app.proposals.text.words import equal_ends

_OPERATOR = re.compile(
    r"[=!]==?|<=|>=|(?<![<>=-])[<>](?![<>=])|&&|\|\||!(?=[\w(])|(?<=[\w)\]])\s*[+-]\s*1\b(?!\.)"
    r"|\bis\s+not\b|\bnot\s+in\b|\b(?:is|in|not|and|or)\b"
)
_SAME = {"===": "==", "is": "==", "!==": "!=", "isnot": "!=", "&&": "and", "||": "or", "!": "not"}
"""What one language, or one style, writes for the other."""
_IN_OPERATORS = {
    code: None for code in range(0x3001) if chr(code).isspace() or chr(code) in "=!<>&|+-1" or chr(code) in "isnotadr"
}
"""Deletes, by `str.translate`, every character that an operator can hold, and white space."""
_BETWEEN = ",;:{}\"'`"
"""Characters that no operator holds, and beside which none depends on what is on their other side."""


def turned_operators(file: EditedFile) -> Iterator[Reason]:
    """Lines that are as before but for a comparison, a negation, `and`, `or`, or one more or less."""
    if is_prose(file.path) or not any(_turned(file.removed, file.added)):
        return
    if found := list(_turned(file.removed_code, file.added_code)):
        yield file.reason(ReasonKind.OPERATORS, found)


def _turned(removed: Sequence[Line], added: Sequence[Line]) -> Iterator[Line]:
    """The added lines that differ from a removed one of their hunk in operators alone."""
    before: dict[tuple[str, str], Counter[tuple[str, ...]]] = {}
    removed, added = _comparable(removed, added)
    for line in removed:
        rest, operators = _apart(line)
        before.setdefault(rest, Counter())[operators] += 1
    for line in added:
        rest, operators = _apart(line)
        if (others := before.get(rest)) and operators not in others:
            others.subtract([next(iter(others))])
            before[rest] = +others
            yield line


def _comparable(removed: Sequence[Line], added: Sequence[Line]) -> tuple[Sequence[Line], Sequence[Line]]:
    """The lines that may differ in operators alone: without the characters of operators they are the same.

    A single pair is cut to the part that differs: it may be a file of one line.
    """
    if not removed or not added:
        return (), ()
    if len(removed) == len(added) == 1:
        one, other = _differing(removed[0].text, added[0].text)
        removed, added = [removed[0]._replace(text=one)], [added[0]._replace(text=other)]
    old, new = ([(line.hunk, line.text.translate(_IN_OPERATORS)) for line in side] for side in (removed, added))
    both = set(old) & set(new)
    return (
        [line for line, key in zip(removed, old, strict=True) if key in both],
        [line for line, key in zip(added, new, strict=True) if key in both],
    )


def _differing(old: str, new: str) -> tuple[str, str]:
    """Both texts without what is the same at their beginning and end, cut where no operator can be cut."""
    head, tail = equal_ends(old, new)
    start = max(0, *(old.rfind(mark, 0, head) for mark in _BETWEEN))
    ends = [at for mark in _BETWEEN if (at := old.find(mark, len(old) - tail)) >= 0]
    left = len(old) - min(ends) - 1 if ends else 0
    return old[start : len(old) - left], new[start : len(new) - left]


def _apart(line: Line) -> tuple[tuple[str, str], tuple[str, ...]]:
    """A line without its operators, in its hunk; and these, the same in every style."""
    operators = tuple("".join(found.split()) for found in _OPERATOR.findall(line.text))
    rest = "".join(_OPERATOR.sub("", line.text).split())
    return (line.hunk, rest), tuple(_SAME.get(one, one) for one in operators)
