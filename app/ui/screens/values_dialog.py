"""Base of the settings screens: a list of values, and a field to write one."""

from collections.abc import Iterable

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static

from app.text.safe_text import escape_unsafe
from app.ui.screens.dialog import Dialog

WIDTH_WITH_HELP = 100


class ValuesDialog(Dialog[None]):
    """A list of values, one of which may be edited in a field below."""

    DEFAULT_CSS = """
    ValuesDialog {
        & > #dialog { height: 30; }
        OptionList { height: 1fr; text-wrap: nowrap; text-overflow: ellipsis; }
        #setting-field { display: none; margin-top: 1; }
    }
    """

    def body(self) -> Iterable[Widget]:
        """List, field, state."""
        yield OptionList(markup=False)
        yield Input(id="setting-field")
        yield Static(id="setting-state", classes="text gap quiet")

    @property
    def narrow(self) -> bool:
        """Return whether there is no room for words beside a value; they are shown below then."""
        return self.app.size.width < WIDTH_WITH_HELP

    @property
    def writing(self) -> bool:
        """Whether the field is open."""
        return self.query_one("#setting-field", Input).display

    def open_field(self, text: str, placeholder: str, keys: str) -> None:
        """Open the field with a text; `keys` names the keys that close it."""
        field = self.query_one("#setting-field", Input)
        field.value = text
        field.placeholder = placeholder
        field.display = True
        field.focus()
        self.tell(keys)

    def close_field(self) -> None:
        """Back to the list."""
        self.query_one("#setting-field", Input).display = False
        self.query_one(OptionList).focus()

    def action_leave(self) -> None:
        """Close the field, or the screen."""
        if self.writing:
            self.close_field()
            self.tell("Nothing was changed.")
        else:
            self.dismiss(None)

    def tell(self, text: str, *, problem: bool = False) -> None:
        """Show a result or a hint."""
        state = self.query_one("#setting-state", Static)
        state.set_class(problem, "warning")
        state.set_class(not problem, "quiet")
        state.update(Content(escape_unsafe(text, keep="")))
