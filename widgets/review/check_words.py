"""Words for check results, in the approvals and in the diff."""

from collections.abc import Sequence

from textual.content import Content

from app.automation.check_results import CheckResult, CheckState, ProposalChecks
from app.proposals.values.models import FileDiff
from widgets.diff.diff_arrangement import Comment
from widgets.diff.diff_rows import SourceLine
from widgets.review.review_state import ReviewState
from widgets.review.review_wording import QUIET, KeyOf, chip, safe

_GAP = "   "
_SIGNS = {
    CheckState.WAITING: ("·", QUIET),
    CheckState.RUNNING: ("▸", "$text-accent"),
    CheckState.PASSED: ("✓", "$text-success"),
    CheckState.BROKEN: ("!", "$text-warning"),
}


def check_lines(state: ReviewState, proposal: str, key: KeyOf, width: int, *, keys: bool = True) -> list[Content]:
    """Return the lines of the check results, such as `ruff ✓ 0.2 s   tests ✗ 3 failed, 0 before`, with the keys; none
    without checks.

    Where a line is too short, passed checks are shortened first, and the keys get another line.
    """
    checked = state.checks.get(proposal)
    if checked is None:
        return []
    if checked.why_not:
        return [safe(f"Not checked: {checked.why_not}", "$text-warning")]
    if not checked.results:
        return []
    # What is wrong is never what there is no room for.
    results = sorted(checked.results, key=lambda one: (not one.has_new_failure, one.outcome is None))
    chips = []
    if keys and checked.is_running:
        chips.append(chip(key, "run_checks", "end", "$foreground 40%"))
    if keys and checked.new_failures:
        chips.append(chip(key, "send_findings", "send", "$primary"))
    if keys and any(one.outcome is not None for one in results):
        chips.append(chip(key, "show_checks", "log", "$foreground 40%"))
    full, brief = ([_result(one, key, brief=brief) for one in results] for brief in (False, True))
    gap = Content(_GAP)
    for parts in (full, brief):
        line = gap.join([*parts, *chips])
        if not width or line.cell_length <= width:
            return [line]
    line = gap.join(full)
    return [*([line] if line.cell_length <= width else _filled(brief, width)), *([gap.join(chips)] if chips else [])]


def _filled(parts: Sequence[Content], width: int) -> list[Content]:
    """As many on each line as there is room for."""
    lines = [parts[0]]
    for part in parts[1:]:
        line = lines[-1] + _GAP + part
        if line.cell_length <= width:
            lines[-1] = line
        else:
            lines.append(part)
    return lines


def _result(result: CheckResult, key: KeyOf, *, brief: bool) -> Content:
    if result.state in (CheckState.NOT_ASKED, CheckState.CANCELLED):
        action = "approve" if result.when == "approve" else "run_checks"
        return Content.assemble((f"{result.name} ", QUIET), chip(key, action, "run", "$foreground 40%"))
    sign, colour = _SIGNS.get(result.state, ("✗", "$text-error" if result.has_new_failure else "$text-warning"))
    if result.stale:
        said = Content.assemble((f"{result.name} {sign} ", QUIET)) + safe(
            result.stale if brief else result.summary, QUIET
        )
        return said if result.when == "staged" else said + "  " + chip(key, "run_checks", "run", "$foreground 40%")
    match result.state:
        case CheckState.RUNNING:
            words = f"{result.seconds:.0f} s" if brief else f"{result.seconds:.0f} s  {result.progress}"
        case CheckState.WAITING:
            words = "waits"
        case CheckState.PASSED if brief:
            words = ""
        case _:
            words = result.summary
    loud = result.state not in (CheckState.PASSED, CheckState.WAITING)
    said = Content.assemble((f"{result.name} ", "bold"), (sign, f"bold {colour}"))
    return said + " " + safe(words, colour if loud else QUIET) if words else said


def placed_findings(checked: ProposalChecks | None, diffs: Sequence[FileDiff]) -> list[Comment]:
    """Return the findings on lines of these diffs; older ones say so."""
    if checked is None:
        return []
    files = {diff.change.path: number for number, diff in enumerate(diffs)}
    found = []
    for name, finding in checked.findings:
        file = files.get(finding.path)
        if file is not None and finding.line <= len(diffs[file].new):
            was = "" if finding.new else "  (before, too)"
            line = SourceLine(file, "new", finding.line - 1)
            found.append(Comment(line, f"{name}: {finding.text}{was}", "finding" if finding.new else "known"))
    return found
