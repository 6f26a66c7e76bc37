"""What a line must hold for a pattern to match in it: a few literal texts, of which it has at least one.

Engines of regular expressions agree on literal ASCII and on little else: what `\\w`, `\\s`, `\\A`, `[a&&b]` and `.`
are, for instance, or which letters are the same but for case. So ripgrep is asked for these texts alone, and never
passes over a file in which Python would find a match.
"""

import re

Texts = frozenset[str]

_PLAIN = re.compile(r"[ -~]+")
_REPEATED = re.compile(r"(?:[*+?]|\{(?P<least>\d+)(?:,\d*)?\}|\{,\d*\})[?+]?")
_FLAGS = re.compile(r"\?(?P<flags>[aiLmsux-]+)(?P<end>[:)])")
_NAMED_BACK = re.compile(r"\?P=\w+\)")
_OPENS = re.compile(r"\?(?:[:>]|P<\w+>|(?P<aside>=|!|<=|<!|\(\w+\)))")
_CLASS = re.compile(r"\^?\]?(?:\\.|[^\]\\])*\]")
_ESCAPE = re.compile(r"x..|u.{4}|U.{8}|N\{[^}]*\}|[0-9]{1,3}|.")


def required_texts(pattern: str, *, regex: bool, ignore_case: bool) -> tuple[Texts, bool]:
    """The texts, of which each line with a match has at least one, and whether case does not count in them.

    Args:
        pattern: A text, or a regular expression that Python compiles.
        regex: Whether it is an expression.
        ignore_case: Whether upper and lower case match each other.

    Returns:
        Printable ASCII; none if there is no telling.
    """
    if not regex:
        return _best(_PLAIN.findall(pattern)), ignore_case
    reader = _Reader(pattern)
    try:
        texts = reader.alternatives()
    except (_Unknown, RecursionError):
        return frozenset(), ignore_case
    return texts, ignore_case or reader.ignores_case


class _Unknown(Exception):
    """The expression is not read any further."""


class _Reader:
    """Reads an expression, from left to right; what it does not know counts as matching anything."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self.ignores_case = False

    def alternatives(self) -> Texts:
        """What one of the expressions between `|` needs, up to a `)` or the end."""
        found = [self._sequence()]
        while self._next("|"):
            found.append(self._sequence())
        return frozenset().union(*found) if all(found) else frozenset()

    def _sequence(self) -> Texts:
        """What is most telling of all that must come one after the other."""
        needed: list[Texts] = []
        text = ""
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            atom = self._atom()
            repeated = self._take(_REPEATED)
            least = 1 if repeated is None else self._least(repeated)
            if isinstance(atom, str) and least:
                text += atom
            if not isinstance(atom, str) or repeated is not None:
                needed.append(frozenset((text,)) if text else frozenset())
                text = ""
            if not isinstance(atom, str) and least:
                needed.append(atom)
        needed.append(frozenset((text,)) if text else frozenset())
        return max(needed, key=lambda texts: min(map(len, texts), default=0))

    @staticmethod
    def _least(repeated: re.Match[str]) -> int:
        return int(repeated["least"]) if repeated["least"] else int(repeated[0][0] == "+")

    def _atom(self) -> str | Texts:
        """One letter that stands for itself, or what something else needs."""
        letter = self._pattern[self._at]
        self._at += 1
        if letter == "\\":
            escaped = self._take(_ESCAPE)
            if escaped is None:
                raise _Unknown
            letter = escaped[0]
            return letter if len(letter) == 1 and _PLAIN.fullmatch(letter) and not letter.isalnum() else frozenset()
        if letter == "[":
            if self._take(_CLASS) is None:
                raise _Unknown
            return frozenset()
        if letter == "(":
            return self._group()
        return letter if _PLAIN.fullmatch(letter) and letter not in ".^$" else frozenset()

    def _group(self) -> Texts:
        if self._take(_NAMED_BACK):
            return frozenset()
        aside = False
        if flags := self._take(_FLAGS):
            if "x" in flags["flags"]:
                raise _Unknown
            self.ignores_case |= "i" in flags["flags"]
            if flags["end"] == ")":
                return frozenset()
        elif opened := self._take(_OPENS):
            aside = opened["aside"] is not None
        elif self._next("?"):
            # A comment, behind which a `*` is about what stands before it, or what is newer than this.
            raise _Unknown
        texts = self.alternatives()
        if not self._next(")"):
            raise _Unknown
        return frozenset() if aside else texts

    def _take(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        match = expression.match(self._pattern, self._at)
        if match is not None:
            self._at = match.end()
        return match

    def _next(self, letter: str) -> bool:
        there = self._pattern.startswith(letter, self._at)
        self._at += there
        return there


def _best(texts: list[str]) -> Texts:
    return frozenset((max(texts, key=len),)) if texts else frozenset()
