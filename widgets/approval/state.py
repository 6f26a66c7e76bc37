"""What the review panes know: what waits, what is shown, which hunks are chosen, what was said about lines."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from app.conversation.events import LineComment
from app.proposals.models import FileChange, Hunk, HunkState, Op, Proposal, ProposalState
from app.tools.command_forms import CommandForm
from app.tools.contract import Confirmation
from widgets.approval.permission import form_of, widths
from widgets.diff.rows import Side
from widgets.diff.seen import Seen, changed_lines


@dataclass(frozen=True, slots=True)
class Remark:
    """A comment on a line, by path, so that it survives a new diff."""

    path: str
    side: Side
    line: int
    """From 0."""
    text: str


@dataclass(frozen=True, slots=True)
class Choice:
    """What an approval of a proposal would write."""

    hunks: tuple[str, ...]
    """Ids of the chosen hunks."""
    total: int
    """Hunks that wait."""
    files: int
    """Files that would change."""
    added: int
    removed: int

    @property
    def all(self) -> bool:
        """Whether nothing is left out."""
        return len(self.hunks) == self.total


@dataclass(frozen=True, slots=True)
class Unseen:
    """What an approval would write that has never been on screen."""

    lines: int = 0
    """Changed lines."""
    of: int = 0
    """Those that it would write in all."""
    paths: tuple[str, ...] = ()
    """The files that they are in, and files without hunks whose head was never drawn."""

    def __bool__(self) -> bool:
        return bool(self.paths)


@dataclass(slots=True)
class ReviewState:
    """The queue and the user's work on it; no widget."""

    waiting: list[Proposal] = field(default_factory=list)
    """Oldest first."""
    recent: list[Proposal] = field(default_factory=list)
    """Decided ones, latest first."""
    confirmations: dict[str, Confirmation] = field(default_factory=dict)
    narrowed: dict[str, int] = field(default_factory=dict)
    """How many steps the user made the form of a command narrower, by the confirmation's key."""
    current: str = ""
    """Key of the shown item: a proposal's id or a confirmation's key."""
    picked: bool = False
    """Whether the user chose the shown item, so that nothing else replaces it by itself."""
    left_out: dict[str, set[str]] = field(default_factory=dict)
    seen: dict[str, Seen] = field(default_factory=dict)
    """What was on screen, by proposal."""
    remarks: dict[str, list[Remark]] = field(default_factory=dict)
    sent: dict[str, tuple[LineComment, ...]] = field(default_factory=dict)
    """Comments that went to the model with a denial, by the denied proposal."""
    answered: set[str] = field(default_factory=set)
    """Which of these the user ticked off: `P7/0` for the first of P7."""
    drafts: dict[str, str] = field(default_factory=dict)
    """Feedback begun and not sent, by item."""

    def update(self, proposals: Iterable[Proposal]) -> None:
        """Take the proposals as they are now, and keep showing what is shown if that is possible."""
        known = list(proposals)
        was_waiting = self.proposal is not None and self.proposal.state.waiting
        self.waiting = sorted((item for item in known if item.state.waiting), key=lambda item: item.created)
        self.recent = sorted((item for item in known if not item.state.waiting), key=lambda item: -item.created)
        shown = self.proposal
        if self.current in self.confirmations:
            return
        if shown is None or (not shown.state.waiting and (was_waiting or not self.picked)):
            self.advance()

    def advance(self) -> None:
        """Show the first item that waits; what was just decided stays if nothing does."""
        self.picked = False
        keys = self.waiting_keys
        if keys:
            self.current = keys[0]
        elif self.proposal is None:
            self.current = self.recent[0].id if self.recent else ""

    @property
    def waiting_keys(self) -> list[str]:
        """What waits for the user: confirmations, which hold up the model, then proposals."""
        return [*self.confirmations, *(item.id for item in self.waiting)]

    @property
    def keys(self) -> list[str]:
        """Everything listed."""
        return [*self.waiting_keys, *(item.id for item in self.recent)]

    def get(self, key: str) -> Proposal | None:
        """A listed proposal."""
        return next((item for item in (*self.waiting, *self.recent) if item.id == key), None)

    @property
    def proposal(self) -> Proposal | None:
        """The shown proposal."""
        return self.get(self.current)

    @property
    def confirmation(self) -> Confirmation | None:
        """The shown confirmation."""
        return self.confirmations.get(self.current)

    @property
    def form(self) -> CommandForm | None:
        """What a lasting yes to the shown confirmation would cover; None for just this."""
        if self.confirmation is None:
            return None
        return form_of(self.confirmation, self.narrowed.get(self.current, 0))

    def narrow(self, step: int) -> None:
        """Make the form of the shown command narrower, or wider with a negative step, as far as that goes."""
        if self.confirmation is not None:
            most = len(widths(self.confirmation).forms) - 1
            self.narrowed[self.current] = max(0, min(self.narrowed.get(self.current, 0) + step, most))

    def choice(self, proposal: Proposal) -> Choice:
        """What an approval would write now."""
        out = self.left_out.get(proposal.id, set())
        pending = [hunk for hunk in proposal.hunks if hunk.state is HunkState.PENDING]
        chosen = [hunk for hunk in pending if hunk.id not in out]
        ids = tuple(hunk.id for hunk in chosen)
        if len(chosen) == len(pending):
            return Choice(ids, len(pending), len(proposal.in_question), proposal.added, proposal.removed)
        files = sum(1 for change in proposal.files if any(hunk in chosen for hunk in change.hunks))
        added, removed = sum(hunk.new_count for hunk in chosen), sum(hunk.old_count for hunk in chosen)
        return Choice(ids, len(pending), files, added, removed)

    def toggle(self, proposal: Proposal, hunks: Sequence[Hunk]) -> None:
        """Take hunks in or out; several together all go the way of the first."""
        pending = {hunk.id for hunk in hunks if hunk.state is HunkState.PENDING}
        if not pending:
            return
        out = self.left_out.setdefault(proposal.id, set())
        if pending <= out:
            out -= pending
        else:
            out |= pending

    def remark(self, proposal: Proposal, remark: Remark) -> None:
        """Put a remark on a line in the place of the one before; an empty one takes it away."""
        remarks = self.remarks.setdefault(proposal.id, [])
        place = (remark.path, remark.side, remark.line)
        remarks[:] = [item for item in remarks if (item.path, item.side, item.line) != place]
        if remark.text:
            remarks.append(remark)
            remarks.sort(key=lambda item: (item.path, item.line))

    def seen_of(self, proposal: Proposal) -> Seen:
        """What of a proposal was on screen, to be added to."""
        return self.seen.setdefault(proposal.id, Seen())

    def unseen(self, proposal: Proposal) -> Unseen:
        """What of the chosen part has never been on screen."""
        seen, out = self.seen_of(proposal), self.left_out.get(proposal.id, set())
        lines = of = 0
        paths: list[str] = []
        for change in proposal.files:
            missing = 0
            for hunk in change.hunks:
                if hunk.state is HunkState.PENDING and hunk.id not in out:
                    missing += seen.unseen(hunk)
                    of += changed_lines(hunk)
            lines += missing
            if missing or (not change.hunks and change.path not in seen.files):
                paths.append(change.path)
        return Unseen(lines, of, tuple(paths))

    def queue_position(self, key: str) -> int:
        """Place in the queue, from 1; 0 for what doesn't wait."""
        keys = self.waiting_keys
        return keys.index(key) + 1 if key in keys else 0


def caveats(proposal: Proposal) -> list[str]:
    """Why a proposal has to be named before it is approved with others."""
    found: list[str] = []
    for change in proposal.files:
        for caveat in change_caveats(change):
            if caveat not in found:
                found.append(caveat)
    return found


def change_caveats(change: FileChange) -> list[str]:
    """The same of one file."""
    found = []
    if change.op is Op.DELETE:
        found.append(f"deletes {change.path}")
    if change.inexact:
        found.append(f"inexact match in {change.path}")
    if change.rebased:
        found.append(f"re-based {change.path}")
    return found


def can_be_approved(proposal: Proposal) -> bool:
    """Whether the state allows it."""
    return proposal.state in (ProposalState.PENDING, ProposalState.PARTLY_APPROVED)
