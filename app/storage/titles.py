"""What a session is called: by what the user asked for in it, unless the user has named it.

Kept apart: what is said of a session by itself, and not how sessions are kept.
"""

import sqlite3
from collections.abc import Sequence

_LENGTH = 80
"""Characters of a title."""
_TELLING = 12
"""Bytes of one that tells what a session is about; an ideograph, which takes three of them, tells more."""


def retitle(connection: sqlite3.Connection, session: str, said: Sequence[str]) -> None:
    """Name a session by the first thing in it that the user said in more than a few words."""
    ((title, named),) = connection.execute("SELECT title, named FROM sessions WHERE id = ?", (session,)).fetchall()
    if named:
        return
    candidates = [*([title] if title else []), *map(title_of, said)]
    best = next(filter(_says_much, candidates), candidates[0])
    connection.execute("UPDATE sessions SET title = ? WHERE id = ?", (best, session))


def _says_much(title: str) -> bool:
    """Whether it tells what a session is about: neither a greeting nor `go on`."""
    return len(title.encode(errors="replace")) >= _TELLING


def title_of(text: str) -> str:
    """What was said, in one line that is not too long."""
    line = " ".join(text[: 10 * _LENGTH].split())
    return line if len(line) <= _LENGTH else line[: _LENGTH - 1].rstrip() + "…"
