"""Skills of the workspace and of the user, by name."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Protocol

from msgspec import Struct, field

from app.prompts.front_matter import parse_front_matter
from app.text.safe_text import escape_unsafe, strip_unsafe
from app.workspace.path_rules import UnsafePath, WorkspaceError
from app.workspace.paths import Workspace
from app.workspace.reading import read_regular_file
from app.workspace.secrets import secret_reason

MAX_SKILL_FILE_BYTES = 256 * 1024
"""Maximum number of bytes of one file."""
MAX_SKILL_FILES = 100
"""Maximum number of files of a skill that are listed."""
_MAX_WALKED_FOLDERS = 2_000


class SingleSkillFolder(Protocol):
    """The folder of one skill: its path for commands, the list of its files, and their content."""

    @property
    def path(self) -> str:
        """Return the path for commands: relative to the workspace, or absolute."""

    def read(self, file: str) -> bytes:
        """Read a file of at most `MAX_SKILL_FILE_BYTES` bytes.

        Raises:
            OSError: The file can't be read.
            WorkspaceError: The file is outside the folder, or looks like a secret by its name or its target's name.
        """

    def list_files(self) -> list[str]:
        """Return the paths of its files, sorted, at most `MAX_SKILL_FILES`."""


class SingleSkillFolderInWorkspace:
    """The folder of one skill inside the workspace, by its workspace path."""

    def __init__(self, workspace: Workspace, path: str) -> None:
        self._workspace = workspace
        self.path = path

    def read(self, file: str) -> bytes:
        """Read a file of the folder, with the checks of `SingleSkillFolder.read`."""
        real = self._workspace.resolve(self._workspace.normalize_path(f"{self.path}/{file}"))
        if not real.startswith(f"{self._workspace.resolve(self.path)}/"):
            raise UnsafePath(f"{file} is not in the folder of the skill")
        return _require_no_secret(file, real, self._workspace.read(real, MAX_SKILL_FILE_BYTES))

    def list_files(self) -> list[str]:
        """Return the paths of its files, sorted, at most `MAX_SKILL_FILES`."""
        under = self._workspace.resolve(self.path)
        return [path.removeprefix(f"{under}/") for path in islice(self._workspace.walk_files(under), MAX_SKILL_FILES)]


class SingleSkillFolderOfUser:
    """The folder of one skill outside the workspace, among the user's skills; it may be a symbolic link."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def path(self) -> str:
        """Return the absolute path."""
        return str(self._root)

    def read(self, file: str) -> bytes:
        """Read a file of the folder, with the checks of `SingleSkillFolder.read`."""
        root = self._root.resolve()
        # `realpath` does not resolve a loop of links; reading it then fails with OSError.
        real = Path(os.path.realpath(root / file))
        if not real.is_relative_to(root):
            raise UnsafePath(f"{file} is not in the folder of the skill")
        return _require_no_secret(file, real.name, read_regular_file(real, MAX_SKILL_FILE_BYTES)[0])

    def list_files(self) -> list[str]:
        """Return the paths of its files, sorted, at most `MAX_SKILL_FILES`."""
        paths: list[str] = []
        root = self._root.resolve()
        for walked, (parent, folders, names) in enumerate(os.walk(root)):
            folders[:] = sorted(name for name in folders if name not in (".git", "__pycache__", "node_modules"))
            paths += [Path(parent, name).relative_to(root).as_posix() for name in sorted(names)]
            if len(paths) >= MAX_SKILL_FILES or walked > _MAX_WALKED_FOLDERS:
                break
        return sorted(paths[:MAX_SKILL_FILES])


def _require_no_secret(file: str, real: str, content: bytes) -> bytes:
    if reason := secret_reason(file, content) or secret_reason(real, content):
        raise UnsafePath(f"{file} looks like a secret ({reason}), which is kept from the model")
    return content


FILE_NAME = "SKILL.md"
OF_WORKSPACE = (".agents/skills", ".claude/skills")
"""Folders of a workspace that contain skills, each skill in its subfolder."""
MAX_SKILLS = 60
"""Maximum number of skills in the system prompt."""
MAX_DESCRIPTION_CHARACTERS = 400
"""Maximum number of characters of a description in the system prompt."""
_MAX_SKILL_FOLDERS = 500
"""Maximum number of entries of a folder that are searched for skills."""
_NAME = re.compile(r"[^\W_][\w.-]{0,63}")


class Skill(Struct, frozen=True):
    """Name, description and folder of a skill; its text is read later."""

    name: str
    description: str
    where: str
    """Path of its file as shown to the user."""
    folder: SingleSkillFolder


class SkillCatalogue(Struct, frozen=True):
    """All skills of a workspace and its user by name, and the problems with their files."""

    by_name: Mapping[str, Skill] = field(default_factory=dict)
    """Skills by name, sorted."""
    problems: tuple[str, ...] = ()
    """One line for each problem with a file and for each name that is used twice."""

    def prompt_text(self) -> str:
        """Return the skills as text for the system prompt: the same bytes for the same skills; empty without any."""
        return "\n".join(f"- {skill.name}: {skill.description}" for skill in self.by_name.values())


def find_skills(workspace: Workspace, user_folders: Iterable[tuple[str, Path]]) -> SkillCatalogue:
    """Find the skills in the user's folders, each given with the name to show, and in the workspace; blocks.

    The workspace's skills need no trust: like `AGENTS.md` they are text, and commands from them need permission as
    always. They cannot replace a skill of the user with the same name.
    """
    skills: dict[str, Skill] = {}
    problems: list[str] = []
    for where, folder_name, folder in (*_iterate_user_skills(user_folders), *_iterate_workspace_skills(workspace)):
        try:
            skill = _read_skill(where, folder_name, folder)
        except FileNotFoundError:
            continue
        except (WorkspaceError, ValueError) as error:
            problems.append(f"{where}: {error}")
            continue
        except OSError as error:
            problems.append(f"{where} cannot be read: {error.strerror or error}")
            continue
        if skill is None:
            continue
        if (first := skills.get(skill.name)) is not None:
            problems.append(f"{where}: {skill.name} is {first.where} already")
        elif len(skills) == MAX_SKILLS:
            problems.append(f"{where}: left out, since there are {MAX_SKILLS} already")
        else:
            skills[skill.name] = skill
    return SkillCatalogue(dict(sorted(skills.items())), tuple(escape_unsafe(line, keep="") for line in problems))


def _iterate_user_skills(folders: Iterable[tuple[str, Path]]) -> Iterator[tuple[str, str, SingleSkillFolder]]:
    for shown_folder, folder in folders:
        try:
            names = sorted(path.name for path in islice(folder.iterdir(), _MAX_SKILL_FOLDERS))
        except OSError:
            continue
        for name in names:
            yield f"{shown_folder}/{name}/{FILE_NAME}", name, SingleSkillFolderOfUser(folder / name)


def _iterate_workspace_skills(workspace: Workspace) -> Iterator[tuple[str, str, SingleSkillFolder]]:
    for folder in OF_WORKSPACE:
        try:
            real_folder = workspace.resolve(folder)
            relative_paths = {
                path.removeprefix(f"{real_folder}/")
                for path in islice(workspace.walk_files(real_folder), 10 * _MAX_SKILL_FOLDERS)
            }
        except (OSError, WorkspaceError):
            continue
        for name in sorted(path.split("/")[0] for path in relative_paths if path.endswith(f"/{FILE_NAME}")):
            if f"{name}/{FILE_NAME}" in relative_paths:
                relative_paths.discard(f"{name}/{FILE_NAME}")
                yield (
                    f"{folder}/{name}/{FILE_NAME}",
                    name,
                    SingleSkillFolderInWorkspace(workspace, f"{folder}/{name}"),
                )


def _read_skill(where: str, folder_name: str, folder: SingleSkillFolder) -> Skill | None:
    """Return a skill; None if it is disabled for the model. Raises ValueError with the problem."""
    content = folder.read(FILE_NAME)
    markdown = parse_front_matter(content.decode(errors="replace"))
    if markdown.problem:
        raise ValueError(markdown.problem)
    values = markdown.values
    name = values.get("name", "") or folder_name
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
