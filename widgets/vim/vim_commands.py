"""Parses keys of normal and visual mode into commands: count, operator, motion or text object."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from widgets.vim.text_positions import PAIRS, QUOTES

OPERATORS = frozenset("dcy><")
IN_LINE = frozenset("fFtT")
_WITH_CHARACTER = IN_LINE | {"r"}
_AFTER_G = frozenset("geE")
SEARCHES = frozenset("/?")
MOTIONS = frozenset("hjklwbeWBE0^$G%;,{}fFtTnN") | SEARCHES | {"gg", "ge", "gE"}
_OBJECTS = frozenset("wW") | frozenset(QUOTES) | PAIRS.keys()
_SAME = {"space": "l", " ": "l", "backspace": "h"}
_MOST = 100_000
"""A count is never higher: whoever holds a digit key down waits for nobody."""


@dataclass(frozen=True, slots=True)
class VimCommand:
    """A parsed command."""

    name: str
    """Of a motion or of what else there is; `line` for an operator that is doubled, `object` for a text object."""
    count: int | None = None
    operator: str = ""
    argument: str = ""
    """The character of `f` and its like, what `/` looks for, or the text object: `iw`."""

    @property
    def times(self) -> int:
        """The count, 1 if there is none."""
        return self.count or 1


def parse_keys(keys: Sequence[str], *, visual: bool) -> VimCommand | Literal["more", "none"]:  # noqa: PLR0911
    """Return the command of the keys, or whether they are an incomplete or invalid one."""
    names = [_SAME.get(key, key) for key in keys]
    count, rest = _count(names)
    if not rest:
        return "more"
    operator = ""
    if rest[0] in OPERATORS and not visual:
        operator = rest[0]
        further, rest = _count(rest[1:])
        if further:
            count = min(_MOST, (count or 1) * further)
        if not rest:
            return "more"
        if rest[0] == operator:
            return VimCommand("line", count, operator)
    first = rest[0]
    if first in ("i", "a") and (operator or visual):
        if len(rest) < 2:
            return "more"
        return VimCommand("object", count, operator, first + rest[1]) if rest[1] in _OBJECTS else "none"
    if first == "g":
        if len(rest) < 2:
            return "more"
        return VimCommand(f"g{rest[1]}", count, operator) if rest[1] in _AFTER_G else "none"
    if operator and first not in MOTIONS:
        return "none"
    if first in SEARCHES or first in _WITH_CHARACTER:
        # The characters themselves, before one of them counts as a motion.
        typed = _characters(keys[len(keys) - len(rest) + 1 :], until_enter=first in SEARCHES)
        return "more" if typed is None else VimCommand(first, count, operator, typed)
    return VimCommand(first, count, operator)


def _characters(keys: Sequence[str], *, until_enter: bool) -> str | None:
    """Return the characters typed behind a command that needs one, or all until Enter; None if more must come."""
    if not keys or (until_enter and keys[-1] != "enter"):
        return None
    return "".join(" " if key == "space" else key for key in (keys[:-1] if until_enter else keys))


def _count(keys: Sequence[str]) -> tuple[int | None, Sequence[str]]:
    """Return the leading number and the rest; a leading 0 is no number."""
    length = 0
    while length < len(keys) and keys[length] in "0123456789" and (length or keys[0] != "0"):
        length += 1
    return (min(_MOST, int("".join(keys[:length]))) if length else None), keys[length:]
