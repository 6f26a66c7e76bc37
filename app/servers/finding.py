"""Many tools behind one: where a list of all would take too much of the context, the model searches it by words."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from pydantic import Field

from app.servers.tool import ServerTool
from app.tools.contract import GivenArguments, Tool, ToolArguments, ToolContext, ToolError, ToolOutput
from app.tools.registry import schema_of

CHARACTERS_PER_TOKEN = 4
UNKNOWN_WINDOW = 32_000
"""Tokens that a model is taken to have room for where nothing says so."""
SHARE = 10
"""Definitions may take one part of so many of the context."""
_MOST = 8
"""Tools that one search gives."""
_WORD = re.compile(r"[^\W_]+")


def fits(tools: Sequence[Tool], window: int | None) -> bool:
    """Whether a model with this context should be told of all of these tools at once."""
    room = (window or UNKNOWN_WINDOW) * CHARACTERS_PER_TOKEN // SHARE
    for tool in tools:
        room -= len(json.dumps(schema_of(tool)))
        if room < 0:
            return False
    return True


class FindToolArguments(ToolArguments):
    """Arguments of `find_tool`."""

    words: str = Field(min_length=1, description="What the tool is to do, in a few words.")


class FindTool(Tool):
    """Searches the tools by words."""

    name = "find_tool"
    kind = "read"
    Arguments = FindToolArguments

    def __init__(self, tools: Sequence[ServerTool]) -> None:
        """`tools` are those to be searched."""
        self._tools = tuple(tools)
        counts: dict[str, int] = {}
        for tool in tools:
            counts[tool.server.name] = counts.get(tool.server.name, 0) + 1
        servers = ", ".join(f"{name} ({count})" for name, count in counts.items())
        self.description = (
            f"Search {len(tools)} more tools that can be called, of these servers (tools): {servers}. Gives the "
            "names, descriptions and arguments of those that fit best; call them by call_tool."
        )

    async def run(self, arguments: FindToolArguments, context: ToolContext) -> ToolOutput:
        """Search."""
        found = (await asyncio.to_thread(ranked, self._tools, arguments.words))[:_MOST]
        if not found:
            names = ", ".join(tool.name for tool in self._tools[:200])
            return ToolOutput(f"No tool has these words. There are: {names}.", "no tool found")
        entries = [schema_of(tool)["function"] for tool in found]
        text = "\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
        return ToolOutput(f"Call one of these by call_tool:\n{text}", ", ".join(tool.name for tool in found))


class CallTool(Tool):
    """Calls a tool that was found."""

    name = "call_tool"
    kind = "command"
    description = "Call a tool that find_tool has found."
    Arguments = GivenArguments
    parameters = {  # noqa: RUF012
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The name of the tool."},
            "arguments": {"type": "object", "description": "Its arguments, as find_tool describes them."},
        },
        "required": ["name"],
    }

    def __init__(
        self, tools: Sequence[ServerTool], find: Callable[[str, Callable[[str], None]], Awaitable[Tool | None]]
    ) -> None:
        """Ready to call.

        Args:
            tools: Those that can be called.
            find: Finds those that servers have told since, as `Source.find`.
        """
        self._tools: dict[str, Tool] = {tool.name: tool for tool in tools}
        self._find = find

    async def run(self, arguments: GivenArguments, context: ToolContext) -> ToolOutput:
        """Call it."""
        name, given = arguments.values.get("name"), arguments.values.get("arguments") or {}
        name = name if isinstance(name, str) else ""
        tool = self._tools.get(name) or await self._find(name, context.waits)
        if tool is None:
            raise ToolError(f"There is no tool {name[:80]!r}; find_tool searches those that there are.")
        return await tool.run(GivenArguments(values=_object(given)), context)


def _object(given: Any) -> dict[str, Any]:
    """The arguments as an object; some models write one out as text. Raises ToolError."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            given = None
    if not isinstance(given, dict):
        raise ToolError("The arguments of a tool are an object.")
    return given


def ranked(tools: Sequence[ServerTool], words: str) -> list[ServerTool]:
    """The tools in which any of the words stands, those with the most of them first, in names before descriptions."""
    wanted = {_stem(word) for word in _WORD.findall(words.lower())}

    def score(tool: ServerTool) -> float:
        named = _stems(f"{tool.name} {tool.offer.title}")
        described = _stems(f"{tool.description} {' '.join(tool.offer.parameters['properties'])}")
        return 3 * len(wanted & named) + len(wanted & described)

    scores = {tool: score(tool) for tool in tools}
    found = [tool for tool in tools if scores[tool]]
    return sorted(found, key=lambda tool: -scores[tool])


def _stems(text: str) -> set[str]:
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return {_stem(word) for word in _WORD.findall(apart.lower())}


def _stem(word: str) -> str:
    """A word without its commonest endings, so that `issues` finds `issue`."""
    for ending in ("ing", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) > 2:
            return word[: -len(ending)].rstrip("e")
    return word.rstrip("e") if len(word) > 3 else word
