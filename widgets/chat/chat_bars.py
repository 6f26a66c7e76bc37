"""Bars between the transcript and the composer: the status line, the to-do list, and a question's options."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget

from app.agent.updates import SessionPhase
from app.conversation.todos import Todo, count_done, current_or_next_todo
from app.text.safe_text import escape_unsafe
from widgets.chat.entries.message_entries import QuestionEntry
from widgets.chat.entries.tool_entries import TOOL_VERBS
from widgets.chat.markdown.styled_lines import TEXT_STYLE, cell_width, format_seconds, shorten_to_one_line, wrap_text
from widgets.common.key_hints import MAIN_BUTTON, ClickTargets

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAME_SECONDS = 0.125
"""Seconds between two frames of the spinner; the timer runs only while the session is busy."""
_CHARACTERS_PER_TOKEN = 4
_MAX_COUNTDOWN_SECONDS = 60.0
"""Maximum seconds of a wait that is shown as a countdown; a longer one also shows the time of day."""

_INTERRUPT_HINT = Content.assemble(("Esc", "$text-accent bold"), " interrupts")
_PERMISSION_TEXT = Content.assemble(("! ", "$text-warning bold"), "Needs your permission")

_ACTIVE_PHASES = (
    SessionPhase.WAITING,
    SessionPhase.REQUESTING,
    SessionPhase.STREAMING,
    SessionPhase.RUNNING,
    SessionPhase.RETRYING,
    SessionPhase.COMPACTING,
)


class TurnStatusLine(Widget):
    """One line with the status of the turn: its phase, figures and the key to interrupt; empty when idle.

    Why a request is repeated gets a line of its own where both do not fit into one.

    Args:
        clock: The clock of `PhaseChanged.until`.
        local_time: The wall clock.
    """

    DEFAULT_CSS = "TurnStatusLine { height: auto; padding: 0 1 0 0; color: $text-muted; background: $background; }"

    class NewestWanted(Message):
        """The user wants to see the end of the transcript."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, local_time: Callable[[], datetime] = datetime.now
    ) -> None:
        super().__init__()
        self._clock = clock
        self._local_time = local_time
        self._phase = SessionPhase.IDLE
        self._detail = ""
        self._retry_at = 0.0
        self._phase_started_at = 0.0
        self._turn_started_at = 0.0
        self._characters = 0
        self._turn_end_text = ""
        self._continue_effect = ""
        self._outcome, self._reversal_hint = "", ""
        self._unseen_count: int | None = None
        self._waiting_permissions = 0
        self._permission_asked_at = 0.0
        self._timer: Timer | None = None

    @property
    def is_ticking(self) -> bool:
        """Return whether the timer runs."""
        return self._timer is not None

    def show_phase(self, phase: SessionPhase, detail: str = "", until: float = 0.0) -> None:
        """Show the current phase of the session; `until` as in `PhaseChanged`."""
        now = self._clock()
        if self._phase not in _ACTIVE_PHASES and phase in _ACTIVE_PHASES:
            self._turn_started_at = now
        if phase in _ACTIVE_PHASES:
            self._turn_end_text = self._outcome = self._reversal_hint = ""
        # There may be hundreds of calls per second: let the next tick show the latest one.
        will_tick = phase is self._phase and self.is_ticking
        changes_height = SessionPhase.RETRYING in (phase, self._phase)
        self._phase, self._detail, self._retry_at, self._phase_started_at = phase, detail, until, now
        self._characters = 0
        self._set_timer_running(phase in _ACTIVE_PHASES)
        if not will_tick:
            self.refresh(layout=changes_height)

    def add_characters(self, characters: int) -> None:
        """Count streamed characters."""
        self._characters += characters

    def show_turn_end(self, text: str, continue_effect: str = "") -> None:
        """Show how the last turn ended and what /continue does, until the next phase."""
        self._turn_end_text, self._continue_effect = text, continue_effect
        self.refresh()

    def show_outcome(self, text: str, reversal_hint: str) -> None:
        """Show the outcome of a decision and how to undo it, until the next phase."""
        self._outcome, self._reversal_hint = text, reversal_hint
        self.refresh()

    def show_waiting_permissions(self, waiting: int) -> None:
        """Show how many tools wait for a permission."""
        now = self._clock()
        if waiting and not self._waiting_permissions:
            self._permission_asked_at = now
        elif self._waiting_permissions and not waiting:
            # The shown time excludes the time that the user takes to answer.
            self._turn_started_at += now - self._permission_asked_at
        self._waiting_permissions = waiting
        self.refresh()

    def show_following(self, following: bool, unseen_entries: int) -> None:
        """Show whether the transcript follows its end, and how many entries were added since it stopped."""
        self._unseen_count = None if following else unseen_entries
        self.refresh()

    def _set_timer_running(self, wanted: bool) -> None:
        if wanted and self._timer is None and self.is_mounted:
            self._timer = self.set_interval(_FRAME_SECONDS, self.refresh)
        elif not wanted and self._timer is not None:
            self._timer.stop()
            self._timer = None

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        texts = self._activity_text(), self._action_hints()
        is_too_narrow = sum(cell_width(text.plain) for text in texts) >= width
        return 2 if self._phase is SessionPhase.RETRYING and is_too_narrow else 1

    def render(self) -> Content:
        """Return the activity at the left, and the available actions at the right."""
        left = self._activity_text()
        right = self._action_hints()
        width, height = self.content_size
        gap = width - cell_width(left.plain) - cell_width(right.plain)
        if height > 1:
            gap = max(0, width - cell_width(right.plain))
            return left.truncate(width, ellipsis=True) + Content("\n" + " " * gap) + right
        if gap < 1:
            return left.truncate(max(0, width - cell_width(right.plain) - 1), ellipsis=True) + Content(" ") + right
        return left + Content(" " * gap) + right

    def _activity_text(self) -> Content:
        elapsed = self._clock() - self._phase_started_at
        match self._phase:
            case SessionPhase.WAITING:
                activity = f"Waiting for {self._detail}"
            case SessionPhase.REQUESTING:
                activity = self._detail or "Waiting for the model"
            case SessionPhase.STREAMING:
                tokens = self._characters // _CHARACTERS_PER_TOKEN
                rate = tokens / elapsed if elapsed > 0.5 else 0.0
                activity = self._detail or "Writing"
                activity += f" · {rate:,.0f} tokens/s" if rate >= 1 else ""
            case SessionPhase.RUNNING if self._waiting_permissions:
                return _PERMISSION_TEXT
            case SessionPhase.RUNNING:
                activity = _describe_running_tool(self._detail)
            case SessionPhase.RETRYING:
                activity = self._countdown_text()
                activity += f" · {self._detail}" if self._detail else ""
            case SessionPhase.COMPACTING:
                activity = "Making room: older messages are being summarised"
            case SessionPhase.ASKING:
                return Content.styled("? ", "$text-accent bold") + Content("The model asks you")
            case _:
                # While the end of the transcript is visible, it shows this itself.
                turn_end = self._turn_end_text if self._unseen_count is not None else ""
                if turn_end:
                    return Content.styled(f"  {escape_unsafe(turn_end)}", "$text-warning")
                return Content.styled(f"  {self._outcome}", "$text-success") if self._outcome else Content("")
        total = format_seconds(max(0.0, self._clock() - self._turn_started_at))
        is_still = self.app.animation_level == "none"
        spinner = "·" if is_still else _SPINNER[int(self._clock() / _FRAME_SECONDS) % len(_SPINNER)]
        text = shorten_to_one_line(escape_unsafe(activity), 200) + (f" · {total}" if total else "")
        return Content.styled(f"{spinner} ", "$text-accent") + Content(text)

    def _countdown_text(self) -> str:
        if not self._retry_at:
            return "Retrying"
        left = max(0.0, self._retry_at - self._clock())
        if left <= _MAX_COUNTDOWN_SECONDS:
            return f"Retrying in {left:.0f} s"
        retry_time = self._local_time() + timedelta(seconds=left)
        return f"Retrying at {retry_time:%H:%M}, in {left // 60:.0f}:{left % 60:02.0f}"

    def _action_hints(self) -> Content:
        parts: list[Content] = []
        if self._phase is SessionPhase.RETRYING:
            parts.append(Content.assemble(("/continue", "$text-accent bold"), " tries now"))
        if self._unseen_count is not None:
            label = f"{self._unseen_count} new" if self._unseen_count else "to the newest"
            parts.append(Content.assemble(("↓ ", "$text-accent bold"), label))
        if self._phase in _ACTIVE_PHASES:
            parts.append(_INTERRUPT_HINT)
        elif self._reversal_hint and self._unseen_count is None and self._phase is not SessionPhase.ASKING:
            parts.append(Content(self._reversal_hint))
        elif (
            self._turn_end_text
            and self._unseen_count is not None
            and self._continue_effect
            and self._phase is not SessionPhase.ASKING
        ):
            parts.append(Content.assemble(("/continue", "$text-accent bold"), f" {self._continue_effect}"))
        return Content("   ").join(parts)

    def on_click(self, event: events.Click) -> None:
        """Interrupt the turn, or scroll to the newest entry."""
        offset = event.get_content_offset(self)
        if offset is None or event.button != MAIN_BUTTON:
            return
        end = self.content_size - (_INTERRUPT_HINT.cell_length, 1)
        if self._phase in _ACTIVE_PHASES and offset.x >= end.width and offset.y >= end.height:
            self.app.simulate_key("escape")
        elif self._unseen_count is not None:
            self.post_message(self.NewestWanted())


def _describe_running_tool(tool: str) -> str:
    """Return the activity; a tool with a verb in the transcript is not named."""
    if tool == "run_command":
        return "Running a command"
    return f"Running {tool}" if tool and tool not in TOOL_VERBS else "Running tools"


_STATUS_STYLES = {
    "completed": ("✓ ", "$text-success", "$foreground 60%"),
    "in_progress": ("▸ ", "$text-accent bold", "$foreground"),
    "pending": ("· ", "$foreground 60%", "$foreground 80%"),
}
"""By status of an item: its sign, the style of the sign, and the style of the text."""


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
        self._max_rows = 10
        self.unfolded = False

    def show_todos(self, todos: Sequence[Todo]) -> None:
        """Show this list while it has unfinished items."""
        if todos != self._todos:
            self._todos = todos
            self.display = current_or_next_todo(todos) is not None
            self.refresh(layout=True)

    def toggle_folded(self) -> bool:
        """Fold or unfold the list; return whether it is shown."""
        if self.display:
            self.unfolded = not self.unfolded
            self.refresh(layout=True)
        return self.display

    def set_max_height(self, rows: int) -> None:
        """Set the maximum height in rows."""
        self._max_rows = max(2, rows)
        self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return min(self._max_rows, 1 + len(self._todos)) if self.unfolded else 1

    def render(self) -> Content:
        """Return the progress of the list, and its items if it is unfolded."""
        width, now = self.content_size.width, current_or_next_todo(self._todos)
        head = Content.assemble(
            ("▾ " if self.unfolded else "▸ ", "$foreground 60%"),
            ("To do ", "$foreground 60%"),
            (f"{count_done(self._todos)}/{len(self._todos)}", "$text-success"),
        )
        if not self.unfolded:
            cells = width - head.cell_length - 2
            return head + "  " + (_todo_text(now, cells, "$foreground 80%") if now else Content(""))
        return Content("\n").join([head, *self._visible_rows(width)])

    def _visible_rows(self, width: int) -> list[Content]:
        """Return the items that fit, beginning just above the current one."""
        max_items, todos = self._max_rows - 1, self._todos
        if len(todos) <= max_items:
            return [_todo_row(todo, width) for todo in todos]
        current = current_or_next_todo(todos)
        first = max(0, min(todos.index(current) - 1 if current else 0, len(todos) - max_items + 1))
        shown = todos[first : first + max_items - 1]
        more = Content.styled(f"  … {len(todos) - len(shown)} more", "$foreground 60%")
        return [*(_todo_row(todo, width) for todo in shown), more]

    def on_click(self, event: events.Click) -> None:
        if event.button == MAIN_BUTTON:
            event.stop()
            self.toggle_folded()


def _todo_row(todo: Todo, width: int) -> Content:
    mark, style, text_style = _STATUS_STYLES[todo.status]
    return Content.assemble("  ", (mark, style)) + _todo_text(todo, width - 4, text_style)


def _todo_text(todo: Todo, cells: int, style: str) -> Content:
    return Content.styled(shorten_to_one_line(escape_unsafe(" ".join(todo.content.split())), max(1, cells)), style)


_OPTION_LEAD_CELLS = 5
"""Cells before an option: the mark of the selected option and the number."""


class QuestionOptionsBar(ClickTargets):
    """Numbered options of a question; the keys of the empty composer select one."""

    DEFAULT_CSS = "QuestionOptionsBar { display: none; height: auto; padding: 0 1 0 2; }"

    @dataclass
    class OptionPicked(Message):
        """The user selected an option."""

        option: str

    def __init__(self) -> None:
        super().__init__()
        self.question: QuestionEntry | None = None
        """The open question; None if there is none."""
        self._selected_index = 0
        self._max_rows = 10

    def show_question(self, question: QuestionEntry | None) -> None:
        """Show the options of this question; hide the bar if None."""
        if (question and question.call) == (self.question and self.question.call):
            return
        self.question = question
        self._selected_index = 0
        self.display = question is not None and bool(question.options)
        self.refresh(layout=True)

    def handle_option_key(self, key: str) -> bool:
        """Handle a key of the empty composer; return whether it was used."""
        if self.question is None or not self.question.options:
            return False
        count = len(self.question.options)
        if key in ("up", "down"):
            self._selected_index = (self._selected_index + (1 if key == "down" else -1)) % count
            self.refresh()
        elif key == "enter":
            self._select_option(self._selected_index)
        elif key.isdigit() and 1 <= int(key) <= count:
            self._select_option(int(key) - 1)
        else:
            return False
        return True

    def _select_option(self, index: int) -> None:
        assert self.question is not None
        self.post_message(self.OptionPicked(self.question.options[index]))

    # Rows

    def set_max_height(self, rows: int) -> None:
        """Set the maximum number of rows; more options scroll."""
        self._max_rows = max(1, rows)
        self.refresh(layout=True)

    def _option_rows(self, width: int) -> list[tuple[int, str]]:
        """Return the rows of all options, each with the index of its option."""
        room = max(4, width - _OPTION_LEAD_CELLS)
        return [
            (index, row.text)
            for index, option in enumerate(self.question.options if self.question else ())
            for row in wrap_text(escape_unsafe(option), TEXT_STYLE, room)
        ]

    def _first_visible_row(self, rows: Sequence[tuple[int, str]]) -> int:
        """Return the first visible row, so that the selected option is visible."""
        chosen = [position for position, (index, _) in enumerate(rows) if index == self._selected_index]
        first = max(0, chosen[-1] + 1 - self._max_rows) if chosen else 0
        return min(first, chosen[0]) if chosen else 0

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return min(self._max_rows, len(self._option_rows(width)))

    def render(self) -> Content:
        rows = self._option_rows(self.content_size.width)
        first = self._first_visible_row(rows)
        lines: list[Content] = []
        for position in range(first, min(len(rows), first + self._max_rows)):
            index, text = rows[position]
            begins = position == 0 or rows[position - 1][0] != index
            chosen = index == self._selected_index
            mark = "›" if chosen else " "
            number = f"{mark} {index + 1:<{_OPTION_LEAD_CELLS - 2}}" if begins else " " * _OPTION_LEAD_CELLS
            style = "$text-accent bold" if chosen else "$foreground 60%"
            lines.append(Content.styled(number, style) + Content.styled(text, style if chosen else "$foreground"))
        return Content("\n").join(lines)

    async def click_target(self, target: int) -> None:
        self._select_option(target)

    def target_at(self, event: events.MouseEvent) -> int | None:
        offset = event.get_content_offset(self)
        rows = self._option_rows(self.content_size.width)
        row = self._first_visible_row(rows) + offset.y if offset is not None else len(rows)
        return rows[row][0] if row < len(rows) else None
