"""Text that we did not write, made fit for a terminal and for a reviewer's eyes.

A model, a file, a command or a server can send escape sequences that drive the terminal, bidirectional controls that
show code in another order than it runs (CVE-2021-42574, "Trojan Source"), characters that don't show at all, and
letters that look like others (CVE-2021-42694, `app.homoglyphs`). Each unsafe character becomes exactly one visible
glyph, so columns in the text stay columns on the screen.

Sets of characters: C0 and C1 controls (ECMA-48); Bidi_Control (UAX #9); Default_Ignorable_Code_Point (Unicode
DerivedCoreProperties) and the interlinear annotation marks.
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from app.homoglyphs import lookalikes, reading_of

_CONTROL = "\x00-\x1f\x7f-\x9f\u2028\u2029"
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_INVISIBLE = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_SURROGATE = "\ud800-\udfff"
_BLANK = "\u2800\U0001d159\U00016fe4"
_SPACES = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_RIGHT_TO_LEFT = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"

_UNSAFE = re.compile(f"[{_CONTROL}{_BIDI}{_INVISIBLE}{_SURROGATE}]")
_UNSAFE_ASCII = re.compile(r"[\x00-\x1f\x7f]")
_UNSAFE_BUT_LINES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_IS_CONTROL = re.compile(f"[{_CONTROL}{_SURROGATE}]")
_SHOWN = re.compile(f"[{_CONTROL}{_BIDI}{_INVISIBLE}{_SURROGATE}{_BLANK}{_SPACES}]")
"""What `visible` shows as glyphs: what is unsafe for a terminal, and blanks, which are unsafe for a reader only."""
_IS_BLANK = re.compile(f"[{_BLANK}{_SPACES}]")
_IS_BIDI = re.compile(f"[{_BIDI}]")

_JOINERS = "\u200c\u200d"
_EMOJI_STYLES = "\ufe0e\ufe0f"

BIDI_GLYPHS = {
    "\u200e": "⇢",
    "\u200f": "⇠",
    "\u061c": "⇠",
    "\u202a": "⇢",
    "\u202b": "⇠",
    "\u202c": "⇡",
    "\u202d": "⇢",
    "\u202e": "⇠",
    "\u2066": "⇢",
    "\u2067": "⇠",
    "\u2068": "⇢",
    "\u2069": "⇡",
}
"""Bidirectional controls: the direction that they force, or ⇡ for the end of such a stretch."""
INVISIBLE_GLYPH = "◌"
"""Stands for a character that takes no room."""
UNDECODABLE_GLYPH = "\ufffd"
"""Stands for a byte that is no text."""
C1_GLYPH = "␦"
"""Stands for a control of the C1 set; ␛ and its like stand for those of the C0 set."""
LINE_GLYPH = "␤"
"""Stands for a line or paragraph separator that is no newline."""

BLANK_GLYPH = "␣"
"""Stands for a blank that is no space."""
SPACE_GLYPH = "⍽"
"""Stands for a space that is not U+0020, where no language needs it."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What a reviewer should know of a text before trusting their eyes."""

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
    def quiet(self) -> tuple[str, ...]:
        """What is ordinary in the languages of people."""
        lines, spaces = self.right_to_left, self.spaces
        mentions = (
            f"Right-to-left text on {_counted(lines, 'line')}." if lines else "",
            f"{_counted(spaces, 'typographic space')}." if spaces else "",
        )
        return tuple(mention for mention in mentions if mention)

    @property
    def meaning(self) -> str:
        """What the worst of it may do to a reader."""
        if self.bidi or self.reordered:
            return "The code may run in another order than it reads."
        if self.lookalikes:
            return "A name may not be the name it looks like."
        if self.invisible or self.blank:
            return "Something is there that editors don't show."
        return "They are shown as glyphs."


def visible(text: str, *, keep: str = "\t\n") -> str:
    """The text with every unsafe character as one visible glyph.

    Args:
        text: Anything, lone surrogates included.
        keep: Which of tab and newline stay as they are.
    """
    if (text.isascii() and is_plain(text, keep=keep)) or _SHOWN.search(text) is None:
        return text
    return _SHOWN.sub(lambda match: match[0] if _stays(match, keep) else _glyph(match[0]), text)


def strip_unsafe(text: str, *, keep: str = "\t\n") -> str:
    """The text with every unsafe character left out; `keep` as in `visible`."""
    if is_plain(text, keep=keep):
        return text
    return _UNSAFE.sub(lambda match: match[0] if _stays(match, keep) else "", text)


def is_plain(text: str, *, keep: str = "\t\n") -> bool:
    """Whether no character of the text is unsafe, looked at the quick way: False may still come out unchanged."""
    if text.isascii():
        if text.isprintable():
            return True
        if "\t" in keep and "\n" in keep:
            return _UNSAFE_BUT_LINES.search(text) is None
        return _UNSAFE_ASCII.search(text) is None
    return _UNSAFE.search(text) is None


def inspect(text: str) -> Findings:
    """Find what could deceive a reader; tabs, newlines and the carriage return of a CRLF are ordinary."""
    if text.isascii() and is_plain(text):
        return Findings()
    control = bidi = invisible = blank = spaces = 0
    for match in _SHOWN.finditer(text):
        character = match[0]
        stays = _stays(match, "\t\n")
        if _IS_BLANK.match(character):
            blank, spaces = blank + (not stays), spaces + stays
        elif stays or (character == "\r" and text[match.end() : match.end() + 1] in ("\n", "")):
            continue
        elif _IS_BIDI.match(character):
            bidi += 1
        elif _IS_CONTROL.match(character):
            control += 1
        else:
            invisible += 1
    if text.isascii():
        return Findings(control)
    words = tuple(dict.fromkeys(text[start:end] for start, end in lookalikes(text)))
    reordered, other = _right_to_left(text)
    return Findings(control, bidi, invisible, words, blank, reordered, other, spaces)


def together(parts: Iterable[Findings]) -> Findings:
    """The findings of several texts as those of one."""
    found = list(parts)
    return Findings(
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
_COMMENT = re.compile(r"#|//|--|^\s*[*%;]|/\*(?!.*\*/)|<!--(?!.*-->)")
_CODE = re.compile(r"[=+<>{}&|*/\\^@$;]|[\"'`][^\"'`]*[\"'`]|[\"'`]\s*[:,)\]}]\s*\d")
"""Signs between right-to-left letters, or between one and a number, by which the order matters."""


def _right_to_left(text: str) -> tuple[int, int]:
    """The lines on which right-to-left letters turn code around (UAX 9 gives what lies between them, and numbers
    beside them, their direction), and those on which they don't."""
    deceiving = harmless = 0
    if _RTL.search(text) is None:
        return 0, 0
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
    comment = _COMMENT.search(line)
    if comment is not None and comment.start() < first and not _in_quotes(line[: comment.start()]):
        return False
    since: int | None = None
    for at in range(first, len(line)):
        direction = unicodedata.bidirectional(line[at])
        if direction in ("R", "AL", "EN", "AN"):
            if since is not None and _CODE.search(line[since:at]):
                return True
            if direction in ("R", "AL"):
                since = at + 1
        elif direction == "L":
            since = None
    return False


def _in_quotes(code: str) -> bool:
    return bool(code.count('"') % 2 or code.count("'") % 2)


def _stays(match: re.Match[str], keep: str) -> bool:
    """Whether an unsafe character is in its right place: a kept tab or newline, a joiner or style that belongs."""
    character = match[0]
    if character in "\t\n":
        return character in keep
    if _IS_BLANK.match(character):
        return _is_typographic(match)
    if character not in _JOINERS and character not in _EMOJI_STYLES:
        return False
    text, start = match.string, match.start()
    before = text[start - 1 : start]
    after = text[start + 1 : start + 2]
    if not before:
        return False
    if character in _EMOJI_STYLES:
        return _is_symbol(before) or (before in "0123456789#*" and after == "\u20e3")
    if character == "\u200d" and (_is_symbol(before) or before == "\ufe0f") and after and _is_symbol(after):
        return True
    return bool(after) and _takes_joiners(before) and _takes_joiners(after)


def _is_typographic(match: re.Match[str]) -> bool:
    """Whether a space that is not U+0020 stands where people write one, as in `« mot »`, `10 000`, `z. B.`."""
    character, text = match[0], match.string
    before, after = text[max(0, match.start() - 1) : match.start()], text[match.end() : match.end() + 1]
    if character == "\u3000":
        return any(unicodedata.east_asian_width(one) == "W" for one in before + after)
    if character not in "\u00a0\u2009\u202f" or not before or not after:
        return False
    if before in "«‹„“—–" or after in "»›!?:;%€$£°—–":
        # A colon or semicolon of code follows without a space.
        return before.isalnum() or after.isalnum() or after in "»›" or before in ")»"
    if before.isdigit():
        return after.isalnum()
    if before == ".":
        return after.isupper()
    return before.isalpha() and after.isalpha() and not (before.isascii() and after.isascii())


def _is_symbol(character: str) -> bool:
    """Whether emoji sequences can be made of it; skin tones are modifier symbols."""
    return ord(character) > 0xA8 and unicodedata.category(character) in ("So", "Sk", "Sm", "Po")


def _takes_joiners(character: str) -> bool:
    """Whether it is a letter or mark of a script that is written with joiners (UAX #31, section 2.3)."""
    return 0x0620 <= ord(character) <= 0x1CFF and unicodedata.category(character)[0] in "LM"


def _glyph(character: str) -> str:
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if code < 0xA0:
        return C1_GLYPH
    if 0xD800 <= code <= 0xDFFF:
        return UNDECODABLE_GLYPH
    if code in (0x2028, 0x2029):
        return LINE_GLYPH
    if _IS_BLANK.match(character):
        return SPACE_GLYPH if unicodedata.category(character) == "Zs" else BLANK_GLYPH
    return BIDI_GLYPHS.get(character, INVISIBLE_GLYPH)


def _with_reading(word: str) -> str:
    """A word that looks like another, and that other."""
    reading = reading_of(word)
    return f"{visible(word, keep='')} (not {reading})" if reading != word else visible(word, keep="")


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}" if count else ""
