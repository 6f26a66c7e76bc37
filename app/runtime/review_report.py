"""The report of a review for other people: changes, decisions and feedback, as text or for a pull request.

For GitHub and GitLab, the review becomes comments and suggestions in the form of their APIs. A forge accepts comments
only on lines of its own diff, so each commented line is looked up there by its text; comments without such a line go
into the general notes.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field

from app.conversation.events import ProposalStaged, SideExchange, collect_side_exchanges
from app.conversation.markdown_export import format_session_as_markdown, make_code_block, quote_text
from app.git.borrowed_repository import ObjectBorrowingRepository
from app.git.commits import CommitRange, branch_range
from app.git.run_git import GitFailed
from app.images.image import join_quoted_names
from app.proposals.text.diff import LineChange, diff_lines
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.models import (
    FileChange,
    FileDiff,
    FileVersion,
    HunkState,
    Proposal,
    describe_proposal_state,
)
from app.proposals.values.origin import OriginKind
from app.proposals.values.proposal_errors import ProposalError
from app.review.unfinished_review import QUOTED_LINES
from app.runtime.open_workspace import OpenWorkspace
from app.storage.record_store import DecisionOrUserEdit, DecisionRecordReader
from app.text.quantities import format_count, format_time
from app.text.safe_text import escape_unsafe, make_code_fence, make_code_span
from app.tools.base.contract import escape_surrogates


def export_session_as_markdown(runtime: OpenWorkspace, session_id: str) -> str:
    """Return a session as Markdown, with the diffs of its proposals as far as they still exist."""
    record, events = runtime.sessions.get(session_id), runtime.sessions.events(session_id)
    diffs: dict[str, str] = {}
    for event in events:
        if isinstance(event, ProposalStaged):
            with contextlib.suppress(ProposalError):
                diffs[event.proposal] = runtime.service.unified_diff(event.proposal)
    return format_session_as_markdown(record.title, record.model, events, diffs)


SIDE_QUESTIONS_HEADING = "Asked aside"
"""Heading of the side questions, which are not part of the conversation."""


class ProposalReviewReport(Struct, frozen=True):
    """A report on one proposal: its diffs, patch, decisions, denied parts and side questions."""

    proposal: Proposal
    diffs: Sequence[FileDiff]
    patch: str
    decisions: Sequence[DecisionOrUserEdit]
    """Oldest first."""
    denied_parts: "Sequence[DeniedChange]" = ()
    """Parts that were denied while other parts of the same file were not."""
    side_questions: Sequence[SideExchange] = ()
    """Side questions of the user with the model's answers; they are not part of any decision."""

    @property
    def size(self) -> str:
        """Return the counts of files and lines."""
        proposal = self.proposal
        return f"+{proposal.added} -{proposal.removed} in {format_count(len(proposal.counted_changes), 'file')}"

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
        """Return a description of the evidence for each hunk at the last decision, by hunk number."""
        for decision in reversed(self.decisions):
            if decision.entry is not None and (fact := decision.entry.circumstances.evidence) is not None:
                return {hunk_evidence.hunk: hunk_evidence.description for hunk_evidence in fact.hunks}
        return {}

    @property
    def comments(self) -> Sequence[LineComment]:
        """Return the comments on single lines."""
        return [comment for decision in self.decisions for comment in decision.words.comments]


class DeniedChange(Struct, frozen=True):
    """A denied part of a file: the lines without it and with it."""

    path: str
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def changes(self) -> list[LineChange]:
        """Return the difference between both texts."""
        return diff_lines(self.old, self.new)


def make_proposal_review_report(runtime: OpenWorkspace, proposal_id: str) -> ProposalReviewReport:
    """Return the report on a proposal. Raises UnknownProposal, and KeyError if its contents were pruned."""
    proposal = runtime.service.get(proposal_id)
    return ProposalReviewReport(
        proposal,
        runtime.service.file_diffs(proposal.id),
        runtime.service.unified_diff(proposal.id),
        DecisionRecordReader(runtime.database, runtime.name).decisions(proposal.id),
        [part for change in proposal.files if not change.binary for part in _denied_parts(runtime, change)],
        collect_side_exchanges(runtime.sessions.side_questions(proposal.id)),
    )


def _denied_parts(runtime: OpenWorkspace, change: FileChange) -> Iterator[DeniedChange]:
    def lines(version: FileVersion | None) -> tuple[str, ...]:
        data = runtime.proposals.read_blob(version.sha256) if version is not None else b""
        return tuple(data.decode("utf-8", "surrogateescape").splitlines())

    for part in change.denied:
        # If nothing else in the file waited, compare with the result of the file.
        without = part.after if part.after != part.before else change.result
        yield DeniedChange(change.path, lines(without), lines(part.before))


def describe_recorded_decision(decision: DecisionOrUserEdit) -> list[str]:
    """Return lines on the outcome of a decision, on who made it, and on what they had seen."""
    entry, files, images = decision.entry, ", ".join(decision.files), decision.words.images
    facts = [files] if files else []
    facts += [f"attached {join_quoted_names(images)}"] if images else []
    facts += ["the stored feedback is missing or was changed"] if decision.words_lost else []
    if entry is None:
        return facts
    numbers_by_state = (
        ("approved", entry.hunks.approved),
        ("denied", entry.hunks.denied),
        ("waiting", entry.hunks.waiting),
    )
    hunks = "; ".join(f"{name} {', '.join(map(str, numbers))}" for name, numbers in numbers_by_state if numbers)
    facts += [f"hunks {hunks}"] if hunks else []
    facts += [f"by {entry.who}"] if entry.who else []
    circumstances = entry.circumstances
    facts += [circumstances.caller.description] if circumstances.caller else []
    if circumstances.unseen_lines:
        unseen_files = ", ".join(circumstances.unseen_files)
        facts.append(f"{format_count(circumstances.unseen_lines, 'changed line')} never on screen ({unseen_files})")
    elif circumstances.unseen_lines == 0:
        facts.append("every changed line was on screen")
    facts += [f"{check.name}: {check.words or check.state.replace('_', ' ')}" for check in circumstances.checks]
    facts += [entry.recipe_description] if entry.recipe else []
    if (evidence := circumstances.evidence) is not None:
        facts.append(f"without each hunk, by {evidence.check} ({evidence.selection}):")
        facts += [f"hunk {hunk.hunk} of {hunk.path}: {hunk.description}" for hunk in evidence.hunks]
    return facts


def render_review_report_as_markdown(report: ProposalReviewReport) -> str:
    """Return the report as Markdown, with control characters made visible."""
    parts = [f"# {report.proposal.id}: {report.proposal.summary}"]
    parts.append("\n".join(f"- {name}: {value}" for name, value in report.header))
    for decision in report.decisions:
        words = decision.words
        parts.append(f"## {decision.decision.replace('_', ' ').capitalize()}, {format_time(decision.time)}")
        parts.append("\n".join(f"- {fact}" for fact in describe_recorded_decision(decision)))
        if words.feedback.strip():
            parts.append(quote_text(words.feedback.strip()))
        for comment in words.comments:
            parts.append(make_code_span(f"{comment.path}:{comment.line}"))
            parts.append(make_code_block(comment.quote, "diff"))
            parts.append(quote_text(comment.text.strip()))
    for part in report.denied_parts:
        patch_lines = [
            line
            for change in part.changes
            for line in (
                *(f"-{line}" for line in part.old[change.old_start : change.old_end]),
                *(f"+{line}" for line in part.new[change.new_start : change.new_end]),
            )
        ]
        if patch_lines:
            parts.append(f"## Denied in {part.path}\n\n{make_code_block(chr(10).join(patch_lines), 'diff')}")
    parts.append(f"## The change\n\n{make_code_block(report.patch, 'diff')}")
    if report.side_questions:
        parts.append(f"## {SIDE_QUESTIONS_HEADING}")
        parts += [_render_side_question(exchange) for exchange in report.side_questions]
    return escape_unsafe("\n\n".join(parts) + "\n")


def _render_side_question(exchange: SideExchange) -> str:
    """Return a question and its answer, quoted so that they cannot contain headings of the report."""
    picked = make_code_block(exchange.question.picked, "diff") if exchange.question.picked else ""
    heading, quoted_text = f"### {side_question_heading(exchange)}", quote_text(exchange.question.text)
    return "\n\n".join(
        filter(
            None,
            (heading, picked, quoted_text, f"{side_answer_heading(exchange)}:", quote_text(exchange.answer_text)),
        )
    )


def side_question_heading(exchange: SideExchange) -> str:
    """Return the heading of a question, such as `Hunk 2 of P7 in a.py, 2026-11-02 10:15`."""
    subject = exchange.question.subject
    return f"{subject[:1].upper()}{subject[1:]}, {format_time(exchange.question.time)}"


def side_answer_heading(exchange: SideExchange) -> str:
    """Return the heading of an answer: its author, and whether it is complete."""
    if exchange.answer is None or not exchange.answer_text:
        return "No answer came"
    state = "" if exchange.answer.state == "complete" else f" ({exchange.answer.state})"
    return f"{exchange.answer.model or 'The model'} answered{state}"


_CONTEXT_LINES = 3
"""Unchanged lines around a change in the forge's diff, on which it accepts comments."""
_MAX_LINES_BELOW = 100
"""Largest number of lines below the commented one that a suggestion of GitLab may replace."""
_COMMIT_ID = re.compile(r"\A[0-9a-f]{7,64}\b|(?<=\()[0-9a-f]{7}(?=\))")
"""The commit id in the origin of a proposal."""
_HUNK_HEADER = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")

Side = Literal["old", "new"]


class _ForgeLine(Struct, frozen=True):
    """A line of the forge's diff; a number is 0 if its side does not have the line."""

    old: int
    new: int
    text: str
    hunk: int

    def number(self, side: Side) -> int:
        """Return the line's number on a side."""
        return self.new if side == "new" else self.old


class ForgeComment(Struct, frozen=True):
    """A comment on lines of the forge's diff."""

    path: str
    old_path: str
    lines: Sequence[_ForgeLine]
    side: Side
    text: str
    replacement: tuple[str, ...] | None = None
    """The suggested lines; None for a comment without suggestion."""

    @property
    def github_comment(self) -> dict[str, Any]:
        """Return the comment as an element of `comments` of a new review."""
        sides = {"new": "RIGHT", "old": "LEFT"}
        first, last = self.lines[0].number(self.side), self.lines[-1].number(self.side)
        several = {"start_line": first, "start_side": sides[self.side]} if first != last else {}
        place = {"path": self.path, **several, "line": last, "side": sides[self.side]}
        return {**place, "body": self._make_body("suggestion")}

    def gitlab_discussion(self, commits: CommitRange) -> dict[str, Any]:
        """Return the comment as a new discussion."""
        # GitLab counts the lines that a suggestion replaces from the commented line: comment the first one.
        below = len(self.lines) - 1
        line = self.lines[0] if self.replacement is not None else self.lines[-1]
        numbers = {name: number for name, number in (("old_line", line.old), ("new_line", line.new)) if number}
        shas = {"base_sha": commits.base, "start_sha": commits.base, "head_sha": commits.tip}
        position = {"position_type": "text", **shas, "old_path": self.old_path, "new_path": self.path, **numbers}
        return {
            "body": self._make_body(f"suggestion:-0+{below}" if below <= _MAX_LINES_BELOW else ""),
            "position": position,
        }

    def _make_body(self, language: str) -> str:
        if self.replacement is None:
            return self.text
        text = "".join(f"{line}\n" for line in self.replacement)
        fence = make_code_fence(text)
        return f"{self.text}\n\n{fence}{language}\n{text}{fence}".lstrip()


class ReviewForForge(Struct):
    """Comments on a proposal from commits, to be posted on GitHub or GitLab."""

    proposal: str
    commits: CommitRange
    comments: list[ForgeComment] = field(default_factory=list)
    general_notes: list[str] = field(default_factory=list)
    """General feedback, and comments whose line is not in the forge's diff."""

    @property
    def github_review(self) -> dict[str, Any]:
        """Return the body of `POST /repos/{owner}/{repo}/pulls/{number}/reviews`."""
        count = format_count(len(self.comments), "comment")
        body = "\n\n".join(self.general_notes) or f"Reviewed with signoff ({self.proposal}): {count} below."
        comments = [remark.github_comment for remark in self.comments]
        return {"commit_id": self.commits.tip, "event": "COMMENT", "body": body, "comments": comments}

    @property
    def gitlab_discussions(self) -> list[dict[str, Any]]:
        """Return the bodies of `POST /projects/:id/merge_requests/:iid/discussions`, one for each discussion."""
        return [
            *({"body": text} for text in self.general_notes),
            *(remark.gitlab_discussion(self.commits) for remark in self.comments),
        ]


def make_forge_review(runtime: OpenWorkspace, report: ProposalReviewReport, base: str, head: str) -> ReviewForForge:
    """Return the review of a proposal for the pull request with these commits.

    Args:
        base: The target branch of the pull request; HEAD if empty.
        head: The latest commit of the pull request; the proposal's if empty.

    Raises:
        GitFailed: a commit is missing locally, or the proposal does not come from a commit.
        KeyError: contents were pruned.
    """
    with ObjectBorrowingRepository(runtime.workspace.root) as borrowed:
        commits = _find_commit_range(borrowed, report, base, head)
        review = ReviewForForge(report.proposal.id, commits)
        files = {change.path: _ForgeFile(borrowed, commits, change) for change in report.proposal.files}
        for decision in report.decisions:
            _add_feedback(runtime, review, report, decision, files)
            for comment in decision.words.comments:
                _add_comment(review, comment, files.get(comment.path))
        for change in report.proposal.files:
            if change.edited and not change.binary:
                old, new = _version_lines(runtime, change.base), _version_lines(runtime, change.result)
                _add_suggestions(review, change, files[change.path], old, new)
    return review


def _find_commit_range(
    borrowed: ObjectBorrowingRepository, report: ProposalReviewReport, base: str, head: str
) -> CommitRange:
    origin = report.proposal.origin
    match = _COMMIT_ID.search(origin.ref) if origin.kind is OriginKind.REF else None
    name = head or (match[0] if match else "")
    if not name:
        raise GitFailed(f"{report.proposal.id} comes from no commit: name the one on the forge with --head.")
    tip = borrowed.resolve_object_id(name)
    if not tip:
        raise GitFailed(f"The commit {name} is not here: fetch the branch of the pull request first.")
    commits = branch_range(borrowed, tip, name, base or "HEAD")
    if commits.base == tip:
        raise GitFailed(f"{base or 'HEAD'} has {name} already: name the branch that it goes to with --base.")
    return commits


class _ForgeFile:
    """A file in the forge's diff."""

    def __init__(self, borrowed: ObjectBorrowingRepository, commits: CommitRange, change: FileChange) -> None:
        prefix = borrowed.path_prefix
        self.path = prefix + change.path
        self.old: Sequence[str] = ()
        self.new: Sequence[str] = ()
        self.shown: list[_ForgeLine] = []
        """The lines that accept comments."""
        before = _find_blob_id(borrowed, commits.base, prefix + (change.old_path or change.path))
        after = _find_blob_id(borrowed, commits.tip, self.path)
        self.old_path = prefix + change.old_path if change.old_path and before else self.path
        if change.binary:
            return
        self.old = _split_lines(borrowed.run_query("cat-file", "blob", before)) if before else ()
        self.new = _split_lines(borrowed.run_query("cat-file", "blob", after)) if after else ()
        if before and after:
            options = ("--no-color", "--no-ext-diff", "--no-textconv", f"--unified={_CONTEXT_LINES}")
            self.shown += _parse_hunks(borrowed.run_query("diff", *options, before, after))
        else:
            self.shown += [_ForgeLine(number, 0, text, 1) for number, text in enumerate(self.old, 1)]
            self.shown += [_ForgeLine(0, number, text, 1) for number, text in enumerate(self.new, 1)]

    def remark(
        self, lines: Sequence[_ForgeLine], text: str, replacement: tuple[str, ...] | None = None
    ) -> ForgeComment:
        side: Side = "new" if lines[-1].new else "old"
        return ForgeComment(self.path, self.old_path, lines, side, text, replacement)

    def find(self, texts: Sequence[str], side: Side, near: int) -> Sequence[_ForgeLine]:
        """Return the consecutive lines with these texts that are nearest to line number `near`; empty if there are
        none."""
        lines = [line for line in self.shown if line.number(side)]
        runs = [
            lines[start : start + len(texts)]
            for start in range(len(lines) - len(texts) + 1)
            if [line.text for line in lines[start : start + len(texts)]] == [*texts]
            and lines[start].hunk == lines[start + len(texts) - 1].hunk
        ]
        return min(runs, key=lambda run: abs(run[0].number(side) - near), default=())

    def between(self, first: int, last: int) -> Sequence[_ForgeLine]:
        """Return the lines of the new file with these numbers; empty if the forge doesn't show them in one hunk."""
        lines = [line for line in self.shown if first <= line.new <= last]
        is_in_one_hunk = len(lines) == last - first + 1 and len({line.hunk for line in lines}) == 1
        return lines if is_in_one_hunk else ()


def _find_blob_id(borrowed: ObjectBorrowingRepository, commit: str, path: str) -> str:
    """Return the blob id of a file in a commit; empty if there is no such file."""
    entry = borrowed.run_query("ls-tree", "-z", commit, "--", path).decode("utf-8", "surrogateescape")
    _, kind, name = entry.partition("\t")[0].split() if entry else ("", "", "")
    return name if kind == "blob" else ""


def _split_lines(data: bytes) -> tuple[str, ...]:
    lines = escape_surrogates(data.decode("utf-8", "surrogateescape")).split("\n")
    return tuple(line.removesuffix("\r") for line in (lines[:-1] if not lines[-1] else lines))


def _version_lines(runtime: OpenWorkspace, version: FileVersion | None) -> tuple[str, ...]:
    return _split_lines(runtime.proposals.read_blob(version.sha256)) if version is not None else ()


def _parse_hunks(patch: bytes) -> Iterator[_ForgeLine]:
    old = new = hunk = 0
    for line in _split_lines(patch):
        if header := _HUNK_HEADER.match(line):
            old, new, hunk = int(header[1]), int(header[2]), hunk + 1
        elif hunk and line[:1] in ("+", "-", " "):
            removed, added = line[0] == "-", line[0] == "+"
            yield _ForgeLine(0 if added else old, 0 if removed else new, line[1:], hunk)
            old, new = old + (not added), new + (not removed)


def _add_comment(review: ReviewForForge, comment: LineComment, file: "_ForgeFile | None") -> None:
    lines = _find_commented_line(comment, file) if file is not None else ()
    if file is not None and lines:
        review.comments.append(file.remark(lines, comment.text.strip()))
    else:
        place = make_code_span(f"{file.path if file is not None else comment.path}:{comment.line}")
        review.general_notes.append(f"{place}\n\n{make_code_block(comment.quote, 'diff')}\n\n{comment.text.strip()}")


def _find_commented_line(comment: LineComment, file: "_ForgeFile") -> Sequence[_ForgeLine]:
    """Return the line of the forge's diff that a comment is on, found by the quoted lines; empty if there is none."""
    quoted = comment.quote.split("\n")
    signs = ("+", " ") if comment.side == "new" else ("-",)
    around = [(index, line[1:]) for index, line in enumerate(quoted) if line[:1] in signs]
    candidates: list[_ForgeLine] = []
    # The commented line is in the middle of the quotation, or nearer to its start at the beginning of a file.
    for index_in_quote in (
        QUOTED_LINES,
        *(index for index, _ in around[comment.line - 1 : comment.line] if index < QUOTED_LINES),
    ):
        before = sum(index < index_in_quote for index, _ in around)
        if index_in_quote not in dict(around):
            continue
        if matching_lines := file.find([text for _, text in around], comment.side, comment.line - before):
            candidates.append(matching_lines[before])
        else:
            candidates += file.find([quoted[index_in_quote][1:]], comment.side, comment.line)
    return sorted(candidates, key=lambda line: abs(line.number(comment.side) - comment.line))[:1]


def _add_feedback(
    runtime: OpenWorkspace,
    review: ReviewForForge,
    report: ProposalReviewReport,
    decision: DecisionOrUserEdit,
    files: "dict[str, _ForgeFile]",
) -> None:
    """Add the feedback of a decision: as comments on the hunks that it denied, or as a note if it denied the
    whole."""
    feedback = decision.words.feedback.strip()
    if not feedback:
        return
    count = decision.entry.count if decision.entry is not None else 0
    is_denied_as_a_whole = all(
        change.state is HunkState.DENIED and len(change.denied) <= 1 for change in report.proposal.files
    )
    has_comment = False
    for change in () if is_denied_as_a_whole else report.proposal.files:
        for part in change.denied if not change.binary else ():
            # As in `_denied_parts`, but use any version of the file that differs from the denied one.
            without = next(
                (version for version in (part.after, change.result, change.base) if version != part.before), None
            )
            texts = _version_lines(runtime, without), _version_lines(runtime, part.before)
            if part.decision == count and (lines := _find_denied_lines(files[change.path], *texts)):
                review.comments.append(files[change.path].remark(lines, feedback))
                has_comment = True
    if not has_comment:
        review.general_notes.append(feedback)


def _find_denied_lines(file: "_ForgeFile", without: Sequence[str], with_them: Sequence[str]) -> Sequence[_ForgeLine]:
    """Return the lines of the first denied hunk in the forge's diff."""
    for change in diff_lines(without, with_them):
        if added := with_them[change.new_start : change.new_end]:
            lines = file.find(added, "new", change.new_start + 1)
        else:
            lines = file.find(without[change.old_start : change.old_end], "old", change.old_start + 1)
        if lines:
            return lines
    return ()


def _add_suggestions(
    review: ReviewForForge,
    change: FileChange,
    file: "_ForgeFile",
    base_lines: Sequence[str],
    result_lines: Sequence[str],
) -> None:
    """Add suggestions for the proposed lines that the user has edited.

    Args:
        base_lines: Lines of the file on disk without the proposal.
        result_lines: Lines of the file with the proposal, as edited by the user.
    """
    added = {line.new for line in file.shown if line.new and not line.old}
    denied = bool(change.denied) or any(hunk.state is HunkState.DENIED for hunk in change.hunks)
    denied_changes = [
        (edit.old_start, edit.old_end, file.old[edit.new_start : edit.new_end])
        for edit in (diff_lines(file.new, file.old) if denied else ())
    ]
    proposed_changes = diff_lines(base_lines, result_lines)
    for edit in diff_lines(file.new, result_lines):
        first, last = edit.old_start + 1, edit.old_end
        lines = tuple(result_lines[edit.new_start : edit.new_end])
        if (edit.old_start, edit.old_end, lines) in denied_changes:
            continue
        is_proposed = any(
            proposed_change.new_start <= edit.new_end and edit.new_start <= proposed_change.new_end
            for proposed_change in proposed_changes
        )
        if not is_proposed and added.isdisjoint(range(first - 1, last + 2)):
            # The workspace has changed here since the commit.
            continue
        if first > last and (above := file.between(first - 1, first - 1)):
            review.comments.append(file.remark(above, "", (above[0].text, *lines)))
        elif first > last and (below := file.between(first, first)):
            review.comments.append(file.remark(below, "", (*lines, below[0].text)))
        elif first <= last and (replaced := file.between(first, last)):
            review.comments.append(file.remark(replaced, "", lines))
        else:
            patch_lines = [f"-{line}" for line in file.new[edit.old_start : last]] + [f"+{line}" for line in lines]
            review.general_notes.append(
                f"{make_code_span(f'{file.path}:{first}')}\n\n{make_code_block(chr(10).join(patch_lines), 'diff')}"
            )
