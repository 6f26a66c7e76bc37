"""Documents: every byte survives the line table, and new lines fit their surroundings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.proposals.locate.edit_script import encode_preserving_unchanged_lines
from app.proposals.text.diff import diff_lines
from app.proposals.text.document import (
    MAX_LINES,
    Document,
    display_lines_for_diff,
    encode_surrogateescape,
    split_lines,
    split_lines_without_endings,
)
from app.proposals.text.line_comparison import LineRange, find_lines_unlike_every_version
from app.proposals.values.proposal_errors import NotEditable
from tests.unit.proposals.applied_changes import apply_changes

CORPUS = {
    "empty": (b"", "utf-8", "\n", True),
    "lf": (b"one\ntwo\n", "utf-8", "\n", True),
    "crlf": (b"one\r\ntwo\r\n", "utf-8", "\r\n", True),
    "mixed": (b"one\r\ntwo\nthree\r\n", "utf-8", "\r\n", True),
    "no final newline": (b"one\ntwo", "utf-8", "\n", False),
    "bom": (b"\xef\xbb\xbfone\ntwo\n", "utf-8-sig", "\n", True),
    "bom alone": (b"\xef\xbb\xbf", "utf-8-sig", "\n", True),
    "utf-16 le": ("one\nzwei ß\r\n".encode("utf-16-le").join([b"\xff\xfe", b""]), "utf-16-le", "\n", True),
    "utf-16 be": (b"\xfe\xff" + "one\nzwei ß".encode("utf-16-be"), "utf-16-be", "\n", False),
    "utf-16 cut off": (b"\xff\xfe\x2d\x4e\n", "bytes", "\n", True),
    "latin-1": ("é\nü\n".encode("latin-1"), "bytes", "\n", True),
    "odd separators": ("a\x0cb\x85c\u2028d\re\n".encode(), "utf-8", "\n", True),
}
UTF_16 = CORPUS["utf-16 le"][0]


@pytest.mark.parametrize(("data", "encoding", "eol", "final"), CORPUS.values(), ids=CORPUS.keys())
def test_lines_join_to_the_bytes_of_a_known_encoding(data: bytes, encoding: str, eol: str, final: bool) -> None:
    document = Document(data)
    assert b"".join(document.lines) == data
    assert document.byte_order_mark + b"".join(document.lines_without_mark) == data
    assert len(document.line_texts) == len(document.lines) == len(document.endings)
    assert (document.encoding, document.eol, document.has_final_newline) == (encoding, eol, final)
    assert not document.is_binary


@given(
    st.binary(max_size=200)
    | st.text(max_size=100).map(lambda text: b"\xff\xfe" + text.encode("utf-16-le", "replace"))
)
def test_any_bytes_join_to_themselves(data: bytes) -> None:
    document = Document(data)
    assert b"".join(document.lines) == data
    assert len(document.line_texts) == len(document.lines) == len(document.endings)
    if document.encoding in ("utf-8", "bytes"):
        again = "".join(t + e for t, e in zip(document.line_texts, document.endings, strict=True))
        assert again.encode("utf-8", "surrogateescape") == data


def test_only_line_feeds_cut_lines() -> None:
    assert split_lines(b"a\x0cb\rc\xe2\x80\xa8d\ne") == [b"a\x0cb\rc\xe2\x80\xa8d\n", b"e"]
    assert Document(CORPUS["odd separators"][0]).line_texts == ("a\x0cb\x85c\u2028d\re",)
    assert split_lines_without_endings("a\r\nb\u2028c\n") == ["a", "b\u2028c"]


def test_binary_files_and_too_many_lines_are_not_edited() -> None:
    document = Document(b"ab\0cd\n")
    assert document.is_binary
    with pytest.raises(NotEditable, match="binary"):
        document.check_editable()
    assert not Document(b"x" * 9000 + b"\0").is_binary
    assert Document("ab\n".encode("utf-32")).is_binary
    with pytest.raises(NotEditable, match="lines"):
        Document(b"\n" * (MAX_LINES + 1)).check_editable()


def test_a_new_line_takes_the_ending_around_it() -> None:
    for data, near, expected in (
        (b"a\r\nb\r\n", 1, b"new\r\n"),
        (b"a\r\nb\nc\n", 0, b"new\r\n"),
        (b"a\r\nb\nc\n", 1, b"new\n"),
        (b"a\r\nb", 1, b"new\r\n"),
        (b"a", 0, b"new\n"),
        (UTF_16, 1, "new\r\n".encode("utf-16-le")),
    ):
        assert Document(data).encode_line("new", near) == expected, data


def test_a_file_in_another_encoding_takes_only_its_characters() -> None:
    document = Document("é\n".encode("latin-1") + "ü\n".encode())
    assert document.encode_text("plain") == b"plain"
    assert document.encode_text("ü") == "ü".encode()
    with pytest.raises(NotEditable, match="not valid UTF-8"):
        document.encode_text("ß")
    assert Document(document.data, verbatim=True).encode_text("ß") == "ß".encode()


def test_a_lone_surrogate_has_no_bytes() -> None:
    for document in (Document(b"a\n"), Document(UTF_16)):
        with pytest.raises(NotEditable):
            document.encode_text("\ud800")
    with pytest.raises(NotEditable, match="half of a character pair"):
        encode_surrogateescape("\ud800")


def test_display_shows_endings_only_where_they_differ() -> None:
    crlf, lf = Document(b"a\r\nb\r\n"), Document(b"a\nb\n")
    assert display_lines_for_diff(crlf, Document(b"a\r\nc\r\n")) == (("a", "b"), ("a", "c"))
    assert display_lines_for_diff(crlf, lf) == (("a\r", "b\r"), ("a", "b"))
    assert display_lines_for_diff(Document(b"\xef\xbb\xbfa\n"), Document(b"a\n")) == (("\ufeffa",), ("a",))
    assert display_lines_for_diff(Document(b"\xe9\n"), Document(b"x\n")) == (("\udce9",), ("x",))


LINES = st.lists(st.sampled_from(["", "a", "b", " c", "é", "\x0c", "x y"]), max_size=8)


@given(
    LINES,
    LINES,
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    st.tuples(st.booleans(), st.booleans()),
)
def test_the_document_keeps_the_given_text(
    old: list[str], new: list[str], eol: str, encoding: str, closed: tuple[bool, bool]
) -> None:
    data = (eol.join(old) + (eol if old and closed[0] else "")).encode(encoding)
    text = "\n".join(new) + ("\n" if new and closed[1] else "")
    document = Document(data)
    after = Document(encode_preserving_unchanged_lines(document, text))
    assert after.text == text
    if document.data and document.text:
        assert after.byte_order_mark == document.byte_order_mark
        assert not after.has_mixed_eol or "\n" not in document.text


def test_new_content_for_an_empty_or_binary_file_is_taken_unchanged() -> None:
    for data in (b"", b"\0\xff\r\n"):
        assert encode_preserving_unchanged_lines(Document(data), "\ufeffa\r\nb\n") == "\ufeffa\r\nb\n".encode()
    assert (
        encode_preserving_unchanged_lines(Document(b"\xef\xbb\xbfx\r\n"), "\ufeffa\nb\n") == b"\xef\xbb\xbfa\r\nb\r\n"
    )


@given(st.lists(st.sampled_from([b"a\n", b"b\r\n", b"\xff\n", b"\n"]), max_size=8))
def test_the_same_text_is_the_same_bytes(lines: list[bytes]) -> None:
    document = Document(b"".join(lines))
    assert encode_preserving_unchanged_lines(document, document.text) == document.data


ANY_LINES = st.lists(st.sampled_from("abcd"), max_size=12)


def spans(now: list[str], *known: list[str]) -> tuple[LineRange, ...]:
    return find_lines_unlike_every_version([diff_lines(version, now) for version in known])


def test_lines_in_no_version_are_new() -> None:
    assert spans(list("aXcdfgY"), list("abcdefg")) == (LineRange(1, 2), LineRange(4, 4), LineRange(6, 7))
    assert spans(list("aXcde"), list("abcde"), list("aXcYe")) == ()
    assert spans(list("aXcdZ"), list("abcde"), list("aXcYe")) == (LineRange(4, 5),)
    assert spans(list("aXde"), list("abcde"), list("aXcde")) == (LineRange(2, 2),)
    assert find_lines_unlike_every_version([]) == ()


@given(st.lists(st.sampled_from(["both", "old", "new"]), max_size=20), st.data())
def test_a_mix_of_two_known_versions_is_not_reported(owners: list[str], data: st.DataObject) -> None:
    numbered = [(owner, f"{owner} {number}") for number, owner in enumerate(owners)]
    old = [line for owner, line in numbered if owner != "new"]
    new = [line for owner, line in numbered if owner != "old"]
    chosen = [change for change in diff_lines(old, new) if data.draw(st.booleans())]
    assert spans(apply_changes(old, new, chosen), old, new) == ()


@given(ANY_LINES, st.lists(ANY_LINES, min_size=1, max_size=3))
def test_a_line_that_no_version_has_is_always_named(now: list[str], known: list[list[str]]) -> None:
    now = [*now, "new", *now]
    at = len(now) // 2
    assert any(span.start <= at < span.end for span in spans(now, *known))
