"""Finds the files of commands: in folders of the user's, and in those of the workspace."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from app.own_commands.command import CommandUnusable, OwnCommand, name_of, read_command
from app.text.safe_text import visible
from app.workspace.paths import Workspace, WorkspaceError
from app.workspace.reading import read_file

LARGEST = 64 * 1024
"""Bytes of one file."""
MOST = 300
"""Files in one folder, those of its own folders among them."""
LARGEST_ALL = 512 * 1024
"""Bytes of all files that the user is asked to trust."""
_LOOKED_AT = 5_000
"""Entries of a folder that are looked at for such files."""

OF_WORKSPACE = (".signoff/commands", ".claude/commands")
"""Folders of a workspace, the first one before the second where both have a name."""


@dataclass(frozen=True, slots=True)
class Found:
    """The commands of some folders."""

    commands: tuple[OwnCommand, ...] = ()
    problems: tuple[str, ...] = ()
    """Files that are no commands, and why: a line each."""
    content: bytes = b""
    """All that the files say: what trust is given to."""
    texts: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Path and text of each file, for the user to read before."""


def in_workspace(workspace: Workspace) -> Found:
    """Those that the workspace brings along; nothing of them counts before the user trusts `content`."""
    files: list[tuple[str, str, Callable[[], bytes]]] = []
    for folder in OF_WORKSPACE:
        try:
            under = workspace.resolve(folder)
            if workspace.kind(under) != "folder":
                continue
            walked = (path for path in islice(workspace.files(under), _LOOKED_AT) if path.endswith(".md"))
            for path in islice(walked, MOST):
                below = path.removeprefix(f"{under}/")
                files.append((f"{folder}/{below}", below, partial(workspace.read, path, LARGEST)))
        except (OSError, WorkspaceError):
            continue
    return _read(files, LARGEST_ALL)


def of_user(folders: Iterable[tuple[str, Path]]) -> Found:
    """The user's own, wherever links lead to.

    Args:
        folders: each with its name for the user's eyes.
    """
    files = [
        (f"{named}/{below}", below, partial(_read_of_user, path))
        for named, folder in folders
        for below, path in islice(_markdown_files(folder), MOST)
    ]
    return _read(files)


def _read_of_user(path: Path) -> bytes:
    return read_file(path.resolve(), LARGEST)[0]


def _markdown_files(folder: Path) -> Iterator[tuple[str, Path]]:
    seen = 0
    for at, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            seen += 1
            if seen > _LOOKED_AT:
                return
            if name.endswith(".md"):
                path = Path(at, name)
                yield path.relative_to(folder).as_posix(), path


def _read(files: Iterable[tuple[str, str, Callable[[], bytes]]], most: int = 2**30) -> Found:
    commands: list[OwnCommand] = []
    problems: list[str] = []
    texts: list[tuple[str, str]] = []
    left = most
    for shown, below, read in files:
        try:
            content = read()
            left -= len(content)
            if left < 0:
                problems.append(visible(f"{shown}: left out, since the files before it are many already", keep=""))
                continue
            texts.append((shown, content.decode(errors="replace")))
            command = read_command(name_of(below), shown, content, takes_model=".claude/" not in shown)
        except CommandUnusable as unusable:
            problems.append(visible(f"{shown}: {unusable}", keep=""))
        except WorkspaceError as error:
            problems.append(visible(f"{shown}: {error}", keep=""))
        except (OSError, RuntimeError) as error:
            # A loop of links is a RuntimeError.
            problems.append(visible(f"{shown} cannot be read: {getattr(error, 'strerror', None) or error}", keep=""))
        else:
            commands.append(command)
    return Found(tuple(commands), tuple(problems), json.dumps(texts).encode() if texts else b"", tuple(texts))
