"""The state machine against vim itself: the same keys on the same text come to the same text and cursor."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from widgets.vim.text_positions import line_end, line_start
from widgets.vim.vim_machine import VimMachine, VimMode

pytestmark = pytest.mark.skipif(shutil.which("vim") is None, reason="there is no vim here")

COUNT = st.sampled_from(["", "", "", "2", "3"])
MOTION = st.sampled_from(
    [*"hjklwbeWBE0^$G", "gg", "fa", "F(", "t)", "Ta", ";", ",", "f ", "2fa"],
)
OBJECT = st.sampled_from(["iw", "aw", "iW", "aW", 'i"', 'a"', "i'", "i(", "a(", "ib", "i[", "a{"])
TYPED = st.text("ab (", max_size=3)
SEARCH = st.builds("{}{}\r".format, st.sampled_from("//?"), st.text("abAc (_", max_size=2)) | st.sampled_from("nN")
COMMAND = st.one_of(
    st.builds(str.__add__, COUNT, MOTION),
    st.builds(str.__add__, COUNT, SEARCH),
    st.builds("{}{}{}".format, COUNT, st.sampled_from("dy"), SEARCH),
    st.builds("c{}{}\x1b".format, SEARCH, TYPED),
    st.builds("v{}{}".format, SEARCH, st.sampled_from(["d", "y", "\x1b"])),
    st.builds("{}{}{}".format, COUNT, st.sampled_from("dy"), MOTION),
    st.builds("{}{}".format, st.sampled_from("dy"), OBJECT),
    st.builds("{}{}{}\x1b".format, st.just("c"), st.one_of(MOTION, OBJECT), TYPED),
    st.builds(str.__add__, COUNT, st.sampled_from(["dd", "yy", "x", "X", "D", "J", "p", "P", "rz", "~", "Y"])),
    st.builds("{}{}\x1b".format, st.sampled_from(["i", "a", "I", "A", "o", "O", "cc", "C", "s", "S"]), TYPED),
    st.builds("v{}{}".format, MOTION, st.sampled_from(["d", "y", "x", "rz", "~", "\x1b"])),
    st.builds("V{}{}".format, st.sampled_from(["j", "k", "", "G"]), st.sampled_from(["d", "y"])),
    st.just("."),
)
LINE = st.text("ab c_.(", max_size=8) | st.sampled_from(["f(a, b)", 'x = "a b" + c', "  if (a) {", "", "  ", "}"])
CASE = st.tuples(
    st.lists(LINE, min_size=1, max_size=4), st.integers(0, 3), st.integers(0, 7), st.lists(COMMAND, max_size=4)
)
Cases = list[tuple[list[str], int, int, list[str]]]

SCRIPT = r"""
set nocompatible noautoindent nojoinspaces startofline ignorecase smartcase wrapscan cpo-=; belloff=all undolevels=100
let cases = json_decode(join(readfile('cases.json'), "\n"))
let out = []
for case in cases
  silent %delete _
  exe "normal! iz\<Esc>"
  silent %delete _
  call setline(1, case.lines)
  call cursor(case.row + 1, case.column + 1)
  call setreg('"', '')
  normal! vy
  call setreg('"', '')
  call cursor(case.row + 1, case.column + 1)
  exe "normal! fZ"
  let @/ = ''
  for keys in case.keys
    let &undolevels = &undolevels
    try
      exe "normal! " . keys
    catch /E35:\|E486:/
    endtry
  endfor
  call add(out, {'lines': getline(1, '$'), 'row': line('.') - 1, 'column': col('.') - 1})
endfor
call writefile([json_encode(out)], 'out.json')
qall!
"""


def by_vim(folder: Path, cases: list[dict[str, object]]) -> list[dict[str, object]]:
    (folder / "cases.json").write_text(json.dumps(cases))
    (folder / "script.vim").write_text(SCRIPT)
    command = ["vim", "-u", "NONE", "-i", "NONE", "-N", "-n", "-es", "-S", "script.vim"]
    subprocess.run(command, cwd=folder, check=False, capture_output=True, timeout=60)
    return json.loads((folder / "out.json").read_text())  # type: ignore[no-any-return]


def by_machine(case: dict[str, object]) -> dict[str, object] | None:
    """None where vim does something odd.

    Such are text objects on empty lines, what is selected when a motion fails, what follows a search in vain, and the
    repetition of what has changed nothing.
    """
    lines, row, column = case["lines"], case["row"], case["column"]
    assert isinstance(lines, list) and isinstance(row, int) and isinstance(column, int)
    text = "\n".join(lines)
    cursor = sum(len(line) + 1 for line in lines[:row]) + column
    vim = VimMachine()
    vim.press_key("escape", "", 0)
    vim.press_key("i", "", 0)
    vim.press_key("escape", "z", 1)
    before: str | None = None
    for keys in case["keys"]:  # type: ignore[attr-defined]
        if keys == "." and text == before:
            return None
        before = text if keys != "." else None
        for number, key in enumerate(keys, 1):
            empty = line_start(text, cursor) == line_end(text, cursor)
            if empty and vim.pending and vim.mode is VimMode.NORMAL and key in ("i", "a"):
                return None
            outcome = vim.press_key({"\x1b": "escape", "\r": "enter"}.get(key, key), text, cursor)
            text, cursor = outcome.text, outcome.cursor
            if vim.has_failed:
                if vim.is_visual or (key in "nN\r" and number < len(keys)):
                    return None
                # What cannot be done ends a `:normal`.
                break
            if not outcome.used and key != "\x1b":
                text, cursor = text[:cursor] + key + text[cursor:], cursor + 1
        # A `:normal` that ends amid a command ends it.
        while vim.pending or vim.mode is not VimMode.NORMAL:
            outcome = vim.press_key("escape", text, cursor)
            text, cursor = outcome.text, outcome.cursor
    start = line_start(text, cursor)
    return {"lines": text.split("\n"), "row": text.count("\n", 0, cursor), "column": cursor - start}


def made(cases: Cases) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for lines, row, column, keys in cases:
        row %= len(lines)
        column = min(column, max(0, len(lines[row]) - 1))
        found.append({"lines": lines, "row": row, "column": column, "keys": keys})
    return found


@settings(max_examples=12, derandomize=True)
@given(st.lists(CASE, min_size=1, max_size=60))
def test_the_same_keys_come_to_the_same(
    tmp_path_factory: pytest.TempPathFactory, cases: list[tuple[list[str], int, int, list[str]]]
) -> None:
    ready = made(cases)
    folder = tmp_path_factory.mktemp("vim")
    for case, wanted in zip(ready, by_vim(folder, ready), strict=True):
        assert by_machine(case) in (None, wanted), case
