"""Texts that each matching line of a search must contain: the matcher skips files and lines without them."""

import re

RequiredTexts = frozenset[str]

_PRINTABLE_ASCII = re.compile(r"[ -~]+")
_QUANTIFIER = re.compile(r"(?:[*+?]|\{(?P<least>\d+)(?:,\d*)?\}|\{,\d*\})[?+]?")
_FLAGS = re.compile(r"\?(?P<flags>[aiLmsux-]+)(?P<end>[:)])")
_NAMED_BACKREFERENCE = re.compile(r"\?P=\w+\)")
_GROUP_START = re.compile(r"\?(?:[:>]|P<\w+>|(?P<aside>=|!|<=|<!|\(\w+\)))")
_CHARACTER_CLASS = re.compile(r"\^?\]?(?:\\.|[^\]\\])*\]")
_ESCAPED_CHARACTER = re.compile(r"x..|u.{4}|U.{8}|N\{[^}]*\}|[0-9]{1,3}|.")


def find_required_alternatives(pattern: str, *, regex: bool, ignore_case: bool) -> tuple[RequiredTexts, bool]:
    """Return texts of which each matching line contains at least one, and whether to ignore their case.

    Args:
        pattern: A text, or a regular expression that Python compiles.

    Returns:
        The texts in printable ASCII; empty if they can't be determined.
    """
    if not regex:
        longest = max(_PRINTABLE_ASCII.findall(pattern), key=len, default="")
        return frozenset((longest,) if longest else ()), ignore_case
    reader = _PatternReader(pattern)
    try:
        texts = reader.alternatives()
    except (_UnknownSyntax, RecursionError):
        return frozenset(), ignore_case
    return texts, ignore_case or reader.ignores_case


class _UnknownSyntax(Exception):
    """The expression has an element that the parser does not support."""


class _PatternReader:
    """Parses an expression from left to right; an element without required literals counts as matching anything."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._position = 0
        self.ignores_case = False

    def alternatives(self) -> RequiredTexts:
        """Return literals of which each alternative requires one, up to a `)` or the end; empty if one has none."""
        found = [self._read_sequence()]
        while self._skip_letter("|"):
            found.append(self._read_sequence())
        return frozenset().union(*found) if all(found) else frozenset()

    def _read_sequence(self) -> RequiredTexts:
        """Return the most selective literals that a concatenation requires."""
        needed: list[RequiredTexts] = []
        text = ""
        while self._position < len(self._pattern) and self._pattern[self._position] not in "|)":
            atom = self._read_atom()
            repeated = self._match_next(_QUANTIFIER)
            min_repeats = 1 if repeated is None else self._min_repeats(repeated)
            if isinstance(atom, str) and min_repeats:
                text += atom
            if not isinstance(atom, str) or repeated is not None:
                needed.append(frozenset((text,)) if text else frozenset())
                text = ""
            if not isinstance(atom, str) and min_repeats:
                needed.append(atom)
        needed.append(frozenset((text,)) if text else frozenset())
        return max(needed, key=lambda texts: min(map(len, texts), default=0))

    @staticmethod
    def _min_repeats(repeated: re.Match[str]) -> int:
        return int(repeated["least"]) if repeated["least"] else int(repeated[0][0] == "+")

    def _read_atom(self) -> str | RequiredTexts:
        """Return a literal character, or the literals that an atom requires."""
        letter = self._pattern[self._position]
        self._position += 1
        if letter == "\\":
            escaped = self._match_next(_ESCAPED_CHARACTER)
            if escaped is None:
                raise _UnknownSyntax
            letter = escaped[0]
            return (
                letter
                if len(letter) == 1 and _PRINTABLE_ASCII.fullmatch(letter) and not letter.isalnum()
                else frozenset()
            )
        if letter == "[":
            if self._match_next(_CHARACTER_CLASS) is None:
                raise _UnknownSyntax
            return frozenset()
        if letter == "(":
            return self._read_group()
        return letter if _PRINTABLE_ASCII.fullmatch(letter) and letter not in ".^$" else frozenset()

    def _read_group(self) -> RequiredTexts:
        if self._match_next(_NAMED_BACKREFERENCE):
            return frozenset()
        is_optional_text = False
        if flags := self._match_next(_FLAGS):
            if "x" in flags["flags"]:
                raise _UnknownSyntax
            self.ignores_case |= "i" in flags["flags"]
            if flags["end"] == ")":
                return frozenset()
        elif group_start := self._match_next(_GROUP_START):
            is_optional_text = group_start["aside"] is not None
        elif self._skip_letter("?"):
            # A comment (a following `*` would apply to the atom before it), or an unknown extension.
            raise _UnknownSyntax
        texts = self.alternatives()
        if not self._skip_letter(")"):
            raise _UnknownSyntax
        return frozenset() if is_optional_text else texts

    def _match_next(self, expression: re.Pattern[str]) -> re.Match[str] | None:
        match = expression.match(self._pattern, self._position)
        if match is not None:
            self._position = match.end()
        return match

    def _skip_letter(self, letter: str) -> bool:
        is_next = self._pattern.startswith(letter, self._position)
        self._position += is_next
        return is_next
