"""The options of an open question, above the composer that answers it."""

from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.message import Message
from textual.widget import Widget

from app.safe_text import visible
from widgets.chat.entries import QuestionEntry
from widgets.chat.lines import shorten


class QuestionBar(Widget):
    """Numbered options, one highlighted; the empty composer's keys choose among them."""

    DEFAULT_CSS = """
    QuestionBar {
        display: none;
        height: auto;
        padding: 0 1 0 2;
    }
    """

    @dataclass
    class Picked(Message):
        """The user chose an option."""

        option: str

    def __init__(self) -> None:
        """No question."""
        super().__init__()
        self._question: QuestionEntry | None = None
        self._index = 0

    @property
    def question(self) -> QuestionEntry | None:
        """The open question."""
        return self._question

    def show(self, question: QuestionEntry | None) -> None:
        """Show the options of this question, or nothing."""
        if question is not None and self._question is not None and question.call == self._question.call:
            return
        self._question = question
        self._index = 0
        self.display = question is not None and bool(question.options)
        self.refresh(layout=True)

    def steer(self, key: str) -> bool:
        """Use a key of the empty composer; returns whether it did."""
        if self._question is None or not self._question.options:
            return False
        count = len(self._question.options)
        if key in ("up", "down"):
            self._index = (self._index + (1 if key == "down" else -1)) % count
            self.refresh()
        elif key == "enter":
            self._pick(self._index)
        elif key.isdigit() and 1 <= int(key) <= count:
            self._pick(int(key) - 1)
        else:
            return False
        return True

    def _pick(self, index: int) -> None:
        assert self._question is not None
        self.post_message(self.Picked(self._question.options[index]))

    def get_content_height(self, *_: object) -> int:
        """One row for each option."""
        return len(self._question.options) if self._question else 0

    def render(self) -> Content:
        """The options."""
        rows: list[Content] = []
        width = max(10, self.content_size.width - 5)
        for index, option in enumerate(self._question.options if self._question else ()):
            chosen = index == self._index
            style = "$text-accent bold" if chosen else "$foreground"
            mark = "› " if chosen else "  "
            number = Content.styled(f"{mark}{index + 1}  ", "$text-accent bold" if chosen else "$foreground 60%")
            rows.append(number + Content.styled(shorten(visible(option), width), style))
        return Content("\n").join(rows)

    def on_click(self, event: events.Click) -> None:
        """Choose the option."""
        offset = event.get_content_offset(self)
        if offset is not None and self._question and offset.y < len(self._question.options):
            event.stop()
            self._pick(offset.y)
