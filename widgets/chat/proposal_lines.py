"""The rows of a proposal's card, and of what the user decided about it."""

from app.conversation.events import Decision
from app.proposals.facts import FileStat
from widgets.chat.entries import DecisionEntry, ProposalEntry
from widgets.chat.lines import MUTED, TEXT, Face, Line, Span, visible, width_of, wrap, wrap_text
from widgets.chat.marks import STATE_FACES, USER_BAR
from widgets.chat.tool_lines import shorten_path

LONGEST_FILES = 8
"""Files listed on a proposal's card."""

_STATE_WORDS = {
    "pending": "waits for you",
    "partly_approved": "partly approved, the rest waits",
    "applied": "approved",
    "denied": "denied",
    "stale": "stale",
    "superseded": "replaced by a newer one",
    "undone": "undone",
    "failed": "could not be applied",
}
_DECISION_WORDS: dict[Decision, tuple[str, Face]] = {
    Decision.APPROVED: ("Approved", Face("success")),
    Decision.PARTLY_APPROVED: ("Approved in part:", Face("success")),
    Decision.DENIED: ("Denied", Face("error")),
    Decision.UNDONE: ("Undid", Face("warning")),
    Decision.REOPENED: ("Reopened", Face("warning")),
    Decision.REDONE: ("Applied again:", Face("success")),
    Decision.EDITED: ("Edited", Face("warning")),
}
_WAITING = ("pending", "partly_approved", "stale")


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
    return Line(((shorten_path(visible(stat.path), room), TEXT), *tail), fill=fill)


def card_lines(entry: ProposalEntry, width: int) -> list[Line]:
    """Id, summary, files with their numbers, state, and how to get to the review."""
    head: list[Span] = [(visible(entry.proposal), Face("card-id", bold=True)), ("  ", TEXT)]
    head.append((visible(" ".join(entry.summary.split())), Face("text", bold=True)))
    indent: Span = (" " * (width_of(entry.proposal) + 2), TEXT)
    lines = wrap(head, width, (), (indent,), fill="card")
    files = entry.files if len(entry.files) <= LONGEST_FILES + 1 else entry.files[:LONGEST_FILES]
    lines.extend(_file_line(stat, width, "card") for stat in files)
    if len(files) < len(entry.files):
        lines.append(Line(((f"… {len(entry.files) - len(files)} more files", MUTED),), fill="card"))
    face = STATE_FACES.get(entry.state, MUTED)
    status: list[Span] = [(_STATE_WORDS.get(entry.state, visible(entry.state)), face)]
    if entry.supersedes:
        status.append((f" · revises {visible(entry.supersedes)}", MUTED))
    if entry.reason:
        status.append((f" · {visible(entry.reason)}", MUTED))
    if entry.state in _WAITING:
        status += [(" · ", MUTED), ("Enter", Face("key", bold=True)), (" or click to review", MUTED)]
    lines.extend(wrap(status, width, fill="card"))
    return lines


def _hunk_words(entry: DecisionEntry) -> str:
    """What became of the hunks that waited, where the decision was on some, or on the rest."""
    count = len(entry.hunks)
    if entry.decision is not Decision.DENIED:
        return f"{sum(hunk.landed for hunk in entry.hunks)} of {count} hunks written"
    if not entry.still_pending:
        return "the hunk that still waited" if count == 1 else f"the {count} hunks that still waited"
    return f"{sum(hunk.reason == 'denied' for hunk in entry.hunks)} of {count} hunks discarded"


def decision_lines(entry: DecisionEntry, width: int) -> list[Line]:
    """What was decided, and below it the user's own words."""
    word, face = _DECISION_WORDS[entry.decision]
    spans: list[Span] = [(word, face), (f" {visible(entry.proposal)}", Face("text", bold=True))]
    if entry.hunks:
        spans.append((f" · {_hunk_words(entry)}", MUTED))
    elif entry.files:
        names = f"{len(entry.files)} files" if len(entry.files) > 1 else visible(entry.files[0].path)
        spans.append((f" · {names}", MUTED))
        numbers = _numbers(sum(s.added for s in entry.files), sum(s.removed for s in entry.files))
        if numbers and entry.decision not in (Decision.DENIED, Decision.REOPENED):
            spans += [(" ", TEXT), *numbers]
    if entry.still_pending:
        rest = {Decision.EDITED: "it still waits", Decision.REOPENED: "it waits again"}
        spans.append((f" · {rest.get(entry.decision, 'the rest still waits')}", Face("warning")))
    lines = wrap(spans, width)
    bar: tuple[Span, ...] = (USER_BAR,)
    if entry.feedback.strip():
        lines.extend(wrap_text(visible(entry.feedback.strip()), Face("user"), width, bar))
    for comment in entry.comments:
        place = f"{visible(comment.path)}:{comment.line}  "
        lines.extend(wrap([(place, MUTED), (visible(" ".join(comment.text.split())), Face("user"))], width, bar, bar))
    return lines
