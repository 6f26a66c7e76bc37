"""From a row to a strip of styled text: gutters, signs, code, heads of files, folds, notes and comments."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.selection import Selection
from textual.strip import Strip

from app.proposals.models import FileDiff, HunkState, Op
from widgets.diff.cells import DisplayText, display
from widgets.diff.marks import Marks
from widgets.diff.rows import BlankRow, CommentRow, FileRow, FoldRow, LineRow, NoteRow, Row, Side
from widgets.diff.syntax import Syntax

RIGHT_SIDE = 1 << 20
"""Added to the selection offsets of the right half, so that the two halves are told apart."""

_WORD, _MATCH, _CURRENT, _UNSAFE, _TRAILING, _SELECTED = 1, 2, 4, 8, 16, 32

_OPS = {
    Op.CREATE: ("+", "new file"),
    Op.EDIT: ("~", ""),
    Op.DELETE: ("-", "deleted"),
    Op.RENAME: ("→", "renamed"),
    Op.MODE: ("±", "mode"),
}

_NOTE_GLYPHS = {"note": "·", "warning": "!", "error": "✗", "plain": " ", "done": "✓"}
_NOTE_CLASSES = {
    "note": "diff--note",
    "warning": "diff--warning",
    "error": "diff--problem",
    "plain": "diff--plain",
    "done": "diff--done",
}

StyleOf = Callable[[tuple[str, ...]], Style]
"""The Rich style of component classes laid over each other."""


@dataclass(slots=True)
class Scene:
    """All that a row's looks depend on, apart from the row itself."""

    diffs: Sequence[FileDiff] = ()
    marks: Marks = field(default_factory=lambda: Marks(()))
    syntax: Syntax = field(default_factory=lambda: Syntax((), lambda file, side: ()))
    width: int = 80
    """Cells of the whole row."""
    split: bool = False
    scroll: int = 0
    """Cells scrolled to the right."""
    digits: int = 3
    """Cells of a line number."""
    left_out: frozenset[str] = frozenset()
    """Ids of hunks that an approval would not write."""
    undecided: bool = True
    """Whether the proposal still waits."""
    collapsed: frozenset[int] = frozenset()
    comments: Sequence[str] = ()
    query: str = ""
    """What is searched for; lower-case text matches both cases."""
    found: tuple[int, Side, int] | None = None
    """The line of the current match."""

    @property
    def gutter(self) -> int:
        """Cells before the code; before the left code, when side by side."""
        return self.digits + 5 if self.split else 2 * self.digits + 6

    @property
    def code_width(self) -> int:
        """Cells for code, on one side."""
        if not self.split:
            return max(1, self.width - self.gutter)
        return max(1, (self.width - 2 * self.gutter + 1) // 2)

    def line(self, file: int, side: Side, number: int) -> str:
        """A line of source."""
        diff = self.diffs[file]
        return diff.old[number] if side == "old" else diff.new[number]


class Painter:
    """Draws rows."""

    def __init__(self, scene: Scene, style: StyleOf) -> None:
        self.scene = scene
        self.style = style

    def paint(self, row: Row, part: int, y: int, *, cursor: str = "", selection: Selection | None = None) -> Strip:
        """One terminal line.

        `part` counts the lines of a wrapped row, `y` is the line in the whole diff (for text selection), `cursor` is
        the component class of the cursor or empty.
        """
        match row:
            case LineRow():
                return self._line(row, part, y, cursor, selection)
            case FileRow():
                return self._file(row, cursor)
            case FoldRow():
                text = f"⋯ {row.lines:,} unchanged lines"
                enclosing = self._enclosing(row)
                classes = ("diff--plain", "diff--fold", *self._over(cursor))
                return self._full([(" " * (self.scene.gutter - 2) + text, classes), (enclosing, classes)], classes)
            case NoteRow():
                return self._note(row, part, y, cursor)
            case CommentRow():
                return self._comment(row, part, cursor)
            case BlankRow():
                return self._full([], ("diff--plain", *self._over(cursor)))

    def _enclosing(self, row: FoldRow) -> str:
        """The definition that the code after a fold belongs to, as in Git's hunk headers."""
        lines = self.scene.diffs[row.file].new
        end = row.new_start + row.lines
        for number in range(end - 1, max(-1, end - 400), -1):
            line = lines[number]
            if line[:1].isalpha() or line[:1] in "_$@#":
                return "  " + display(line[:200]).text.rstrip(" {:") if len(line) < 400 else ""
        return ""

    @staticmethod
    def _over(cursor: str) -> tuple[str, ...]:
        return (cursor,) if cursor else ()

    def _full(self, pieces: Iterable[tuple[str, tuple[str, ...]]], classes: tuple[str, ...]) -> Strip:
        """Pieces of safe text, cropped and padded to the width of the row."""
        segments = [Segment(text, self.style(over)) for text, over in pieces if text]
        return Strip(segments).adjust_cell_length(self.scene.width, self.style(classes))

    def _file(self, row: FileRow, cursor: str) -> Strip:
        change = self.scene.diffs[row.file].change
        glyph, word = _OPS[change.op]
        over = self._over(cursor)
        head, quiet = ("diff--file", *over), ("diff--file-quiet", *over)
        kind = {"+": "diff--file-added", "-": "diff--file-removed"}.get(glyph, "diff--file")
        name = display(change.path).text
        if change.op is Op.RENAME and change.old_path:
            name = f"{display(change.old_path).text} → {name}"
        facts: list[tuple[str, tuple[str, ...]]] = []
        if word:
            facts.append((f"{word}  ", quiet))
        if change.added or not change.removed:
            facts.append((f"+{change.added:,}", ("diff--file-added", *over)))
        if change.removed or not change.added:
            facts.append((f"{' ' if facts else ''}-{change.removed:,}", ("diff--file-removed", *over)))
        waiting = [hunk for hunk in change.hunks if hunk.state is HunkState.PENDING]
        if waiting and self.scene.undecided:
            chosen = sum(hunk.id not in self.scene.left_out for hunk in waiting)
            facts.append(
                (
                    f"  {chosen} of {len(waiting)} chosen",
                    quiet if chosen == len(waiting) else ("diff--file-warning", *over),
                )
            )
        elif change.hunks:
            facts.append((f"  {len(change.hunks)} hunk{'s' * (len(change.hunks) != 1)}", quiet))
        facts.append((" ", quiet))
        room = self.scene.width - sum(cell_len(text) for text, _ in facts) - 6
        if cell_len(name) > room:
            name = "…" + _last_cells(name, max(4, room - 1))
        arrow = "▸" if row.file in self.scene.collapsed else "▾"
        gap = " " * max(1, room - cell_len(name) + 1)
        return self._full(
            [(f"{arrow} ", quiet), (f"{glyph} ", (kind, *over)), (name, head), (gap, quiet), *facts], head
        )

    def _note(self, row: NoteRow, part: int, y: int, cursor: str) -> Strip:
        indent = 2 if row.file < 0 else 4
        classes = ("diff--plain", _NOTE_CLASSES[row.level], *self._over(cursor))
        shown = display(row.text)
        room = max(1, self.scene.width - indent - 2)
        start, end, _ = shown.cut(part * room, (part + 1) * room)
        glyph = _NOTE_GLYPHS[row.level] if not part else " "
        if row.key and row.level == "note":
            glyph = "☐"
        return self._full(
            [(" " * (indent - 2), classes), (f"{glyph} ", classes), (shown.text[start:end], classes)], classes
        )

    def _comment(self, row: CommentRow, part: int, cursor: str) -> Strip:
        over = self._over(cursor)
        indent = min(self.scene.gutter, 12) - 2
        lines = comment_lines(row.text, self.scene.width - indent - 4)
        text = lines[part] if part < len(lines) else ""
        classes = ("diff--plain", "diff--comment", *over)
        bar = ("diff--plain", "diff--comment-bar", *over)
        return self._full(
            [
                (" " * indent, ("diff--plain", *over)),
                ("▌ " if part or not indent else "▌ ", bar),
                (text, classes),
            ],
            classes,
        )

    def _line(self, row: LineRow, part: int, y: int, cursor: str, selection: Selection | None) -> Strip:
        state = self._state(row, part, cursor)
        if not self.scene.split:
            side: Side = "old" if row.new is None else "new"
            numbers = (row.old, row.new)
            segments = [state, *self._side(row, side, numbers, part, y, cursor, selection)]
            return Strip(segments, self.scene.width).adjust_cell_length(self.scene.width)
        left = self._side(row, "old", (row.old,), part, y, cursor, selection)
        right = self._side(row, "new", (row.new,), part, y, cursor, selection)
        middle = Segment("│", self.style(("diff--plain", "diff--filler", *self._over(cursor))))
        plain = self.style(("diff--plain", *self._over(cursor)))
        return Strip([state, *left, middle, *right]).adjust_cell_length(self.scene.width, plain)

    def _state(self, row: LineRow, part: int, cursor: str) -> Segment:
        """The two cells that say what becomes of the hunk."""
        over = self._over(cursor)
        if row.hunk is None:
            return Segment("  ", self.style(("diff--plain", *over)))
        hunk = self.scene.diffs[row.file].change.hunks[row.hunk]
        first = row.position == 0 and part == 0
        if hunk.state is HunkState.APPLIED:
            glyph, name = "✓" if first else "│", "diff--state-done"
        elif hunk.state is HunkState.DENIED:
            glyph, name = "✗" if first else "┊", "diff--state-denied"
        elif not self.scene.undecided:
            glyph, name = "│", "diff--gutter"
        elif hunk.id in self.scene.left_out:
            glyph, name = "○" if first else "┊", "diff--state-out"
        else:
            glyph, name = "●" if first else "┃", "diff--state"
        mark = "↻" if first and hunk.repeat_of else " "
        return Segment(glyph + mark, self.style(("diff--plain", name, *over)))

    def _side(
        self,
        row: LineRow,
        side: Side,
        numbers: tuple[int | None, ...],
        part: int,
        y: int,
        cursor: str,
        selection: Selection | None,
    ) -> list[Segment]:
        """Line numbers, sign and code of one side, or of both in the unified view."""
        scene, over = self.scene, self._over(cursor)
        number = row.old if side == "old" else row.new
        width = scene.code_width
        if number is None:
            filler = self.style(("diff--plain", "diff--filler", *over))
            return [Segment("╱" * (scene.digits + 3 + width), filler)]
        kind, sign, ranges = self._kind(row, side, number)
        dim = self._left_out(row)
        gutter = ("diff--plain", f"diff--gutter-{kind}" if kind and not dim else "diff--gutter", *over)
        texts = [str(value + 1) if value is not None and not part else "" for value in numbers]
        label = " ".join(text.rjust(scene.digits) for text in texts)
        sign = sign if not part else "  "
        code = (
            "diff--plain",
            *((f"diff--{kind}",) if kind and not dim else ()),
            *(("diff--left-out",) if dim else ()),
        )
        shown = display(scene.line(row.file, side, number))
        offset = scene.scroll if not part else 0
        start = part * width + offset
        segments = self._code(shown, row, side, number, ranges, code, over, start, width, y, selection, dim)
        return [Segment(f"{label} {sign}", self.style(gutter)), *segments]

    def _kind(self, row: LineRow, side: Side, number: int) -> tuple[str, str, Sequence[tuple[int, int]]]:
        """The kind of a line, its sign, and its changed characters."""
        if row.hunk is None:
            return "", "  ", ()
        ranges, spaces = self.scene.marks.words(row.file, row.hunk, side, number)
        sign, kind = ("-", "removed") if side == "old" else ("+", "added")
        if spaces:
            return kind, f"{sign}␣", ranges
        if (row.file, side, number) in self.scene.marks.moved:
            return "moved", f"{sign}»" if side == "old" else f"{sign}«", ()
        return kind, f"{sign} ", ranges

    def _left_out(self, row: LineRow) -> bool:
        if row.hunk is None:
            return False
        hunk = self.scene.diffs[row.file].change.hunks[row.hunk]
        return hunk.state is HunkState.DENIED or (
            hunk.state is HunkState.PENDING and self.scene.undecided and hunk.id in self.scene.left_out
        )

    def _code(
        self,
        shown: DisplayText,
        row: LineRow,
        side: Side,
        number: int,
        ranges: Sequence[tuple[int, int]],
        base: tuple[str, ...],
        over: tuple[str, ...],
        start: int,
        width: int,
        y: int,
        selection: Selection | None,
        dim: bool,
    ) -> list[Segment]:
        """The visible cells of a line, with tokens, changed words, matches and the selection."""
        first, last, blank = shown.cut(start, start + width)
        text = shown.text[first:last]
        tokens = [""] * len(text)
        flags = [0] * len(text)

        def mark(begin: int, end: int, flag: int) -> None:
            for index in range(max(begin - first, 0), min(end - first, len(text))):
                flags[index] |= flag

        if text and not dim:
            syntax_side: Side = side if row.hunk is not None else "new"
            line = number if row.hunk is not None or side == "new" else row.new
            for begin, end, name in self.scene.syntax.spans(row.file, syntax_side, number if line is None else line):
                low, high = shown.drawn(begin) - first, shown.drawn(end) - first
                if low >= len(text):
                    break
                if high > 0:
                    low, high = max(low, 0), min(high, len(text))
                    tokens[low:high] = [name] * (high - low)
        for begin, end in ranges:
            mark(shown.drawn(begin), shown.drawn(end), _WORD)
        for begin, end in shown.replaced:
            mark(begin, end, _UNSAFE)
        if row.hunk is not None and side == "new":
            mark(len(shown.text.rstrip(" ")), len(shown.text), _TRAILING)
        if self.scene.query:
            current = _CURRENT if self.scene.found == (row.file, side, number) else 0
            for begin in occurrences(shown.text, self.scene.query):
                mark(begin, begin + len(self.scene.query), _MATCH | current)
        column = RIGHT_SIDE if self.scene.split and side == "new" else 0
        if selection is not None and (span := selected(selection, y, self.scene.split, side)) is not None:
            mark(span[0], len(shown.text) if span[1] < 0 else span[1], _SELECTED)
        word = "diff--removed-word" if side == "old" else "diff--added-word"
        segments = self._runs(text, tokens, flags, base, over, word, first + column, y)
        plain = self.style((*base, *over))
        if blank:
            segments.insert(0, Segment(" " * blank, plain))
        used = blank + shown.cell(last) - shown.cell(first)
        padding = width - used
        if last == len(shown.text) and self._no_final_newline(row.file, side, number):
            suffix = set_cell_size(" ∅ no newline at end", max(0, min(padding, 20)))
            segments.append(Segment(suffix, self.style((*base, "diff--note", *over))))
            padding -= len(suffix)
        if padding > 0:
            meta = Style.from_meta({"offset": (last + column, y)})
            segments.append(Segment(" " * padding, plain + meta))
        return segments

    def _runs(
        self,
        text: str,
        tokens: list[str],
        flags: list[int],
        base: tuple[str, ...],
        over: tuple[str, ...],
        word: str,
        offset: int,
        y: int,
    ) -> list[Segment]:
        segments: list[Segment] = []
        at = 0
        for (token, flag), run in groupby(zip(tokens, flags, strict=True)):
            length = sum(1 for _ in run)
            classes = [*base]
            if token:
                classes.append(token)
            if flag & _WORD:
                classes.append(word)
            if flag & _TRAILING:
                classes.append("diff--trailing")
            classes += over
            if flag & _UNSAFE:
                classes.append("diff--unsafe")
            if flag & _MATCH:
                classes.append("diff--match-current" if flag & _CURRENT else "diff--match")
            if flag & _SELECTED:
                classes.append("screen--selection")
            meta = Style.from_meta({"offset": (offset + at, y)})
            segments.append(Segment(text[at : at + length], self.style(tuple(classes)) + meta))
            at += length
        return segments

    def _no_final_newline(self, file: int, side: Side, number: int) -> bool:
        diff = self.scene.diffs[file]
        if side == "old":
            return not diff.old_final_newline and number == len(diff.old) - 1
        return not diff.new_final_newline and number == len(diff.new) - 1


def selected(selection: Selection, y: int, split: bool, side: Side) -> tuple[int, int] | None:
    """The selected characters of the code on a terminal line; -1 stands for its end."""
    span = selection.get_span(y)
    if span is None or not split:
        return span
    right = selection.start is not None and selection.start.x >= RIGHT_SIDE
    if right != (side == "new"):
        return None
    start, end = span
    if right:
        return max(0, start - RIGHT_SIDE), end if end < 0 else max(0, end - RIGHT_SIDE)
    return start, -1 if end >= RIGHT_SIDE else end


def occurrences(text: str, query: str) -> list[int]:
    """Where a query occurs; case counts only if the query has upper-case letters."""
    if query == query.lower():
        text = text.lower()
    found: list[int] = []
    at = text.find(query)
    while at >= 0:
        found.append(at)
        at = text.find(query, at + len(query))
    return found


def comment_lines(text: str, width: int) -> list[str]:
    """A remark as safe lines of at most `width` cells, broken between words where that is possible."""
    lines: list[str] = []
    for line in text.split("\n"):
        current = ""
        for word in display(line).text.split(" "):
            candidate = f"{current} {word}" if current else word
            if cell_len(candidate) <= width:
                current = candidate
                continue
            if current:
                lines.append(current)
            current = word
            while cell_len(current) > width:
                lines.append(set_cell_size(current, width))
                current = current[len(lines[-1].rstrip()) or 1 :]
        lines.append(current)
    return lines


def _last_cells(text: str, width: int) -> str:
    """The end of a text, at most `width` cells."""
    while cell_len(text) > width:
        text = text[1:]
    return text
