"""Text objects: the word, the quotes, the brackets around a place, each with or without what belongs around it."""

from app.vim.words import PAIRS, around, closing, kind, line_end, line_start

QUOTES = "\"'`"


def text_object(text: str, at: int, inner: bool, key: str) -> tuple[int, int] | None:
    """The stretch that `iw`, `a"` or `i(` names: its first offset and the one after it. None if there is none."""
    if key in "wW":
        return _word(text, at, inner, big=key == "W")
    if key in QUOTES:
        return _quoted(text, at, inner, key)
    if key in PAIRS:
        return _bracketed(text, at, inner, *PAIRS[key])
    return None


def _run(text: str, at: int, big: bool) -> tuple[int, int]:
    """The characters of one kind around a place, in its line."""
    first, last = line_start(text, at), line_end(text, at)
    here = kind(text[at], big)
    start = end = at
    while start > first and kind(text[start - 1], big) == here:
        start -= 1
    while end < last and kind(text[end], big) == here:
        end += 1
    return start, end


def _word(text: str, at: int, inner: bool, *, big: bool) -> tuple[int, int] | None:
    if line_start(text, at) == line_end(text, at):
        return (at, at) if inner else None
    start, end = _run(text, at, big)
    if inner:
        return start, end
    space, last = not kind(text[at], big), line_end(text, at)
    if space and end == last:
        return None
    if end < last and (space or not kind(text[end], big)):
        return start, _run(text, end, big)[1]
    if not space and start > line_start(text, at) and not kind(text[start - 1], big):
        before = _run(text, start - 1, big)[0]
        # An indent stays.
        start = before if before > line_start(text, at) else start
    return start, end


def _quoted(text: str, at: int, inner: bool, quote: str) -> tuple[int, int] | None:
    """The string around the place, or the next one in its line."""
    first, last = line_start(text, at), line_end(text, at)
    places = [found for found in range(first, last) if text[found] == quote and not _is_escaped(text, first, found)]
    if at in places:
        # Which of two it is, is told by those before it.
        number = places.index(at) // 2 * 2
        pair = places[number : number + 2]
    else:
        before = [found for found in places if found < at]
        after = [found for found in places if found > at]
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


def _bracketed(text: str, at: int, inner: bool, left: str, right: str) -> tuple[int, int] | None:
    if at < len(text) and text[at] == left:
        start: int | None = at
    elif at < len(text) and text[at] == right:
        start = around(text, at, left, right)
    else:
        start = around(text, at, left, right)
        if start is None:
            # Outside of all, the next one counts.
            found = text.find(left, at)
            start = None if found < 0 else found
    end = None if start is None else closing(text, start, left, right)
    if start is None or end is None:
        return None
    if not inner:
        return start, end + 1
    start += 1
    if "\n" in text[start:end]:
        # The lines between: neither the break behind the first bracket nor the indent before the last.
        if text[start] == "\n":
            start += 1
        if not text[line_start(text, end) : end].strip() and line_start(text, end) > start:
            end = line_start(text, end) - 1
    return start, end
