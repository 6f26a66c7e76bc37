"""The switches at the guards: each has a number, and records that a test reaches it, or disables its guard.

Every Python in the copy's environment imports this module, therefore it imports almost nothing. Its data lies in
files beside it, because a test may start a process with another environment.
"""

import builtins
import os
from typing import Any

PLACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "guard_switches")  # noqa: PTH118, PTH120, PTH100
OUT, TEST, REACHED = (os.path.join(PLACE, name) for name in ("out", "test", "reached"))  # noqa: PTH118

_seen: set[int] = set()
os.register_at_fork(after_in_child=_seen.clear)


def read(path: str) -> str:
    """Return the text of a file; empty if it does not exist or cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            return file.read()
    except OSError:
        return ""


out = int(read(OUT) or 0)
"""Number of the disabled guard; 0 while all are enabled and recorded."""


def reset() -> None:
    """Clear the record of reached guards."""
    _seen.clear()


def _is_enabled(number: int) -> bool:
    if not out and number not in _seen:
        _seen.add(number)
        try:
            with open(REACHED, "a", encoding="utf-8") as file:  # noqa: PTH123
                file.write(f"{number}\t{read(TEST)}\n")
        except OSError:
            pass  # For example in a namespace without this folder.
    return number != out


def _caught(number: int, kinds: Any) -> Any:
    return kinds if _is_enabled(number) else ()


def _suppressed(number: int, *kinds: Any) -> Any:
    return kinds if _is_enabled(number) else ()


builtins.__guard__ = _is_enabled  # type: ignore[attr-defined]
builtins.__caught__ = _caught  # type: ignore[attr-defined]
builtins.__suppressed__ = _suppressed  # type: ignore[attr-defined]
