"""Whole new texts keep the way a file was written."""

from hypothesis import given
from hypothesis import strategies as st

from app.proposals.locate.carry_over import encode_content
from app.proposals.text.document import Document

LINES = st.lists(st.sampled_from(["", "a", "b", " c", "é", "\x0c", "x y"]), max_size=8)


@given(
    LINES,
    LINES,
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    st.tuples(st.booleans(), st.booleans()),
)
def test_the_text_is_the_one_that_was_given(
    old: list[str], new: list[str], eol: str, encoding: str, closed: tuple[bool, bool]
) -> None:
    data = (eol.join(old) + (eol if old and closed[0] else "")).encode(encoding)
    text = "\n".join(new) + ("\n" if new and closed[1] else "")
    document = Document(data)
    after = Document(encode_content(document, text))
    assert after.text == text
    if document.data and document.text:
        assert after.mark == document.mark
        assert not after.mixed_eol or "\n" not in document.text


def test_over_what_is_no_text_it_is_taken_as_it_is() -> None:
    assert encode_content(Document(b"\0\xff\r\n"), "\ufeffa\r\nb\n") == "\ufeffa\r\nb\n".encode()


@given(st.lists(st.sampled_from([b"a\n", b"b\r\n", b"\xff\n", b"\n"]), max_size=8))
def test_the_same_text_is_the_same_bytes(lines: list[bytes]) -> None:
    document = Document(b"".join(lines))
    assert encode_content(document, document.text) == document.data
