"""Proposals and decisions: the card of a proposal, and each decision about it."""

from dataclasses import dataclass
from typing import ClassVar

from app.conversation.events import Decision
from app.images.image import Image
from app.proposals.values.decision_facts import FileStat, HunkOutcome, LineComment
from app.text.quantities import plural
from widgets.chat.entries.entry_base import USER_BAR, EntryMarks, TranscriptEntry, image_line
from widgets.chat.markdown.styled_lines import (
    MUTED_STYLE,
    TEXT_STYLE,
    Span,
    StyledLine,
    TextStyle,
    cell_width,
    find_fitting_end,
    make_safe_text,
    shorten_path,
    wrap_spans,
    wrap_text,
)

MAX_LISTED_FILES = 8
"""Files listed on a proposal's card."""

_STATE_FACES = {
    "pending": TextStyle("warning"),
    "partly_approved": TextStyle("warning"),
    "applied": TextStyle("success"),
    "denied_in_part": TextStyle("success"),
    "denied": TextStyle("error"),
    "stale": TextStyle("error"),
    "failed": TextStyle("error"),
}
"""The colours of a proposal's states; others are muted."""
_STATE_WORDS = {
    "pending": "waits for you",
    "partly_approved": "partly approved, the rest waits",
    "applied": "approved",
    "denied_in_part": "approved in part, the rest denied",
    "denied": "denied",
    "stale": "stale",
    "superseded": "replaced by a newer one",
    "undone": "undone",
    "failed": "could not be applied",
}
_DECISION_WORDS: dict[Decision, tuple[str, TextStyle]] = {
    Decision.APPROVED: ("Approved", TextStyle("success")),
    Decision.PARTLY_APPROVED: ("Approved in part:", TextStyle("success")),
    Decision.DENIED: ("Denied", TextStyle("error")),
    Decision.UNDONE: ("Undid", TextStyle("warning")),
    Decision.REOPENED: ("Reopened", TextStyle("warning")),
    Decision.REDONE: ("Applied again:", TextStyle("success")),
    Decision.EDITED: ("Edited", TextStyle("warning")),
}
_ON_DISK_WORDS = {
    Decision.APPROVED: "Kept",
    Decision.PARTLY_APPROVED: "Kept in part:",
    Decision.DENIED: "Took off the disk:",
    Decision.REOPENED: "Reopened",
}
"""Of what was on disk before it was decided on."""
_DECISION_MARKS: dict[Decision, Span] = {
    Decision.APPROVED: ("✓ ", TextStyle("success")),
    Decision.PARTLY_APPROVED: ("◐ ", TextStyle("success")),
    Decision.DENIED: ("✗ ", TextStyle("error")),
    Decision.UNDONE: ("↶ ", TextStyle("warning")),
    Decision.REOPENED: ("↶ ", TextStyle("warning")),
    Decision.REDONE: ("↷ ", TextStyle("success")),
    Decision.EDITED: ("✎ ", TextStyle("warning")),
}
_WAITING = ("pending", "partly_approved", "stale")
_OP_WORDS = {"create": "new", "delete": "deleted", "rename": "renamed", "mode": "mode"}


@dataclass(frozen=True, slots=True)
class ProposalEntry(TranscriptEntry):
    """A staged proposal, as a card that leads to the review."""

    fill: ClassVar[str] = "card"

    proposal: str
    summary: str
    files: tuple[FileStat, ...]
    state: str = "pending"
    """`app.proposals.values.models.ProposalState`, as far as the session's events tell, or `denied_in_part`."""
    reason: str = ""
    supersedes: str = ""
    is_command: bool = False
    """Whether the summary is a command, which is cut to one line here and stands whole in the review."""

    def rows(self, width: int, opened: bool) -> list[StyledLine]:
        """Return id, summary, files with their line counts, state, and the key that leads to the review."""
        head: list[Span] = [(make_safe_text(self.proposal), TextStyle("card-id", bold=True)), ("  ", TEXT_STYLE)]
        if self.is_command:
            tail = f" · {plural(len(self.files), 'file')}"
            command = _cut(make_safe_text(self.summary), width - cell_width(self.proposal) - 2 - cell_width(tail))
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
        face = _STATE_FACES.get(self.state, MUTED_STYLE)
        status: list[Span] = [(_STATE_WORDS.get(self.state, make_safe_text(self.state)), face)]
        if self.supersedes:
            status.append((f" · revises {make_safe_text(self.supersedes)}", MUTED_STYLE))
        if self.reason:
            status.append((f" · {make_safe_text(self.reason)}", MUTED_STYLE))
        if self.state in _WAITING:
            status += [
                (" · ", MUTED_STYLE),
                ("Enter", TextStyle("key", bold=True)),
                (" or click to review", MUTED_STYLE),
            ]
        lines.extend(wrap_spans(status, width, fill="card"))
        return lines

    def marks(self, opened: bool) -> EntryMarks:
        face = _STATE_FACES.get(self.state, MUTED_STYLE)
        return EntryMarks(("╭ ", face), ("│ ", face), ("╰ ", face))

    def expected_height(self, width: int) -> int:
        """Return the height with a row for each listed file."""
        return 2 + (0 if self.is_command else min(len(self.files), MAX_LISTED_FILES + 1))

    @property
    def copy_text(self) -> str:
        """Return its id and its summary."""
        return f"{self.proposal} {self.summary}"


@dataclass(frozen=True, slots=True)
class DecisionEntry(TranscriptEntry):
    """A decision of the user with the feedback."""

    proposal: str
    decision: Decision
    files: tuple[FileStat, ...] = ()
    hunks: tuple[HunkOutcome, ...] = ()
    feedback: str = ""
    comments: tuple[LineComment, ...] = ()
    images: tuple[Image, ...] = ()
    """Images sent with the feedback."""
    still_pending: bool = False
    on_disk: bool = False
    """It was on disk before."""

    def rows(self, width: int, opened: bool) -> list[StyledLine]:
        """Return the decision, and below it the user's own words."""
        word, face = _DECISION_WORDS[self.decision]
        word = _ON_DISK_WORDS.get(self.decision, word) if self.on_disk else word
        spans: list[Span] = [(word, face), (f" {make_safe_text(self.proposal)}", TextStyle("text", bold=True))]
        if self.hunks:
            spans.append((f" · {self._hunk_words()}", MUTED_STYLE))
        elif self.files:
            names = f"{len(self.files)} files" if len(self.files) > 1 else make_safe_text(self.files[0].path)
            spans.append((f" · {names}", MUTED_STYLE))
            numbers = _numbers(sum(s.added for s in self.files), sum(s.removed for s in self.files))
            if numbers and self.decision not in (Decision.DENIED, Decision.REOPENED):
                spans += [(" ", TEXT_STYLE), *numbers]
        if self.still_pending:
            rest = {Decision.EDITED: "it still waits", Decision.REOPENED: "it waits again"}
            spans.append((f" · {rest.get(self.decision, 'the rest still waits')}", TextStyle("warning")))
        lines = wrap_spans(spans, width)
        bar: tuple[Span, ...] = (USER_BAR,)
        if self.feedback.strip():
            lines.extend(wrap_text(make_safe_text(self.feedback.strip()), TextStyle("user"), width, bar))
        for comment in self.comments:
            place = f"{make_safe_text(comment.path)}:{comment.line}  "
            lines.extend(
                wrap_spans(
                    [(place, MUTED_STYLE), (make_safe_text(" ".join(comment.text.split())), TextStyle("user"))],
                    width,
                    bar,
                    bar,
                )
            )
        return [*lines, *(image_line(image, width, bar) for image in self.images)]

    def _hunk_words(self) -> str:
        """Return the outcome of the hunks, where the decision was about a part."""
        count = len(self.hunks)
        if self.decision is not Decision.DENIED:
            if self.on_disk and self.decision is Decision.REOPENED:
                return plural(count, "hunk")
            if not self.still_pending and all(hunk.landed for hunk in self.hunks):
                return _the_rest(count)
            verb = "kept" if self.on_disk else "written"
            return f"{sum(hunk.landed for hunk in self.hunks)} of {count} hunks {verb}"
        if not self.still_pending:
            return _the_rest(count)
        verb = "" if self.on_disk else " discarded"
        return f"{sum(hunk.reason == 'denied' for hunk in self.hunks)} of {count} hunks{verb}"

    def marks(self, opened: bool) -> EntryMarks:
        return EntryMarks(_DECISION_MARKS[self.decision])

    def expected_height(self, width: int) -> int:
        """Return the height with the feedback."""
        return 1 + (self.feedback.count("\n") + 1 if self.feedback else 0) + len(self.images)

    @property
    def copy_text(self) -> str:
        """Return the feedback, or the subject of the decision."""
        return self.feedback or self.proposal


def _cut(text: str, width: int) -> str:
    """The beginning of a text in which white space counts, an ellipsis where something was left out."""
    if cell_width(text) <= width:
        return text
    return f"{text[: find_fitting_end(text, 0, max(0, width - 1))]}…"


def _the_rest(count: int) -> str:
    return "the hunk that still waited" if count == 1 else f"the {count} hunks that still waited"


def _numbers(added: int, removed: int) -> list[Span]:
    spans: list[Span] = []
    if added:
        spans.append((f"+{added}", TextStyle("added")))
    if removed:
        spans.append((" " if spans else "", TEXT_STYLE))
        spans.append((f"-{removed}", TextStyle("removed")))
    return spans


def _file_line(stat: FileStat, width: int, fill: str) -> StyledLine:
    numbers = _numbers(stat.added, stat.removed)
    tail: list[Span] = [("  ", TEXT_STYLE), *numbers] if numbers else []
    if word := _OP_WORDS.get(stat.op):
        tail.append((f"  {word}", MUTED_STYLE))
    room = width - sum(cell_width(text) for text, _ in tail)
    return StyledLine(((shorten_path(make_safe_text(stat.path), room), TEXT_STYLE), *tail), fill=fill)
