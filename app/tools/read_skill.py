"""`read_skill`: the text of a skill, or a file of its folder, which may lie outside the workspace."""

import asyncio

from pydantic import Field

from app.skills.finding import FILE_NAME, Skill, Skills
from app.text.plural import plural
from app.tools.contract import Tool, ToolArguments, ToolContext, ToolError, ToolOutput
from app.workspace.path_rules import WorkspaceError

LONGEST = 60_000
"""Characters of one result."""


class ReadSkillArguments(ToolArguments):
    """Arguments of `read_skill`."""

    name: str = Field(description="The skill's name, from the list in the system prompt.")
    file: str | None = Field(
        default=None, description=f"A file of the skill, relative to its folder. Default: {FILE_NAME}."
    )


class ReadSkill(Tool):
    """Reads in the folder of a skill and nowhere else."""

    name = "read_skill"
    kind = "read"
    Arguments = ReadSkillArguments
    description = (
        "Read a skill before you do what it is about: its instructions, and which files are in its folder. With "
        "`file`, one of those. Scripts of a skill are run by run_command, which asks the user, by their full path."
    )

    def __init__(self, skills: Skills) -> None:
        """`skills` are those that the model has been told of."""
        self._skills = skills

    async def run(self, arguments: ReadSkillArguments, context: ToolContext) -> ToolOutput:
        """Read."""
        skill = self._skills.by_name.get(arguments.name)
        if skill is None:
            raise ToolError(
                f"There is no skill {arguments.name!r}. The skills are: {', '.join(self._skills.by_name)}."
            )
        return await asyncio.to_thread(_read, skill, arguments.file or FILE_NAME)


def _read(skill: Skill, file: str) -> ToolOutput:
    try:
        content = skill.folder.read(file)
        files = skill.folder.files() if file == FILE_NAME else []
    except FileNotFoundError as error:
        raise ToolError(f"The skill {skill.name} has no file {file}.") from error
    except WorkspaceError as error:
        raise ToolError(f"Not done: {error}.") from error
    except (OSError, ValueError) as error:
        raise ToolError(f"{file} can't be read: {getattr(error, 'strerror', None) or error}.") from error
    if b"\0" in content:
        return ToolOutput(f"{file} is a binary file of {len(content):,} bytes.", f"binary, {len(content):,} bytes")
    text = content.decode(errors="replace")
    head = [f"Skill {skill.name}, in {skill.folder.path}"]
    if others := [one for one in files if one != FILE_NAME]:
        head.append(f"Its other files: {', '.join(others)}")
    left = len(text) - LONGEST
    foot = f"\n[{left:,} more characters not shown]" if left > 0 else ""
    shown = "\n".join(head)
    return ToolOutput(f"{shown}\n\n{text[:LONGEST]}{foot}", plural(len(text.splitlines()), "line"))
