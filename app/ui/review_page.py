"""Render a review report as one self-contained HTML page, in the app's colours, dark and light."""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

from msgspec import Struct
from textual.theme import Theme

from app.conversation.events import SideExchange
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.models import FileDiff, Hunk, HunkState
from app.runtime.review_report import (
    SIDE_QUESTIONS_HEADING,
    DeniedChange,
    ProposalReviewReport,
    describe_recorded_decision,
    side_answer_heading,
    side_question_heading,
)
from app.text.quantities import format_path, format_time
from app.text.safe_text import escape_unsafe
from app.ui.themes.first_theme import load_signoff_theme
from widgets.diff.diff_colours import make_diff_variable_defaults
from widgets.diff.syntax_tokens import lex_lines

_CommentsByLine = dict[tuple[str, int], list[str]]
"""The user's comments by (side, line)."""
_CONTEXT_LINES = 3
"""Unchanged lines around a change."""
_STATE_LABELS = {HunkState.APPLIED: "approved", HunkState.DENIED: "denied", HunkState.PENDING: "waits"}
_PAGE_COLOURS = (
    *("background", "surface", "panel", "foreground", "primary", "accent", "success", "warning", "error"),
    *("text-primary", "text-secondary", "text-accent", "text-success", "text-warning", "text-error"),
)


def render_report_html(report: ProposalReviewReport) -> str:
    """Return the HTML page of a review report."""
    title, styles = f"{report.proposal.id}: {report.proposal.summary}", _make_style_sheet()
    facts = "".join(f"<dt>{_escape_text(name)}</dt><dd>{_escape_text(value)}</dd>" for name, value in report.header)
    decisions = "".join(_render_decision(report, number) for number in range(len(report.decisions)))
    files = "".join(_render_file(diff, report.comments, report.evidence) for diff in report.diffs)
    denied_parts = "".join(_render_denied_part(part) for part in report.denied_parts)
    side_questions = "".join(_render_side_question(exchange) for exchange in report.side_questions)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_make_security_policy(styles)}">\n'
        f"<title>{_escape_text(title)}</title>\n<style>{styles}</style>\n</head>\n<body>\n<main>\n"
        f"<header><h1><b>{_escape_text(report.proposal.id)}</b> {_escape_text(report.proposal.summary)}</h1>\n"
        f"<dl>{facts}</dl></header>\n"
        f"{f'<section><h2>Decisions</h2>{decisions}</section>' if decisions else ''}\n"
        f"<section><h2>The change</h2>{files}</section>\n"
        f"{f'<section><h2>Denied</h2>{denied_parts}</section>' if denied_parts else ''}\n"
        f"{f'<section><h2>{SIDE_QUESTIONS_HEADING}</h2>{side_questions}</section>' if side_questions else ''}\n"
        "<footer>Reviewed with signoff</footer>\n</main>\n</body>\n</html>\n"
    )


def _render_decision(report: ProposalReviewReport, number: int) -> str:
    decision = report.decisions[number]
    feedback = decision.words.feedback.strip()
    lines = "".join(f"<li>{_escape_text(fact)}</li>" for fact in describe_recorded_decision(decision))
    quote = f"<blockquote>{_escape_text(feedback)}</blockquote>" if feedback else ""
    name = decision.decision.replace("_", " ").capitalize()
    head = f"<h3>{_escape_text(name)} <time>{format_time(decision.time)}</time></h3>"
    return f'<article class="{_escape_text(decision.decision)}">{head}<ul>{lines}</ul>{quote}</article>'


def _render_file(diff: FileDiff, comments: Sequence[LineComment], evidence: Mapping[int, str]) -> str:
    change = diff.change
    name = format_path(change.path, change.old_path)
    counts = f"{_escape_text(change.op.value)} +{change.added} -{change.removed}"
    heading = f"<h3>{_escape_text(name)} <span>{counts}</span></h3>"
    if change.binary:
        return f"<article>{heading}<p>A binary file.</p></article>"
    unplaced_comments: _CommentsByLine = {}
    for comment in comments:
        if comment.path == change.path:
            unplaced_comments.setdefault((comment.side, comment.line), []).append(comment.text)
    parts = [
        _ChangedRange(
            hunk.old_start,
            hunk.old_start + hunk.old_count,
            hunk.new_start,
            hunk.new_start + hunk.new_count,
            _render_hunk_head(hunk, evidence.get(hunk.number, "")),
        )
        for hunk in change.hunks
        if hunk.old_count or hunk.new_count
    ]
    rows = "".join(_render_rows(change.path, diff.old, diff.new, parts, unplaced_comments))
    body = _render_table(rows) if parts else "<p>No line of it is changed.</p>"
    comments_below = "".join(
        f"<blockquote>line {line}: {_escape_text(text)}</blockquote>"
        for (_, line), texts in unplaced_comments.items()
        for text in texts
    )
    denied_hunks = [
        hunk for hunk in change.hunks if hunk.state is HunkState.DENIED and not hunk.old_count + hunk.new_count
    ]
    note = f"<p>Denied: {', '.join(f'hunk {hunk.number}' for hunk in denied_hunks)}</p>" if denied_hunks else ""
    return f"<article>{heading}{note}{body}{comments_below}</article>"


def _render_denied_part(denied_part: DeniedChange) -> str:
    """Return the denied part of a file whose other parts were approved."""
    head = '<tr class="hunk denied"><td colspan="4"><b>denied</b></td></tr>'
    parts = [
        _ChangedRange(change.old_start, change.old_end, change.new_start, change.new_end, head)
        for change in denied_part.changes
    ]
    if not parts:
        return ""
    rows = "".join(_render_rows(denied_part.path, denied_part.old, denied_part.new, parts, {}))
    heading = f"<h3>{_escape_text(denied_part.path)} <span>without</span></h3>"
    return f'<article class="denied">{heading}{_render_table(rows)}</article>'


def _render_side_question(exchange: SideExchange) -> str:
    """Return a side question and its answer as HTML."""
    picked = f"<pre>{_escape_text(exchange.question.picked)}</pre>" if exchange.question.picked else ""
    answer = f'<p class="answer">{_escape_text(exchange.answer_text)}</p>' if exchange.answer_text else ""
    return (
        f"<article><h3>{_escape_text(side_question_heading(exchange))}</h3>{picked}<blockquote>{_escape_text(exchange.question.text)}</blockquote>"
        f"<h3><span>{_escape_text(side_answer_heading(exchange))}</span></h3>{answer}</article>"
    )


def _render_table(rows: str) -> str:
    return f'<div class="code"><table>{rows}</table></div>'


class _ChangedRange(Struct, frozen=True):
    """A range of old lines, and the range of new lines that replaces it."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int
    head: str


def _render_rows(
    path: str, old: Sequence[str], new: Sequence[str], parts: Sequence[_ChangedRange], comments: _CommentsByLine
) -> Iterator[str]:
    """Yield the table rows near the changes, with the user's comments; remove the shown comments from `comments`."""
    sides = {
        side: [_highlight_line(line, spans) for line, spans in zip(lines, lex_lines(path, lines), strict=True)]
        for side, lines in (("old", old), ("new", new))
    }

    old_index = new_index = 0

    def row(kind: str, before: int | None, after: int | None) -> Iterator[str]:
        side, number = ("old", before) if kind == "removed" else ("new", after)
        assert number is not None
        numbers = "".join(
            f'<td class="n {name}">{"" if line_index is None else line_index + 1}</td>'
            for name, line_index in (("o", before), ("w", after))
        )
        mark = {"added": "+", "removed": "-"}.get(kind, " ")
        yield f'<tr class="{kind}">{numbers}<td class="m">{mark}</td><td>{sides[side][number]}</td></tr>'
        for text in comments.pop((side, number + 1), ()):
            yield f'<tr class="comment"><td colspan="4">{_escape_text(text)}</td></tr>'

    def unchanged_rows(until: int) -> Iterator[str]:
        nonlocal old_index, new_index
        while old_index < until:
            yield from row("same", old_index, new_index)
            old_index, new_index = old_index + 1, new_index + 1

    gap = '<tr class="gap"><td colspan="4">⋯</td></tr>'
    for number, part in enumerate(parts):
        if (skipped := part.old_start - old_index - _CONTEXT_LINES) > 0:
            yield gap
            old_index, new_index = old_index + skipped, new_index + skipped
        yield from unchanged_rows(part.old_start)
        yield part.head
        for line in range(part.old_start, part.old_end):
            yield from row("removed", line, None)
        for line in range(part.new_start, part.new_end):
            yield from row("added", None, line)
        old_index, new_index = part.old_end, part.new_end
        following = parts[number + 1].old_start if number + 1 < len(parts) else len(old)
        yield from unchanged_rows(min(following, part.old_end + _CONTEXT_LINES))
    if old_index < len(old):
        yield gap


def _render_hunk_head(hunk: Hunk, evidence: str) -> str:
    state, evidence_text = _STATE_LABELS[hunk.state], f" · {_escape_text(evidence)}" if evidence else ""
    return f'<tr class="hunk {state}"><td colspan="4">hunk {hunk.number} <b>{state}</b>{evidence_text}</td></tr>'


def _highlight_line(line: str, spans: Sequence[tuple[int, int, str]]) -> str:
    """Return a line as HTML with syntax colours; deceptive characters are made visible."""
    parts: list[str] = []
    position = 0
    for start, end, kind in spans:
        name = kind.removeprefix("diff--")
        parts += (_escape_text(line[position:start]), f'<i class="{name}">{_escape_text(line[start:end])}</i>')
        position = end
    return "".join((*parts, _escape_text(line[position:])))


def _escape_text(text: str) -> str:
    return escape(escape_unsafe(text).encode("utf-8", "replace").decode())


def _make_security_policy(styles: str) -> str:
    """Return the page's content security policy, which allows only these styles (https://www.w3.org/TR/CSP3/)."""
    digest = base64.b64encode(hashlib.sha256(styles.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _make_style_sheet() -> str:
    dark, light = (_colour_variables(load_signoff_theme(name)) for name in ("signoff-dark", "signoff-light"))
    css = Path(__file__).with_name("review_page.css").read_text(encoding="utf-8")
    return f":root{{color-scheme:dark light;{dark}}}@media(prefers-color-scheme:light){{:root{{{light}}}}}\n{css}"


def _colour_variables(theme: Theme) -> str:
    values = make_diff_variable_defaults(theme) | theme.to_color_system().generate() | theme.variables
    names = [name for name in values if name in _PAGE_COLOURS or name.startswith("diff-")]
    return "".join(f"--{name}:{values[name]};" for name in names if values[name].startswith("#"))
