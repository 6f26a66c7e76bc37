"""All servers of a workspace: started beside everything else, switched on and off, ended together."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from app.sandbox.sandbox import Sandbox
from app.servers.definition import Definition
from app.servers.finding import CallTool, FindTool, fits
from app.servers.server import Server, State
from app.servers.tokens import Tokens
from app.servers.tool import ServerTool
from app.tools.registry import More

PATIENCE = 5.0
"""Seconds that a turn waits for servers that are just starting; their tools come with the next one."""
SWITCHED = "server:"
"""Key under which the store keeps that a server was switched on or off."""


class SwitchStore(Protocol):
    """Where it is kept which servers are switched on and off; blocks."""

    def settings(self, prefix: str) -> Mapping[str, str]:
        """The values whose keys begin with `prefix`."""
        ...

    def set_setting(self, key: str, value: str | None) -> None:
        """Keep a value."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What servers run in."""

    sandbox: Callable[[], Sandbox]
    root: Path
    environment: Mapping[str, str]
    store: SwitchStore
    tokens: Tokens


class Servers:
    """Of one workspace; to be used on one event loop. A `Source` of tools."""

    def __init__(self, around: Surroundings) -> None:
        """There are none yet."""
        self._around = around
        self._servers: dict[str, Server] = {}
        self._switched: dict[str, bool] = {}
        self._tools: dict[str, tuple[object, tuple[ServerTool, ...]]] = {}
        self._changed = asyncio.Event()
        self._switching = asyncio.Lock()
        """Held while servers are started and ended: of two wishes the later one counts."""

    @property
    def all(self) -> list[Server]:
        """Every server, in the order in which they are known."""
        return list(self._servers.values())

    async def changed(self) -> None:
        """Return once a server's state or tools are others."""
        self._changed.clear()
        await self._changed.wait()

    async def know(self, definitions: Sequence[Definition]) -> None:
        """Have exactly these servers: those that are new or others are started, those that are gone are ended."""
        async with self._switching:
            await self._know(definitions)

    async def _know(self, definitions: Sequence[Definition]) -> None:
        around = self._around
        kept = await asyncio.to_thread(around.store.settings, SWITCHED)
        self._switched = {key.removeprefix(SWITCHED): value == "on" for key, value in kept.items()}
        wanted = {each.name: each for each in definitions}
        gone = [each for each in self.all if wanted.get(each.name) != each.definition]
        await asyncio.gather(*(each.stop() for each in gone))
        before = {each.name: each for each in self.all if each not in gone}
        self._servers = {
            name: before.get(name)
            or Server(each, around.sandbox, around.root, around.environment, around.tokens, self._changed.set)
            for name, each in wanted.items()
        }
        for server in self.all:
            if self.is_on(server) and server.state is State.OFF:
                server.begin()
        self._changed.set()

    def is_on(self, server: Server) -> bool:
        """Whether it is to run."""
        return self._switched.get(server.name, server.definition.table.enabled)

    async def switch(self, server: Server, *, on: bool) -> None:
        """Start or end a server, and remember that; raises StorageError."""
        async with self._switching:
            kept = "on" if on else "off"
            await asyncio.to_thread(self._around.store.set_setting, f"{SWITCHED}{server.name}", kept)
            self._switched[server.name] = on
            if on:
                server.begin()
            else:
                await server.stop()

    async def restart(self, server: Server) -> None:
        """End it and start it again, unless it is switched off."""
        async with self._switching:
            await server.stop()
            if self.is_on(server):
                server.begin()

    async def more(self, window: int | None) -> More:
        """The tools of all that are ready, behind a search where they would take too much of the context.

        Those that are starting are waited for a little, and those that have ended are started again when called.
        """
        starting = [asyncio.ensure_future(each.settled()) for each in self.all if each.state is State.STARTING]
        if starting:
            _, late = await asyncio.wait(starting, timeout=PATIENCE)
            for task in late:
                task.cancel()
        tools = [tool for server in self.all if self.is_on(server) for tool in self._tools_of(server)]
        if not tools or fits(tools, window):
            return More(tools)
        return More((FindTool(tools), CallTool(tools)), tools)

    def _tools_of(self, server: Server) -> tuple[ServerTool, ...]:
        """Its tools, the same objects as long as it offers the same."""
        known = self._tools.get(server.name)
        if known is None or known[0] is not server.offers:
            known = (server.offers, tuple(ServerTool(server, offer) for offer in server.offers))
            self._tools[server.name] = known
        return known[1]

    async def close(self) -> None:
        """End all of them."""
        async with self._switching:
            await asyncio.gather(*(each.stop() for each in self.all))
