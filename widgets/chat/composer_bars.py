"""Bars above the composer: the to-do list, and the options of an open question."""

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget

from app.conversation.todos import Todo, count_done, current_todo
from app.text.safe_text import escape_unsafe
from widgets.chat.entries.message_entries import QuestionEntry
from widgets.chat.markdown.styled_lines import TEXT, shorten, wrap_text
from widgets.common.key_hints import MAIN_BUTTON

_MARKS = {
    "completed": ("✓ ", "$text-success", "$foreground 60%"),
    "in_progress": ("▸ ", "$text-accent bold", "$foreground"),
    "pending": ("· ", "$foreground 60%", "$foreground 80%"),
}
"""What stands before an item, in which style, and the style of its words."""


class TodoBar(Widget):
    """The to-do list in one line: finished and next items; a click or the key unfolds it."""

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
        super().__init__()
        self._todos: Sequence[Todo] = ()
        self._most_rows = 10
        self.unfolded = False

    def show(self, todos: Sequence[Todo]) -> None:
        """Show this list, as long as something is left of it."""
        if todos != self._todos:
            self._todos = todos
            self.display = current_todo(todos) is not None
            self.refresh(layout=True)

    def toggle_folded(self) -> bool:
        """Fold or unfold it; return whether there is anything to show."""
        if self.display:
            self.unfolded = not self.unfolded
            self.refresh(layout=True)
        return self.display

    def set_max_height(self, rows: int) -> None:
        """Set how many rows it may grow to."""
        self._most_rows = max(2, rows)
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return one row; unfolded, one more for each item."""
        return min(self._most_rows, 1 + len(self._todos)) if self.unfolded else 1

    def render(self) -> Content:
        """The state of the list, and its items where it is unfolded."""
        width, now = self.content_size.width, current_todo(self._todos)
        head = Content.assemble(
            ("▾ " if self.unfolded else "▸ ", "$foreground 60%"),
            ("To do ", "$foreground 60%"),
            (f"{count_done(self._todos)}/{len(self._todos)}", "$text-success"),
        )
        if not self.unfolded:
            room = width - head.cell_length - 2
            return head + "  " + (_words(now, room, "$foreground 80%") if now else Content(""))
        return Content("\n").join([head, *self._rows(width)])

    def _rows(self, width: int) -> list[Content]:
        """Return the items that fit: from just above the current one."""
        room, todos = self._most_rows - 1, self._todos
        if len(todos) <= room:
            return [_row(todo, width) for todo in todos]
        now = current_todo(todos)
        first = max(0, min(todos.index(now) - 1 if now else 0, len(todos) - room + 1))
        shown = todos[first : first + room - 1]
        more = Content.styled(f"  … {len(todos) - len(shown)} more", "$foreground 60%")
        return [*(_row(todo, width) for todo in shown), more]

    def on_click(self, event: events.Click) -> None:
        """Unfold or fold it."""
        if event.button == MAIN_BUTTON:
            event.stop()
            self.toggle_folded()


def _row(todo: Todo, width: int) -> Content:
    mark, style, words = _MARKS[todo.status]
    return Content.assemble("  ", (mark, style)) + _words(todo, width - 4, words)


def _words(todo: Todo, room: int, style: str) -> Content:
    return Content.styled(shorten(escape_unsafe(" ".join(todo.content.split())), max(1, room)), style)


_LEAD = 5
"""Cells before an option: the mark of the chosen one and the number."""


class QuestionBar(Widget):
    """Numbered options of a question; the keys of the empty composer choose among them."""

    DEFAULT_CSS = """
    QuestionBar {
        display: none;
        height: auto;
        padding: 0 1 0 2;
    }
    """

    @dataclass
    class Picked(Message):
        """The user chose an option."""

        option: str

    def __init__(self) -> None:
        super().__init__()
        self._question: QuestionEntry | None = None
        self._index = 0
        self._most_rows = 10
        self._held: int | None = None
        """The option on which the mouse button went down."""

    @property
    def question(self) -> QuestionEntry | None:
        """The open question."""
        return self._question

    def show(self, question: QuestionEntry | None) -> None:
        """Show the options of this question, or nothing."""
        if (question and question.call) == (self._question and self._question.call):
            return
        self._question = question
        self._index = 0
        self.display = question is not None and bool(question.options)
        self.refresh(layout=True)

    def use_key(self, key: str) -> bool:
        """Handle a key of the empty composer; return whether it was used."""
        if self._question is None or not self._question.options:
            return False
        count = len(self._question.options)
        if key in ("up", "down"):
            self._index = (self._index + (1 if key == "down" else -1)) % count
            self.refresh()
        elif key == "enter":
            self._pick(self._index)
        elif key.isdigit() and 1 <= int(key) <= count:
            self._pick(int(key) - 1)
        else:
            return False
        return True

    def _pick(self, index: int) -> None:
        assert self._question is not None
        self.post_message(self.Picked(self._question.options[index]))

    # Rows.

    def set_max_height(self, rows: int) -> None:
        """Set how many rows the options may take before they scroll."""
        self._most_rows = max(1, rows)
        self.refresh(layout=True)

    def _option_rows(self, width: int) -> list[tuple[int, str]]:
        """The rows of all options as they are written out, each with the index of its option."""
        room = max(4, width - _LEAD)
        return [
            (index, row.text)
            for index, option in enumerate(self._question.options if self._question else ())
            for row in wrap_text(escape_unsafe(option), TEXT, room)
        ]

    def _view(self, rows: Sequence[tuple[int, str]]) -> int:
        """The first row on view, so that the chosen option is."""
        chosen = [position for position, (index, _) in enumerate(rows) if index == self._index]
        first = max(0, chosen[-1] + 1 - self._most_rows) if chosen else 0
        return min(first, chosen[0]) if chosen else 0

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The rows of all options, as far as there is room for them."""
        return min(self._most_rows, len(self._option_rows(width)))

    def render(self) -> Content:
        """The options."""
        rows = self._option_rows(self.content_size.width)
        first = self._view(rows)
        lines: list[Content] = []
        for position in range(first, min(len(rows), first + self._most_rows)):
            index, text = rows[position]
            begins = position == 0 or rows[position - 1][0] != index
            chosen = index == self._index
            number = f"{'›' if chosen else ' '} {index + 1:<{_LEAD - 2}}" if begins else " " * _LEAD
            style = "$text-accent bold" if chosen else "$foreground 60%"
            lines.append(Content.styled(number, style) + Content.styled(text, style if chosen else "$foreground"))
        return Content("\n").join(lines)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Remember where a click begins."""
        self._held = self._option_at(event)

    def on_click(self, event: events.Click) -> None:
        """Choose the option; to slide onto another one before letting go chooses none."""
        held, self._held = self._held, None
        if held is not None and event.button == MAIN_BUTTON and held == self._option_at(event):
            event.stop()
            self._pick(held)

    def _option_at(self, event: events.MouseEvent) -> int | None:
        offset = event.get_content_offset(self)
        rows = self._option_rows(self.content_size.width)
        row = self._view(rows) + offset.y if offset is not None else len(rows)
        return rows[row][0] if row < len(rows) else None
