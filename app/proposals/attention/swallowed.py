"""Exceptions that a change catches and says nothing of: `except: pass`, an empty `catch`.

Kept apart: the one reason that takes more than a line to see.
"""

import re
from collections.abc import Iterator, Sequence

from app.proposals.attention.edited import EditedFile
from app.proposals.attention.literal_search import LiteralPattern
from app.proposals.attention.reason import Reason, ReasonKind

_CANDIDATE = LiteralPattern(
    r"\bexcept\b|\bcatch\b|\brescue\b|\bsuppress\(|\b(?:pass|nil)\b|^[^\S\n]*\}",
    ("except", "catch", "rescue", "suppress(", "pass", "nil"),
    ("}",),
)
_EXCEPT = re.compile(r"^\s*except\b[^:]{0,200}:\s*(?P<body>pass|\.\.\.)?\s*$")
_SUPPRESS = LiteralPattern(r"\bsuppress\((?:Base)?Exception\)", ("suppress(",))
_NOTHING = re.compile(r"^(?P<indent>\s*)(?:pass|\.\.\.)\s*$")
_EMPTY_CATCH = LiteralPattern(r"\bcatch\b[^{}]{0,200}\{\s*\}", ("catch",))
_OPEN = LiteralPattern(r"\bcatch\b[^{}]{0,200}\{\s*$|\bif err != nil \{\s*$", ("catch", "if err != nil {"))
_RESCUE = re.compile(r"^\s*rescue\b")
_END = re.compile(r"^\s*(?:nil\s*)?(?:end\b|nil$)")
_LONGEST = 4
"""Lines of an empty handler, with comments."""


def swallowed(file: EditedFile) -> Iterator[Reason]:
    """Handlers that are new, or emptied, and hold nothing but comments."""
    if not _CANDIDATE.search(file.added_text):
        return
    code, added = file.new_code, {line.number: line for line in file.added}
    starts = sorted({max(0, number - above) for number in added for above in range(_LONGEST)})
    found = []
    for first in starts:
        last = _end_of_empty(file.path, code, first)
        lines = [] if last is None else [added[number] for number in range(first, last + 1) if number in added]
        found += lines[:1]
    if found:
        yield file.reason(ReasonKind.SWALLOWED, found)


def _end_of_empty(path: str, code: Sequence[str], first: int) -> int | None:
    """The last line of the handler that begins on a line, if it holds nothing."""
    text = code[first]
    filled = (at for at in range(first + 1, min(first + _LONGEST, len(code))) if code[at].strip())
    body = next(filled, None)
    if path.endswith((".py", ".pyi")):
        if _SUPPRESS.search(text):
            return first
        found = _EXCEPT.match(text)
        if found is None:
            return None
        return first if found["body"] else body if body is not None and _is_all(code, body) else None
    following = "" if body is None else code[body]
    if path.endswith(".rb"):
        return body if _RESCUE.match(text) and _END.match(following) else None
    if _EMPTY_CATCH.search(text):
        return first
    return body if _OPEN.search(text) and following.lstrip().startswith("}") else None


def _is_all(code: Sequence[str], line: int) -> bool:
    """Whether a handler in Python holds this line alone, which does nothing."""
    found = _NOTHING.match(code[line])
    if found is None:
        return False
    after = next((code[at] for at in range(line + 1, len(code)) if code[at].strip()), "")
    return len(after) - len(after.lstrip()) < len(found["indent"]) or not after
