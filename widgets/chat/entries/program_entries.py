"""Messages of signoff: to the model, to the user, and about how a turn ended."""

from dataclasses import dataclass
from typing import ClassVar, Literal

from app.conversation.events import InterventionKind
from app.conversation.token_totals import TokenTotals
from app.text.plural import plural
from widgets.chat.entries.entry_base import EntryGutter, FoldedEntry, TranscriptEntry
from widgets.chat.markdown.markdown_document import markdown_lines
from widgets.chat.markdown.styled_lines import (
    MUTED,
    Span,
    StyledLine,
    TextStyle,
    seconds,
    shorten,
    visible,
    width_of,
    wrap_text,
)
from widgets.common.figures import format_dollars, format_tokens

_NOTHING = TokenTotals()


@dataclass(frozen=True, slots=True)
class InterventionEntry(FoldedEntry):
    """A message of signoff to the model; folded to one line."""

    runs: ClassVar[bool] = True
    triangle: ClassVar[TextStyle] = TextStyle("program-mark")

    kind: InterventionKind
    text: str
    way: str
    """From whom to whom."""

    def rows(self, width: int, opened: bool) -> list[StyledLine]:
        """Return the lines of the instruction: sender, receiver and text."""
        head: Span = (f"{self.way}  ", TextStyle("program-mark"))
        text = visible(self.text)
        if opened:
            return [StyledLine((head,), action="toggle"), *wrap_text(text, TextStyle("program"), width)]
        return [StyledLine((head, (shorten(text, width - width_of(head[0])), TextStyle("program"))), action="toggle")]

    @property
    def copy_text(self) -> str:
        """Return the message."""
        return self.text


@dataclass(frozen=True, slots=True)
class NoticeEntry(TranscriptEntry):
    """A line from signoff to the user."""

    runs: ClassVar[bool] = True

    text: str
    level: Literal["info", "warning", "error"] = "info"

    def rows(self, width: int, opened: bool) -> list[StyledLine]:
        """The line."""
        return wrap_text(visible(self.text), MUTED if self.level == "info" else TextStyle(self.level), width)

    def marks(self, opened: bool) -> EntryGutter:
        """Return the marks for the severity."""
        return EntryGutter(("· ", MUTED) if self.level == "info" else ("! ", TextStyle(self.level)))

    @property
    def copy_text(self) -> str:
        """The line."""
        return self.text


@dataclass(frozen=True, slots=True)
class TurnEndEntry(TranscriptEntry):
    """The end of a turn: its outcome and its usage."""

    stopped: str
    message: str = ""
    duration: float = 0.0
    calls: int = 0
    spent: TokenTotals = _NOTHING
    """By its requests."""

    @property
    def facts(self) -> list[str]:
        """Return duration, calls, tokens and cost."""
        calls = plural(self.calls, "tool call") if self.calls else ""
        return [
            fact
            for fact in (seconds(self.duration), calls, format_tokens(self.spent), format_dollars(self.spent))
            if fact
        ]

    def rows(self, width: int, opened: bool) -> list[StyledLine]:
        """The facts, and how it goes on where that is not plain."""
        said = visible(self.message)
        if self.stopped == "failed":
            told = wrap_text(said or "The request failed.", TextStyle("error"), width)
            return [*told, StyledLine(((shorten("/continue sends it again", width), MUTED),))]
        if self.stopped == "aborted":
            parts = ["interrupted", *filter(None, [" ".join(said.split())]), *self.facts, "/continue goes on"]
            return [StyledLine(((shorten(" · ".join(parts), width), TextStyle("warning")),))]
        told = wrap_text(said, TextStyle("warning"), width) if said else []
        parts = [*self.facts, "/continue goes on"] if said and self.stopped == "answer" else self.facts
        return [*told, *([StyledLine(((shorten(" · ".join(parts), width), MUTED),))] if parts else [])]

    def marks(self, opened: bool) -> EntryGutter:
        """None, if it went well."""
        return EntryGutter(("✗ ", TextStyle("error"))) if self.stopped == "failed" else EntryGutter()

    @property
    def copy_text(self) -> str:
        """Return the text."""
        return self.message


@dataclass(frozen=True, slots=True)
class CompactionEntry(FoldedEntry):
    """Older history was shortened for the model; the transcript keeps it."""

    summary: str
    before: int = 0
    after: int = 0

    def rows(self, width: int, opened: bool) -> list[StyledLine]:
        """Return one line; when opened, the summary."""
        text = f"Older messages were {'summarised' if self.summary else 'cut'} for the model"
        if self.before and self.after:
            text += f" · {self.before:,} → {self.after:,} tokens"
        head = StyledLine(((shorten(text, width), MUTED),), action="toggle")
        return [head, *markdown_lines(self.summary, width, visible)] if opened else [head]

    @property
    def copy_text(self) -> str:
        """The summary."""
        return self.summary
