"""The report of a review, to send to others: proposed changes, decisions and reasons."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.conversation.events import SideExchange, collect_side_exchanges
from app.conversation.markdown_export import fence_code, quote_text
from app.images.image import quote_names
from app.proposals.text.diff import LineChange, diff_lines
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.models import FileChange, FileDiff, FileVersion, Proposal, describe_proposal_state
from app.runtime.open_workspace import OpenWorkspace
from app.storage.record_store import RecordedDecision, RecordStore
from app.text.plural import plural

SIDE_QUESTIONS_HEADING = "Asked aside"
"""What stands above the questions that are no part of the conversation."""


@dataclass(frozen=True, slots=True)
class ReviewReport:
    """A report on one proposal and its review."""

    proposal: Proposal
    diffs: Sequence[FileDiff]
    patch: str
    decisions: Sequence[RecordedDecision]
    """Oldest first."""
    denied_parts: "Sequence[DeniedPartText]" = ()
    """What was denied while other parts of the same file were not."""
    side_questions: Sequence[SideExchange] = ()
    """What the user asked the model aside, with the answers: no part of what was decided."""

    @property
    def size(self) -> str:
        """Return the counts of files and lines."""
        proposal = self.proposal
        return f"+{proposal.added} -{proposal.removed} in {plural(len(proposal.counted_changes), 'file')}"

    @property
    def header(self) -> Sequence[tuple[str, str]]:
        """Return the names and values at the top."""
        state = describe_proposal_state(self.proposal)
        return (
            ("State", f"{state[:1].upper()}{state[1:]}"),
            ("Changes", self.size),
            ("From", self.proposal.origin.description),
            ("Staged", format_time(self.proposal.created)),
            *([("Note", self.proposal.ignored_files_note)] if self.proposal.ignored else []),
        )

    @property
    def evidence(self) -> Mapping[int, str]:
        """Return the evidence of each hunk at its last decision, in words, by number of the hunk."""
        for decision in reversed(self.decisions):
            if decision.entry is not None and (fact := decision.entry.circumstances.evidence) is not None:
                return {one.hunk: one.description for one in fact.hunks}
        return {}

    @property
    def comments(self) -> Sequence[LineComment]:
        """Return the comments on single lines."""
        return [comment for decision in self.decisions for comment in decision.words.comments]


@dataclass(frozen=True, slots=True)
class DeniedPartText:
    """A part of a file that was denied, as lines without it and with it."""

    path: str
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def changes(self) -> list[LineChange]:
        """Return the difference between both texts."""
        return diff_lines(self.old, self.new)


def make_report(runtime: OpenWorkspace, name: str) -> ReviewReport:
    """Return the report on a proposal; raises UnknownProposal, and KeyError if its contents were pruned."""
    proposal = runtime.service.get(name)
    return ReviewReport(
        proposal,
        runtime.service.file_diffs(proposal.id),
        runtime.service.unified_diff(proposal.id),
        RecordStore(runtime.database, runtime.name).decisions(proposal.id),
        [refused for change in proposal.files if not change.binary for refused in _denied_parts(runtime, change)],
        collect_side_exchanges(runtime.sessions.side_questions(proposal.id)),
    )


def _denied_parts(runtime: OpenWorkspace, change: FileChange) -> Iterator[DeniedPartText]:
    def lines(version: FileVersion | None) -> tuple[str, ...]:
        data = runtime.proposals.read_blob(version.sha256) if version is not None else b""
        return tuple(data.decode("utf-8", "surrogateescape").splitlines())

    for part in change.denied:
        # Where nothing else waited, what the file is without them is what it came to.
        without = part.after if part.after != part.before else change.result
        yield DeniedPartText(change.path, lines(without), lines(part.before))


def format_time(moment: float) -> str:
    """A moment as people read it, in local time."""
    return datetime.fromtimestamp(moment).strftime("%Y-%m-%d %H:%M")


def describe_recorded_decision(decision: RecordedDecision) -> list[str]:
    """Return the outcome of a decision, who made it, and what they had seen."""
    entry, files, images = decision.entry, ", ".join(decision.files), decision.words.images
    facts = [files] if files else []
    facts += [f"attached {quote_names(images)}"] if images else []
    facts += ["words were said that are not kept as they were"] if decision.words_lost else []
    if entry is None:
        return facts
    stands = (("approved", entry.hunks.approved), ("denied", entry.hunks.denied), ("waiting", entry.hunks.waiting))
    hunks = "; ".join(f"{name} {', '.join(map(str, numbers))}" for name, numbers in stands if numbers)
    facts += [f"hunks {hunks}"] if hunks else []
    facts += [f"by {entry.who}"] if entry.who else []
    seen = entry.circumstances
    facts += [seen.caller.description] if seen.caller else []
    if seen.unseen_lines:
        facts.append(f"{plural(seen.unseen_lines, 'changed line')} never on screen ({', '.join(seen.unseen_files)})")
    elif seen.unseen_lines == 0:
        facts.append("every changed line was on screen")
    facts += [f"{check.name}: {check.words or check.state.replace('_', ' ')}" for check in seen.checks]
    facts += [entry.recipe_description] if entry.recipe else []
    if (found := seen.evidence) is not None:
        facts.append(f"without each hunk, by {found.check} ({found.selection}):")
        facts += [f"hunk {one.hunk} of {one.path}: {one.description}" for one in found.hunks]
    return facts


def render_markdown(report: ReviewReport) -> str:
    """The report as Markdown."""
    parts = [f"# {report.proposal.id}: {report.proposal.summary}"]
    parts.append("\n".join(f"- {name}: {value}" for name, value in report.header))
    for decision in report.decisions:
        words = decision.words
        parts.append(f"## {decision.decision.replace('_', ' ').capitalize()}, {format_time(decision.time)}")
        parts.append("\n".join(f"- {fact}" for fact in describe_recorded_decision(decision)))
        if words.feedback.strip():
            parts.append(quote_text(words.feedback.strip()))
        for comment in words.comments:
            said = quote_text(comment.text.strip())
            parts.append(f"`{comment.path}:{comment.line}`\n\n{fence_code(comment.quote, 'diff')}\n\n{said}")
    for refused in report.denied_parts:
        shown = [
            line
            for change in refused.changes
            for line in (
                *(f"-{line}" for line in refused.old[change.old_start : change.old_end]),
                *(f"+{line}" for line in refused.new[change.new_start : change.new_end]),
            )
        ]
        if shown:
            parts.append(f"## Denied in {refused.path}\n\n{fence_code(chr(10).join(shown), 'diff')}")
    parts.append(f"## The change\n\n{fence_code(report.patch, 'diff')}")
    if report.side_questions:
        parts.append(f"## {SIDE_QUESTIONS_HEADING}")
        parts += [_side_question(one) for one in report.side_questions]
    return "\n\n".join(parts) + "\n"


def _side_question(exchange: SideExchange) -> str:
    """A question and its answer, both quoted: nothing in them is a heading of the report."""
    picked = fence_code(exchange.question.picked, "diff") if exchange.question.picked else ""
    head, said = f"### {question_heading(exchange)}", quote_text(exchange.question.text)
    return "\n\n".join(
        filter(None, (head, picked, said, f"{answer_heading(exchange)}:", quote_text(exchange.answer_text)))
    )


def question_heading(exchange: SideExchange) -> str:
    """Return a heading: `Hunk 2 of P7 in a.py, 2026-11-02 10:15`."""
    subject = exchange.question.subject
    return f"{subject[:1].upper()}{subject[1:]}, {format_time(exchange.question.time)}"


def answer_heading(exchange: SideExchange) -> str:
    """Return the heading of an answer: its author, and whether it is complete."""
    if exchange.answer is None or not exchange.answer_text:
        return "No answer came"
    state = "" if exchange.answer.state == "complete" else f" ({exchange.answer.state})"
    return f"{exchange.answer.model or 'The model'} answered{state}"
