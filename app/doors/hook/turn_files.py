"""The files of a workspace with the edits of an agent's turn applied, in memory."""

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from app.doors.hook.call_errors import EditNotStaged
from app.storage.captured_edit_store import CapturedFileEdit
from app.workspace.path_rules import WorkspaceError
from app.workspace.paths import Workspace


class InMemoryFilesOfOneCall:
    """Reads and writes files for the edits of one call, in memory only.

    Args:
        folder: Absolute base of relative paths.
        before: Files with the edits of earlier calls of the turn.
    """

    def __init__(self, workspace: Workspace, folder: str, before: Sequence[CapturedFileEdit] = ()) -> None:
        self._workspace = workspace
        self._folder = folder
        self._before = {file.path: file for file in before}
        self._edited: dict[str, CapturedFileEdit] = {}

    @property
    def edited_files(self) -> list[CapturedFileEdit]:
        """Return the files that the call has changed."""
        return [file for file in self._edited.values() if file.after != self._text_before_call(file.path)]

    def read(self, path: str) -> bytes | None:
        """Return the bytes with the turn's edits; None if the file does not exist. Raises EditNotStaged."""
        return self._find_file(path).after

    def decode_file(self, path: str) -> str:
        """Return the text with the turn's edits. Raises EditNotStaged if the file is missing or not UTF-8."""
        data = self.read(path)
        if data is None:
            raise EditNotStaged(f"{path} does not exist.")
        return decode_utf8_or_refuse_edit(path, data)

    def write(self, path: str, data: bytes | None) -> None:
        """Set the bytes of a file; None deletes it. Raises EditNotStaged."""
        file = self._find_file(path)
        if data is not None and file.after is None:
            self._require_folder(file.path)
        self._edited[file.path] = file._replace(after=data)

    def _require_folder(self, real: str) -> None:
        """Raise EditNotStaged if a folder above a new file is a file."""
        for parent in [*PurePosixPath(real).parents][:-1]:
            known = self._edited.get(f"{parent}") or self._before.get(f"{parent}")
            if known.after is not None if known else (self._workspace.root / parent).is_file():
                raise EditNotStaged(f"{real} can't be made: {parent} is a file.")

    def _find_file(self, path: str) -> CapturedFileEdit:
        real = self._resolve_path(path)
        known = self._edited.get(real) or self._before.get(real)
        return known or self._read_from_disk(real)

    def _resolve_path(self, path: str) -> str:
        if not path:
            raise EditNotStaged("The call names no file.")
        absolute = f"{Path(self._folder) / path}"
        if self._workspace.relative_path(absolute) is None:
            raise EditNotStaged(
                f"{path} is outside {self._workspace.root}, the workspace in which edits are reviewed. "
                "Only files in it can be changed; ask the user."
            )
        try:
            return self._workspace.resolve_both_paths(absolute)[1]
        except WorkspaceError as error:
            raise EditNotStaged(f"{error}.") from error

    def _read_from_disk(self, real: str) -> CapturedFileEdit:
        try:
            data, mode = self._workspace.read_with_mode(real)
        except FileNotFoundError:
            return CapturedFileEdit(real, None, 0, None)
        except IsADirectoryError as error:
            raise EditNotStaged(f"{real} is a folder.") from error
        except (OSError, WorkspaceError) as error:
            raise EditNotStaged(f"{real} can't be read: {getattr(error, 'strerror', None) or error}.") from error
        return CapturedFileEdit(real, data, mode, data)

    def _text_before_call(self, real: str) -> bytes | None:
        return self._before[real].after if real in self._before else self._edited[real].before


def decode_utf8_or_refuse_edit(path: str, data: bytes) -> str:
    """Return the text of UTF-8 bytes. Raises EditNotStaged for other bytes, which an edit of text would damage."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise EditNotStaged(f"{path} is not UTF-8 text, which an edit of text would damage.") from error
