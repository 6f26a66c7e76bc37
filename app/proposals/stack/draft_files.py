"""The changed files of a draft, on top of an overlay."""

import errno
import stat
from bisect import bisect_left, insort
from collections.abc import Iterator

from msgspec import Struct, field

from app.copies import replace
from app.proposals.files.filesystem import default_file_mode, make_file_version
from app.proposals.files.overlay import Overlay, is_same_version
from app.proposals.journal.apply import find_case_or_unicode_clash
from app.proposals.journal.journal import fold_case_and_unicode_form
from app.proposals.values.models import EditMatch, FileVersion
from app.proposals.values.pending_paths import parent_folders
from app.proposals.values.proposal_errors import EditRefused, NotEditable
from app.sandbox.captured_changes import FileOrLink


class DraftFile(Struct):
    """A path that the draft has changed."""

    base: FileVersion | None
    """The version in the overlay when the draft first touched the path."""
    base_data: bytes | None
    data: bytes | None
    mode: int
    source: str = ""
    """The path in the overlay from which the content was moved; else empty."""
    matches: list[EditMatch] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def content(self) -> FileOrLink | None:
        """Return the file as the draft has it; None if the draft removes it."""
        return None if self.data is None else FileOrLink(self.data, self.mode)

    @property
    def has_changes(self) -> bool:
        """Return whether the path differs from its base."""
        if self.base is None or self.data is None:
            return not (self.base is None and self.data is None)
        return not is_same_version(make_file_version(self.data, self.mode), self.base)


class DraftFiles:
    """The files that a draft has changed, by path; each method takes the overlay below the draft."""

    def __init__(self) -> None:
        self.by_path: dict[str, DraftFile] = {}
        self._sorted: list[str] = []
        self._by_folded_path: dict[str, set[str]] = {}

    def snapshot(self) -> dict[str, DraftFile]:
        """Return a copy of all files, for `restore`."""
        return {
            path: replace(file, matches=list(file.matches), notes=list(file.notes))
            for path, file in self.by_path.items()
        }

    def restore(self, snapshot: dict[str, DraftFile]) -> None:
        """Restore a snapshot."""
        self.by_path, self._sorted, self._by_folded_path = {}, [], {}
        for path, file in snapshot.items():
            self.add(path, file)

    def add(self, path: str, file: DraftFile) -> DraftFile:
        """Add a path that was not changed before."""
        self.by_path[path] = file
        insort(self._sorted, path)
        self._by_folded_path.setdefault(fold_case_and_unicode_form(path), set()).add(path)
        return file

    def get_or_add(self, overlay: Overlay, path: str) -> DraftFile:
        """Return the draft's entry for a path; it is created from the overlay when it is first touched."""
        if known := self.by_path.get(path):
            return known
        base = overlay.version(path)
        data = overlay.content(path)
        mode = base.mode if base else default_file_mode()
        return self.add(path, DraftFile(base, data, data, mode))

    def content(self, overlay: Overlay, path: str, limit: int | None = None) -> bytes | None:
        """Return the bytes of a file in the draft; None if there is none. `limit` is as for `Overlay.content`."""
        file = self.by_path.get(path)
        return file.data if file else overlay.content(path, limit)

    def editable_content(self, overlay: Overlay, path: str, limit: int | None = None) -> bytes:
        """Return the content of a file, at most `limit` bytes; raise EditRefused if it cannot be edited."""
        try:
            data = self.content(overlay, path, limit)
        except OSError as error:
            if limit is not None and error.errno == errno.EFBIG:
                raise NotEditable(f"{path} is too large: files over {limit:,} bytes are not edited.") from error
            raise NotEditable(f"{path} can't be edited: {error.strerror}.") from error
        if data is not None:
            self.check_no_link(overlay, path)
            return data
        if overlay.kind(path) == "folder":
            raise EditRefused(f"{path} is a folder, not a file.")
        if (file := self.by_path.get(path)) and file.base:
            raise EditRefused(f"{path} was deleted or renamed by an earlier edit of this step.")
        # Other agents read this too, whose tools have other names.
        raise EditRefused(f"{path} does not exist.", "List the files to see what there is, or write all of it.")

    def check_no_link(self, overlay: Overlay, path: str) -> None:
        """Refuse a symbolic link in the overlay or the draft: its content is a path, not text."""
        file = self.by_path.get(path)
        mode = file.mode if file else getattr(overlay.version(path), "mode", 0)
        if stat.S_ISLNK(mode):
            raise EditRefused(f"{path} is a symbolic link; a command can change where it leads.")

    def check_path_free(self, overlay: Overlay, path: str, leaving: str = "") -> None:
        """Refuse a path at which no file can be created; `leaving` is a file that the same edit removes."""
        if blocking := next(
            (folder for folder in parent_folders(path) if folder != leaving and self._has_content(folder)), ""
        ):
            raise EditRefused(f"{path} can't be made: {blocking} is a file, not a folder.")
        if any(name != leaving and self._has_content(name) for name in self._changed_below(path)):
            raise EditRefused(f"{path} can't be made: {path} is a folder.")
        if overlay.find_creation_obstacle(path):
            gone = {name for name, file in self.by_path.items() if file.data is None} | {leaving}
            if obstacle := overlay.find_creation_obstacle(path, gone):
                raise EditRefused(f"{path} can't be made: {obstacle}.")
        on_disk = find_case_or_unicode_clash(overlay.filesystem, path, overlay.listings)
        in_draft = self._by_folded_path.get(fold_case_and_unicode_form(path), set())
        for clash in sorted({on_disk, *in_draft} - {"", path, leaving}):
            if self.content(overlay, clash) is not None:
                raise EditRefused(
                    f"{path} differs from {clash} only by case or Unicode form.",
                    "Use that path, or choose another name.",
                )

    def _has_content(self, path: str) -> bool:
        file = self.by_path.get(path)
        return file is not None and file.data is not None

    def _changed_below(self, folder: str) -> Iterator[str]:
        for at in range(bisect_left(self._sorted, f"{folder}/"), len(self._sorted)):
            if not self._sorted[at].startswith(f"{folder}/"):
                return
            yield self._sorted[at]
