"""Verdicts of decision keys: do it, ask once, or say why not. Pure functions; the review acts on the verdict."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from app.proposals.text.file_warnings import mode_words
from app.proposals.values.models import (
    ON_DISK_WORDS,
    FileChange,
    FileOperation,
    Proposal,
    ProposalState,
    partial_state_words,
)
from app.proposals.values.pending_paths import is_undecided
from app.text.plural import plural
from widgets.review import review_messages
from widgets.review.review_state import ReviewState, UnseenParts
from widgets.review.unfinished_review import ReviewFeedback


@dataclass(frozen=True, slots=True)
class DecisionVerbs:
    """The words of one kind of proposal."""

    approve: str
    deny: str
    request: str
    """To deny and say why."""
    go_on: str
    """To approve and let the model go on."""
    reopen: str
    """To take back a denial."""
    again: str
    """To redo."""
    states: Mapping[ProposalState, str]
    titles: Mapping[str, str]
    """Of actions of the review, where they are called otherwise."""


_STATES: Mapping[ProposalState, str] = {
    ProposalState.PENDING: "waiting",
    ProposalState.PARTLY_APPROVED: "partly applied",
    ProposalState.STALE: "stale",
    ProposalState.APPLIED: "applied",
    ProposalState.DENIED: "denied",
    ProposalState.SUPERSEDED: "superseded",
    ProposalState.UNDONE: "undone",
    ProposalState.FAILED: "failed",
}

TO_WRITE = DecisionVerbs(
    approve="approve",
    deny="deny",
    request="request changes",
    go_on="approve and go on",
    reopen="reopen",
    again="apply again",
    states=_STATES,
    titles={},
)
ON_DISK = DecisionVerbs(
    approve="keep",
    deny="take back off the disk",
    request="take back and say why",
    go_on="keep and go on",
    reopen="put back",
    again="take back again",
    states={**_STATES, **ON_DISK_WORDS},
    titles={
        "approve": "Keep",
        "approve_and_continue": "Keep and go on",
        "deny": "Take back",
        "deny_hunk": "Take hunk back",
        "request_changes": "Take back, say why",
    },
)


def verbs(proposal: Proposal) -> DecisionVerbs:
    """The words for a proposal."""
    return ON_DISK if proposal.on_disk else TO_WRITE


def state_words(proposal: Proposal) -> str:
    """Return the words for its state."""
    return partial_state_words(proposal, verbs(proposal).states[proposal.state])


ActionKind = Literal["approve", "approve_and_continue", "deny", "approve_all", "deny_all"]


_QUOTED = 48
"""Characters of the user's unsent words that a question repeats."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """The key does nothing now."""

    reason: str


@dataclass(frozen=True, slots=True)
class Confirm:
    """The key does it after a yes."""

    question: str
    action: ActionKind
    subjects: tuple[Proposal, ...]
    """The proposals as they were when it was asked; the question lapses if one of them changes."""
    named: tuple[str, ...] = ()
    """Ids that a bulk approval leaves out unless the user includes them."""

    @property
    def ids(self) -> tuple[str, ...]:
        """Return the proposals that a plain yes is about."""
        return tuple(subject.id for subject in self.subjects if subject.id not in self.named)


@dataclass(frozen=True, slots=True)
class Proceed:
    """The key does it at once."""

    action: ActionKind
    ids: tuple[str, ...]


Verdict = Refuse | Confirm | Proceed


def approve(
    state: ReviewState,
    proposal: Proposal,
    *,
    shown: bool,
    versions: bool,
    action: Literal["approve", "approve_and_continue"] = "approve",
) -> Verdict:
    """Return the verdict of `approve` for the shown proposal.

    `shown` says whether the diff on screen is that of this very revision, `versions` whether the diff pane compares
    two versions instead.
    """
    if not proposal.state.is_pending:
        return Refuse(f"{proposal.id} is not waiting any more.")
    if not can_be_approved(proposal):
        return Refuse(f"{proposal.id} is stale and cannot be approved: {proposal.reason or 'the files changed'}")
    if versions:
        return Refuse("This compares two versions; go back to the diff to decide.")
    if not shown:
        return Refuse("The diff isn't on screen yet.")
    part = state.chosen.chosen_part(proposal)
    if part.is_empty:
        return Refuse("No hunk is chosen; choose one, or deny the proposal.")
    reasons = []
    if unseen := state.unseen_parts(proposal):
        reasons.append(unseen_words(proposal.id, unseen))
    deleted = [change.path for change in proposal.files if change.op is FileOperation.DELETE]
    if deleted and not proposal.on_disk:
        reasons.append(f"{proposal.id} deletes {_listed(deleted)}")
    if red := red_words(state, proposal.id):
        reasons.append(red)
    if unfinished := state.unsaid.unsent_part(proposal, part.decided_hunks):
        reasons.append(f"your unsent words go with it to the model, {_quoted(unfinished)}")
    if reasons:
        return Confirm(f"{_sentence(reasons)} {verbs(proposal).approve.capitalize()}?", action, (proposal,))
    return Proceed(action, (proposal.id,))


def deny(state: ReviewState, proposal: Proposal) -> Verdict:
    """Return the verdict of `deny` for the shown proposal."""
    if not proposal.state.is_pending:
        return Refuse(f"{proposal.id} is not waiting any more.")
    reasons = []
    if proposal.on_disk:
        if not can_be_approved(proposal):
            return Refuse(f"{proposal.id} is stale and cannot be taken back: {proposal.reason}")
        reasons += _lost(state, proposal)
    if unfinished := state.unsaid.unsent_part(proposal):
        reasons.append(f"your unsent words go with it to the model, {_quoted(unfinished)}")
    if reasons:
        return Confirm(f"{_sentence(reasons)} {verbs(proposal).deny.capitalize()}?", "deny", (proposal,))
    return Proceed("deny", (proposal.id,))


def deny_in_words(state: ReviewState, proposal: Proposal) -> Verdict:
    """Return the verdict of sending feedback."""
    if proposal.on_disk:
        if not can_be_approved(proposal):
            return Refuse(f"{proposal.id} is stale and cannot be taken back: {proposal.reason}")
        if reasons := _lost(state, proposal):
            return Confirm(f"{_sentence(reasons)} {verbs(proposal).deny.capitalize()}?", "deny", (proposal,))
    return Proceed("deny", (proposal.id,))


def _lost(state: ReviewState, proposal: Proposal) -> list[str]:
    """Return what a denial removes from the disk that nobody may have seen, or that git does not have."""
    reasons = []
    if unseen := state.unseen_parts(proposal):
        reasons.append(unseen_words(proposal.id, unseen))
    if new := [
        change.path for change in proposal.files if change.op is FileOperation.CREATE and is_undecided(change)
    ]:
        reasons.append(f"that removes {_listed(new)}, which git does not have")
    return reasons


def _sentence(reasons: Sequence[str]) -> str:
    said = ", and ".join(reasons)
    return f"{said[0].upper()}{said[1:]}."


def approve_all(state: ReviewState) -> Verdict:
    """Return the verdict of `approve all`: always a question that names everything doubtful and leaves it out at
    first."""
    ready = [item for item in state.waiting if can_be_approved(item) and not state.chosen.chosen_part(item).is_empty]
    if not ready:
        return Refuse("Nothing waits that can be approved.")
    safe = [item for item in ready if not _doubts(state, item)]
    doubtful = [item for item in ready if _doubts(state, item)]
    added = sum(state.chosen.chosen_part(item).added for item in safe)
    removed = sum(state.chosen.chosen_part(item).removed for item in safe)
    unseen = [unseen_words(item.id, missing) for item in safe if (missing := state.unseen_parts(item))]
    parts = []
    if safe:
        parts.append(f"Approve {_listed([item.id for item in safe])} (+{added:,} -{removed:,})?")
        if unseen:
            parts.append(f"{'; '.join(unseen)}.")
    if doubtful:
        named = "; ".join(
            f"{item.id} ({', '.join((*_doubts(state, item), *_unseen(state, item)))})" for item in doubtful
        )
        parts.append(f"{'Not with them' if safe else 'Left out'}: {named}.")
    said = _words_go_along(
        [item.id for item in ready if state.unsaid.feedback_for(item, state.chosen.chosen_part(item).decided_hunks)]
    )
    return Confirm(" ".join(parts) + said, "approve_all", (*safe, *doubtful), tuple(item.id for item in doubtful))


def deny_all(state: ReviewState) -> Verdict:
    """Return the verdict of `deny all`: a question if there are several."""
    ids = tuple(item.id for item in state.waiting)
    if not ids:
        return Refuse("Nothing waits.")
    if len(ids) == 1:
        return deny(state, state.waiting[0])
    about = [item.id for item in state.waiting if state.unsaid.feedback_for(item)]
    said = _words_go_along(about)
    on_disk = [item.id for item in state.waiting if item.on_disk]
    taken = f" {_listed(on_disk)} would be taken back off the disk." if on_disk else ""
    return Confirm(f"Deny all {len(ids)}: {_listed(ids)}?{taken}{said}", "deny_all", tuple(state.waiting))


def _words_go_along(about: Sequence[str]) -> str:
    """Return the sentence that the user's words about these go to the model with the decision."""
    return f" What you wrote about {_listed(about)} goes to the model." if about else ""


def _quoted(texts: Sequence[str]) -> str:
    """The beginning of some texts on one line, in quotes."""
    line = " ".join(" ".join(texts).split())
    return f"“{line if len(line) <= _QUOTED else line[: _QUOTED - 1].rstrip() + '…'}”"


def _doubts(state: ReviewState, proposal: Proposal) -> list[str]:
    """Return why a proposal must be named before it is approved with others."""
    red = red_words(state, proposal.id)
    return [*caveats(proposal), *([red] if red else [])]


def red_words(state: ReviewState, proposal: str) -> str:
    """Return the failed checks: `the check tests fails (3 failed, 0 before)`; empty if none."""
    checked = state.checks.get(proposal)
    return ", ".join(f"the check {one.name} fails ({one.summary})" for one in checked.new_failures) if checked else ""


def _unseen(state: ReviewState, proposal: Proposal) -> list[str]:
    """Return, in a few words, how much of it was never on the screen; empty if nothing."""
    missing = state.unseen_parts(proposal)
    if not missing.lines:
        return [f"{_listed(missing.paths)} never on screen"] if missing else []
    return [f"{missing.lines:,} of {plural(missing.of, 'changed line')} were never on screen"]


def unseen_words(name: str, unseen: UnseenParts) -> str:
    """`1,973 of 2,000 changed lines of P1 were never on screen (big.py)`."""
    files = _listed(unseen.paths)
    if not unseen.lines:
        return f"{files} of {name} {'was' if len(unseen.paths) == 1 else 'were'} never on screen"
    whole = f"{unseen.lines:,} of {plural(unseen.of, 'changed line')} of {name}"
    return f"{whole} {'was' if unseen.lines == 1 else 'were'} never on screen ({files})"


def _listed(items: Sequence[str], most: int = 4) -> str:
    shown = list(items[:most])
    if len(items) > most:
        shown.append(f"{len(items) - most} more")
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else shown[0]


def caveats(proposal: Proposal) -> list[str]:
    """Return why a proposal must be named before it is approved with others."""
    found: list[str] = []
    for change in proposal.files:
        for caveat in change_caveats(change):
            if caveat not in found:
                found.append(caveat)
    return found


def change_caveats(change: FileChange) -> list[str]:
    """The same of one file."""
    found = []
    if change.op is FileOperation.DELETE:
        found.append(f"deletes {change.path}")
    if change.inexact:
        found.append(f"inexact match in {change.path}")
    if change.rebased:
        found.append(f"re-based {change.path}")
    if mode := mode_words(change):
        found.append(f"{mode} of {change.path}")
    if change.warnings:
        found.append(f"deceiving text in {change.path}")
    for denied in dict.fromkeys(hunk.repeat_of for hunk in change.hunks if hunk.repeat_of):
        found.append(f"repeats in {change.path} what you denied in {denied}")
    return found


def can_be_approved(proposal: Proposal) -> bool:
    """Whether the state allows it."""
    return proposal.state in (ProposalState.PENDING, ProposalState.PARTLY_APPROVED)


def can_be_asked_anew(proposal: Proposal) -> bool:
    """Return whether it is stale, so that the model can be told why without the user's words."""
    return proposal.state is ProposalState.STALE and not proposal.on_disk


TakeWords = Callable[[str, tuple[str, ...] | None], ReviewFeedback]
"""Takes the words that go with a decision on a proposal, or on some hunks of it."""


class VerdictHandler:
    """Acts on verdicts: posts the decision, asks for confirmation, or says why not.

    Args:
        state: What is decided on.
        take_words: Takes the user's words, which are said with the decision.
        host: Takes the decision, and shows why something was not done.
    """

    def __init__(self, state: ReviewState, take_words: TakeWords, host: review_messages.ReviewHost) -> None:
        self._state = state
        self._take_words = take_words
        self._host = host
        self.question: Confirm | None = None
        self._again: Callable[[], Verdict] | None = None
        """Computes the verdict of the question's key again."""
        self._on_its_way: dict[str, Proposal] = {}
        """Proposals with a decision that the app has not carried out yet."""

    def follow(self) -> None:
        """Update to the present proposals: drop outdated answers, and report a changed confirmation."""
        get = self._state.get
        self._on_its_way = {key: value for key, value in self._on_its_way.items() if get(key) == value}
        subjects = self.question.subjects if self.question is not None else ()
        if changed := [subject.id for subject in subjects if get(subject.id) != subject]:
            self.question = None
            self._host.show_notice(_lapsed(changed[0], get(changed[0])))

    def asks_anew(self) -> bool:
        """Update the confirmation about unseen lines; return whether it has changed or is gone."""
        question = self.question
        if question is None or self._again is None:
            return False
        verdict = self._again()
        if verdict == question:
            return False
        if isinstance(verdict, Confirm):
            self.question = verdict
        else:
            self.question = None
            self._host.show_notice("All of it has been on the screen now. Press the key again to approve.")
        return True

    def failed(self) -> None:
        """A decision came to nothing, and can be made again."""
        self._on_its_way.clear()

    def is_busy(self, proposal: Proposal) -> bool:
        """Return whether a decision on this proposal is under way; say so."""
        if self._on_its_way.get(proposal.id) != proposal:
            return False
        self._host.show_notice(f"{proposal.id}: your decision is being carried out.")
        return True

    def act(self, verdict: Verdict, again: Callable[[], Verdict] | None = None) -> None:
        """Carry out a verdict; `again` computes the verdict anew when more has been on the screen."""
        self._again = again
        match verdict:
            case Refuse(reason):
                self._host.show_notice(reason)
            case Confirm():
                self.ask(verdict)
            case Proceed(action, ids):
                self.perform(action, ids)

    def ask(self, question: Confirm | None) -> None:
        """Put a question, or take it away."""
        self.question = question
        self._host.show_notice("")
        self._host.draw()

    def perform(self, action: ActionKind, ids: tuple[str, ...]) -> None:
        """Decide on these proposals."""
        chosen = [proposal for item in ids if (proposal := self._state.get(item)) is not None]
        self.question = None
        self._host.show_notice("")
        if chosen:
            self._state.picked = False
            self._on_its_way |= {proposal.id: proposal for proposal in chosen}
            self._state.last_decided = chosen[-1].id
            match action:
                case "approve" | "approve_and_continue":
                    self._host.post_message(self._approval(chosen[0], go_on=action == "approve_and_continue"))
                case "approve_all":
                    self._host.post_message(
                        review_messages.ApproveAll(tuple(self._approval(item) for item in chosen))
                    )
                case "deny":
                    self._host.post_message(self._denial(chosen[0]))
                case "deny_all":
                    self._host.post_message(review_messages.DenyAll(tuple(self._denial(item) for item in chosen)))
        self._host.draw()

    def deny_hunk(self, proposal: Proposal, hunk: str) -> None:
        """Deny one hunk alone."""
        self._host.show_notice("")
        self._host.post_message(self._denial(proposal, (hunk,)))

    def deny_with(self, proposal: Proposal, more: str) -> None:
        """Deny a proposal with the user's words and some more."""
        self._host.show_notice("")
        words = self._take_words(proposal.id, None)
        words = replace(words, feedback="\n\n".join(filter(None, (words.feedback, more))))
        self._on_its_way[proposal.id] = proposal
        self._state.last_decided = proposal.id
        self._host.post_message(review_messages.Deny(proposal.id, None, words, _shown(proposal)))
        self._host.draw()

    def deny_stale(self, proposal: Proposal) -> None:
        """Deny a stale proposal without a word; the model goes on with the reason that it is stale for."""
        self._host.show_notice("")
        self._on_its_way[proposal.id] = proposal
        self._state.last_decided = proposal.id
        self._host.post_message(replace(self._denial(proposal), go_on=True))
        self._host.draw()

    def _approval(self, proposal: Proposal, *, go_on: bool = False) -> review_messages.Approve:
        hunks = self._state.chosen.chosen_part(proposal).decided_hunks
        words = self._take_words(proposal.id, hunks)
        return review_messages.Approve(proposal.id, proposal.revision, hunks, words, go_on)

    def _denial(self, proposal: Proposal, hunks: tuple[str, ...] | None = None) -> review_messages.Deny:
        return review_messages.Deny(proposal.id, hunks, self._take_words(proposal.id, hunks), _shown(proposal))


def _shown(proposal: Proposal) -> int | None:
    """The revision that a denial is bound to; None where it writes nothing."""
    return proposal.revision if proposal.on_disk else None


def _lapsed(name: str, proposal: Proposal | None) -> str:
    """Why a question must not be answered any more."""
    if proposal is not None and proposal.state.is_pending:
        return f"{name} has changed: the question has lapsed. Look again before you decide."
    return f"{name} is {state_words(proposal) if proposal else 'gone'} now: the question has lapsed."
