"""The tools of a session, in one fixed order."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from pydantic import BaseModel

from app.concurrency import iterate_when_event_loop_idle
from app.prompts.skills import SkillCatalogue
from app.tools.base.contract import (
    Tool,
    ToolError,
    UnvalidatedMcpToolArguments,
    arguments_json_schema,
    repair_and_validate_arguments,
)

if TYPE_CHECKING:
    from app.sandbox.sandbox import Sandbox


class AdditionalTools(Struct, frozen=True):
    """Tools besides the built-in ones: those listed for the model, and unlisted ones that it may call."""

    listed: Sequence[Tool] = ()
    """Tools in the list that the model gets."""
    unlisted: Sequence[Tool] = ()
    """Tools that the model may call and learns about in another way."""


class UnavailableMcpServer(Struct, frozen=True):
    """A server whose tools can't be used now, with the reason."""

    name: str
    state: str
    """The reason in a word or two: `starting`, `failed`, `sign in`."""
    reason: str
    """The reason as a clause."""
    notice: str
    """One line for the user."""
    instruction: str = ""
    """Sentence for the model; empty if the model can call the tools anyway."""


class ToolSource(ABC):
    """A source of additional tools."""

    @property
    def startup_wait_label(self) -> str:
        """Return what `offered_tools` waits for, in a few words; empty if unknown."""
        return ""

    @property
    def unavailable_servers(self) -> Sequence[UnavailableMcpServer]:
        """Return the configured servers that cannot be used."""
        return ()

    @abstractmethod
    async def offered_tools(self, context_tokens: int | None) -> AdditionalTools:
        """Return the current tools; `context_tokens` is the size of the model's context, None if unknown."""

    async def find_tool(self, name: str, report_wait: Callable[[str], None]) -> Tool | None:
        """Return a tool that the last `offered_tools` did not include; None if there is none.

        Args:
            report_wait: Called with a few words that say what the call waits for.

        Raises:
            ToolError: The tool belongs to a server that can't be used; the text says why.
        """
        return None


class ToolSet:
    """The tools that the model may call; `reload` adds those of `source` for the next turn."""

    def __init__(self, tools: Sequence[Tool], source: ToolSource | None = None) -> None:
        self._fixed_tools = tuple(tools)
        self._source = source
        self._tools = {tool.name: tool for tool in tools}
        if len(self._tools) != len(tools):
            raise ValueError("two tools have the same name")
        self._source_schemas: list[dict[str, Any]] = []
        """Schemas of the listed additional tools."""
        self._last_notices: set[str] = set()
        """Current lines about unavailable tools that the user has seen."""

    @property
    def schemas(self) -> list[dict[str, Any]]:
        """Return OpenAI's tool list: the same bytes in each request, for the server's prefix cache."""
        return [*self._fixed_schemas, *self._source_schemas]

    @cached_property
    def _fixed_schemas(self) -> list[dict[str, Any]]:
        """Built for the first request, on a thread: a session that is only read needs none."""
        return [make_tool_schema(tool) for tool in iterate_when_event_loop_idle(self._fixed_tools)]

    async def reload(self, context_tokens: int | None) -> None:
        """Load the tools for the next turn; `context_tokens` is the size of the model's context, None if unknown."""
        if self._source is None:
            return
        offered = await self._source.offered_tools(context_tokens)
        self._tools = {tool.name: tool for tool in (*offered.unlisted, *offered.listed, *self._fixed_tools)}
        self._source_schemas = [make_tool_schema(tool) for tool in offered.listed]

    @property
    def startup_wait_label(self) -> str:
        """Return what `reload` waits for, in a few words; empty if unknown."""
        return self._source.startup_wait_label if self._source is not None else ""

    @property
    def unavailable(self) -> Sequence[UnavailableMcpServer]:
        """Return the configured servers that cannot be used."""
        return self._source.unavailable_servers if self._source is not None else ()

    def new_notices(self) -> list[str]:
        """Return the lines about unavailable tools that the user has not seen yet."""
        lines = [server.notice for server in self.unavailable]
        new = [line for line in lines if line not in self._last_notices]
        self._last_notices = set(lines)
        return new

    async def find_late_tool(self, name: str, report_wait: Callable[[str], None]) -> Tool | None:
        """Return the tool with this name, even if it became available after the start of the turn; else None.

        The model's list of tools contains it only from the next turn on. The arguments and errors are those of
        `ToolSource.find_tool`.
        """
        if name not in self._tools and self._source is not None:
            tool = await self._source.find_tool(name, report_wait)
            if tool is not None:
                self._tools[name] = tool
        return self._tools.get(name)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def get_tool(self, name: str) -> Tool | None:
        """Return the tool of this name, or None."""
        return self._tools.get(name)

    def parse_arguments(self, name: str, arguments: Mapping[str, Any]) -> BaseModel:
        """Return the validated arguments of a call; raise ToolError if the tool or an argument is wrong."""
        tool = self._tools.get(name)
        if tool is None:
            raise ToolError(f"There is no tool {name!r}. The tools are: {', '.join(self._tools)}.")
        if tool.parameters is not None:
            return UnvalidatedMcpToolArguments(values=dict(arguments))
        return repair_and_validate_arguments(name, tool.Arguments, arguments)


def make_tool_schema(tool: Tool) -> dict[str, Any]:
    """Return a tool's entry in OpenAI's tool list."""
    parameters = arguments_json_schema(tool.Arguments) if tool.parameters is None else dict(tool.parameters)
    function = {"name": tool.name, "description": tool.description, "parameters": parameters}
    return {"type": "function", "function": function}


def make_standard_tools(
    sandbox: "Callable[[], Sandbox]", source: ToolSource | None = None, skills: SkillCatalogue | None = None
) -> ToolSet:
    """Return all tools that signoff offers to a model; `read_skill` only if there are skills."""
    from app.tools.command.run_command import RunCommand
    from app.tools.conversation_tools import AskUser, ReadSkill, WriteTodos
    from app.tools.file_tools import ApplyPatch, DeleteFile, EditFile, ReadFile, RenameFile, WriteFile
    from app.tools.search.list_files import ListFiles
    from app.tools.search.search_text import SearchText

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
            *((ReadSkill(skills),) if skills and skills.by_name else ()),
        ),
        source,
    )
