"""The list of pending items, one line each; decided ones are behind one more line.

Thousands may wait: a line is made when it is drawn, and all lines are one row high.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region, Size, Spacing
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Padding, Visual

from app.keys.actions import bindings
from widgets.review.review_state import ReviewState
from widgets.review.review_wording import QUIET, confirmation_row, proposal_row

_DECIDED = "decided"
"""The line behind which what was decided is listed; no proposal and no confirmation is called so."""
_MARGIN = Spacing(0, 1, 0, 1)


class ReviewQueue(ScrollView, can_focus=True):
    """Takes the focus of the approvals; the cursor is on the item that is shown."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("approval"),
        Binding("enter", "take", "Show", show=False),
        Binding("home", "move_to(0)", "First", show=False),
        Binding("end", "move_to(-1)", "Last", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"queue--cursor", "queue--hover"}
    DEFAULT_CSS = """
    ReviewQueue {
        height: auto;
        max-height: 100%;
        overflow-x: hidden;
        background: $surface;
        color: $foreground;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        scrollbar-size-vertical: 1;
        & > .queue--hover { background: $block-hover-background; }
        & > .queue--cursor { background: $foreground 9%; color: $foreground; }
        &:focus > .queue--cursor { background: $primary 30%; color: $foreground; }
        &:ansi:focus > .queue--cursor { background: ansi_bright_black; }
    }
    """
    ALLOW_SELECT: ClassVar[bool] = False

    @dataclass
    class Picked(Message):
        """The user chose an item."""

        key: str

    class Turned(Message):
        """The list of decided proposals was opened or closed."""

    def __init__(self) -> None:
        super().__init__(id="queue")
        self._keys: tuple[str, ...] = ()
        self._cursor: int | None = None
        self._hovered: int | None = None
        self._lists_decided = False
        self._state = ReviewState()

    @property
    def items(self) -> Sequence[str]:
        """Return the keys of the lines: ids of proposals, keys of permission requests, and the line of decided
        proposals."""
        return self._keys

    def show(self, state: ReviewState) -> None:
        """Draw the state as it is now."""
        wanted = _DECIDED if self.has_focus and self._lit == _DECIDED else state.current
        self._state = state
        self._keys = self._listed(state)
        self._cursor = self._keys.index(wanted) if wanted in self._keys else None
        self.virtual_size = Size(self.size.width, len(self._keys))
        self._reveal()
        self.refresh()

    @property
    def _lit(self) -> str | None:
        """The line under the cursor."""
        return None if self._cursor is None else self._keys[self._cursor]

    def _listed(self, state: ReviewState) -> tuple[str, ...]:
        if len(state.waiting_keys) == 1 and not self._lists_decided:
            # All that there is to say of it stands above.
            return ()
        line = (_DECIDED,) if state.recent else ()
        decided = (one.id for one in state.recent) if self._lists_decided else ()
        return (*state.waiting_keys, *line, *decided)

    # Drawing

    def render_line(self, y: int) -> Strip:
        """One item."""
        line, width = y + self.scroll_offset.y, self.scrollable_content_region.width
        if line >= len(self._keys):
            return Strip.blank(width, self.rich_style)
        look = {self._hovered: ("queue--hover",), self._cursor: ("queue--cursor",)}
        style = self.get_visual_style(*look.get(line, ()))
        row = Padding(self._row(self._keys[line]), _MARGIN)
        # Between the margins there may be no room at all.
        strips = Visual.to_strips(self, row, width, 1, style, pad=True)
        return strips[0] if strips else Strip.blank(width, style.rich_style)

    def _row(self, key: str) -> Content:
        if key == _DECIDED:
            return Content.styled(f"{'▾' if self._lists_decided else '▸'} {len(self._state.recent)} decided", QUIET)
        if key in self._state.permissions.asked:
            return confirmation_row(self._state, key)
        proposal = self._state.get(key)
        return proposal_row(self._state, proposal) if proposal is not None else Content("")

    def _reveal(self) -> None:
        """Scroll to the cursor."""
        if self._cursor is not None and self.is_mounted:
            self.scroll_to_region(Region(0, self._cursor, 1, 1), animate=False, immediate=True, force=True)

    def notify_style_update(self) -> None:
        """Draw with the new colours."""
        super().notify_style_update()
        self.refresh()

    def on_resize(self) -> None:
        """Keep the cursor in view."""
        self._reveal()

    # Keys and mouse

    def action_cursor_down(self) -> None:
        """The next item, after the last the first."""
        self.action_move_to(0 if self._cursor is None else self._cursor + 1)

    def action_cursor_up(self) -> None:
        """The item before."""
        self.action_move_to(-1 if self._cursor is None else self._cursor - 1)

    def action_page(self, by: int) -> None:
        """As many items on as there is room for."""
        at = (self._cursor or 0) + by * self.scrollable_content_region.height
        self.action_move_to(max(0, min(at, len(self._keys) - 1)))

    def action_move_to(self, line: int) -> None:
        """Move the cursor to a line, counted from the end if negative, and select it."""
        if not self._keys:
            return
        self._cursor = line % len(self._keys)
        self._reveal()
        self.refresh()
        if self._lit != _DECIDED:
            self.post_message(self.Picked(self._keys[self._cursor]))

    def action_take(self) -> None:
        """Show the item under the cursor; open or close the list of decided proposals."""
        if self._keys == (_DECIDED,):
            # There is nothing else that the key could mean.
            self._cursor = 0
        if self._lit == _DECIDED or (not self._keys and self._state.recent):
            self._lists_decided = not self._lists_decided
            self.show(self._state)
            self.post_message(self.Turned())
        elif self._cursor is not None:
            self.post_message(self.Picked(self._keys[self._cursor]))

    def on_click(self, event: events.Click) -> None:
        """Take the item."""
        line = self._line_at(event)
        if line is not None:
            event.stop()
            self.action_move_to(line)
            if self._lit == _DECIDED:
                self.action_take()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Light the item under the pointer."""
        self._hover(self._line_at(event))

    def on_leave(self) -> None:
        """No item is under it any more."""
        self._hover(None)

    def _hover(self, line: int | None) -> None:
        if line != self._hovered:
            self._hovered = line
            self.refresh()

    def _line_at(self, event: events.MouseEvent) -> int | None:
        """The line under the pointer."""
        offset = event.get_content_offset(self)
        line = -1 if offset is None else offset.y + self.scroll_offset.y
        return line if 0 <= line < len(self._keys) else None
