"""The review and what stands behind it: loaded and made once something waits in it, or the user goes there.

Until then the workbench keeps what there is to tell it. A session in which nothing is decided never pays for it.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from app.ui.parts import BehindReview, Parts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from app.ui.chat_actions import Talk
    from app.ui.means import Means
    from app.ui.session import CurrentSession
    from app.ui.workbench import Workbench


class ReviewLoading:
    """Makes the review, once."""

    def __init__(
        self,
        parts: Parts,
        workbench: "Workbench",
        current: "CurrentSession",
        talk: "Talk",
        means: "Means",
        show_proposals: "Callable[[], Awaitable[None]]",
    ) -> None:
        """Nothing is loaded.

        Args:
            parts: of the app, with the preferences; what stands behind the review is put there.
            workbench: where it is shown.
            current: the session in which its decisions are recorded.
            talk: is behind the chat.
            means: of the app.
            show_proposals: brings the review up to date.
        """
        self._parts = parts
        self._workbench = workbench
        self._current = current
        self._talk = talk
        self._means = means
        self._show_proposals = show_proposals
        self._may_begin = asyncio.Event()
        self._making = asyncio.Lock()

    def begin(self) -> None:
        """The settings and the store are there: from now on the review can be made."""
        self._may_begin.set()

    async def preload(self) -> None:
        """Import it, on a thread: the model may stage something soon."""
        await asyncio.to_thread(load_review_side)

    async def there(self) -> None:
        """Return once the review is in its place, with what waits; raises StorageError."""
        await self._may_begin.wait()
        async with self._making:
            if self._parts.behind_review is None:
                await self._make()

    async def _make(self) -> None:
        await self.preload()
        from app.storage.errors import StorageError
        from app.ui.review_actions import Decisions
        from app.ui.review_checks import ReviewChecks
        from app.ui.review_notes import ReviewNotes
        from app.ui.review_side import ReviewSide
        from app.ui.side_asking import SideAsking
        from widgets.approval.review import Review

        parts, preferences = self._parts, self._parts.preferences
        keys = preferences.settings.keys
        review = Review(keys=keys)
        review.writing.dropped.find = self._talk.attaching.dropped
        notes, checks = ReviewNotes(parts.runtime.sessions), ReviewChecks(review, parts.runtime, self._means)
        decisions = Decisions(
            review,
            self._current,
            parts.runtime,
            preferences,
            parts.external_editor,
            self._means,
            checks,
            self._talk.attaching,
            leave=partial(self._workbench.show_pane, "chat"),
            show_proposals=self._show_proposals,
        )
        asking = SideAsking(review, self._current, parts.runtime, self._means.tell)
        side = ReviewSide(review, keys, decisions, notes, checks, asking, self._means.work, self._talk.take_words)
        try:
            begun = await asyncio.to_thread(notes.load)
            share = await asyncio.to_thread(preferences.review_share)
        except StorageError as error:
            begun, share = {}, None
            self._means.tell(str(error), problem=True)
        if share is not None:
            self._workbench.sides.share(share)
        await self._workbench.install_review(side, preferences.settings)
        review.recall(begun)
        parts.behind_review = BehindReview(notes, checks, decisions, asking)
        if self._current.ready.is_set():
            await self._show_proposals()


def load_review_side() -> None:
    """Import the review, what colours code in it, and what stages something in it."""
    import app.proposals.draft
    import app.proposals.staging
    import app.ui.review_side  # noqa: F401
    from widgets.diff.syntax import preload

    preload()
