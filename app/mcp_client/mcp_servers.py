"""All MCP servers of a workspace: started in the background, switched on and off, stopped together."""

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from pydantic import Field

from app.mcp_client.configured_servers import ServerDefinition
from app.mcp_client.mcp_server import McpServer, McpServerState
from app.mcp_client.server_tool import McpTool, describe_startup_wait, unavailable_message
from app.mcp_client.token_store import TokenStore
from app.mcp_client.tool_listing import ToolDefinition, dump_tools, has_server_prefix, parse_tools
from app.sandbox.sandbox import Sandbox
from app.storage import StorageError
from app.tools.base.contract import Tool, ToolArguments, ToolContext, ToolError, ToolOutput, UncheckedArguments
from app.tools.tool_registry import OfferedTools, ToolSource, UnavailableServer, make_tool_schema

CHARACTERS_PER_TOKEN = 4
DEFAULT_CONTEXT_TOKENS = 32_000
"""Tokens that a model is taken to have room for where nothing says so."""
CONTEXT_SHARE_DIVISOR = 10
"""Definitions may take one part of so many of the context."""
_MAX_FOUND_TOOLS = 8
"""Tools that one search gives."""
_WORD = re.compile(r"[^\W_]+")


def do_tools_fit_context(tools: Sequence[Tool], context_tokens: int | None) -> bool:
    """Return whether the descriptions of all these tools fit in a model's context window."""
    room = (context_tokens or DEFAULT_CONTEXT_TOKENS) * CHARACTERS_PER_TOKEN // CONTEXT_SHARE_DIVISOR
    for tool in tools:
        room -= len(json.dumps(make_tool_schema(tool)))
        if room < 0:
            return False
    return True


class ToolSearchArguments(ToolArguments):
    """Arguments of `find_tool`."""

    words: str = Field(min_length=1, description="What the tool is to do, in a few words.")


class ToolSearch(Tool):
    """Searches the tools by words."""

    name = "find_tool"
    kind = "read"
    Arguments = ToolSearchArguments

    def __init__(self, tools: Sequence[McpTool]) -> None:
        self._tools = tuple(tools)
        counts: dict[str, int] = {}
        for tool in tools:
            counts[tool.server.name] = counts.get(tool.server.name, 0) + 1
        servers = ", ".join(f"{name} ({count})" for name, count in counts.items())
        self.description = (
            f"Search {len(tools)} more tools that can be called, of these servers (tools): {servers}. Gives the "
            "names, descriptions and arguments of those that fit best; call them by call_tool."
        )

    async def run(self, arguments: ToolSearchArguments, context: ToolContext) -> ToolOutput:
        """Search."""
        found = (await asyncio.to_thread(rank_tools, self._tools, arguments.words))[:_MAX_FOUND_TOOLS]
        if not found:
            names = ", ".join(tool.name for tool in self._tools[:200])
            return ToolOutput(f"No tool has these words. There are: {names}.", "no tool found")
        entries = [make_tool_schema(tool)["function"] for tool in found]
        text = "\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
        return ToolOutput(f"Call one of these by call_tool:\n{text}", ", ".join(tool.name for tool in found))


class CallFoundTool(Tool):
    """Calls a tool that was found.

    Args:
        find: Finds those that servers have told since, as `ToolSource.find_tool`.
    """

    name = "call_tool"
    kind = "command"
    description = "Call a tool that find_tool has found."
    Arguments = UncheckedArguments
    parameters = {  # noqa: RUF012
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "The name of the tool."},
            "arguments": {"type": "object", "description": "Its arguments, as find_tool describes them."},
        },
        "required": ["name"],
    }

    def __init__(
        self, tools: Sequence[McpTool], find: Callable[[str, Callable[[str], None]], Awaitable[Tool | None]]
    ) -> None:
        self._tools: dict[str, Tool] = {tool.name: tool for tool in tools}
        self._find = find

    async def run(self, arguments: UncheckedArguments, context: ToolContext) -> ToolOutput:
        """Call it."""
        name, given = arguments.values.get("name"), arguments.values.get("arguments") or {}
        name = name if isinstance(name, str) else ""
        tool = self._tools.get(name) or await self._find(name, context.waits)
        if tool is None:
            raise ToolError(f"There is no tool {name[:80]!r}; find_tool searches those that there are.")
        return await tool.run(UncheckedArguments(values=_object(given)), context)


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


def rank_tools(tools: Sequence[McpTool], query: str) -> list[McpTool]:
    """Return the tools that contain any of the words, best matches first, names before descriptions."""
    wanted = {_stem(word) for word in _WORD.findall(query.lower())}

    def score(tool: McpTool) -> float:
        named = _stems(f"{tool.name} {tool.definition.title}")
        described = _stems(f"{tool.description} {' '.join(tool.definition.parameters['properties'])}")
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


SWITCH_KEY_PREFIX = "server:"
"""Key under which the store keeps that a server was switched on or off."""
TOOL_LIST_KEY_PREFIX = "server tools:"
"""Key under which the store keeps which tools a server offered when it ran last."""
_MAX_STORED_CHARACTERS = 512 * 1024
"""Characters of that; of a server that offers more, nothing is kept."""


class ServerSettingStore(Protocol):
    """Port to stored switches and tool lists of servers; blocks."""

    def settings(self, prefix: str) -> Mapping[str, str]:
        """Return the values whose keys begin with `prefix`."""
        ...

    def set_setting(self, key: str, value: str | None) -> None:
        """Keep a value."""
        ...


@dataclass(frozen=True, slots=True)
class ServerEnvironment:
    """The workspace, sandbox and settings that servers run in."""

    sandbox: Callable[[], Sandbox]
    root: Path
    environment: Mapping[str, str]
    store: ServerSettingStore
    tokens: TokenStore


class McpServers(ToolSource):
    """The MCP servers of one workspace; to be used on one event loop.

    Args:
        environment: Workspace, sandbox and settings that the servers run in.
        patience: Seconds from the start of a server that a turn waits for its tools; None for as long as it may
            take to start.
    """

    def __init__(self, environment: ServerEnvironment, patience: float | None = None) -> None:
        self._around = environment
        self._patience = patience
        self._servers: dict[str, McpServer] = {}
        self._switched: dict[str, bool] = {}
        self._kept: dict[str, Sequence[ToolDefinition]] = {}
        """What was kept of each server's tools."""
        self._tools: dict[str, tuple[object, tuple[McpTool, ...]]] = {}
        self._changed = asyncio.Event()
        self._switching = asyncio.Lock()
        """Held while servers are started and ended: of two wishes the later one counts."""
        self._keeping: set[asyncio.Task[None]] = set()

    @property
    def servers(self) -> list[McpServer]:
        """Return all servers in the order of their definitions."""
        return list(self._servers.values())

    async def wait_for_change(self) -> None:
        """Wait until a server's state or tools change."""
        self._changed.clear()
        await self._changed.wait()

    async def set_definitions(self, definitions: Sequence[ServerDefinition]) -> None:
        """Set the servers: new or changed ones are started, missing ones are stopped."""
        async with self._switching:
            await self._know(definitions)

    async def _know(self, definitions: Sequence[ServerDefinition]) -> None:
        around = self._around
        kept = await asyncio.to_thread(around.store.settings, SWITCH_KEY_PREFIX)
        self._switched = {key.removeprefix(SWITCH_KEY_PREFIX): value == "on" for key, value in kept.items()}
        wanted = {each.name: each for each in definitions}
        gone = [each for each in self.servers if wanted.get(each.name) != each.definition]
        await asyncio.gather(*(each.stop() for each in gone))
        before = {each.name: each for each in self.servers if each not in gone}
        new = [each for each in definitions if each.name not in before]
        remembered = await asyncio.to_thread(self._remembered, new)
        self._kept.update(remembered)
        self._servers = {
            name: before.get(name)
            or McpServer(
                each,
                around.sandbox,
                around.root,
                around.environment,
                around.tokens,
                partial(self._tell_change, name),
                remembered.get(name, ()),
            )
            for name, each in wanted.items()
        }
        for server in self.servers:
            if self.is_enabled(server) and server.state is McpServerState.OFF:
                server.start_in_background()
        self._changed.set()

    def _remembered(self, definitions: Sequence[ServerDefinition]) -> dict[str, tuple[ToolDefinition, ...]]:
        """Return the tools that servers offered in their last run, by server; blocks. Unreadable ones are left
        out."""
        kept = self._around.store.settings(TOOL_LIST_KEY_PREFIX)
        found = {}
        for each in definitions:
            with suppress(ValueError, LookupError, TypeError, RecursionError):
                entry = json.loads(kept[f"{TOOL_LIST_KEY_PREFIX}{each.name}"])
                if entry["server"] == each.fingerprint:
                    found[each.name] = tuple(parse_tools(each.name, entry["tools"])[0])
        return found

    def _tell_change(self, name: str) -> None:
        self._changed.set()
        server = self._servers.get(name)
        if server is None or not server.listing.is_current or server.tools is self._kept.get(name):
            return
        self._kept[name] = server.tools
        task = asyncio.create_task(asyncio.to_thread(self._remember, server.definition, server.tools))
        self._keeping.add(task)
        task.add_done_callback(self._keeping.discard)

    def _remember(self, definition: ServerDefinition, offers: Sequence[ToolDefinition]) -> None:
        """Store the tools of a server for its next start; blocks."""
        entry = json.dumps({"server": definition.fingerprint, "tools": dump_tools(offers)})
        with suppress(StorageError):
            # Without it the next start is waited for, which is no reason to fail.
            self._around.store.set_setting(
                f"{TOOL_LIST_KEY_PREFIX}{definition.name}", entry if len(entry) <= _MAX_STORED_CHARACTERS else None
            )

    def is_enabled(self, server: McpServer) -> bool:
        """Return whether the server may run."""
        return self._switched.get(server.name, server.definition.table.enabled)

    async def set_enabled(self, server: McpServer, *, enabled: bool) -> None:
        """Start or stop a server, and remember that; raises StorageError."""
        async with self._switching:
            kept = "on" if enabled else "off"
            await asyncio.to_thread(self._around.store.set_setting, f"{SWITCH_KEY_PREFIX}{server.name}", kept)
            self._switched[server.name] = enabled
            if enabled:
                server.start_in_background()
            else:
                await server.stop()

    async def restart(self, server: McpServer) -> None:
        """Stop it and start it again, unless it is switched off."""
        async with self._switching:
            await server.stop()
            if self.is_enabled(server):
                server.start_in_background()

    async def offered_tools(self, context_tokens: int | None) -> OfferedTools:
        """Return the tools of all servers, behind a search where they would take too much of the context.

        One that is starting is waited for where it is not known what it offers. One of which that is known, or that
        has ended, is waited for when it is called.
        """
        await asyncio.gather(*map(self._wait_for, self._awaited))
        for server in self.servers:
            server.allow_restart()
        tools = [tool for server in self.servers if self.is_enabled(server) for tool in self._tools_of(server)]
        if not tools or do_tools_fit_context(tools, context_tokens):
            return OfferedTools(tools)
        return OfferedTools((ToolSearch(tools), CallFoundTool(tools, self.find_tool)), tools)

    async def _wait_for(self, server: McpServer) -> None:
        """Wait until a server has started or failed, or it has had its time."""
        if self._patience is None:
            await server.wait_until_ready_or_failed()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout_at(server.started_at + self._patience):
                await server.wait_until_ready_or_failed()

    @property
    def _awaited(self) -> list[McpServer]:
        return [
            each
            for each in self.servers
            if self.is_enabled(each) and each.state is McpServerState.STARTING and not each.tools
        ]

    @property
    def startup_wait_label(self) -> str:
        """Return what `offered_tools` waits for, in a few words."""
        return describe_startup_wait(self._awaited)

    @property
    def unavailable_servers(self) -> list[UnavailableServer]:
        """Return the servers that are switched on and cannot be used now."""
        return [
            found for each in self.servers if self.is_enabled(each) and (found := each.unavailable_reason) is not None
        ]

    async def find_tool(self, name: str, report_wait: Callable[[str], None]) -> Tool | None:
        """Return a tool of a server that had not started when the turn began; wait for the server.

        Args:
            report_wait: Takes in a few words what is waited for; empty words end the wait.

        Raises:
            ToolError: Its server can't be used; the text says why.
        """
        found = [each for each in self.servers if self.is_enabled(each) and has_server_prefix(name, each.name)]
        for server in found:
            if server.state is McpServerState.STARTING:
                report_wait(describe_startup_wait([server]))
                try:
                    await server.wait_until_ready_or_failed()
                finally:
                    report_wait("")
        tools = [tool for server in found for tool in self._tools_of(server) if tool.name == name]
        if tools:
            return tools[0]
        for server in found:
            if server.unavailable_reason is not None:
                raise ToolError(unavailable_message(server.name, server.problem))
        return None

    def _tools_of(self, server: McpServer) -> tuple[McpTool, ...]:
        """Its tools, the same objects as long as it offers the same."""
        known = self._tools.get(server.name)
        if known is None or known[0] is not server.tools:
            known = (server.tools, tuple(McpTool(server, offer) for offer in server.tools))
            self._tools[server.name] = known
        return known[1]

    async def close(self) -> None:
        """Stop all servers."""
        async with self._switching:
            await asyncio.gather(*(each.stop() for each in self.servers))
        if self._keeping:
            await asyncio.wait(self._keeping)
