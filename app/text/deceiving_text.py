"""Finds text that looks different from what it is, and could deceive a reviewer.

Bidirectional controls and right-to-left letters show code in another order than it runs (CVE-2021-42574, "Trojan
Source"); other characters are invisible, and some letters look like others (CVE-2021-42694).

Letters and words are compared according to UTS 39 (Unicode Security Mechanisms). Found are: words that mix scripts
(section 5.1), whole words of another script that have a Latin reading (section 4, whole-script confusables), and
letters that compatibility normalization folds into ASCII, as Python does in names (UAX 31, NFKC). The readings are
those of Unicode's confusables.txt, limited to letters that look alike in common fonts.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from app.text.quantities import format_count, join_first
from app.text.safe_text import (
    BIDI,
    CONTROL,
    IS_BLANK,
    SHOWN,
    SURROGATE,
    escape_unsafe,
    is_harmless_character,
    is_surely_plain,
)

_RTL_RANGES = "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff"
_IS_CONTROL = re.compile(f"[{CONTROL}{SURROGATE}]")
_IS_BIDI = re.compile(f"[{BIDI}]")


class DeceptiveTextFindings(Struct, frozen=True):
    """Findings about characters that a reviewer cannot see or could misread."""

    control: int = 0
    """Control characters and undecodable bytes, without tabs and newlines."""
    bidi: int = 0
    """Bidirectional controls."""
    invisible: int = 0
    """Invisible characters, except where an emoji or a script needs them."""
    lookalikes: tuple[str, ...] = ()
    """Words and signs that look like others in ASCII, each once, in order."""
    blank: int = 0
    """Blanks that are not spaces, and spaces other than U+0020 where no language needs them."""
    reordered: int = 0
    """Lines of code that right-to-left letters reorder, without any control character."""
    right_to_left: int = 0
    """Other lines with right-to-left letters: ordinary in some languages, so only mentioned."""
    spaces: int = 0
    """Spaces other than U+0020 in places where some languages use them: only mentioned, too."""

    def __bool__(self) -> bool:
        return bool(self.control or self.bidi or self.invisible or self.lookalikes or self.blank or self.reordered)

    def __str__(self) -> str:
        """Return one line on the findings; the words in it are escaped."""
        parts = [
            _format_number_of(self.control, "control character"),
            _format_number_of(self.bidi, "bidirectional control"),
            _format_number_of(self.invisible, "invisible character"),
            _format_number_of(self.blank, "unusual blank"),
            f"right-to-left letters among signs of code on {_format_number_of(self.reordered, 'line')}"
            if self.reordered
            else "",
        ]
        if self.lookalikes:
            words = join_first([_describe_lookalike(word) for word in self.lookalikes])
            parts.append(f"look-alike letters in {words}")
        return ", ".join(part for part in parts if part)

    @property
    def harmless_remarks(self) -> tuple[str, ...]:
        """Return a remark for each finding that is ordinary in natural languages."""
        lines, spaces = self.right_to_left, self.spaces
        mentions = (
            f"Right-to-left text on {_format_number_of(lines, 'line')}." if lines else "",
            f"{_format_number_of(spaces, 'typographic space')}." if spaces else "",
        )
        return tuple(mention for mention in mentions if mention)

    @property
    def worst_effect(self) -> str:
        """Return a sentence on the worst effect on a reader."""
        if self.bidi or self.reordered:
            return "The code may run in another order than it reads."
        if self.lookalikes:
            return "A name may not be the name it looks like."
        if self.invisible or self.blank:
            return "Something is there that editors don't show."
        return "It is shown as a glyph." if self.control == 1 else "They are shown as glyphs."


def find_deceptive_characters(text: str) -> DeceptiveTextFindings:
    """Find deceptive characters; tabs, newlines and the carriage return of a CRLF are ordinary."""
    if text.isascii() and is_surely_plain(text):
        return DeceptiveTextFindings()
    control = bidi = invisible = blank = spaces = 0
    for match in SHOWN.finditer(text):
        character = match[0]
        is_ordinary = is_harmless_character(match, "\t\n")
        if IS_BLANK.match(character):
            blank, spaces = blank + (not is_ordinary), spaces + is_ordinary
        elif is_ordinary or (character == "\r" and text[match.end() : match.end() + 1] in ("\n", "")):
            continue
        elif _IS_BIDI.match(character):
            bidi += 1
        elif _IS_CONTROL.match(character):
            control += 1
        else:
            invisible += 1
    lookalikes = tuple(dict.fromkeys(text[start:end] for start, end in find_ascii_lookalikes(text)))
    reordered, harmless_lines = _count_rtl_lines(text)
    return DeceptiveTextFindings(control, bidi, invisible, lookalikes, blank, reordered, harmless_lines, spaces)


def merge_deceptive_text_findings(parts: Iterable[DeceptiveTextFindings]) -> DeceptiveTextFindings:
    """Merge the findings of several texts."""
    findings = list(parts)
    return DeceptiveTextFindings(
        sum(part.control for part in findings),
        sum(part.bidi for part in findings),
        sum(part.invisible for part in findings),
        tuple(dict.fromkeys(word for part in findings for word in part.lookalikes)),
        sum(part.blank for part in findings),
        sum(part.reordered for part in findings),
        sum(part.right_to_left for part in findings),
        sum(part.spaces for part in findings),
    )


_RTL_LETTER = re.compile(f"[{_RTL_RANGES}]")
_COMMENT_SIGN = re.compile(r"\s*[*%;]")
"""A sign that starts a comment if it is the first on its line."""
_CODE_SIGNS = tuple(map(re.compile, (r"[=+<>{}&|*/\\^@$;]", r"[\"'`][^\"'`]*[\"'`]", r"[\"'`]\s*[:,)\]}]\s*\d")))
"""Signs that change the meaning if right-to-left letters around them, or a letter and a number, are reordered."""


def _count_rtl_lines(text: str) -> tuple[int, int]:
    """Return the number of lines on which right-to-left letters reorder code, and of the other lines with such
    letters.

    UAX 9 gives text between these letters, and numbers beside them, the same direction.
    """
    deceiving = harmless = 0
    for line in text.split("\n"):
        first = _RTL_LETTER.search(line)
        if first is None:
            continue
        if _is_reordered(line, first.start()):
            deceiving += 1
        else:
            harmless += 1
    return deceiving, harmless


def _is_reordered(line: str, first: int) -> bool:
    comment = _comment_start(line)
    if 0 <= comment < first and not _ends_in_quotes(line[:comment]):
        return False
    rtl_end: int | None = None
    signs = [pattern.search(line, first) for pattern in _CODE_SIGNS]
    for index in range(first, len(line)):
        direction = unicodedata.bidirectional(line[index])
        if direction in ("R", "AL", "EN", "AN"):
            if rtl_end is not None and any(sign is not None and sign.end() <= index for sign in signs):
                return True
            if direction in ("R", "AL"):
                rtl_end = index + 1
                # Search again only behind the letter, so that a long line is scanned once.
                signs = [
                    pattern.search(line, rtl_end) if sign and sign.start() < rtl_end else sign
                    for pattern, sign in zip(_CODE_SIGNS, signs, strict=True)
                ]
        elif direction == "L":
            rtl_end = None
    return False


def _comment_start(line: str) -> int:
    """Return the index at which a comment starts on a line; -1 if there is none."""
    starts = [line.find(mark) for mark in ("#", "//", "--")]
    # Ignore a comment that ends on this line: code follows.
    starts.append(line.find("/*", max(0, line.rfind("*/") - 1)))
    starts.append(line.find("<!--", max(0, line.rfind("-->") - 3)))
    if _COMMENT_SIGN.match(line):
        starts.append(0)
    return min((at for at in starts if at >= 0), default=-1)


def _ends_in_quotes(code: str) -> bool:
    return bool(code.count('"') % 2 or code.count("'") % 2)


def _describe_lookalike(word: str) -> str:
    """Return a lookalike word with its ASCII reading."""
    reading = read_lookalike_as_ascii(word)
    return f"{escape_unsafe(word, keep='')} (not {reading})" if reading != word else escape_unsafe(word, keep="")


def _format_number_of(count: int, noun: str) -> str:
    return format_count(count, noun) if count else ""


_READINGS_BY_SCRIPT = {
    "CYRILLIC": (
        ("аԁеԍһіјӏорԛгсѕтухѡԝѵү", "adeghijlopqrcstyxwwvy"),
        ("АВСЕԌНІЈКМОРԚЅТУХҮԜӀ", "ABCEGHIJKMOPQSTYXYWI"),
    ),
    "GREEK": (
        ("αγικνορτυχωσϲϳ", "ayikvoptuxwocj"),
        ("ΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿϜ", "ABEZHIKMNOPTYXCJF"),
    ),
    "ARMENIAN": (("ագզհյոսցքօ", "wqqhjnugpo"), ("ԼՍՏՕ", "LUSO")),
    "CHEROKEE": (("ᎪᏴᏟᎠᎬᎻᎫᏦᏞᎷᏢᏒᏚᎢᏙᎳᏃ", "ABCDEHJKLMPRSTVWZ"),),
    "LISU": (("ꓮꓐꓚꓓꓰꓝꓖꓧꓲꓙꓗꓡꓟꓠꓳꓑꓣꓢꓔꓴꓦꓪꓫꓬꓜ", "ABCDEFGHIJKLMNOPRSTUVWXYZ"),),
    "COPTIC": (("ⲟⲣⲥ", "opc"), ("ⲞⲢⲤ", "OPC")),
    "LATIN": (("ıɑɡɩɪʏᴄᴏᴠᴡᴢꜱ", "iagiiycovwzs"),),
}
"""By script: letters, and the ASCII letters that they look like."""

_LETTER_READINGS = {
    letter: reading
    for pairs in _READINGS_BY_SCRIPT.values()
    for letters, readings in pairs
    for letter, reading in zip(letters, readings, strict=True)
}

_EXACT_LOOKALIKES = frozenset("оасерухіјѕԁһӏԛԝүАВЕКМНОРСТХІЈЅοѵνϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿօսհԼՍՏՕ")
"""Letters that look exactly like Latin ones, so that even a single one deceives; a single α or χ is mathematics."""

_SIGN_READINGS = {
    "\u037e": ";",
    "\u01c3": "!",
    "\u2024": ".",
    "\u2044": "/",
    "\u2215": "/",
    "\u2236": ":",
    "\ua789": ":",
    "\u02b9": "'",
    "\u05c3": ":",
    "\u2223": "|",
    "\u2217": "*",
    "\u2216": "\\",
    "\u02d0": ":",
    "\uff65": ".",
}
"""Signs that look like ASCII ones and are rarely used otherwise in code."""

_WORD = re.compile(r"[^\W_]+")
_SIGN = re.compile(f"[{''.join(map(re.escape, _SIGN_READINGS))}\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff64]")
_BETWEEN_WORDS = re.compile(r"[ ,.:!?…«»„“”–—-]+")
"""Characters between the words of a sentence."""

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_MAX_NEIGHBOUR_DISTANCE = 100
"""Characters on each side of a sign that are searched for its neighbour."""
_MIN_EVIDENCE = 2
_MAX_NEIGHBOUR_WORDS = 6

_INVISIBLE_FOLDS = ("", "<wide>", "<font>", "<compat>")
"""Kinds of decomposition that readers cannot see, unlike a superscript."""


def find_ascii_lookalikes(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of words and signs that look like others in ASCII, in order of the text."""
    start = 0
    for line in text.split("\n"):
        if not line.isascii():
            spans = [*_find_lookalike_words(line), *_find_lookalike_signs(line)]
            yield from ((start + begin, start + end) for begin, end in sorted(spans))
        start += len(line) + 1


def read_lookalike_as_ascii(word: str) -> str:
    """Return the ASCII text as which a reader takes a lookalike word."""
    letters = (_LETTER_READINGS.get(letter) or _SIGN_READINGS.get(letter, letter) for letter in word)
    return unicodedata.normalize("NFKC", "".join(letters))


def _find_lookalike_words(line: str) -> Iterator[tuple[int, int]]:
    words: list[re.Match[str]] = []
    end = 0
    for letter in _NOT_ASCII.finditer(line):
        index = letter.start()
        if index < end or not _WORD.match(letter[0]):
            continue
        while index > end and _WORD.match(line[index - 1]):
            index -= 1
        word = _WORD.match(line, index)
        assert word is not None, "a letter begins it"
        end = word.end()
        if _mixes_scripts(word[0]) or _has_folding_letter(word[0]):
            yield word.span()
        elif _reads_as_latin(word[0]):
            words = words or list(_WORD.finditer(line))
            if not _is_in_sentence(line, words, word):
                yield word.span()


def _mixes_scripts(word: str) -> bool:
    """Return whether a word mixes ASCII letters with a lookalike, Cyrillic, Cherokee or Lisu letter."""
    if not any("a" <= letter <= "z" or "A" <= letter <= "Z" for letter in word):
        return False
    for letter in word:
        if letter in _LETTER_READINGS or (
            not letter.isascii() and _script(letter) in ("CYRILLIC", "CHEROKEE", "LISU")
        ):
            return True
    return False


def _has_folding_letter(word: str) -> bool:
    """Return whether normalization of names turns a letter into ASCII; never in Japanese text."""
    if any(_is_wide(letter) for letter in word):
        return False
    return any(not letter.isascii() and _folds_to_ascii(letter) for letter in word)


def _reads_as_latin(word: str) -> bool:
    """Return whether the whole word is in one other script and has a Latin reading."""
    letters = [letter for letter in word if not letter.isdecimal()]
    if any(letter not in _LETTER_READINGS for letter in letters):
        return False
    if len(letters) == 1:
        return letters[0] in _EXACT_LOOKALIKES
    return len({_script(letter) for letter in letters}) == 1


def _is_in_sentence(line: str, words: Sequence[re.Match[str]], word: re.Match[str]) -> bool:
    """Return whether nearby words show that the text is really in this script: they have letters without reading."""
    word_index = bisect_left(words, word.start(), key=re.Match.start)
    script, evidence = _script(word[0][0]), 0
    for step in (-1, 1):
        weight, index = 2, word_index
        for _ in range(_MAX_NEIGHBOUR_WORDS):
            neighbour = index + step
            if not 0 <= neighbour < len(words):
                break
            left, right = sorted((index, neighbour))
            gap = line[words[left].end() : words[right].start()]
            if not _BETWEEN_WORDS.fullmatch(gap):
                break
            if gap.strip(" "):
                weight = 1
            letters = [letter for letter in words[neighbour][0] if letter.isalpha()]
            if any(_script(letter) != script for letter in letters):
                break
            if any(letter not in _LETTER_READINGS for letter in letters):
                evidence += weight
            index = neighbour
    return evidence >= _MIN_EVIDENCE


def _find_lookalike_signs(line: str) -> Iterator[tuple[int, int]]:
    for match in _SIGN.finditer(line):
        if match[0] not in _SIGN_READINGS or match[0] == "\uff65":
            # Full-width punctuation is ordinary beside Chinese and Japanese text.
            before, after = (
                line[max(0, match.start() - _MAX_NEIGHBOUR_DISTANCE) : match.start()],
                line[match.end() : match.end() + _MAX_NEIGHBOUR_DISTANCE],
            )
            around = before.rstrip()[-1:] + after.lstrip()[:1]
            if any(_is_wide(letter) for letter in around):
                continue
        yield match.span()


def _is_wide(letter: str) -> bool:
    """Return whether a letter belongs to Chinese, Japanese or Korean; full-width forms of ASCII don't."""
    return letter > "\u1100" and unicodedata.east_asian_width(letter) == "W"


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    """Return the script of a letter, from its Unicode name, which never changes."""
    return unicodedata.name(letter, "").partition(" ")[0]


@lru_cache(maxsize=4096)
def _folds_to_ascii(letter: str) -> bool:
    decomposition = unicodedata.decomposition(letter)
    kind = decomposition.split(" ")[0] if decomposition.startswith("<") else ""
    return bool(decomposition) and kind in _INVISIBLE_FOLDS and unicodedata.normalize("NFKC", letter).isascii()
