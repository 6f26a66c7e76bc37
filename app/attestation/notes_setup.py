"""Set a repository up so that git fetches, pushes and writes the notes of reviews."""

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from app.attestation.review_notes import REVIEWS
from app.git.borrowed_repository import BorrowedRepository
from app.git.remotes import remote_names
from app.git.run_git import GitFailed, run_git
from app.workspace.reading import read_file

_COMMAND = "signoff notes --if-reviewed"
_HOOK = f"\n# Note and sign what was reviewed of this commit.\n{_COMMAND} || true\n"
_LARGEST = 1 << 20


@dataclass(frozen=True, slots=True)
class GitFileChange:
    """A file of git's that the setup changes."""

    path: Path
    before: str
    after: str


class NotesSetup:
    """Missing git settings and hooks for signed reviews in a repository; nothing changes before `write`.

    Args:
        borrowed: The repository.
        remote: With which notes are exchanged; empty for none.

    Raises:
        GitFailed: There is no such remote, or a file of git's cannot be read or is not one to add to.
    """

    def __init__(self, borrowed: BorrowedRepository, remote: str) -> None:
        if remote and remote not in remote_names(borrowed):
            raise GitFailed(f"There is no remote {remote} here.")
        self._config = borrowed.shared / "config"
        wanted = [("notes.rewriteref", "refs/notes/signoff")]
        if remote:
            wanted.append((f"remote.{remote}.fetch", f"+{REVIEWS}:refs/notes/{remote}/signoff-reviews"))
            if f"remote.{remote}.push" not in borrowed.settings:
                # With a line of its own git pushes nothing else: this is what it pushes by itself.
                wanted.append((f"remote.{remote}.push", "HEAD"))
            wanted.append((f"remote.{remote}.push", REVIEWS))
        self._settings = [(key, value) for key, value in wanted if value not in borrowed.settings.get(key, ())]
        folder = borrowed.setting("core.hookspath")
        hooks = borrowed.top / Path(folder).expanduser() if folder else borrowed.shared / "hooks"
        self._hook = hooks / "post-commit"

    def changes(self) -> list[GitFileChange]:
        """Return the files as they are and as they would be; none if all is there. Raises GitFailed."""
        before = _text(self._config)
        with tempfile.TemporaryDirectory(prefix="signoff-git-") as folder:
            copy = Path(folder, "config")
            copy.write_text(before, encoding="utf-8", errors="surrogateescape")
            self._write_settings(copy)
            after = _text(copy)
        found = [GitFileChange(self._config, before, after)] if after != before else []
        hook = _text(self._hook)
        if _COMMAND not in hook:
            if hook and not hook.startswith(("#!/bin/sh", "#!/bin/bash", "#!/usr/bin/env sh", "#!/usr/bin/env bash")):
                raise GitFailed(f"{self._hook} is no shell script; have it run `{_COMMAND}` yourself.")
            found.append(
                GitFileChange(self._hook, hook, (hook.rstrip("\n") + "\n" if hook else "#!/bin/sh\n") + _HOOK)
            )
        return found

    def write(self) -> None:
        """Make the changes; raises GitFailed."""
        changes = {change.path: change.after for change in self.changes()}
        try:
            if self._hook in changes:
                self._hook.parent.mkdir(parents=True, exist_ok=True)
                new = self._hook.with_name("post-commit.signoff")
                new.write_text(changes[self._hook], encoding="utf-8", errors="surrogateescape")
                new.chmod(0o755)
                new.replace(self._hook)
        except OSError as error:
            raise GitFailed(f"{error.filename} cannot be written ({error.strerror}).") from error
        if self._config in changes:
            self._write_settings(self._config)

    def _write_settings(self, file: Path) -> None:
        environment: Mapping[str, str] = {**os.environ, "LC_ALL": "C"}
        for key, value in self._settings:
            run_git(file.parent, ["config", "--file", str(file), "--add", key, value], environment)


def _text(path: Path) -> str:
    """Return a file of git's; empty if there is none."""
    try:
        return read_file(path, _LARGEST)[0].decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise GitFailed(f"{path} cannot be read ({error.strerror}).") from error
