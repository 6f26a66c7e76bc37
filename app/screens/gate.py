"""Choice of the gate policy."""

from collections.abc import Iterable
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.screens.dialog import Dialog

_STEPS = (2, 3, 5, 10)


class GateScreen(Dialog[tuple[str, int | None]]):
    """When the gate closes."""

    BINDINGS: ClassVar[list[BindingType]] = []
    HEADING = "Gate policy"
    KEYS = "Enter picks · Esc leaves it as it is · /gate chain N takes any N"

    DEFAULT_CSS = """
    GateScreen {
        & > #dialog { width: 76; }
        OptionList { height: auto; margin-top: 1; }
    }
    """

    def __init__(self, kind: str, steps: int) -> None:
        """The policy now."""
        super().__init__(classes="-small")
        numbers = sorted({*_STEPS, steps}) if kind == "chain" else list(_STEPS)
        self._choices: list[tuple[str, int | None]] = [("every-edit", None), *(("chain", one) for one in numbers)]
        self._now = ("every-edit", None) if kind == "every-edit" else ("chain", steps)

    def body(self) -> Iterable[Widget]:
        """What the gate is, and the choices."""
        yield Static(
            "After a step that staged an edit the gate closes: the model may not call another tool before you have "
            "said something. A chain lets it stage several steps first, each a proposal of its own.",
            classes="quiet",
        )
        yield OptionList(*(Option(_label(choice, choice == self._now)) for choice in self._choices), markup=False)

    def on_mount(self) -> None:
        """Begin at the policy in force."""
        options = self.query_one(OptionList)
        options.highlighted = self._choices.index(self._now)
        options.focus()

    @on(OptionList.OptionSelected)
    def pick(self, event: OptionList.OptionSelected) -> None:
        """Hand the choice back."""
        event.stop()
        self.dismiss(self._choices[event.option_index])


def _label(choice: tuple[str, int | None], now: bool) -> Content:
    kind, steps = choice
    words = "after every step that stages an edit" if steps is None else f"after {steps} steps that stage one"
    mark = "●" if now else " "
    return Content.assemble((f"{mark} ", "$text-accent"), (kind.ljust(12), "bold"), (words, "$foreground 60%"))
