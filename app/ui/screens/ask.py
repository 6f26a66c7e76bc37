"""A yes-or-no question before something that cannot be taken back."""

from collections.abc import Iterable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from app.text.safe_text import visible
from app.ui.screens.dialog import Dialog
from widgets.common.key_hints import KeyHint


class AskScreen(Dialog[bool]):
    """Asks; `y` is yes, everything else that closes it is no."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes"),
        Binding("n", "answer(False)", "No"),
    ]

    DEFAULT_CSS = """
    AskScreen {
        & > #dialog { width: 64; border: round $warning; border-title-color: $text-warning; }
    }
    """

    def __init__(self, heading: str, question: str, yes: str, no: str) -> None:
        """Ask.

        Args:
            heading: what it is about.
            question: what would happen, in whole sentences; shown as it is.
            yes: what `y` does, as a verb.
            no: what `n` does, as a verb.
        """
        super().__init__(classes="-small")
        self._heading = heading
        self._question = question
        self._answers = (KeyHint("y", yes), KeyHint("n,escape", no))

    def heading(self) -> str:
        """What it is about."""
        return self._heading

    def key_hints(self) -> Sequence[KeyHint]:
        """Both answers."""
        return self._answers

    def body(self) -> Iterable[Widget]:
        """The question."""
        yield Static(Content(visible(self._question)), classes="text")

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        self.dismiss(yes)
