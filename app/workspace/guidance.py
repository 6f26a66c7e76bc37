"""`AGENTS.md`: what a project tells coding assistants, in the workspace's root and in the folders of given files."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath

from app.workspace.paths import Workspace, WorkspaceError
from app.workspace.secrets import secret_reason

FILE_NAME = "AGENTS.md"
LARGEST = 32 * 1024
"""Bytes of one file that are passed on."""
LARGEST_ALL = 64 * 1024
"""Bytes of all files together."""


@dataclass(frozen=True, slots=True)
class Guidance:
    """One `AGENTS.md`."""

    path: str
    text: str
    """As the project wrote it: to be followed within the user's wishes, never trusted with more."""
    cut: bool = False
    """Whether the file goes on beyond what is passed on."""


def guidance(
    workspace: Workspace, files: Iterable[str] = (), tell: Callable[[str], None] = lambda line: None
) -> list[Guidance]:
    """The guidance that holds for these files, the root's included, nearest first.

    A file that is missing, not UTF-8 at all, or leads out of the workspace is left out, and so is what looks like a
    secret, as nobody is asked at this time: of these two kinds `tell` gets a line for the user. Nearer files are kept
    whole before farther ones when all together are too long.
    """
    folders = {PurePosixPath(".")}
    for file in files:
        folders.update(PurePosixPath(file).parents)
    found: list[Guidance] = []
    left = LARGEST_ALL
    for folder in sorted(folders, key=lambda folder: (-len(folder.parts), folder)):
        path = (folder / FILE_NAME).as_posix()
        size = min(LARGEST, left)
        try:
            # One byte more tells whether the file goes on; a key far down in it is not passed on either way.
            content = workspace.head(path, size + 1)
            if secret_reason(path, content) or secret_reason(workspace.resolve(path), content):
                tell(f"Kept from the model: {path} looks like a secret, or leads to one.")
                continue
        except WorkspaceError as error:
            tell(f"Kept from the model: {error}.")
            continue
        except OSError:
            continue
        text = content[:size].decode(errors="ignore").strip()
        if not text or b"\0" in content[:size]:
            continue
        left -= min(len(content), size)
        found.append(Guidance(path, text, cut=len(content) > size))
    return found
