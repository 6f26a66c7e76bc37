"""Detect letters that look like other letters, and words that read as a name which they are not.

After UTS 39 (Unicode Security Mechanisms): a word that mixes scripts (section 5.1), a whole word of another script
that has a Latin reading (section 4, whole-script confusables), and what compatibility normalization folds into ASCII,
as Python does with names (UAX 31, NFKC). The readings are those of Unicode's confusables.txt, limited to letters that
common fonts draw alike.
"""

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache

_READINGS = {
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
"""By script, letters and what each is read as."""

_READ_AS = {
    letter: reading
    for pairs in _READINGS.values()
    for letters, readings in pairs
    for letter, reading in zip(letters, readings, strict=True)
}

_EXACT = frozenset("оасерухіјѕԁһӏԛԝүАВЕКМНОРСТХІЈЅοѵνϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹͿօսհԼՍՏՕ")
"""Letters that can't be told from Latin ones also by themselves. A lone α or χ is mathematics."""

_SIGNS = {
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
"""Signs that are drawn like ASCII ones and have hardly another use in code."""

_WORD = re.compile(r"[^\W_]+")
_SIGN = re.compile(f"[{''.join(map(re.escape, _SIGNS))}\uff01-\uff0f\uff1a-\uff20\uff3b-\uff40\uff5b-\uff64]")
_BETWEEN_WORDS = re.compile(r"[ ,.:!?…«»„“”–—-]+")
"""What stands between the words of a sentence."""

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_NEAR = 100
"""Characters on each side of a sign in which its neighbour is looked for."""
_ENOUGH = 2
_NEIGHBOURS = 6

_FOLDS = ("", "<wide>", "<font>", "<compat>")
"""Kinds of decomposition that leave no trace for the eye; a superscript is seen."""


def find_lookalikes(text: str) -> Iterator[tuple[int, int]]:
    """Return the words and signs that a reader would take for others in ASCII, in order of the text."""
    start = 0
    for line in text.split("\n"):
        if not line.isascii():
            found = [*_deceiving_words(line), *_deceiving_signs(line)]
            yield from ((start + begin, start + end) for begin, end in sorted(found))
        start += len(line) + 1


def read_as(word: str) -> str:
    """Return the ASCII word as which a lookalike is read."""
    letters = (_READ_AS.get(letter) or _SIGNS.get(letter, letter) for letter in word)
    return unicodedata.normalize("NFKC", "".join(letters))


def _deceiving_words(line: str) -> Iterator[tuple[int, int]]:
    words: list[re.Match[str]] = []
    end = 0
    for letter in _NOT_ASCII.finditer(line):
        at = letter.start()
        if at < end or not _WORD.match(letter[0]):
            continue
        while at > end and _WORD.match(line[at - 1]):
            at -= 1
        word = _WORD.match(line, at)
        assert word is not None, "a letter begins it"
        end = word.end()
        if _mixes(word[0]) or _folds(word[0]):
            yield word.span()
        elif _reads_as_latin(word[0]):
            words = words or list(_WORD.finditer(line))
            if not _in_a_sentence(line, words, word):
                yield word.span()


def _mixes(word: str) -> bool:
    """Return whether a word mixes ASCII letters with another script or with Latin letters that look alike."""
    if not any("a" <= letter <= "z" or "A" <= letter <= "Z" for letter in word):
        return False
    for letter in word:
        if letter in _READ_AS or (not letter.isascii() and _script(letter) in ("CYRILLIC", "CHEROKEE", "LISU")):
            return True
    return False


def _folds(word: str) -> bool:
    """Return whether a letter is normalized to ASCII in names; letters of Japanese text are not."""
    if any(_is_wide(letter) for letter in word):
        return False
    return any(not letter.isascii() and _folds_to_ascii(letter) for letter in word)


def _reads_as_latin(word: str) -> bool:
    """Whether all of a word is of one other script and has a Latin reading."""
    letters = [letter for letter in word if not letter.isdecimal()]
    if any(letter not in _READ_AS for letter in letters):
        return False
    if len(letters) == 1:
        return letters[0] in _EXACT
    return len({_script(letter) for letter in letters}) == 1


def _in_a_sentence(line: str, words: Sequence[re.Match[str]], word: re.Match[str]) -> bool:
    """Whether words beside it show that its script is really being written: letters that have no Latin reading."""
    at = bisect_left(words, word.start(), key=re.Match.start)
    script, evidence = _script(word[0][0]), 0
    for step in (-1, 1):
        weight, here = 2, at
        for _ in range(_NEIGHBOURS):
            there = here + step
            if not 0 <= there < len(words):
                break
            left, right = sorted((here, there))
            gap = line[words[left].end() : words[right].start()]
            if not _BETWEEN_WORDS.fullmatch(gap):
                break
            if gap.strip(" "):
                weight = 1
            letters = [letter for letter in words[there][0] if letter.isalpha()]
            if any(_script(letter) != script for letter in letters):
                break
            if any(letter not in _READ_AS for letter in letters):
                evidence += weight
            here = there
    return evidence >= _ENOUGH


def _deceiving_signs(line: str) -> Iterator[tuple[int, int]]:
    for match in _SIGN.finditer(line):
        if match[0] not in _SIGNS or match[0] == "\uff65":
            # Full-width punctuation is that of Chinese and Japanese text.
            before, after = (
                line[max(0, match.start() - _NEAR) : match.start()],
                line[match.end() : match.end() + _NEAR],
            )
            around = before.rstrip()[-1:] + after.lstrip()[:1]
            if any(_is_wide(letter) for letter in around):
                continue
        yield match.span()


def _is_wide(letter: str) -> bool:
    """Return whether it belongs to Chinese, Japanese or Korean text; full-width forms of ASCII don't count."""
    return letter > "\u1100" and unicodedata.east_asian_width(letter) == "W"


@lru_cache(maxsize=4096)
def _script(letter: str) -> str:
    """The script that a letter is of, by its name, which never changes."""
    return unicodedata.name(letter, "").partition(" ")[0]


@lru_cache(maxsize=4096)
def _folds_to_ascii(letter: str) -> bool:
    decomposition = unicodedata.decomposition(letter)
    kind = decomposition.split(" ")[0] if decomposition.startswith("<") else ""
    return bool(decomposition) and kind in _FOLDS and unicodedata.normalize("NFKC", letter).isascii()
