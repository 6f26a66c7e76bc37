"""Results of tests and of a second run of its command for a proposal, for review, commands and record."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from msgspec import Struct

from app.proposals.text.hunks import format_hunk_header
from app.proposals.values.decision_facts import HunkTestEvidence, HunkTestVerdict, RecordedTestEvidence
from app.proposals.values.models import FileDiff, Hunk
from app.proposals.values.origin import CommandRecipe
from app.text.quantities import format_count, join_first

NO_TIME_LEFT = "no time was left"
_MAX_QUOTED_LINES = 12
"""Lines of a hunk that are quoted as feedback."""
_COUNTED_VERDICTS = (
    (HunkTestVerdict.UNNOTICED, "that nothing notices"),
    (HunkTestVerdict.GREEN, "with tests that test nothing new"),
    (HunkTestVerdict.HELD, "held"),
    (HunkTestVerdict.RED, "red without the change"),
    (HunkTestVerdict.LOAD, "needed to load"),
    (HunkTestVerdict.FLAKY, "flaky"),
    (HunkTestVerdict.NOT_RUN, "not run"),
)


@dataclass(frozen=True, slots=True)
class ProposalTestEvidence:
    """What the test runs so far show about the chosen hunks of a proposal: which ones tests notice."""

    proposal: str
    revision: int
    chosen: frozenset[str] = frozenset()
    """Ids of the chosen hunks, and paths of files without hunks."""
    check: str = ""
    """The check whose tests ran."""
    selection: str = ""
    """Which of its tests ran, in words."""
    tests: int = 0
    """Number of tests that ran with the whole proposal, as far as the runner names them."""
    tree: str = ""
    marks: Mapping[str, HunkTestEvidence] = field(default_factory=dict)
    """By the hunk's id."""
    left: int = 0
    """Number of hunks that were not tried yet."""
    seconds: float = 0.0
    """Total duration of its test runs."""
    is_running: bool = False
    why_not: str = ""
    """Why no evidence can be found."""

    @property
    def unnoticed_hunks(self) -> tuple[str, ...]:
        """Return the ids of the hunks whose removal no test notices."""
        return tuple(hunk for hunk, mark in self.marks.items() if mark.verdict.is_unnoticed_by_tests)

    @property
    def is_cut_short(self) -> bool:
        """Return whether hunks were not tried because of the time limit."""
        return any(mark.reason == NO_TIME_LEFT for mark in self.marks.values())

    @property
    def verdict_counts(self) -> str:
        """Return the number of hunks of each kind: `2 that nothing notices, 3 held`."""
        counts = [
            (sum(mark.verdict is one for mark in self.marks.values()), words) for one, words in _COUNTED_VERDICTS
        ]
        return ", ".join(f"{count:,} {words}" for count, words in counts if count)

    @property
    def tests_run_text(self) -> str:
        """Return which tests ran: `87 tests, 12 of 40 test files, by imports`; empty before they ran."""
        return f"{format_count(self.tests, 'test')}, {self.selection}" if self.tests else self.selection

    @property
    def summary(self) -> str:
        """Return one line: `2 that nothing notices, 3 held; 87 tests, 12 of 40 test files, by imports`."""
        said = self.verdict_counts or ("" if self.is_running else "no hunk that tests could notice")
        left = f"{self.left:,} to go" if self.is_running else ""
        return self.why_not or "; ".join(filter(None, (said, left, self.tests_run_text)))

    @property
    def as_record(self) -> RecordedTestEvidence | None:
        """Return the evidence as the record stores it; None if there is none."""
        if not self.marks:
            return None
        hunks = tuple(sorted(self.marks.values(), key=lambda mark: mark.hunk))
        return RecordedTestEvidence(check=self.check, selection=self.selection, tree=self.tree, hunks=hunks)


def hunks_unnoticed_by_tests_as_feedback(evidence: ProposalTestEvidence, diffs: Iterable[FileDiff]) -> str:
    """Return the hunks that no test notices, as feedback from the user; empty if there are none."""
    parts: list[str] = []
    for diff in diffs:
        for hunk in diff.change.hunks:
            mark = evidence.marks.get(hunk.id)
            if mark is not None and mark.verdict.is_unnoticed_by_tests:
                parts.append(
                    f"{diff.change.path} {format_hunk_header(hunk)}: {mark.description}\n{_quote_hunk(diff, hunk)}"
                )
    if not parts:
        return ""
    head = (
        "Nothing notices these hunks: without each of them, the tests that ran pass as well "
        f"({evidence.check}: {evidence.selection}). Test what they do, or leave them out."
    )
    return "\n\n".join((head, *parts))


def _quote_hunk(diff: FileDiff, hunk: Hunk) -> str:
    lines = [
        *(f"-{line}" for line in diff.old[hunk.old_start : hunk.old_start + hunk.old_count]),
        *(f"+{line}" for line in diff.new[hunk.new_start : hunk.new_start + hunk.new_count]),
    ]
    more = [f"and {len(lines) - _MAX_QUOTED_LINES} more lines"] if len(lines) > _MAX_QUOTED_LINES else []
    return "\n".join(("```diff", *(line.replace("```", "'''") for line in lines[:_MAX_QUOTED_LINES]), *more, "```"))


_MAX_NAMED_FILES = 3
"""Maximum number of differing files in one line."""


class CommandReproductionResult(Struct, frozen=True):
    """The result of running a proposal's command again."""

    proposal: str
    revision: int
    """The proposal's revision after the run."""
    recipe: CommandRecipe
    outcome: Literal["same", "differs", "replaced"]
    """`replaced`: the files had changed since the first run, so the new result has replaced the proposal."""
    files: int
    """Number of files that the run changed."""
    differing: tuple[str, ...]
    """The paths at which the result differs from the proposal, sorted."""
    is_same_environment: bool
    """Whether environment variables and system are those of the first run."""

    @property
    def summary(self) -> str:
        """Return the result as one line: `same 412 files, byte for byte`."""
        if self.outcome == "same":
            return f"same {format_count(self.files, 'file')}, byte for byte"
        named = join_first(self.differing, _MAX_NAMED_FILES)
        if self.outcome == "replaced":
            return f"run again on the present files: {format_count(self.files, 'file')}, new at {named}"
        elsewhere = "" if self.is_same_environment else ", in another environment"
        count = f"{format_count(len(self.differing), 'file')} {'differs' if len(self.differing) == 1 else 'differ'}"
        return f"not the same{elsewhere}: {count} ({named})"
