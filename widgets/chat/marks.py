"""The marks at the left of an entry: who speaks, and how something ended."""

from typing import NamedTuple

from app.conversation.events import Decision
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
from widgets.chat.lines import MUTED, TEXT, Face, Span

MARK_WIDTH = 2
"""Cells that the marks take; rows are laid out for what remains."""

NO_MARK: Span = ("  ", TEXT)
USER_BAR: Span = ("▌ ", Face("user-mark"))
"""Runs along everything that the user wrote."""


class Marks(NamedTuple):
    """What stands at the left of an entry's first row, and of the others."""

    first: Span
    rest: Span = NO_MARK
    last: Span | None = None
    """What stands at the last row, if that is not what stands at the others."""

    def at(self, row: int, height: int) -> Span:
        """The mark of a row of an entry."""
        if row == 0:
            return self.first
        return self.last if self.last is not None and row == height - 1 else self.rest


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
STATE_FACES = {
    "pending": Face("warning"),
    "partly_approved": Face("warning"),
    "applied": Face("success"),
    "denied": Face("error"),
    "stale": Face("error"),
    "failed": Face("error"),
}
"""The colours of a proposal's states; others are muted."""

_DECISION_MARKS: dict[Decision, Span] = {
    Decision.APPROVED: ("✓ ", Face("success")),
    Decision.PARTLY_APPROVED: ("◐ ", Face("success")),
    Decision.DENIED: ("✗ ", Face("error")),
    Decision.UNDONE: ("↶ ", Face("warning")),
    Decision.REOPENED: ("↶ ", Face("warning")),
    Decision.REDONE: ("↷ ", Face("success")),
    Decision.EDITED: ("✎ ", Face("warning")),
}


def marks_of(entry: Entry, opened: bool) -> Marks:
    """The marks of an entry; `opened` turns the triangle of one that unfolds."""
    marks = Marks(NO_MARK)
    match entry:
        case UserEntry():
            marks = Marks(USER_BAR, USER_BAR)
        case AnswerEntry(state=state):
            marks = Marks(("⊘ ", MUTED) if state == "discarded" else ("● ", Face("answer-mark")))
        case ReasoningEntry() | CompactionEntry():
            marks = Marks(("▾ " if opened else "▸ ", MUTED))
        case ToolEntry(status=status):
            marks = Marks(_TOOL_MARKS[status])
        case InterventionEntry():
            marks = Marks(("▾ " if opened else "▸ ", Face("program-mark")))
        case ProposalEntry(state=state):
            face = STATE_FACES.get(state, MUTED)
            marks = Marks(("╭ ", face), ("│ ", face), ("╰ ", face))
        case DecisionEntry(decision=decision):
            marks = Marks(_DECISION_MARKS[decision])
        case QuestionEntry():
            marks = Marks(("? ", Face("user-mark", bold=True)))
        case NoticeEntry(level=level):
            marks = Marks(("· ", MUTED) if level == "info" else ("! ", Face(level)))
        case TurnEndEntry(stopped="failed"):
            marks = Marks(("✗ ", Face("error")))
    return marks


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
