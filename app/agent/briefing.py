"""What the program tells the model as the gate opens: what is pending, how decisions went, which files moved on."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence

from app.agent import interventions
from app.agent.files_seen import FilesSeen
from app.agent.interventions import FILES_NAMED, FileNow
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
        changed = await asyncio.to_thread(self._changed, self._seen.after(opening).versions)
        found = (
            interventions.planning() if self._planning() else None,
            interventions.pending(waiting),
            interventions.repeated_denials(self._pending.denials_after(opening)),
            interventions.files_changed(changed),
        )
        return [intervention for intervention in found if intervention is not None]

    def _changed(self, known: Mapping[str, Sequence[str]]) -> dict[str, FileNow]:
        """The files that a read would show otherwise than the model knows them.

        Of more files than are named, nobody has to know the lines.
        """
        draft = self._service.draft(self._session_id)
        changed: dict[str, FileNow] = {}
        for path, versions in known.items():
            with contextlib.suppress(OSError, ValueError):
                now = draft.read(path)
                if now.version in versions:
                    continue
                spans = draft.unlike(now, versions) if len(changed) < FILES_NAMED else None
                if spans != ():
                    changed[path] = FileNow(now.version, spans or ())
        return changed
