"""What the transcript shows, one value for each thing said or done; made from events by `widgets.chat.fold`."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from app.conversation.events import Decision, InterventionKind
from app.proposals.facts import FileStat, HunkFact, LineComment


@dataclass(frozen=True, slots=True)
class UserEntry:
    """The user's words."""

    key: str
    text: str
    answers: bool = False
    """They answer a question."""


@dataclass(frozen=True, slots=True)
class AnswerEntry:
    """The model's words, as Markdown."""

    key: str
    text: str
    state: Literal["streaming", "complete", "interrupted", "truncated", "discarded"] = "complete"


@dataclass(frozen=True, slots=True)
class ReasoningEntry:
    """What the model thought before it answered; folded to one line."""

    key: str
    text: str
    streaming: bool = False


ToolStatus = Literal[
    "writing", "waiting", "running", "ok", "error", "staged", "refused", "rejected", "aborted", "invalid"
]
"""`writing`: the model is still writing the call; then `app.conversation.events.Outcome`."""


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """A tool call: one line that opens to the arguments and the result."""

    key: str
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


@dataclass(frozen=True, slots=True)
class InterventionEntry:
    """What signoff told the model."""

    key: str
    kind: InterventionKind
    text: str
    way: str
    """From whom to whom."""


@dataclass(frozen=True, slots=True)
class ProposalEntry:
    """A staged proposal, as a card that leads to the review."""

    key: str
    proposal: str
    summary: str
    files: tuple[FileStat, ...]
    state: str = "pending"
    """`app.proposals.models.ProposalState`, as far as the session's events tell."""
    reason: str = ""
    supersedes: str = ""


@dataclass(frozen=True, slots=True)
class DecisionEntry:
    """What the user decided, with the feedback."""

    key: str
    proposal: str
    decision: Decision
    files: tuple[FileStat, ...] = ()
    hunks: tuple[HunkFact, ...] = ()
    feedback: str = ""
    comments: tuple[LineComment, ...] = ()
    still_pending: bool = False


@dataclass(frozen=True, slots=True)
class QuestionEntry:
    """A question of the model."""

    key: str
    call: str
    text: str
    options: tuple[str, ...] = ()
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class NoticeEntry:
    """A line from signoff to the user."""

    key: str
    text: str
    level: Literal["info", "warning", "error"] = "info"


@dataclass(frozen=True, slots=True)
class TurnEndEntry:
    """The end of a turn: how it ended, and what it took."""

    key: str
    stopped: str
    message: str = ""
    duration: float = 0.0
    calls: int = 0
    tokens: int = 0
    """Tokens that the model wrote."""


@dataclass(frozen=True, slots=True)
class CompactionEntry:
    """Older history was shortened for the model; the transcript keeps it."""

    key: str
    summary: str
    before: int = 0
    after: int = 0


Entry = (
    UserEntry
    | AnswerEntry
    | ReasoningEntry
    | ToolEntry
    | InterventionEntry
    | ProposalEntry
    | DecisionEntry
    | QuestionEntry
    | NoticeEntry
    | TurnEndEntry
    | CompactionEntry
)
"""Anything that the transcript shows."""


@dataclass(frozen=True, slots=True)
class Put:
    """Show this entry: in the place of the one with the same key, else at the end."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class Drop:
    """Take the entry with this key away."""

    key: str


Change = Put | Drop
