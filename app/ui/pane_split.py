"""The chat, the review and the splitter between them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.message import Message
from textual.widget import Widget

from widgets.chat.chat_column import ChatColumn
from widgets.common.containers import Column, Row

if TYPE_CHECKING:
    from widgets.chat.composer import Composer
    from widgets.common.splitter import Splitter

_REVIEW = 67
"""Percent of the width for the review, as long as the user has not chosen: two thirds."""
_LEAST = 25
"""Percent of the width that neither chat nor review goes below."""
_STEP = 5


class PaneSplit(Row):
    """Shares the width between chat and review.

    The share is the same wherever the focus is: nothing moves, and no text wraps anew, when it goes from one to the
    other.
    """

    @dataclass
    class Parted(Message):
        """The user has changed the share of the width."""

        review: int
        """Percent of it for the review."""

    def __init__(self, composer: "Composer") -> None:
        super().__init__()
        self._composer = composer
        self._share = _REVIEW
        """Percent of the width for the review."""

    def compose(self) -> ComposeResult:
        """Compose the chat; the review is mounted when it is needed."""
        yield ChatColumn(self._composer)

    def show_placeholder(self) -> None:
        """Have a place for the review, and the line that parts it from the chat."""
        if len(self.children) > 1:
            return
        from widgets.common.splitter import Splitter

        parting = Splitter(upright=True)
        parting.id = "parting"
        self.mount(parting, Column(id="front-review"))
        self.set_share()

    @property
    def review_width(self) -> int:
        """Cells that the review has beside the chat and the line between them."""
        rest = self.size.width - 1
        return rest - rest * (100 - self._share) // 100

    def set_share(self, review: int | None = None) -> None:
        """Give the review a share of the width in percent, as far as both stay readable; None restores the former
        one."""
        if review is not None:
            self._share = min(max(review, _LEAST), 100 - _LEAST)
        self.query_one(ChatColumn).styles.width = f"{100 - self._share}fr"
        for side in self.query("ReviewSide, #front-review").results(Widget):
            side.styles.width = f"{self._share}fr"

    def resize_review(self, steps: int) -> None:
        """Give the review more of the width, or less."""
        self.set_share(self._share + _STEP * steps)
        self.post_message(self.Parted(self._share))

    # By name, since the line is imported with the review.

    def on_splitter_dragged(self, event: "Splitter.Dragged") -> None:
        """The line is dragged."""
        if event.splitter.id == "parting":
            self.set_share(round(100 * (self.size.width - event.screen_x) / self.size.width))

    def on_splitter_dropped(self, event: "Splitter.Dropped") -> None:
        """Store the share after the line was dragged."""
        if event.splitter.id == "parting":
            self.post_message(self.Parted(self._share))
