"""Why a file or a hunk deserves attention: the value kept with a proposal, and its wording."""

from collections.abc import Sequence
from enum import StrEnum

from app.proposals.values.decision_facts import FrozenModel
from app.text.quantities import format_count

MAX_MARKED_PLACES = 20
"""Places of one reason that are marked."""
_NAMED = 3
"""Names that one reason tells."""


class ReasonKind(StrEnum):
    """Kind of a reason, the gravest first."""

    DECEIVES = "deceives"
    """Characters in the name or in added lines that don't show, or look like others."""
    SECRET = "secret"
    UNVERIFIED = "unverified"
    """The other side of a connection is no longer checked."""
    EXECUTES = "executes"
    SWALLOWED = "swallowed"
    NETWORK = "network"
    TESTS = "tests"
    SKIPPED = "skipped"
    GUARDS = "guards"
    ASSERTS = "asserts"
    OPERATORS = "operators"
    """Lines that are as before but for an operator."""
    MODE = "mode"
    AUTOMATION = "automation"
    UNLOCKED = "unlocked"
    """A lock file without what it locks."""
    INEXACT = "inexact"
    DELETED = "deleted"
    UNHELD = "unheld"
    """Hunks of which tests showed that nothing notices if they are missing: known only while it is reviewed."""
    UNCOVERED = "uncovered"
    """Changed lines that no test runs, by the coverage report of a check: known only while it is reviewed."""
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
        """Return whether it is found in what the model had read, so only when it is staged."""
        return self in (ReasonKind.UNREAD, ReasonKind.READ_BEFORE, ReasonKind.UNREAD_USES)

    @property
    def is_risk(self) -> bool:
        """Return whether it moves a file to the front; the others say why a file comes last, folded."""
        return self not in (ReasonKind.LOCK, ReasonKind.GENERATED)


class LineReference(FrozenModel):
    """A changed line, counted in its hunk: so it stays the same line when a re-base moves the hunk."""

    hunk: str
    """Its id."""
    side: str
    """`old` or `new`."""
    offset: int
    """Lines below the first of the hunk on that side."""


class AttentionReason(FrozenModel):
    """One reason, for one file."""

    kind: ReasonKind
    path: str
    names: tuple[str, ...] = ()
    """What was called, removed or touched, by name."""
    count: int = 1
    """How many there are."""
    places: tuple[LineReference, ...] = ()
    """Where; none for what is true of the file as a whole."""

    @property
    def description(self) -> str:
        """A clause without a subject: `removes 2 tests: test_a, test_b`."""
        return reason_clause(self.kind, self.names, self.count)


def reason_clause(kind: ReasonKind, names: Sequence[str], count: int, files: int = 1) -> str:
    """Return the finding, for one file or several together, as a clause without a subject."""
    named = join_first_names(names)
    what = "the file" if files == 1 else format_count(files, "file")
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
        ReasonKind.UNREAD: f"edits {what} without having read {'it' if files == 1 else 'them'}",
        ReasonKind.READ_BEFORE: f"edits {what} near lines that changed after the model had read "
        f"{'it' if files == 1 else 'them'}",
        ReasonKind.UNREAD_USES: f"changes {names[0] if names else 'a name'}, which "
        f"{format_count(count, 'file')} that the model found but did not read {'uses' if count == 1 else 'use'}"
        f"{': ' if files == 1 else ''}{join_first_names(names[1:]) if files == 1 else ''}",
        ReasonKind.UNASKED: f"changes {what if files > 1 else 'a file'} that your request does not name",
        ReasonKind.LOCK: "is a lock file",
        ReasonKind.GENERATED: "is generated",
    }[kind]


def join_first_names(names: Sequence[str]) -> str:
    """Return the first few names as text."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
