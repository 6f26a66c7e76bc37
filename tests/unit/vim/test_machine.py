"""What vim's keys do that is not compared with vim: taking back, indents, selections, and what they leave alone."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from widgets.vim.vim_machine import VimMachine, VimMode, find_inserted_text


class Typing:
    def __init__(self, text: str = "", cursor: int = 0) -> None:
        self.vim = VimMachine()
        self.text, self.cursor = text, cursor
        self.vim.mode = VimMode.NORMAL

    def keys(self, *keys: str) -> "Typing":
        for key in keys:
            outcome = self.vim.press_key(key, self.text, self.cursor)
            self.text, self.cursor = outcome.text, outcome.cursor
            if not outcome.used and len(key) == 1:
                self.text = self.text[: self.cursor] + key + self.text[self.cursor :]
                self.cursor += 1
        return self

    def at(self, text: str) -> bool:
        """Whether this is the text, with the cursor at the bar."""
        return (self.text, self.cursor) == (text.replace("|", "", 1), text.index("|"))


@pytest.mark.parametrize(
    ("text", "keys", "comes"),
    [
        ("one two", "dwu", "|one two"),
        ("one two", ["d", "w", "u", "ctrl+r"], "|two"),
        ("one", ["i", "a", "b", "escape", "u"], "|one"),
        ("one", ["i", "a", "escape", "x", "u", "u", "ctrl+r", "ctrl+r"], "|one"),
        ("one\ntwo", ">j", "    |one\n    two"),
        ("        one", "<<", "    |one"),
        ("one two three", "vec", "| two three"),
        ("one two", "viwU", "|ONE two"),
        ("one two", "xveUu", "|ne two"),
        ("ONE TWO", "veuw.", "one |two"),
        ("one two", "diw", "| two"),
        ("abc\ndef", "jllVkyx", "a|b\ndef"),
        ("abc\ndef", "lVjy", "|abc\ndef"),
        ("abc\ndef\nghi", "jlVkd", "|ghi"),
        ("", ["c", "w", "x", "escape"], "|x"),
        (" one", ["c", "w", "x", "escape"], "|xone"),
        ("one,two", "daw", "|,two"),
        ("a(b c)d", ["l", "l", "v", "i", "(", "d"], "a(|)d"),
        ("one two three", ["c", "w", "x", "escape", "w", "."], "x |x three"),
        ("one\ntwo\nthree", "ddp", "two\n|one\nthree"),
        ("one two", "ywP", "one| one two"),
        ("ab", ["A", "c", "escape", "5", "h"], "|abc"),
        ("ab", ["l", "space", "backspace"], "|ab"),
        ("abcd efgh", "vlxw.", "cd |gh"),
        ("a\nb\nc\nd\ne", "jVjd.", "|a"),
        ("one two one", [*"/on", "backspace", "n", "enter"], "one two |one"),
        ("one two one", ["/", "backspace", "x"], "|ne two one"),
        ("one two one", [*"/tw", "escape", "x"], "|ne two one"),
        ("one two One", [*"/One", "enter"], "one two |One"),
        ("one two one", [*"d/ t", "enter", "."], "| two one"),
        ("one a.c abc", [*"/a.c", "enter", *"nn"], "one |a.c abc"),
        # At the edges of texts, most of it as vim has it, which is not everywhere where these run.
        ("\tone", "<<", "|one"),
        ("ab", "3rx", "|ab"),
        ("a\nb", "5J", "a| b"),
        ("one", "J", "|one"),
        ("ab", ".", "|ab"),
        ("ab", "dpx", "|b"),
        ("a\nb\nc\nd", "Vjjd.", "|"),
        ("a\nbcd\nefg", "vjd.", "|fg"),
        ("one", "cbx", "|ne"),
        ("one", "db", "|one"),
        ("one", "cgex", "|ne"),
        ("one two", ["w", "c", "g", "e", "z", "escape"], "on|zwo"),
        ("one two", "w3gex", "|ne two"),
        ("one\n\ntwo", "jdge", "o|n\ntwo"),
        ("one\ntwo", "v$d", "|two"),
        ("one\n\ntwo", "v2$d", "|two"),
        ("one", "d2$", "|one"),
        ("aba", ";x", "|ba"),
        ("x\n one \ntwo", "jd}", "|x"),
        ("a\n\nb\n\nc", "9}x", "|\n\nb\n\nc"),
        ("a\n\nb\n\nc", "2}x", "a\n\nb\n|\nc"),
        ("a\nb\n\nc", ["}", "i", "x", "escape"], "a\nb\n|x\nc"),
        ("", "daw", "|"),
        ("a  ", "ldaw", "a|  "),
        ("a  b", "ldaw", "|a"),
        ("one two", "daw", "|two"),
        ("one two", "wdaw", "on|e"),
        ("one  ,two", "daw", "|,two"),
        ('a "b c" d', 'di"', 'a "|" d'),
        ('a "b c" d', 'da"', "a |d"),
        ("a (b", "di(", "|a (b"),
        ("f(a)", "da(", "|f"),
        ("f(a)", "lldi(", "f(|)"),
        ("  one", "wbx", "| one"),
        ("abc", "tcx", "a|c"),
        ("abcb", "tb;x", "ab|b"),
        ("abc", "%x", "|bc"),
        ("a(b)", "%x", "a(|b"),
        ("one  ", "$de", "one| "),
        ("one\n\ntwo", ["G", "b", "i", "x", "escape"], "one\n|x\ntwo"),
        ("one\ntwo", "dw", "|\ntwo"),
        ("one  \ntwo", "dw", "|\ntwo"),
        ("one\ntwo", "d2w", "|"),
        ("a\n\nb", "d2w", "|b"),
        ("one two", "5wx", "one t|w"),
        ("one\n\n", "d3w", "|"),
    ],
)
def test_keys_come_to_this(text: str, keys: list[str], comes: str) -> None:
    typing = Typing(text).keys(*keys)
    assert typing.at(comes), (typing.text, typing.cursor)


def test_escape_without_effect_is_not_used() -> None:
    vim = VimMachine()
    assert vim.press_key("escape", "", 0).used and vim.mode is VimMode.NORMAL
    assert not vim.press_key("escape", "", 0).used
    vim.press_key("2", "", 0)
    assert vim.pending == ["2"] and vim.press_key("escape", "", 0).used
    vim.press_key("v", "", 0)
    assert vim.press_key("escape", "", 0).used and vim.mode is VimMode.NORMAL


@pytest.mark.parametrize("key", ["enter", "ctrl+s", "up", "tab", "f3", "ctrl+g"])
@pytest.mark.parametrize("mode", [VimMode.NORMAL, VimMode.INSERT])
def test_keys_of_the_app_are_left_alone(key: str, mode: VimMode) -> None:
    vim = VimMachine()
    vim.mode = mode
    assert not vim.press_key(key, "text", 1).used


KEYS = st.sampled_from([*string.ascii_letters, *string.digits, *"$^%;,.~<>{}()[]\"'", "escape"])


@given(st.text("ab (\n\"'é", max_size=30), st.integers(0, 30), st.lists(KEYS | st.just("ctrl+r"), max_size=30))
def test_no_keys_break_it(text: str, cursor: int, keys: list[str]) -> None:
    typing = Typing(text, min(cursor, len(text)))
    for key in keys:
        typing.keys(key)
        assert 0 <= typing.cursor <= len(typing.text)
    typing.keys("escape", "escape")
    assert typing.vim.mode is VimMode.NORMAL


COMMANDS = st.sampled_from(["dw", "x", "p", "J", "~", "dd", "yyp", "D"])


@given(st.text("ab (\n", max_size=20), st.lists(COMMANDS, max_size=8))
def test_undo_restores_the_former_text(text: str, commands: list[str]) -> None:
    typing = Typing(text)
    for command in commands:
        typing.keys(*command)
    after = typing.text
    typing.keys(*"u" * 20)
    assert typing.text == text
    typing.keys(*["ctrl+r"] * 20)
    assert typing.text == after


@pytest.mark.parametrize(
    ("after", "typed"), [("axyb", "xy"), ("ab", ""), ("xab", ""), ("axb.", ""), ("a", ""), ("b", ""), ("", "")]
)
def test_inserted_text_is_found_if_the_rest_is_unchanged(after: str, typed: str) -> None:
    assert find_inserted_text("ab", after, 1) == typed
    assert find_inserted_text("aa", "a", 1) == ""
