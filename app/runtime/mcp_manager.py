"""The MCP servers of an open workspace: found in the background, and imported only if there are any."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from app.config.settings import Settings
from app.runtime.open_workspace import OpenWorkspace
from app.tools.base.contract import Tool
from app.tools.tool_registry import AdditionalTools, ToolSource, UnavailableMcpServer

if TYPE_CHECKING:
    from app.mcp_client.configured_servers import ConfiguredServers
    from app.mcp_client.mcp_servers import McpServers


_MAX_CONFIGURATION_WAIT_SECONDS = 5.0
"""Seconds that `offered_tools` waits until the configuration files are read."""
_SERVERS_UNKNOWN = "It is not known yet which MCP servers there are"
_NOT_FOUND_YET = UnavailableMcpServer(
    "",
    "starting",
    "the files that name MCP servers are still being read",
    f"{_SERVERS_UNKNOWN}: the files that name them are still being read. Their tools come with the next turn.",
    f"{_SERVERS_UNKNOWN}. Their tools come with the next turn; if the task needs them, say so.",
)


class McpManager(ToolSource):
    """Source of the tools of MCP servers for all sessions; belongs to one event loop."""

    def __init__(self, runtime: OpenWorkspace, notify: Callable[[str], None], patience: float | None = None) -> None:
        self._patience = patience
        self._runtime = runtime
        self._notify = notify
        self._reported_lines: set[str] = set()
        self.found = asyncio.Event()
        """Set once the configured servers are known."""
        self.servers: McpServers | None = None
        """None if no server is configured."""
        self.configured: ConfiguredServers | None = None
        """The servers in the configuration files."""
        self._refresh_lock = asyncio.Lock()
        self._closed = False

    async def refresh(self, settings: Settings) -> None:
        """Read all files that configure servers; start new servers and stop removed ones."""
        try:
            async with self._refresh_lock:
                await self._read_and_update(settings)
        finally:
            self.found.set()

    async def _read_and_update(self, settings: Settings) -> None:
        known_servers = await asyncio.to_thread(self._find_servers, settings)
        if self._closed:
            return
        self.configured = known_servers
        trust_lines = [
            f"{name} names MCP servers, which wait for your trust: /trust shows it."
            for name in known_servers.untrusted
        ]
        for line in (*known_servers.problems, *trust_lines):
            if line not in self._reported_lines:
                self._reported_lines.add(line)
                self._notify(line)
        if self.servers is None and known_servers.definitions:
            self.servers = await asyncio.to_thread(self._make_servers)
        if self.servers is not None:
            await self.servers.set_definitions(known_servers.definitions)

    async def offered_tools(self, window: int | None) -> AdditionalTools:
        """Return the tools of the servers, once the servers are known."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.found.wait(), _MAX_CONFIGURATION_WAIT_SECONDS)
        return await self.servers.offered_tools(window) if self.servers is not None else AdditionalTools()

    @property
    def startup_wait_label(self) -> str:
        """Return a short description of what `offered_tools` waits for."""
        return self.servers.startup_wait_label if self.servers is not None else ""

    @property
    def unavailable_servers(self) -> Sequence[UnavailableMcpServer]:
        """Return the enabled servers that can't be used now."""
        if not self.found.is_set():
            return (_NOT_FOUND_YET,)
        return self.servers.unavailable_servers if self.servers is not None else ()

    async def find_tool(self, name: str, waits: Callable[[str], None]) -> Tool | None:
        """Return a tool by name, as `McpServers.find_tool` does."""
        return await self.servers.find_tool(name, waits) if self.servers is not None else None

    async def close(self) -> None:
        """Stop all servers."""
        self._closed = True
        self.found.set()
        # Wait for a running refresh: servers that it starts are stopped, too.
        async with self._refresh_lock:
            if self.servers is not None:
                await self.servers.close()

    def _find_servers(self, settings: Settings) -> "ConfiguredServers":
        from app.mcp_client.configured_servers import find_configured_servers

        environment = self._runtime.environment if settings.mcp_of_others else {}
        runtime = self._runtime
        workspace_server_names = runtime.configuration.servers_of_workspace
        return find_configured_servers(
            settings.mcp, runtime.workspace, runtime.sessions, environment, workspace_tables=workspace_server_names
        )

    def _make_servers(self) -> "McpServers":
        from app.mcp_client.mcp_servers import McpServerContext, McpServers
        from app.mcp_client.token_store import TokenStore

        runtime = self._runtime
        server_environment = McpServerContext(
            lambda: runtime.sandbox,
            runtime.workspace.root,
            runtime.environment,
            runtime.sessions,
            TokenStore(runtime.dirs.tokens),
        )
        return McpServers(server_environment, self._patience)
