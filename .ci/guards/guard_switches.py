"""The switches at the guards: with one number each, which is told where it is reached, or is out.

Imported whenever Python starts in the copy's environment, so it needs next to nothing. What is said lies beside it,
since a test may start a process with an environment of its own.
"""

import builtins
import os
from typing import Any

PLACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guard_switches")  # noqa: PTH118, PTH120, PTH100
OUT, TEST, REACHED = (os.path.join(PLACE, name) for name in ("out", "test", "reached"))  # noqa: PTH118

_seen: set[int] = set()
os.register_at_fork(after_in_child=_seen.clear)


def read(path: str) -> str:
    """What a file says; nothing if there is none, or none that can be read."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return ""


out = int(read(OUT) or 0)
"""The guard that is out; 0 while all are in, and it is noted which test reaches which."""


def forget() -> None:
    """Note anew what is reached."""
    _seen.clear()


def _reach(number: int) -> bool:
    if not out and number not in _seen:
        _seen.add(number)
        try:
            with open(REACHED, "a", encoding="utf-8") as file:  # noqa: PTH123
                file.write(f"{number}\t{read(TEST)}\n")
        except OSError:
            pass  # In a namespace without this folder, say.
    return number != out


def _caught(number: int, kinds: Any) -> Any:
    return kinds if _reach(number) else ()


def _suppressed(number: int, *kinds: Any) -> Any:
    return kinds if _reach(number) else ()


builtins.__guard__ = _reach  # type: ignore[attr-defined]
builtins.__caught__ = _caught  # type: ignore[attr-defined]
builtins.__suppressed__ = _suppressed  # type: ignore[attr-defined]
