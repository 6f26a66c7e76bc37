"""Facts about a proposal for logs, records and messages: files in numbers, outcome of hunks, the user's words."""

from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

from app.images.image import Image
from app.text.quantities import format_count


class FrozenModel(BaseModel):
    """Frozen, and strict about unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class FileStat(FrozenModel):
    """One file of a proposal, in numbers."""

    path: str
    op: str
    added: int
    removed: int


class HunkOutcome(FrozenModel):
    """The outcome of one hunk, in terms that the model can use."""

    path: str
    hunk: str
    header: str
    """`@@ -3,4 +3,6 @@`."""
    landed: bool
    reason: str = ""
    excerpt: str = ""
    """For a partial decision: the file's text around the place as it is now, numbered."""


class ExcludedHunks(FrozenModel):
    """Hunks that a proposal does not ask for."""

    hunks: int
    why: Literal["signed", "waiting", "there"]
    """They were approved before; they wait in another proposal; the workspace has them already."""
    proposals: tuple[str, ...] = ()
    """In which they were approved, or wait."""

    @property
    def description(self) -> str:
        """`3 hunks left out: signed in P6, P8`."""
        return f"{format_count(self.hunks, 'hunk')} left out: {self.reason}"

    @property
    def reason(self) -> str:
        """`signed in P6, P8`."""
        verb = {"signed": "signed in", "waiting": "waiting in", "there": "here already"}[self.why]
        return f"{verb} {', '.join(self.proposals)}".strip()

    @property
    def sentence(self) -> str:
        """`3 hunks were signed in P6, P8`."""
        verb = {
            "signed": ("was signed in", "were signed in"),
            "waiting": ("waits in", "wait in"),
            "there": ("is here already", "are here already"),
        }[self.why][self.hunks > 1]
        return f"{format_count(self.hunks, 'hunk')} {verb} {', '.join(self.proposals)}".strip()


class LineComment(FrozenModel):
    """A remark of the user on a line of a diff."""

    path: str
    line: int
    """Counted from 1, on `side`."""
    side: Literal["old", "new"]
    quote: str
    """The hunk's lines around it as shown, with their +, - or space."""
    text: str


class RecordedCheck(FrozenModel):
    """The result of a check at the time of the decision."""

    name: str
    state: str
    """`app.automation.check_results.CheckState`."""
    words: str = ""
    """`3 failed, 0 before`."""
    tree: str = ""
    """The tree on which it was obtained: the id of a git tree, or in no repository a SHA-256 over all files."""
    stale: str = ""
    """Why that was not the tree that the decision left: `before b.py changed`; empty if it was."""


class EvidenceVerdict(StrEnum):
    """The verdict on one hunk."""

    HELD = "held"
    """A test that passes with the whole proposal fails without the hunk, twice."""
    LOAD = "load"
    """Without the hunk the tests do not load: this says nothing of what it does."""
    UNNOTICED = "unnoticed"
    """Each test that ran passes without the hunk as well."""
    RED = "red"
    """Of a hunk that adds or changes tests: one of them fails without the code of the proposal, twice."""
    GREEN = "green"
    """They all pass without the code of the proposal, too."""
    FLAKY = "flaky"
    """What failed without the hunk passed when it was run again."""
    NOT_RUN = "not_run"

    @property
    def is_unnoticed_by_tests(self) -> bool:
        """Return whether no test notices when the hunk is missing, or the code that it tests."""
        return self in (EvidenceVerdict.UNNOTICED, EvidenceVerdict.GREEN)


_TESTS_NAMED = 1


class HunkEvidence(FrozenModel):
    """The evidence of one hunk, as far as tests were run."""

    path: str
    hunk: int
    """Its number."""
    verdict: EvidenceVerdict
    tests: tuple[str, ...] = ()
    """The ids of the tests that hold it, or are red, a few."""
    count: int = 0
    """How many there are of them."""
    together: tuple[int, ...] = ()
    """The numbers of other hunks that were taken out with it."""
    reason: str = ""
    """Why it was not run."""

    @property
    def description(self) -> str:
        """Return the mark: `held by tests/test_x.py::test_y`."""
        more = f" and {self.count - _TESTS_NAMED:,} more" if self.count > _TESTS_NAMED else ""
        named = self.tests[0] if self.tests and self.tests[0] else "the check"
        said = {
            EvidenceVerdict.HELD: f"held by {named}{more}",
            EvidenceVerdict.LOAD: "needed to load",
            EvidenceVerdict.UNNOTICED: "none of the tests that ran notices",
            EvidenceVerdict.RED: f"red without the change{f': {self.reason}' if self.reason else ''}",
            EvidenceVerdict.GREEN: "green without the change: tests nothing new",
            EvidenceVerdict.FLAKY: f"flaky: {named} fails now and then, which says nothing",
            EvidenceVerdict.NOT_RUN: f"not run{f': {self.reason}' if self.reason else ''}",
        }[self.verdict]
        others = ", ".join(map(str, self.together))
        return f"{said}, taken out with hunk{'s' * (len(self.together) > 1)} {others}" if others else said


class RecordedEvidence(FrozenModel):
    """The evidence of a proposal's hunks at the time of the decision."""

    check: str
    """The name of the check whose tests ran."""
    selection: str
    """Which of its tests ran, in words."""
    tree: str
    """What they ran on, without what was taken out of it: the id of a git tree, or a SHA-256 over all files."""
    hunks: tuple[HunkEvidence, ...]


class CommandCaller(FrozenModel):
    """How a deciding command was called, as far as its process could see: a trace, no proof."""

    stdin_is_terminal: bool
    stdout_is_terminal: bool
    parent: str = ""
    """The name of the process that called it; empty where the system does not tell."""
    agent_variables: tuple[str, ...] = ()
    """The names of variables by which agents mark their shells, of those that were set."""

    @property
    def description(self) -> str:
        """`called by bash without a terminal, CLAUDECODE set`."""
        both = self.stdin_is_terminal and self.stdout_is_terminal
        neither = not self.stdin_is_terminal and not self.stdout_is_terminal
        piped = "output" if self.stdin_is_terminal else "input"
        terminal = "in a terminal" if both else "without a terminal" if neither else f"with {piped} off the terminal"
        by = f" by {self.parent}" if self.parent else ""
        variables = f", {', '.join(self.agent_variables)} set" if self.agent_variables else ""
        return f"called{by} {terminal}{variables}"


class DecisionContext(FrozenModel):
    """Circumstances of a decision: where it was made, what was unseen, results of checks; as far as known."""

    through: str = ""
    """`app`, `plain review` or `command line`."""
    unseen_lines: int | None = None
    """How many of the changed lines that it was about were never on the screen; None where no screen was watched."""
    unseen_files: tuple[str, ...] = ()
    """The files of which something was not."""
    checks: tuple[RecordedCheck, ...] = ()
    evidence: RecordedEvidence | None = None
    """What notices if hunks are missing; None where nothing current was known of it."""
    caller: CommandCaller | None = None
    """Of a command that decided; None for the app, and for what earlier versions recorded."""


UNKNOWN_CONTEXT = DecisionContext()
"""Nothing is known of them."""


class LastDecision(FrozenModel):
    """The user's last action on a proposal, kept with it so that it can be recorded even after a failure."""

    number: int
    """From 1, among all decisions on the proposal."""
    decision: str
    """`app.conversation.events.DecisionKind`."""
    files: tuple[FileStat, ...] = ()
    """The files that it was about."""
    hunks: tuple[str, ...] = ()
    """Ids of the hunks that it was about, where it was not the whole proposal."""
    feedback: str = ""
    comments: tuple[LineComment, ...] = ()
    images: tuple[Image, ...] = ()
    """What the user attached to these words."""
    stale: str = ""
    """Why it could not be approved, with what its files held, where a stale one was denied; for the model."""
    circumstances: DecisionContext = UNKNOWN_CONTEXT
