"""Connects the vim state machine to a text area."""

from collections.abc import Callable

from textual import events
from textual.widgets import TextArea
from textual.widgets.text_area import Selection

from app.proposals.text.line_comparison import common_prefix_and_suffix
from widgets.vim.vim_machine import VimMachine, VimMode, VimResult

Span = tuple[int, int]


class VimKeys:
    """Handles the keys of one text area while vim mode is on.

    Args:
        area: The text area.
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
        self._tell = on_mode
        self._widen = widen
        self._at_edge = on_edge
        self._vim = VimMachine()
        self._shown: Selection | None = None
        """The selection of visual mode as last shown."""
        self._cursor = 0
        """The cursor at that time; the text area's cursor is after the selection."""
        self._known: str | None = None
        """The text after the last key."""
        self._told = ""
        self._say()

    @property
    def mode_label(self) -> str:
        """Return the label of the mode for the user."""
        return self._told

    @property
    def is_inserting(self) -> bool:
        """Return whether letters are text."""
        return self._vim.mode is VimMode.INSERT

    def restart_in_insert_mode(self) -> None:
        """Restart in insert mode, because the text was replaced."""
        self._vim.restart_in_insert_mode()
        self._known = self._shown = None
        self._say()

    def handle_key(self, event: events.Key) -> bool:
        """Handle a key; return whether it was used."""
        key = event.character if event.is_printable and event.character else event.key
        text, cursor = self._area.text, self._place()
        if self._vim.mode is not VimMode.INSERT and self._known not in (None, text):
            self._vim.clear_history()
        outcome = self._vim.press_key(key, text, cursor)
        if outcome.taken:
            self._show(outcome, text)
            if self._vim.failed and key in ("j", "k") and self._vim.mode is VimMode.NORMAL:
                shown = self._area.text
                self._at_edge("down" if key == "j" else "up")
                if self._area.text != shown:
                    # The text was replaced, for example by an earlier message.
                    self._vim.clear_history()
        self._known = self._area.text
        self._say()
        return outcome.taken

    def _place(self) -> int:
        if self._vim.is_visual and self._shown == self._area.selection:
            return self._cursor
        if self._vim.is_visual:
            # The mouse or an arrow key has moved the cursor.
            self._vim.anchor = self._index(self._area.selection.start)
        return self._index(self._area.cursor_location)

    def _show(self, outcome: VimResult, text: str) -> None:
        area = self._area
        if outcome.text != text:
            start, end = common_prefix_and_suffix(text, outcome.text)
            wide = self._widen(text, (start, len(text) - end))
            inserted = outcome.text[start : len(outcome.text) - end]
            area.replace(inserted, *map(self._location, wide), maintain_selection_offset=False)
            if wide != (start, len(text) - end):
                outcome = VimResult(area.text, min(wide[0] + len(inserted), len(area.text)))
        self._cursor = outcome.cursor
        if self._vim.is_visual:
            what = self._vim.selected(area.text, outcome.cursor)
            ends = self._location(what.start), self._location(what.end)
            area.selection = Selection(*(ends if outcome.cursor >= self._vim.anchor else ends[::-1]))
            self._shown = area.selection
        else:
            area.move_cursor(self._location(outcome.cursor))

    def _say(self) -> None:
        keys = "".join(self._vim.pending) or (f"no “{self._vim.missed}” here" if self._vim.missed else "")
        mode = "" if self._vim.mode is VimMode.INSERT else self._vim.mode.value.upper()
        told = f"{mode} {keys}".strip()
        if told != self._told:
            self._told = told
            self._tell(told)

    def _index(self, location: tuple[int, int]) -> int:
        row, column = location
        lines = self._area.document.lines
        return sum(len(line) + 1 for line in lines[:row]) + column

    def _location(self, index: int) -> tuple[int, int]:
        text = self._area.text
        row = text.count("\n", 0, index)
        return row, index - (text.rfind("\n", 0, index) + 1)
