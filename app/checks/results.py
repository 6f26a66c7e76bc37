"""What came of checks: the values that the review, the command line and the model are told from."""

from dataclasses import dataclass, replace
from enum import StrEnum

from app.checks.findings import Finding
from app.checks.workspace_tree import WorkspaceTree
from app.proposals.facts import CheckFact
from app.text.plural import plural


class State(StrEnum):
    """Where a check of a proposal stands."""

    WAITING = "waiting"
    """For those before it."""
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    BROKEN = "broken"
    """It could not be run."""
    NOT_ASKED = "not_asked"
    """It runs when the user wants it, or approves."""
    CANCELLED = "cancelled"

    @property
    def ended(self) -> bool:
        """Whether it was run to its end."""
        return self in (State.PASSED, State.FAILED, State.TIMED_OUT, State.BROKEN)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a check came to on one tree."""

    state: State
    code: int = 0
    seconds: float = 0.0
    output: str = ""
    """Shortened in the middle."""
    findings: tuple[Finding, ...] = ()
    failures: tuple[int, str] | None = None
    """How many things failed, where the tool says so, and what it calls them."""
    reason: str = ""
    """Why it could not be run."""

    @property
    def count(self) -> int | None:
        """How much is wrong; None where it can't be told."""
        if self.state is State.PASSED:
            return 0
        if self.state is not State.FAILED:
            return None
        return self.failures[0] if self.failures is not None else len(self.findings) or None

    @property
    def amount(self) -> str:
        """How much is wrong, in words: `3 failed`."""
        if self.failures is not None:
            number, noun = self.failures
            return plural(number, "error") if noun == "errors" else f"{number:,} {noun}"
        return plural(len(self.findings), "finding") if self.findings else f"exit {self.code}"


@dataclass(frozen=True, slots=True)
class Result:
    """One check of one proposal."""

    name: str
    state: State
    when: str = "staged"
    outcome: Outcome | None = None
    """With the proposal, once it has ended."""
    before: Outcome | None = None
    """Without the proposal; only where it failed with it, or was quick."""
    progress: str = ""
    """The last line of its output while it runs."""
    seconds: float = 0.0
    """How long it has run so far, or did."""
    tree: WorkspaceTree | None = None
    """The exact content of the workspace on which it was obtained; None until it has ended."""
    stale: str = ""
    """Why it says nothing of what an approval would leave: `before b.py changed`; empty while it does."""

    @property
    def is_current(self) -> bool:
        """Whether it was run to its end on what an approval would leave."""
        return self.state.ended and not self.stale

    def outdated_by(self, now: WorkspaceTree, change: str = "") -> "Result":
        """The same result once an approval would leave another tree, for the reason `change` if that is known."""
        return replace(self, stale=change or _difference(self.tree, now))

    @property
    def fact(self) -> CheckFact:
        """What the record holds of it."""
        tree = "" if self.tree is None else self.tree.id
        return CheckFact(name=self.name, state=self.state, words=self.words, tree=tree, stale=self.stale)

    @property
    def red(self) -> bool:
        """Whether it speaks against the proposal: it failed, and did not fail just so without it."""
        if self.outcome is None or self.outcome.state not in (State.FAILED, State.TIMED_OUT):
            return False
        if self.before is None or self.before.state is not self.outcome.state:
            return True
        if any(finding.new for finding in self.outcome.findings):
            return True
        now, then = self.outcome.count, self.before.count
        return now is not None and then is not None and now > then

    @property
    def words(self) -> str:
        """What it came to, in few words: `3 failed, 0 before`; of an outdated one also why it is that."""
        return f"{self._words}, {self.stale}" if self.stale else self._words

    @property
    def _words(self) -> str:
        outcome = self.outcome
        if outcome is None:
            return "ended by you" if self.state is State.CANCELLED else ""
        match outcome.state:
            case State.PASSED:
                return f"{outcome.seconds:.1f} s{self._mended()}"
            case State.BROKEN:
                return outcome.reason
            case State.TIMED_OUT:
                return f"no end after {outcome.seconds:.0f} s"
        return f"{outcome.amount}{self._before()}"

    def _mended(self) -> str:
        before = self.before
        if before is None or before.state is not State.FAILED:
            return ""
        return f", {before.amount} before" if before.count is not None else ", failed before"

    def _before(self) -> str:
        before = self.before
        if before is None:
            return ""
        if before.count is not None and self.outcome is not None and self.outcome.count is not None:
            return f", {before.count:,} before"
        return {State.PASSED: ", passed before", State.FAILED: ", failed before"}.get(before.state, "")


def _difference(before: WorkspaceTree | None, now: WorkspaceTree) -> str:
    """`before b.py changed`."""
    if before is not None and before.commit != now.commit:
        return f"before HEAD moved to {now.commit[:7]}"
    changed = now.changed_since(before) if before is not None else []
    if not changed:
        return "before the files changed"
    rest = f" and {plural(len(changed) - 1, 'other file')}" if len(changed) > 1 else ""
    return f"before {changed[0]}{rest} changed"


@dataclass(frozen=True, slots=True)
class Checked:
    """All that the checks say of one proposal."""

    proposal: str
    revision: int
    results: tuple[Result, ...] = ()
    why_not: str = ""
    """Why none runs."""

    @property
    def red(self) -> tuple[Result, ...]:
        """Those that speak against it."""
        return tuple(result for result in self.results if result.red)

    @property
    def going_on(self) -> bool:
        """Whether any runs or waits for its turn."""
        return any(result.state in (State.WAITING, State.RUNNING) for result in self.results)

    @property
    def findings(self) -> tuple[tuple[str, Finding], ...]:
        """The places that they name in what is shown, each with the name of the check."""
        return tuple(
            (result.name, finding)
            for result in self.results
            if result.outcome is not None and result.outcome.state is not State.PASSED and not result.stale
            for finding in result.outcome.findings
        )
