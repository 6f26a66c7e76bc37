"""Which keys of the review take effect at this moment."""

from app.automation.check_results import findings_as_feedback
from app.keys.keymap import keys_of
from app.keys.registry import in_scope
from app.proposals.values.models import Proposal
from widgets.common.input_order import arrival, came_joined
from widgets.review import review_messages
from widgets.review.key_availability import CHECKS, DECIDES, SHAPES, GracePeriod, is_offered
from widgets.review.review_panes import ReviewPanes
from widgets.review.review_wording import safe


class CountingKeys(ReviewPanes):
    """The review panes with the check whether a deciding key takes effect now."""

    def has_effect(self, *names: str | None) -> bool:
        """Return whether a key, by any of its names, does something here now."""
        return any(
            not {*names}.isdisjoint(keys_of(action, self._keys)) and self._is_live(action.handler)
            for action in in_scope("app", "review", "diff", "files", "approval")
        )

    def _is_live(self, action: str) -> bool:
        return action not in DECIDES | SHAPES | CHECKS or is_offered(action, self.state, self.deciding.question)

    def _ready(self, guard: GracePeriod | None = None, *, writes: bool = False) -> bool:
        """Whether a decision key counts now; says so if it doesn't, and has the next ones wait anew.

        Whoever presses `r` too early may write on, into the field that has not opened.

        Args:
            guard: The grace period that it is subject to, if it is not that of decisions.
            writes: It only opens a field, so that it counts, too, where the text for it came in the same read.
        """
        if not self.in_focus or self.is_too_small:
            return False
        joined = not writes and came_joined(self.app)
        why_not = self.readiness.blocking_reason(guard or self.readiness.guard, arrival(self.app), joined=joined)
        if why_not:
            self.hold_keys(why_not)
            self.pane.show_outcome(safe(why_not), problem=True, of_key=True)
        return not why_not

    def _decides(self, *, writes: bool = False) -> bool:
        """Whether a decision key counts now, and for what is shown: what a tool waits for comes first."""
        return self._ready(writes=writes) and not self.show_permission()

    @property
    def _choosable(self) -> Proposal | None:
        """The shown proposal, if it waits, all of it is shown, and no question is open."""
        proposal = self.state.proposal
        free = self.deciding.question is None and not self.preview.comparing
        return proposal if proposal is not None and proposal.state.is_pending and free else None

    # Checks

    def action_run_checks(self) -> None:
        """Run the checks of what is shown that were not run, or all again."""
        self.post_message(review_messages.ChecksWanted(self.state.current))

    def action_show_checks(self) -> None:
        """Show what the checks have printed."""
        self.post_message(review_messages.CheckOutputWanted(self.state.current))

    def action_send_findings(self) -> None:
        """Deny the proposal with what the checks found as the feedback; the model goes on."""
        proposal = self._choosable
        # What is on disk already is taken back by a key of its own, which says what would be lost.
        if proposal is None or proposal.on_disk or not self._decides() or self.deciding.is_busy(proposal):
            return
        checked = self.state.checks.get(proposal.id)
        if checked is not None and checked.new_failures and self.preview.shows(proposal):
            self.deciding.deny_with(proposal, findings_as_feedback(checked))
