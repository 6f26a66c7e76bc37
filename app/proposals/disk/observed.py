"""The disk with a note of what was found there: what was worked out from it holds for as long as that is so."""

from app.proposals.disk.filesystem import DiskFile, Kind, Readable
from app.proposals.models import FileVersion


class Observed:
    """Reads the disk; the first finding at each place is noted."""

    def __init__(self, disk: Readable) -> None:
        """Nothing is noted yet."""
        self._disk = disk
        self._kinds: dict[str, Kind] = {}
        self._versions: dict[str, FileVersion | None] = {}
        self._names: dict[str, list[str]] = {}
        self._unreadable = False

    def kind(self, path: str) -> Kind:
        """What the path is."""
        kind = self._disk.kind(path)
        self._kinds.setdefault(path, kind)
        return kind

    def read(self, path: str, limit: int | None = None) -> DiskFile | None:
        """The file; None if there is none."""
        try:
            file = self._disk.read(path, limit)
        except OSError:
            self._unreadable = True
            raise
        self._versions.setdefault(path, file.version if file else None)
        return file

    def names(self, folder: str) -> list[str]:
        """Names in a folder."""
        names = self._disk.names(folder)
        self._names.setdefault(folder, sorted(names))
        return names

    def holds(self) -> bool:
        """Whether everything that was noted would be found again now."""
        try:
            return not self._unreadable and (
                all(self._disk.kind(path) == kind for path, kind in self._kinds.items())
                and all(self._version(path) == version for path, version in self._versions.items())
                and all(sorted(self._disk.names(folder)) == names for folder, names in self._names.items())
            )
        except OSError:
            return False

    def take_over(self, other: "Observed") -> None:
        """Note what another has noted of the same disk."""
        self._kinds |= other._kinds
        self._versions |= other._versions
        self._names |= other._names
        self._unreadable |= other._unreadable

    def _version(self, path: str) -> FileVersion | None:
        file = self._disk.read(path)
        return file.version if file else None
