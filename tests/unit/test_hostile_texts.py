"""Texts made to keep an expression busy: time grows with their length, not with its square. One that does not, does
not end here either."""

from collections.abc import Callable
from contextlib import suppress

import pytest

from app.proposals.patch.patching import scan_patch
from app.proposals.values.proposal_errors import EditRefused
from app.text.deceiving_text import find_deceptive
from app.tools.command.command_text import PlainText
from app.workspace.secrets import secret_reason
from widgets.chat.markdown.markdown_document import close_marks, is_worth_showing
from widgets.chat.markdown.markdown_splitter import DELIMITER, ITEM, RULE
from widgets.chat.path_index import PathIndex

SIZE = 1_000_000


def scanned(text: str) -> None:
    with suppress(EditRefused):
        scan_patch(text)


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
    "a long word beside a letter": lambda: find_deceptive("é " + "a" * SIZE),
    "blanks after a table's head": lambda: DELIMITER.match("---" + " " * SIZE + "x"),
    "bars in a table's head": lambda: DELIMITER.match("-|" * (SIZE // 2) + "x"),
    "a rule that is none": lambda: RULE.match("- " * (SIZE // 2) + "x"),
    "a mark without an item": lambda: ITEM.match("1." + " " * SIZE),
    "blanks before an unfinished line": lambda: is_worth_showing(" " * SIZE + "x", ""),
    "blanks after an unfinished mark": lambda: is_worth_showing("- " + " " * SIZE + "x", ""),
    **{
        f"unfinished {text!r} without end": lambda text=text: close_marks(text * (SIZE // len(text)))  # type: ignore[misc]
        for text in ("`", "`a", "``a`", "*a", "a*", "*", "_a ", "~~", "[", "[](", "[](x", "\n> ", "\n- ")
    },
    "blank lines for a patch": lambda: scanned("\n" * SIZE),
    "signs for a patch": lambda: scanned("!" * SIZE),
    "a name of blanks": lambda: scanned("--- a" + " " * SIZE + "x\n+++ b\n@@ -1 +1 @@\n-a\n+b\n"),
    "names that differ": lambda: scanned("diff --git a/x b/x\nBinary files " + " and " * (SIZE // 5) + "\n"),
    "sequences without an end": lambda: PlainText().feed(b"\x1b]" * (SIZE // 2) + b"\x07"),
}


@pytest.mark.parametrize("name", TEXTS)
def test_it_ends(name: str) -> None:
    TEXTS[name]()


def test_a_mention_is_found_among_names_that_nearly_have_it() -> None:
    index = PathIndex()
    index.refresh(["a" * 255, "wanted/" + "a" * 200 + "b"])
    assert index.search("a" * 40 + "b") == ["wanted/" + "a" * 200 + "b"]
    assert index.search("a" * 100 + "b") == ["wanted/" + "a" * 200 + "b"]
    assert index.search("a/" * 2000 + "b") == []
