"""What the review knows: what waits, what is shown of it, and the user's work on that."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from app.checks.results import Checked
from app.proposals.models import Proposal, ProposalState
from app.proposals.splitting import Part
from app.tools.command.forms import CommandForm
from app.tools.contract import Confirmation
from app.tools.tool_form import ToolForm
from widgets.approval.chosen import ChosenHunks
from widgets.approval.looked_at import LookedAt, Unseen
from widgets.approval.notes import Notes
from widgets.approval.origins import Origins
from widgets.approval.permissions import Permissions
from widgets.approval.unsaid import Unsaid

_TAKEN_BACK = (ProposalState.APPLIED, ProposalState.PARTLY_APPROVED, ProposalState.DENIED)
"""States from which `undo` leads back."""


@dataclass(slots=True)
class ReviewState:
    """The queue, and what belongs to its items; no widget."""

    waiting: list[Proposal] = field(default_factory=list)
    """Oldest first."""
    recent: list[Proposal] = field(default_factory=list)
    """Decided ones, latest first."""
    origins: Origins = field(default_factory=Origins)
    """Whose there are, and whose are listed."""
    permissions: Permissions = field(default_factory=Permissions)
    chosen: ChosenHunks = field(default_factory=ChosenHunks)
    looked_at: LookedAt = field(default_factory=LookedAt)
    unsaid: Unsaid = field(default_factory=Unsaid)
    checks: dict[str, Checked] = field(default_factory=dict)
    """What the checks say, by proposal."""
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
    _listed: dict[str, Proposal] = field(init=False)
    _positions: dict[str, int] = field(init=False)
    """Where each waiting proposal stands among them, oldest first."""

    def __post_init__(self) -> None:
        self._index()

    def _index(self) -> None:
        """Thousands may wait, and every key asks for some of them."""
        self._listed = {item.id: item for item in (*self.waiting, *self.recent)}
        self._positions = {item.id: position for position, item in enumerate(self.waiting)}

    def update(self, proposals: Iterable[Proposal], *, attended: bool = True) -> None:
        """Take the proposals as they are now, and keep showing what is shown if that is possible.

        Unless the review is `attended`, what can be approved takes the place of what cannot any more.
        """
        earlier = self.origins.everything
        known = self.origins.listed(proposals)
        for proposal in self.origins.everything.values():
            before = earlier.get(proposal.id)
            if before is not None and before.revision != proposal.revision:
                self.chosen.follow(before, proposal)
                self.unsaid.follow(before, proposal)
        was_shown = self.proposal
        was_waiting = was_shown is not None and was_shown.state.waiting
        self.waiting = sorted((item for item in known if item.state.waiting), key=lambda item: item.created)
        self.recent = sorted((item for item in known if not item.state.waiting), key=lambda item: -item.created)
        self._index()
        shown = self.proposal
        if shown is not None and _stale(shown) and was_shown is not None and not _stale(was_shown):
            # It was picked as what it is no longer.
            self.picked = False
        if self.current in self.permissions.asked:
            return
        if shown is None or self._gives_way(shown, was_waiting=was_waiting, attended=attended):
            self.advance()

    def _gives_way(self, shown: Proposal, *, was_waiting: bool, attended: bool) -> bool:
        """Whether something else is to be shown than this."""
        if not shown.state.waiting:
            return was_waiting or not self.picked
        stays = attended or self.picked or bool(self.unsaid.words(shown))
        return _stale(shown) and self._approvable is not None and not stays

    def list_next_origin(self) -> None:
        """List what comes from the next origin alone, after the last everything again."""
        self.origins.next()
        self.update(self.origins.everything.values())

    @property
    def permission_first(self) -> bool:
        """Whether a tool waits for a permission while something else is shown."""
        return bool(self.permissions.asked) and self.current not in self.permissions.asked

    def show_permission(self) -> None:
        """Show what a tool waits for longest."""
        if self.permission_first:
            self.aside, self.current = self.current, next(iter(self.permissions.asked))

    def leave_permission(self) -> None:
        """Show what was shown before, or the next item that waits."""
        if self.permissions.asked or self.aside not in self._positions:
            self.current = ""
            self.advance()
        else:
            self.current = self.aside

    def advance(self) -> None:
        """Show the first item that waits, what is stale last; what was just decided stays if nothing does."""
        self.picked = False
        if self.permissions.asked:
            self.current = next(iter(self.permissions.asked))
        elif self.waiting:
            self.current = (self._approvable or self.waiting[0]).id
        elif self.proposal is None:
            self.current = self.recent[0].id if self.recent else ""

    @property
    def _approvable(self) -> Proposal | None:
        """The first that waits and is not stale."""
        return next((item for item in self.waiting if not _stale(item)), None)

    @property
    def waiting_keys(self) -> list[str]:
        """What waits for the user: confirmations, which hold up the model, then proposals."""
        return [*self.permissions.asked, *self._positions]

    @property
    def waiting_count(self) -> int:
        """How much that is."""
        return len(self.permissions.asked) + len(self.waiting)

    @property
    def keys(self) -> list[str]:
        """Everything listed."""
        return [*self.permissions.asked, *self._listed]

    def lists(self, key: str) -> bool:
        """Whether that is listed."""
        return key in self.permissions.asked or key in self._listed

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
        return self.permissions.asked.get(self.current)

    @property
    def form(self) -> CommandForm | ToolForm | None:
        """What a lasting yes to the shown confirmation would cover; None for just this."""
        return self.permissions.form(self.current)

    def queue_position(self, key: str) -> int:
        """Place in the queue, from 1; 0 for what doesn't wait."""
        if key in self.permissions.asked:
            return list(self.permissions.asked).index(key) + 1
        position = self._positions.get(key)
        return 0 if position is None else len(self.permissions.asked) + position + 1

    # What can be done

    @property
    def to_take_back(self) -> Proposal | None:
        """The shown proposal if there is a decision on it, or else the one that was decided last."""
        for proposal in (self.proposal, self.get(self.last_decided)):
            if proposal is not None and (proposal.state in _TAKEN_BACK or proposal.denied_part):
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

    def unseen(self, proposal: Proposal) -> Unseen:
        """What of the chosen part has never been on screen."""
        return self.looked_at.unseen(proposal, self.chosen.out_of(proposal.id))

    def take_parts(self, proposal: Proposal, parts: Sequence[Part], whole: Collection[str]) -> None:
        """Hunks of a proposal, which is as it was before, were cut: choose among the parts, seen as far as these."""
        hunks, seen = {hunk.id: hunk for hunk in proposal.hunks}, self.looked_at.seen_of(proposal)
        for part in parts:
            seen.inherit(hunks[part.whole], part.hunk)
        self.chosen.take_parts(proposal, parts, whole)

    # What outlives a restart

    def notes(self, key: str) -> Notes:
        """What is begun on a proposal."""
        return Notes(
            draft=self.unsaid.drafts.get(key, ""),
            remarks=tuple(self.unsaid.remarks.get(key, ())),
            left_out=tuple(sorted(self.chosen.out_of(key))),
            answered=tuple(sorted(tick for tick in self.unsaid.answered if tick.startswith(f"{key}/"))),
        )

    def recall(self, key: str, notes: Notes) -> None:
        """Take up what was begun before a restart, under what was begun since."""
        self.unsaid.drafts.setdefault(key, notes.draft)
        self.unsaid.remarks.setdefault(key, list(notes.remarks))
        self.chosen.left_out.setdefault(key, set(notes.left_out))
        self.unsaid.answered.update(notes.answered)


def _stale(proposal: Proposal) -> bool:
    return proposal.state is ProposalState.STALE
