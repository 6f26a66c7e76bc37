"""Translate patterns of ignore files to regular expressions; matching takes at most the product of the lengths of
pattern and path.

The rules are those of git (gitignore, "PATTERN FORMAT"), including the edge cases of its matcher: the literal start
of a pattern is compared first, and `**` matches folders only where the rest begins or after a slash. A star takes as
little as possible, which is never wrong before the next star. So each star but the last is an atomic group.
"""

import re
from typing import NamedTuple

from msgspec import Struct

_SPECIAL = "*?[\\"
_ANY_SPECIAL = re.compile(r"[*?\[\\]")
_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": " \\t",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": " \\t-\\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


class BasenameRequirement(NamedTuple):
    """The requirement of a pattern on the last component of a path."""

    beginning: str
    ending: str
    whole: bool
    """Whether `beginning` is the whole name."""


class IgnoreRule(Struct, frozen=True):
    """A line of an ignore file."""

    text: str
    """The pattern without `!` and without slashes at its ends."""
    ignores: bool
    """False for a pattern with `!`, which includes a path again."""
    folders_only: bool
    anchored: bool
    """Whether the pattern is matched with the whole path rather than with its last name."""

    @property
    def is_literal(self) -> bool:
        """Return whether the pattern has no wildcard."""
        return not any(character in _SPECIAL for character in self.text)

    @property
    def ending(self) -> str:
        """Return the end that a name must have, for a pattern like `*.pyc`; empty for any other pattern."""
        plain = self.text.startswith("*") and not any(character in _SPECIAL for character in self.text[1:])
        return self.text[1:] if plain and not self.anchored else ""

    @property
    def last_component(self) -> BasenameRequirement:
        """Return what the last component of a matching path must look like, as far as the pattern determines it."""
        name = self.text.rpartition("/")[2]
        literals = _ANY_SPECIAL.split(name)
        if self._has_sets:
            # The text after a bracket may be part of the set.
            return BasenameRequirement("" if self.anchored else literals[0], "", False)
        return (
            BasenameRequirement("", "", False)
            if name.startswith("**")
            else BasenameRequirement(literals[0], literals[-1], len(literals) == 1)
        )

    @property
    def literal_folder(self) -> str:
        """Return the longest folder name that every matching path contains; empty if the pattern has none."""
        if self._has_sets:
            return ""
        folders = (name for name in self.text.split("/")[:-1] if not _ANY_SPECIAL.search(name))
        return max(folders, key=len, default="")

    @property
    def _has_sets(self) -> bool:
        """Return whether there are sets of characters, which may hold a slash, or backslashes, which may quote
        one.
        """
        return "[" in self.text or "\\" in self.text


def parse_ignore_rule(line: str) -> IgnoreRule | None:
    """Return the rule in a line; None for an empty line or a comment."""
    line = _without_trailing_spaces(line.removesuffix("\r"))
    if line.startswith("#"):
        return None
    ignores = not line.startswith("!")
    text = line if ignores else line[1:]
    folders_only = text.endswith("/")
    text = text.removesuffix("/")
    anchored = "/" in text
    text = text.removeprefix("/")
    return IgnoreRule(text, ignores, folders_only, anchored) if text else None


def ignore_rule_regex(rule: IgnoreRule) -> str | None:
    """Return a regular expression that fully matches the rule: a path if it is anchored, else one name.

    Use it with `re.DOTALL`, followed only by the end of the text or a slash. None for a pattern that matches nothing.
    """
    start = next((index for index, character in enumerate(rule.text) if character in _SPECIAL), len(rule.text))
    if not rule.anchored:
        start = 0
    parts = _split_at_double_stars(rule.text[start:], folders=rule.anchored)
    if parts is None:
        return None
    expressions = [re.escape(rule.text[:start])]
    for number, part in enumerate(parts):
        if number == len(parts) - 1:
            expressions.append(part.double_star + part.expression(last=True))
        else:
            expressions.append(f"(?>{part.double_star}{part.expression(last=False)})")
    return "".join(expressions)


_ANYWHERE_BELOW = "(?:.*?/)??"
"""`**/`: matches here, or after any later slash."""


class _PatternPart(Struct):
    """Part of a pattern between two `**`: stretches of fixed length, with a star between each two."""

    double_star: str
    """The expression for the `**` before it."""
    stretches: list[str]

    def expression(self, *, last: bool) -> str:
        """Return the expression of the group; the end of the text follows the last group."""
        first, *rest = self.stretches
        expressions = [first]
        for number, stretch in enumerate(rest):
            if last and number == len(rest) - 1:
                expressions.append(f"[^/]*{stretch}")
            else:
                expressions.append(f"(?>[^/]*?{stretch})")
        return "".join(expressions)


def _split_at_double_stars(text: str, *, folders: bool) -> list[_PatternPart] | None:
    """Return the parts of a pattern; None if it cannot match anything.

    Args:
        text: The pattern after its literal start.
        folders: Whether `**` matches folders.
    """
    parts = [_PatternPart("", [""])]
    index = 0
    while index < len(text):
        if text[index] != "*":
            single = _translate_character(text, index)
            if single is None:
                return None
            expression, index = single
            parts[-1].stretches[-1] += expression
            continue
        end = next((later for later in range(index, len(text)) if text[later] != "*"), len(text))
        rest = text[end : end + 2]
        is_whole_component = (index == 0 or text[index - 1] == "/") and (not rest or rest[0] == "/" or rest == "\\/")
        if not (folders and is_whole_component and end - index > 1):
            parts[-1].stretches.append("")
        elif rest.startswith("/"):
            parts.append(_PatternPart(_ANYWHERE_BELOW, [""]))
            end += 1
        else:
            parts.append(_PatternPart(".*?", [""]))
        index = end
    return parts


def _translate_character(text: str, index: int) -> tuple[str, int] | None:
    """Return the expression for one character and the index after it; None if it cannot match anything."""
    match text[index]:
        case "?":
            return "[^/]", index + 1
        case "[":
            return _translate_bracket(text, index)
        case "\\":
            return (re.escape(text[index + 1]), index + 2) if index + 1 < len(text) else None
        case character:
            return re.escape(character), index + 1


def _translate_bracket(text: str, index: int) -> tuple[str, int] | None:
    """Return the set of characters at an opening bracket and the index after it; None if it is malformed."""
    negated = text[index + 1 : index + 2] in ("!", "^")
    index += 2 if negated else 1
    first = index
    members, previous = "", ""
    while index == first or text[index : index + 1] != "]":
        member = _parse_range(text, index, previous) or _parse_named_class(text, index)
        if member is None:
            plain = _parse_character(text, index)
            if plain is None:
                return None
            previous, index = plain
            members += re.escape(previous)
        elif not member[1]:
            return None
        else:
            previous = ""
            members += member[0]
            index = member[1]
    if negated:
        return f"[^/{members}]", index + 1
    if not members:
        return "(?!)", index + 1
    # Omit the lookahead where it is not needed: `re` then compares a beginning that many patterns share only once.
    return ("(?!/)" if re.fullmatch(f"[{members}]", "/") else "") + f"[{members}]", index + 1


def _parse_range(text: str, index: int, previous: str) -> tuple[str, int] | None:
    """Return the rest of a range that begins with `previous` and the index after it; index 0 if the range has no end.

    None if there is no range at `index`.
    """
    if text[index : index + 1] != "-" or not previous or text[index + 1 : index + 2] in ("", "]"):
        return None
    last = _parse_character(text, index + 1)
    if last is None:
        return "", 0
    return (f"{re.escape(previous)}-{re.escape(last[0])}" if previous <= last[0] else ""), last[1]


def _parse_named_class(text: str, index: int) -> tuple[str, int] | None:
    """Return the members of a class such as `[:digit:]` and the index after it; index 0 if it is unknown or not
    closed.

    None if there is no class at `index`.
    """
    if text[index : index + 2] != "[:":
        return None
    end = text.find("]", index + 2)
    if end <= index + 2 or text[end - 1] != ":":
        return None
    members = _CLASSES.get(text[index + 2 : end - 1])
    return (members, end + 1) if members else ("", 0)


def _parse_character(text: str, index: int) -> tuple[str, int] | None:
    """Return a character, perhaps after a backslash, and the index after it; None at the end of the text."""
    index += text[index : index + 1] == "\\"
    return (text[index], index + 1) if index < len(text) else None


def _without_trailing_spaces(line: str) -> str:
    """Return the line without trailing spaces, except one after a backslash."""
    stripped = line.rstrip(" ")
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    return stripped + " " if backslashes % 2 and stripped != line else stripped
