"""A yes-or-no question before something that cannot be taken back."""

from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from app.safe_text import visible
from app.screens.dialog import Dialog


class AskScreen(Dialog[bool]):
    """Asks; `y` is yes, everything else that closes it is no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n", "answer(False)", "No"),
    ]
    KEYS = "y yes · n no · Esc no"

    DEFAULT_CSS = """
    AskScreen {
        & > #dialog { width: 64; }
        #ask-question { height: auto; margin: 0 1; }
    }
    """

    def __init__(self, heading: str, question: str) -> None:
        """Both are shown as they are."""
        super().__init__(classes="-small")
        self._heading = heading
        self._question = question

    def heading(self) -> str:
        """What it is about."""
        return self._heading

    def body(self) -> Iterable[Widget]:
        """The question."""
        yield Static(Content(visible(self._question)), id="ask-question")

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(yes)
