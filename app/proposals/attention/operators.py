"""Lines of which a change replaces but an operator: the smallest edit that turns what a program does around.

Kept apart: the one reason that looks at a removed line together with the one in its stead.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from app.proposals.attention.edited import EditedFile, Line
from app.proposals.attention.kinds import is_prose
from app.proposals.attention.reason import Reason, ReasonKind

_OPERATOR = re.compile(
    r"[=!]==?|<=|>=|(?<![<>=-])[<>](?![<>=])|&&|\|\||!(?=[\w(])|(?<=[\w)\]])\s*[+-]\s*1\b(?!\.)"
    r"|\bis\s+not\b|\bnot\s+in\b|\b(?:is|in|not|and|or)\b"
)
_SAME = {"===": "==", "is": "==", "!==": "!=", "isnot": "!=", "&&": "and", "||": "or", "!": "not"}
"""What one language, or one style, writes for the other."""


def turned_operators(file: EditedFile) -> Iterator[Reason]:
    """Lines that are as before but for a comparison, a negation, `and`, `or`, or one more or less."""
    if is_prose(file.path) or not any(_turned(file.removed, file.added)):
        return
    if found := list(_turned(file.removed_code, file.added_code)):
        yield file.reason(ReasonKind.OPERATORS, found)


def _turned(removed: Sequence[Line], added: Sequence[Line]) -> Iterator[Line]:
    """The added lines that differ from a removed one of their hunk in operators alone."""
    before: dict[tuple[str, str], Counter[tuple[str, ...]]] = {}
    for line in removed:
        rest, operators = _apart(line)
        before.setdefault(rest, Counter())[operators] += 1
    for line in added if before else ():
        rest, operators = _apart(line)
        if (others := before.get(rest)) and operators not in others:
            others.subtract([next(iter(others))])
            before[rest] = +others
            yield line


def _apart(line: Line) -> tuple[tuple[str, str], tuple[str, ...]]:
    """A line without its operators, in its hunk; and these, the same in every style."""
    operators = tuple("".join(found.split()) for found in _OPERATOR.findall(line.text))
    rest = "".join(_OPERATOR.sub("", line.text).split())
    return (line.place.hunk, rest), tuple(_SAME.get(one, one) for one in operators)
