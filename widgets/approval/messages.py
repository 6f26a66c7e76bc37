"""What the review asks the application to do; each is a decision or a wish of the user, never an effect by itself."""

from dataclasses import dataclass

from textual.message import Message

from app.conversation.events import LineComment
from app.tools.contract import ConfirmationAnswer


@dataclass
class Approve(Message):
    """Write the chosen hunks of a proposal; all that wait if `hunks` is None."""

    proposal_id: str
    revision: int
    """The revision that was on screen."""
    hunks: tuple[str, ...] | None


@dataclass
class Deny(Message):
    """Discard a proposal, or some hunks of it; with feedback the model goes on."""

    proposal_id: str
    revision: int
    hunks: tuple[str, ...] | None = None
    feedback: str = ""
    comments: tuple[LineComment, ...] = ()


@dataclass
class ApproveAll(Message):
    """Write several proposals, each with its chosen hunks."""

    ids: tuple[str, ...]
    revisions: tuple[int, ...]
    hunks: tuple[tuple[str, ...] | None, ...]


@dataclass
class DenyAll(Message):
    """Discard several proposals."""

    ids: tuple[str, ...]


@dataclass
class Undo(Message):
    """Undo an applied proposal."""

    proposal_id: str


@dataclass
class Redo(Message):
    """Apply an undone proposal again."""

    proposal_id: str


@dataclass
class Edit(Message):
    """Change the proposed text of a file."""

    proposal_id: str
    path: str
    line: int = 0
    """Of the proposed text, from 0: where the user was looking."""


@dataclass
class Confirmed(Message):
    """The answer to a confirmation."""

    key: str
    answer: ConfirmationAnswer


@dataclass
class ProposalShown(Message):
    """The diff of this proposal is on screen."""

    proposal_id: str


@dataclass
class DiffsWanted(Message):
    """The diffs of this proposal's present revision are needed: answer with `set_diffs`."""

    proposal_id: str


@dataclass
class VersionsWanted(Message):
    """The diff between the version before and this one is needed: answer with `set_versions`."""

    proposal_id: str


@dataclass
class FullScreen(Message):
    """The review wants the whole screen, or gives it back."""

    on: bool
