"""The state machine: a key, a text and a cursor in, what becomes of both out."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from app.vim import changes
from app.vim.changes import Register
from app.vim.history import History
from app.vim.keys import MOTIONS, SEARCHES, Command, parse
from app.vim.motions import Sought, Stretch, move, stretch
from app.vim.objects import text_object
from app.vim.words import first_nonblank, line_end, line_start, on_character

_REDO = "ctrl+r"
_KEYS = frozenset({_REDO, "space", "backspace"})
"""Keys with names that mean something in normal mode; others are left to whoever shows the text."""
_SEARCHED = SEARCHES | {"n", "N"}
_END = float("inf")


class Mode(StrEnum):
    """What keys do."""

    INSERT = "insert"
    NORMAL = "normal"
    VISUAL = "visual"
    LINES = "visual line"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a key."""

    text: str
    cursor: int
    taken: bool = True
    """Whether the key is used up; else it does what it does without vim's keys."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much was selected, for the same to be done to as much elsewhere."""

    whole_lines: bool
    lines: int
    column: int
    """Of its end: of one line, counted from its start."""

    @classmethod
    def of(cls, what: Stretch, text: str, end: int) -> "Extent":
        """Of what is selected up to `end`, or down to it."""
        last = max(end, what.start) if what.lines else what.end - 1
        lines = text.count("\n", what.start, max(what.start, last)) + 1
        return cls(what.lines, lines, last - (what.start if lines == 1 else line_start(text, last)))

    def end_from(self, text: str, at: int) -> int:
        """The last character of as much, from a place on."""
        last = at
        for _ in range(self.lines - 1):
            last = min(line_end(text, last) + 1, len(text))
        start = last if self.lines == 1 else line_start(text, last)
        return min(start + self.column, line_end(text, last))


class Vim:
    """One text field's keys. Between two keys the text may change by other hands."""

    def __init__(self) -> None:
        """Ready to insert."""
        self.mode = Mode.INSERT
        self.pending: list[str] = []
        """Keys that are not a whole command yet."""
        self.anchor = 0
        """Where the visual selection began."""
        self.register = Register()
        self.failed = False
        """Whether the last command could not be done."""
        self.missed = ""
        """What it has looked for in the text and not found."""
        self._history = History()
        self._sought = Sought()
        self._column: float | None = None
        """Where `j` and `k` want to be; None for where the cursor is."""
        self._inserting: tuple[str, int] | None = None
        """The text and the cursor when inserting began."""
        self._last: list[str] = []
        """The keys of the last change."""
        self._inserted = ""
        """What was typed in the end of it."""
        self._extent: Extent | None = None
        """Of what was selected for it; None if nothing was."""
        self._repeating = False

    def reset(self) -> None:
        """Another text: ready to insert, and nothing to take back."""
        self.mode, self.pending, self._inserting = Mode.INSERT, [], None
        self._history = History()

    def forget(self) -> None:
        """The text has changed by other hands: what was before it is not to be taken back."""
        self._history = History()

    @property
    def _searches(self) -> bool:
        """Whether what is looked for is being typed."""
        return not SEARCHES.isdisjoint(self.pending)

    @property
    def visual(self) -> bool:
        """Whether something is selected."""
        return self.mode in (Mode.VISUAL, Mode.LINES)

    def selected(self, text: str, cursor: int) -> Stretch:
        """What is selected."""
        start, end = sorted((min(self.anchor, len(text)), cursor))
        if self.mode is Mode.LINES:
            return Stretch(line_start(text, start), line_end(text, end), lines=True)
        return Stretch(start, min(end + 1, len(text)))

    def press(self, key: str, text: str, cursor: int) -> Outcome:
        """Take a key: a character, or a name of Textual's (`escape`, `ctrl+r`)."""
        self.missed = ""
        if self.mode is Mode.INSERT:
            if key != "escape":
                return Outcome(text, cursor, taken=False)
            return Outcome(text, self._end_insert(text, cursor))
        if key == "escape":
            used = bool(self.pending) or self.visual
            self.pending, self.mode = [], Mode.NORMAL
            return Outcome(text, on_character(text, cursor), used)
        if self._searches and key == "backspace":
            # What is looked for loses its last character, and with the sign before it the search is given up.
            del self.pending[-1 if self.pending[-1] not in SEARCHES else 0 :]
            return Outcome(text, cursor)
        if len(key) > 1 and key not in _KEYS and not (self._searches and key == "enter"):
            self.pending, self._column = [], None
            return Outcome(text, cursor, taken=False)
        self.failed = False
        self.pending.append(key)
        command = parse(self.pending, visual=self.visual)
        if command == "more":
            return Outcome(text, cursor)
        keys, self.pending = self.pending, []
        if command == "none":
            return Outcome(text, cursor)
        outcome = self._run(command, keys, text, on_character(text, cursor) if not self.visual else cursor)
        if self.failed and command.name in _SEARCHED:
            self.missed = self._sought.words
        return outcome

    # Commands

    def _run(self, command: Command, keys: list[str], text: str, at: int) -> Outcome:
        if command.name in MOTIONS and not command.operator:
            return Outcome(text, self._moved(command, text, at))
        self._column = None
        extent = Extent.of(self.selected(text, at), text, at) if self.visual else None
        if self.visual:
            new, cursor = self._in_visual(command, text, at)
        elif command.operator:
            new, cursor = self._operate(command, text, at)
        else:
            new, cursor = self._single(command, text, at)
        if new != text and command.name not in ("u", _REDO, "U") and not self._repeating:
            self._history.keep(text, at)
        if (new != text or self.mode is Mode.INSERT) and command.name not in ("u", _REDO, "."):
            self._last, self._inserted, self._extent = keys, "", extent
        if self.mode is Mode.INSERT and not self._repeating:
            self._inserting = new, cursor
            if new == text:
                self._history.keep(text, at)
        return Outcome(new, cursor)

    def _moved(self, command: Command, text: str, at: int) -> int:
        self._sought = self._sought.with_command(command)
        column = self._column if self._column is not None else at - line_start(text, at)
        found = move(text, at, command, column, self._sought, onto_end=self.visual)
        if found is None:
            self.failed = True
            return at
        if found.to_end:
            self._column = _END
        elif found.keeps_column:
            self._column = column
        else:
            self._column = None
        onto_end = self.visual and command.name in ("j", "k", "l", "$")
        return found.to if onto_end else on_character(text, found.to)

    def _operate(self, command: Command, text: str, at: int) -> tuple[str, int]:
        self._sought = self._sought.with_command(command)
        what = stretch(text, at, command, at - line_start(text, at), self._sought)
        self.failed = what is None
        if what is None or (what.start == what.end and not what.lines and command.operator != "c"):
            return text, at
        cursor = at if command.operator == "y" and what.lines and what.start <= at else None
        if command.operator == "y" and what.lines and what.start < line_start(text, at):
            cursor = on_character(text, min(what.start + at - line_start(text, at), line_end(text, what.start)))
        if command.operator == "y" and command.name in ("gg", "G"):
            moved = move(text, at, command, 0, self._sought)
            cursor = min(at, moved.to) if moved else cursor
        return self._apply(command.operator, what, text, times=1, cursor=cursor)

    def _apply(
        self, operator: str, what: Stretch, text: str, *, times: int, cursor: int | None = None
    ) -> tuple[str, int]:
        match operator:
            case "d":
                self.register = changes.taken(text, what)
                return changes.delete(text, what)
            case "c":
                self.register = changes.taken(text, what)
                self.mode = Mode.INSERT
                return text[: what.start] + text[what.end :], what.start
            case "y":
                self.register = changes.taken(text, what)
                return text, what.start if cursor is None else cursor
        return changes.shift(text, what, times, right=operator == ">")

    def _in_visual(self, command: Command, text: str, at: int) -> tuple[str, int]:
        what, name = self.selected(text, at), command.name
        if name == "object":
            found = text_object(text, at, command.argument[0] == "i", command.argument[1])
            self.failed = found is None
            if found is not None and found[1] > found[0]:
                self.mode, self.anchor, at = Mode.VISUAL, found[0], found[1] - 1
            return text, at
        match name:
            case "v" | "V":
                wanted = Mode.VISUAL if name == "v" else Mode.LINES
                self.mode = Mode.NORMAL if self.mode is wanted else wanted
                return text, at if self.visual else on_character(text, at)
            case "o":
                self.anchor, at = at, self.anchor
                return text, at
        self.mode = Mode.NORMAL
        if name in ("D", "X", "Y", "C", "S"):
            what = Stretch(line_start(text, what.start), line_end(text, what.end), lines=True)
        operator = {"x": "d", "X": "d", "D": "d", "s": "c", "S": "c", "C": "c", "Y": "y"}.get(name, name)
        if operator in ("d", "c", "y", ">", "<"):
            if operator == "y" and at < line_start(text, self.anchor):
                return self._apply("y", what, text, times=1, cursor=on_character(text, at))
            return self._apply(operator, what, text, times=command.times)
        return self._changed_selection(command, what, text, at)

    def _changed_selection(self, command: Command, what: Stretch, text: str, at: int) -> tuple[str, int]:
        chosen = text[what.start : what.end]
        cases: dict[str, Callable[[str], str]] = {"~": str.swapcase, "u": str.lower, "U": str.upper}
        if command.name == "r":
            new = "".join(character if character == "\n" else command.argument for character in chosen)
        elif command.name in cases:
            new = cases[command.name](chosen)
        elif command.name == "J":
            lines = max(2, chosen.count("\n") + 1)
            return changes.join(text, what.start, lines) or (text, on_character(text, what.start))
        elif command.name in ("p", "P"):
            register, self.register = self.register, changes.taken(text, what)
            new = register.text if register.lines == what.lines or what.lines else f"\n{register.text}\n"
            left = text[: what.start] + new + text[what.end :]
            last = what.start if register.lines or "\n" in new else what.start + len(new) - 1
            return left, on_character(left, max(what.start, last))
        else:
            return text, on_character(text, at)
        return text[: what.start] + new + text[what.end :], on_character(text, what.start)

    def _single(self, command: Command, text: str, at: int) -> tuple[str, int]:  # noqa: PLR0911
        name, times = command.name, command.times
        if (same := _SAME_AS.get(name)) is not None:
            return self._operate(Command(same[1], command.count, same[0]), text, at)
        match name:
            case "i" | "a" | "I" | "A" | "o" | "O":
                return self._begin_insert(name, text, at)
            case "s":
                end = min(at + times, line_end(text, at))
                return self._apply("c", Stretch(at, end), text, times=1)
            case "v" | "V":
                self.mode, self.anchor = (Mode.VISUAL if name == "v" else Mode.LINES), at
            case "p" | "P" if self.register.text or self.register.lines:
                return changes.put(text, at, self.register, times, after=name == "p")
            case "J":
                return self._done(changes.join(text, at, times), text, at)
            case "r":
                return self._done(changes.replace(text, at, command.argument, times), text, at)
            case "~":
                return changes.swap_case(text, at, times)
            case "u" | "ctrl+r":
                return self._turn_back(text, at, times, forward=name == _REDO)
            case ".":
                return self._repeat(text, at)
        return text, at

    def _done(self, done: tuple[str, int] | None, text: str, at: int) -> tuple[str, int]:
        self.failed = done is None
        return done or (text, at)

    def _turn_back(self, text: str, at: int, times: int, *, forward: bool) -> tuple[str, int]:
        for _ in range(times):
            found = self._history.again(text, at) if forward else self._history.back(text, at)
            if found is None:
                break
            text, at = found
        return text, on_character(text, min(at, len(text)))

    # Inserting

    def _begin_insert(self, name: str, text: str, at: int) -> tuple[str, int]:
        self.mode = Mode.INSERT
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
        self.mode, self.pending = Mode.NORMAL, []
        if self._inserting is not None:
            before, at = self._inserting
            self._inserting = None
            self._inserted = typed_between(before, text, at)
            self._history.drop_same(text)
        return max(line_start(text, cursor), cursor - 1)

    def _repeat(self, text: str, at: int) -> tuple[str, int]:
        """The last change once more, with what was typed in it."""
        keys, inserted, extent = self._last, self._inserted, self._extent
        command = parse(keys, visual=extent is not None) if keys else "none"
        if isinstance(command, str):
            return text, at
        if extent is not None:
            self.mode, self.anchor = Mode.LINES if extent.whole_lines else Mode.VISUAL, at
            at = extent.end_from(text, at)
        self._repeating = True
        try:
            outcome = self._run(command, keys, text, at)
        finally:
            self._repeating = False
        text, at = outcome.text, outcome.cursor
        if self.mode is Mode.INSERT:
            text, at = text[:at] + inserted + text[at:], at + len(inserted)
            self.mode = Mode.NORMAL
            at = max(line_start(text, at), at - 1)
        self._last, self._inserted, self._extent = keys, inserted, extent
        return text, at


_SAME_AS = {
    "x": "dl",
    "X": "dh",
    "D": "d$",
    "C": "c$",
    "S": ("c", "line"),
    "Y": ("y", "line"),
}
"""Operator and motion of what has a key of its own."""


def typed_between(before: str, after: str, at: int) -> str:
    """What was typed at a place, as far as the rest of the text is as it was."""
    head, tail = before[:at], before[at:]
    if after.startswith(head) and after.endswith(tail):
        return after[len(head) : len(after) - len(tail)]
    return ""
