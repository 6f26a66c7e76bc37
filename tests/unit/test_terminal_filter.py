"""The last line of defence before the terminal: it takes away what acts there, and costs a plain row nothing."""

from rich.segment import Segment
from rich.style import Style
from textual.color import Color

from app.ui.terminal.fitted_app import UnsafeTextFilter

BLACK, BOLD = Color(0, 0, 0), Style(bold=True)


def test_unsafe_characters_go_and_a_plain_row_is_handed_on_as_it_is() -> None:
    plain, unsafe = Segment("naïve ✓ 日本", BOLD), Segment("\x1b]0;title\x07a\u202eb\n", BOLD)
    row = [plain]
    assert UnsafeTextFilter().apply(row, BLACK) is row
    assert UnsafeTextFilter().apply([plain, unsafe], BLACK) == [plain, Segment("]0;titleab", BOLD)]
