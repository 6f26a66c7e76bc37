"""Detects text that looks different from what it is, and could deceive a reviewer.

Bidirectional controls show code in another order than it runs (CVE-2021-42574, "Trojan Source"), and so do letters
that are written from right to left; other characters don't show at all, and some letters look like others
(CVE-2021-42694, `app.text.homoglyphs`).
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from app.text.homoglyphs import find_lookalikes, read_as
from app.text.safe_text import BIDI, CONTROL, IS_BLANK, SHOWN, SURROGATE, escape_unsafe, is_allowed, is_plain

_RIGHT_TO_LEFT = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
_IS_CONTROL = re.compile(f"[{CONTROL}{SURROGATE}]")
_IS_BIDI = re.compile(f"[{BIDI}]")


@dataclass(frozen=True, slots=True)
class DeceptiveText:
    """Characters in a text that a reviewer cannot see or could misread."""

    control: int = 0
    """Control characters and undecodable bytes, tabs and newlines not counted."""
    bidi: int = 0
    """Bidirectional controls."""
    invisible: int = 0
    """Characters that don't show, where no emoji or script needs them."""
    lookalikes: tuple[str, ...] = ()
    """Words and signs that are taken for others in ASCII, each once, in order."""
    blank: int = 0
    """Blanks that are no spaces, and spaces that are not U+0020 where no language needs them."""
    reordered: int = 0
    """Lines of code that right-to-left letters turn around, without any control character."""
    right_to_left: int = 0
    """Other lines with right-to-left letters: ordinary in some languages, and worth no more than a mention."""
    spaces: int = 0
    """Spaces that are not U+0020 where people write them: no more than that, either."""

    def __bool__(self) -> bool:
        return bool(self.control or self.bidi or self.invisible or self.lookalikes or self.blank or self.reordered)

    def __str__(self) -> str:
        """One line; the words in it are safe to show."""
        parts = [
            _counted(self.control, "control character"),
            _counted(self.bidi, "bidirectional control"),
            _counted(self.invisible, "invisible character"),
            _counted(self.blank, "unusual blank"),
            f"right-to-left letters among signs of code on {_counted(self.reordered, 'line')}"
            if self.reordered
            else "",
        ]
        if self.lookalikes:
            words = ", ".join(_with_reading(word) for word in self.lookalikes[:3])
            more = f" and {len(self.lookalikes) - 3} more" if len(self.lookalikes) > 3 else ""
            parts.append(f"look-alike letters in {words}{more}")
        return ", ".join(part for part in parts if part)

    @property
    def is_ordinary(self) -> tuple[str, ...]:
        """Return whether all findings are ordinary in natural languages."""
        lines, spaces = self.right_to_left, self.spaces
        mentions = (
            f"Right-to-left text on {_counted(lines, 'line')}." if lines else "",
            f"{_counted(spaces, 'typographic space')}." if spaces else "",
        )
        return tuple(mention for mention in mentions if mention)

    @property
    def worst_effect(self) -> str:
        """Return what the worst of it may do to a reader."""
        if self.bidi or self.reordered:
            return "The code may run in another order than it reads."
        if self.lookalikes:
            return "A name may not be the name it looks like."
        if self.invisible or self.blank:
            return "Something is there that editors don't show."
        return "They are shown as glyphs."


def find_deceptive(text: str) -> DeceptiveText:
    """Find deceptive text; tabs, newlines and the carriage return of a CRLF are ordinary."""
    if text.isascii() and is_plain(text):
        return DeceptiveText()
    control = bidi = invisible = blank = spaces = 0
    for match in SHOWN.finditer(text):
        character = match[0]
        belongs = is_allowed(match, "\t\n")
        if IS_BLANK.match(character):
            blank, spaces = blank + (not belongs), spaces + belongs
        elif belongs or (character == "\r" and text[match.end() : match.end() + 1] in ("\n", "")):
            continue
        elif _IS_BIDI.match(character):
            bidi += 1
        elif _IS_CONTROL.match(character):
            control += 1
        else:
            invisible += 1
    words = tuple(dict.fromkeys(text[start:end] for start, end in find_lookalikes(text)))
    reordered, other = _right_to_left(text)
    return DeceptiveText(control, bidi, invisible, words, blank, reordered, other, spaces)


def merge_findings(parts: Iterable[DeceptiveText]) -> DeceptiveText:
    """Merge the findings of several texts."""
    found = list(parts)
    return DeceptiveText(
        sum(part.control for part in found),
        sum(part.bidi for part in found),
        sum(part.invisible for part in found),
        tuple(dict.fromkeys(word for part in found for word in part.lookalikes)),
        sum(part.blank for part in found),
        sum(part.reordered for part in found),
        sum(part.right_to_left for part in found),
        sum(part.spaces for part in found),
    )


_RTL = re.compile(f"[{_RIGHT_TO_LEFT}]")
_COMMENT_SIGN = re.compile(r"\s*[*%;]")
"""Begins a comment where it is the first on its line."""
_CODE = tuple(map(re.compile, (r"[=+<>{}&|*/\\^@$;]", r"[\"'`][^\"'`]*[\"'`]", r"[\"'`]\s*[:,)\]}]\s*\d")))
"""Signs between right-to-left letters, or between one and a number, by which the order matters."""


def _right_to_left(text: str) -> tuple[int, int]:
    """Return the lines on which right-to-left letters reverse code (UAX 9 gives text between them, and numbers beside
    them, their direction), and those on which they don't."""
    deceiving = harmless = 0
    for line in text.split("\n"):
        first = _RTL.search(line)
        if first is None:
            continue
        if _is_turned_around(line, first.start()):
            deceiving += 1
        else:
            harmless += 1
    return deceiving, harmless


def _is_turned_around(line: str, first: int) -> bool:
    comment = _comment_start(line)
    if 0 <= comment < first and not _in_quotes(line[:comment]):
        return False
    since: int | None = None
    signs = [pattern.search(line, first) for pattern in _CODE]
    for at in range(first, len(line)):
        direction = unicodedata.bidirectional(line[at])
        if direction in ("R", "AL", "EN", "AN"):
            if since is not None and any(sign is not None and sign.end() <= at for sign in signs):
                return True
            if direction in ("R", "AL"):
                since = at + 1
                # Only what lies behind is looked for anew, so that a long line is gone through once.
                signs = [
                    pattern.search(line, since) if sign and sign.start() < since else sign
                    for pattern, sign in zip(_CODE, signs, strict=True)
                ]
        elif direction == "L":
            since = None
    return False


def _comment_start(line: str) -> int:
    """Return where a comment begins on a line; -1 without one."""
    starts = [line.find(mark) for mark in ("#", "//", "--")]
    # One that ends on the line has code behind it.
    starts.append(line.find("/*", max(0, line.rfind("*/") - 1)))
    starts.append(line.find("<!--", max(0, line.rfind("-->") - 3)))
    if _COMMENT_SIGN.match(line):
        starts.append(0)
    return min((at for at in starts if at >= 0), default=-1)


def _in_quotes(code: str) -> bool:
    return bool(code.count('"') % 2 or code.count("'") % 2)


def _with_reading(word: str) -> str:
    """A word that looks like another, and that other."""
    reading = read_as(word)
    return f"{escape_unsafe(word, keep='')} (not {reading})" if reading != word else escape_unsafe(word, keep="")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}" if count else ""
