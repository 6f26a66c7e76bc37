"""Messages from the review to the app: the user's decisions and requests."""

from dataclasses import dataclass
from typing import Protocol

from textual.message import Message

from app.conversation.events import ProposalLocation
from app.images.mentions import Mention
from app.proposals.stack.hunk_splitting import SelectedLines
from app.proposals.values.decision_facts import LineComment
from app.review.unfinished_review import NOTHING_SAID, FeedbackWithComments, UnfinishedReview
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
class _ProposalMessage(Message):
    proposal_id: str


@dataclass
class Approve(_ProposalMessage):
    """Write the chosen hunks of a proposal; all pending ones if `hunks` is None."""

    revision: int
    """The revision that was on screen."""
    hunks: tuple[str, ...] | None
    feedback: FeedbackWithComments = NOTHING_SAID
    model_continues: bool = False
    """Whether the model continues after the write."""


@dataclass
class Deny(_ProposalMessage):
    """Discard a proposal, or some hunks of it; with feedback, the model continues."""

    hunks: tuple[str, ...] | None = None
    feedback: FeedbackWithComments = NOTHING_SAID
    revision: int | None = None
    """The revision that was on screen if the denial writes to disk; else None."""
    model_continues: bool = False
    """Whether the model continues without feedback; it gets the reason why the proposal was stale."""


@dataclass
class ApproveSeveralProposals(Message):
    """Write the chosen hunks of several proposals."""

    approvals: tuple[Approve, ...]


@dataclass
class DenySeveralProposals(Message):
    """Discard several proposals."""

    denials: tuple[Deny, ...]


class Undo(_ProposalMessage):
    """Undo an applied proposal, or reopen a denied one."""


class Redo(_ProposalMessage):
    """Apply an undone proposal again."""


@dataclass
class EditProposedFile(_ProposalMessage):
    """Open the editor for the proposed text of a file."""

    path: str
    line: int = 0
    """Line of the proposed text at the cursor, from 0."""


@dataclass
class IncludeOrExcludeLines(_ProposalMessage):
    """Include or exclude single lines of a proposal: split their hunks, and answer with `select_split_parts`."""

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
class UnfinishedReviewChanged(_ProposalMessage):
    """The unfinished review of a proposal has changed and should be saved."""

    notes: UnfinishedReview


@dataclass
class FeedbackOrphaned(Message):
    """Put feedback into the composer, because its proposal or permission request no longer waits."""

    text: str


class DiffsRequested(_ProposalMessage):
    """Request the diffs of this proposal's current revision; answer with `set_diffs`."""


class VersionDiffsRequested(_ProposalMessage):
    """Request the diff from the previous version to this one; answer with `set_version_diffs`."""


@dataclass
class CommentFollowUpsWanted(_ProposalMessage):
    """Request how a proposal changed the commented lines of its previous version; answer with `set_follow_ups`."""

    comments: tuple[LineComment, ...]


class SideThreadsWanted(_ProposalMessage):
    """Request the side questions about a proposal; answer with `load_threads`."""


@dataclass
class SideQuestionAsked(Message):
    """The user asks a side question; its updates go to `SideQuestionPanel.handle_update`."""

    anchor: ProposalLocation
    text: str
    picked: str
    """The lines in question, with their signs; empty for the whole hunk."""


@dataclass
class SideQuestionStopRequested(Message):
    """The user stops the answer to a side question."""

    question: str


class CheckRunWanted(_ProposalMessage):
    """Run the checks of a proposal that have not run, or all again."""


class EvidenceRunOrStopWanted(_ProposalMessage):
    """Collect evidence about a proposal (run the tests without each hunk), or stop the run."""


@dataclass
class CommandRerunOrStopWanted(_ProposalMessage):
    """Run the command of a proposal again, or stop it if it runs."""

    is_running: bool


class CheckOutputWanted(_ProposalMessage):
    """Show the output of a proposal's checks."""


class ModelReadsWanted(_ProposalMessage):
    """Show what the model had read before it wrote a proposal."""


@dataclass
class ReviewResizeWanted(Message):
    """Make the review wider; narrower if `steps` is negative."""

    steps: int


@dataclass
class FullScreenWanted(Message):
    """Show the review on the whole screen, or end that."""

    on: bool
