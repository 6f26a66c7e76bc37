"""All MCP servers of a workspace: started in the background, switched on and off, stopped together."""

import asyncio
import json
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct
from pydantic import Field

from app.mcp_client.configured_servers import ServerDefinition
from app.mcp_client.mcp_server import McpServer, McpServerState
from app.mcp_client.server_tool import McpTool, describe_startup_wait, unavailable_message
from app.mcp_client.token_store import TokenStore
from app.mcp_client.tool_listing import ToolDefinition, dump_tools, has_server_prefix, parse_tools_and_refusals
from app.sandbox.sandbox import Sandbox
from app.storage import StorageError
from app.tools.base.contract import (
    Tool,
    ToolArguments,
    ToolContext,
    ToolError,
    ToolOutput,
    UnvalidatedMcpToolArguments,
)
from app.tools.tool_registry import AdditionalTools, ToolSource, UnavailableMcpServer, make_tool_schema

CHARACTERS_PER_TOKEN = 4
DEFAULT_CONTEXT_TOKENS = 32_000
"""Context tokens assumed for a model whose context window is unknown."""
CONTEXT_SHARE_DIVISOR = 10
"""Tool definitions may use at most 1/10 of the context."""
_MAX_LISTED_TOOLS = 100
"""Maximum number of tools that are listed: OpenAI accepts 128, including those of signoff."""
_MAX_RESULT_TOOLS = 8
"""Maximum number of tools in the result of a search."""
_WORD = re.compile(r"[^\W_]+")


def do_tools_fit_context(tools: Sequence[Tool], context_tokens: int | None) -> bool:
    """Return whether the definitions of all these tools fit in their share of the model's context window."""
    characters_left = (context_tokens or DEFAULT_CONTEXT_TOKENS) * CHARACTERS_PER_TOKEN // CONTEXT_SHARE_DIVISOR
    for tool in tools:
        characters_left -= len(json.dumps(make_tool_schema(tool)))
        if characters_left < 0:
            return False
    return True


class FindToolArguments(ToolArguments):
    """Arguments of `find_tool`."""

    words: str = Field(min_length=1, description="What the tool is to do, in a few words.")


class ToolSearch(Tool):
    """The tool by which the model searches the MCP servers' tools by words."""

    name = "find_tool"
    kind = "read"
    Arguments = FindToolArguments

    def __init__(self, tools: Sequence[McpTool]) -> None:
        self._tools = tuple(tools)
        counts = Counter(tool.server.name for tool in tools)
        servers = ", ".join(f"{name} ({count})" for name, count in counts.items())
        self.description = (
            f"Search {len(tools)} more tools that can be called, of these servers (tools): {servers}. Gives the "
            "names, descriptions and arguments of those that fit best; call them by call_tool."
        )

    async def run(self, arguments: FindToolArguments, context: ToolContext) -> ToolOutput:
        found = (await asyncio.to_thread(find_matching_tools, self._tools, arguments.words))[:_MAX_RESULT_TOOLS]
        if not found:
            names = ", ".join(tool.name for tool in self._tools[:200])
            return ToolOutput(f"No tool has these words. There are: {names}.", "no tool found")
        entries = [make_tool_schema(tool)["function"] for tool in found]
        text = "\n".join(json.dumps(entry, ensure_ascii=False) for entry in entries)
        return ToolOutput(f"Call one of these by call_tool:\n{text}", ", ".join(tool.name for tool in found))


class CallFoundTool(Tool):
    """The tool by which the model calls a tool that `ToolSearch` or `find` finds."""

    name = "call_tool"
    kind = "command"
    description = "Call a tool that find_tool has found."
    Arguments = UnvalidatedMcpToolArguments
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

    async def run(self, arguments: UnvalidatedMcpToolArguments, context: ToolContext) -> ToolOutput:
        name, given = arguments.values.get("name"), arguments.values.get("arguments") or {}
        name = name if isinstance(name, str) else ""
        tool = self._tools.get(name) or await self._find(name, context.waits)
        if tool is None:
            raise ToolError(f"There is no tool {name[:80]!r}; find_tool searches those that there are.")
        return await tool.run(UnvalidatedMcpToolArguments(values=_parse_object(given)), context)


def _parse_object(given: Any) -> dict[str, Any]:
    """Return the arguments as an object; some models write it as JSON text. Raises ToolError."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            given = None
    if not isinstance(given, dict):
        raise ToolError("The arguments of a tool are an object.")
    return given


def find_matching_tools(tools: Sequence[McpTool], query: str) -> list[McpTool]:
    """Return the tools that contain any of the words, best matches first; names count more than descriptions."""
    query_stems = {_stem(word) for word in _WORD.findall(query.lower())}

    def score(tool: McpTool) -> float:
        name_stems = _stems(f"{tool.name} {tool.definition.title}")
        description_stems = _stems(f"{tool.description} {' '.join(tool.definition.parameters['properties'])}")
        return 3 * len(query_stems & name_stems) + len(query_stems & description_stems)

    scores = {tool: score(tool) for tool in tools}
    matching = [tool for tool in tools if scores[tool]]
    return sorted(matching, key=lambda tool: -scores[tool])


def _stems(text: str) -> set[str]:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    return {_stem(word) for word in _WORD.findall(words.lower())}


def _stem(word: str) -> str:
    """Return a word without common endings, so that `issues` matches `issue`."""
    for ending in ("ing", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) > 2:
            return word[: -len(ending)].rstrip("e")
    return word.rstrip("e") if len(word) > 3 else word


SWITCH_KEY_PREFIX = "server:"
"""Prefix of the store's keys for servers switched on or off by the user."""
TOOL_LIST_KEY_PREFIX = "server tools:"
"""Prefix of the store's keys for the tools that a server offered in its last run."""
_MAX_STORED_CHARACTERS = 512 * 1024
"""Maximum number of characters of a stored tool list; longer ones are not stored."""


class ServerSettingStore(Protocol):
    """Port to stored settings of servers: which are switched on, and the tools they listed last; blocks."""

    def settings(self, prefix: str) -> Mapping[str, str]:
        """Return the values whose keys start with `prefix`."""

    def set_setting(self, key: str, value: str | None) -> None:
        """Store a value, or delete it with None."""


class McpServerContext(Struct, frozen=True):
    """What servers run in and with: sandbox, workspace, environment variables, stored settings and tokens."""

    sandbox: Callable[[], Sandbox]
    root: Path
    environment: Mapping[str, str]
    store: ServerSettingStore
    tokens: TokenStore


class McpServers(ToolSource):
    """The MCP servers of one workspace as a source of tools; for use on one event loop.

    Args:
        environment: Workspace, sandbox and settings that the servers run in.
        patience: Seconds from the start of a server that a turn waits for its tools; None to wait for the server's
            start timeout.
    """

    def __init__(self, environment: McpServerContext, patience: float | None = None) -> None:
        self._environment = environment
        self._max_wait_seconds = patience
        self._servers: dict[str, McpServer] = {}
        self._enabled_by_name: dict[str, bool] = {}
        self._stored_tools: dict[str, Sequence[ToolDefinition]] = {}
        """Stored or currently listed tools by server."""
        self._tools: dict[str, tuple[object, tuple[McpTool, ...]]] = {}
        self._change_event = asyncio.Event()
        self._switch_lock = asyncio.Lock()
        """Held while servers are started and stopped, so that the later of two requests takes effect last."""
        self._store_tasks: set[asyncio.Task[None]] = set()

    @property
    def servers(self) -> list[McpServer]:
        """Return all servers in the order of their definitions."""
        return list(self._servers.values())

    async def wait_for_change(self) -> None:
        """Wait until a server's state or tools change."""
        self._change_event.clear()
        await self._change_event.wait()

    async def set_definitions(self, definitions: Sequence[ServerDefinition]) -> None:
        """Set the servers: start new or changed ones, stop missing ones."""
        async with self._switch_lock:
            await self._replace_servers(definitions)

    async def _replace_servers(self, definitions: Sequence[ServerDefinition]) -> None:
        environment = self._environment
        switches = await asyncio.to_thread(environment.store.settings, SWITCH_KEY_PREFIX)
        self._enabled_by_name = {
            key.removeprefix(SWITCH_KEY_PREFIX): value == "on" for key, value in switches.items()
        }
        wanted = {definition.name: definition for definition in definitions}
        obsolete = [server for server in self.servers if wanted.get(server.name) != server.definition]
        await asyncio.gather(*(server.stop() for server in obsolete))
        remaining = {server.name: server for server in self.servers if server not in obsolete}
        added = [definition for definition in definitions if definition.name not in remaining]
        remembered = await asyncio.to_thread(self._load_stored_tools, added)
        self._stored_tools.update(remembered)
        self._servers = {
            name: remaining.get(name)
            or McpServer(
                definition,
                environment.sandbox,
                environment.root,
                environment.environment,
                environment.tokens,
                partial(self._handle_change, name),
                remembered.get(name, ()),
            )
            for name, definition in wanted.items()
        }
        for server in self.servers:
            if self.is_enabled(server) and server.state is McpServerState.OFF:
                server.start_in_background()
        self._change_event.set()

    def _load_stored_tools(self, definitions: Sequence[ServerDefinition]) -> dict[str, tuple[ToolDefinition, ...]]:
        """Return the tools that servers offered in their last run, by server; unreadable lists are left out.
        Blocks."""
        stored = self._environment.store.settings(TOOL_LIST_KEY_PREFIX)
        tools_by_server = {}
        for definition in definitions:
            with suppress(ValueError, LookupError, TypeError, RecursionError):
                entry = json.loads(stored[f"{TOOL_LIST_KEY_PREFIX}{definition.name}"])
                if entry["server"] == definition.fingerprint:
                    tools_by_server[definition.name] = tuple(
                        parse_tools_and_refusals(definition.name, entry["tools"])[0]
                    )
        return tools_by_server

    def _handle_change(self, name: str) -> None:
        self._change_event.set()
        server = self._servers.get(name)
        if server is None or not server.listing.is_current or server.tools is self._stored_tools.get(name):
            return
        self._stored_tools[name] = server.tools
        task = asyncio.create_task(asyncio.to_thread(self._store_tools, server.definition, server.tools))
        self._store_tasks.add(task)
        task.add_done_callback(self._store_tasks.discard)

    def _store_tools(self, definition: ServerDefinition, tools: Sequence[ToolDefinition]) -> None:
        """Store the tools of a server for its next start; blocks."""
        entry = json.dumps({"server": definition.fingerprint, "tools": dump_tools(tools)})
        with suppress(StorageError):
            # Without the stored list, the next turn only waits for the server's start.
            self._environment.store.set_setting(
                f"{TOOL_LIST_KEY_PREFIX}{definition.name}", entry if len(entry) <= _MAX_STORED_CHARACTERS else None
            )

    def is_enabled(self, server: McpServer) -> bool:
        """Return whether the server may run."""
        return self._enabled_by_name.get(server.name, server.definition.table.enabled)

    async def set_enabled(self, server: McpServer, *, enabled: bool) -> None:
        """Start or stop a server and store the choice; raises StorageError."""
        async with self._switch_lock:
            stored_value = "on" if enabled else "off"
            await asyncio.to_thread(
                self._environment.store.set_setting, f"{SWITCH_KEY_PREFIX}{server.name}", stored_value
            )
            self._enabled_by_name[server.name] = enabled
            if enabled:
                server.start_in_background()
            else:
                await server.stop()

    async def restart(self, server: McpServer) -> None:
        """Stop the server, and start it again if it is enabled."""
        async with self._switch_lock:
            await server.stop()
            if self.is_enabled(server):
                server.start_in_background()

    async def offered_tools(self, context_tokens: int | None) -> AdditionalTools:
        """Return the tools of all servers; a search tool instead of a list that would use too much of the context.

        Wait for servers that are starting and whose tools are unknown. For other servers that are not ready, a call
        of one of their tools waits.
        """
        await asyncio.gather(*map(self._wait_for_start, self._starting_servers))
        for server in self.servers:
            server.allow_restart()
        tools = [tool for server in self.servers if self.is_enabled(server) for tool in self._tools_of(server)]
        if len(tools) <= _MAX_LISTED_TOOLS and do_tools_fit_context(tools, context_tokens):
            return AdditionalTools(tools)
        return AdditionalTools((ToolSearch(tools), CallFoundTool(tools, self.find_tool)), tools)

    async def _wait_for_start(self, server: McpServer) -> None:
        """Wait until a server has started or failed, or `patience` is over."""
        if self._max_wait_seconds is None:
            await server.wait_until_ready_or_failed()
            return
        with suppress(TimeoutError):
            async with asyncio.timeout_at(server.started_at + self._max_wait_seconds):
                await server.wait_until_ready_or_failed()

    @property
    def _starting_servers(self) -> list[McpServer]:
        return [
            server
            for server in self.servers
            if self.is_enabled(server) and server.state is McpServerState.STARTING and not server.tools
        ]

    @property
    def startup_wait_label(self) -> str:
        """Return what `offered_tools` waits for, in a few words."""
        return describe_startup_wait(self._starting_servers)

    @property
    def unavailable_servers(self) -> list[UnavailableMcpServer]:
        """Return the enabled servers that cannot be used now."""
        return [
            found
            for server in self.servers
            if self.is_enabled(server) and (found := server.unavailable_reason) is not None
        ]

    async def find_tool(self, name: str, report_wait: Callable[[str], None]) -> Tool | None:
        """Return a tool of a server that had not started when the turn started; wait for the server."""
        servers = [
            server for server in self.servers if self.is_enabled(server) and has_server_prefix(name, server.name)
        ]
        for server in servers:
            if server.state is McpServerState.STARTING:
                report_wait(describe_startup_wait([server]))
                try:
                    await server.wait_until_ready_or_failed()
                finally:
                    report_wait("")
        tools = [tool for server in servers for tool in self._tools_of(server) if tool.name == name]
        if tools:
            return tools[0]
        for server in servers:
            if server.unavailable_reason is not None:
                raise ToolError(unavailable_message(server.name, server.problem))
        return None

    def _tools_of(self, server: McpServer) -> tuple[McpTool, ...]:
        """Return the server's tools; the same objects as long as its list does not change."""
        cached = self._tools.get(server.name)
        if cached is None or cached[0] is not server.tools:
            cached = (server.tools, tuple(McpTool(server, definition) for definition in server.tools))
            self._tools[server.name] = cached
        return cached[1]

    async def close(self) -> None:
        """Stop all servers."""
        async with self._switch_lock:
            await asyncio.gather(*(server.stop() for server in self.servers))
        if self._store_tasks:
            await asyncio.wait(self._store_tasks)
