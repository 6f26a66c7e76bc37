"""Words and marks for evidence, in the approvals and in the diff."""

from collections.abc import Sequence

from textual.content import Content

from app.automation.evidence.proposal_evidence import ProposalEvidence
from app.proposals.text.hunks import has_effect
from app.proposals.values.decision_facts import EvidenceVerdict
from app.proposals.values.models import FileDiff, Proposal
from app.review.hunk_lines import changed_line_at
from app.review.review_state import ReviewState
from app.text.quantities import plural
from widgets.diff.diff_arrangement import Comment
from widgets.diff.diff_rows import CommentKind, SourceLine
from widgets.review.review_wording import QUIET_STYLE, KeyNameOf, fill_lines, make_chip, safe_content

_GAP = "   "
_KINDS: dict[EvidenceVerdict, CommentKind] = {
    EvidenceVerdict.HELD: "held",
    EvidenceVerdict.RED: "held",
    EvidenceVerdict.UNNOTICED: "unheld",
    EvidenceVerdict.GREEN: "unheld",
}


def evidence_lines(state: ReviewState, proposal: str, key: KeyNameOf, width: int) -> list[Content]:
    """Return the lines about a proposal's evidence: verdicts, the tests that ran, and the keys."""
    found = state.evidence.get(proposal)
    if found is None or not (found.marks or found.is_running or found.why_not):
        return []
    if found.why_not:
        return [safe_content(f"No evidence: {found.why_not}", "$text-warning")]
    first, *counts = found.verdict_counts.split(", ")
    loud = "$text-warning" if found.unheld_hunks else ""
    said = [Content.assemble(("without each hunk ", "bold"), safe_content(first, loud)), *map(safe_content, counts)]
    progress = []
    if found.is_running:
        words = f"{found.left:,} to go, {found.seconds:.0f} s" if found.selection else "begins"
        progress.append(Content.assemble(("▸ ", "$text-accent"), (words, QUIET_STYLE)))
    chips = [make_chip(key, "find_evidence", "end", "$foreground 40%")] if found.is_running else []
    if found.is_cut_short and not found.is_running:
        chips.append(make_chip(key, "find_evidence", "go on", "$foreground 40%"))
    if found.unheld_hunks and not found.is_running:
        chips.append(make_chip(key, "send_findings", "as feedback", "$primary"))
    ran = [safe_content(found.tests_run_text, QUIET_STYLE)] if found.tests_run_text else []
    return fill_lines([*said, *progress, *ran, *chips], width, _GAP)


def reproduction_lines(state: ReviewState, proposal: Proposal, key: KeyNameOf, width: int) -> list[Content]:
    """Return the line about a second run of a proposal's command; none if no single command made it."""
    if proposal.recipe is None:
        return []
    found = state.reproductions.get(proposal.id)
    said: list[Content] = []
    title = "run again"
    if state.reproducing == proposal.id:
        said, title = [Content.assemble(("▸ ", "$text-accent"), ("its command runs again", QUIET_STYLE))], "end"
    elif proposal.is_reproduced:
        count = plural(len(proposal.files), "file")
        said, title = [Content.assemble(("✓ ", "$text-success"), f"run again: same {count}, byte for byte")], ""
    elif found is not None and found.revision == proposal.revision:
        said = [safe_content(found.summary, "$text-warning")]
    chips = [make_chip(key, "reproduce", title, "$foreground 40%")] if title else []
    return fill_lines([*said, *chips], width, _GAP)


def evidence_comments(evidence: ProposalEvidence | None, diffs: Sequence[FileDiff]) -> list[Comment]:
    """Return the marks at the heads of the hunks of these diffs."""
    if evidence is None:
        return []
    marks = []
    for file, diff in enumerate(diffs):
        for hunk in filter(has_effect, diff.change.hunks):
            if (mark := evidence.marks.get(hunk.id)) is not None:
                line = SourceLine(file, *changed_line_at(hunk, 0))
                marks.append(Comment(line, mark.description, _KINDS.get(mark.verdict, "untold")))
    return marks
