"""The keys that decide: what they post, when they are dead, and what asks first."""

from collections.abc import Sequence

from textual.pilot import Pilot

from app.proposals.models import FileDiff, Proposal
from tests.ui.review_app import ReviewApp
from tests.ui.sample_diffs import file_diff, proposal
from widgets.approval.review import Review

Item = tuple[Proposal, Sequence[FileDiff]]


async def ready(pilot: Pilot[None]) -> ReviewApp:
    """Wait until the diff is drawn, focus it and let the grace period pass."""
    app = pilot.app
    assert isinstance(app, ReviewApp)
    await pilot.pause()
    app.review.view.focus()
    await pilot.pause()
    app.clock.pass_grace()
    return app


def small(id: str = "P1", path: str = "a.py") -> Item:
    """One hunk that fits on any screen."""
    diffs = [file_diff(path, "one\ntwo\nthree\n", "one\n2\nthree\n")]
    return proposal(id, diffs), diffs


async def test_y_approves_the_shown_revision_whole() -> None:
    app = ReviewApp(small())
    async with app.run_test(size=(100, 40)) as pilot:
        await ready(pilot)
        await pilot.press("y")
        posted = app.decisions(Review.Approve)
        assert [(m.proposal_id, m.revision, m.hunks) for m in posted] == [("P1", 1, None)]
