"""The decision keys: which of them can act now, and how a verdict becomes a decision.

Keys that cannot act are shown as inactive or are hidden. A verdict may need the user's confirmation before it becomes
a decision.
"""

from collections.abc import Callable, Hashable, Sequence

from textual.message import Message

from app.copies import replace
from app.proposals.values.models import Proposal, ProposalState
from app.review.review_state import ReviewQueueState
from app.review.unfinished_review import FeedbackWithComments
from app.review.verdicts import (
    ActionAllowedAtOnce,
    ActionKind,
    ActionNeedsConfirmation,
    ActionRefused,
    Verdict,
    can_be_approved,
    decision_verbs,
    describe_proposal_state_in_review,
)
from widgets.common.input_order import KEY_BURST_MESSAGE, OnScreenSinceTracker
from widgets.review import review_messages
from widgets.review.review_wording import grant_and_deny_labels

GRACE_SECONDS = 0.5
"""Seconds during which decision keys are ignored after their subject has changed."""

JUST_CHANGED_MESSAGE = "That changed just now. Look again, then press the key."

_TOO_EARLY_MESSAGE = "You pressed it before this was on the screen, so it decided nothing. Look, then press it again."


class GracePeriod:
    """A short time in which keys are ignored, because the subject of the decision has changed.

    Args:
        clock: Returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._subject: Hashable = None
        self._started_at = clock() - GRACE_SECONDS
        self.why = JUST_CHANGED_MESSAGE
        """Why the grace period was started, and what the user can do."""

    def set_subject(self, subject: Hashable) -> bool:
        """Set the subject of the next decision and return whether it is new; a new subject restarts the period."""
        if subject == self._subject:
            return False
        self._subject = subject
        self.restart(JUST_CHANGED_MESSAGE)
        return True

    def restart(self, why: str) -> None:
        """Restart the grace period for the same subject."""
        self.why = why
        self._started_at = self._clock()

    @property
    def is_over(self) -> bool:
        """Return whether the subject has been unchanged for long enough."""
        return self._clock() - self._started_at >= GRACE_SECONDS


class SeenBeforeDecisionGuard:
    """Decides whether a key press may act, given what the user has seen.

    Args:
        clock: Returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.grace_period = GracePeriod(clock)
        """For decisions: their subject is what would be written, and the open question."""
        self.choice_grace_period = GracePeriod(clock)
        """For including and excluding hunks: its subject is the shown proposal."""
        self.picture_clock = OnScreenSinceTracker()
        """For clicks that decide: whether the subject of the decision was on the screen."""
        self.focus_clock = OnScreenSinceTracker()
        """For keys that decide: whether the subject was on the screen while the review had the focus."""
        self.is_chosen_by_name = False
        """Whether the action comes from a click or the command palette, which name the action."""

    def blocking_reason(self, grace_period: GracePeriod, arrived: float, *, in_burst: bool) -> str:
        """Return why a key is ignored; empty if it takes effect.

        Args:
            grace_period: The grace period for this key.
            arrived: When the key arrived, in monotonic seconds.
            in_burst: Whether the key decides and arrived in one read with other characters.
        """
        if in_burst and not self.is_chosen_by_name:
            return KEY_BURST_MESSAGE
        if not grace_period.is_over:
            return grace_period.why
        clock = self.picture_clock if self.is_chosen_by_name else self.focus_clock
        return "" if clock.was_on_screen_at(arrived) else _TOO_EARLY_MESSAGE

    def restart_grace_periods(self, why: str) -> None:
        """Restart both grace periods."""
        self.grace_period.restart(why)
        self.choice_grace_period.restart(why)

    def require_repaint(self) -> None:
        """Ignore keys until everything has been painted again."""
        self.picture_clock.mark_not_painted()
        self.focus_clock.mark_not_painted()

    def mark_painted(self, *, in_focus: bool) -> None:
        """Record that the screen shows the current state."""
        self.picture_clock.mark_painted()
        if in_focus:
            self.focus_clock.mark_painted()


DECIDING_ACTIONS = frozenset(
    {
        "approve",
        "approve_and_continue",
        "deny",
        "request_changes",
        "approve_all",
        "deny_all",
        "deny_hunk",
        "allow_session",
        "allow_project",
        "undo",
        "redo",
    }
)
"""Actions that decide. While a tool waits for permission, they apply to its request."""

CHECK_ACTIONS = frozenset({"run_checks", "show_checks", "show_reads", "send_findings", "find_evidence", "reproduce"})
"""Actions on the checks or the evidence of the shown proposal."""

SHAPING_ACTIONS = frozenset({"edit", "toggle_hunk", "toggle_file", "narrower", "wider", "next_origin"})
"""Actions that change what a decision would cover, or which proposals are listed."""

REVIEW_ACTION_NAMES = DECIDING_ACTIONS | CHECK_ACTIONS | SHAPING_ACTIONS

NO_SUBJECT_NOTICES = {
    "run_checks": "There is no check for this proposal.",
    "show_checks": "There is no check for this proposal.",
    "send_findings": "No check has found anything that could be sent.",
    "show_reads": "This proposal is not from a session: what its author had read is not known.",
    "reproduce": "Only a waiting proposal that a command has made can be run again.",
    "next_origin": "All proposals have the same origin.",
    "undo": "There is no decision to undo.",
    "redo": "Nothing was undone that could be decided again.",
}
"""What an action without a subject says, if no question and no permission request is open."""

_PERMISSION_ACTIONS = frozenset({"approve", "deny", "request_changes", "allow_session"})
_FORM_ACTIONS = frozenset({"allow_project", "narrower", "wider"})

_QUESTION_TITLES = {"approve": "Yes", "approve_all": "All of them", "deny": "No"}
_DENYING_ACTIONS = frozenset({"deny", "deny_hunk", "request_changes"})
_APPROVING_ACTIONS = frozenset({"approve", "approve_and_continue"})

_ONE_TIME_KINDS = ("changes", "ignored")
"""Kinds of requests that the user must answer each time."""


def find_current_key_title(
    action: str, state: ReviewQueueState, question: ActionNeedsConfirmation | None, *, is_comparing_versions: bool
) -> str | None:
    """Return the title of a key now; empty for the default title of its action.

    None means that the key would only explain why it does nothing.
    """
    if question is not None:
        return _QUESTION_TITLES.get(action, "")
    if state.permissions.asked:
        yes, no = grant_and_deny_labels(state.permission_request)
        titles = {"approve": yes, "deny": no, "request_changes": f"{no}, say why"}
        return titles.get(action, "").capitalize()
    proposal = state.proposal
    if proposal is None:
        return ""
    if is_comparing_versions and action in ("deny_hunk", "toggle_hunk", "toggle_file"):
        return None
    if action in _APPROVING_ACTIONS or (action in _DENYING_ACTIONS and proposal.on_disk):
        is_possible = can_be_approved(proposal) and not is_comparing_versions
        is_possible = is_possible and (
            action in _DENYING_ACTIONS or not state.hunk_exclusions.approval_selection(proposal).is_empty
        )
        if not is_possible:
            return None
    if action == "edit" and (proposal.on_disk or proposal.state is ProposalState.STALE):
        return None if proposal.on_disk else "Resolve"
    return decision_verbs(proposal).titles.get(action, "")


def is_action_available(action: str, state: ReviewQueueState, question: ActionNeedsConfirmation | None) -> bool:
    """Return whether one of `REVIEW_ACTION_NAMES` has something to act on; it may answer the open question."""
    if question is not None:
        answers = {"deny": True, "approve": bool(question.ids), "approve_all": bool(question.named)}
        return answers.get(action, False)
    if state.permission_request is not None:
        if action == "allow_session" and state.permission_request.kind in _ONE_TIME_KINDS:
            return False
        return action in _PERMISSION_ACTIONS or (action in _FORM_ACTIONS and state.form is not None)
    if state.has_hidden_permission and action in DECIDING_ACTIONS:
        return action in _PERMISSION_ACTIONS
    return _has_subject(action, state)


def _has_findings(state: ReviewQueueState) -> bool:
    """Return whether checks fail for the shown proposal, or tests do not notice a hunk or do not run a line of it."""
    checks, evidence = state.checks.get(state.current), state.evidence.get(state.current)
    checks_have_findings = checks is not None and bool(checks.new_failures or checks.has_uncovered_lines)
    return checks_have_findings or (evidence is not None and bool(evidence.unnoticed_hunks))


def _has_subject(action: str, state: ReviewQueueState) -> bool:
    """Return whether an action has something to act on, if no question and no permission request is open."""
    checks, proposal = state.checks.get(state.current), state.proposal
    subject: object
    match action:
        case "run_checks" | "show_checks":
            subject = checks is not None and checks.results
        case "show_reads":
            subject = proposal is not None and proposal.session
        case "send_findings":
            subject = proposal is not None and not proposal.on_disk and _has_findings(state)
        case "reproduce":
            subject = proposal is not None and proposal.recipe is not None and proposal.state.is_pending
        case "next_origin":
            subject = state.origins.has_several_origins
        case "undo":
            subject = state.undo_target
        case "redo":
            subject = state.redo_target
        case "allow_session" | "allow_project" | "narrower" | "wider":
            subject = None
        case "approve_all" | "deny_all":
            subject = state.waiting
        case _:
            needs_approvable = action in ("toggle_hunk", "toggle_file", "find_evidence")
            cannot_change = needs_approvable and proposal is not None and not can_be_approved(proposal)
            subject = state.queue_number(state.current) > 0 and not cannot_change
    return bool(subject)


CollectFeedback = Callable[[str, tuple[str, ...] | None], FeedbackWithComments]
"""Removes and returns the user's text for a decision on a proposal, or on some of its hunks."""


class ActionVerdictHandler:
    """Acts on the verdict about a user's action: posts the decision, asks to confirm it, or shows the refusal."""

    def __init__(
        self, state: ReviewQueueState, collect_feedback: CollectFeedback, host: review_messages.ReviewPaneInterface
    ) -> None:
        self._state = state
        self._collect_feedback = collect_feedback
        self._host = host
        self.question: ActionNeedsConfirmation | None = None
        self._recompute_verdict: Callable[[], Verdict] | None = None
        """Computes the verdict of the open question again."""
        self._decisions_in_progress: dict[str, Proposal] = {}
        """Proposals with a decision that the app has not carried out yet, by id."""

    def update_proposals(self) -> None:
        """Adapt to the current proposals: close a question about a proposal that has changed, and show a notice."""
        get, decided = self._state.get, self._decisions_in_progress
        self._decisions_in_progress = {key: proposal for key, proposal in decided.items() if get(key) == proposal}
        subjects = self.question.subjects if self.question is not None else ()
        if changed := [subject.id for subject in subjects if get(subject.id) != subject]:
            self.question = None
            self._host.show_notice(_describe_lapsed_question(changed[0], get(changed[0])))

    def refresh_question(self) -> bool:
        """Compute the open question again, because more lines were seen; return whether it changed or closed."""
        question = self.question
        if question is None or self._recompute_verdict is None:
            return False
        verdict = self._recompute_verdict()
        if verdict == question:
            return False
        if isinstance(verdict, ActionNeedsConfirmation):
            self.question = verdict
        else:
            self.question = None
            self._host.show_notice("All of it has been on the screen now. Press the key again.")
        return True

    def on_decision_failed(self) -> None:
        """Allow the user to repeat a decision that failed."""
        self._decisions_in_progress.clear()

    def refuse_if_busy(self, proposal: Proposal) -> bool:
        """Return whether a decision on this proposal is being carried out; if it is, show a notice."""
        if self._decisions_in_progress.get(proposal.id) != proposal:
            return False
        self._host.show_notice(f"{proposal.id}: your decision is being carried out.")
        return True

    def handle_verdict(self, verdict: Verdict, recompute: Callable[[], Verdict] | None = None) -> None:
        """Carry out a verdict; `recompute` computes it again after more lines were on the screen."""
        self._recompute_verdict = recompute
        match verdict:
            case ActionRefused(reason):
                self._host.show_notice(reason)
            case ActionNeedsConfirmation():
                self.show_question(verdict)
            case ActionAllowedAtOnce(action, ids):
                self.decide_proposals(action, ids)

    def show_question(self, question: ActionNeedsConfirmation | None) -> None:
        """Show a question, or remove it if None."""
        self.question = question
        self._host.show_notice("")
        self._host.redraw()

    def decide_proposals(self, action: ActionKind, ids: tuple[str, ...]) -> None:
        """Post the decision on these proposals; ignore ids that no longer exist."""
        self.question = None
        if chosen := [proposal for item in ids if (proposal := self._state.get(item)) is not None]:
            self._state.is_picked_by_user = False
            self._post_decision(chosen, self._make_decision(action, chosen))
        else:
            self.show_question(None)

    def _make_decision(self, action: ActionKind, proposals: Sequence[Proposal]) -> Message:
        match action:
            case "approve" | "approve_and_continue":
                return self._make_approval(proposals[0], model_continues=action == "approve_and_continue")
            case "approve_all":
                return review_messages.ApproveSeveralProposals(tuple(map(self._make_approval, proposals)))
            case "deny":
                return self._make_denial(proposals[0])
            case "deny_all":
                return review_messages.DenySeveralProposals(tuple(map(self._make_denial, proposals)))

    def deny_hunk(self, proposal: Proposal, hunk: str) -> None:
        """Deny only one hunk."""
        self._host.show_notice("")
        self._host.post_message(self._make_denial(proposal, (hunk,)))

    def deny_with_feedback(self, proposal: Proposal, more: str) -> None:
        """Deny a proposal; append `more` to the user's feedback."""
        denial = self._make_denial(proposal)
        feedback = "\n\n".join(filter(None, (denial.feedback.feedback, more)))
        self._post_decision([proposal], replace(denial, feedback=replace(denial.feedback, feedback=feedback)))

    def deny_stale(self, proposal: Proposal) -> None:
        """Deny a stale proposal without feedback; the model continues with the reason why it is stale."""
        self._post_decision([proposal], replace(self._make_denial(proposal), model_continues=True))

    def _post_decision(self, proposals: Sequence[Proposal], decision: Message) -> None:
        self._host.show_notice("")
        self._decisions_in_progress |= {proposal.id: proposal for proposal in proposals}
        self._state.last_decided = proposals[-1].id
        self._host.post_message(decision)
        self._host.redraw()

    def _make_approval(self, proposal: Proposal, *, model_continues: bool = False) -> review_messages.Approve:
        hunks = self._state.hunk_exclusions.approval_selection(proposal).decided_hunks
        feedback = self._collect_feedback(proposal.id, hunks)
        return review_messages.Approve(proposal.id, proposal.revision, hunks, feedback, model_continues)

    def _make_denial(self, proposal: Proposal, hunks: tuple[str, ...] | None = None) -> review_messages.Deny:
        feedback = self._collect_feedback(proposal.id, hunks)
        return review_messages.Deny(proposal.id, hunks, feedback, proposal.revision if proposal.on_disk else None)


def _describe_lapsed_question(name: str, proposal: Proposal | None) -> str:
    """Return why a question can no longer be answered."""
    if proposal is not None and proposal.state.is_pending:
        return f"{name} has changed: the question has lapsed. Look again before you decide."
    state = describe_proposal_state_in_review(proposal) if proposal else "gone"
    return f"{name} is {state} now: the question has lapsed."
