"""The model's to-do list above the composer: one row, which unfolds."""

from collections.abc import Sequence

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.widget import Widget

from app.text.safe_text import visible
from app.todos import Todo, current, done
from widgets.chat.lines import shorten
from widgets.common.key_hints import MAIN_BUTTON

_MARKS = {
    "completed": ("✓ ", "$text-success", "$foreground 60%"),
    "in_progress": ("▸ ", "$text-accent bold", "$foreground"),
    "pending": ("· ", "$foreground 60%", "$foreground 80%"),
}
"""What stands before an item, in which style, and the style of its words."""


class TodoBar(Widget):
    """What is done of the list and what comes next; a click or the key shows all of it, or as much as has room."""

    DEFAULT_CSS = """
    TodoBar {
        display: none;
        height: auto;
        padding: 0 1 0 0;
        background: $background;
        &:hover { background: $foreground 4%; }
    }
    """

    def __init__(self) -> None:
        """There is no list."""
        super().__init__()
        self._todos: Sequence[Todo] = ()
        self._most_rows = 10
        self.unfolded = False

    def show(self, todos: Sequence[Todo]) -> None:
        """Show this list, as long as something is left of it."""
        if todos != self._todos:
            self._todos = todos
            self.display = current(todos) is not None
            self.refresh(layout=True)

    def turn(self) -> bool:
        """Unfold or fold it; returns whether there is anything to be seen."""
        if self.display:
            self.unfolded = not self.unfolded
            self.refresh(layout=True)
        return self.display

    def set_max_height(self, rows: int) -> None:
        """How far it may grow."""
        self._most_rows = max(2, rows)
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """One row, or that and one for each item."""
        return min(self._most_rows, 1 + len(self._todos)) if self.unfolded else 1

    def render(self) -> Content:
        """The state of the list, and its items where it is unfolded."""
        width, now = self.content_size.width, current(self._todos)
        head = Content.assemble(
            ("▾ " if self.unfolded else "▸ ", "$foreground 60%"),
            ("To do ", "$foreground 60%"),
            (f"{done(self._todos)}/{len(self._todos)}", "$text-success"),
        )
        if not self.unfolded:
            room = width - head.cell_length - 2
            return head + "  " + (_words(now, room, "$foreground 80%") if now else Content(""))
        return Content("\n").join([head, *self._rows(width)])

    def _rows(self, width: int) -> list[Content]:
        """The items that have room: from just above the one that the model is at."""
        room, todos = self._most_rows - 1, self._todos
        if len(todos) <= room:
            return [_row(todo, width) for todo in todos]
        now = current(todos)
        first = max(0, min(todos.index(now) - 1 if now else 0, len(todos) - room + 1))
        shown = todos[first : first + room - 1]
        more = Content.styled(f"  … {len(todos) - len(shown)} more", "$foreground 60%")
        return [*(_row(todo, width) for todo in shown), more]

    def on_click(self, event: events.Click) -> None:
        """Unfold or fold it."""
        if event.button == MAIN_BUTTON:
            event.stop()
            self.turn()


def _row(todo: Todo, width: int) -> Content:
    mark, style, words = _MARKS[todo.status]
    return Content.assemble("  ", (mark, style)) + _words(todo, width - 4, words)


def _words(todo: Todo, room: int, style: str) -> Content:
    return Content.styled(shorten(visible(" ".join(todo.content.split())), max(1, room)), style)
