"""Render a review report as one self-contained HTML page, in the app's colours, dark and light."""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from textual.theme import Theme

from app.conversation.events import SideExchange
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.models import FileDiff, Hunk, HunkState
from app.runtime.review_report import (
    SIDE_QUESTIONS_HEADING,
    DeniedPartText,
    ReviewReport,
    answer_heading,
    describe_recorded_decision,
    format_time,
    question_heading,
)
from app.text.safe_text import escape_unsafe
from app.ui.themes.first_theme import built_in_theme
from widgets.diff.diff_colours import make_diff_variable_defaults
from widgets.diff.syntax_tokens import lex_lines

_Said = dict[tuple[str, int], list[str]]
"""The user's comments by (side, line)."""
_CONTEXT = 3
"""Unchanged lines around a change."""
_STATES = {HunkState.APPLIED: "approved", HunkState.DENIED: "denied", HunkState.PENDING: "waits"}
_COLOURS = (
    *("background", "surface", "panel", "foreground", "primary", "accent", "success", "warning", "error"),
    *("text-primary", "text-secondary", "text-accent", "text-success", "text-warning", "text-error"),
)


def render_report_html(report: ReviewReport) -> str:
    """Return the HTML page of a review report."""
    title, styles = f"{report.proposal.id}: {report.proposal.summary}", _styles()
    facts = "".join(f"<dt>{_text(name)}</dt><dd>{_text(value)}</dd>" for name, value in report.header)
    decisions = "".join(_decision(report, number) for number in range(len(report.decisions)))
    files = "".join(_file(diff, report.comments, report.evidence) for diff in report.diffs)
    refused = "".join(_refused(part) for part in report.denied_parts)
    asked = "".join(_asked(one) for one in report.side_questions)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_policy(styles)}">\n'
        f"<title>{_text(title)}</title>\n<style>{styles}</style>\n</head>\n<body>\n<main>\n"
        f"<header><h1><b>{_text(report.proposal.id)}</b> {_text(report.proposal.summary)}</h1>\n"
        f"<dl>{facts}</dl></header>\n"
        f"{f'<section><h2>Decisions</h2>{decisions}</section>' if decisions else ''}\n"
        f"<section><h2>The change</h2>{files}</section>\n"
        f"{f'<section><h2>Denied</h2>{refused}</section>' if refused else ''}\n"
        f"{f'<section><h2>{SIDE_QUESTIONS_HEADING}</h2>{asked}</section>' if asked else ''}\n"
        "<footer>Reviewed with signoff</footer>\n</main>\n</body>\n</html>\n"
    )


def _decision(found: ReviewReport, number: int) -> str:
    decision = found.decisions[number]
    feedback = decision.words.feedback.strip()
    lines = "".join(f"<li>{_text(fact)}</li>" for fact in describe_recorded_decision(decision))
    said = f"<blockquote>{_text(feedback)}</blockquote>" if feedback else ""
    name = decision.decision.replace("_", " ").capitalize()
    head = f"<h3>{_text(name)} <time>{format_time(decision.time)}</time></h3>"
    return f'<article class="{_text(decision.decision)}">{head}<ul>{lines}</ul>{said}</article>'


def _file(diff: FileDiff, comments: Sequence[LineComment], evidence: Mapping[int, str]) -> str:
    change = diff.change
    name = f"{change.old_path} → {change.path}" if change.old_path else change.path
    head = f"<h3>{_text(name)} <span>{_text(change.op.value)} +{change.added} -{change.removed}</span></h3>"
    if change.binary:
        return f"<article>{head}<p>A binary file.</p></article>"
    said: _Said = {}
    for comment in comments:
        if comment.path == change.path:
            said.setdefault((comment.side, comment.line), []).append(comment.text)
    parts = [
        _Part(
            hunk.old_start,
            hunk.old_start + hunk.old_count,
            hunk.new_start,
            hunk.new_start + hunk.new_count,
            _hunk_head(hunk, evidence.get(hunk.number, "")),
        )
        for hunk in change.hunks
        if hunk.old_count or hunk.new_count
    ]
    rows = "".join(_rows(change.path, diff.old, diff.new, parts, said))
    body = _table(rows) if parts else "<p>No line of it is changed.</p>"
    left = "".join(
        f"<blockquote>line {line}: {_text(text)}</blockquote>" for (_, line), texts in said.items() for text in texts
    )
    gone = [hunk for hunk in change.hunks if hunk.state is HunkState.DENIED and not hunk.old_count + hunk.new_count]
    note = f"<p>Denied: {', '.join(f'hunk {hunk.number}' for hunk in gone)}</p>" if gone else ""
    return f"<article>{head}{note}{body}{left}</article>"


def _refused(refused: DeniedPartText) -> str:
    """Return the denied part of a file whose other parts were approved."""
    head = '<tr class="hunk denied"><td colspan="4"><b>denied</b></td></tr>'
    parts = [
        _Part(change.old_start, change.old_end, change.new_start, change.new_end, head) for change in refused.changes
    ]
    if not parts:
        return ""
    rows = "".join(_rows(refused.path, refused.old, refused.new, parts, {}))
    return f'<article class="denied"><h3>{_text(refused.path)} <span>without</span></h3>{_table(rows)}</article>'


def _asked(one: SideExchange) -> str:
    """Return a side question and its answer as HTML."""
    picked = f"<pre>{_text(one.question.picked)}</pre>" if one.question.picked else ""
    answer = f'<p class="answer">{_text(one.answer_text)}</p>' if one.answer_text else ""
    return (
        f"<article><h3>{_text(question_heading(one))}</h3>{picked}<blockquote>{_text(one.question.text)}</blockquote>"
        f"<h3><span>{_text(answer_heading(one))}</span></h3>{answer}</article>"
    )


def _table(rows: str) -> str:
    return f'<div class="code"><table>{rows}</table></div>'


@dataclass(frozen=True, slots=True)
class _Part:
    """A range of old lines, and the range of new lines that replaces it."""

    old_start: int
    old_end: int
    new_start: int
    new_end: int
    head: str


def _rows(path: str, old: Sequence[str], new: Sequence[str], parts: Sequence[_Part], said: _Said) -> Iterator[str]:
    """Yield the table rows near the changes, with the user's comments; remove the shown comments from `said`."""
    sides = {
        side: [_code(line, spans) for line, spans in zip(lines, lex_lines(path, lines), strict=True)]
        for side, lines in (("old", old), ("new", new))
    }

    at_old = at_new = 0

    def row(kind: str, before: int | None, after: int | None) -> Iterator[str]:
        side, number = ("old", before) if kind == "removed" else ("new", after)
        assert number is not None
        numbers = "".join(
            f'<td class="n {name}">{"" if at is None else at + 1}</td>' for name, at in (("o", before), ("w", after))
        )
        mark = {"added": "+", "removed": "-"}.get(kind, " ")
        yield f'<tr class="{kind}">{numbers}<td class="m">{mark}</td><td>{sides[side][number]}</td></tr>'
        for text in said.pop((side, number + 1), ()):
            yield f'<tr class="comment"><td colspan="4">{_text(text)}</td></tr>'

    def same(until: int) -> Iterator[str]:
        nonlocal at_old, at_new
        while at_old < until:
            yield from row("same", at_old, at_new)
            at_old, at_new = at_old + 1, at_new + 1

    gap = '<tr class="gap"><td colspan="4">⋯</td></tr>'
    for number, part in enumerate(parts):
        if (skipped := part.old_start - at_old - _CONTEXT) > 0:
            yield gap
            at_old, at_new = at_old + skipped, at_new + skipped
        yield from same(part.old_start)
        yield part.head
        for line in range(part.old_start, part.old_end):
            yield from row("removed", line, None)
        for line in range(part.new_start, part.new_end):
            yield from row("added", None, line)
        at_old, at_new = part.old_end, part.new_end
        following = parts[number + 1].old_start if number + 1 < len(parts) else len(old)
        yield from same(min(following, part.old_end + _CONTEXT))
    if at_old < len(old):
        yield gap


def _hunk_head(hunk: Hunk, evidence: str) -> str:
    state, said = _STATES[hunk.state], f" · {_text(evidence)}" if evidence else ""
    return f'<tr class="hunk {state}"><td colspan="4">hunk {hunk.number} <b>{state}</b>{said}</td></tr>'


def _code(line: str, spans: Sequence[tuple[int, int, str]]) -> str:
    """Return a line as HTML with syntax colours; deceptive characters are made visible."""
    parts: list[str] = []
    at = 0
    for start, end, kind in spans:
        name = kind.removeprefix("diff--")
        parts += (_text(line[at:start]), f'<i class="{name}">{_text(line[start:end])}</i>')
        at = end
    return "".join((*parts, _text(line[at:])))


def _text(text: str) -> str:
    return escape(escape_unsafe(text).encode("utf-8", "replace").decode())


def _policy(styles: str) -> str:
    """Return the page's content security policy, which allows only these styles (https://www.w3.org/TR/CSP3/)."""
    digest = base64.b64encode(hashlib.sha256(styles.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


def _styles() -> str:
    dark, light = (_variables(built_in_theme(name)) for name in ("signoff-dark", "signoff-light"))
    css = Path(__file__).with_name("review_page.css").read_text(encoding="utf-8")
    return f":root{{color-scheme:dark light;{dark}}}@media(prefers-color-scheme:light){{:root{{{light}}}}}\n{css}"


def _variables(theme: Theme) -> str:
    values = make_diff_variable_defaults(theme) | theme.to_color_system().generate() | theme.variables
    wanted = [name for name in values if name in _COLOURS or name.startswith("diff-")]
    return "".join(f"--{name}:{values[name]};" for name in wanted if values[name].startswith("#"))
