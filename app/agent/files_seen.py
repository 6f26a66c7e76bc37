"""What the model knows of files: which versions it has read, been told of, or made by edits that were staged."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from app.conversation.events import Decision, Event, Intervention, ProposalDecided, ProposalStaged, ToolResult
from app.proposals.origin import OriginKind

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
    """Fold: of each file that the model knows, the versions that what is there now may be made of.

    One is enough for a file that was read. Once an edit of it is staged, lines come from what it was before or from
    what the edit made of it, and the model knows both, until the edit stands or falls as a whole.
    """

    def __init__(self) -> None:
        self._files: dict[str, list[_Known]] = {}

    @property
    def versions(self) -> dict[str, tuple[str, ...]]:
        """Path to versions (SHA-256 hex; an empty one is that of no file)."""
        candidates = ((path, _candidates(known)) for path, known in self._files.items())
        # Of a file that it wrote without having read it, and that was denied, the model knows nothing.
        return {path: versions for path, versions in candidates if versions}

    def after(self, events: Sequence[Event]) -> "FilesSeen":
        """What the model knows once these events are recorded, too."""
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
