"""The transcript: the view of a session, with a cursor, keys and mouse to open what it shows."""

import re
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Offset
from textual.message import Message
from textual.selection import Selection

from app.actions import bindings
from widgets.chat.entries import Entry, InterventionEntry, ProposalEntry
from widgets.chat.layout import copy_text
from widgets.chat.lines import visible
from widgets.chat.marks import MARK_WIDTH, opens
from widgets.chat.view import TranscriptView

_WORD = re.compile(r"[\w./:@-]+|\S")


class Transcript(TranscriptView, can_focus=True):
    """A `TranscriptView` whose entries can be walked, opened and copied."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings("chat")]
    # Who unfolds a line by a click goes on writing in the composer.
    FOCUS_ON_CLICK: ClassVar[bool] = False

    @dataclass
    class ProposalOpened(Message):
        """The user wants to review a proposal."""

        proposal_id: str

    @dataclass
    class LinkOpened(Message):
        """The user clicked a link of the model's text; `href` is as untrusted as the text."""

        href: str

    _link: object = None
    """The link under the mouse."""

    @property
    def cursor_entry(self) -> Entry | None:
        """The entry that Enter would open."""
        if self._cursor is None or self._cursor >= len(self._slots):
            return None
        return self._slots.items[self._cursor].entry

    def on_focus(self) -> None:
        """Put the cursor on the lowest entry in view."""
        if len(self._slots) and self._cursor is None:
            bottom = self.scroll_offset.y + self.size.height - 1
            self._cursor = self._slots.at(min(bottom, self._slots.total - 1))
        self.refresh()

    def on_blur(self) -> None:
        """The cursor is shown only with the focus."""
        self.refresh()

    def move_cursor(self, index: int) -> None:
        """Put the cursor on an entry and scroll it into view."""
        if not len(self._slots):
            return
        self._cursor = max(0, min(len(self._slots) - 1, index))
        self._lay_out_around(self._slots.top(self._cursor))
        self._set_height()
        slot = self._slots.items[self._cursor]
        top = self._slots.top(self._cursor) + slot.gap
        bottom = top + slot.height
        row, height = self.scroll_offset.y, self.size.height
        if bottom > row + height:
            self._scroll_to_row(min(bottom - height, top))
        elif top < row:
            self._scroll_to_row(max(top - slot.gap, bottom - height) if slot.height > height else top - slot.gap)
        self.refresh()

    def _scroll_to_row(self, row: int) -> None:
        self.scroll_to(y=row, animate=False, immediate=True)

    def _step(self, direction: int) -> None:
        """To the next entry; through an entry that is higher than the screen in steps of three rows."""
        if self._cursor is None or self._cursor >= len(self._slots):
            self.on_focus()
            return
        top = self._slots.top(self._cursor)
        slot = self._slots.items[self._cursor]
        row, height = self.scroll_offset.y, self.size.height
        beyond = top + slot.gap + slot.height > row + height if direction > 0 else top < row
        if beyond and slot.height > height // 2:
            self._scroll_to_row(row + 3 * direction)
            return
        index = self._cursor + direction
        while 0 <= index < len(self._slots) and self._slots.hidden(self._slots.items[index].entry):
            index += direction
        if 0 <= index < len(self._slots):
            self.move_cursor(index)
        elif direction > 0:
            self.follow()

    def action_cursor_up(self) -> None:
        """To the entry above."""
        self._step(-1)

    def action_cursor_down(self) -> None:
        """To the entry below."""
        self._step(1)

    def action_page_up(self) -> None:
        """One screen up."""
        self._page(-1)

    def action_page_down(self) -> None:
        """One screen down."""
        self._page(1)

    def _page(self, direction: int) -> None:
        self._scroll_to_row(self.scroll_offset.y + direction * max(1, self.size.height - 2))
        self._cursor = self._slots.at(self.scroll_offset.y + (self.size.height - 1 if direction > 0 else 1))
        self.refresh()

    def action_top(self) -> None:
        """To the first entry."""
        self._scroll_to_row(0)
        self.move_cursor(0)

    def action_bottom(self) -> None:
        """To the end, and follow it."""
        self._cursor = max(0, len(self._slots) - 1)
        self.follow()

    def action_open(self) -> None:
        """Open or fold the entry under the cursor; a proposal's card leads to the review."""
        if self._cursor is not None and self._cursor < len(self._slots):
            self._open(self._cursor)

    def action_copy_entry(self) -> None:
        """Copy the text of the entry under the cursor as it was written."""
        if (entry := self.cursor_entry) is not None and (text := copy_text(entry)):
            self.app.copy_to_clipboard(text)
            self.notify("Copied.", timeout=2)

    def action_toggle_interventions(self) -> None:
        """Hide or show what signoff told the model."""
        self._slots.hide_interventions = not self._slots.hide_interventions
        for slot in self._slots.items:
            if isinstance(slot.entry, InterventionEntry):
                slot.exact = False
                slot.height = 0 if self._slots.hide_interventions else 1
        self._slots.set_gaps()
        self._settle()

    def _open(self, index: int) -> None:
        slot = self._slots.items[index]
        if isinstance(slot.entry, ProposalEntry):
            self.post_message(self.ProposalOpened(slot.entry.proposal))
        elif opens(slot.entry):
            self._slots.turn(index)
            if self._following:
                # What was opened stays where it is, though it pushes the end out of view.
                self._set_following(False)
            self._lay_out(index)
            self._set_height()
            self._settle()
            if self.scroll_offset.y >= self.max_scroll_y:
                self._set_following(True)

    def on_click(self, event: events.Click) -> None:
        """A link opens, a folded line unfolds, a card leads to the review.

        A double click selects the word, a triple click the entry; after dragging, the selection is left alone.
        """
        event.prevent_default()
        row = self._row_of(event)
        if row is None:
            return
        if event.chain > 1:
            self._select(event, row)
            return
        selection = self.text_selection
        if selection is not None and selection.start != selection.end:
            return
        if href := event.style.meta.get("href"):
            event.stop()
            self.post_message(self.LinkOpened(str(href)))
            return
        index = self._slots.at(row)
        self._cursor = index
        self.refresh()
        if self._line_at(row).action or isinstance(self._slots.items[index].entry, ProposalEntry):
            event.stop()
            self._open(index)

    def _row_of(self, event: events.MouseEvent) -> int | None:
        offset = event.get_content_offset(self)
        if offset is None:
            return None
        row = self.scroll_offset.y + offset.y
        return row if len(self._slots) and row < self._slots.total else None

    def _select(self, event: events.Click, row: int) -> None:
        if event.chain == 2:
            text = " " * MARK_WIDTH + self._line_at(row).text
            _, offset = self.screen.get_widget_and_offset_at(event.screen_x, event.screen_y)
            column = offset.x if offset is not None else 0
            word = next((match for match in _WORD.finditer(text) if match.start() <= column < match.end()), None)
            if word is None:
                return
            start, end = Offset(word.start(), row), Offset(word.end(), row)
        else:
            index = self._slots.at(row)
            slot = self._slots.items[index]
            top = self._slots.top(index) + slot.gap
            last = top + slot.height - 1
            start, end = Offset(0, top), Offset(MARK_WIDTH + len(self._line_at(last).text), last)
        self.screen.selections = {self: Selection(start, end)}

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Show where a link leads."""
        href = event.style.meta.get("href")
        if href != self._link:
            self._link = href
            self.tooltip = Content(visible(str(href))) if href else None
