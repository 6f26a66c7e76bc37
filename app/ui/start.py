"""What the way from the first picture to an open session is made of: what is opened, and what is loaded when.

What is looked at first is loaded and painted first: the end of the session, then the review, then all that the model
and its session need. Each is imported on a thread while what was painted before can be used.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.config import Settings
    from app.conversation.events import Event
    from app.proposals.models import Proposal
    from app.runtime.workspace import Runtime
    from app.storage.sessions import SessionRecord


@dataclass(frozen=True, slots=True)
class Opened:
    """An open workspace, with what the command line asked for."""

    runtime: "Runtime"
    settings: "Settings"
    record: "SessionRecord | None" = None
    """The session to go on with; a new one if None."""
    demo: bool = False
    """The endpoint is the demo model."""

    def last_turns(self) -> "list[Event]":
        """The end of the session to go on with; raises StorageError."""
        return self.runtime.sessions.last_turns(self.record.id) if self.record is not None else []

    def proposals(self) -> "list[Proposal]":
        """What the review shows, as the store has it; raises StorageError."""
        return self.runtime.proposals.recent()


Opener = Callable[[], Awaitable[Opened]]
"""Opens the workspace; called once the first picture is on the screen."""


def load_chat_side() -> None:
    """Import the chat and what shows the settings."""
    import app.ui.chat_side
    import app.ui.preferences
    import app.ui.status  # noqa: F401


def read_end(opened: Opened) -> "Sequence[Event]":
    """The end of the session: to read the whole log takes longer."""
    end = opened.last_turns()
    if end:
        from widgets.chat import inline

        # Else the first message loads it, while the keyboard waits.
        inline.parser()
    return end


def load_review_side() -> None:
    """Import the review."""
    import app.storage.proposals
    import app.ui.review_side
    import app.ui.terminal.editor  # noqa: F401


def load_session_parts() -> None:
    """Import all that the model and its session need."""
    import app.runtime.open_session
    import app.ui.commands
    import app.ui.connector
    import app.ui.themes.files  # noqa: F401
