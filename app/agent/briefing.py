"""What the program tells the model as the gate opens: what is pending, how decisions went, which files moved on."""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence

from app.agent import interventions
from app.agent.interventions import FilesSeen
from app.conversation.events import Event, Intervention
from app.conversation.log import EventLog
from app.conversation.pending import PendingProposals
from app.proposals.service import ProposalService


class Briefing:
    """Composes it for one session."""

    def __init__(
        self,
        log: EventLog,
        service: ProposalService,
        session_id: str,
        pending: PendingProposals,
        planning: Callable[[], bool] = lambda: False,
    ) -> None:
        """Follow the log.

        Args:
            log: of the session.
            service: knows what waits, and what a read of a file would show.
            session_id: its id in the store.
            pending: counts the denials.
            planning: whether the model is to plan.
        """
        self._service = service
        self._session_id = session_id
        self._pending = pending
        self._planning = planning
        self._seen = log.attach(FilesSeen())

    async def compose(self, opening: Sequence[Event]) -> list[Intervention]:
        """The interventions at the beginning of a turn.

        Args:
            opening: what the user did that begins it, which is recorded together with them.
        """
        waiting = await asyncio.to_thread(self._service.waiting)
        seen = dict(self._seen.versions)
        current = await asyncio.to_thread(self._versions, seen)
        found = (
            interventions.planning() if self._planning() else None,
            interventions.pending(waiting),
            interventions.repeated_denials(self._pending.denials_after(opening)),
            interventions.files_changed(seen, current),
        )
        return [intervention for intervention in found if intervention is not None]

    def _versions(self, paths: Iterable[str]) -> dict[str, str | None]:
        """What a read of these files would show now; None for a file that is gone."""
        draft = self._service.draft(self._session_id)
        versions: dict[str, str | None] = {}
        for path in paths:
            with contextlib.suppress(OSError, ValueError):
                file = draft.read(path)
                versions[path] = file.version if file.content is not None else None
        return versions
