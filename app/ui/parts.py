"""What stands behind the panes: the parts that the app is made of, as they come."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from app.agent.updates import Update
    from app.proposals.models import Proposal
    from app.runtime.workspace import Runtime
    from app.ui.commands import CommandRunner
    from app.ui.connector import Connector
    from app.ui.preferences import Preferences
    from app.ui.review_actions import Decisions
    from app.ui.review_checks import ReviewChecks
    from app.ui.review_notes import ReviewNotes
    from app.ui.side_asking import SideAsking
    from app.ui.terminal.editor import ExternalEditor


class BehindReview(NamedTuple):
    """What acts on what the user does in the review."""

    notes: "ReviewNotes"
    """Keeps what is begun in it."""
    checks: "ReviewChecks"
    """Runs the user's checks on what waits."""
    decisions: "Decisions"
    """Carries out what it says."""
    asking: "SideAsking"
    """Asks what is asked in it."""

    def follow(self, update: "Update") -> None:
        """Take in what the session says."""
        self.decisions.aftermath.follow(update)
        self.asking.follow(update)

    def settle(self, proposals: "Sequence[Proposal]") -> None:
        """Take in what waits now."""
        self.checks.follow(proposals)
        self.decisions.aftermath.settle()

    async def close(self) -> None:
        """End what runs, and keep what is begun."""
        await self.notes.close()
        await self.checks.close()


class Parts:
    """What stands behind the panes; each part is there once what it needs was loaded."""

    runtime: "Runtime"
    """The open workspace."""
    preferences: "Preferences"
    """The settings in force."""
    external_editor: "ExternalEditor"
    """The user's own."""
    behind_review: "BehindReview | None" = None
    """None until the review is there."""
    connector: "Connector"
    """The way to a model."""
    commands: "CommandRunner"
    """What the slash commands do."""
