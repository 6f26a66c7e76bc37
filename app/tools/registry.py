"""The tools of a session, in one fixed order."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from app.sandbox.sandbox import Sandbox
from app.tools.contract import Tool, ToolError
from app.tools.schemas import json_schema, parse_arguments


class ToolSet:
    """What the model may call."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        """Keep the tools in the order in which the model is told of them; names must be unique."""
        self._tools = {tool.name: tool for tool in tools}
        if len(self._tools) != len(tools):
            raise ValueError("two tools have the same name")
        self.schemas: list[dict[str, Any]] = [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": json_schema(tool.Arguments),
                },
            }
            for tool in tools
        ]
        """OpenAI's tool list: the same bytes in every request, so that the server's prefix cache holds."""

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The tools' names, in order."""
        return tuple(self._tools)

    def get(self, name: str) -> Tool | None:
        """The tool of this name, or None."""
        return self._tools.get(name)

    def parse(self, name: str, arguments: Mapping[str, Any]) -> BaseModel:
        """The arguments of a call as the tool's own model.

        Raises:
            ToolError: There is no such tool, or the arguments are wrong; the text says how to do better.
        """
        tool = self._tools.get(name)
        if tool is None:
            raise ToolError(f"There is no tool {name!r}. The tools are: {', '.join(self._tools)}.")
        return parse_arguments(name, tool.Arguments, arguments)


def standard_tools(sandbox: Sandbox) -> ToolSet:
    """Everything that signoff lets a model do; commands run in the sandbox."""
    from app.tools.apply_patch import ApplyPatch
    from app.tools.ask_user import AskUser
    from app.tools.command.run_command import RunCommand
    from app.tools.edit_file import EditFile
    from app.tools.read_file import ReadFile
    from app.tools.search.list_files import ListFiles
    from app.tools.search.search_text import SearchText
    from app.tools.whole_files import DeleteFile, RenameFile, WriteFile
    from app.tools.write_todos import WriteTodos

    return ToolSet(
        (
            ReadFile(),
            ListFiles(),
            SearchText(),
            EditFile(),
            WriteFile(),
            DeleteFile(),
            RenameFile(),
            ApplyPatch(),
            WriteTodos(),
            AskUser(),
            RunCommand(sandbox),
        )
    )
