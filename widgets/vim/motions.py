"""Targets of motions, and the ranges for operators."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from app.copies import replace
from widgets.vim.text_positions import (
    BRACKET_PAIRS,
    QUOTES,
    clamp_cursor,
    find_character_in_line,
    find_text,
    first_nonblank,
    line_end,
    line_start,
    matching_bracket,
    next_paragraph,
    next_word,
    previous_paragraph,
    previous_word,
    previous_word_end,
    text_object_range,
    word_end,
)

OPERATORS = frozenset("dcy><")
LINE_SEARCHES = frozenset("fFtT")
_COMMANDS_WITH_CHARACTER = LINE_SEARCHES | {"r"}
_COMMANDS_AFTER_G = frozenset("geE")
TEXT_SEARCHES = frozenset("/?")
MOTIONS = frozenset("hjklwbeWBE0^$G%;,{}fFtTnN") | TEXT_SEARCHES | {"gg", "ge", "gE"}
_TEXT_OBJECTS = frozenset("wW") | frozenset(QUOTES) | BRACKET_PAIRS.keys()
_KEY_ALIASES = {"space": "l", " ": "l", "backspace": "h"}
_MAX_COUNT = 100_000
"""Maximum count, so that a held digit key does not cause a long computation."""


class VimCommand(Struct, frozen=True):
    """A parsed vim command: count, operator and motion."""

    name: str
    """Name of the motion or other command; `line` for a doubled operator, `object` for a text object."""
    count: int | None = None
    operator: str = ""
    argument: str = ""
    """The character of `f`, `F`, `t`, `T` or `r`, the query of `/` or `?`, or the text object: `iw`."""

    @property
    def times(self) -> int:
        """Return the count, 1 if there is none."""
        return self.count or 1


def parse_keys(keys: Sequence[str], *, visual: bool) -> VimCommand | Literal["more", "none"]:  # noqa: PLR0911
    """Return the command of the keys; `more` if they are incomplete, `none` if they are invalid."""
    names = [_KEY_ALIASES.get(key, key) for key in keys]
    count, rest = _split_count(names)
    if not rest:
        return "more"
    operator = ""
    if rest[0] in OPERATORS and not visual:
        operator = rest[0]
        further, rest = _split_count(rest[1:])
        if further:
            count = min(_MAX_COUNT, (count or 1) * further)
        if not rest:
            return "more"
        if rest[0] == operator:
            return VimCommand("line", count, operator)
    first = rest[0]
    if first in ("i", "a") and (operator or visual):
        if len(rest) < 2:
            return "more"
        return VimCommand("object", count, operator, first + rest[1]) if rest[1] in _TEXT_OBJECTS else "none"
    if first == "g":
        if len(rest) < 2:
            return "more"
        return VimCommand(f"g{rest[1]}", count, operator) if rest[1] in _COMMANDS_AFTER_G else "none"
    if operator and first not in MOTIONS:
        return "none"
    if first in TEXT_SEARCHES or first in _COMMANDS_WITH_CHARACTER:
        # Use the original keys: `_KEY_ALIASES` replaces some of them by motions.
        typed = _typed_characters(keys[len(keys) - len(rest) + 1 :], until_enter=first in TEXT_SEARCHES)
        return "more" if typed is None else VimCommand(first, count, operator, typed)
    return VimCommand(first, count, operator)


def _typed_characters(keys: Sequence[str], *, until_enter: bool) -> str | None:
    """Return the typed characters of a command that needs one, or all until Enter; None if more must follow."""
    if not keys or (until_enter and keys[-1] != "enter"):
        return None
    return "".join(" " if key == "space" else key for key in (keys[:-1] if until_enter else keys))


def _split_count(keys: Sequence[str]) -> tuple[int | None, Sequence[str]]:
    """Return the leading number and the rest; a leading 0 is not a number."""
    length = 0
    while length < len(keys) and keys[length] in "0123456789" and (length or keys[0] != "0"):
        length += 1
    return (min(_MAX_COUNT, int("".join(keys[:length]))) if length else None), keys[length:]


MotionKind = Literal["exclusive", "inclusive", "lines"]


class MotionTarget(Struct, frozen=True):
    """Where a motion moves the cursor, and whether an operator includes that character."""

    position: int
    kind: MotionKind = "exclusive"
    moves_to_line_ends: bool = False
    """Whether `j` and `k` move to the ends of lines from here on."""
    keeps_column: bool = False


class TextRange(Struct, frozen=True):
    """The range of text for an operator; for whole lines, without the last newline."""

    start: int
    end: int
    lines: bool = False


class LastSearches(Struct, frozen=True):
    """The last searches: by `f` and similar in a line, by `/` and `?` in the text."""

    key: str = ""
    character: str = ""
    query: str = ""
    forward: bool = True
    """Whether the last text search was with `/`."""

    def after_command(self, command: VimCommand) -> "LastSearches":
        """Return the searches after a command, which may itself be a search."""
        if command.name in TEXT_SEARCHES:
            return replace(self, query=command.argument or self.query, forward=command.name == "/")
        return replace(self, key=command.name, character=command.argument) if command.name in LINE_SEARCHES else self


def find_motion_target(  # noqa: PLR0911
    text: str, at: int, command: VimCommand, column: float, searches: LastSearches, *, allow_line_end: bool = False
) -> MotionTarget | None:
    """Return the target of a command's motion; None if it is impossible.

    Args:
        column: The column that `j` and `k` keep.
        searches: The current or last searches.
        allow_line_end: Whether the cursor may be on the end of a line, as in visual mode.
    """
    times, operates = command.times, bool(command.operator) or allow_line_end
    start, end = line_start(text, at), line_end(text, at)
    match command.name:
        case "h":
            return MotionTarget(max(start, at - times)) if at > start or command.operator else None
        case "l":
            last = end if operates else end - 1
            return MotionTarget(min(at + times, last)) if at < last else None
        case "j" | "k":
            lines = times if command.name == "j" else -times
            return _move_vertically(text, at, lines, column, allow_line_end=allow_line_end)
        case "0":
            return MotionTarget(start)
        case "^":
            return MotionTarget(first_nonblank(text, at))
        case "$":
            return _move_to_line_end(text, at, times, allow_line_end=allow_line_end)
        case "gg" | "G":
            return _move_to_line(text, command)
        case "%":
            found = matching_bracket(text, at)
            return None if found is None else MotionTarget(found, "inclusive")
        case "{" | "}":
            return _move_by_paragraphs(text, at, times, forward=command.name == "}")
        case "f" | "F" | "t" | "T" | ";" | ",":
            key = searches.key.swapcase() if command.name == "," else searches.key
            found = find_character_in_line(text, at, key, searches.character, times, again=command.name in ";,")
            kind: MotionKind = "inclusive" if key in "ft" else "exclusive"
            return MotionTarget(found, kind) if key and found is not None else None
        case "/" | "?" | "n" | "N":
            forward = searches.forward != (command.name == "N")
            found = find_text(text, at, searches.query, times, forward=forward)
            return None if found is None else MotionTarget(found)
    return _move_by_words(text, at, command)


def _move_by_words(text: str, at: int, command: VimCommand) -> MotionTarget | None:
    name, operates = command.name, bool(command.operator)
    big_word, started = name[-1].isupper(), at
    if name in "wW":
        if command.operator == "c" and at < line_end(text, at) and not text[at].isspace():
            for number in range(command.times):
                at = word_end(text, at, big_word, count_current=not number)
            return MotionTarget(at, "inclusive")
        at = next_word(text, at, big_word, command.times, within_line=operates)
        at = at if operates else clamp_cursor(text, at)
        return MotionTarget(at) if operates or at != started else None
    step = {"b": previous_word, "e": word_end, "ge": previous_word_end}[name.lower()]
    for _ in range(command.times):
        at = step(text, at, big_word)
    if at == started and not (operates and name in "eE"):
        return None
    return MotionTarget(at, "exclusive" if name in "bB" else "inclusive")


def _move_vertically(
    text: str, at: int, lines: int, column: float, *, allow_line_end: bool = False
) -> MotionTarget | None:
    start = place = line_start(text, at)
    for _ in range(abs(lines)):
        beyond = line_end(text, place) + 1 if lines > 0 else place - 1
        if not 0 <= beyond <= len(text):
            break
        place = line_start(text, beyond)
    if place == start:
        return None
    place = int(min(place + column, line_end(text, place)))
    return MotionTarget(place if allow_line_end else clamp_cursor(text, place), "lines", keeps_column=True)


def _move_to_line_end(text: str, at: int, times: int, *, allow_line_end: bool) -> MotionTarget | None:
    if times > 1:
        below = _move_vertically(text, at, times - 1, 0)
        if below is None:
            return None
        at = below.position
    start, end = line_start(text, at), line_end(text, at)
    if allow_line_end or start == end:
        return MotionTarget(end, moves_to_line_ends=True)
    return MotionTarget(end - 1, "inclusive", moves_to_line_ends=True)


def _move_to_line(text: str, command: VimCommand) -> MotionTarget:
    number = command.count or (1 if command.name == "gg" else text.count("\n") + 1)
    place = 0
    for _ in range(min(number - 1, text.count("\n"))):
        place = line_end(text, place) + 1
    return MotionTarget(first_nonblank(text, place), "lines")


def _move_by_paragraphs(text: str, at: int, times: int, *, forward: bool) -> MotionTarget | None:
    for left in reversed(range(times)):
        before, at = at, next_paragraph(text, at) if forward else previous_paragraph(text, at)
        if left and (at == before or line_start(text, at) != line_end(text, at)):
            return None
    return MotionTarget(at, "inclusive" if forward and at < len(text) and text[at] != "\n" else "exclusive")


def find_operator_range(
    text: str, at: int, command: VimCommand, column: float, searches: LastSearches
) -> TextRange | None:
    """Return the range for a command's operator; None if there is none."""
    if command.name == "object":
        found = text_object_range(text, at, command.argument[0] == "i", command.argument[1])
        return None if found is None else TextRange(*found)
    if command.name == "line":
        below = _move_vertically(text, at, command.times - 1, 0) if command.times > 1 else MotionTarget(at)
        return None if below is None else _line_range(text, at, below.position)
    target = find_motion_target(text, at, command, column, searches)
    if target is None:
        return None
    if target.kind == "lines":
        return _line_range(text, at, target.position)
    start, end = sorted((at, target.position))
    if target.kind == "inclusive":
        # The range includes nothing of an empty line.
        end += end < line_end(text, end)
    elif end > start and end == line_start(text, end) and line_start(text, start) != end:
        # The range excludes an end at the start of a line.
        if not text[line_start(text, start) : start].strip():
            return _line_range(text, start, end - 1)
        end -= 1
    alone = not text[line_start(text, start) : start].strip() and not text[end : line_end(text, end)].strip()
    if command.operator == "d" and "\n" in text[start:end] and alone:
        return _line_range(text, start, max(start, end - 1))
    return TextRange(start, end)


def _line_range(text: str, start: int, end: int) -> TextRange:
    first, last = sorted((start, end))
    return TextRange(line_start(text, first), line_end(text, last), lines=True)
