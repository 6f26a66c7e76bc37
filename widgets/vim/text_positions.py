"""Starts and ends of lines, words and brackets; positions are offsets in the text."""

import re
from bisect import bisect_left, bisect_right
from functools import cache

_CLOSING_BY_OPENING = {"(": ")", "[": "]", "{": "}"}
_OPENING_BY_CLOSING = {close: opening for opening, close in _CLOSING_BY_OPENING.items()}
BRACKET_PAIRS = {key: keys[:2] for keys in ("()b", "[]", "{}B", "<>") for key in keys}
"""Bracket pairs by the keys of their text objects."""


def line_start(text: str, at: int) -> int:
    """Return the start of the line at a position."""
    return text.rfind("\n", 0, at) + 1


def line_end(text: str, at: int) -> int:
    """Return the end of the line at a position: its newline, or the end of the text."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def first_nonblank(text: str, at: int) -> int:
    """Return the first non-blank character of the line, or its last character."""
    start, end = line_start(text, at), line_end(text, at)
    line = text[start:end]
    return max(start, min(end - len(line.lstrip(" \t")), end - 1))


def clamp_cursor(text: str, at: int) -> int:
    """Return the nearest position in the line where a cursor can be."""
    start, end = line_start(text, at), line_end(text, at)
    return max(start, min(at, end - 1))


def character_class(character: str, big_word: bool) -> int:
    """Return 0 for space, 1 for word characters, 2 for others; with `big_word`, only 0 and 1."""
    if character.isspace():
        return 0
    return 1 if big_word or character.isalnum() or character == "_" else 2


def _is_empty_line(text: str, at: int) -> bool:
    return (at == len(text) or text[at] == "\n") and (at == 0 or text[at - 1] == "\n")


def next_word(text: str, at: int, big_word: bool, count: int, *, within_line: bool) -> int:
    """Return the start of the next word, or the end of the text; an empty line counts as a word.

    With `within_line`, for operators, the last word ends at the end of its line.
    """
    while count and at < len(text):
        count -= 1
        last = line_end(text, at) if within_line and not count else len(text)
        here, at = character_class(text[at], big_word), at + 1
        while here and at < last and character_class(text[at], big_word) == here:
            at += 1
        while at < last and not character_class(text[at], big_word) and not _is_empty_line(text, at):
            at += 1
    return at


def _character_class_at(text: str, at: int, big_word: bool) -> int:
    return character_class(text[at], big_word) if at < len(text) else 0


def word_end(text: str, at: int, big_word: bool, *, count_current: bool = False) -> int:
    """Return the end of this or the next word; with `count_current`, the current position counts."""
    size = len(text)
    here = _character_class_at(text, at, big_word)
    at += 1
    if not (count_current and here and _character_class_at(text, at, big_word) != here):
        while at < size and not character_class(text[at], big_word):
            at += 1
        if at >= size:
            return size
        here = character_class(text[at], big_word)
        while at < size and character_class(text[at], big_word) == here:
            at += 1
    return at - 1


def previous_word(text: str, at: int, big_word: bool) -> int:
    """Return the start of this or the previous word; an empty line counts as a word."""
    at -= 1
    while at > 0 and not character_class(text[at], big_word):
        if _is_empty_line(text, at):
            return at
        at -= 1
    if at <= 0:
        return 0
    here = character_class(text[at], big_word)
    while here and at > 0 and character_class(text[at - 1], big_word) == here:
        at -= 1
    return at


def previous_word_end(text: str, at: int, big_word: bool) -> int:
    """Return the end of the previous word."""
    here, at = _character_class_at(text, at, big_word), max(0, at - 1)
    while at > 0 and here and character_class(text[at], big_word) == here:
        at -= 1
    while at > 0 and not _character_class_at(text, at, big_word) and not _is_empty_line(text, at):
        at -= 1
    return at


def next_paragraph(text: str, at: int) -> int:
    """Return the empty line after this paragraph; the last character if there is none."""
    at = line_start(text, at)
    while at < len(text) and _is_empty_line(text, at):
        at = line_end(text, at) + 1
    while at < len(text) and not _is_empty_line(text, at):
        at = line_end(text, at) + 1
    return at if at <= len(text) and _is_empty_line(text, at) else max(0, len(text) - 1)


def previous_paragraph(text: str, at: int) -> int:
    """Return the empty line before this paragraph; 0 if there is none."""
    at = line_start(text, at)
    while at > 0 and _is_empty_line(text, at):
        at = line_start(text, at - 1)
    while at > 0 and not _is_empty_line(text, at):
        at = line_start(text, at - 1)
    return at


def find_character_in_line(
    text: str, at: int, key: str, character: str, count: int, *, again: bool = False
) -> int | None:
    """Return the target of `f`, `F`, `t` or `T` in the line; None if the character does not occur `count` times.

    With `again`, the search is a repetition by `;` or `,`: a `t` directly before the character finds the next one.
    """
    start, end = line_start(text, at), line_end(text, at)
    forward, found = key in "ft", at
    if again and count == 1 and key in "tT":
        found += 1 if forward else -1
    for _ in range(count):
        found = text.find(character, found + 1, end) if forward else text.rfind(character, start, max(start, found))
        if found < 0:
            return None
    if key == "t":
        return found - 1
    return found + 1 if key == "T" else found


def find_text(text: str, at: int, query: str, count: int, *, forward: bool) -> int | None:
    """Return the next or previous occurrence of a text, with wrap-around; None if it does not occur.

    Upper-case letters in the query make the search case-sensitive.
    """
    case = re.IGNORECASE if query == query.lower() else re.NOFLAG
    matches = [match.start() for match in re.finditer(re.escape(query), text, case)] if query else []
    if not matches:
        return None
    nearest = bisect_right(matches, at) if forward else bisect_left(matches, at) - 1
    return matches[(nearest + (count - 1 if forward else 1 - count)) % len(matches)]


def matching_bracket(text: str, at: int) -> int | None:
    """Return the match of the bracket at a position, or of the next bracket in its line; None if there is none."""
    end = line_end(text, at)
    while at < end and text[at] not in _CLOSING_BY_OPENING and text[at] not in _OPENING_BY_CLOSING:
        at += 1
    if at >= end:
        return None
    if text[at] in _CLOSING_BY_OPENING:
        return closing_bracket(text, at, text[at], _CLOSING_BY_OPENING[text[at]])
    return enclosing_open_bracket(text, at, _OPENING_BY_CLOSING[text[at]], text[at])


def closing_bracket(text: str, opening: int, left: str, right: str) -> int | None:
    """Return the closing bracket for the one at `opening`; None if there is none."""
    depth = 0
    for match in _bracket_pattern(left, right).finditer(text, opening):
        depth += 1 if match[0] == left else -1
        if depth == 0:
            return match.start()
    return None


def enclosing_open_bracket(text: str, at: int, left: str, right: str) -> int | None:
    """Return the opening bracket that encloses a position; None if there is none."""
    # Collect the open brackets with one step per bracket, not per character.
    still_open: list[int] = []
    for match in _bracket_pattern(left, right).finditer(text, 0, at):
        if match[0] == left:
            still_open.append(match.start())
        elif still_open:
            still_open.pop()
    return still_open[-1] if still_open else None


@cache
def _bracket_pattern(left: str, right: str) -> re.Pattern[str]:
    return re.compile(f"[{re.escape(left + right)}]")


QUOTES = "\"'`"


def text_object_range(text: str, at: int, inner: bool, key: str) -> tuple[int, int] | None:
    """Return the (start, end) range of `iw`, `a"` or `i(`; None if there is none."""
    if key in "wW":
        return _word_range(text, at, inner, big_word=key == "W")
    if key in QUOTES:
        return _string_range(text, at, inner, key)
    if key in BRACKET_PAIRS:
        return _bracket_range(text, at, inner, *BRACKET_PAIRS[key])
    return None


def _class_range(text: str, at: int, big_word: bool) -> tuple[int, int]:
    """Return the range of characters of one class around a position, in its line."""
    first, last = line_start(text, at), line_end(text, at)
    here = character_class(text[at], big_word)
    start = end = at
    while start > first and character_class(text[start - 1], big_word) == here:
        start -= 1
    while end < last and character_class(text[end], big_word) == here:
        end += 1
    return start, end


def _word_range(text: str, at: int, inner: bool, *, big_word: bool) -> tuple[int, int] | None:
    if line_start(text, at) == line_end(text, at):
        return (at, at) if inner else None
    start, end = _class_range(text, at, big_word)
    if inner:
        return start, end
    space, last = not character_class(text[at], big_word), line_end(text, at)
    if space and end == last:
        return None
    if end < last and (space or not character_class(text[end], big_word)):
        return start, _class_range(text, end, big_word)[1]
    if not space and start > line_start(text, at) and not character_class(text[start - 1], big_word):
        before = _class_range(text, start - 1, big_word)[0]
        # Keep an indentation.
        start = before if before > line_start(text, at) else start
    return start, end


def _string_range(text: str, at: int, inner: bool, quote: str) -> tuple[int, int] | None:
    """Return the range of the string around a position, or of the next string in its line; None if there is none."""
    first, last = line_start(text, at), line_end(text, at)
    quote_positions = [
        position
        for position in range(first, last)
        if text[position] == quote and not _is_escaped(text, first, position)
    ]
    if at in quote_positions:
        # The quotes before it decide whether it opens or closes.
        number = quote_positions.index(at) // 2 * 2
        pair = quote_positions[number : number + 2]
    else:
        before = [position for position in quote_positions if position < at]
        after = [position for position in quote_positions if position > at]
        pair = [before[-1], after[0]] if before and after else after[:2]
    if len(pair) < 2:
        return None
    start, end = pair[0], pair[1] + 1
    if inner:
        return start + 1, end - 1
    if end < last and text[end] in " \t":
        while end < last and text[end] in " \t":
            end += 1
    else:
        while start > first and text[start - 1] in " \t":
            start -= 1
    return start, end


def _is_escaped(text: str, first: int, at: int) -> bool:
    slashes = 0
    while at - slashes > first and text[at - slashes - 1] == "\\":
        slashes += 1
    return slashes % 2 == 1


def _bracket_range(text: str, at: int, inner: bool, left: str, right: str) -> tuple[int, int] | None:
    character = text[at : at + 1]
    start = at if character == left else enclosing_open_bracket(text, at, left, right)
    if start is None and character != right:
        # Outside of brackets, use the next pair.
        start = text.find(left, at)
    end = None if start is None or start < 0 else closing_bracket(text, start, left, right)
    if start is None or end is None:
        return None
    if not inner:
        return start, end + 1
    start += 1
    if "\n" in text[start:end]:
        # Select the lines between, without the newline after the opening and the indentation before the closing
        # bracket.
        if text[start] == "\n":
            start += 1
        if not text[line_start(text, end) : end].strip() and line_start(text, end) > start:
            end = line_start(text, end) - 1
    return start, end
