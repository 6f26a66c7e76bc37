"""Tool calls: one quiet line each, which opens to the arguments and the result."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from widgets.chat.entries.entry_base import EntryMarks, TranscriptEntry
from widgets.chat.markdown.highlighted_code import lay_out_code
from widgets.chat.markdown.styled_lines import (
    MUTED_STYLE,
    TEXT_STYLE,
    Span,
    StyledLine,
    TextStyle,
    cell_width,
    format_seconds,
    hidden_lines_note,
    make_safe_text,
    shorten_path,
    shorten_text,
)

TOOL_VERBS = {
    "read_file": "Read",
    "list_files": "List",
    "search_text": "Search",
    "edit_file": "Edit",
    "write_file": "Write",
    "delete_file": "Delete",
    "rename_file": "Rename",
    "apply_patch": "Patch",
    "ask_user": "Ask",
    "write_todos": "To do",
    "run_command": "Run",
}
"""How the transcript calls a tool; others go by their own name."""


def call_target(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the target of a call as text from the model: not made safe, not shortened."""

    def get(key: str) -> str:
        value = arguments.get(key)
        return "" if value is None else str(value)

    match name:
        case "read_file":
            start, end = get("start_line"), get("end_line")
            lines = f":{start or '1'}-{end}" if end else f":{start}-" if start else ""
            return get("path") + lines
        case "list_files":
            return " ".join(part for part in (get("path") or ".", get("pattern")) if part)
        case "search_text":
            places = [part for part in (get("path"), get("glob")) if part]
            return f"“{get('pattern')}”" + (f" in {' '.join(places)}" if places else "")
        case "rename_file":
            return f"{get('path')} → {get('new_path')}"
        case "apply_patch":
            names = dict.fromkeys(
                line[6:].strip()
                for line in get("patch").split("\n")
                if line.startswith(("+++ b/", "--- a/")) and line[6:].strip()
            )
            return ", ".join(names)
        case "run_command":
            return get("command")
        case _:
            return get("path") or next((str(value) for value in arguments.values() if isinstance(value, str)), "")


MAX_DETAIL_ROWS = 300
"""Rows of a tool's result shown when its line is opened."""
_LEAST_TARGET = 8
"""Cells for what a tool works on, the end of a path or the beginning of a command, before what came of it is cut."""
_LIVE_ROWS, _LIVE_CHARACTERS = 5, 4000
"""Rows of output shown under a running command, and how much of its end is looked at for them."""

ToolStatus = Literal[
    "writing", "waiting", "running", "asking", "ok", "error", "staged", "refused", "rejected", "aborted", "invalid"
]
"""`writing`: the model is still writing the call; `asking`: it waits for the user's permission; at the end
`app.conversation.events.VimResult`."""

_TOOL_WORDS = {
    "waiting": "waits",
    "running": "running",
    "asking": "needs your permission",
    "refused": "not run: signoff had stopped the turn",
    "rejected": "you said no",
    "aborted": "interrupted",
    "invalid": "not a valid call",
    "error": "failed",
}


_MARKS: dict[ToolStatus, Span] = {
    "writing": ("… ", TextStyle("muted")),
    "waiting": ("◌ ", TextStyle("muted")),
    "running": ("◐ ", TextStyle("warning")),
    "asking": ("! ", TextStyle("warning", bold=True)),
    "ok": ("✓ ", TextStyle("success")),
    "staged": ("◆ ", TextStyle("warning")),
    "error": ("✗ ", TextStyle("error")),
    "refused": ("⊘ ", TextStyle("muted")),
    "rejected": ("⊘ ", TextStyle("error")),
    "aborted": ("⊘ ", TextStyle("muted")),
    "invalid": ("✗ ", TextStyle("error")),
}


@dataclass(frozen=True, slots=True)
class ToolEntry(TranscriptEntry):
    """A tool call."""

    is_compact: ClassVar[bool] = True

    name: str
    target: str = ""
    """Where: a path, a pattern, a command."""
    status: ToolStatus = "waiting"
    summary: str = ""
    duration: float = 0.0
    characters: int = 0
    """While it is being written: how much of it there is."""
    arguments: Mapping[str, Any] | None = None
    raw_arguments: str = ""
    output: str = ""
    """Live output while it runs, then what the model read."""
    proposal: str = ""

    def rows(self, width: int, opened: bool) -> list[StyledLine]:
        """Return tool, target, result and duration in one row; below it the details or the end of the output."""
        head = self._head(width)
        if opened:
            return [head, *self._details(width)]
        if self.status != "running" or not self.output:
            return [head]
        shown = make_safe_text(self.output[-_LIVE_CHARACTERS:].rstrip("\n")).split("\n")[-_LIVE_ROWS:]
        return [head, *(StyledLine(((shorten_text(row, width) or " ", TextStyle("tool")),)) for row in shown)]

    def _head(self, width: int) -> StyledLine:
        verb = TOOL_VERBS.get(self.name, make_safe_text(self.name) or "Tool")
        # What is asked stands whole above the composer or in the review.
        target = (
            "a command" if self.status == "asking" and self.name == "run_command" else make_safe_text(self.target)
        )
        target = " ".join(target.split())
        facts = [f" · {fact}" for fact in self._facts(width, width - cell_width(f"{verb} {target}")) if fact]
        tail = "".join(facts)
        room = width - cell_width(verb) - 1 - cell_width(tail)
        if room < _LEAST_TARGET and len(facts) > 1 and facts[-1] == f" · {format_seconds(self.duration)}":
            # How long it took is worth no half of a number.
            tail = "".join(facts[:-1])
            room = width - cell_width(verb) - 1 - cell_width(tail)
        if room < _LEAST_TARGET:
            tail = f" {shorten_text(tail, max(0, width - cell_width(verb) - _LEAST_TARGET - 2))}"
            room = width - cell_width(verb) - 1 - cell_width(tail)
        target = shorten_path(target, room)
        fact_face = TextStyle("error") if self.status in ("error", "invalid") else TextStyle("tool")
        return StyledLine(
            (
                (verb, TextStyle("tool-name", bold=True)),
                (f" {target}" if target else "", TextStyle("tool-name")),
                (tail, fact_face),
            ),
            action="toggle",
        )

    def _facts(self, width: int, beside: int) -> list[str]:
        """Return the outcome of a call; `beside` is the room in cells that verb and target leave."""
        if self.status == "writing":
            return [f"{self.characters:,} characters" if self.characters else "", format_seconds(self.duration)]
        # A failure is told with the path that the line begins with anyway.
        summary = self.summary.removeprefix(self.target).lstrip(" :") if self.target else self.summary
        staged = f"staged in {self.proposal}" if self.status == "staged" and self.proposal else ""
        took = format_seconds(self.duration)
        left = beside - sum(cell_width(f" · {fact}") for fact in ("", staged, took) if fact) - 3
        told = shorten_text(make_safe_text(summary), max(20, width // 2, left)) or _TOOL_WORDS.get(self.status, "")
        # A command's summary ends in it, where there is room for all of it.
        return [told, staged if f"→ {self.proposal}" not in told else "", took]

    def _details(self, width: int) -> list[StyledLine]:
        lines: list[StyledLine] = []
        arguments = {
            shorten_text(make_safe_text(name), width // 2): value for name, value in (self.arguments or {}).items()
        }
        column = max((cell_width(name) for name in arguments), default=0) + 2
        for name, value in arguments.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
            text = make_safe_text(text)
            if "\n" in text or cell_width(text) > width - column:
                lines.append(StyledLine(((name, MUTED_STYLE),)))
                lines.extend(_limited(lay_out_code(text.rstrip("\n"), "", width), MAX_DETAIL_ROWS))
            else:
                lines.append(
                    StyledLine(((name + " " * (column - cell_width(name)), MUTED_STYLE), (text, TEXT_STYLE)))
                )
        if self.raw_arguments:
            lines.extend(_limited(lay_out_code(make_safe_text(self.raw_arguments), "", width), MAX_DETAIL_ROWS))
        if self.output.strip():
            lines.append(StyledLine((("result", MUTED_STYLE),)))
            lines.extend(_limited(lay_out_code(make_safe_text(self.output.rstrip("\n")), "", width), MAX_DETAIL_ROWS))
        return lines

    def marks(self, opened: bool) -> EntryMarks:
        """Return the marks of the call's state."""
        return EntryMarks(_MARKS[self.status])

    @property
    def can_open(self) -> bool:
        return True

    @property
    def copy_text(self) -> str:
        """Return the text that the model read."""
        return self.output


def _limited(lines: list[StyledLine], limit: int) -> list[StyledLine]:
    if len(lines) <= limit:
        return lines
    return [*lines[:limit], StyledLine(((hidden_lines_note(lines[limit:]), MUTED_STYLE),))]
