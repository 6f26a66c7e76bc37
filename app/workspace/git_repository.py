"""Facts about the git repository around a folder, read from its files; git itself is never run.

Layout as in git's own documentation (gitrepository-layout): `.git` is a folder, or in a linked worktree or a
submodule a file with one line `gitdir: PATH`; a linked worktree names the shared folder in `commondir`.
"""

import os
import re
from collections.abc import Collection
from pathlib import Path

from msgspec import Struct

from app.workspace.reading import read_regular_file

_MAX_LINE_FILE_BYTES = 4096
"""Maximum bytes read of HEAD and similar files, which have one short line."""
_COMMIT_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
_BRANCH_PREFIX = "ref: refs/heads/"


class GitRepositoryFolders(Struct, frozen=True):
    """The folders of a git repository: the top, the one with HEAD, and the one that all worktrees share."""

    top: Path
    """The folder that contains `.git`."""
    folder: Path
    """The folder that contains HEAD."""
    shared: Path
    """The folder that contains `info/exclude` and the config: `folder`, except in a linked worktree."""


def find_repository(root: Path) -> GitRepositoryFolders | None:
    """Return the nearest repository at or above `root`; None if there is none."""
    for top in (root, *root.parents):
        entry = top / ".git"
        try:
            if entry.is_dir():
                folder = entry
            elif (line := _read_first_line(entry)).startswith("gitdir: "):
                folder = top / line.removeprefix("gitdir: ")
            else:
                continue
            if not (folder / "HEAD").is_file():
                continue
            common = _read_first_line(folder / "commondir")
        except OSError:
            continue
        return GitRepositoryFolders(top, folder, folder / common if common else folder)
    return None


def find_enclosing_bare_lookalike(root: Path, folder: str, added: Collection[str]) -> str:
    """Return the nearest folder from `folder` up to `root` that git may take for a bare repository; empty if none.

    Git runs programs that the configuration of such a folder names, and any repository can contain one.

    Args:
        folder: Path relative to `root`; `.` for the root.
        added: Relative paths of further files that git will find.
    """
    heads = {path.casefold() for path in added if path.casefold().rpartition("/")[2] == "head"}
    for place in (path := Path(folder), *path.parents):
        if os.path.lexists(root / place / ".git"):
            break
        if os.path.lexists(root / place / "HEAD") or (place / "HEAD").as_posix().casefold() in heads:
            return place.as_posix()
    return ""


def folder_path_in_repository(root: Path) -> str:
    """Return the folder's POSIX path in its repository; empty for the top or without one."""
    repository = find_repository(root)
    return "" if repository is None or repository.top == root else root.relative_to(repository.top).as_posix()


def current_branch_or_commit(root: Path) -> str:
    """Return the checked out branch or the first seven digits of a detached HEAD; empty without either.

    The name is untrusted: escape it before it reaches a screen.
    """
    repository = find_repository(root)
    if repository is None:
        return ""
    head = _read_first_line(repository.folder / "HEAD")
    if head.startswith(_BRANCH_PREFIX):
        name = head.removeprefix(_BRANCH_PREFIX)
        # Repositories in the reftable format keep this placeholder in HEAD.
        return "" if name == ".invalid" else name
    return head[:7] if _COMMIT_HASH.fullmatch(head) else ""


def _read_first_line(path: Path) -> str:
    try:
        content, _ = read_regular_file(path, _MAX_LINE_FILE_BYTES, allow_truncated=True)
    except OSError:
        return ""
    return content.decode(errors="replace").partition("\n")[0].rstrip()
