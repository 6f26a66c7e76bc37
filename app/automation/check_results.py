"""Results of checks: the values that the review, the command line and the model get."""

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from app.automation.tool_reports import ChangedLineCoverage
from app.automation.workspace_tree import WorkspaceTreeSnapshot
from app.copies import replace
from app.proposals.decide.workspace_versions import HunkRangeInCheckedFile
from app.proposals.values.decision_facts import RecordedCheckResult
from app.sandbox.process import describe_exit
from app.text.quantities import format_count, join_first

MAX_FINDINGS = 500
"""Maximum number of findings of one check."""
_MAX_LINE_CHARACTERS = 1_000
"""Characters; a longer output line is never a finding."""
_FINDING_PLACE = re.compile(
    r"\s{0,16}(?:--> )?(?P<path>[^\s:][^:\n]{0,500}):(?P<line>\d{1,7})(?::\d{1,7})?(?::\s*|\s+)(?P<text>\S.*)"
)
_FAILURE_COUNTS = (
    (re.compile(r"\b(\d{1,9}) (?:failed|failures?|failing)\b", re.IGNORECASE), "failed"),
    (re.compile(r"\b(\d{1,9}) (?:errors?|problems?|issues?)\b", re.IGNORECASE), "errors"),
    (re.compile(r"\b(?:failures|errors|failed)[=:] ?(\d{1,9})\b", re.IGNORECASE), "failed"),
)
"""Summaries of pytest, jest, cargo and go; of ruff, mypy and eslint; of unittest."""
_MAX_NAMED_LINES = 4
"""Number of uncovered lines that the record names."""
_SUMMARY_LINES = 12
"""Lines at the end of the output in which a tool prints its summary."""


class CheckFinding(Struct, frozen=True):
    """A problem that a tool reports for a line."""

    path: str
    """Workspace path."""
    line: int
    """Counted from 1."""
    text: str
    new: bool = True
    """Whether the tool does not report it on the workspace without the proposal."""


def parse_findings(output: str, root: Path) -> tuple[CheckFinding, ...]:
    """Return the problems that a tool's output reports at lines of workspace files, each once."""
    found: dict[CheckFinding, None] = {}
    for line in output.splitlines():
        if len(line) > _MAX_LINE_CHARACTERS or ":" not in line or (match := _FINDING_PLACE.match(line)) is None:
            continue
        if (path := _workspace_path(match["path"], root)) and int(match["line"]):
            found[CheckFinding(path, int(match["line"]), match["text"].strip())] = None
        if len(found) == MAX_FINDINGS:
            break
    return tuple(found)


def mark_new_findings(findings: Sequence[CheckFinding], before: Iterable[CheckFinding]) -> tuple[CheckFinding, ...]:
    """Return the findings with `new` set, unless the same text was reported before on any line of the file."""
    old = Counter((finding.path, finding.text) for finding in before)
    marked = []
    for finding in findings:
        is_old = old[finding.path, finding.text] > 0
        old[finding.path, finding.text] -= is_old
        marked.append(replace(finding, new=not is_old))
    return tuple(marked)


def count_failures(output: str) -> tuple[int, str] | None:
    """Return the number and the noun of failures in the tool's summary; None if there is no summary."""
    for line in reversed(output.splitlines()[-_SUMMARY_LINES:]):
        line = line[-_MAX_LINE_CHARACTERS:]
        for pattern, noun in _FAILURE_COUNTS:
            if counts := pattern.findall(line):
                # A linter repeats its total by kind; a test runner prints numbers to add up.
                return (int(counts[0]) if noun == "errors" else sum(map(int, counts))), noun
    return None


def _workspace_path(path: str, root: Path) -> str:
    """Return the workspace path; empty if the path leads outside."""
    # Decide by the text only: the tool's output must not cause disk access.
    whole = os.path.normpath(root / path)
    return whole.removeprefix(f"{root}/") if whole.startswith(f"{root}/") else ""


class CheckState(StrEnum):
    """State of a check of a proposal."""

    WAITING = "waiting"
    """Earlier checks run first."""
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    BROKEN = "broken"
    """It could not be run."""
    NOT_ASKED = "not_asked"
    """It runs when the user starts it or approves the proposal."""
    CANCELLED = "cancelled"

    @property
    def has_outcome(self) -> bool:
        """Return whether the check ran to its end."""
        return self in (CheckState.PASSED, CheckState.FAILED, CheckState.TIMED_OUT, CheckState.BROKEN)


class CheckRunResult(Struct, frozen=True):
    """Result of one run of a check on one tree: state, exit code, output and findings."""

    state: CheckState
    code: int = 0
    seconds: float = 0.0
    output: str = ""
    """Shortened in the middle."""
    findings: tuple[CheckFinding, ...] = ()
    failures: tuple[int, str] | None = None
    """Number and noun of the failures in the tool's summary, if there is one."""
    reason: str = ""
    """Why the check could not be run."""
    coverage: ChangedLineCoverage | None = None
    """The changed lines that the check ran, if it wrote a coverage report."""

    @property
    def failure_count(self) -> int | None:
        """Return the number of failures; None if it is unknown."""
        if self.state is CheckState.PASSED:
            return 0
        if self.state is not CheckState.FAILED:
            return None
        return self.failures[0] if self.failures is not None else len(self.findings) or None

    @property
    def failures_text(self) -> str:
        """Return the number of failures in words: `3 failed`."""
        if self.failures is not None:
            number, noun = self.failures
            return format_count(number, "error") if noun == "errors" else f"{number:,} {noun}"
        return format_count(len(self.findings), "finding") if self.findings else describe_exit(self.code)


class ChangedLineInCoverageReport(NamedTuple):
    """A changed line that a coverage report names."""

    path: str
    line: int
    """Counted from 1, in the file that was checked."""
    hunk: str
    """The hunk's id."""
    offset: int
    """Lines below the first line of the hunk."""


@dataclass(frozen=True, slots=True)
class ProposalCheckResult:
    """Result of one check for one proposal: its runs with and without the proposal, or its progress."""

    name: str
    state: CheckState
    when: str = "staged"
    outcome: CheckRunResult | None = None
    """The result with the proposal; None until it has ended."""
    before: CheckRunResult | None = None
    """The result without the proposal; only if the check failed, or passed quickly."""
    progress: str = ""
    """The last line of its output while it runs."""
    seconds: float = 0.0
    """How long it has run so far, or ran in total."""
    tree: WorkspaceTreeSnapshot | None = None
    """The exact content of the workspace that was checked; None until the check has ended."""
    stale: str = ""
    """Why the result does not apply to the content after an approval: `before b.py changed`; empty if it does."""
    hunks: Mapping[str, tuple[HunkRangeInCheckedFile, ...]] = field(default_factory=dict, compare=False, repr=False)
    """`FilesToCheckBeforeAndAfter.hunks` of the versions that were checked."""

    @property
    def is_current(self) -> bool:
        """Return whether it ended on exactly the content that an approval would leave."""
        return self.state.has_outcome and not self.stale

    def as_outdated(self, current_tree: WorkspaceTreeSnapshot, change: str = "") -> "ProposalCheckResult":
        """Return the result marked as outdated, because an approval would leave another tree.

        Args:
            current_tree: The tree that an approval would leave now.
            change: The reason for the user; by default the differing paths.
        """
        return replace(self, stale=change or _describe_difference(self.tree, current_tree))

    @property
    def as_record(self) -> RecordedCheckResult:
        """Return the result as the record stores it."""
        tree = "" if self.tree is None else self.tree.id
        words = self.summary
        if missed := [f"{line.path}:{line.line}" for line in self.changed_lines(is_run=False)]:
            words += f"; not run: {join_first(missed, _MAX_NAMED_LINES)}"
        return RecordedCheckResult(name=self.name, state=self.state, words=words, tree=tree, stale=self.stale)

    def changed_lines(self, *, is_run: bool) -> Iterator[ChangedLineInCoverageReport]:
        """Yield the changed lines that the check ran, or those that it did not run; none for an outdated result."""
        coverage = self.outcome.coverage if self.outcome is not None and not self.stale else None
        if coverage is None:
            return
        for path, numbers in sorted((coverage.ran if is_run else coverage.missed).items()):
            for hunk in self.hunks.get(path, ()):
                yield from (
                    ChangedLineInCoverageReport(path, hunk.start + offset + 1, hunk.id, offset)
                    for offset in range(hunk.length)
                    if hunk.start + offset in numbers
                )

    @property
    def has_coverage_gap(self) -> bool:
        """Return whether it did not run all changed lines, or its report could not be read completely."""
        coverage = self.outcome.coverage if self.outcome is not None else None
        return coverage is not None and bool(coverage.missed or coverage.problem)

    @property
    def has_new_failure(self) -> bool:
        """Return whether it is a reason against the proposal: it failed, and not equally without the proposal."""
        if self.outcome is None or self.outcome.state not in (CheckState.FAILED, CheckState.TIMED_OUT):
            return False
        if self.before is None or self.before.state is not self.outcome.state:
            return True
        if any(finding.new for finding in self.outcome.findings):
            return True
        now, then = self.outcome.failure_count, self.before.failure_count
        return now is not None and then is not None and now > then

    @property
    def summary(self) -> str:
        """Return the result in a few words: `3 failed, 0 before, 4 of 6 changed lines run`; ends with `stale`."""
        coverage = self.outcome.coverage if self.outcome is not None else None
        return ", ".join(filter(None, (self.verdict, coverage.summary if coverage is not None else "", self.stale)))

    @property
    def verdict(self) -> str:
        """Return the result without its coverage: `3 failed, 0 before`."""
        outcome = self.outcome
        if outcome is None:
            return "ended by you" if self.state is CheckState.CANCELLED else ""
        match outcome.state:
            case CheckState.PASSED:
                return f"{outcome.seconds:.1f} s{self._is_fixed()}"
            case CheckState.BROKEN:
                return outcome.reason
            case CheckState.TIMED_OUT:
                return f"no end after {outcome.seconds:.0f} s"
        return f"{outcome.failures_text}{self._describe_before()}"

    def _is_fixed(self) -> str:
        before = self.before
        if before is None or before.state is not CheckState.FAILED:
            return ""
        return f", {before.failures_text} before" if before.failure_count is not None else ", failed before"

    def _describe_before(self) -> str:
        before = self.before
        if before is None:
            return ""
        if before.failure_count is not None and self.outcome is not None and self.outcome.failure_count is not None:
            return f", {before.failure_count:,} before"
        return {CheckState.PASSED: ", passed before", CheckState.FAILED: ", failed before"}.get(before.state, "")


def _describe_difference(before: WorkspaceTreeSnapshot | None, now: WorkspaceTreeSnapshot) -> str:
    """Return the difference in words: `before b.py changed`."""
    if before is not None and before.commit != now.commit:
        return f"before HEAD moved to {now.commit[:7] or 'a branch without commits'}"
    changed = now.paths_changed_since(before) if before is not None else []
    if not changed:
        return "before the files changed"
    rest = f" and {format_count(len(changed) - 1, 'other file')}" if len(changed) > 1 else ""
    return f"before {changed[0]}{rest} changed"


class ProposalChecks(Struct, frozen=True):
    """All check results of one proposal."""

    proposal: str
    revision: int
    results: tuple[ProposalCheckResult, ...] = ()
    why_not: str = ""
    """Why no check runs."""

    @property
    def new_failures(self) -> tuple[ProposalCheckResult, ...]:
        """Return the results that are reasons against the proposal."""
        return tuple(result for result in self.results if result.has_new_failure)

    @property
    def is_running(self) -> bool:
        """Return whether a check runs or waits for its turn."""
        return any(result.state in (CheckState.WAITING, CheckState.RUNNING) for result in self.results)

    @property
    def uncovered_lines(self) -> tuple[ChangedLineInCoverageReport, ...]:
        """Return the changed lines that coverage reports name and no check ran."""
        return tuple(dict.fromkeys(self._find_uncovered()))

    @property
    def has_uncovered_lines(self) -> bool:
        """Return whether there are changed lines that no check ran."""
        return next(self._find_uncovered(), None) is not None

    def _find_uncovered(self) -> Iterator[ChangedLineInCoverageReport]:
        measured = [
            result for result in self.results if result.outcome is not None and result.outcome.coverage is not None
        ]
        # A single check reports each line once, so nothing needs to be subtracted.
        ran = {line for result in measured for line in result.changed_lines(is_run=True)} if len(measured) > 1 else ()
        yield from (line for result in measured for line in result.changed_lines(is_run=False) if line not in ran)

    @property
    def findings(self) -> tuple[tuple[str, CheckFinding], ...]:
        """Return the findings of failed checks that are not outdated, each with the name of its check."""
        return tuple(
            (result.name, finding)
            for result in self.results
            if result.outcome is not None and result.outcome.state is not CheckState.PASSED and not result.stale
            for finding in result.outcome.findings
        )


_MAX_OUTPUT_CHARACTERS = 4_000
"""Characters of one check's output."""
_MAX_FINDINGS = 30


def uncovered_lines_as_feedback(checks: ProposalChecks) -> str:
    """Return the changed lines that no test runs, as feedback from the user; empty if there are none."""
    lines = [f"{line.path}:{line.line}" for line in checks.uncovered_lines]
    if not lines:
        return ""
    more = [f"and {len(lines) - _MAX_FINDINGS} more"] if len(lines) > _MAX_FINDINGS else []
    head = f"No test runs {format_count(len(lines), 'changed line')}. Test what they do, or leave them out."
    return "\n".join((head, *lines[:_MAX_FINDINGS], *more))


def new_failures_as_feedback(checks: ProposalChecks) -> str:
    """Return the findings against a proposal, as feedback from the user."""
    return "\n\n".join(_finding_text(result) for result in checks.new_failures)


def format_failures_for_model(results: Iterable[ProposalCheckResult]) -> str:
    """Return the failures as text for the result of a staging step; empty if there are none.

    The text goes into a tool result, not into an instruction: tools print text of the code under test.
    """
    red = [_finding_text(result) for result in results if result.has_new_failure]
    if not red:
        return ""
    head = (
        "Checks of what you staged have failed. It stays staged and waits for the user; tell the user what is wrong."
    )
    return "\n\n".join((head, *red))


def _finding_text(result: ProposalCheckResult) -> str:
    """Return the failure of a check: its summary, the new findings, and its output, if any, in a fenced block."""
    assert result.outcome is not None
    head = f"The check {result.name} fails on this proposal: {result.verdict}."
    places = [f"{finding.path}:{finding.line}: {finding.text}" for finding in result.outcome.findings if finding.new]
    lines = places[:_MAX_FINDINGS]
    if len(places) > _MAX_FINDINGS:
        lines.append(f"and {len(places) - _MAX_FINDINGS} more")
    output = result.outcome.output.strip()
    if len(output) > _MAX_OUTPUT_CHARACTERS:
        output = f"…{output[-_MAX_OUTPUT_CHARACTERS:]}"
    block = ("", "```", output.replace("```", "'''"), "```") if output else ()
    return "\n".join((head, *lines, *block))
