"""The vim state machine: computes a new text and cursor from a key, a text and a cursor."""

from collections.abc import Callable
from enum import StrEnum

from msgspec import Struct

from widgets.vim.motions import (
    MOTIONS,
    TEXT_SEARCHES,
    LastSearches,
    TextRange,
    VimCommand,
    find_motion_target,
    find_operator_range,
    parse_keys,
)
from widgets.vim.text_positions import clamp_cursor, first_nonblank, line_end, line_start, text_object_range

TextAndCursor = tuple[str, int]
INDENT = "    "
MAX_PUT_CHARACTERS = 10_000_000
"""Maximum characters that a put with a count inserts."""


class VimRegister(Struct, frozen=True):
    """The last deleted or yanked text."""

    text: str = ""
    whole_lines: bool = False


def yank_range(text: str, span: TextRange) -> VimRegister:
    """Return a range of the text as a register."""
    return VimRegister(text[span.start : span.end], span.lines)


def delete_range(text: str, span: TextRange) -> TextAndCursor:
    """Return the text without a range, and the cursor."""
    if not span.lines:
        left = text[: span.start] + text[span.end :]
        return left, clamp_cursor(left, span.start)
    if span.end < len(text):
        left = text[: span.start] + text[span.end + 1 :]
        return left, first_nonblank(left, span.start)
    left = text[: max(0, span.start - 1)]
    return left, first_nonblank(left, len(left))


def put_register(text: str, at: int, register: VimRegister, times: int, *, after: bool) -> TextAndCursor:
    """Return the text with the register's text put after or before the cursor, and the new cursor."""
    times = max(1, min(times, MAX_PUT_CHARACTERS // (len(register.text) + 1)))
    if register.whole_lines:
        block = "\n".join([register.text] * times)
        if after:
            end = line_end(text, at)
            new = f"{text[:end]}\n{block}{text[end:]}"
            return new, first_nonblank(new, end + 1)
        start = line_start(text, at)
        new = f"{text[:start]}{block}\n{text[start:]}"
        return new, first_nonblank(new, start)
    at = min(at + 1, line_end(text, at)) if after else at
    block = register.text * times
    new = text[:at] + block + text[at:]
    return new, clamp_cursor(new, at if "\n" in register.text else at + len(block) - 1)


def join_lines(text: str, at: int, line_count: int) -> TextAndCursor | None:
    """Return the text with the line and the lines below joined, and the cursor; None if there is no line below."""
    end = line_end(text, at)
    if end == len(text):
        return None
    for _ in range(max(1, line_count - 1)):
        following = line_end(text, line_start(text, end))
        if following == len(text):
            break
        end = following
        below = text[end + 1 : line_end(text, end + 1)]
        below_text = below.lstrip(" \t")
        line = text[line_start(text, end) : end]
        space = "" if not below_text or below_text[0] == ")" or line[-1:] in (" ", "\t") or not line else " "
        text = text[:end] + space + below_text + text[end + 1 + len(below) :]
    return text, clamp_cursor(text, end)


def shift_lines(text: str, span: TextRange, times: int, *, right: bool) -> TextAndCursor:
    """Return the text with the lines of a range indented or dedented, and the cursor."""
    start, end = line_start(text, span.start), line_end(text, span.end)
    lines = text[start:end].split("\n")
    for _ in range(min(times, 40)):
        lines = [_shift_line(line, right=right) for line in lines]
    new = text[:start] + "\n".join(lines) + text[end:]
    return new, first_nonblank(new, start)


def _shift_line(line: str, *, right: bool) -> str:
    if right:
        return INDENT + line if line.strip() else line
    if line.startswith("\t"):
        return line[1:]
    return line[min(len(INDENT), len(line) - len(line.lstrip(" "))) :]


def replace_characters(text: str, at: int, character: str, times: int) -> TextAndCursor | None:
    """Return the text with characters from the cursor on replaced, and the cursor; None if the line is too short."""
    if at + times > line_end(text, at):
        return None
    return text[:at] + character * times + text[at + times :], at + times - 1


def swap_case(text: str, at: int, times: int) -> TextAndCursor:
    """Return the text with the case of characters from the cursor on swapped, and the new cursor."""
    end = min(at + times, line_end(text, at))
    new = text[:at] + text[at:end].swapcase() + text[end:]
    return new, clamp_cursor(new, end)


_MAX_UNDO_CHARACTERS = 20_000_000
"""Maximum total characters of the stored texts."""


class UndoHistory:
    """The states to undo and to redo: texts with their cursors, latest last."""

    def __init__(self) -> None:
        self._before: list[TextAndCursor] = []
        self._after: list[TextAndCursor] = []

    def push(self, text: str, cursor: int) -> None:
        """Store the state before a change."""
        self._before.append((text, cursor))
        self._after.clear()
        size = sum(len(stored) for stored, _ in self._before)
        while size > _MAX_UNDO_CHARACTERS and len(self._before) > 1:
            size -= len(self._before.pop(0)[0])

    def drop_unchanged(self, text: str) -> None:
        """Forget the last state if the text has not changed since."""
        if self._before and self._before[-1][0] == text:
            self._before.pop()

    def undo(self, text: str, cursor: int) -> TextAndCursor | None:
        """Return the text and cursor before the last change; None if there is none."""
        return _pop_state(self._before, self._after, text, cursor)

    def redo(self, text: str, cursor: int) -> TextAndCursor | None:
        """Return the last undone state; None if there is none."""
        return _pop_state(self._after, self._before, text, cursor)


def _pop_state(
    source: list[TextAndCursor], target: list[TextAndCursor], text: str, cursor: int
) -> TextAndCursor | None:
    if not source:
        return None
    found = source.pop()
    target.append((text, found[1]))
    return found


_REDO = "ctrl+r"
_NORMAL_MODE_KEY_NAMES = frozenset({_REDO, "space", "backspace"})
"""Named keys with a meaning in normal mode; the text area handles the others."""
_SEARCH_COMMANDS = TEXT_SEARCHES | {"n", "N"}
_LINE_END_COLUMN = float("inf")


class VimMode(StrEnum):
    """A mode of vim, which determines the meaning of the keys."""

    INSERT = "insert"
    NORMAL = "normal"
    VISUAL = "visual"
    LINES = "visual line"


class VimKeyResult(Struct, frozen=True):
    """The effect of a key on the text and the cursor."""

    text: str
    cursor: int
    used: bool = True
    """Whether vim used the key; if not, it has its usual effect."""


class SelectionSize(Struct, frozen=True):
    """The size of a selection, to repeat a command on the same amount of text."""

    whole_lines: bool
    lines: int
    column: int
    """Column of the end; for a single line, counted from the start of the selection."""

    @classmethod
    def from_range(cls, selected: TextRange, text: str, end: int) -> "SelectionSize":
        """Return the size of a selection that ends at `end`."""
        last = max(end, selected.start) if selected.lines else selected.end - 1
        lines = text.count("\n", selected.start, max(selected.start, last)) + 1
        return cls(selected.lines, lines, last - (selected.start if lines == 1 else line_start(text, last)))

    def selection_end(self, text: str, start: int) -> int:
        """Return the last character of a selection of this size that begins at `start`."""
        last = start
        for _ in range(self.lines - 1):
            last = min(line_end(text, last) + 1, len(text))
        first = last if self.lines == 1 else line_start(text, last)
        return min(first + self.column, line_end(text, last))


class VimMachine:
    """The vim state of one text field; other code may change the text between two keys."""

    def __init__(self) -> None:
        self.mode = VimMode.INSERT
        self.pending: list[str] = []
        """Keys of an incomplete command."""
        self.anchor = 0
        """Start of the visual selection."""
        self.register = VimRegister()
        self.has_failed = False
        """Whether the last command was impossible."""
        self.unmatched_query = ""
        """The query of the last search without a match."""
        self._history = UndoHistory()
        self._last_searches = LastSearches()
        self._column: float | None = None
        """The column that `j` and `k` keep; None for the column of the cursor."""
        self._insert_start: TextAndCursor | None = None
        """The text and the cursor at the start of insert mode."""
        self._last_change_keys: list[str] = []
        """The keys of the last change."""
        self._last_inserted_text = ""
        """Text typed in insert mode at the end of the last change."""
        self._selection_size: SelectionSize | None = None
        """Size of the selection for the last change; None if there was none."""
        self._is_repeating = False

    def restart_in_insert_mode(self) -> None:
        """Restart in insert mode without history, because the text was replaced."""
        self.mode, self.pending, self._insert_start = VimMode.INSERT, [], None
        self._history = UndoHistory()

    def clear_history(self) -> None:
        """Forget the history, because other code changed the text."""
        self._history = UndoHistory()

    @property
    def _is_typing_query(self) -> bool:
        """Return whether the user is typing a search query."""
        return not TEXT_SEARCHES.isdisjoint(self.pending)

    @property
    def is_visual(self) -> bool:
        """Return whether a visual mode is active."""
        return self.mode in (VimMode.VISUAL, VimMode.LINES)

    def selected_range(self, text: str, cursor: int) -> TextRange:
        """Return the selected range."""
        start, end = sorted((min(self.anchor, len(text)), cursor))
        if self.mode is VimMode.LINES:
            return TextRange(line_start(text, start), line_end(text, end), lines=True)
        return TextRange(start, min(end + 1, len(text)))

    def press_key(self, key: str, text: str, cursor: int) -> VimKeyResult:
        """Handle a key: a character, or a key name of Textual (`escape`, `ctrl+r`)."""
        self.unmatched_query = ""
        if self.mode is VimMode.INSERT:
            if key != "escape":
                return VimKeyResult(text, cursor, used=False)
            return VimKeyResult(text, self._end_insert(text, cursor))
        if key == "escape":
            used = bool(self.pending) or self.is_visual
            self.pending, self.mode = [], VimMode.NORMAL
            return VimKeyResult(text, clamp_cursor(text, cursor), used)
        if self._is_typing_query and key == "backspace":
            # Delete the last character of the query; if the query is empty, cancel the search.
            del self.pending[-1 if self.pending[-1] not in TEXT_SEARCHES else 0 :]
            return VimKeyResult(text, cursor)
        if len(key) > 1 and key not in _NORMAL_MODE_KEY_NAMES and not (self._is_typing_query and key == "enter"):
            self.pending, self._column = [], None
            return VimKeyResult(text, cursor, used=False)
        self.has_failed = False
        self.pending.append(key)
        command = parse_keys(self.pending, visual=self.is_visual)
        if command == "more":
            return VimKeyResult(text, cursor)
        keys, self.pending = self.pending, []
        if command == "none":
            return VimKeyResult(text, cursor)
        outcome = self._run_command(command, keys, text, clamp_cursor(text, cursor) if not self.is_visual else cursor)
        if self.has_failed and command.name in _SEARCH_COMMANDS:
            self.unmatched_query = self._last_searches.query
        return outcome

    # Commands

    def _run_command(self, command: VimCommand, keys: list[str], text: str, at: int) -> VimKeyResult:
        if command.name in MOTIONS and not command.operator:
            return VimKeyResult(text, self._move_cursor(command, text, at))
        self._column = None
        selection = self.selected_range(text, at) if self.is_visual else None
        selection_size = SelectionSize.from_range(selection, text, at) if selection else None
        if selection:
            new, cursor = self._run_visual_command(command, text, at)
        elif command.operator:
            new, cursor = self._run_operator(command, text, at)
        else:
            new, cursor = self._run_normal_command(command, text, at)
        # In visual mode `u` and `U` change the case.
        steps_through_history = not selection and command.name in ("u", _REDO, "U")
        if new != text and not steps_through_history and not self._is_repeating:
            self._history.push(text, selection.start if selection else at)
        if (new != text or self.mode is VimMode.INSERT) and not steps_through_history and command.name != ".":
            self._last_change_keys, self._last_inserted_text, self._selection_size = keys, "", selection_size
        if self.mode is VimMode.INSERT and not self._is_repeating:
            self._insert_start = new, cursor
            if new == text:
                self._history.push(text, at)
        return VimKeyResult(new, cursor)

    def _move_cursor(self, command: VimCommand, text: str, at: int) -> int:
        self._last_searches = self._last_searches.after_command(command)
        column = self._column if self._column is not None else at - line_start(text, at)
        target = find_motion_target(text, at, command, column, self._last_searches, allow_line_end=self.is_visual)
        if target is None:
            self.has_failed = True
            return at
        if target.moves_to_line_ends:
            self._column = _LINE_END_COLUMN
        elif target.keeps_column:
            self._column = column
        else:
            self._column = None
        allow_line_end = self.is_visual and command.name in ("j", "k", "l", "$")
        return target.position if allow_line_end else clamp_cursor(text, target.position)

    def _run_operator(self, command: VimCommand, text: str, at: int) -> TextAndCursor:
        self._last_searches = self._last_searches.after_command(command)
        span = find_operator_range(text, at, command, at - line_start(text, at), self._last_searches)
        self.has_failed = span is None
        if span is None or (span.start == span.end and not span.lines and command.operator != "c"):
            return text, at
        cursor = at if command.operator == "y" and span.lines and span.start <= at else None
        if command.operator == "y" and span.lines and span.start < line_start(text, at):
            cursor = clamp_cursor(text, min(span.start + at - line_start(text, at), line_end(text, span.start)))
        if command.operator == "y" and command.name in ("gg", "G"):
            target = find_motion_target(text, at, command, 0, self._last_searches)
            cursor = min(at, target.position) if target else cursor
        return self._apply_operator(command.operator, span, text, times=1, cursor=cursor)

    def _apply_operator(
        self, operator: str, span: TextRange, text: str, *, times: int, cursor: int | None = None
    ) -> TextAndCursor:
        match operator:
            case "d":
                self.register = yank_range(text, span)
                return delete_range(text, span)
            case "c":
                self.register = yank_range(text, span)
                self.mode = VimMode.INSERT
                return text[: span.start] + text[span.end :], span.start
            case "y":
                self.register = yank_range(text, span)
                return text, span.start if cursor is None else cursor
        return shift_lines(text, span, times, right=operator == ">")

    def _run_visual_command(self, command: VimCommand, text: str, at: int) -> TextAndCursor:
        span, name = self.selected_range(text, at), command.name
        if name == "object":
            found = text_object_range(text, at, command.argument[0] == "i", command.argument[1])
            self.has_failed = found is None
            if found is not None and found[1] > found[0]:
                self.mode, self.anchor, at = VimMode.VISUAL, found[0], found[1] - 1
            return text, at
        match name:
            case "v" | "V":
                wanted = VimMode.VISUAL if name == "v" else VimMode.LINES
                self.mode = VimMode.NORMAL if self.mode is wanted else wanted
                return text, at if self.is_visual else clamp_cursor(text, at)
            case "o":
                self.anchor, at = at, self.anchor
                return text, at
        self.mode = VimMode.NORMAL
        if name in ("D", "X", "Y", "C", "S"):
            span = TextRange(line_start(text, span.start), line_end(text, span.end), lines=True)
        operator = {"x": "d", "X": "d", "D": "d", "s": "c", "S": "c", "C": "c", "Y": "y"}.get(name, name)
        if operator in ("d", "c", "y", ">", "<"):
            if operator == "y" and at < line_start(text, self.anchor):
                return self._apply_operator("y", span, text, times=1, cursor=clamp_cursor(text, at))
            return self._apply_operator(operator, span, text, times=command.times)
        return self._change_selection(command, span, text, at)

    def _change_selection(self, command: VimCommand, span: TextRange, text: str, at: int) -> TextAndCursor:
        selected_text = text[span.start : span.end]
        cases: dict[str, Callable[[str], str]] = {"~": str.swapcase, "u": str.lower, "U": str.upper}
        if command.name == "r":
            new = "".join(character if character == "\n" else command.argument for character in selected_text)
        elif command.name in cases:
            new = cases[command.name](selected_text)
        elif command.name == "J":
            lines = max(2, selected_text.count("\n") + 1)
            return join_lines(text, span.start, lines) or (text, clamp_cursor(text, span.start))
        elif command.name in ("p", "P"):
            register, self.register = self.register, yank_range(text, span)
            new = register.text if register.whole_lines == span.lines or span.lines else f"\n{register.text}\n"
            left = text[: span.start] + new + text[span.end :]
            last = span.start if register.whole_lines or "\n" in new else span.start + len(new) - 1
            return left, clamp_cursor(left, max(span.start, last))
        else:
            return text, clamp_cursor(text, at)
        return text[: span.start] + new + text[span.end :], clamp_cursor(text, span.start)

    def _run_normal_command(self, command: VimCommand, text: str, at: int) -> TextAndCursor:  # noqa: PLR0911
        name, times = command.name, command.times
        if (same := _SHORTHAND_COMMANDS.get(name)) is not None:
            return self._run_operator(VimCommand(same[1], command.count, same[0]), text, at)
        match name:
            case "i" | "a" | "I" | "A" | "o" | "O":
                return self._begin_insert(name, text, at)
            case "s":
                end = min(at + times, line_end(text, at))
                return self._apply_operator("c", TextRange(at, end), text, times=1)
            case "v" | "V":
                self.mode, self.anchor = (VimMode.VISUAL if name == "v" else VimMode.LINES), at
            case "p" | "P" if self.register.text or self.register.whole_lines:
                return put_register(text, at, self.register, times, after=name == "p")
            case "J":
                return self._record_failure(join_lines(text, at, times), text, at)
            case "r":
                return self._record_failure(replace_characters(text, at, command.argument, times), text, at)
            case "~":
                return swap_case(text, at, times)
            case "u" | "ctrl+r":
                return self._step_through_history(text, at, times, forward=name == _REDO)
            case ".":
                return self._repeat_last_change(text, at)
        return text, at

    def _record_failure(self, done: TextAndCursor | None, text: str, at: int) -> TextAndCursor:
        self.has_failed = done is None
        return done or (text, at)

    def _step_through_history(self, text: str, at: int, times: int, *, forward: bool) -> TextAndCursor:
        for _ in range(times):
            found = self._history.redo(text, at) if forward else self._history.undo(text, at)
            if found is None:
                break
            text, at = found
        return text, clamp_cursor(text, min(at, len(text)))

    # Inserting

    def _begin_insert(self, name: str, text: str, at: int) -> TextAndCursor:
        self.mode = VimMode.INSERT
        start, end = line_start(text, at), line_end(text, at)
        match name:
            case "a":
                at = min(at + 1, end)
            case "I":
                nonblank = first_nonblank(text, at)
                at = end if not text[start:end].strip() else nonblank
            case "A":
                at = end
            case "o":
                return f"{text[:end]}\n{text[end:]}", end + 1
            case "O":
                return f"{text[:start]}\n{text[start:]}", start
        return text, at

    def _end_insert(self, text: str, cursor: int) -> int:
        self.mode, self.pending = VimMode.NORMAL, []
        if self._insert_start is not None:
            before, at = self._insert_start
            self._insert_start = None
            self._last_inserted_text = find_inserted_text(before, text, at)
            self._history.drop_unchanged(text)
        return max(line_start(text, cursor), cursor - 1)

    def _repeat_last_change(self, text: str, at: int) -> TextAndCursor:
        """Repeat the last change, with the text typed in it."""
        keys, inserted, selection_size = self._last_change_keys, self._last_inserted_text, self._selection_size
        command = parse_keys(keys, visual=selection_size is not None) if keys else "none"
        if isinstance(command, str):
            return text, at
        if selection_size is not None:
            self.mode, self.anchor = VimMode.LINES if selection_size.whole_lines else VimMode.VISUAL, at
            at = selection_size.selection_end(text, at)
        self._is_repeating = True
        try:
            outcome = self._run_command(command, keys, text, at)
        finally:
            self._is_repeating = False
        text, at = outcome.text, outcome.cursor
        if self.mode is VimMode.INSERT:
            text, at = text[:at] + inserted + text[at:], at + len(inserted)
            self.mode = VimMode.NORMAL
            at = max(line_start(text, at), at - 1)
        self._last_change_keys, self._last_inserted_text, self._selection_size = keys, inserted, selection_size
        return text, at


_SHORTHAND_COMMANDS = {"x": "dl", "X": "dh", "D": "d$", "C": "c$", "S": ("c", "line"), "Y": ("y", "line")}
"""Operator and motion for commands with a single key."""


def find_inserted_text(before: str, after: str, position: int) -> str:
    """Return the text typed at a position; empty if the rest of the text has changed."""
    head, tail = before[:position], before[position:]
    if after.startswith(head) and after.endswith(tail):
        return after[len(head) : len(after) - len(tail)]
    return ""
