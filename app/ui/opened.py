"""What the app gets once its workspace is open."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
