"""The checks behind the review: follows what waits, and shows there what they say."""

from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from app.config.settings import WORKSPACE_FILE
from app.ui.means import Means
from widgets.approval.messages import Approve
from widgets.approval.review import Review

if TYPE_CHECKING:
    from app.checks.following import Following
    from app.checks.results import Result
    from app.config.settings import Check
    from app.proposals.models import Proposal
    from app.runtime.workspace import Runtime


class ReviewChecks:
    """The checks of one workspace; nothing is loaded or run where none are configured."""

    def __init__(self, review: Review, runtime: "Runtime", means: Means) -> None:
        """Nothing is run before it is told what waits.

        Args:
            review: where they are shown.
            runtime: the open workspace, with the checks that are in force.
            means: of the app.
        """
        self._review = review
        self._runtime = runtime
        self._means = means
        self._following: Following | None = None
        self._proposals: Sequence[Proposal] = ()

    def follow(self, proposals: "Sequence[Proposal] | None" = None) -> None:
        """Check what is newly staged and what is shown; as they are now if they are given."""
        if proposals is not None:
            self._proposals = proposals
        if self._following is None and self._configured():
            from app.checks.following import Following

            self._following = Following(
                self._runtime.checks,
                self._configured,
                self._runtime.service.trees,
                lambda proposal: self._review.state.chosen.part(proposal).decided,
                self._review.set_checks,
            )
            self._means.work(self._follow_disk, group="checks", exclusive=True)
        if self._following is not None:
            self._following.follow(self._proposals, self._review.state.current)
        else:
            self._say_untrusted()

    def stop(self, *proposal_ids: str) -> None:
        """End the checks of what is being decided on."""
        if self._following is not None:
            self._following.stop(proposal_ids)

    def ask(self, proposal_id: str) -> None:
        """Run those that were not run, or all again."""
        if self._following is None or not self._following.ask(proposal_id):
            self._review.say(f"There is nothing to run on {proposal_id} now.")

    async def before_approval(self, event: Approve) -> "tuple[Result, ...]":
        """Run what is to be run before it is written; gives those that speak against it."""
        if self._following is None:
            return ()
        return await self._following.before_approval(event.proposal_id, event.revision, event.hunks)

    async def _follow_disk(self) -> None:
        from app.checks.tree_changes import tree_changes

        assert self._following is not None
        async with aclosing(tree_changes(self._runtime.workspace)) as changes:
            await self._following.follow_disk(changes)

    async def show_output(self, proposal_id: str) -> None:
        """Show what they printed."""
        from app.ui.screens.checks import ChecksScreen

        if (checked := self._review.state.checks.get(proposal_id)) is not None:
            await self._means.ask(ChecksScreen(checked))

    async def close(self) -> None:
        """End all of them."""
        if self._following is not None:
            await self._following.close()

    def _say_untrusted(self) -> None:
        """That there would be checks, if the user trusted the workspace's file."""
        proposal = self._review.state.proposal
        if proposal is not None and "check" in self._runtime.configuration.untrusted:
            from app.checks.results import Checked

            why_not = f"{WORKSPACE_FILE} waits for your trust (/trust)"
            self._review.set_checks(Checked(proposal.id, proposal.revision, (), why_not))

    def _configured(self) -> "tuple[Check, ...]":
        return self._runtime.settings.check
