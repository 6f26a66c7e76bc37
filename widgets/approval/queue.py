"""The list of what waits, one line each; what was decided is folded into one more."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.content import Content
from textual.message import Message
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from app.actions import bindings
from widgets.approval.state import ReviewState
from widgets.approval.wording import QUIET, confirmation_row, proposal_row

_FOLD = "decided"
"""The option that opens and closes the fold; no proposal and no confirmation is called so."""


class ReviewQueue(OptionList):
    """Takes the focus of the approvals; the cursor is on the item that is shown."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("approval")]
    DEFAULT_CSS = """
    ReviewQueue {
        height: auto;
        border: none;
        padding: 0;
        background: $surface;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        scrollbar-size-vertical: 1;
        & > .option-list--option { padding: 0 1; }
        & > .option-list--option-highlighted { background: $foreground 9%; color: $foreground; text-style: none; }
        &:focus { background: $surface; background-tint: $foreground 0%; border: none; }
        &:focus > .option-list--option-highlighted { background: $primary 30%; color: $foreground; }
        &:ansi:focus > .option-list--option-highlighted { background: ansi_bright_black; }
    }
    """

    @dataclass
    class Picked(Message):
        """The user chose an item."""

        key: str

    def __init__(self) -> None:
        super().__init__(id="queue", markup=False)
        self._keys: tuple[str, ...] = ()
        self._rows_shown: dict[str, Content] = {}
        self._unfolded = False
        self._state = ReviewState()

    @property
    def items(self) -> Sequence[str]:
        """What the lines are: ids of proposals, keys of confirmations, and the fold."""
        return self._keys

    def show(self, state: ReviewState) -> None:
        """Draw the state as it is now."""
        self._state = state
        rows = self._rows(state)
        keys = tuple(rows)
        wanted = _FOLD if self.has_focus and self._lit == _FOLD else state.current
        with self.prevent(OptionList.OptionHighlighted):
            if keys != self._keys:
                self._keys = keys
                self.set_options([Option(prompt, id=key) for key, prompt in rows.items()])
            else:
                for key, prompt in rows.items():
                    # Each replacement has the list measured anew, which is long where thousands wait.
                    if not _alike(prompt, self._rows_shown[key]):
                        self.replace_option_prompt(key, prompt)
            self._rows_shown = rows
            self.highlighted = keys.index(wanted) if wanted in keys else None

    @property
    def _lit(self) -> str | None:
        """The line under the cursor."""
        return None if self.highlighted is None else self._keys[self.highlighted]

    def _rows(self, state: ReviewState) -> dict[str, Content]:
        rows = {key: confirmation_row(one) for key, one in state.confirmations.items()}
        rows |= {one.id: proposal_row(state, one) for one in state.waiting}
        if state.recent:
            rows[_FOLD] = Content.styled(f"{'▾' if self._unfolded else '▸'} {len(state.recent)} decided", QUIET)
        if self._unfolded:
            rows |= {one.id: proposal_row(state, one) for one in state.recent}
        return rows

    @on(OptionList.OptionHighlighted)
    def _look(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        if event.option_id not in (None, _FOLD):
            self.post_message(self.Picked(str(event.option_id)))

    @on(OptionList.OptionSelected)
    def _take(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        if event.option_id == _FOLD:
            self._unfolded = not self._unfolded
            self.show(self._state)
        elif event.option_id is not None:
            self.post_message(self.Picked(event.option_id))


def _alike(one: Content, other: Content) -> bool:
    """Whether two lines look the same."""
    return one.plain == other.plain and one.spans == other.spans
