"""What the program tells the model when the gate opens: pending proposals, decisions, files changed elsewhere."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from app.agent import interventions
from app.agent.interventions import FILES_NAMED, ChangedFile
from app.conversation.events import Decision, Event, Intervention, ProposalDecided, ProposalStaged, ToolResult
from app.conversation.log import EventLog
from app.conversation.pending import PendingProposals
from app.proposals.proposal_service import ProposalService
from app.proposals.values.origin import OriginKind

_REMEMBERED = 12
"""Versions of one file; the oldest are forgotten when edits are staged on it again and again."""


@dataclass(slots=True)
class _Known:
    """One version of a file that the model knows."""

    version: str
    """SHA-256 hex; empty for a file that is not there."""
    proposal: str = ""
    """The proposal that makes it so; empty for what was read or told."""
    with_edits_of: Collection[str] = ()
    """Other proposals whose edits are in it."""
    waits: bool = False
    """Something of the proposal awaits a decision."""
    parted: bool = False
    """The user decided on parts of the proposal."""
    gone: bool = False
    """The proposal was denied or undone as a whole."""

    def decide(self, event: ProposalDecided) -> None:
        """Take in a decision on its proposal."""
        again = event.decision in (Decision.REOPENED, Decision.EDITED)
        taken_back = event.decision in (Decision.DENIED, Decision.UNDONE)
        self.waits = event.still_pending or again
        if event.decision is Decision.UNDONE:
            # Whatever was decided on parts of it is undone with it.
            self.parted = False
        self.parted = self.parted or bool(event.hunks) or event.decision is Decision.PARTLY_APPROVED
        self.gone = taken_back and not self.waits and not self.parted


class FilesSeen:
    """Fold: for each file that the model has seen, the versions from which its current content may derive.

    One is enough for a file that was read. Once an edit of it is staged, lines come from what it was before or from
    what the edit made of it, and the model knows both, until the edit stands or falls as a whole.
    """

    def __init__(self) -> None:
        self._files: dict[str, list[_Known]] = {}

    @property
    def versions(self) -> dict[str, tuple[str, ...]]:
        """Return the known versions by path (SHA-256 hex; empty for a missing file)."""
        candidates = ((path, _candidates(known)) for path, known in self._files.items())
        # Of a file that it wrote without having read it, and that was denied, the model knows nothing.
        return {path: versions for path, versions in candidates if versions}

    def with_events(self, events: Sequence[Event]) -> "FilesSeen":
        """Return the versions that the model will know once these events are recorded."""
        ahead = FilesSeen()
        ahead._files = {path: [replace(each) for each in known] for path, known in self._files.items()}
        for event in events:
            ahead.apply(event)
        return ahead

    def apply(self, event: Event) -> None:
        """Take in the next event."""
        match event:
            case ToolResult():
                self._learn(event.reads)
            case Intervention():
                # Told once: from now on this is what the model knows.
                self._learn(event.files)
            case ProposalStaged():
                self._staged(event)
            case ProposalDecided():
                for known in self._files.values():
                    for each in known:
                        if each.proposal == event.proposal:
                            each.decide(event)

    def _learn(self, versions: Mapping[str, str]) -> None:
        for path, version in versions.items():
            known = self._files.setdefault(path, [])
            if not any(each.waits for each in known):
                known.clear()
            _add(known, _Known(version))

    def _staged(self, event: ProposalStaged) -> None:
        for stat in event.files:
            if stat.path not in event.versions:
                # A log of an earlier version does not say what the edit made of the file.
                self._files.pop(stat.path, None)
        if event.supersedes:
            for known in self._files.values():
                known[:] = [each for each in known if each.proposal != event.supersedes]
        # What a command made of a file that the model never read, it does not know.
        written = event.origin is not None and event.origin.kind is OriginKind.MODEL
        for path, version in event.versions.items():
            if written or path in self._files:
                known = self._files.setdefault(path, [])
                known[:] = [each for each in known if each.proposal != event.proposal]
                _add(known, _Known(version, event.proposal, waits=True))


def _add(known: list[_Known], new: _Known) -> None:
    new.with_edits_of = {each.proposal for each in known if each.proposal and not each.gone}
    known.append(new)
    del known[:-_REMEMBERED]


def _candidates(known: Iterable[_Known]) -> tuple[str, ...]:
    """The versions that a file may be made of now: one that stands as a whole makes those before it old."""
    found: list[str] = []
    not_whole: set[str] = set()
    for each in known:
        if each.gone or each.parted:
            not_whole.add(each.proposal)
        if each.gone:
            continue
        if each.waits or each.parted or not not_whole.isdisjoint(each.with_edits_of):
            found.append(each.version)
        else:
            found = [each.version]
    return tuple(dict.fromkeys(found))


class GateBriefing:
    """Composes the interventions at the start of a turn."""

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
        waiting = await asyncio.to_thread(self._service.pending)
        changed = await asyncio.to_thread(self._changed, self._seen.with_events(opening).versions)
        found = (
            interventions.planning_instruction() if self._planning() else None,
            interventions.pending_note(waiting),
            interventions.repeated_denials_note(self._pending.denials_with(opening)),
            interventions.files_changed_note(changed),
        )
        return [intervention for intervention in found if intervention is not None]

    def _changed(self, known: Mapping[str, Sequence[str]]) -> dict[str, ChangedFile]:
        """The files that a read would show otherwise than the model knows them.

        Of more files than are named, nobody has to know the lines.
        """
        draft = self._service.draft(self._session_id)
        changed: dict[str, ChangedFile] = {}
        for path, versions in known.items():
            with contextlib.suppress(OSError, ValueError):
                now = draft.read(path)
                if now.version in versions:
                    continue
                spans = draft.lines_unlike(now, versions) if len(changed) < FILES_NAMED else None
                if spans != ():
                    changed[path] = ChangedFile(now.version, spans or ())
        return changed
