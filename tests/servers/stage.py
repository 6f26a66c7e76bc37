"""A session with MCP servers over the tests' endpoint, without a screen, and a user who answers what is asked."""

import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from app.agent.updates import PermissionRequested, SessionFailed, Update
from app.conversation.events import ToolResult
from app.mcp_client.mcp_server import McpServer, McpServerState
from app.runtime.open_workspace import open_workspace
from app.runtime.session_host import SessionHost
from app.sandbox.confinement import SandboxMode
from app.sandbox.sandbox import Sandbox
from app.tools.base.contract import PermissionAnswer, PermissionRequest
from tests.wire.bench import FILE
from tests.wire.endpoints import OBEYS, Behaviour
from tests.wire.server import WireServer

PLAYER = Path(__file__).with_name("player.py")
ENVIRONMENT = {"PATH": os.environ["PATH"]}
YES, NO = PermissionAnswer(allowed=True), PermissionAnswer(allowed=False)


def player(*tricks: str, **more: Any) -> dict[str, Any]:
    """The table of a server that plays."""
    return {"command": sys.executable, "args": [str(PLAYER), *tricks], **more}


class Stage:
    """What is open, and what was asked."""

    def __init__(self, root: Path, wire: WireServer, log: Path) -> None:
        self.root = root
        self.wire = wire
        self.answers: Callable[[PermissionRequest], PermissionAnswer] = lambda asked: YES
        self.asked: list[PermissionRequest] = []
        self.told: list[str] = []
        self.host: SessionHost
        self._log = log

    def take(self, update: Update) -> None:
        """Answer what is asked."""
        if isinstance(update, PermissionRequested):
            self.asked.append(update.permission_request)
            assert self.host.session is not None
            self.host.session.answer_permission_request(update.key, self.answers(update.permission_request))
        elif isinstance(update, SessionFailed):
            self.told.append(update.message)

    async def say(self, *calls: tuple[str, dict[str, Any]], text: str = "Do it.", last: str = "Done.") -> str:
        """A turn in which the model makes these calls, one after the other, and says a last word if there is one.

        Returns what the last of the calls came to.
        """
        for each in calls:
            self.wire.turn(calls=[each])
        if last:
            self.wire.say(last)
        session = self.host.session
        assert session is not None
        await session.send(text)
        await session.wait_until_idle()
        return self.results[-1].text if self.results else ""

    @property
    def results(self) -> list[ToolResult]:
        """What calls came to."""
        session = self.host.session
        assert session is not None
        return [event for event in session.log.events if isinstance(event, ToolResult)]

    @property
    def offered(self) -> list[str]:
        """The names of the tools in the last request."""
        return [tool["function"]["name"] for tool in self.wire.last.body["tools"]]

    def server(self, name: str) -> McpServer:
        """One of the servers."""
        assert self.host.mcp.servers is not None
        return next(each for each in self.host.mcp.servers.servers if each.name == name)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition over the servers."""
        await self.host.mcp.found.wait()
        assert self.host.mcp.servers is not None
        while not condition():
            await self.host.mcp.servers.wait_for_change()

    async def ready(self, *names: str) -> None:
        """Wait until these servers are ready."""
        await self.until(lambda: all(self.server(name).state is McpServerState.READY for name in names))

    @property
    def played(self) -> list[dict[str, Any]]:
        """What the servers got, of which the log's place was told."""
        return [json.loads(line) for line in self._log.read_text().splitlines()] if self._log.exists() else []

    @property
    def called(self) -> list[str]:
        """The tools that the servers were asked to call."""
        return [each["params"]["name"] for each in self.played if each.get("method") == "tools/call"]


@contextlib.asynccontextmanager
async def stage(
    wire: WireServer,
    folder: Path,
    servers: dict[str, Any],
    /,
    *,
    environment: dict[str, str] | None = None,
    behaviour: Behaviour = OBEYS,
    modes: Sequence[SandboxMode] = (),
    **flags: Any,
) -> AsyncIterator[Stage]:
    """Open a workspace below `folder` with these servers."""
    root = folder / "workspace"
    if not root.exists():
        root.mkdir()
        (root / "greet.py").write_text(FILE)
    wire.behave(behaviour)
    log = folder / "shared/played.jsonl"
    log.parent.mkdir(exist_ok=True)
    for table in servers.values():
        if "command" in table:
            table["env"] = {"PLAYED": str(log), **table.get("env", {})}
            # By the first a server on a layer and the test hear of each other; the second holds the server's program.
            table["writable"] = [str(log.parent), str(Path(__file__).parent), *table.get("writable", [])]
    given = {"base_url": wire.base_url, "model": "m", "api_key": "key", "mcp": servers, **flags}
    runtime = open_workspace(root, given, {**ENVIRONMENT, **(environment or {})})
    if modes:
        runtime._sandbox = Sandbox(
            runtime.workspace, runtime.dirs.runs, own_folders=(runtime.dirs.state,), modes=modes
        )
    on = Stage(root, wire, log)
    on.host = SessionHost(runtime, runtime.settings, on.take)
    await on.host.start()
    await on.host.connect(runtime.settings)
    await on.host.open()
    try:
        yield on
    finally:
        await on.host.close()
        runtime.close()
