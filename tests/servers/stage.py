"""A session with MCP servers on the tests' endpoint, without a screen; a simulated user answers its questions."""

import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from app.agent.session import Session
from app.agent.updates import PermissionRequested, SessionFailed, Update
from app.conversation.events import ToolResult
from app.mcp_client.mcp_server import McpServer, McpServerState
from app.runtime.open_workspace import open_workspace
from app.runtime.session_host import SessionHost
from app.sandbox.confinement import CommandWriteMode
from app.sandbox.sandbox import Sandbox
from app.tools.base.contract import PermissionAnswer, PermissionRequest
from tests.wire.bench import FILE
from tests.wire.endpoints import OBEYS, Behaviour
from tests.wire.server import WireServer

PLAYER = Path(__file__).with_name("player.py")
ENVIRONMENT = {"PATH": os.environ["PATH"]}
YES, NO = PermissionAnswer(allowed=True), PermissionAnswer(allowed=False)


def player(*overrides: str, **more: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(PLAYER), *overrides], **more}


class ServerSession:
    """An open session, and the permission requests that it has made."""

    def __init__(self, root: Path, wire: WireServer, log: Path) -> None:
        self.root = root
        self.wire = wire
        self.answers: Callable[[PermissionRequest], PermissionAnswer] = lambda asked: YES
        self.permission_requests: list[PermissionRequest] = []
        self.failures: list[str] = []
        self.host: SessionHost
        self._log = log

    def handle_update(self, update: Update) -> None:
        if isinstance(update, PermissionRequested):
            self.permission_requests.append(update.permission_request)
            self.session.answer_permission_request(update.key, self.answers(update.permission_request))
        elif isinstance(update, SessionFailed):
            self.failures.append(update.message)

    async def run_turn(self, *calls: tuple[str, dict[str, Any]], text: str = "Do it.", last: str = "Done.") -> str:
        """Run a turn in which the model makes these calls one by one and ends with the text `last`, if it is not
        empty.

        Returns the result of the last call.
        """
        for call in calls:
            self.wire.turn(calls=[call])
        if last:
            self.wire.say(last)
        await self.session.send(text)
        await self.session.wait_until_idle()
        return self.results[-1].text if self.results else ""

    @property
    def session(self) -> Session:
        assert self.host.session is not None
        return self.host.session

    @property
    def results(self) -> list[ToolResult]:
        return [event for event in self.session.log.events if isinstance(event, ToolResult)]

    @property
    def offered_tools(self) -> list[str]:
        return [tool["function"]["name"] for tool in self.wire.last.body["tools"]]

    def server(self, name: str) -> McpServer:
        assert self.host.mcp.servers is not None
        return next(server for server in self.host.mcp.servers.servers if server.name == name)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition that depends on the servers."""
        await self.host.mcp.found.wait()
        assert self.host.mcp.servers is not None
        while not condition():
            await self.host.mcp.servers.wait_for_change()

    async def wait_until_ready(self, *names: str) -> None:
        await self.until(lambda: all(self.server(name).state is McpServerState.READY for name in names))

    @property
    def received_messages(self) -> list[dict[str, Any]]:
        """The messages that the servers have received, from their log."""
        return [json.loads(line) for line in self._log.read_text().splitlines()] if self._log.exists() else []

    @property
    def called_tools(self) -> list[str]:
        return [
            message["params"]["name"] for message in self.received_messages if message.get("method") == "tools/call"
        ]


@contextlib.asynccontextmanager
async def open_server_session(
    wire: WireServer,
    folder: Path,
    servers: dict[str, Any],
    /,
    *,
    environment: dict[str, str] | None = None,
    behaviour: Behaviour = OBEYS,
    modes: Sequence[CommandWriteMode] = (),
    **flags: Any,
) -> AsyncIterator[ServerSession]:
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
            # The first folder lets a server in an overlay and the test communicate; the second contains the server's
            # program.
            table["writable"] = [str(log.parent), str(Path(__file__).parent), *table.get("writable", [])]
    settings = {"base_url": wire.base_url, "model": "m", "api_key": "key", "mcp": servers, **flags}
    runtime = open_workspace(root, settings, {**ENVIRONMENT, **(environment or {})})
    if modes:
        runtime._sandbox = Sandbox(
            runtime.workspace, runtime.dirs.runs, own_folders=(runtime.dirs.state,), modes=modes
        )
    on = ServerSession(root, wire, log)
    on.host = SessionHost(runtime, runtime.settings, on.handle_update)
    await on.host.start()
    await on.host.connect(runtime.settings)
    await on.host.open()
    try:
        yield on
    finally:
        await on.host.close()
        runtime.close()
