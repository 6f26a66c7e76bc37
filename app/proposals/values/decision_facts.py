"""Facts about a proposal for logs, records and messages: files in numbers, outcomes of hunks, the user's feedback."""

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

from app.images.image import Image
from app.text.quantities import format_count


class FrozenModel(BaseModel):
    """Base of immutable models that refuse unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class FileDiffStat(FrozenModel):
    """The diffstat of one file of a proposal: its operation and the numbers of added and removed lines."""

    path: str
    op: str
    added: int
    removed: int


class HunkOutcome(FrozenModel):
    """The outcome of one hunk, for the model."""

    path: str
    hunk: str
    header: str
    """`@@ -3,4 +3,6 @@`."""
    landed: bool
    reason: str = ""
    excerpt: str = ""
    """After a partial decision: the present text of the file around the place, numbered."""


class HunksNotProposed(FrozenModel):
    """Hunks that were left out of a proposal."""

    hunks: int
    why: Literal["signed", "waiting", "there"]
    """Approved before (`signed`), pending in another proposal (`waiting`), or in the workspace already (`there`)."""
    proposals: tuple[str, ...] = ()
    """Ids of the proposals in which they were approved or are pending."""

    @property
    def description(self) -> str:
        """Return for example `3 hunks left out: signed in P6, P8`."""
        return f"{format_count(self.hunks, 'hunk')} left out: {self.reason}"

    @property
    def reason(self) -> str:
        """Return for example `signed in P6, P8`."""
        verb = {"signed": "signed in", "waiting": "waiting in", "there": "here already"}[self.why]
        return f"{verb} {', '.join(self.proposals)}".strip()

    @property
    def sentence(self) -> str:
        """Return for example `3 hunks were signed in P6, P8`."""
        verb = {
            "signed": ("was signed in", "were signed in"),
            "waiting": ("waits in", "wait in"),
            "there": ("is here already", "are here already"),
        }[self.why][self.hunks > 1]
        return f"{format_count(self.hunks, 'hunk')} {verb} {', '.join(self.proposals)}".strip()


class LineComment(FrozenModel):
    """A comment of the user on a line of a diff."""

    path: str
    line: int
    """Counted from 1, on `side`."""
    side: Literal["old", "new"]
    quote: str
    """The hunk's lines around it as shown, with their +, - or space."""
    text: str


class RecordedCheckResult(FrozenModel):
    """The result of a check at the time of the decision."""

    name: str
    state: str
    """A value of `app.automation.check_results.CheckState`."""
    words: str = ""
    """Summary of the result: `3 failed, 0 before`."""
    tree: str = ""
    """The tree on which the check ran: the id of a git tree, or outside a repository a SHA-256 over all files."""
    stale: str = ""
    """Why the decision left another tree: `before b.py changed`; empty if it did not."""


class HunkTestVerdict(StrEnum):
    """What test runs show about one hunk: held by a test, unnoticed, red, flaky or not run."""

    HELD = "held"
    """A test that passes with the whole proposal fails without the hunk, twice."""
    LOAD = "load"
    """Without the hunk the tests do not load, which shows nothing about its effect."""
    UNNOTICED = "unnoticed"
    """Each test that ran also passes without the hunk."""
    RED = "red"
    """For a hunk that adds or changes tests: one of them fails without the code of the proposal, twice."""
    GREEN = "green"
    """For a hunk that adds or changes tests: all of them also pass without the code of the proposal."""
    FLAKY = "flaky"
    """A test that failed without the hunk passed when it was run again."""
    NOT_RUN = "not_run"

    @property
    def is_unnoticed_by_tests(self) -> bool:
        """Return whether no test notices that the hunk, or the code that it tests, is missing."""
        return self in (HunkTestVerdict.UNNOTICED, HunkTestVerdict.GREEN)


_MAX_NAMED_TESTS = 1


class HunkTestEvidence(FrozenModel):
    """What test runs have shown about one hunk, above all whether a test fails without it."""

    path: str
    hunk: int
    """Number of the hunk."""
    verdict: HunkTestVerdict
    tests: tuple[str, ...] = ()
    """Ids of a few of the tests that hold it, or are red."""
    count: int = 0
    """Number of all these tests."""
    together: tuple[int, ...] = ()
    """Numbers of other hunks that were removed with it for the run."""
    reason: str = ""
    """Why it was not run, or is red."""

    @property
    def description(self) -> str:
        """Return the mark: `held by tests/test_x.py::test_y`."""
        more = f" and {self.count - _MAX_NAMED_TESTS:,} more" if self.count > _MAX_NAMED_TESTS else ""
        named = self.tests[0] if self.tests and self.tests[0] else "the check"
        said = {
            HunkTestVerdict.HELD: f"held by {named}{more}",
            HunkTestVerdict.LOAD: "needed to load",
            HunkTestVerdict.UNNOTICED: "none of the tests that ran notices",
            HunkTestVerdict.RED: f"red without the change{f': {self.reason}' if self.reason else ''}",
            HunkTestVerdict.GREEN: "green without the change: tests nothing new",
            HunkTestVerdict.FLAKY: f"flaky: {named} fails now and then, which says nothing",
            HunkTestVerdict.NOT_RUN: f"not run{f': {self.reason}' if self.reason else ''}",
        }[self.verdict]
        others = ", ".join(map(str, self.together))
        return f"{said}, taken out with hunk{'s' * (len(self.together) > 1)} {others}" if others else said


class RecordedTestEvidence(FrozenModel):
    """The test evidence about a proposal's hunks at the time of the decision."""

    check: str
    """The name of the check whose tests ran."""
    selection: str
    """Description of the tests of the check that ran."""
    tree: str
    """The tree on which they ran, before hunks were removed: the id of a git tree, or a SHA-256 over all files."""
    hunks: tuple[HunkTestEvidence, ...]


class DecisionCommandCaller(FrozenModel):
    """How a deciding command was called, as far as its process could see: a hint, not a proof."""

    stdin_is_terminal: bool
    stdout_is_terminal: bool
    parent: str = ""
    """Name of the process that called it; empty if unknown."""
    agent_variables: tuple[str, ...] = ()
    """Names of the variables that were set by which agents mark their shells."""

    @property
    def description(self) -> str:
        """Return for example `called by bash without a terminal, CLAUDECODE set`."""
        both = self.stdin_is_terminal and self.stdout_is_terminal
        neither = not self.stdin_is_terminal and not self.stdout_is_terminal
        piped = "output" if self.stdin_is_terminal else "input"
        terminal = "in a terminal" if both else "without a terminal" if neither else f"with {piped} off the terminal"
        by = f" by {self.parent}" if self.parent else ""
        variables = f", {', '.join(self.agent_variables)} set" if self.agent_variables else ""
        return f"called{by} {terminal}{variables}"


class DecisionContext(FrozenModel):
    """Circumstances of a decision, as far as known: where it was made, what was unseen, results of checks."""

    through: str = ""
    """The user interface: `app`, `plain review` or `command line`."""
    unseen_lines: int | None = None
    """Number of decided changed lines that were never on screen; None if no screen was tracked."""
    unseen_files: tuple[str, ...] = ()
    """Files with parts that were never on screen."""
    checks: tuple[RecordedCheckResult, ...] = ()
    evidence: RecordedTestEvidence | None = None
    """Evidence about the hunks; None if there was none for the present revision."""
    caller: DecisionCommandCaller | None = None
    """The caller of a command that decided; None for the app, and in records of earlier versions."""


UNKNOWN_CONTEXT = DecisionContext()
"""A context about which nothing is known."""


class LastDecision(FrozenModel):
    """The user's last action on a proposal, stored with it so that it can be recorded even after a failure."""

    number: int
    """Number among all decisions on the proposal, from 1."""
    decision: str
    """A value of `app.conversation.events.DecisionKind`."""
    files: tuple[FileDiffStat, ...] = ()
    """The files that it was about."""
    hunks: tuple[str, ...] = ()
    """Ids of the hunks that it was about; empty for the whole proposal."""
    feedback: str = ""
    comments: tuple[LineComment, ...] = ()
    images: tuple[Image, ...] = ()
    """Images that the user attached to the feedback."""
    stale: str = ""
    """After the denial of a stale proposal: why it could not be approved, and what its files held; for the model."""
    circumstances: DecisionContext = UNKNOWN_CONTEXT
