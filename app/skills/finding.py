"""Which skills there are: of the workspace and of the user, by name."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from app.skills.folders import SkillFolder, UserFolder, WorkspaceFolder
from app.text.front_matter import parse_front_matter
from app.text.safe_text import strip_unsafe, visible
from app.workspace.path_rules import WorkspaceError
from app.workspace.paths import Workspace

FILE_NAME = "SKILL.md"
OF_WORKSPACE = (".agents/skills", ".claude/skills")
"""Folders of a workspace in which there are skills, each in a folder of its own."""
MOST = 60
"""Skills that the model is told of."""
LONGEST_DESCRIPTION = 400
"""Characters of a description that the model is told."""
_LOOKED_AT = 500
"""Entries of a folder that are looked at for skills."""
_NAME = re.compile(r"[^\W_][\w.-]{0,63}")


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill, without its text."""

    name: str
    description: str
    where: str
    """Its file, as the user knows it."""
    folder: SkillFolder


@dataclass(frozen=True, slots=True)
class Skills:
    """All that there are."""

    by_name: Mapping[str, Skill] = field(default_factory=dict)
    """In order of their names."""
    problems: tuple[str, ...] = ()
    """What is wrong with files, and names that are taken: a line each."""

    def told(self) -> str:
        """What the model is told of them: the same text as long as they are the same; empty if there are none."""
        return "\n".join(f"- {one.name}: {one.description}" for one in self.by_name.values())


def find_skills(workspace: Workspace, user: Iterable[tuple[str, Path]]) -> Skills:
    """Look for skills; blocks.

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
            problems.append(visible(f"{where}: {error}", keep=""))
            continue
        except OSError as error:
            problems.append(visible(f"{where} cannot be read: {error.strerror or error}", keep=""))
            continue
        if skill is None:
            continue
        if (first := found.get(skill.name)) is not None:
            problems.append(visible(f"{where}: {skill.name} is {first.where} already", keep=""))
        elif len(found) == MOST:
            problems.append(visible(f"{where}: left out, since there are {MOST} already", keep=""))
        else:
            found[skill.name] = skill
    return Skills(dict(sorted(found.items())), tuple(problems))


def _of_user(folders: Iterable[tuple[str, Path]]) -> Iterator[tuple[str, str, SkillFolder]]:
    for shown, folder in folders:
        try:
            names = sorted(path.name for path in islice(folder.iterdir(), _LOOKED_AT))
        except OSError:
            continue
        for name in names:
            yield f"{shown}/{name}/{FILE_NAME}", name, UserFolder(folder / name)


def _of_workspace(workspace: Workspace) -> Iterator[tuple[str, str, SkillFolder]]:
    for folder in OF_WORKSPACE:
        try:
            under = workspace.resolve(folder)
            below = {path.removeprefix(f"{under}/") for path in islice(workspace.files(under), 10 * _LOOKED_AT)}
        except (OSError, WorkspaceError):
            continue
        for name in sorted(path.split("/")[0] for path in below if path.endswith(f"/{FILE_NAME}")):
            if f"{name}/{FILE_NAME}" in below:
                below.discard(f"{name}/{FILE_NAME}")
                yield f"{folder}/{name}/{FILE_NAME}", name, WorkspaceFolder(workspace, f"{folder}/{name}")


def _read(where: str, named: str, folder: SkillFolder) -> Skill | None:
    """A skill; None for one that is not for the model to choose. Raises ValueError, which says what is wrong."""
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
    if len(description) > LONGEST_DESCRIPTION:
        description = description[: LONGEST_DESCRIPTION - 1].rstrip() + "…"
    return Skill(name, description, where, folder)
