"""Choice of the gate policy."""

from collections.abc import Iterable

from textual import on
from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from app.ui.screens.dialog import Dialog
from widgets.common.key_hints import KeyHint

_STEPS = (2, 3, 5, 10)


class GateScreen(Dialog[tuple[str, int | None]]):
    """A list of the gate policies."""

    HEADING = "Gate policy"
    KEYS = (
        KeyHint("up,down", "choose"),
        KeyHint("enter", "take it"),
        KeyHint("escape", "leave it as it is"),
        KeyHint("", "/gate chain N takes any number"),
    )

    DEFAULT_CSS = """
    GateScreen {
        & > #dialog { width: 84; }
        OptionList { height: auto; margin-top: 1; }
    }
    """

    def __init__(self, kind: str, steps: int) -> None:
        super().__init__(classes="-small")
        numbers = sorted({*_STEPS, steps}) if kind == "chain" else list(_STEPS)
        self._choices: list[tuple[str, int | None]] = [("every-edit", None), *(("chain", one) for one in numbers)]
        self._now = ("every-edit", None) if kind == "every-edit" else ("chain", steps)

    def body(self) -> Iterable[Widget]:
        """Yield an explanation of the gate and the choices."""
        yield Static(
            "When the gate closes, the model has to stop and hand back to you: no tool is open to it until you have "
            "decided, or said something.",
            classes="text quiet",
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
    name = kind if steps is None else f"{kind} {steps}"
    words = "after each proposal" if steps is None else f"after {steps} proposals in a row"
    mark = "●" if now else " "
    return Content.assemble((f"{mark} ", "$text-accent"), (name.ljust(12), "bold"), (words, "$foreground 65%"))
