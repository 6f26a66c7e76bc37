"""The workspace as it would be with the pending proposals applied, oldest first."""

import errno
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from threading import Lock
from typing import Generic, TypeVar

from msgspec import Struct, field

from app.proposals.files.filesystem import DiskFile, Kind, ReadableDisk, list_files_below, make_file_version
from app.proposals.text.diff import LineChange, diff_lines
from app.proposals.text.document import Document
from app.proposals.values.models import FileVersion
from app.proposals.values.pending_paths import PendingChangesByPath, PendingPath, parent_folders
from app.proposals.values.proposal_errors import MissingContent
from app.proposals.values.proposal_store import ProposalStore
from app.sandbox.captured_changes import FileOrLink

CACHE_BYTES = 64 * 1024 * 1024
"""Maximum bytes of file content in memory, for stored and for other content each."""
OLD_BYTES = 256 * 1024
"""Maximum bytes of stored content that stay in memory for longer than `OLD_SECONDS`."""
OLD_READ_BYTES = 8 * 1024 * 1024
"""The same for content that is not stored: a later edit of that version needs it for a merge."""
OLD_SECONDS = 60.0
_MIN_PREFIX_DIGITS = 8
"""Minimum digits of a SHA-256 to look up: fewer could match another file's content."""
_CACHED_CHANGES, _OLD_CHANGES = 100_000, 200
"""Maximum number of cached line changes, and of those that stay for longer than `OLD_SECONDS`."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class OverlayFile(Struct, frozen=True):
    """A file as the model sees it: its content, and the proposals whose pending edits that includes."""

    content: bytes | None
    """None if there is no such file."""
    version: str
    """SHA-256 hex of the content; empty if there is none."""
    pending: tuple[str, ...] = ()
    """Ids of the proposals whose pending edits it includes."""
    paths_by_others: tuple[str, ...] = ()
    """Former paths of the pending content, if others than the asking model have changed it."""


class _AgingCache(Generic[_Key, _Value]):
    """A cache with a limit on its size, and a smaller one once its oldest item is old.

    Args:
        max_size: Maximum size of all items together; the newest item always stays.
        max_old_size: The same, if the oldest item is older than `OLD_SECONDS`.
    """

    def __init__(self, max_size: float, max_old_size: float) -> None:
        self._max_size = max_size
        self._max_old_size = max_old_size
        self._items: OrderedDict[_Key, tuple[_Value, float, float]] = OrderedDict()
        """Value, size and time of each item, the oldest first."""
        self._size = 0.0

    def get(self, key: _Key) -> _Value | None:
        """Return a value; None if it is not cached."""
        item = self._items.get(key)
        return item[0] if item is not None else None

    def add(self, key: _Key, value: _Value, size: float) -> None:
        """Add a value as the newest, and remove the oldest beyond the limits."""
        self.discard(key)
        now = time.monotonic()
        self._items[key] = value, size, now
        self._size += size
        while len(self._items) > 1:
            oldest, (_, _, added) = next(iter(self._items.items()))
            if self._size <= (self._max_old_size if now - added > OLD_SECONDS else self._max_size):
                return
            self.discard(oldest)

    def discard(self, key: _Key) -> None:
        """Remove a value, if it is cached."""
        if (item := self._items.pop(key, None)) is not None:
            self._size -= item[1]

    def items_with_prefix(self, prefix: str) -> dict[_Key, _Value]:
        """Return the items whose keys begin with `prefix`."""
        return {key: value for key, (value, _, _) in self._items.items() if str(key).startswith(prefix)}


class ContentStore:
    """File contents by SHA-256: the store's blobs, and a cache of recently read ones."""

    def __init__(self, store: ProposalStore) -> None:
        self._store = store
        self._lock = Lock()
        self._read = _AgingCache[str, bytes](CACHE_BYTES, OLD_READ_BYTES)
        """Content that may not be in the store: what the model has read and may base an edit on."""
        self._stored = _AgingCache[str, bytes](CACHE_BYTES, OLD_BYTES)
        self._unsaved: dict[str, bytes] = {}
        self._line_changes = _AgingCache[tuple[str, str], Sequence[LineChange]](_CACHED_CHANGES, _OLD_CHANGES)

    def cache_content(self, sha256: str, data: bytes) -> None:
        """Cache content that may be needed soon; remove the oldest when there is too much."""
        with self._lock:
            kind = self._read if self._stored.get(sha256) is None else self._stored
            kind.add(sha256, data, len(data))

    def add(self, data: bytes, mode: int) -> FileVersion:
        """Register content that the next `save` writes to the store; return its version."""
        version = make_file_version(data, mode)
        self.add_known_version(version, data)
        return version

    def add_known_version(self, version: FileVersion, data: bytes) -> None:
        """Register content with a known version; the next `save` writes it to the store."""
        with self._lock:
            self._unsaved[version.sha256] = data

    def save(self) -> None:
        """Write all added content to the store, in one transaction. Raises StorageError; nothing is lost then."""
        with self._lock:
            unsaved = self._unsaved.copy()
        if unsaved:
            self._store.put_blobs(unsaved.values())
            for sha256, data in unsaved.items():
                self._remember_stored(sha256, data)

    def _remember_stored(self, sha256: str, data: bytes) -> None:
        with self._lock:
            self._unsaved.pop(sha256, None)
            self._read.discard(sha256)
            self._stored.add(sha256, data, len(data))

    def get(self, version: FileVersion | None) -> bytes:
        """Return the bytes of a version; empty for None.

        Raises:
            MissingContent: the content is neither in memory nor in the store, or is damaged there.
        """
        if version is None:
            return b""
        with self._lock:
            data = self._unsaved.get(version.sha256)
            if data is None:
                data = self._find_cached(version.sha256)
        if data is None:
            try:
                data = self._store.read_blob(version.sha256)
            except KeyError as error:
                name = version.sha256[:12]
                raise MissingContent(
                    f"The stored content {name} is missing or damaged. A proposal that waits can be denied and asked "
                    "for anew; one that is applied can only be undone by hand."
                ) from error
            self._remember_stored(version.sha256, data)
        return data

    def load_file(self, version: FileVersion | None) -> FileOrLink | None:
        """Return the file of a version, with its bytes; None for no file. Raises MissingContent."""
        return None if version is None else FileOrLink(self.get(version), version.mode)

    def _find_cached(self, sha256: str) -> bytes | None:
        data = self._read.get(sha256)
        return self._stored.get(sha256) if data is None else data

    def line_changes(self, base: FileVersion | None, result: FileVersion | None) -> Sequence[LineChange]:
        """Return the line changes from one version to another; computed once."""
        pair = (base.sha256 if base else "", result.sha256 if result else "")
        with self._lock:
            changes = self._line_changes.get(pair)
        if changes is None:
            changes = diff_lines(Document(self.get(base)).lines, Document(self.get(result)).lines)
            with self._lock:
                self._line_changes.add(pair, changes, len(changes) + 1)
        return changes

    def find_by_prefix(self, prefix: str) -> bytes | None:
        """Return content by the first digits of its SHA-256; None if it is unknown or they are ambiguous.

        The store is only searched for a whole hash.
        """
        prefix = prefix.strip().lower()
        if len(prefix) < _MIN_PREFIX_DIGITS:
            return None
        with self._lock:
            contents = self._read.items_with_prefix(prefix) | self._stored.items_with_prefix(prefix)
        if contents:
            return next(iter(contents.values())) if len(contents) == 1 else None
        try:
            return self._store.read_blob(prefix)
        except KeyError:
            return None


class Overlay(Struct):
    """Reads files with pending proposals applied; other files come from the disk, which is read once."""

    filesystem: ReadableDisk
    contents: ContentStore
    pending: PendingChangesByPath = field(default_factory=PendingChangesByPath)
    listings: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """The names in folders on disk by their folded form, for the folders that were listed."""
    _disk: dict[str, DiskFile | None] = field(default_factory=dict)

    def disk_only(self) -> "Overlay":
        """Return an overlay without pending proposals; it shares the cache of the disk."""
        return Overlay(self.filesystem, self.contents, _disk=self._disk)

    def version(self, path: str) -> FileVersion | None:
        """Return the version of a file; None if there is none.

        Raises:
            OSError: the file cannot be read.
        """
        if entry := self.pending.get(path):
            return entry.version
        file = self.read_disk(path)
        return file.version if file else None

    def touched_paths(self) -> set[str]:
        """Return the files that have pending changes, without deleted ones."""
        return {path for path, entry in self.pending.all().items() if entry.version is not None}

    def content(self, path: str, limit: int | None = None) -> bytes | None:
        """Return the bytes of a file; None if there is none.

        Raises:
            OSError: the file cannot be read; EFBIG, before it is read, if it has more than `limit` bytes.
        """
        if entry := self.pending.get(path):
            if entry.version is None:
                return None
            if limit is not None and entry.version.size > limit:
                raise OSError(errno.EFBIG, f"larger than {limit:,} bytes", path)
            return self.contents.get(entry.version)
        file = self.read_disk(path, limit)
        return file.data if file else None

    def read_disk(self, path: str, limit: int | None = None) -> DiskFile | None:
        """Return the file on disk, ignoring pending edits; raises as `content` does."""
        if path not in self._disk:
            file = self._disk[path] = self.filesystem.read(path, limit)
            if file:
                self.contents.cache_content(file.version.sha256, file.data)
        return self._disk[path]

    def store_disk_content(self, path: str) -> None:
        """Register the disk content of a path for the next `save`, because a proposal is based on it."""
        if self.pending.get(path) is None and (file := self.read_disk(path)):
            self.contents.add_known_version(file.version, file.data)

    def pending_proposals_at(self, path: str) -> tuple[str, ...]:
        """Return the ids of the proposals whose pending edits are in the file."""
        entry = self.pending.get(path)
        return entry.by if entry else ()

    def paths_before_moves_by_others(self, path: str, session: str) -> tuple[str, ...]:
        """Return the former paths of the pending content; empty if only the model of this session has changed it."""
        entry = self.pending.get(path)
        return entry.names if entry and entry.version and entry.authors - {session} else ()

    def kind(self, path: str) -> Kind:
        """Return the kind of a path with the pending changes applied."""
        if entry := self.pending.get(path):
            if entry.version is not None:
                return "file"
            return "folder" if self.pending.has_file_below(path) else "missing"
        if self.pending.has_file_below(path):
            return "folder"
        above = parent_folders(path)
        return "missing" if any(self.pending.has_file(folder) for folder in above) else self.filesystem.kind(path)

    def find_creation_obstacle(self, path: str, leaving: Collection[str] = ()) -> str:
        """Return why no file can be created at a free path; empty if one can.

        Args:
            leaving: Files that the same change set removes.
        """
        for folder in parent_folders(path):
            if folder not in leaving and self.kind(folder) in ("file", "link", "other"):
                return f"{folder} is a file, not a folder"
        match self.kind(path):
            case "folder":
                left = [name for name in self.files_below(path) if name not in leaving]
                return f"{path} is a folder" if left or not leaving else ""
            case "other":
                return f"{path} is not a regular file"
            case "file" | "link" if path not in leaving:
                return f"{path} exists already"
            case _:
                return ""

    def files_below(self, folder: str) -> list[str]:
        """Return every file below a folder, with the pending changes applied."""
        below = f"{folder}/"
        self.pending.load((folder,))
        pending = {path: entry for path, entry in self.pending.loaded_paths().items() if path.startswith(below)}
        deleted = {path for path, entry in pending.items() if entry.version is None}
        present = pending.keys() - deleted
        return sorted(({*list_files_below(self.filesystem, folder)} - deleted) | present)

    def added_and_removed_paths(self, changed: dict[str, bool] | None = None) -> tuple[set[str], set[str]]:
        """Return the paths that the pending changes add to the disk, and those that they remove.

        `changed` has further changed paths, with whether they exist then.
        """
        exists = {path: entry.version is not None for path, entry in self.pending.all().items()} | (changed or {})
        on_disk = {path for path in exists if self.filesystem.kind(path) in ("file", "link")}
        present = {path for path, is_present in exists.items() if is_present}
        return present - on_disk, on_disk - present


def is_same_version(one: FileVersion | None, other: FileVersion | None) -> bool:
    """Return whether two versions have the same bytes and permission bits."""
    if one is None or other is None:
        return one is other
    return (one.sha256, one.mode) == (other.sha256, other.mode)


def read_pending_files(contents: ContentStore, pending: Mapping[str, PendingPath]) -> dict[str, FileOrLink | None]:
    """Return the files of pending changes with their bytes, None for deleted ones. Raises MissingContent."""
    files: dict[str, FileOrLink | None] = {}
    for path, entry in pending.items():
        version = entry.version
        files[path] = None if version is None else FileOrLink(contents.get(version), version.mode, entry.since)
    return files
