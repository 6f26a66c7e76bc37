"""Skills of the workspace and of the user, by name."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Protocol

from app.prompts.front_matter import parse_front_matter
from app.text.safe_text import escape_unsafe, strip_unsafe
from app.workspace.path_rules import UnsafePath, WorkspaceError
from app.workspace.paths import Workspace
from app.workspace.reading import read_file
from app.workspace.secrets import secret_reason

MAX_SKILL_FILE_BYTES = 256 * 1024
"""Bytes of one file."""
MAX_SKILL_FILES = 100
"""Files of a skill that are listed."""
_MAX_LISTED = 2_000


class SkillFolder(Protocol):
    """The folder of a skill."""

    @property
    def path(self) -> str:
        """Return the path for commands: relative to the workspace, or absolute."""
        ...

    def read(self, file: str) -> bytes:
        """Read a file of at most `MAX_SKILL_FILE_BYTES` bytes.

        Raises:
            OSError: It can't be read.
            WorkspaceError: It is not in it, or looks like a secret, by its name or by where it leads.
        """
        ...

    def list_files(self) -> list[str]:
        """Return the paths of its files, sorted, at most `MAX_SKILL_FILES`."""
        ...


class WorkspaceFolder:
    """A skill folder inside the workspace.

    Args:
        path: Leads to it from the root.
    """

    def __init__(self, workspace: Workspace, path: str) -> None:
        self._workspace = workspace
        self.path = path

    def read(self, file: str) -> bytes:
        """A file in it."""
        real = self._workspace.resolve(self._workspace.normalize_path(f"{self.path}/{file}"))
        if not real.startswith(f"{self._workspace.resolve(self.path)}/"):
            raise UnsafePath(f"{file} is not in the folder of the skill")
        return _no_secret(file, real, self._workspace.read(real, MAX_SKILL_FILE_BYTES))

    def list_files(self) -> list[str]:
        """Return the paths of its files, sorted, at most `MAX_SKILL_FILES`."""
        under = self._workspace.resolve(self.path)
        return [path.removeprefix(f"{under}/") for path in islice(self._workspace.walk_files(under), MAX_SKILL_FILES)]


class UserFolder:
    """A skill folder of the user, which may be a link."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def path(self) -> str:
        """Absolute."""
        return str(self._root)

    def read(self, file: str) -> bytes:
        """A file in it."""
        root = self._root.resolve()
        # A loop of links it leaves as it is, which then can't be read.
        real = Path(os.path.realpath(root / file))
        if not real.is_relative_to(root):
            raise UnsafePath(f"{file} is not in the folder of the skill")
        return _no_secret(file, real.name, read_file(real, MAX_SKILL_FILE_BYTES)[0])

    def list_files(self) -> list[str]:
        """Return the paths of its files, sorted, at most `MAX_SKILL_FILES`."""
        found: list[str] = []
        root = self._root.resolve()
        for seen, (at, folders, names) in enumerate(os.walk(root)):
            folders[:] = sorted(name for name in folders if name not in (".git", "__pycache__", "node_modules"))
            found += [Path(at, name).relative_to(root).as_posix() for name in sorted(names)]
            if len(found) >= MAX_SKILL_FILES or seen > _MAX_LISTED:
                break
        return sorted(found[:MAX_SKILL_FILES])


def _no_secret(file: str, real: str, content: bytes) -> bytes:
    if reason := secret_reason(file, content) or secret_reason(real, content):
        raise UnsafePath(f"{file} looks like a secret ({reason}), which is kept from the model")
    return content


FILE_NAME = "SKILL.md"
OF_WORKSPACE = (".agents/skills", ".claude/skills")
"""Folders of a workspace in which there are skills, each in a folder of its own."""
MAX_SKILLS = 60
"""Skills that the model is told of."""
MAX_DESCRIPTION_CHARACTERS = 400
"""Characters of a description that the model is told."""
_MAX_SEARCHED = 500
"""Entries of a folder that are looked at for skills."""
_NAME = re.compile(r"[^\W_][\w.-]{0,63}")


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill without its text."""

    name: str
    description: str
    where: str
    """Its file, as the user knows it."""
    folder: SkillFolder


@dataclass(frozen=True, slots=True)
class Skills:
    """All skills of a workspace and its user."""

    by_name: Mapping[str, Skill] = field(default_factory=dict)
    """In order of their names."""
    problems: tuple[str, ...] = ()
    """What is wrong with files, and names that are taken: a line each."""

    def prompt_text(self) -> str:
        """Return the skills as text for the system prompt: the same bytes for the same skills; empty without any."""
        return "\n".join(f"- {one.name}: {one.description}" for one in self.by_name.values())


def find_skills(workspace: Workspace, user: Iterable[tuple[str, Path]]) -> Skills:
    """Find all skills. Blocks on the disk.

    The workspace's need no trust: like `AGENTS.md` they are text, and what they want to run asks as ever. But they do
    not take the name of one of the user's.

    Args:
        workspace: whose folders are looked at after the user's.
        user: folders of the user's, each with its name for the user's eyes.
    """
    found: dict[str, Skill] = {}
    problems: list[str] = []
    for where, named, folder in (*_of_user(user), *_of_workspace(workspace)):
        try:
            skill = _read(where, named, folder)
        except FileNotFoundError:
            continue
        except (WorkspaceError, ValueError) as error:
            problems.append(escape_unsafe(f"{where}: {error}", keep=""))
            continue
        except OSError as error:
            problems.append(escape_unsafe(f"{where} cannot be read: {error.strerror or error}", keep=""))
            continue
        if skill is None:
            continue
        if (first := found.get(skill.name)) is not None:
            problems.append(escape_unsafe(f"{where}: {skill.name} is {first.where} already", keep=""))
        elif len(found) == MAX_SKILLS:
            problems.append(escape_unsafe(f"{where}: left out, since there are {MAX_SKILLS} already", keep=""))
        else:
            found[skill.name] = skill
    return Skills(dict(sorted(found.items())), tuple(problems))


def _of_user(folders: Iterable[tuple[str, Path]]) -> Iterator[tuple[str, str, SkillFolder]]:
    for shown, folder in folders:
        try:
            names = sorted(path.name for path in islice(folder.iterdir(), _MAX_SEARCHED))
        except OSError:
            continue
        for name in names:
            yield f"{shown}/{name}/{FILE_NAME}", name, UserFolder(folder / name)


def _of_workspace(workspace: Workspace) -> Iterator[tuple[str, str, SkillFolder]]:
    for folder in OF_WORKSPACE:
        try:
            under = workspace.resolve(folder)
            below = {
                path.removeprefix(f"{under}/") for path in islice(workspace.walk_files(under), 10 * _MAX_SEARCHED)
            }
        except (OSError, WorkspaceError):
            continue
        for name in sorted(path.split("/")[0] for path in below if path.endswith(f"/{FILE_NAME}")):
            if f"{name}/{FILE_NAME}" in below:
                below.discard(f"{name}/{FILE_NAME}")
                yield f"{folder}/{name}/{FILE_NAME}", name, WorkspaceFolder(workspace, f"{folder}/{name}")


def _read(where: str, named: str, folder: SkillFolder) -> Skill | None:
    """Return a skill; None for one that the model may not choose. Raises ValueError with what is wrong."""
    content = folder.read(FILE_NAME)
    markdown = parse_front_matter(content.decode(errors="replace"))
    if markdown.problem:
        raise ValueError(markdown.problem)
    values = markdown.values
    name = values.get("name", "") or named
    if not _NAME.fullmatch(name):
        raise ValueError("a skill's name is made of letters, digits, - . and _")
    if values.get("disable-model-invocation", "").lower() == "true":
        return None
    description = strip_unsafe(" ".join(values.get("description", "").split()), keep="")
    if not description:
        raise ValueError("it has no description, by which the model could choose it")
    if len(description) > MAX_DESCRIPTION_CHARACTERS:
        description = description[: MAX_DESCRIPTION_CHARACTERS - 1].rstrip() + "…"
    return Skill(name, description, where, folder)
