"""A small app around the review, for its tests: it keeps proposals in memory and records every message."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from textual.app import App, ComposeResult
from textual.message import Message
from textual.pilot import Pilot
from textual.widget import Widget
from textual.widgets import Input, Static

from app.automation.evidence.proposal_evidence import ProposalTestEvidence
from app.proposals.values.decision_facts import LineComment
from app.proposals.values.models import FileDiff, Proposal
from app.tools.base.contract import PermissionRequest
from tests.ui.screen_text import screen_text
from tests.waiting import until
from widgets.diff.diff_colours import make_diff_variable_defaults
from widgets.review.review import ReviewPane
from widgets.review.review_messages import DiffsRequested, IncludeOrExcludeLines, VersionDiffsRequested

BIG = (120, 60)
"""A screen on which every sample fits."""


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def pass_grace(self) -> None:
        """Let the grace period go by."""
        self.now += 1.0


class ReviewApp(App[None]):
    """The review beside an input that stands for the composer."""

    CSS = "Input { dock: bottom; height: 1; border: none; } #below { dock: bottom; height: 1; }"

    def __init__(self, *items: tuple[Proposal, Sequence[FileDiff]], theme: str = "textual-dark") -> None:
        super().__init__()
        self.proposals = {proposal.id: proposal for proposal, _ in items}
        self.diffs = {proposal.id: list(diffs) for proposal, diffs in items}
        self.versions: dict[str, list[FileDiff]] = {}
        self.clock = Clock()
        self.review = ReviewPane(clock=self.clock)
        self.posted: list[Message] = []
        self.wishes: list[IncludeOrExcludeLines] = []
        self.theme = theme
        self.first_comments: Sequence[LineComment] = ()
        self.first_confirmation: PermissionRequest | None = None
        self.first_evidence: ProposalTestEvidence | None = None
        self.below: Widget = Static(id="below")
        """The last line: in pictures a footer, which costs each test a fifth of its time."""

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return make_diff_variable_defaults(self.current_theme)

    def compose(self) -> ComposeResult:
        yield self.review
        yield Input(id="composer")
        yield self.below

    def on_mount(self) -> None:
        self.review.set_sent_comments("P4", self.first_comments)
        self.tell()
        if self.first_evidence is not None:
            self.review.set_evidence(self.first_evidence)
        if self.first_confirmation is not None:
            self.review.add_permission_request("c1", self.first_confirmation)

    async def pass_grace(self) -> None:
        """Let the grace period go by, and wait until all is painted."""
        await until(self.painted, "the picture of what would be decided")
        self.clock.pass_grace()

    async def press_later(self, *keys: str) -> None:
        await self.pass_grace()
        await Pilot(self).press(*keys)

    def painted(self) -> bool:
        """Whether what a key would decide is on the screen as it is now."""
        now, readiness = time.monotonic(), self.review.readiness
        return readiness.picture_clock.was_on_screen_at(now) and (
            readiness.focus_clock.was_on_screen_at(now) or not self.review.has_review_focus
        )

    def tell(self) -> None:
        self.review.set_proposals(list(self.proposals.values()))

    def put(self, proposal: Proposal, diffs: Sequence[FileDiff] | None = None) -> None:
        self.proposals[proposal.id] = proposal
        if diffs is not None:
            self.diffs[proposal.id] = list(diffs)
        self.tell()

    async def change(self, value: Proposal, diffs: Sequence[FileDiff] | None = None) -> None:
        """Add or replace a proposal, and wait until it is shown."""
        self.put(value, diffs)
        await Pilot(self).pause()

    def on_diffs_requested(self, message: DiffsRequested) -> None:
        current = self.proposals[message.proposal_id]
        diffs = [
            diff.model_copy(update={"change": change})
            for diff, change in zip(self.diffs[message.proposal_id], current.files, strict=True)
        ]
        self.review.set_diffs(message.proposal_id, diffs)

    def on_version_diffs_requested(self, message: VersionDiffsRequested) -> None:
        self.review.set_version_diffs(message.proposal_id, self.versions[message.proposal_id])

    def on_include_or_exclude_lines(self, message: IncludeOrExcludeLines) -> None:
        self.wishes.append(message)

    def on_event_recorded(self, message: Message) -> None:
        self.posted.append(message)

    def text(self) -> str:
        return screen_text(self)


_RECORDED = (
    "approve deny approve_several_proposals deny_several_proposals undo redo edit_proposed_file permission_answered "
    "full_screen_wanted feedback_orphaned side_question_asked"
)
for _kind in _RECORDED.split():
    setattr(ReviewApp, f"on_{_kind}", ReviewApp.on_event_recorded)


async def ready(pilot: Pilot[None]) -> ReviewApp:
    """Wait until the diff is drawn, focus it and let the grace period pass."""
    app = pilot.app
    assert isinstance(app, ReviewApp)
    await pilot.pause()
    app.review.view.focus()
    await pilot.pause()
    await app.pass_grace()
    return app


@asynccontextmanager
async def reviewing(
    *items: tuple[Proposal, Sequence[FileDiff]], app: ReviewApp | None = None, size: tuple[int, int] = BIG
) -> AsyncIterator[tuple[ReviewApp, Pilot[None]]]:
    """An app with these proposals, or the one that is given, in which the keys of the diff work."""
    app = app or ReviewApp(*items)
    async with app.run_test(size=size) as pilot:
        yield await ready(pilot), pilot


async def click_on(pilot: Pilot[None], text: str) -> None:
    rows = screen_text(pilot.app).split("\n")
    place = next(((line.index(text) + 1, y) for y, line in enumerate(rows) if text in line), None)
    assert place, f"{text!r} is not on the screen:\n" + "\n".join(rows)
    await pilot.click(offset=place)
