"""A host in this process: speaks to the server as it is, over a real workspace, and gathers what comes back."""

import itertools
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.doors.mcp.door_server import McpDoorServer
from app.doors.mcp.proposal_tools import ProposalTools
from app.runtime.open_workspace import OpenWorkspace, open_workspace

PATIENCE = 30.0


class Host:
    def __init__(self, root: Path, wait: int = 0) -> None:
        self.said: list[str] = []
        """Lines for the user."""
        self.sent: list[Any] = []
        """Every message of the server, in order."""
        self.is_gone = False
        """Whether it reads no more."""
        self._arrived = threading.Condition()
        self._ids = itertools.count(1)
        self.root = root
        self.server = McpDoorServer(lambda: ProposalTools(root, wait, self.said.append), self._take)

    def _take(self, message: object) -> bool:
        with self._arrived:
            if self.is_gone:
                return False
            # As it goes over the wire.
            self.sent.append(json.loads(json.dumps(message)))
            self._arrived.notify_all()
            return True

    def line(self, text: str | bytes) -> None:
        self.server.handle_line(text.encode() if isinstance(text, str) else text)

    def notify(self, method: str, **params: Any) -> None:
        self.line(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}))

    def begin(self, method: str, params: Any = None, name: Any = None) -> Any:
        """Send a request and don't wait; its id."""
        name = next(self._ids) if name is None else name
        self.line(json.dumps({"jsonrpc": "2.0", "id": name, "method": method, "params": params or {}}))
        return name

    def until(self, found: Callable[[], Any]) -> Any:
        with self._arrived:
            assert self._arrived.wait_for(lambda: found() is not None, PATIENCE), self.sent
            return found()

    def answer(self, name: Any) -> Any:
        return self.until(
            lambda: next((each for each in self.sent if isinstance(each, dict) and each.get("id") == name), None)
        )

    def ask(self, method: str, params: Any = None) -> Any:
        return self.answer(self.begin(method, params))["result"]

    def greet(self, client: str = "claude-code", version: str = "2025-11-25") -> Any:
        info = {"name": client, "version": "1"}
        return self.ask("initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": info})

    def begin_call(self, tool: str, meta: Any = None, **arguments: Any) -> Any:
        return self.begin("tools/call", {"name": tool, "arguments": arguments, **({"_meta": meta} if meta else {})})

    def called(self, name: Any) -> tuple[str, bool]:
        """What a call came to: the text, and whether it failed."""
        result = self.answer(name)["result"]
        (content,) = result["content"]
        assert content["type"] == "text"
        return content["text"], result["isError"]

    def call(self, tool: str, meta: Any = None, **arguments: Any) -> tuple[str, bool]:
        return self.called(self.begin_call(tool, meta, **arguments))

    def edit(self, path: str, old: str, new: str, **more: Any) -> tuple[str, bool]:
        return self.call("propose_edit", files=[{"path": path, "edits": [{"old": old, "new": new}]}], **more)

    def runtime(self) -> OpenWorkspace:
        return open_workspace(self.root, {}, {})
