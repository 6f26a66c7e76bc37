"""Entries of tool calls, and of the proposals and decisions that result from them.

A tool call is one line that opens to show the arguments and the result. A proposal is a card.
"""

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from app.conversation.events import DecisionKind, ProposalDecided
from app.proposals.values.decision_facts import FileDiffStat
from app.text.quantities import format_count
from widgets.chat.entries.entry_base import USER_BAR, EntryGutterMarks, TranscriptEntry, image_line
from widgets.chat.markdown.highlighted_code import lay_out_code
from widgets.chat.markdown.styled_lines import (
    MUTED_STYLE,
    TEXT_STYLE,
    Span,
    StyledLine,
    TextStyle,
    cell_width,
    find_fitting_end,
    format_seconds,
    hidden_lines_note,
    make_safe_text,
    shorten_path_or_text,
    shorten_to_one_line,
    wrap_spans,
    wrap_text,
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
"""Names of tools in the transcript; other tools have no special name."""


def tool_call_target(tool_name: str, arguments: Mapping[str, Any]) -> str:
    """Return what a tool call acts on, such as a path or a command: untrusted text, not shortened."""

    def get(key: str) -> str:
        value = arguments.get(key)
        return "" if value is None else str(value)

    match tool_name:
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
"""Maximum rows of an argument or a result in an open entry."""
_MIN_TARGET_CELLS = 8
"""Minimum cells for the target of a call; the facts after it are shortened first."""
_MAX_LIVE_ROWS, _MAX_LIVE_CHARACTERS = 5, 4000
"""Rows of live output below a running command, and the characters of its end that they are taken from."""

ToolStatus = Literal[
    "writing", "waiting", "running", "asking", "ok", "error", "staged", "refused", "rejected", "aborted", "invalid"
]
"""`writing`: the model is still writing the call. `asking`: the call waits for the user's permission. The values of a
finished call are those of `app.conversation.events.CallOutcome`.
"""

_TOOL_STATUSES: dict[ToolStatus, tuple[str, TextStyle, str]] = {
    "writing": ("… ", TextStyle("muted"), ""),
    "waiting": ("◌ ", TextStyle("muted"), "waits"),
    "running": ("◐ ", TextStyle("warning"), "running"),
    "asking": ("! ", TextStyle("warning", bold=True), "needs your permission"),
    "ok": ("✓ ", TextStyle("success"), ""),
    "staged": ("◆ ", TextStyle("warning"), ""),
    "error": ("✗ ", TextStyle("error"), "failed"),
    "refused": ("⊘ ", TextStyle("muted"), "not run: signoff had stopped the turn"),
    "rejected": ("⊘ ", TextStyle("error"), "you said no"),
    "aborted": ("⊘ ", TextStyle("muted"), "interrupted"),
    "invalid": ("✗ ", TextStyle("error"), "not a valid call"),
}
"""Sign, style of the sign, and the outcome of a call without a summary."""


class ToolEntry(TranscriptEntry, frozen=True):
    """A tool call of the model: its target, status, arguments and output."""

    is_compact: ClassVar[bool] = True

    name: str
    target: str = ""
    """The target: a path, a pattern, a command."""
    status: ToolStatus = "waiting"
    summary: str = ""
    duration: float = 0.0
    characters: int = 0
    """Length so far while the model writes the call."""
    arguments: Mapping[str, Any] | None = None
    raw_arguments: str = ""
    output: str = ""
    """Live output while the call runs, then the result for the model."""
    proposal: str = ""

    def rows(self, width: int, opened: bool) -> list[StyledLine]:
        """Return tool, target, outcome and duration in one row; below it the details or the end of the output."""
        head = self._head_line(width)
        if opened:
            return [head, *self._detail_lines(width)]
        if self.status != "running" or not self.output:
            return [head]
        live_rows = make_safe_text(self.output[-_MAX_LIVE_CHARACTERS:].rstrip("\n")).split("\n")[-_MAX_LIVE_ROWS:]
        return [
            head,
            *(StyledLine(((shorten_to_one_line(row, width) or " ", TextStyle("tool")),)) for row in live_rows),
        ]

    def _head_line(self, width: int) -> StyledLine:
        verb = TOOL_VERBS.get(self.name, make_safe_text(self.name) or "Tool")
        # The complete command is shown above the composer or in the review.
        hides_command = self.status == "asking" and self.name == "run_command"
        target = "a command" if hides_command else " ".join(make_safe_text(self.target).split())
        facts = [f" · {fact}" for fact in self._outcome_spans(width, width - cell_width(f"{verb} {target}")) if fact]
        tail = "".join(facts)
        room = width - cell_width(verb) - 1 - _MIN_TARGET_CELLS
        if cell_width(tail) > room and len(facts) > 1 and facts[-1] == f" · {format_seconds(self.duration)}":
            # Omit the duration first: a shortened number would be useless.
            tail = "".join(facts[:-1])
        if cell_width(tail) > room:
            tail = f" {shorten_to_one_line(tail, max(0, room - 1))}"
        target = shorten_path_or_text(target, room + _MIN_TARGET_CELLS - cell_width(tail))
        fact_style = TextStyle("error") if self.status in ("error", "invalid") else TextStyle("tool")
        return StyledLine(
            (
                (verb, TextStyle("tool-name", bold=True)),
                (f" {target}" if target else "", TextStyle("tool-name")),
                (tail, fact_style),
            ),
            action="toggle",
        )

    def _outcome_spans(self, width: int, beside: int) -> list[str]:
        """Return the outcome of a call; `beside` is the number of cells beside verb and target."""
        if self.status == "writing":
            return [f"{self.characters:,} characters" if self.characters else "", format_seconds(self.duration)]
        # A failure's text begins with the path that the row already shows.
        summary = self.summary.removeprefix(self.target).lstrip(" :") if self.target else self.summary
        staged = f"staged in {self.proposal}" if self.status == "staged" and self.proposal else ""
        duration = format_seconds(self.duration)
        outcome_cells = beside - sum(cell_width(f" · {fact}") for fact in ("", staged, duration) if fact) - 3
        outcome = shorten_to_one_line(make_safe_text(summary), max(20, width // 2, outcome_cells))
        outcome = outcome or _TOOL_STATUSES[self.status][2]
        # A command's summary ends with the proposal id, unless it was shortened.
        return [outcome, staged if f"→ {self.proposal}" not in outcome else "", duration]

    def _detail_lines(self, width: int) -> list[StyledLine]:
        lines: list[StyledLine] = []
        arguments = {
            shorten_to_one_line(make_safe_text(name), width // 2): value
            for name, value in (self.arguments or {}).items()
        }
        column = max((cell_width(name) for name in arguments), default=0) + 2
        for name, value in arguments.items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
            text = make_safe_text(text)
            if "\n" in text or cell_width(text) > width - column:
                lines.append(StyledLine(((name, MUTED_STYLE),)))
                lines.extend(_plain_code_rows(text.rstrip("\n"), width))
            else:
                gap = " " * (column - cell_width(name))
                lines.append(StyledLine(((name + gap, MUTED_STYLE), (text, TEXT_STYLE))))
        if self.raw_arguments:
            lines.extend(_plain_code_rows(make_safe_text(self.raw_arguments), width))
        if self.output.strip():
            lines.append(StyledLine((("result", MUTED_STYLE),)))
            lines.extend(_plain_code_rows(make_safe_text(self.output.rstrip("\n")), width))
        return lines

    def marks(self, opened: bool) -> EntryGutterMarks:
        sign, style, _ = _TOOL_STATUSES[self.status]
        return EntryGutterMarks((sign, style))

    @property
    def can_open(self) -> bool:
        return True

    @property
    def copy_text(self) -> str:
        return self.output


def _plain_code_rows(text: str, width: int) -> list[StyledLine]:
    rows = lay_out_code(text, "", width)
    if len(rows) <= MAX_DETAIL_ROWS:
        return rows
    return [*rows[:MAX_DETAIL_ROWS], StyledLine(((hidden_lines_note(rows[MAX_DETAIL_ROWS:]), MUTED_STYLE),))]


MAX_LISTED_FILES = 8
"""Maximum number of files listed on a proposal's card."""

_STATES = {
    "pending": ("waits for you", TextStyle("warning")),
    "partly_approved": ("partly approved, the rest waits", TextStyle("warning")),
    "applied": ("approved", TextStyle("success")),
    "denied_in_part": ("approved in part, the rest denied", TextStyle("success")),
    "denied": ("denied", TextStyle("error")),
    "stale": ("stale", TextStyle("error")),
    "superseded": ("replaced by a newer one", MUTED_STYLE),
    "undone": ("undone", MUTED_STYLE),
    "failed": ("could not be applied", TextStyle("error")),
}
"""Texts and styles of a proposal's states."""
_DECISIONS: dict[DecisionKind, tuple[str, str, TextStyle]] = {
    DecisionKind.APPROVED: ("✓ ", "Approved", TextStyle("success")),
    DecisionKind.PARTLY_APPROVED: ("◐ ", "Approved in part:", TextStyle("success")),
    DecisionKind.DENIED: ("✗ ", "Denied", TextStyle("error")),
    DecisionKind.UNDONE: ("↶ ", "Undid", TextStyle("warning")),
    DecisionKind.REOPENED: ("↶ ", "Reopened", TextStyle("warning")),
    DecisionKind.REDONE: ("↷ ", "Applied again:", TextStyle("success")),
    DecisionKind.EDITED: ("✎ ", "Edited", TextStyle("warning")),
}
"""Sign, text, and the style of both."""
_ON_DISK_DECISION_TEXTS = {
    DecisionKind.APPROVED: "Kept",
    DecisionKind.PARTLY_APPROVED: "Kept in part:",
    DecisionKind.DENIED: "Reverted on disk:",
    DecisionKind.REOPENED: "Reopened",
}
"""For changes that were on disk before the decision."""
_WAITING_STATES = ("pending", "partly_approved", "stale")
_OPERATION_TEXTS = {"create": "new", "delete": "deleted", "rename": "renamed", "mode": "mode"}


class ProposalEntry(TranscriptEntry, frozen=True):
    """A staged proposal, shown as a card that opens the review."""

    fill: ClassVar[str] = "card"

    proposal: str
    summary: str
    files: tuple[FileDiffStat, ...]
    state: str = "pending"
    """A value of `app.proposals.values.models.ProposalState` from the session's events, or `denied_in_part`."""
    reason: str = ""
    supersedes: str = ""
    is_command: bool = False
    """Whether the summary is a command; the card shortens it to one line, and the review shows it completely."""

    def rows(self, width: int, opened: bool) -> list[StyledLine]:
        """Return id, summary, files with their line counts, state, and the key that opens the review."""
        head: list[Span] = [(make_safe_text(self.proposal), TextStyle("card-id", bold=True)), ("  ", TEXT_STYLE)]
        if self.is_command:
            tail = f" · {format_count(len(self.files), 'file')}"
            room = width - cell_width(self.proposal) - 2 - cell_width(tail)
            command = _shorten_to_width(make_safe_text(self.summary), room)
            lines = [StyledLine((*head, (command, TextStyle("text", bold=True)), (tail, MUTED_STYLE)), fill="card")]
        else:
            head.append((make_safe_text(" ".join(self.summary.split())), TextStyle("text", bold=True)))
            indent: Span = (" " * (cell_width(self.proposal) + 2), TEXT_STYLE)
            lines = wrap_spans(head, width, (), (indent,), fill="card")
        listed = () if self.is_command else self.files
        files = listed if len(listed) <= MAX_LISTED_FILES + 1 else listed[:MAX_LISTED_FILES]
        lines.extend(_file_line(stat, width, "card") for stat in files)
        if len(files) < len(listed):
            lines.append(StyledLine(((f"… {len(listed) - len(files)} more files", MUTED_STYLE),), fill="card"))
        status: list[Span] = [_STATES.get(self.state, (make_safe_text(self.state), MUTED_STYLE))]
        if self.supersedes:
            status.append((f" · revises {make_safe_text(self.supersedes)}", MUTED_STYLE))
        if self.reason:
            status.append((f" · {make_safe_text(self.reason)}", MUTED_STYLE))
        if self.state in _WAITING_STATES:
            status += [
                (" · ", MUTED_STYLE),
                ("Enter", TextStyle("key", bold=True)),
                (" or click to review", MUTED_STYLE),
            ]
        lines.extend(wrap_spans(status, width, fill="card"))
        return lines

    def marks(self, opened: bool) -> EntryGutterMarks:
        _, style = _STATES.get(self.state, ("", MUTED_STYLE))
        return EntryGutterMarks(("╭ ", style), ("│ ", style), ("╰ ", style))

    def expected_height(self, width: int) -> int:
        return 2 + (0 if self.is_command else min(len(self.files), MAX_LISTED_FILES + 1))

    @property
    def copy_text(self) -> str:
        return f"{self.proposal} {self.summary}"


class DecisionEntry(TranscriptEntry, frozen=True):
    """A decision of the user, with the feedback."""

    event: ProposalDecided

    def rows(self, width: int, opened: bool) -> list[StyledLine]:
        """Return the decision, and below it the user's feedback."""
        event = self.event
        _, word, style = _DECISIONS[event.decision]
        word = _ON_DISK_DECISION_TEXTS.get(event.decision, word) if event.on_disk else word
        spans: list[Span] = [(word, style), (f" {make_safe_text(event.proposal)}", TextStyle("text", bold=True))]
        if event.hunks:
            spans.append((f" · {self._hunk_outcome()}", MUTED_STYLE))
        elif event.files:
            names = f"{len(event.files)} files" if len(event.files) > 1 else make_safe_text(event.files[0].path)
            spans.append((f" · {names}", MUTED_STYLE))
            numbers = _change_counts(sum(s.added for s in event.files), sum(s.removed for s in event.files))
            if numbers and event.decision not in (DecisionKind.DENIED, DecisionKind.REOPENED):
                spans += [(" ", TEXT_STYLE), *numbers]
        if event.still_pending:
            pending_texts = {DecisionKind.EDITED: "it still waits", DecisionKind.REOPENED: "it waits again"}
            spans.append((f" · {pending_texts.get(event.decision, 'the rest still waits')}", TextStyle("warning")))
        lines = wrap_spans(spans, width)
        bar: tuple[Span, ...] = (USER_BAR,)
        if event.feedback.strip():
            lines.extend(wrap_text(make_safe_text(event.feedback.strip()), TextStyle("user"), width, bar))
        for comment in event.comments:
            place: Span = (f"{make_safe_text(comment.path)}:{comment.line}  ", MUTED_STYLE)
            remark: Span = (make_safe_text(" ".join(comment.text.split())), TextStyle("user"))
            lines.extend(wrap_spans([place, remark], width, bar, bar))
        return [*lines, *(image_line(image, width, bar) for image in event.images)]

    def _hunk_outcome(self) -> str:
        """Return the outcome of the hunks if the decision was about some of them."""
        event = self.event
        count = len(event.hunks)
        if event.decision is not DecisionKind.DENIED:
            if event.on_disk and event.decision is DecisionKind.REOPENED:
                return format_count(count, "hunk")
            if not event.still_pending and all(hunk.landed for hunk in event.hunks):
                return _rest_line(count)
            verb = "kept" if event.on_disk else "written"
            return f"{sum(hunk.landed for hunk in event.hunks)} of {count} hunks {verb}"
        if not event.still_pending:
            return _rest_line(count)
        verb = "" if event.on_disk else " discarded"
        return f"{sum(hunk.reason == 'denied' for hunk in event.hunks)} of {count} hunks{verb}"

    def marks(self, opened: bool) -> EntryGutterMarks:
        sign, _, style = _DECISIONS[self.event.decision]
        return EntryGutterMarks((sign, style))

    def expected_height(self, width: int) -> int:
        event = self.event
        return 1 + (event.feedback.count("\n") + 1 if event.feedback else 0) + len(event.images)

    @property
    def copy_text(self) -> str:
        return self.event.feedback or self.event.proposal


def _shorten_to_width(text: str, width: int) -> str:
    """Return the beginning of a text that fits, with an ellipsis if it is shortened; keep white space."""
    if cell_width(text) <= width:
        return text
    return f"{text[: find_fitting_end(text, 0, max(0, width - 1))]}…"


def _rest_line(count: int) -> str:
    return "the hunk that still waited" if count == 1 else f"the {count} hunks that still waited"


def _change_counts(added: int, removed: int) -> list[Span]:
    spans: list[Span] = []
    if added:
        spans.append((f"+{added}", TextStyle("added")))
    if removed:
        spans.append((" " if spans else "", TEXT_STYLE))
        spans.append((f"-{removed}", TextStyle("removed")))
    return spans


def _file_line(stat: FileDiffStat, width: int, fill: str) -> StyledLine:
    numbers = _change_counts(stat.added, stat.removed)
    tail: list[Span] = [("  ", TEXT_STYLE), *numbers] if numbers else []
    if word := _OPERATION_TEXTS.get(stat.op):
        tail.append((f"  {word}", MUTED_STYLE))
    room = width - sum(cell_width(text) for text, _ in tail)
    return StyledLine(((shorten_path_or_text(make_safe_text(stat.path), room), TEXT_STYLE), *tail), fill=fill)
