"""Connects the vim state machine to a text area."""

from collections.abc import Callable

from textual import events
from textual.widgets import TextArea
from textual.widgets.text_area import Selection

from app.proposals.text.line_comparison import common_prefix_and_suffix
from widgets.vim.vim_machine import VimKeyResult, VimMachine, VimMode

Span = tuple[int, int]


class VimKeyHandler:
    """Handles the keys of one text area while vim mode is on.

    Args:
        on_mode: Called with the label of the mode, like `NORMAL` or `NORMAL 2d`, when it changes.
        widen: Returns a range to replace that covers each paste marker completely or not at all.
        on_edge: Called with `up` or `down` if `k` or `j` is pressed on the first or last line.
    """

    def __init__(
        self,
        area: TextArea,
        on_mode: Callable[[str], None],
        *,
        widen: Callable[[str, Span], Span] = lambda text, span: span,
        on_edge: Callable[[str], object] = lambda key: None,
    ) -> None:
        self._area = area
        self._on_mode = on_mode
        self._widen = widen
        self._on_edge = on_edge
        self._machine = VimMachine()
        self._shown_selection: Selection | None = None
        """The selection of visual mode as last shown."""
        self._cursor = 0
        """The cursor at that time; the text area's cursor is after the selection."""
        self._text_after_key: str | None = None
        """The text after the last key."""
        self.mode_label = ""
        """The label of the mode for the user."""
        self._update_mode_label()

    @property
    def is_inserting(self) -> bool:
        """Return whether letters are text."""
        return self._machine.mode is VimMode.INSERT

    def restart_in_insert_mode(self) -> None:
        """Restart in insert mode, because the text was replaced."""
        self._machine.restart_in_insert_mode()
        self._text_after_key = self._shown_selection = None
        self._update_mode_label()

    def handle_key(self, event: events.Key) -> bool:
        """Handle a key; return whether it was used."""
        key = event.character if event.is_printable and event.character else event.key
        text, cursor = self._area.text, self._cursor_index()
        if self._machine.mode is not VimMode.INSERT and self._text_after_key not in (None, text):
            self._machine.clear_history()
        outcome = self._machine.press_key(key, text, cursor)
        if outcome.used:
            self._show_result(outcome, text)
            if self._machine.has_failed and key in ("j", "k") and self._machine.mode is VimMode.NORMAL:
                shown = self._area.text
                self._on_edge("down" if key == "j" else "up")
                if self._area.text != shown:
                    # The text was replaced, for example by an earlier message.
                    self._machine.clear_history()
        self._text_after_key = self._area.text
        self._update_mode_label()
        return outcome.used

    def _cursor_index(self) -> int:
        if self._machine.is_visual and self._shown_selection == self._area.selection:
            return self._cursor
        if self._machine.is_visual:
            # The mouse or an arrow key has moved the cursor.
            self._machine.anchor = self._index(self._area.selection.start)
        return self._index(self._area.cursor_location)

    def _show_result(self, outcome: VimKeyResult, text: str) -> None:
        area = self._area
        if outcome.text != text:
            start, end = common_prefix_and_suffix(text, outcome.text)
            wide = self._widen(text, (start, len(text) - end))
            inserted = outcome.text[start : len(outcome.text) - end]
            area.replace(inserted, *map(self._location, wide), maintain_selection_offset=False)
            if wide != (start, len(text) - end):
                outcome = VimKeyResult(area.text, min(wide[0] + len(inserted), len(area.text)))
        self._cursor = outcome.cursor
        if self._machine.is_visual:
            selected = self._machine.selected_range(area.text, outcome.cursor)
            ends = self._location(selected.start), self._location(selected.end)
            area.selection = Selection(*(ends if outcome.cursor >= self._machine.anchor else ends[::-1]))
            self._shown_selection = area.selection
        else:
            area.move_cursor(self._location(outcome.cursor))

    def _update_mode_label(self) -> None:
        keys = "".join(self._machine.pending) or (
            f"no “{self._machine.unmatched_query}” here" if self._machine.unmatched_query else ""
        )
        label = f"{self._machine.mode.value.upper()} {keys}".strip()
        if label != self.mode_label:
            self.mode_label = label
            self._on_mode(label)

    def _index(self, location: tuple[int, int]) -> int:
        row, column = location
        lines = self._area.document.lines
        return sum(len(line) + 1 for line in lines[:row]) + column

    def _location(self, index: int) -> tuple[int, int]:
        text = self._area.text
        row = text.count("\n", 0, index)
        return row, index - (text.rfind("\n", 0, index) + 1)
