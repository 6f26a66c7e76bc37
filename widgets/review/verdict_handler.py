"""From a verdict to a decision: the confirmation between them, and decisions under way."""

from collections.abc import Callable
from dataclasses import replace

from app.proposals.values.models import Proposal
from app.review.review_state import ReviewState
from app.review.unfinished_review import ReviewFeedback
from app.review.verdicts import (
    ActionAllowed,
    ActionKind,
    ActionNeedsConfirmation,
    ActionRefused,
    Verdict,
    describe_review_state,
)
from widgets.review import review_messages

CollectFeedback = Callable[[str, tuple[str, ...] | None], ReviewFeedback]
"""Takes the words that go with a decision on a proposal, or on some hunks of it."""


class VerdictHandler:
    """Acts on verdicts: posts the decision, asks for confirmation, or says why not.

    Args:
        state: State of the review.
        take_words: Takes the user's words, which are said with the decision.
        host: Takes the decision, and shows why something was not done.
    """

    def __init__(self, state: ReviewState, take_words: CollectFeedback, host: review_messages.ReviewHost) -> None:
        self._state = state
        self._take_words = take_words
        self._host = host
        self.question: ActionNeedsConfirmation | None = None
        self._again: Callable[[], Verdict] | None = None
        """Computes the verdict of the question's key again."""
        self._on_its_way: dict[str, Proposal] = {}
        """Proposals with a decision that the app has not carried out yet."""

    def update_proposals(self) -> None:
        """Update to the present proposals: drop outdated answers, and report a changed confirmation."""
        get = self._state.get
        self._on_its_way = {key: value for key, value in self._on_its_way.items() if get(key) == value}
        subjects = self.question.subjects if self.question is not None else ()
        if changed := [subject.id for subject in subjects if get(subject.id) != subject]:
            self.question = None
            self._host.show_notice(_lapsed(changed[0], get(changed[0])))

    def refresh_question(self) -> bool:
        """Update the confirmation about unseen lines; return whether it has changed or is gone."""
        question = self.question
        if question is None or self._again is None:
            return False
        verdict = self._again()
        if verdict == question:
            return False
        if isinstance(verdict, ActionNeedsConfirmation):
            self.question = verdict
        else:
            self.question = None
            self._host.show_notice("All of it has been on the screen now. Press the key again to approve.")
        return True

    def on_decision_failed(self) -> None:
        """Allow a failed decision to be made again."""
        self._on_its_way.clear()

    def refuse_if_busy(self, proposal: Proposal) -> bool:
        """Return whether a decision on this proposal is under way; say so."""
        if self._on_its_way.get(proposal.id) != proposal:
            return False
        self._host.show_notice(f"{proposal.id}: your decision is being carried out.")
        return True

    def handle_verdict(self, verdict: Verdict, recompute: Callable[[], Verdict] | None = None) -> None:
        """Carry out a verdict; `recompute` computes the verdict anew when more has been on the screen."""
        self._again = recompute
        match verdict:
            case ActionRefused(reason):
                self._host.show_notice(reason)
            case ActionNeedsConfirmation():
                self.show_question(verdict)
            case ActionAllowed(action, ids):
                self.decide_proposals(action, ids)

    def show_question(self, question: ActionNeedsConfirmation | None) -> None:
        """Put a question, or take it away."""
        self.question = question
        self._host.show_notice("")
        self._host.redraw()

    def decide_proposals(self, action: ActionKind, ids: tuple[str, ...]) -> None:
        """Decide on these proposals."""
        chosen = [proposal for item in ids if (proposal := self._state.get(item)) is not None]
        self.question = None
        self._host.show_notice("")
        if chosen:
            self._state.is_picked_by_user = False
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
        self._host.redraw()

    def deny_hunk(self, proposal: Proposal, hunk: str) -> None:
        """Deny one hunk alone."""
        self._host.show_notice("")
        self._host.post_message(self._denial(proposal, (hunk,)))

    def deny_with_feedback(self, proposal: Proposal, more: str) -> None:
        """Deny a proposal with the user's words and some more."""
        self._host.show_notice("")
        words = self._take_words(proposal.id, None)
        words = replace(words, feedback="\n\n".join(filter(None, (words.feedback, more))))
        self._on_its_way[proposal.id] = proposal
        self._state.last_decided = proposal.id
        self._host.post_message(review_messages.Deny(proposal.id, None, words, _shown(proposal)))
        self._host.redraw()

    def deny_stale(self, proposal: Proposal) -> None:
        """Deny a stale proposal without a word; the model goes on with the reason that it is stale for."""
        self._host.show_notice("")
        self._on_its_way[proposal.id] = proposal
        self._state.last_decided = proposal.id
        self._host.post_message(replace(self._denial(proposal), model_continues=True))
        self._host.redraw()

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
    return f"{name} is {describe_review_state(proposal) if proposal else 'gone'} now: the question has lapsed."
