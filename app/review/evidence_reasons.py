"""Reasons for attention that checks and tests give while a proposal is reviewed."""

from collections.abc import Iterator, Sequence

from app.automation.check_results import CoverageReportLine, ProposalChecks
from app.automation.evidence.proposal_evidence import ProposalEvidence
from app.proposals.values.attention_reason import AttentionReason, LineReference, ReasonKind
from app.proposals.values.models import FileDiff
from app.review.hunk_lines import changed_line_at

_FOUND = (ReasonKind.UNHELD, ReasonKind.UNCOVERED)


def add_evidence_reasons(
    diffs: Sequence[FileDiff], checks: ProposalChecks | None, evidence: ProposalEvidence | None
) -> list[FileDiff]:
    """Return the diffs with reasons for attention in the files that have hunks which nothing notices, or changed
    lines that no test runs; earlier reasons of these kinds are replaced.

    Args:
        diffs: Of one proposal.
        checks: Its check results, if there are any.
        evidence: Its evidence, if there is any.
    """
    unheld = frozenset(evidence.unheld_hunks) if evidence is not None else frozenset()
    uncovered: dict[str, list[CoverageReportLine]] = {}
    for line in checks.uncovered_lines if checks is not None else ():
        uncovered.setdefault(line.hunk, []).append(line)
    marked = []
    for diff in diffs:
        reasons = (*(one for one in diff.reasons if one.kind not in _FOUND), *_reasons(diff, unheld, uncovered))
        marked.append(diff if reasons == diff.reasons else diff.model_copy(update={"reasons": reasons}))
    return marked


def has_evidence_reason(diff: FileDiff) -> bool:
    """Return whether checks or tests gave a reason to look at a file."""
    return any(one.kind in _FOUND for one in diff.reasons)


def uncovered_line_numbers(diff: FileDiff) -> list[int]:
    """Return the changed lines of a file, from 0 in the new text, that no test runs."""
    places = [place for one in diff.reasons if one.kind is ReasonKind.UNCOVERED for place in one.places]
    starts = {hunk.id: hunk.new_start for hunk in diff.change.hunks} if places else {}
    return [starts[place.hunk] + place.offset for place in places if place.hunk in starts]


def _reasons(
    diff: FileDiff, unheld: frozenset[str], uncovered: dict[str, list[CoverageReportLine]]
) -> Iterator[AttentionReason]:
    hunks = diff.change.hunks if unheld or uncovered else ()
    heads = [
        LineReference(hunk=one.id, side=changed_line_at(one, 0)[0], offset=0) for one in hunks if one.id in unheld
    ]
    if heads:
        yield AttentionReason(kind=ReasonKind.UNHELD, path=diff.change.path, count=len(heads), places=tuple(heads))
    lines = [
        LineReference(hunk=one.id, side="new", offset=line.offset)
        for one in hunks
        for line in uncovered.get(one.id, ())
    ]
    if lines:
        yield AttentionReason(kind=ReasonKind.UNCOVERED, path=diff.change.path, count=len(lines), places=tuple(lines))
