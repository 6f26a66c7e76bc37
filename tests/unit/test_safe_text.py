"""Nothing that drives a terminal or turns text around gets through, and what deceives is found."""

import time
import unicodedata
from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.proposals.patch.patching import parse_patch_text
from app.proposals.values.proposal_errors import EditRefused
from app.text.deceiving_text import find_ascii_lookalikes, find_deceptive_characters
from app.text.safe_text import INVISIBLE_GLYPH, SPACE_GLYPH, escape_unsafe, is_surely_plain, strip_unsafe
from app.tools.command.command_result import PlainTextDecoder
from app.workspace.secrets import secret_reason
from widgets.chat.markdown.markdown_document import close_inline_marks, has_visible_text
from widgets.chat.markdown.markdown_splitter import ITEM_PATTERN, RULE_PATTERN, TABLE_DELIMITER_PATTERN
from widgets.chat.path_index import PathIndex

BIDI_CLASSES = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
BIDI_MARKS = "\u061c\u200e\u200f"
CONTROLS = "\x00\x07\x08\x0b\x0c\x0d\x1b\x7f\x80\x84\x85\x90\x9b\x9d\x9f\u2028\u2029"
DANGEROUS = f"{CONTROLS}{BIDI_MARKS}\u202a\u202e\u2066\u2069"
INVISIBLE = "\u00ad\u034f\u115f\u180e\u200b\u2060\u2064\u3164\ufe00\ufeff\uffa0\U000e0001\U000e0041\U000e0100\ufff9"
ANYTHING = st.text(
    alphabet=st.one_of(
        st.characters(exclude_categories=()),
        st.sampled_from(DANGEROUS + INVISIBLE + "\u200c\u200d\ufe0f\ufe0e"),
        st.sampled_from("ab1#\t\n❤👨👩⚠می\ud800\udc80"),
    ),
    max_size=30,
)


def active(character: str) -> bool:
    """Whether it drives a terminal, breaks a line, or turns text around."""
    return (
        unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")
        or unicodedata.bidirectional(character) in BIDI_CLASSES
        or character in BIDI_MARKS
    )


@given(ANYTHING, st.sampled_from(["\t\n", "\n", "\t", ""]))
def test_nothing_active_gets_through_and_columns_stay_columns(text: str, keep: str) -> None:
    shown = escape_unsafe(text, keep=keep)
    assert not [letter for letter in shown if active(letter) and letter not in keep]
    assert len(shown) == len(text) and escape_unsafe(shown, keep=keep) == shown
    shown.encode()
    stripped = strip_unsafe(text, keep=keep)
    assert not [letter for letter in stripped if active(letter) and letter not in keep]
    assert all(letter in text and letter not in DANGEROUS for letter in stripped)
    stripped.encode()


def test_every_character_that_is_active_is_replaced() -> None:
    """Of the planes that have any: the others have letters alone, or nothing."""
    everything = "".join(map(chr, (*range(0x20000), *range(0xE0000, 0xE1000))))
    assert [letter for letter in escape_unsafe(everything, keep="") if active(letter)] == []


@given(st.text(alphabet=st.characters(codec="ascii", exclude_categories=["Cc"]) | st.sampled_from("\t\n")))
def test_plain_text_is_returned_as_it_is(text: str) -> None:
    assert is_surely_plain(text)
    assert escape_unsafe(text) is text
    assert strip_unsafe(text) is text
    assert not find_deceptive_characters(text)


def test_each_unsafe_character_is_shown_removed_and_counted() -> None:
    for character in DANGEROUS + INVISIBLE:
        text = f"a{character}b"
        assert escape_unsafe(text) != text and strip_unsafe(text) == "ab", ascii(character)
        assert find_deceptive_characters(text), ascii(character)


def test_glyphs() -> None:
    for text, shown in (
        ("\x1b[2J", "␛[2J"),
        ("a\tb\n", "a\tb\n"),
        ("\x00\x7f\x9b", "␀␡␦"),
        ("caf\udce9", "caf\ufffd"),
        ("x\u2028y", "x␤y"),
        ("if a\u202e ⁦// b", "if a⇠ ⇢// b"),
        ("pass\u200bword", "pass◌word"),
        ("user\u200d_admin", "user◌_admin"),
    ):
        assert escape_unsafe(text) == shown
    assert escape_unsafe("a\tb\n", keep="") == "a␉b␊"
    assert escape_unsafe("a\tb\n", keep="\t") == "a\tb␊"
    assert escape_unsafe("é\tb\n", keep="\n") == "é␉b\n"


ORDINARY = (
    "⚠️ careful|❤️|👨‍👩‍👧‍👦|🏳️‍🌈|1️⃣|می‌خواهم|क्‍ष|👍🏽|naïve café|"
    "漢字かな|it’s “so”|µs, Δx, m²|привет мир|Ελλάδα|переменная_1 = 2|Δt = α|größe|変数x|日本語API"
)


def test_ordinary_writing_stays_and_raises_no_alarm() -> None:
    for text in ORDINARY.split("|"):
        assert escape_unsafe(text) == text
        assert not find_deceptive_characters(text), str(find_deceptive_characters(text))


def test_findings_are_counted_by_kind() -> None:
    findings = find_deceptive_characters("a\x1b\x9b\udc80\r\nb\u202e\u2066c\u200b\u00ad\n")
    assert (findings.control, findings.bidi, findings.invisible) == (3, 2, 2)
    assert str(findings) == "3 control characters, 2 bidirectional controls, 2 invisible characters"
    assert not find_deceptive_characters("a\r\nb\r") and find_deceptive_characters("a\rb").control == 1


def test_a_joiner_that_joins_nothing_is_made_visible() -> None:
    for character in "\u200c\u200d\ufe0f":
        assert escape_unsafe(f"{character}می") == f"{INVISIBLE_GLYPH}می"
        assert find_deceptive_characters(f"{character}می").invisible == 1
    for text in ("👩\u200c👩", "a\u200d👩", "👩\u200da", "👩\u200d", "👩\ufe0f\u200c👩"):
        assert escape_unsafe(text).count(INVISIBLE_GLYPH) == 1, ascii(text)
        assert find_deceptive_characters(text).invisible == 1, ascii(text)
    assert escape_unsafe("👩\u200d👩") == "👩\u200d👩"
    for character in "\u202e\u200b\u2060\x1b":
        shown = escape_unsafe(f"م{character}ی")
        assert shown[0] + shown[2] == "می" and shown[1] != character, "no joiner between letters"
        assert strip_unsafe(f"م{character}ی") == "می"
    for text in ("д\u2003д", "\u00a0д", "д\u00a0", "\u202f»", "«\u2009"):
        assert SPACE_GLYPH in escape_unsafe(text), ascii(text)


def test_the_worst_effect_of_deceptive_text_is_named() -> None:
    for text, meaning in (
        ("a\u202eb", "another order than it reads"),
        ("pаypal", "not be the name it looks like"),
        ("a\u200bb", "that editors don't show"),
        ("a\u2800b", "that editors don't show"),
        ("a\x07b", "It is shown as a glyph."),
        ("a\x07\x07b", "They are shown as glyphs."),
    ):
        assert meaning in find_deceptive_characters(text).worst_effect


def test_look_alikes_are_found_and_shown_safely() -> None:
    for word in [
        "pаypal",
        "аdmin",
        "scоpe",
        "Βank",
        "useｒ",
        "𝐞val",
        "ѕtr",
        "ԁef",
        "օpen",
        "lıb",
        "x\u037e",
        "a\u2215b",
    ]:
        findings = find_deceptive_characters(f"ok = {word}\nfine")
        assert findings.lookalikes and "look-alike" in str(findings)
    assert "раураӏ (not paypal)" in str(find_deceptive_characters("import раураӏ"))
    assert "de\ufb01ne (not define)" in str(find_deceptive_characters("de\ufb01ne"))
    assert str(find_deceptive_characters("pа\u200bypal\u202e")).isprintable()


def test_lookalike_words_are_named() -> None:
    for line, words in (
        ('if user == "tokeп":', ["tokeп"]),
        ("def сору(a):", ["сору"]),
        ("import раураӏ", ["раураӏ"]),
        ("а = 1", ["а"]),
        ("x = с + ο", ["с", "ο"]),
        ("Κ = 2", ["Κ"]),
        ("rате_limit = аdmin_а", ["rате", "аdmin", "а"]),
        ("K = \u212a", ["\u212a"]),
        ("de\ufb01ne(o\ufb03ce)", ["de\ufb01ne", "o\ufb03ce"]),
        ("pa\u017fs = 1", ["pa\u017fs"]),
        ("f\uff08x\uff09\uff1b rm", ["\uff08", "\uff09", "\uff1b"]),
        ("ꓳꓑꓰꓠ()", ["ꓳꓑꓰꓠ"]),
        ("f(рау, данные)", ["рау"]),
        ("рау = 1  # здесь цена", ["рау"]),
    ):
        assert list(find_deceptive_characters(f"ok\n{line}\nfine").lookalikes) == words
        spans = list(find_ascii_lookalikes(line))
        assert list(dict.fromkeys(line[start:end] for start, end in spans)) == words


def test_unusual_blanks_in_code_are_counted() -> None:
    for blank in "\u2800\U0001d159\U00016fe4\u1680\u2003\u205f\u00a0\u202f\u3000":
        line = f"if{blank}x"
        assert escape_unsafe(line) in ("if␣x", "if⍽x")
        assert find_deceptive_characters(line).blank == 1
        assert strip_unsafe(line) == line
    assert str(find_deceptive_characters("if\u2800x\u2800y")) == "2 unusual blanks"


def test_code_reordered_by_right_to_left_letters_is_found() -> None:
    for line in (
        'levels = ["א", "ב"]',
        "א = 5",
        'if access != "א" and x or "א" < 5:',
        'total("א" * 100)',
        "x = ا + ب",
        "x = ا + ب  # a remark behind it",
        'marks = "#", "א", "ב"',
    ):
        findings = find_deceptive_characters(f"a\n{line}\n")
        assert findings.reordered == 1 and "right-to-left" in str(findings), line
        assert findings.worst_effect == "The code may run in another order than it reads."


def test_the_languages_of_people_raise_no_alarm() -> None:
    for line, quiet in (
        ("# как она с ней, и о том же", ""),
        ("# Рост цен: «сор» и оса у них", ""),
        ('print("Введите имя и пароль")', ""),
        ("// die Größe der Tür: „groß“", ""),
        ("# z.\u00a0B. drei", "1 typographic space."),
        ("print('Bonjour\u00a0! Ça\u202f?')", "2 typographic spaces."),
        ("« mot\u00a0» : 10\u00a0000\u202f€", "3 typographic spaces."),
        ("# זו הערה בעברית (עם סוגריים), ועוד: 5 = 2 + 3", "Right-to-left text on 1 line."),
        ('greeting = "שלום עולם"', "Right-to-left text on 1 line."),
        ("x = 1  // مرحبا = ب", "Right-to-left text on 1 line."),
        ("请输入（user）后，再试！", ""),
        ("\u3000你好\u3000世界", "2 typographic spaces."),
        ("Δt = α·β, μs, Ωm, σ²; ñandú, œuvre, 1ª, nº 5, m²", ""),
        ("και για το παιδί", ""),
        ("ＤＢに接続する", ""),
        ("данные_1 = получить_имя(пользователь)", ""),
        ("한글 변수 = 값", ""),
    ):
        findings = find_deceptive_characters(line)
        assert not findings, str(findings)
        assert ", ".join(findings.harmless_remarks) == quiet
        assert escape_unsafe(line) == line


@given(st.text(alphabet=st.sampled_from('aбвгдежзийклмнопрсту ЁЯ#,.-\u00a0א"=5'), max_size=40))
def test_look_alike_positions_match_their_words(text: str) -> None:
    found = [text[start:end] for start, end in find_ascii_lookalikes(text)]
    assert tuple(dict.fromkeys(found)) == find_deceptive_characters(text).lookalikes


SIZE = 100_000


def scanned(text: str) -> None:
    with suppress(EditRefused):
        parse_patch_text(text)


TEXTS: dict[str, Callable[[], object]] = {
    "blank lines in .pypirc": lambda: secret_reason(".pypirc", b"\n" * SIZE),
    "blanks in .pypirc": lambda: secret_reason(".pypirc", b" " * SIZE),
    "colons in pip.conf": lambda: secret_reason("pip.conf", b"://" + b":" * SIZE),
    "addresses in pip.conf": lambda: secret_reason("pip.conf", b"://:" * (SIZE // 4)),
    "arrows in .npmrc": lambda: secret_reason(".npmrc", b"token" + b">" * SIZE),
    "blanks after a token": lambda: secret_reason(".npmrc", b"token=" + b" " * SIZE + b"x"),
    "certificates without end": lambda: secret_reason("ca.pem", b"-----BEGIN CERTIFICATE-----" * (SIZE // 27)),
    "blanks in a certificate": lambda: secret_reason("ca.pem", b" " * SIZE + b"x"),
    "a name of copies": lambda: secret_reason(".bak" * (SIZE // 4)),
    "a name of digits": lambda: secret_reason("1" * SIZE),
    "beginnings of a key": lambda: secret_reason("x", b"\n-----BEGIN " * (SIZE // 12)),
    "a long word beside a letter": lambda: find_deceptive_characters("é " + "a" * SIZE),
    "blanks after a table's head": lambda: TABLE_DELIMITER_PATTERN.match("---" + " " * SIZE + "x"),
    "bars in a table's head": lambda: TABLE_DELIMITER_PATTERN.match("-|" * (SIZE // 2) + "x"),
    "a rule that is none": lambda: RULE_PATTERN.match("- " * (SIZE // 2) + "x"),
    "a mark without an item": lambda: ITEM_PATTERN.match("1." + " " * SIZE),
    "blanks before an unfinished line": lambda: has_visible_text(" " * SIZE + "x", ""),
    "blanks after an unfinished mark": lambda: has_visible_text("- " + " " * SIZE + "x", ""),
    **{
        f"unfinished {text!r} without end": lambda text=text: close_inline_marks(text * (SIZE // len(text)))  # type: ignore[misc]
        for text in ("`", "`a", "``a`", "*a", "a*", "*", "_a ", "~~", "[", "[](", "[](x", "\n> ", "\n- ")
    },
    "blank lines for a patch": lambda: scanned("\n" * SIZE),
    "signs for a patch": lambda: scanned("!" * SIZE),
    "a name of blanks": lambda: scanned("--- a" + " " * SIZE + "x\n+++ b\n@@ -1 +1 @@\n-a\n+b\n"),
    "names that differ": lambda: scanned("diff --git a/x b/x\nBinary files " + " and " * (SIZE // 5) + "\n"),
    "sequences without an end": lambda: PlainTextDecoder().feed(b"\x1b]" * (SIZE // 2) + b"\x07"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_long_text_takes_linear_time(name: str) -> None:
    started = time.process_time()
    TEXTS[name]()
    assert time.process_time() - started < 4


def test_a_path_is_found_among_near_matches() -> None:
    index = PathIndex()
    index.rebuild(["a" * 255, "wanted/" + "a" * 200 + "b"])
    assert index.find_paths("a" * 40 + "b") == ["wanted/" + "a" * 200 + "b"]
    assert index.find_paths("a" * 100 + "b") == ["wanted/" + "a" * 200 + "b"]
    assert index.find_paths("a/" * 2000 + "b") == []
