"""Taking an applied change set back, and putting it forth again: exactly where the files are as they were left, by a
three-way merge where they have changed elsewhere, not at all where they have changed in the same places."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from app.proposals.disk.apply import reason_of
from app.proposals.disk.filesystem import Filesystem
from app.proposals.disk.journal import Transition
from app.proposals.errors import UndoConflict
from app.proposals.models import FileVersion
from app.proposals.overlay import Contents, same
from app.proposals.rebase import merged_bytes, merged_mode
from app.proposals.store import JournalEntry, JournalRecord
from app.proposals.text.document import Document


@dataclass(frozen=True, slots=True)
class Step:
    """A file that shall go from `left` to `target`, and to another path if `source` and `path` differ."""

    source: str
    path: str
    left: FileVersion | None
    target: FileVersion | None


@dataclass(slots=True)
class Replay:
    """Steps carried out in memory, on top of what the disk holds."""

    filesystem: Filesystem
    contents: Contents
    before: dict[str, FileVersion | None] = field(default_factory=dict)
    """What the disk holds, for each path that was looked at."""
    after: dict[str, FileVersion | None] = field(default_factory=dict)

    def run(self, steps: Iterable[Step]) -> list[Transition]:
        """The transitions that the steps amount to.

        Raises:
            UndoConflict: a file has changed in the same places, or is not where it should be.
        """
        moves: dict[str, str] = {}
        for step in steps:
            wanted = self._moved(step)
            if step.source != step.path:
                if self._now(step.path) is not None:
                    raise UndoConflict(f"there is another {step.path} now; move it away first")
                self.after[step.source] = None
                moves[step.source] = step.path
            self.after[step.path] = wanted
        return [
            Transition(path, old, self.after[path], moves.get(path, "") if self.after[path] is None else "")
            for path, old in self.before.items()
            if not same(old, self.after[path])
        ]

    def _now(self, path: str) -> FileVersion | None:
        if path not in self.after:
            try:
                file = self.filesystem.read(path)
            except OSError as error:
                raise UndoConflict(f"{path} can't be read ({reason_of(error)})") from error
            version = self.contents.add(file.data, file.version.mode) if file else None
            self.before[path] = self.after[path] = version
        return self.after[path]

    def _moved(self, step: Step) -> FileVersion | None:
        """What the step makes of the file as it is now."""
        now, left, target = self._now(step.source), step.left, step.target
        if same(now, left):
            return target
        if now is None:
            if target is None:
                return None
            raise UndoConflict(f"{step.source} is gone; put it back first")
        if left is None:
            if target and now.sha256 == target.sha256:
                return now
            raise UndoConflict(f"there is another {step.source} now; move it away first")
        if target is None:
            if now.sha256 == left.sha256:
                return None
            raise UndoConflict(
                f"{step.source} was changed since, and would be deleted; delete it yourself if you want that"
            )
        if now.is_link != left.is_link or (now.is_link and now.sha256 != left.sha256):
            raise UndoConflict(f"{step.source} is another link than it was, or none; put it back first")
        mode = merged_mode(left, now, target)
        if now.sha256 == left.sha256:
            return target.model_copy(update={"mode": mode})
        if left.sha256 == target.sha256 or now.sha256 == target.sha256:
            return now.model_copy(update={"mode": mode})
        return self._merged(step.source, left, now, target, mode)

    def _merged(self, path: str, left: FileVersion, now: FileVersion, target: FileVersion, mode: int) -> FileVersion:
        base, ours, theirs = (self.contents.get(version) for version in (left, now, target))
        if any(Document(data).binary for data in (base, ours, theirs)):
            raise UndoConflict(f"{path} is binary and was changed since")
        merged, how = merged_bytes(base, ours, theirs)
        if how.conflicts:
            line = how.conflicts[0].ours_start + 1
            raise UndoConflict(f"{path} was changed since at line {line}, in the same place; undo that change first")
        return self.contents.add(merged, mode)


def backward(records: Sequence[JournalRecord]) -> Iterator[Step]:
    """What takes these records back; they come newest first."""
    for record in records:
        for source, path, before, after in _pairs(record):
            yield Step(path, source, after, before)


def forward(records: Sequence[JournalRecord]) -> Iterator[Step]:
    """What puts these records forth again; they come newest first."""
    for record in reversed(records):
        for source, path, before, after in _pairs(record):
            yield Step(source, path, before, after)


def _pairs(record: JournalRecord) -> Iterator[tuple[str, str, FileVersion | None, FileVersion | None]]:
    """Where each file was and is, before and after; the two ends of a rename are one."""
    targets = {entry.new_path: entry for entry in record.entries if entry.new_path}
    by_path = {entry.path: entry for entry in record.entries}
    for entry in record.entries:
        if entry.new_path and entry.new_path in by_path:
            yield entry.path, entry.new_path, _before(entry), _after(by_path[entry.new_path])
        elif not (entry.path in targets and entry.before is None):
            yield entry.path, entry.path, _before(entry), _after(entry)


def _before(entry: JournalEntry) -> FileVersion | None:
    return _version(entry.before, entry.before_mode)


def _after(entry: JournalEntry) -> FileVersion | None:
    return _version(entry.after, entry.after_mode)


def _version(sha256: str | None, mode: int | None) -> FileVersion | None:
    """The journal doesn't keep sizes, and nothing here needs them."""
    return None if sha256 is None else FileVersion(sha256=sha256, size=0, mode=0o644 if mode is None else mode)
