"""The queued messages above the composer."""

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from app.text.safe_text import escape_unsafe
from widgets.chat.markdown.styled_lines import shorten, width_of

_MOST_ROWS = 4
_LABEL = "queued  "
_HINT = ("↑", " takes back")


class Queue(Widget):
    """A row for each queued message; a click, or Up in the empty composer, takes all back."""

    DEFAULT_CSS = """
    Queue {
        display: none;
        height: auto;
        padding: 0 1 0 2;
    }
    """

    class Wanted(Message):
        """The user wants to edit the queued messages; they go back into the composer."""

    def __init__(self) -> None:
        super().__init__()
        self._texts: Sequence[str] = ()

    def show(self, texts: Sequence[str]) -> None:
        """Show these messages, oldest first."""
        self._texts = texts
        self.display = bool(texts)
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """A row for each message, up to a few."""
        return min(_MOST_ROWS, len(self._texts))

    def render(self) -> Content:
        """The oldest messages, and how to take them back."""
        width = self.content_size.width
        hint = Content.assemble((_HINT[0], "$text-accent bold"), (_HINT[1], "$foreground 60%"))
        shown = self._texts if len(self._texts) <= _MOST_ROWS else self._texts[: _MOST_ROWS - 1]
        rows = []
        for number, text in enumerate(shown):
            room = width - len(_LABEL) - (hint.cell_length + 2 if number == 0 else 0)
            words = shorten(escape_unsafe(text), max(1, room))
            row = Content.assemble((_LABEL, "$text-accent"), (words, "$foreground 60%"))
            rows.append(row + " " * (room - width_of(words) + 2) + hint if number == 0 else row)
        if len(shown) < len(self._texts):
            rows.append(Content.styled(f"… {len(self._texts) - len(shown)} more", "$foreground 60%"))
        return Content("\n").join(rows)

    def on_click(self, event: events.Click) -> None:
        """Take them back."""
        event.stop()
        self.post_message(self.Wanted())
