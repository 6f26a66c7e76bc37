"""Entries to rows, apart from answers in the making, which `MarkdownDocument` lays out as they grow."""

from collections.abc import Sequence

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
from widgets.chat.lines import (
    BLANK,
    MUTED,
    TEXT,
    Face,
    Line,
    Span,
    left_out,
    shorten,
    visible,
    width_of,
    wrap,
    wrap_text,
)
from widgets.chat.markdown import markdown_lines
from widgets.chat.proposal_lines import LONGEST_FILES, card_lines, decision_lines
from widgets.chat.tool_lines import tool_lines, turn_end_facts

LONGEST_MESSAGE = 24
"""Rows of a user message before the rest of it is folded."""


def entry_lines(entry: Entry, width: int, opened: bool = False) -> list[Line]:
    """The rows of an entry for `width` cells beside its marks; at least one."""
    match entry:
        case UserEntry(text=text):
            lines = _message(text, width, opened)
        case AnswerEntry():
            lines = _answer(entry, width, opened)
        case ReasoningEntry():
            lines = _reasoning(entry, width, opened)
        case ToolEntry():
            lines = tool_lines(entry, width, opened)
        case InterventionEntry(text=text, way=way):
            lines = _labelled(way, visible(text), width, opened)
        case ProposalEntry():
            lines = card_lines(entry, width)
        case DecisionEntry():
            lines = decision_lines(entry, width)
        case QuestionEntry():
            lines = _question(entry, width)
        case NoticeEntry(text=text, level=level):
            lines = wrap_text(visible(text), MUTED if level == "info" else Face(level), width)
        case TurnEndEntry():
            lines = _turn_end(entry, width)
        case CompactionEntry():
            lines = _compaction(entry, width, opened)
    return lines


def _answer(entry: AnswerEntry, width: int, opened: bool) -> list[Line]:
    if entry.state == "discarded":
        return _discarded(entry, width, opened)
    return markdown_lines(entry.text, width, visible) + answer_note(entry)


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
            return max(1, text.count("\n") + 1 + len(text) // (2 * max(20, width)))
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


def _message(text: str, width: int, opened: bool) -> list[Line]:
    """The user's words; of very many, the first are shown, and the rest is not even laid out until asked for."""
    face = Face("user")
    if opened:
        return wrap_text(visible(text), face, width)
    # More than is ever shown, so that it has to be cut wherever the text goes on behind it.
    looked_at = (LONGEST_MESSAGE + 2) * width
    lines = wrap_text(visible(text[:looked_at]), face, width)
    if len(lines) <= LONGEST_MESSAGE + 1:
        return lines
    kept = LONGEST_MESSAGE - 4
    return [*lines[:kept], _more(lines[kept:], text.count("\n", looked_at))]


def _discarded(entry: AnswerEntry, width: int, opened: bool) -> list[Line]:
    head = Line((("Discarded: the attempt failed and was repeated", MUTED),))
    struck = wrap_text(visible(entry.text.strip()), Face("muted", strike=True), width)
    return [
        head,
        *(struck if opened else struck[:2]),
        *([_more(struck[2:])] if len(struck) > 2 and not opened else []),
    ]


def _more(rows: Sequence[Line], further: int = 0) -> Line:
    return Line(((left_out(rows, further), MUTED),), 0, None, action="toggle")


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


def _question(entry: QuestionEntry, width: int) -> list[Line]:
    lines = markdown_lines(entry.text, width, visible) or [BLANK]
    if entry.answer is None:
        return lines
    if len(lines) > 1 and entry.options:
        lines.append(BLANK)
    for number, option in enumerate(entry.options, 1):
        chosen = option == entry.answer
        mark: Span = (f"{number}. ", Face("success", bold=True) if chosen else MUTED)
        face = Face("success") if chosen else MUTED
        lines.extend(wrap([(visible(option), face)], width, (mark,), ((" " * len(mark[0]), TEXT),)))
    return lines


def _turn_end(entry: TurnEndEntry, width: int) -> list[Line]:
    facts = turn_end_facts(entry)
    match entry.stopped:
        case "failed":
            told = wrap_text(visible(entry.message) or "The request failed.", Face("error"), width)
            return [*told, Line(((shorten("/continue sends it again", width), MUTED),))]
        case "aborted":
            parts, face = ["interrupted", *facts, "/continue goes on"], Face("warning")
        case _:
            parts, face = facts, MUTED
    return [Line(((shorten(" · ".join(parts), width), face),))]


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
