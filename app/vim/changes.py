"""What changes a text: each takes text and place, and gives the text that comes of it and where the cursor is."""

from dataclasses import dataclass

from app.vim.motions import Stretch
from app.vim.words import first_nonblank, line_end, line_start, on_character

INDENT = "    "
MOST_PUT = 10_000_000
"""Characters of a text that is put many times."""


@dataclass(frozen=True, slots=True)
class Register:
    """What was deleted or yanked last."""

    text: str = ""
    lines: bool = False


def taken(text: str, what: Stretch) -> Register:
    """A stretch as the register keeps it."""
    return Register(text[what.start : what.end], what.lines)


def delete(text: str, what: Stretch) -> tuple[str, int]:
    """Without a stretch."""
    if not what.lines:
        left = text[: what.start] + text[what.end :]
        return left, on_character(left, what.start)
    if what.end < len(text):
        left = text[: what.start] + text[what.end + 1 :]
        return left, first_nonblank(left, what.start)
    left = text[: max(0, what.start - 1)]
    return left, first_nonblank(left, len(left))


def put(text: str, at: int, register: Register, times: int, *, after: bool) -> tuple[str, int]:
    """With the register's text behind the cursor or before it."""
    times = max(1, min(times, MOST_PUT // (len(register.text) + 1)))
    if register.lines:
        block = "\n".join([register.text] * times)
        if after:
            end = line_end(text, at)
            new = f"{text[:end]}\n{block}{text[end:]}"
            return new, first_nonblank(new, end + 1)
        start = line_start(text, at)
        new = f"{text[:start]}{block}\n{text[start:]}"
        return new, first_nonblank(new, start)
    at = min(at + 1, line_end(text, at)) if after else at
    block = register.text * times
    new = text[:at] + block + text[at:]
    return new, on_character(new, at if "\n" in register.text else at + len(block) - 1)


def join(text: str, at: int, lines: int) -> tuple[str, int] | None:
    """With the line and those below it made one; None if there is none below."""
    end = line_end(text, at)
    if end == len(text):
        return None
    for _ in range(max(1, lines - 1)):
        following = line_end(text, line_start(text, end))
        if following == len(text):
            break
        end = following
        below = text[end + 1 : line_end(text, end + 1)]
        kept = below.lstrip(" \t")
        line = text[line_start(text, end) : end]
        space = "" if not kept or kept[0] == ")" or line[-1:] in (" ", "\t") or not line else " "
        text = text[:end] + space + kept + text[end + 1 + len(below) :]
    return text, on_character(text, end)


def shift(text: str, what: Stretch, times: int, *, right: bool) -> tuple[str, int]:
    """With the lines of a stretch moved to the right or to the left."""
    start, end = line_start(text, what.start), line_end(text, what.end)
    lines = text[start:end].split("\n")
    for _ in range(min(times, 40)):
        lines = [_shifted(line, right=right) for line in lines]
    new = text[:start] + "\n".join(lines) + text[end:]
    return new, first_nonblank(new, start)


def _shifted(line: str, *, right: bool) -> str:
    if right:
        return INDENT + line if line.strip() else line
    if line.startswith("\t"):
        return line[1:]
    return line[min(len(INDENT), len(line) - len(line.lstrip(" "))) :]


def replace(text: str, at: int, character: str, times: int) -> tuple[str, int] | None:
    """With characters from the cursor on replaced by another; None if the line has not so many."""
    if at + times > line_end(text, at):
        return None
    return text[:at] + character * times + text[at + times :], at + times - 1


def swap_case(text: str, at: int, times: int) -> tuple[str, int]:
    """With characters from the cursor on in the other case."""
    end = min(at + times, line_end(text, at))
    new = text[:at] + text[at:end].swapcase() + text[end:]
    return new, on_character(new, end)
