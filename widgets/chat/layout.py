"""Entries to rows, apart from answers in the making, which `MarkdownDocument` lays out as they grow."""

import json
from typing import NamedTuple

from app.conversation.events import Decision, FileStat
from app.safe_text import visible as without_controls
from widgets.chat.code import code_lines
from widgets.chat.entries import (
    AnswerEntry,
    CompactionEntry,
    DecisionEntry,
    Entry,
    InterventionEntry,
    NoticeEntry,
    ProposalEntry,
    QuestionEntry,
    ReasoningEntry,
    ToolEntry,
    TurnEndEntry,
    UserEntry,
)
from widgets.chat.lines import BLANK, MUTED, TEXT, Face, Line, Span, shorten, width_of, wrap, wrap_text
from widgets.chat.markdown import markdown_lines
from widgets.chat.targets import VERBS

MARK_WIDTH = 2
"""Cells that the marks at the left take; rows are laid out for what remains."""

LONGEST_MESSAGE = 24
"""Rows of a user message before the rest of it is folded."""
LONGEST_DETAIL = 300
"""Rows of a tool's result shown when its line is opened."""
LIVE_ROWS = 5
"""Rows of output shown under a running command."""
LONGEST_FILES = 8
"""Files listed on a proposal's card."""


def visible(text: str) -> str:
    """Untrusted text made safe, its line ends as newlines."""
    return without_controls(text.replace("\r\n", "\n"))


NO_MARK: Span = ("  ", TEXT)


class Marks(NamedTuple):
    """What stands at the left of an entry's first row, and of the others."""

    first: Span
    rest: Span


_TOOL_MARKS: dict[str, Span] = {
    "writing": ("… ", Face("muted")),
    "waiting": ("◌ ", Face("muted")),
    "running": ("◐ ", Face("warning")),
    "ok": ("✓ ", Face("success")),
    "staged": ("◆ ", Face("warning")),
    "error": ("✗ ", Face("error")),
    "refused": ("⊘ ", Face("muted")),
    "rejected": ("⊘ ", Face("error")),
    "aborted": ("⊘ ", Face("muted")),
    "invalid": ("✗ ", Face("error")),
}
_TOOL_WORDS = {
    "waiting": "waits",
    "running": "running",
    "refused": "not run: signoff had stopped the turn",
    "rejected": "you said no",
    "aborted": "interrupted",
    "invalid": "not a valid call",
    "error": "failed",
}
_STATE_FACES = {
    "pending": Face("warning"),
    "partly_approved": Face("warning"),
    "applied": Face("success"),
    "denied": Face("error"),
    "stale": Face("error"),
    "failed": Face("error"),
}
_STATE_WORDS = {
    "pending": "waits for you",
    "partly_approved": "partly approved, the rest waits for you",
    "applied": "approved",
    "denied": "denied",
    "stale": "stale",
    "superseded": "replaced by a newer one",
    "undone": "undone",
    "failed": "could not be applied",
}
_DECISIONS: dict[Decision, tuple[Span, str]] = {
    Decision.APPROVED: (("✓ ", Face("success")), "Approved"),
    Decision.PARTLY_APPROVED: (("◐ ", Face("success")), "Approved in part:"),
    Decision.DENIED: (("✗ ", Face("error")), "Denied"),
    Decision.UNDONE: (("↶ ", Face("warning")), "Undid"),
    Decision.REDONE: (("↷ ", Face("success")), "Applied again:"),
    Decision.EDITED: (("✎ ", Face("warning")), "Edited"),
}
_WAITING = ("pending", "partly_approved", "stale")


def marks_of(entry: Entry, opened: bool) -> Marks:
    """The marks of an entry: who speaks, or how something ended."""
    match entry:
        case UserEntry():
            bar: Span = ("▌ ", Face("user-mark"))
            return Marks(bar, bar)
        case AnswerEntry(state="discarded"):
            return Marks(("⊘ ", MUTED), NO_MARK)
        case AnswerEntry():
            return Marks(("● ", Face("answer-mark")), NO_MARK)
        case ReasoningEntry():
            return Marks(("▾ " if opened else "▸ ", MUTED), NO_MARK)
        case ToolEntry(status=status):
            return Marks(_TOOL_MARKS[status], NO_MARK)
        case InterventionEntry():
            return Marks(("▾ " if opened else "▸ ", Face("program-mark")), NO_MARK)
        case ProposalEntry(state=state):
            edge: Span = ("▌ ", _STATE_FACES.get(state, MUTED))
            return Marks(edge, edge)
        case DecisionEntry(decision=decision):
            return Marks(_DECISIONS[decision][0], NO_MARK)
        case QuestionEntry():
            return Marks(("? ", Face("user-mark", bold=True)), NO_MARK)
        case NoticeEntry(level=level):
            return Marks(("· ", MUTED) if level == "info" else ("! ", Face(level)), NO_MARK)
        case TurnEndEntry(stopped="failed"):
            return Marks(("✗ ", Face("error")), NO_MARK)
        case CompactionEntry():
            return Marks(("▾ " if opened else "▸ ", MUTED), NO_MARK)
        case _:
            return Marks(NO_MARK, NO_MARK)


def opens(entry: Entry) -> bool:
    """Whether Enter or a click shows more of the entry."""
    match entry:
        case ReasoningEntry() | ToolEntry() | InterventionEntry() | CompactionEntry():
            return True
        case UserEntry(text=text) | AnswerEntry(text=text, state="discarded"):
            return len(text) > 400 or text.count("\n") > 3
        case _:
            return False


def fill_of(entry: Entry) -> str:
    """The role whose background lies under the whole entry."""
    return "card" if isinstance(entry, ProposalEntry) else ""


def entry_lines(entry: Entry, width: int, opened: bool = False) -> list[Line]:
    """The rows of an entry for `width` cells beside its marks; at least one."""
    match entry:
        case UserEntry(text=text):
            return _folded(wrap_text(visible(text), Face("user"), width), LONGEST_MESSAGE, opened)
        case AnswerEntry(state="discarded"):
            return _discarded(entry, width, opened)
        case AnswerEntry(text=text):
            return markdown_lines(text, width, visible) + answer_note(entry)
        case ReasoningEntry():
            return _reasoning(entry, width, opened)
        case ToolEntry():
            return _tool(entry, width, opened)
        case InterventionEntry(text=text):
            return _labelled("signoff → model", visible(text), width, opened)
        case ProposalEntry():
            return _card(entry, width)
        case DecisionEntry():
            return _decision(entry, width)
        case QuestionEntry():
            return _question(entry, width)
        case NoticeEntry(text=text, level=level):
            return wrap_text(visible(text), MUTED if level == "info" else Face(level), width)
        case TurnEndEntry():
            return _turn_end(entry, width)
        case CompactionEntry():
            return _compaction(entry, width, opened)


def answer_note(entry: AnswerEntry) -> list[Line]:
    """What is said under an answer that did not end well."""
    match entry.state:
        case "interrupted":
            note = "interrupted"
        case "truncated":
            note = "cut off before it was finished"
        case _:
            return []
    line = Line(((f"⊘ {note}", Face("warning")),), 2)
    return [line]


def estimated_height(entry: Entry, width: int) -> int:
    """About how many rows an entry will take, without laying it out."""
    match entry:
        case AnswerEntry(text=text):
            return max(1, text.count("\n") + sum(1 for _ in range(0, len(text), max(20, width * 2))))
        case UserEntry(text=text):
            return min(LONGEST_MESSAGE + 1, max(1, text.count("\n") + 1 + len(text) // max(20, width)))
        case ProposalEntry(files=files):
            return 2 + min(len(files), LONGEST_FILES + 1)
        case DecisionEntry(feedback=feedback):
            return 1 + (feedback.count("\n") + 1 if feedback else 0)
        case QuestionEntry(options=options):
            return 1 + len(options)
        case _:
            return 1


def copy_text(entry: Entry) -> str:
    """The entry's own text, for the clipboard."""
    match entry:
        case UserEntry(text=text) | AnswerEntry(text=text) | ReasoningEntry(text=text):
            return text
        case InterventionEntry(text=text) | NoticeEntry(text=text) | QuestionEntry(text=text):
            return text
        case ToolEntry(output=output):
            return output
        case ProposalEntry(proposal=proposal, summary=summary):
            return f"{proposal} {summary}"
        case DecisionEntry(feedback=feedback, proposal=proposal):
            return feedback or proposal
        case CompactionEntry(summary=summary):
            return summary
        case TurnEndEntry(message=message):
            return message


def _folded(lines: list[Line], limit: int, opened: bool, face: Face = MUTED) -> list[Line]:
    if opened or len(lines) <= limit + 1:
        return lines
    kept = limit - 4
    rest = len(lines) - kept
    return [*lines[:kept], Line(((f"… {rest} more lines", face),), 0, None, action="toggle")]


def _discarded(entry: AnswerEntry, width: int, opened: bool) -> list[Line]:
    head = Line((("Discarded: the attempt failed and was repeated", MUTED),))
    struck = wrap_text(visible(entry.text.strip()), Face("muted", strike=True), width)
    return [
        head,
        *(struck if opened else struck[:2]),
        *([_more(len(struck) - 2)] if len(struck) > 2 and not opened else []),
    ]


def _more(count: int) -> Line:
    return Line(((f"… {count} more lines", MUTED),), 0, None, action="toggle")


def _reasoning(entry: ReasoningEntry, width: int, opened: bool) -> list[Line]:
    text = visible(entry.text.strip())
    if opened:
        head = Line((("Thinking" if entry.streaming else "Thought", MUTED),), action="toggle")
        return [head, *wrap_text(text, Face("muted", italic=True), width)]
    label = "Thinking  " if entry.streaming else "Thought  "
    # While it streams, the newest line is what is worth a glance.
    shown = text[-400:].rsplit("\n", 1)[-1] if entry.streaming else text[:400].split("\n", 1)[0]
    preview = shorten(shown.replace("**", ""), width - len(label))
    return [Line(((label, MUTED), (preview, Face("muted", italic=True))), action="toggle")]


def _labelled(label: str, text: str, width: int, opened: bool) -> list[Line]:
    head: Span = (f"{label}  ", Face("program-mark"))
    if opened:
        return [Line((head,), action="toggle"), *wrap_text(text, Face("program"), width)]
    return [Line((head, (shorten(text, width - width_of(head[0])), Face("program"))), action="toggle")]


def seconds(duration: float) -> str:
    """A duration for people: `0.4 s`, `12 s`, `3 min 05 s`; empty where it is not worth a word."""
    if duration < 0.05:
        return ""
    if duration < 9.95:
        return f"{duration:.1f} s"
    if duration < 60:
        return f"{duration:.0f} s"
    minutes, rest = divmod(round(duration), 60)
    return f"{minutes} min {rest:02d} s"


def _tool(entry: ToolEntry, width: int, opened: bool) -> list[Line]:
    verb = VERBS.get(entry.name, visible(entry.name) or "Tool")
    facts = [shorten(visible(entry.summary), max(20, width // 2)) or _TOOL_WORDS.get(entry.status, "")]
    if entry.status == "writing":
        facts = [f"{entry.characters:,} characters" if entry.characters else ""]
    elif entry.status == "staged" and entry.proposal:
        facts.append(f"staged in {entry.proposal}")
    facts.append(seconds(entry.duration))
    tail = "".join(f" · {fact}" for fact in facts if fact)
    room = width - width_of(verb) - 1 - width_of(tail)
    if room < 12:
        tail = shorten(tail, max(0, width - width_of(verb) - 13))
        room = width - width_of(verb) - 1 - width_of(tail)
    target = _shorten_path(" ".join(visible(entry.target).split()), room)
    fact_face = Face("error") if entry.status in ("error", "invalid") else Face("tool")
    lines = [
        Line(
            (
                (verb, Face("tool-name", bold=True)),
                (f" {target}" if target else "", Face("tool-name")),
                (tail, fact_face),
            ),
            action="toggle",
        )
    ]
    if opened:
        lines.extend(_tool_details(entry, width))
    elif entry.status == "running" and entry.output:
        shown = visible(entry.output[-4000:].rstrip("\n")).split("\n")[-LIVE_ROWS:]
        lines.extend(Line(((shorten(row, width) or " ", Face("tool")),)) for row in shown)
    return lines


def _shorten_path(text: str, width: int) -> str:
    """As `shorten`, but it is the start of a path that goes."""
    if width_of(text) <= width or "/" not in text or " " in text:
        return shorten(text, width)
    tail = text[-max(1, width - 1) :]
    return "…" + (tail[tail.find("/") :] if "/" in tail[:-1] else tail)


def _tool_details(entry: ToolEntry, width: int) -> list[Line]:
    lines: list[Line] = []
    for name, value in (entry.arguments or {}).items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
        text = visible(text)
        if "\n" in text or width_of(text) > width - len(name) - 2:
            lines.append(Line(((name, MUTED),)))
            lines.extend(_limited(code_lines(text.rstrip("\n"), "", width), LONGEST_DETAIL))
        else:
            lines.append(Line(((f"{visible(name)}  ", MUTED), (text, TEXT))))
    if entry.raw_arguments:
        lines.extend(_limited(code_lines(visible(entry.raw_arguments), "", width), LONGEST_DETAIL))
    if entry.output.strip():
        lines.append(Line((("result", MUTED),)))
        lines.extend(_limited(code_lines(visible(entry.output.rstrip("\n")), "", width), LONGEST_DETAIL))
    return lines


def _limited(lines: list[Line], limit: int) -> list[Line]:
    if len(lines) <= limit:
        return lines
    return [*lines[:limit], Line(((f"… {len(lines) - limit:,} more lines", MUTED),))]


def _numbers(added: int, removed: int) -> list[Span]:
    spans: list[Span] = []
    if added:
        spans.append((f"+{added}", Face("added")))
    if removed:
        spans.append((" " if spans else "", TEXT))
        spans.append((f"−{removed}", Face("removed")))
    return spans


_OP_WORDS = {"create": "new", "delete": "deleted", "rename": "renamed", "mode": "mode"}


def _file_line(stat: FileStat, width: int, fill: str) -> Line:
    numbers = _numbers(stat.added, stat.removed)
    tail: list[Span] = [("  ", TEXT), *numbers] if numbers else []
    if word := _OP_WORDS.get(stat.op):
        tail.append((f"  {word}", MUTED))
    room = width - sum(width_of(text) for text, _ in tail)
    return Line(((_shorten_path(visible(stat.path), room), TEXT), *tail), fill=fill)


def _card(entry: ProposalEntry, width: int) -> list[Line]:
    head: list[Span] = [(visible(entry.proposal), Face("card-id", bold=True)), ("  ", TEXT)]
    head.append((visible(" ".join(entry.summary.split())), Face("text", bold=True)))
    indent: Span = (" " * (width_of(entry.proposal) + 2), TEXT)
    lines = wrap(head, width, (), (indent,), fill="card")
    files = entry.files if len(entry.files) <= LONGEST_FILES + 1 else entry.files[:LONGEST_FILES]
    lines.extend(_file_line(stat, width, "card") for stat in files)
    if len(files) < len(entry.files):
        lines.append(Line(((f"… {len(entry.files) - len(files)} more files", MUTED),), fill="card"))
    face = _STATE_FACES.get(entry.state, MUTED)
    status: list[Span] = [(_STATE_WORDS.get(entry.state, visible(entry.state)), face)]
    if entry.supersedes:
        status.append((f" · revises {visible(entry.supersedes)}", MUTED))
    if entry.reason:
        status.append((f" · {visible(entry.reason)}", MUTED))
    if entry.state in _WAITING:
        status += [(" · ", MUTED), ("Enter", Face("key", bold=True)), (" or click to review", MUTED)]
    lines.extend(wrap(status, width, fill="card"))
    return lines


def _decision(entry: DecisionEntry, width: int) -> list[Line]:
    (_, face), word = _DECISIONS[entry.decision]
    spans: list[Span] = [(word, face), (f" {visible(entry.proposal)}", Face("text", bold=True))]
    if entry.hunks:
        landed = sum(1 for hunk in entry.hunks if hunk.landed)
        spans.append((f" · {landed} of {len(entry.hunks)} hunks written", MUTED))
    elif entry.files:
        names = f"{len(entry.files)} files" if len(entry.files) > 1 else visible(entry.files[0].path)
        spans.append((f" · {names}", MUTED))
        numbers = _numbers(sum(s.added for s in entry.files), sum(s.removed for s in entry.files))
        if numbers and entry.decision is not Decision.DENIED:
            spans += [(" ", TEXT), *numbers]
    if entry.still_pending:
        spans.append((" · the rest still waits", Face("warning")))
    lines = wrap(spans, width)
    bar: tuple[Span, ...] = (("▌ ", Face("user-mark")),)
    if entry.feedback.strip():
        lines.extend(wrap_text(visible(entry.feedback.strip()), Face("user"), width, bar))
    for comment in entry.comments:
        place = f"{visible(comment.path)}:{comment.line}  "
        lines.extend(wrap([(place, MUTED), (visible(" ".join(comment.text.split())), Face("user"))], width, bar, bar))
    return lines


def _question(entry: QuestionEntry, width: int) -> list[Line]:
    lines = markdown_lines(entry.text, width, visible) or [BLANK]
    if entry.answer is None:
        return lines
    for number, option in enumerate(entry.options, 1):
        chosen = option == entry.answer
        mark: Span = (f"{number}. ", Face("success", bold=True) if chosen else MUTED)
        face = Face("success") if chosen else MUTED
        lines.extend(wrap([(visible(option), face)], width, (mark,), ((" " * len(mark[0]), TEXT),)))
    return lines


def _turn_end(entry: TurnEndEntry, width: int) -> list[Line]:
    match entry.stopped:
        case "failed":
            return wrap_text(visible(entry.message) or "The request failed.", Face("error"), width)
        case "aborted":
            parts, face = ["interrupted"], Face("warning")
        case _:
            parts, face = [], MUTED
    if entry.message and entry.stopped != "answer":
        parts.append(visible(" ".join(entry.message.split())))
    parts.append(seconds(entry.duration))
    if entry.calls:
        parts.append(f"{entry.calls} tool call{'s' if entry.calls > 1 else ''}")
    if entry.tokens:
        parts.append(f"{entry.tokens:,} tokens")
    text = " · ".join(part for part in parts if part)
    return [Line(((shorten(text, width), face),))]


def _compaction(entry: CompactionEntry, width: int, opened: bool) -> list[Line]:
    text = (
        "Older messages were summarised for the model" if entry.summary else "Older messages were cut for the model"
    )
    if entry.before and entry.after:
        text += f" · {entry.before:,} → {entry.after:,} tokens"
    lines = [Line(((shorten(text, width), MUTED),), action="toggle")]
    if opened:
        lines.extend(markdown_lines(entry.summary, width, visible))
    return lines
