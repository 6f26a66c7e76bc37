"""The right side of the workbench: the review, and the routing of what is wished and decided there."""

from functools import partial
from typing import TYPE_CHECKING

from textual import getters, on
from textual.app import ComposeResult
from textual.containers import Vertical

from app.ui.review_actions import Decided
from widgets.approval import messages as wishes
from widgets.approval.review import Review

if TYPE_CHECKING:
    from app.config import Settings
    from app.ui.app import SignoffApp


class ReviewSide(Vertical):
    """Holds the review; its wishes go to the one who fulfils them."""

    review = getters.query_one(Review)

    def __init__(self, app: "SignoffApp") -> None:
        """The app that acts on what the review says."""
        super().__init__()
        self._owner = app
        self._look: tuple[str, bool, dict[str, str]] = ("auto", False, app.settings.keys)
        """Of the settings, those that the review follows already."""

    def compose(self) -> ComposeResult:
        """The review alone."""
        yield Review(keys=self._owner.settings.keys)

    def apply_settings(self, settings: "Settings") -> None:
        """Follow the settings, and leave alone what the user turned by key."""
        self.review.set_goes_on(settings.continue_after_approval)
        look = (settings.layout, settings.wrap, settings.keys)
        before, self._look = self._look, look
        if look[0] != before[0]:
            self.review.view.set_split({"auto": None, "unified": False, "split": True}[settings.layout])
        if look[1] != before[1]:
            self.review.view.set_wrap(settings.wrap)
        if look[2] != before[2]:
            self.review.set_keys(settings.keys)

    # What the user wants to see

    @on(wishes.DiffsWanted)
    def load_diffs(self, event: wishes.DiffsWanted) -> None:
        """A diff is wanted."""
        self._owner.work(partial(self._owner.decisions.load_diffs, event), group="diffs", exclusive=True)

    @on(wishes.VersionsWanted)
    def load_versions(self, event: wishes.VersionsWanted) -> None:
        """The diff between two versions is wanted."""
        self._owner.work(partial(self._owner.decisions.load_versions, event), group="versions", exclusive=True)

    @on(wishes.FullScreen)
    def give_screen(self, event: wishes.FullScreen) -> None:
        """The review takes the whole screen, or gives it back."""
        self._owner.workbench.set_full_screen(event.on)

    @on(wishes.RoomWanted)
    def part_anew(self, event: wishes.RoomWanted) -> None:
        """The review wants more of the width, or less."""
        self._owner.workbench.give_room(event.steps)

    # What the user decides

    @on(wishes.Approve)
    @on(wishes.ApproveAll)
    @on(wishes.Deny)
    @on(wishes.DenyAll)
    @on(wishes.Undo)
    @on(wishes.Redo)
    def decide(self, event: Decided) -> None:
        """Carry out a decision."""
        self._owner.work(partial(self._decide, event))

    async def _decide(self, event: Decided) -> None:
        # The review is there before the session is.
        await self._owner.opened()
        await self._owner.decisions.carry_out(event)

    @on(wishes.TakeLines)
    def take_lines(self, event: wishes.TakeLines) -> None:
        """Take single lines in or out."""
        self._owner.work(partial(self._take_lines, event), group="lines")

    async def _take_lines(self, event: wishes.TakeLines) -> None:
        await self._owner.opened()
        await self._owner.decisions.take_lines(event)

    @on(wishes.Edit)
    def edit(self, event: wishes.Edit) -> None:
        """Change the proposed text."""
        self._owner.work(partial(self._edit, event), group="edit", exclusive=True)

    async def _edit(self, event: wishes.Edit) -> None:
        await self._owner.opened()
        await self._owner.decisions.edit(event)

    @on(wishes.Confirmed)
    def confirm(self, event: wishes.Confirmed) -> None:
        """The answer to a tool that asked."""
        self._owner.decisions.aftermath.begins()
        self._owner.session().confirm(event.key, event.answer)

    # What the user writes

    @on(wishes.NotesChanged)
    def keep_notes(self, event: wishes.NotesChanged) -> None:
        """What is begun survives a restart."""
        self._owner.work(partial(self._owner.review_notes.keep, event.proposal_id, event.notes), group="notes")

    @on(wishes.Stranded)
    def keep_words(self, event: wishes.Stranded) -> None:
        """Words that nobody can take any more go where the user writes."""
        self._owner.back_to_composer([event.text])
        self._owner.tell("Your words are in the composer: what they were about is decided.")
