"""Key hints for dialogs and the footer: keys and their effects."""

from abc import abstractmethod
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from app.keys.keymap import key_display_name

HINT_GAP = 3
"""Columns between two hints."""
MAIN_BUTTON = 1
"""The mouse button for clicks; the terminal uses the other buttons."""


class ClickTargets(Widget):
    """Base class of a widget with clickable parts; a click must begin and end on the same part."""

    _pressed_target: Hashable | None = None
    """The part on which the mouse button was pressed."""

    @abstractmethod
    def target_at(self, event: events.MouseEvent) -> Hashable | None:
        """Return the part under the mouse; None if there is none."""

    @abstractmethod
    async def click_target(self, target: Any) -> None:
        """Handle a click on a part."""

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._pressed_target = self.target_at(event)

    async def on_click(self, event: events.Click) -> None:
        """Handle a click on the part under the mouse, unless the click began on another part."""
        pressed, self._pressed_target = self._pressed_target, None
        if pressed is not None and event.button == MAIN_BUTTON and pressed == self.target_at(event):
            event.stop()
            await self.click_target(pressed)


class KeyHint(NamedTuple):
    """The description of one key, or of several keys together."""

    keys: str
    """Keys in Textual's notation, comma-separated; empty for text only. A click on a key presses that key, a click on
    the label presses the first key.
    """
    label: str
    """The effect: `open`, `go back`."""
    enabled: bool = True

    @property
    def name(self) -> str:
        """Return the keys' names."""
        return " ".join(key_display_name(key) for key in self.keys.split(",") if key)

    @property
    def first_key(self) -> str:
        """Return the first key."""
        return self.keys.partition(",")[0]

    def key_at(self, column: int) -> str:
        """Return the key under a column of the hint; the first key if there is none."""
        end = 0
        for key in filter(None, self.keys.split(",")):
            begin, end = end, end + cell_len(key_display_name(key))
            if begin <= column < end:
                return key
            end += 1
        return self.first_key

    @property
    def width(self) -> int:
        """Return the width in cells."""
        return self.content().cell_length

    def content(self, *, hovered: bool = False) -> Content:
        """Return the keys and the label, which differ in weight and colour."""
        key_style = "bold $footer-key-foreground" if self.enabled else "$foreground 40%"
        label_style = "$footer-description-foreground" if self.enabled else "$foreground 40%"
        underline = " underline" if hovered and self.first_key else ""
        if not self.keys:
            return Content.styled(self.label, label_style)
        return Content.assemble((self.name, key_style + underline), " ", (self.label, label_style + underline))


PlacedHint = tuple[int, int, KeyHint]
"""(row, column, hint)."""


class ClickableKeyHints(ClickTargets):
    """Key hints at the positions of `place_hints`; a click on a hint presses its key."""

    hovered: reactive[KeyHint | None] = reactive(None)

    @abstractmethod
    def place_hints(self, width: int) -> Sequence[PlacedHint]:
        """Return the position of each hint, from left to right and top to bottom."""

    def render(self) -> Content:
        rows: list[Content] = []
        for row, column, hint in self.place_hints(self.content_size.width):
            while len(rows) <= row:
                rows.append(Content(""))
            room = column - rows[row].cell_length
            rows[row] += Content(" " * room) + hint.content(hovered=hint == self.hovered)
        return Content("\n").join(rows)

    async def click_target(self, target: tuple[KeyHint, str]) -> None:
        hint, key = target
        if key and hint.enabled:
            self.app.simulate_key(key)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        target = self.target_at(event)
        self.hovered = None if target is None else target[0]

    def on_leave(self) -> None:
        self.hovered = None

    def target_at(self, event: events.MouseEvent) -> tuple[KeyHint, str] | None:
        """Return the hint under the mouse and its key there; None if there is none."""
        if (offset := event.get_content_offset(self)) is not None:
            for row, column, hint in self.place_hints(self.content_size.width):
                if row == offset.y and column <= offset.x < column + hint.width:
                    return hint, hint.key_at(offset.x - column)
        return None


class WrappedKeyHints(ClickableKeyHints):
    """Key hints on as many lines as needed; a hint is never broken."""

    DEFAULT_CSS = "WrappedKeyHints { height: auto; padding: 0 1; }"

    def __init__(self, hints: Sequence[KeyHint]) -> None:
        super().__init__()
        self.hints = tuple(hints)

    def place_hints(self, width: int) -> Sequence[PlacedHint]:
        """Return positions from left to right; hints that do not fit start a new line."""
        placed: list[PlacedHint] = []
        row = column = 0
        for hint in self.hints:
            if column and column + hint.width > width:
                row, column = row + 1, 0
            placed.append((row, column, hint))
            column += hint.width + HINT_GAP
        return placed

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return max((row for row, _, _ in self.place_hints(width)), default=0) + 1
