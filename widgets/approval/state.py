"""What the review panes know: what waits, what is shown, which hunks are chosen, what was said about lines."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from app.proposals.facts import LineComment
from app.proposals.models import FileChange, Hunk, HunkState, Op, Proposal, ProposalState
from app.proposals.remarks import mode_words
from app.proposals.splitting import Part
from app.tools.command.forms import CommandForm
from app.tools.contract import Confirmation
from widgets.approval.moving import moved
from widgets.approval.notes import Notes, Remark, Words
from widgets.approval.permission import form_of, widths
from widgets.diff.seen import Seen

_TAKEN_BACK = (ProposalState.APPLIED, ProposalState.PARTLY_APPROVED, ProposalState.DENIED)
"""States from which `undo` leads back."""


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

    @property
    def decided(self) -> tuple[str, ...] | None:
        """The hunks that an approval names; None for all that waits."""
        return None if self.all else self.hunks


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
    asked_in_chat: bool = False
    """Whether the model waits for the answer to a question, which is the chat's."""
    current: str = ""
    """Key of the shown item: a proposal's id or a confirmation's key."""
    picked: bool = False
    """Whether the user chose the shown item, so that nothing else replaces it by itself."""
    aside: str = ""
    """What was shown before a permission came up, to be shown again after it."""
    last_decided: str = ""
    """The proposal that the latest decision was on, for undo."""
    goes_on: bool = False
    """Whether the model goes on by itself once nothing waits any more."""
    left_out: dict[str, set[str]] = field(default_factory=dict)
    moved: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Files that were re-based after they had been shown, by proposal."""
    _bases: dict[str, dict[str, str]] = field(default_factory=dict)
    """What each shown proposal was based on, by path."""
    seen: dict[str, Seen] = field(default_factory=dict)
    """What was on screen, by proposal."""
    remarks: dict[str, list[Remark]] = field(default_factory=dict)
    sent: dict[str, tuple[LineComment, ...]] = field(default_factory=dict)
    """Comments that went to the model with a denial, by the denied proposal."""
    answered: set[str] = field(default_factory=set)
    """Which of these the user ticked off: `P7/0` for the first of P7."""
    drafts: dict[str, str] = field(default_factory=dict)
    """Feedback begun and not sent, by item."""
    _listed: dict[str, Proposal] = field(init=False)
    _places: dict[str, int] = field(init=False)
    """Where each waiting proposal stands among them, oldest first."""

    def __post_init__(self) -> None:
        self._index()

    def _index(self) -> None:
        """Thousands may wait, and every key asks for some of them."""
        self._listed = {item.id: item for item in (*self.waiting, *self.recent)}
        self._places = {item.id: place for place, item in enumerate(self.waiting)}

    def update(self, proposals: Iterable[Proposal]) -> None:
        """Take the proposals as they are now, and keep showing what is shown if that is possible."""
        known = list(proposals)
        for proposal in known:
            self._keep_left_out(proposal)
            self._move_remarks(proposal)
        was_waiting = self.proposal is not None and self.proposal.state.waiting
        self.waiting = sorted((item for item in known if item.state.waiting), key=lambda item: item.created)
        self.recent = sorted((item for item in known if not item.state.waiting), key=lambda item: -item.created)
        self._index()
        shown = self.proposal
        if self.current in self.confirmations:
            return
        if shown is None or (not shown.state.waiting and (was_waiting or not self.picked)):
            self.advance()

    def _keep_left_out(self, proposal: Proposal) -> None:
        """What was left out doesn't come back by itself: where it is gone, what came in its stead is left out."""
        out, before = self.left_out.get(proposal.id), self.get(proposal.id)
        if not out or before is None or before.revision == proposal.revision:
            return
        ids = [hunk.id for hunk in proposal.hunks]
        if not out.issubset(ids):
            known = {hunk.id for hunk in before.hunks}
            out |= {identity for identity in ids if identity not in known}

    def _move_remarks(self, proposal: Proposal) -> None:
        """A remark stays with its line when another hunk of the file is decided or edited."""
        remarks, before = self.remarks.get(proposal.id), self.get(proposal.id)
        if remarks and before is not None and before.revision != proposal.revision:
            remarks[:] = [moved(remark, before, proposal) for remark in remarks]

    @property
    def permission_first(self) -> bool:
        """Whether a tool waits for a permission while something else is shown."""
        return bool(self.confirmations) and self.current not in self.confirmations

    def show_permission(self) -> None:
        """Show what a tool waits for longest."""
        if self.permission_first:
            self.aside, self.current = self.current, next(iter(self.confirmations))

    def leave_permission(self) -> None:
        """Show what was shown before, or the next item that waits."""
        if self.confirmations or self.aside not in self._places:
            self.current = ""
            self.advance()
        else:
            self.current = self.aside

    def advance(self) -> None:
        """Show the first item that waits; what was just decided stays if nothing does."""
        self.picked = False
        if self.confirmations:
            self.current = next(iter(self.confirmations))
        elif self.waiting:
            self.current = self.waiting[0].id
        elif self.proposal is None:
            self.current = self.recent[0].id if self.recent else ""

    @property
    def waiting_keys(self) -> list[str]:
        """What waits for the user: confirmations, which hold up the model, then proposals."""
        return [*self.confirmations, *self._places]

    @property
    def waiting_count(self) -> int:
        """How much that is."""
        return len(self.confirmations) + len(self.waiting)

    @property
    def keys(self) -> list[str]:
        """Everything listed."""
        return [*self.confirmations, *self._listed]

    def lists(self, key: str) -> bool:
        """Whether that is listed."""
        return key in self.confirmations or key in self._listed

    def get(self, key: str) -> Proposal | None:
        """A listed proposal."""
        return self._listed.get(key)

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
        pending = _pending(proposal.hunks)
        chosen = [hunk for hunk in pending if hunk.id not in out]
        ids = tuple(hunk.id for hunk in chosen)
        if len(chosen) == len(pending):
            return Choice(ids, len(pending), len(proposal.in_question), proposal.added, proposal.removed)
        files = sum(1 for change in proposal.files if any(hunk in chosen for hunk in change.hunks))
        added, removed = sum(hunk.new_count for hunk in chosen), sum(hunk.old_count for hunk in chosen)
        return Choice(ids, len(pending), files, added, removed)

    def toggle(self, proposal: Proposal, hunks: Sequence[Hunk]) -> None:
        """Take hunks in or out; several together all go the way of the first."""
        pending = {hunk.id for hunk in _pending(hunks)}
        if not pending:
            return
        out = self.left_out.setdefault(proposal.id, set())
        if pending <= out:
            out -= pending
        else:
            out |= pending

    def take_parts(self, proposal: Proposal, parts: Sequence[Part], whole: Collection[str]) -> None:
        """Take lines in or out of what was just cut, and the hunks of which all lines were picked, too.

        `proposal` is as it was before. What is picked goes in if all of it was left out, else out; the rest stays.
        """
        out, seen = self.left_out.setdefault(proposal.id, set()), self.seen_of(proposal)
        hunks = {hunk.id: hunk for hunk in proposal.hunks}
        cut = {part.whole for part in parts}
        goes_in = out.issuperset({*cut, *whole})
        left = {part.hunk.id for part in parts if (not goes_in if part.picked else part.whole in out)}
        for part in parts:
            seen.inherit(hunks[part.whole], part.hunk)
        out -= {*cut, *whole}
        out |= left if goes_in else {*left, *whole}

    def remark(self, proposal: Proposal, remark: Remark) -> None:
        """Put a remark on a line in the place of the one before; an empty one takes it away.

        A draft leaves the one that was saved as it is, and goes when that is saved.
        """
        remarks = self.remarks.setdefault(proposal.id, [])
        before = [item for item in remarks if item.place == remark.place]
        if before and not remark.quote:
            # What is shown has changed while it was written.
            remark = replace(remark, quote=before[0].quote)
        remarks[:] = [item for item in remarks if item not in before or (remark.draft and not item.draft)]
        if remark.text and not (remark.draft and remark.text in (item.text for item in before if not item.draft)):
            remarks.append(remark)
            remarks.sort(key=lambda item: (item.path, item.line))

    # The user's words

    def words(self, proposal: Proposal, hunks: Collection[str] | None = None) -> Words:
        """What is said with a decision on these hunks, or on all that waits.

        A decision on a part takes along the comments on that part, one that leaves nothing takes everything.
        """
        feedback, remarks = self._going(proposal, hunks)
        return Words(feedback, tuple(remark.comment for remark in remarks))

    def take_words(self, proposal: Proposal, hunks: Collection[str] | None = None) -> Words:
        """The same, which is not begun any more then."""
        words = self.words(proposal, hunks)
        places = {remark.place for remark in self._going(proposal, hunks)[1]}
        if left := [remark for remark in self.remarks.pop(proposal.id, []) if remark.place not in places]:
            self.remarks[proposal.id] = left
        if words.feedback:
            del self.drafts[proposal.id]
        return words

    def unfinished(self, proposal: Proposal, hunks: Collection[str] | None = None) -> list[str]:
        """Of what would be said, what the user has neither sent nor saved yet."""
        feedback, remarks = self._going(proposal, hunks)
        return [text for text in (feedback.strip(), *(item.text for item in remarks if item.draft)) if text]

    def _going(self, proposal: Proposal, hunks: Collection[str] | None) -> tuple[str, list[Remark]]:
        """The feedback and the remarks that go with a decision."""
        known = self.remarks.get(proposal.id, [])
        redone = {remark.place for remark in known if remark.draft}
        remarks = [remark for remark in known if remark.draft or remark.place not in redone]
        if hunks is None or _leaves_nothing(proposal, hunks):
            return self.drafts.get(proposal.id, ""), remarks
        return "", [remark for remark in remarks if _lies_in(remark, proposal, hunks)]

    def give_back(self, key: str, words: Words) -> None:
        """Put words that could not be said back where they were."""
        if words.feedback:
            self.drafts[key] = "\n\n".join(filter(None, (words.feedback, self.drafts.get(key, ""))))
        if words.comments:
            known = self.remarks.setdefault(key, [])
            back = [Remark.of(comment) for comment in words.comments]
            known[:] = sorted({*known, *back}, key=lambda item: (item.path, item.line))

    def said(self, key: str, words: Words) -> None:
        """Note what went to the model with a decision."""
        if words.comments:
            self.sent[key] = (*self.sent.get(key, ()), *words.comments)

    def notes(self, key: str) -> Notes:
        """What is begun on a proposal."""
        return Notes(
            draft=self.drafts.get(key, ""),
            remarks=tuple(self.remarks.get(key, ())),
            left_out=tuple(sorted(self.left_out.get(key, ()))),
            answered=tuple(sorted(tick for tick in self.answered if tick.startswith(f"{key}/"))),
        )

    def recall(self, key: str, notes: Notes) -> None:
        """Take up what was begun before a restart, under what was begun since."""
        self.drafts.setdefault(key, notes.draft)
        self.remarks.setdefault(key, list(notes.remarks))
        self.left_out.setdefault(key, set(notes.left_out))
        self.answered.update(notes.answered)

    # What can be done

    @property
    def to_take_back(self) -> Proposal | None:
        """The shown proposal if there is a decision on it, or else the one that was decided last."""
        for proposal in (self.proposal, self.get(self.last_decided)):
            if proposal is not None and proposal.state in _TAKEN_BACK:
                return proposal
        return None

    @property
    def to_redo(self) -> Proposal | None:
        """The shown proposal if a decision on it was taken back."""
        proposal = self.proposal
        if proposal is None:
            return None
        again = proposal.state is ProposalState.UNDONE or (proposal.reopened and proposal.state.waiting)
        return proposal if again else None

    def note_bases(self, proposal: Proposal) -> None:
        """The proposal is shown as it is now; what was re-based since the last time is remembered."""
        now = {change.path: change.base.sha256 for change in proposal.files if change.base is not None}
        before = self._bases.get(proposal.id, now)
        self._bases[proposal.id] = now
        rebased = [change.path for change in proposal.files if change.rebased]
        moved = [path for path in rebased if now.get(path) != before.get(path)]
        still = [path for path in self.moved.get(proposal.id, ()) if path in rebased]
        self.moved[proposal.id] = tuple(dict.fromkeys((*still, *moved)))

    def seen_of(self, proposal: Proposal) -> Seen:
        """What of a proposal was on screen, to be added to."""
        return self.seen.setdefault(proposal.id, Seen())

    def unseen(self, proposal: Proposal) -> Unseen:
        """What of the chosen part has never been on screen."""
        seen, out = self.seen_of(proposal), self.left_out.get(proposal.id, set())
        lines = of = 0
        paths: list[str] = []
        for change in proposal.files:
            missing, changed = seen.unseen_of(change.hunks, out)
            lines, of = lines + missing, of + changed
            if missing or (not change.hunks and change.path not in seen.files):
                paths.append(change.path)
        return Unseen(lines, of, tuple(paths))

    def queue_position(self, key: str) -> int:
        """Place in the queue, from 1; 0 for what doesn't wait."""
        if key in self.confirmations:
            return list(self.confirmations).index(key) + 1
        place = self._places.get(key)
        return 0 if place is None else len(self.confirmations) + place + 1


def _pending(hunks: Iterable[Hunk]) -> list[Hunk]:
    return [hunk for hunk in hunks if hunk.state is HunkState.PENDING]


def _leaves_nothing(proposal: Proposal, hunks: Collection[str]) -> bool:
    """Whether nothing of a proposal waits any more once these hunks are decided."""
    bare = any(not change.hunks and change.state is HunkState.PENDING for change in proposal.files)
    return not bare and all(hunk.id in hunks for hunk in _pending(proposal.hunks))


def _lies_in(remark: Remark, proposal: Proposal, hunks: Collection[str]) -> bool:
    """Whether a remark is on a line of one of these hunks."""
    of_file = (hunk for change in proposal.files if change.path == remark.path for hunk in change.hunks)
    for hunk in of_file:
        old = range(hunk.old_start, hunk.old_start + hunk.old_count)
        new = range(hunk.new_start, hunk.new_start + hunk.new_count)
        if hunk.id in hunks and remark.line in (old if remark.side == "old" else new):
            return True
    return False


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
    if mode := mode_words(change):
        found.append(f"{mode} of {change.path}")
    if change.warnings:
        found.append(f"deceiving text in {change.path}")
    return found


def can_be_approved(proposal: Proposal) -> bool:
    """Whether the state allows it."""
    return proposal.state in (ProposalState.PENDING, ProposalState.PARTLY_APPROVED)
