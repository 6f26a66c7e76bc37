"""What the user decides where no session is open: without a model there is none, yet what others propose waits."""

import asyncio
from collections.abc import Callable

from app.agent.deciding import Decisions
from app.agent.decision_events import not_recorded
from app.conversation.events import ProposalDecided
from app.proposals.models import Proposal
from app.proposals.reports import DecisionResult
from app.proposals.service import ProposalService
from app.runtime.recovery import record_decision
from app.runtime.workspace import Runtime


class SessionlessDecisions(Decisions):
    """Decisions that are recorded for whoever proposed: an agent reads them, a session when it is resumed."""

    def __init__(
        self,
        runtime: Runtime,
        commit: Callable[[], Callable[[Proposal], str] | None],
        changed: Callable[[tuple[str, ...]], None],
        tell: Callable[[str], None],
    ) -> None:
        """Nothing is decided yet.

        Args:
            runtime: The open workspace.
            commit: Gives what makes a git commit of an approved proposal, if the settings ask for that.
            changed: Takes the ids of proposals that are different now.
            tell: Takes a line for the user.
        """
        self._runtime = runtime
        self._commits = commit
        self._changed = changed
        self._tell = tell

    @property
    def service(self) -> ProposalService:
        """That of the workspace."""
        return self._runtime.service

    @property
    def committer(self) -> Callable[[Proposal], str] | None:
        """By the settings in force."""
        return self._commits()

    async def _record_decision(self, result: DecisionResult, event: ProposalDecided) -> None:
        try:
            await asyncio.to_thread(record_decision, self._runtime, event, result.changed)
        except Exception as error:
            raise not_recorded(result, error) from error
        finally:
            self._changed((result.proposal.id, *(other.id for other in result.changed)))

    async def _tell_commit(self, text: str, *, failed: bool) -> None:
        if failed:
            self._tell(text)
