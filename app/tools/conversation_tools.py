"""The tools `read_skill`, `write_todos` and `ask_user`."""

import asyncio
from typing import Annotated

from pydantic import Field

from app.conversation.todos import MAX_TODOS, Todo, count_done, current_or_next_todo
from app.prompts.skills import FILE_NAME, Skill, SkillCatalogue
from app.text.quantities import format_count
from app.tools.base.contract import Tool, ToolArguments, ToolContext, ToolError, ToolOutput
from app.workspace.path_rules import WorkspaceError

MAX_SKILL_CHARACTERS = 60_000
"""Maximum number of characters of one result."""


class ReadSkillArguments(ToolArguments):
    """Arguments of `read_skill`."""

    name: str = Field(description="The skill's name, from the list in the system prompt.")
    file: str | None = Field(
        default=None, description=f"A file of the skill, relative to its folder. Default: {FILE_NAME}."
    )


class ReadSkill(Tool):
    """Reads files in the folder of a skill and nowhere else."""

    name = "read_skill"
    kind = "read"
    Arguments = ReadSkillArguments
    description = (
        "Read a skill before you do what it is about: its instructions, and which files are in its folder. With "
        "`file`, one of those. Scripts of a skill are run by run_command, which asks the user, by their full path."
    )

    def __init__(self, skills: SkillCatalogue) -> None:
        self._skills = skills

    async def run(self, arguments: ReadSkillArguments, context: ToolContext) -> ToolOutput:
        skill = self._skills.by_name.get(arguments.name)
        if skill is None:
            raise ToolError(
                f"There is no skill {arguments.name!r}. The skills are: {', '.join(self._skills.by_name)}."
            )
        return await asyncio.to_thread(_read_skill_file, skill, arguments.file or FILE_NAME)


def _read_skill_file(skill: Skill, file: str) -> ToolOutput:
    try:
        content = skill.folder.read(file)
        files = skill.folder.list_files() if file == FILE_NAME else []
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
    if other_files := [name for name in files if name != FILE_NAME]:
        head.append(f"Its other files: {', '.join(other_files)}")
    hidden_characters = len(text) - MAX_SKILL_CHARACTERS
    foot = f"\n[{hidden_characters:,} more characters not shown]" if hidden_characters > 0 else ""
    header = "\n".join(head)
    return ToolOutput(
        f"{header}\n\n{text[:MAX_SKILL_CHARACTERS]}{foot}", format_count(len(text.splitlines()), "line")
    )


class WriteTodosArguments(ToolArguments):
    """Arguments of `write_todos`."""

    todos: Annotated[list[Todo], Field(max_length=MAX_TODOS)] = Field(
        description="The whole list, in order, in place of the one before; empty to clear it."
    )


class WriteTodos(Tool):
    """Replaces the to-do list, which is stored only in the log, as the call's result."""

    name = "write_todos"
    kind = "read"
    Arguments = WriteTodosArguments
    description = (
        "Keep a to-do list for work of three or more steps; the user sees it. Write it before you begin, and again "
        "whenever an item begins or is done, always as a whole. It stays when older history is summarised. "
        "Don't use it for a single edit or a question."
    )

    async def run(self, arguments: WriteTodosArguments, context: ToolContext) -> ToolOutput:
        todos = tuple(arguments.todos)
        if not todos:
            return ToolOutput("The list is empty.", "cleared", todos=todos)
        current = current_or_next_todo(todos)
        summary = f"{count_done(todos)} of {len(todos)} done"
        return ToolOutput(f"Kept: {summary}.", f"{summary} · {current.content}" if current else summary, todos=todos)


class AskUserArguments(ToolArguments):
    """Arguments of `ask_user`."""

    question: str = Field(min_length=1, description="The question, with what the user needs to know to answer it.")
    options: list[str] | None = Field(
        default=None, max_length=9, description="Answers to choose from; the user can also write another."
    )


class AskUser(Tool):
    """Lets the model ask the user: the executor shows the question, and the answer becomes the result of the call."""

    name = "ask_user"
    kind = "ask"
    Arguments = AskUserArguments
    description = (
        "Ask the user a question and stop. The user's answer is the result of the call. Use it when the decision is "
        "the user's or when you can't go on without knowing; make it the only call of the response."
    )

    async def run(self, arguments: AskUserArguments, context: ToolContext) -> ToolOutput:
        """Raise ToolError: a question is never run as a tool."""
        raise ToolError("A question is answered by the user.")
