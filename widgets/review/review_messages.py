"""Messages from the review to the app: the user's decisions and requests."""

from dataclasses import dataclass
from typing import Protocol

from textual.message import Message

from app.conversation.events import ThreadAnchor
from app.images.mentions import Mention
from app.proposals.stack.hunk_splitting import SelectedLines
from app.proposals.values.decision_facts import LineComment
from app.review.unfinished_review import NOTHING_SAID, ReviewFeedback, UnfinishedReview
from app.tools.base.contract import PermissionAnswer


class ReviewPaneInterface(Protocol):
    """The methods of `ReviewPane` that its controllers call."""

    def post_message(self, message: Message) -> bool:
        """Send a message to the app."""
        ...

    def show_notice(self, text: str) -> None:
        """Show in one line why something was not done; remove the line if the text is empty."""
        ...

    def redraw(self) -> None:
        """Draw the current state."""
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
    """Whether the model continues after the write."""


@dataclass
class Deny(Message):
    """Discard a proposal, or some hunks of it; with feedback, the model continues."""

    proposal_id: str
    hunks: tuple[str, ...] | None = None
    feedback: ReviewFeedback = NOTHING_SAID
    revision: int | None = None
    """The revision that was on screen if the denial writes to disk; else None."""
    model_continues: bool = False
    """Whether the model continues without feedback; it gets the reason why the proposal was stale."""


@dataclass
class ApproveAll(Message):
    """Write the chosen hunks of several proposals."""

    approvals: tuple[Approve, ...]


@dataclass
class DenyAll(Message):
    """Discard several proposals."""

    denials: tuple[Deny, ...]


@dataclass
class Undo(Message):
    """Undo an applied proposal, or reopen a denied one."""

    proposal_id: str


@dataclass
class Redo(Message):
    """Apply an undone proposal again, or deny a reopened one again."""

    proposal_id: str


@dataclass
class EditProposedFile(Message):
    """Open the editor for the proposed text of a file."""

    proposal_id: str
    path: str
    line: int = 0
    """Line of the proposed text at the cursor, from 0."""


@dataclass
class ToggleLines(Message):
    """Include or exclude single lines of a proposal: split their hunks, and answer with `select_split_parts`."""

    proposal_id: str
    revision: int
    lines: SelectedLines
    whole: frozenset[str]
    """Ids of hunks of which all lines were picked."""


@dataclass
class PermissionAnswered(Message):
    """The user answered a permission request."""

    key: str
    answer: PermissionAnswer
    mentions: tuple[Mention, ...] = ()
    """Files that the user mentions in the feedback."""


@dataclass
class UnfinishedReviewChanged(Message):
    """The unfinished review of a proposal has changed and should be saved."""

    proposal_id: str
    notes: UnfinishedReview


@dataclass
class FeedbackOrphaned(Message):
    """Feedback on a proposal that is already decided; put it into the composer."""

    text: str


@dataclass
class DiffsWanted(Message):
    """Request the diffs of this proposal's current revision; answer with `set_diffs`."""

    proposal_id: str


@dataclass
class VersionDiffsWanted(Message):
    """Request the diff from the previous version to this one; answer with `set_version_diffs`."""

    proposal_id: str


@dataclass
class CommentFollowUpsWanted(Message):
    """Request the effects of a proposal on the comments on its previous version; answer with `set_follow_ups`."""

    proposal_id: str
    comments: tuple[LineComment, ...]


@dataclass
class SideThreadsWanted(Message):
    """Request the side questions about a proposal; answer with `load_threads`."""

    proposal_id: str


@dataclass
class SideQuestionAsked(Message):
    """The user asks a side question; its updates go to `AskPanel.handle_update`."""

    anchor: ThreadAnchor
    text: str
    picked: str
    """The lines in question, with their signs; empty for the whole hunk."""


@dataclass
class SideQuestionStopped(Message):
    """The user stops the answer to a side question."""

    question: str


@dataclass
class LinkClicked(Message):
    """The user clicked a link in the model's text; the address is untrusted."""

    href: str


@dataclass
class CheckRunWanted(Message):
    """Run the checks of a proposal that have not run, or all again."""

    proposal_id: str


@dataclass
class EvidenceRunWanted(Message):
    """Collect evidence about a proposal, or stop the run."""

    proposal_id: str


@dataclass
class CommandRerunWanted(Message):
    """Run the command of a proposal again, or stop it if it runs."""

    proposal_id: str
    is_running: bool


@dataclass
class CheckOutputWanted(Message):
    """Show the output of a proposal's checks."""

    proposal_id: str


@dataclass
class ModelReadsWanted(Message):
    """Show what the model had read before it wrote a proposal."""

    proposal_id: str


@dataclass
class ReviewResizeWanted(Message):
    """Make the review wider; narrower if `steps` is negative."""

    steps: int


@dataclass
class FullScreenToggled(Message):
    """Show the review on the whole screen, or end that."""

    on: bool
