"""Why a file or a hunk deserves attention: the value stored with a proposal, and its wording."""

from collections.abc import Sequence
from enum import StrEnum

from app.proposals.values.decision_facts import FrozenModel
from app.text.quantities import format_count, join_first

MAX_MARKED_PLACES = 20
"""Maximum places that are marked for one reason."""
_MAX_NAMES = 3
"""Maximum names in the text of one reason."""


class ReasonKind(StrEnum):
    """The kind of a reason for the reviewer's attention, the gravest first."""

    DECEIVES = "deceives"
    """Invisible characters, or characters that look like others, in the name or in added lines."""
    SECRET = "secret"
    UNVERIFIED = "unverified"
    """A connection does not verify the other side any more."""
    EXECUTES = "executes"
    SWALLOWED = "swallowed"
    NETWORK = "network"
    TESTS = "tests"
    SKIPPED = "skipped"
    GUARDS = "guards"
    ASSERTS = "asserts"
    OPERATORS = "operators"
    """Lines that differ from the former ones only in an operator."""
    MODE = "mode"
    AUTOMATION = "automation"
    UNLOCKED = "unlocked"
    """A lock file changes without the file whose dependencies it locks."""
    INEXACT = "inexact"
    DELETED = "deleted"
    UNHELD = "unheld"
    """Hunks without which all tests still pass; known only during the review."""
    UNCOVERED = "uncovered"
    """Changed lines that no test runs, by the coverage report of a check; known only during the review."""
    UNREAD = "unread"
    """The model edited the file without having read it."""
    READ_BEFORE = "read_before"
    """Lines near a hunk changed between the model's reading and its edit."""
    UNREAD_USES = "unread_uses"
    """The model changed the definition of a name and did not read files in which it had found that name."""
    UNASKED = "unasked"
    LOCK = "lock"
    GENERATED = "generated"

    @property
    def is_from_read_history(self) -> bool:
        """Return whether it comes from what the model had read, which is known only at staging."""
        return self in (ReasonKind.UNREAD, ReasonKind.READ_BEFORE, ReasonKind.UNREAD_USES)

    @property
    def is_risk(self) -> bool:
        """Return whether it moves a file to the front; other reasons say why a file comes last, folded."""
        return self not in (ReasonKind.LOCK, ReasonKind.GENERATED)


class HunkLineReference(FrozenModel):
    """A changed line, counted in its hunk: it stays the same line when a re-base moves the hunk."""

    hunk: str
    """Id of the hunk."""
    side: str
    """`old` or `new`."""
    offset: int
    """Distance from the first line of the hunk on that side."""


class AttentionReason(FrozenModel):
    """A reason why the reviewer should look closely at one file of a proposal."""

    kind: ReasonKind
    path: str
    names: tuple[str, ...] = ()
    """Names of what is called, removed or touched."""
    count: int = 1
    """Number of findings."""
    places: tuple[HunkLineReference, ...] = ()
    """The lines; empty for a reason about the whole file."""

    @property
    def description(self) -> str:
        """Return a clause without a subject: `removes 2 tests: test_a, test_b`."""
        return format_reason_clause(self.kind, self.names, self.count)


def format_reason_clause(kind: ReasonKind, names: Sequence[str], count: int, files: int = 0) -> str:
    """Return a reason for attention as a clause without a subject: `removes 2 tests`.

    Args:
        files: Number of files that the clause is about; 0 in a text about one file.
    """
    named = join_first(names, _MAX_NAMES)
    what = format_count(files, "file") if files else "the file"
    return {
        ReasonKind.DECEIVES: "has characters that can deceive a reader",
        ReasonKind.SECRET: f"adds what looks like {named or 'a secret'}",
        ReasonKind.UNVERIFIED: f"turns off a check of the connection ({named})",
        ReasonKind.EXECUTES: f"adds {named}, which runs code",
        ReasonKind.SWALLOWED: f"swallows {format_count(count, 'exception')}",
        ReasonKind.NETWORK: f"adds {named}, which uses the network",
        ReasonKind.TESTS: f"removes {format_count(count, 'test')}{': ' if named else ''}{named}",
        ReasonKind.SKIPPED: f"skips {format_count(count, 'test')}",
        ReasonKind.GUARDS: f"removes {format_count(count, 'line')} that {'raises' if count == 1 else 'raise'}",
        ReasonKind.ASSERTS: f"removes {format_count(count, 'assert')}",
        ReasonKind.OPERATORS: f"changes an operator in {format_count(count, 'line')}",
        ReasonKind.MODE: f"makes {what} {named}",
        ReasonKind.AUTOMATION: f"touches {named}",
        ReasonKind.UNLOCKED: f"changes {named} but not what it locks",
        ReasonKind.INEXACT: f"was not found exactly in {what}",
        ReasonKind.DELETED: f"deletes {what}",
        ReasonKind.UNHELD: f"has {format_count(count, 'hunk')} that no test notices",
        ReasonKind.UNCOVERED: f"has {format_count(count, 'changed line')} that no test runs",
        ReasonKind.UNREAD: f"edits {what} without having read {'it' if files < 2 else 'them'}",
        ReasonKind.READ_BEFORE: f"edits {what} near lines that changed after the model had read "
        f"{'it' if files < 2 else 'them'}",
        ReasonKind.UNREAD_USES: f"changes {names[0] if names else 'a name'}, which "
        f"{format_count(count, 'file')} that the model found but did not read {'uses' if count == 1 else 'use'}"
        f"{': ' if files < 2 else ''}{join_first(names[1:], _MAX_NAMES) if files < 2 else ''}",
        ReasonKind.UNASKED: f"changes {what if files else 'a file'} that your request does not name",
        ReasonKind.LOCK: "is a lock file",
        ReasonKind.GENERATED: "is generated",
    }[kind]
