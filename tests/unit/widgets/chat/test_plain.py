"""A plain text as it grows: the same rows as when it comes at once, and no row of a whole line is made twice."""

from hypothesis import given
from hypothesis import strategies as st

from widgets.chat.entries.message_entries import PlainDocument
from widgets.chat.markdown.styled_lines import BLANK, TEXT, visible, wrap_text

PIECES = st.lists(st.text("ab \n\r\x1b", max_size=12), max_size=12)


@given(PIECES, st.integers(1, 9))
def test_a_growing_text_has_the_rows_of_the_whole(pieces: list[str], width: int) -> None:
    document, text = PlainDocument(width, TEXT), ""
    for piece in pieces:
        text += piece
        document.show(BLANK, text)
    document.show(BLANK, text)
    assert document.lines == [BLANK, *wrap_text(visible(text), TEXT, width)]


def test_rows_of_whole_lines_stay() -> None:
    document = PlainDocument(20, TEXT)
    document.show(BLANK, "first line\nsecond")
    kept = document.lines[1]
    document.show(BLANK, "first line\nsecond and more\nthird")
    assert document.lines[1] is kept
    assert [line.text for line in document.lines[1:]] == ["first line", "second and more", "third"]
