"""Makes foreign text safe for a terminal.

A model, a file, a command or a server can send escape sequences that control the terminal, bidirectional controls
that show code in another order than it runs, and invisible characters. Each unsafe character becomes exactly one
visible glyph, so the columns of the text stay the columns on the screen. `app.text.deceiving_text` finds what a
reviewer should be warned of.

Unsafe are: C0 and C1 controls (ECMA-48); Bidi_Control (UAX #9); Default_Ignorable_Code_Point (Unicode
DerivedCoreProperties) and the interlinear annotation marks.
"""

import re
import unicodedata

CONTROL = "\x00-\x1f\x7f-\x9f\u2028\u2029"
BIDI = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_INVISIBLE_RANGES = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
SURROGATE = "\ud800-\udfff"
_BLANK_RANGES = "\u2800\U0001d159\U00016fe4"
_SPACE_RANGES = "\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"

_UNSAFE = re.compile(f"[{CONTROL}{BIDI}{_INVISIBLE_RANGES}{SURROGATE}]")
_UNSAFE_ASCII = re.compile(r"[\x00-\x1f\x7f]")
_UNSAFE_BUT_LINES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
SHOWN = re.compile(f"[{CONTROL}{BIDI}{_INVISIBLE_RANGES}{SURROGATE}{_BLANK_RANGES}{_SPACE_RANGES}]")
"""Characters that `escape_unsafe` shows as glyphs: unsafe for a terminal, or blanks that only mislead a reader."""
IS_BLANK = re.compile(f"[{_BLANK_RANGES}{_SPACE_RANGES}]")

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
"""Glyphs of bidirectional controls: the forced direction, or ⇡ for its end."""
INVISIBLE_GLYPH = "◌"
"""Glyph of a character without width."""
UNDECODABLE_GLYPH = "\ufffd"
"""Glyph of a byte that cannot be decoded."""
C1_GLYPH = "␦"
"""Glyph of a C1 control; C0 controls have separate glyphs such as ␛."""
LINE_GLYPH = "␤"
"""Glyph of a line or paragraph separator other than a newline."""

BLANK_GLYPH = "␣"
"""Glyph of a blank that is not a space."""
SPACE_GLYPH = "⍽"
"""Glyph of a space other than U+0020 in a place where no language needs it."""


def escape_unsafe(text: str, *, keep: str = "\t\n") -> str:
    """Return the text with each unsafe character as one visible glyph.

    Args:
        text: Any text, also with lone surrogates.
        keep: Which of tab and newline stay unchanged.
    """
    if (text.isascii() and is_surely_plain(text, keep=keep)) or SHOWN.search(text) is None:
        return text
    return SHOWN.sub(lambda match: match[0] if is_harmless_character(match, keep) else _glyph_for(match[0]), text)


def strip_unsafe(text: str, *, keep: str = "\t\n") -> str:
    """Return the text without unsafe characters; `keep` as in `escape_unsafe`."""
    if is_surely_plain(text, keep=keep):
        return text
    return _UNSAFE.sub(lambda match: match[0] if is_harmless_character(match, keep) else "", text)


def is_surely_plain(text: str, *, keep: str = "\t\n") -> bool:
    """Return whether the text has no unsafe character; fast, and False also for some texts that need no escaping."""
    if text.isascii():
        unsafe = _UNSAFE_BUT_LINES if "\t" in keep and "\n" in keep else _UNSAFE_ASCII
        return text.isprintable() or unsafe.search(text) is None
    return _UNSAFE.search(text) is None


def is_harmless_character(match: re.Match[str], keep: str) -> bool:
    """Return whether a matched character is harmless in its place: a kept tab or newline, a typographic space, or a
    joiner or emoji style that a script or emoji needs."""
    character = match[0]
    if character in "\t\n":
        return character in keep
    if IS_BLANK.match(character):
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
    """Return whether a space other than U+0020 is where writers use one, as in `« mot »`, `10 000`, `z. B.`."""
    character, text = match[0], match.string
    before, after = text[max(0, match.start() - 1) : match.start()], text[match.end() : match.end() + 1]
    if character == "\u3000":
        return any(unicodedata.east_asian_width(neighbour) == "W" for neighbour in before + after)
    if character not in "\u00a0\u2009\u202f" or not before or not after:
        return False
    if before in "«‹„“—–" or after in "»›!?:;%€$£°—–":
        # In code, no space precedes a colon or semicolon.
        return before.isalnum() or after.isalnum() or after in "»›" or before in ")»"
    if before.isdigit():
        return after.isalnum()
    if before == ".":
        return after.isupper()
    return before.isalpha() and after.isalpha() and not (before.isascii() and after.isascii())


def _is_symbol(character: str) -> bool:
    """Return whether emoji sequences can contain the character; skin tones are modifier symbols."""
    return ord(character) > 0xA8 and unicodedata.category(character) in ("So", "Sk", "Sm", "Po")


def _takes_joiners(character: str) -> bool:
    """Return whether it is a letter or mark of a script that uses joiners (UAX #31, section 2.3)."""
    return 0x0620 <= ord(character) <= 0x1CFF and unicodedata.category(character)[0] in "LM"


def _glyph_for(character: str) -> str:
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
    if IS_BLANK.match(character):
        return SPACE_GLYPH if unicodedata.category(character) == "Zs" else BLANK_GLYPH
    return BIDI_GLYPHS.get(character, INVISIBLE_GLYPH)


def make_code_fence(text: str) -> str:
    """Return the fence of a Markdown code block that its text cannot close: longer than any fence in the text."""
    return "`" * (max((len(run) for run in re.findall(r"`{3,}", text)), default=2) + 1)


def make_code_span(text: str) -> str:
    """Return a Markdown code span on one line that its text cannot close."""
    ticks = "`" * (max(map(len, re.findall("`+", text)), default=0) + 1)
    padding = " " if len(ticks) > 1 else ""
    return f"{ticks}{padding}{escape_unsafe(text, keep='')}{padding}{ticks}"
