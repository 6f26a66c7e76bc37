"""Messages of the review to the app: decisions and requests of the user."""

from dataclasses import dataclass
from typing import Protocol

from textual.message import Message

from app.conversation.events import ThreadAnchor
from app.images.mentions import Mention
from app.proposals.stack.hunk_splitting import SelectedLines
from app.proposals.values.decision_facts import LineComment
from app.review.unfinished_review import NOTHING_SAID, ReviewFeedback, UnfinishedReview
from app.tools.base.contract import PermissionAnswer


class ReviewHost(Protocol):
    """The review as its parts see it: takes their messages, and draws."""

    def post_message(self, message: Message) -> bool:
        """Send a message to the app."""
        ...

    def show_notice(self, text: str) -> None:
        """Show in one line why something was not done; remove the line if the text is empty."""
        ...

    def redraw(self) -> None:
        """Draw the present state."""
        ...


@dataclass
class Approve(Message):
    """Write the chosen hunks of a proposal; all pending ones if `hunks` is None."""

    proposal_id: str
    revision: int
    """The revision that was on screen."""
    hunks: tuple[str, ...] | None
    feedback: ReviewFeedback = NOTHING_SAID
    model_continues: bool = False
    """Whether the model goes on at once, once it is written."""


@dataclass
class Deny(Message):
    """Discard a proposal, or some hunks of it; with feedback the model goes on."""

    proposal_id: str
    hunks: tuple[str, ...] | None = None
    feedback: ReviewFeedback = NOTHING_SAID
    revision: int | None = None
    """The revision that was on screen, where a denial writes; else None."""
    model_continues: bool = False
    """Whether the model goes on without a word of the user: it is told why the proposal was stale."""


@dataclass
class ApproveAll(Message):
    """Write several proposals, each with its chosen hunks."""

    each: tuple[Approve, ...]


@dataclass
class DenyAll(Message):
    """Discard several proposals."""

    each: tuple[Deny, ...]


@dataclass
class Undo(Message):
    """Undo an applied proposal, or reopen a denied one."""

    proposal_id: str


@dataclass
class Redo(Message):
    """Apply an undone proposal again, or deny a reopened one again."""

    proposal_id: str


@dataclass
class Edit(Message):
    """Change the proposed text of a file."""

    proposal_id: str
    path: str
    line: int = 0
    """Of the proposed text, from 0: where the user was looking."""


@dataclass
class ToggleLines(Message):
    """Take single lines of a proposal in or out: cut their hunks, and answer with `select_split_parts`."""

    proposal_id: str
    revision: int
    lines: SelectedLines
    whole: frozenset[str]
    """Ids of hunks of which all lines were picked."""


@dataclass
class PermissionAnswered(Message):
    """The answer to a permission request."""

    key: str
    answer: PermissionAnswer
    mentions: tuple[Mention, ...] = ()
    """Files that the user has named in the words of the answer."""


@dataclass
class NotesChanged(Message):
    """The unfinished review of a proposal has changed and should be saved."""

    proposal_id: str
    notes: UnfinishedReview


@dataclass
class FeedbackOrphaned(Message):
    """Feedback whose proposal is decided: it goes to the composer."""

    text: str


@dataclass
class DiffsWanted(Message):
    """The diffs of this proposal's present revision are needed: answer with `set_diffs`."""

    proposal_id: str


@dataclass
class VersionDiffsWanted(Message):
    """The diff between the version before and this one is needed: answer with `set_version_diffs`."""

    proposal_id: str


@dataclass
class FollowUpsWanted(Message):
    """The effects of a proposal on the comments on its former version are needed: answer with `set_follow_ups`."""

    proposal_id: str
    comments: tuple[LineComment, ...]


@dataclass
class ThreadsWanted(Message):
    """The side questions about a proposal are needed: answer with `load_threads`."""

    proposal_id: str


@dataclass
class SideQuestionAsked(Message):
    """The user asks a side question: updates go to `AskPanel.handle_update`."""

    anchor: ThreadAnchor
    text: str
    picked: str
    """The lines that it is about, with their signs; empty for all of the hunk."""


@dataclass
class SideQuestionStopped(Message):
    """The user stops the answer to a side question."""

    question: str


@dataclass
class LinkWanted(Message):
    """The user clicked a link in the model's text; the address is the model's."""

    href: str


@dataclass
class ChecksWanted(Message):
    """Run the checks of a proposal that were not run, or all again."""

    proposal_id: str


@dataclass
class EvidenceWanted(Message):
    """Collect evidence about a proposal, or stop."""

    proposal_id: str


@dataclass
class ReproductionWanted(Message):
    """Run the command of a proposal again, or end that if it runs."""

    proposal_id: str
    is_running: bool


@dataclass
class CheckOutputWanted(Message):
    """Show the output of a proposal's checks."""

    proposal_id: str


@dataclass
class ReadsWanted(Message):
    """Show what the model had read before it wrote a proposal."""

    proposal_id: str


@dataclass
class RoomWanted(Message):
    """The user wants more room for the review, or less with a negative step."""

    steps: int


@dataclass
class FullScreen(Message):
    """The review takes the whole screen, or gives it back."""

    on: bool
