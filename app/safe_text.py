"""Text that we did not write, made fit for a terminal and for a reviewer's eyes.

A model, a file, a command or a server can send escape sequences that drive the terminal, bidirectional controls that
show code in another order than it runs (CVE-2021-42574, "Trojan Source"), characters that don't show at all, and
letters that look like others (CVE-2021-42694). Each unsafe character becomes exactly one visible glyph, so columns in
the text stay columns on the screen.

Sets of characters: C0 and C1 controls (ECMA-48); Bidi_Control (UAX #9); Default_Ignorable_Code_Point (Unicode
DerivedCoreProperties) and the interlinear annotation marks.
"""

import re
import unicodedata
from dataclasses import dataclass

_CONTROL = "\x00-\x1f\x7f-\x9f\u2028\u2029"
_BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_INVISIBLE = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_SURROGATE = "\ud800-\udfff"

_UNSAFE = re.compile(f"[{_CONTROL}{_BIDI}{_INVISIBLE}{_SURROGATE}]")
_UNSAFE_ASCII = re.compile(r"[\x00-\x1f\x7f]")
_UNSAFE_BUT_LINES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_IS_CONTROL = re.compile(f"[{_CONTROL}{_SURROGATE}]")
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

_WORD = re.compile(r"[^\W\d_]\w*")
_LOOKALIKES = frozenset(
    # Cyrillic, then Greek, Armenian and Cherokee letters, and Latin ones outside of ordinary spelling, that common
    # fonts draw like an ASCII letter (after Unicode's confusables.txt).
    "авсеԁһіјӏорԛгѕтухѡԝѵүАВСЕНІЈКМОРԚЅТУХҮԜαγικνορτυχωϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹաօսոհցցքԼՍՏՕᎪᏴᏟᎠᎬᎻᎫᏦᏞᎷᏢᏒᏚᎢᏙᎳᏃıɑɡɩɪʏᴄᴏᴠᴡᴢꜱ"
)
LOOKALIKE_SIGNS = frozenset("\u037e\u01c3\u2024\u2044\u2215\u2236\ua789\u02b9")
"""Signs that look like `; ! . / / : : '` and have hardly another use in code."""


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
    """Words that mix letters of one script with look-alikes of another, each once, in order."""

    def __bool__(self) -> bool:
        return bool(self.control or self.bidi or self.invisible or self.lookalikes)

    def __str__(self) -> str:
        """One line; the words in it are safe to show."""
        parts = [
            _counted(self.control, "control character"),
            _counted(self.bidi, "bidirectional control"),
            _counted(self.invisible, "invisible character"),
        ]
        if self.lookalikes:
            words = ", ".join(visible(word, keep="") for word in self.lookalikes[:3])
            more = f" and {len(self.lookalikes) - 3} more" if len(self.lookalikes) > 3 else ""
            parts.append(f"look-alike letters in {words}{more}")
        return ", ".join(part for part in parts if part)


def visible(text: str, *, keep: str = "\t\n") -> str:
    """The text with every unsafe character as one visible glyph.

    Args:
        text: Anything, lone surrogates included.
        keep: Which of tab and newline stay as they are.
    """
    if is_plain(text, keep=keep):
        return text
    return _UNSAFE.sub(lambda match: match[0] if _stays(match, keep) else _glyph(match[0]), text)


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
    """Count what could deceive a reader; tabs, newlines and the carriage return of a CRLF are ordinary."""
    if is_plain(text) and text.isascii():
        return Findings()
    control = bidi = invisible = 0
    for match in _UNSAFE.finditer(text):
        character = match[0]
        if _stays(match, "\t\n") or (character == "\r" and text[match.end() : match.end() + 1] in ("\n", "")):
            continue
        if _IS_BIDI.match(character):
            bidi += 1
        elif _IS_CONTROL.match(character):
            control += 1
        else:
            invisible += 1
    return Findings(control, bidi, invisible, () if text.isascii() else _lookalikes(text))


def _stays(match: re.Match[str], keep: str) -> bool:
    """Whether an unsafe character is in its right place: a kept tab or newline, a joiner or style that belongs."""
    character = match[0]
    if character in "\t\n":
        return character in keep
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
    return BIDI_GLYPHS.get(character, INVISIBLE_GLYPH)


def _lookalikes(text: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for match in _WORD.finditer(text):
        word = match[0]
        if not word.isascii() and _deceives(word):
            found[word] = None
    for sign in text:
        if sign in LOOKALIKE_SIGNS:
            found[sign] = None
    return tuple(found)


def _deceives(word: str) -> bool:
    """Whether an ASCII reading of the word suggests itself and would be wrong."""
    if any(letter in _LOOKALIKES for letter in word) and any(
        letter.isascii() and letter.isalpha() for letter in word
    ):
        return True
    # Full-width and mathematical letters: Python, for one, folds them, so it reads another word than a reviewer.
    return any(unicodedata.decomposition(letter).startswith(("<wide>", "<font>")) for letter in word)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}" if count else ""
