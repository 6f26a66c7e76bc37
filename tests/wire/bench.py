"""A whole session over the tests' server: the real loop, client, tools, service and store, and no screen."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from app.agent.session import Session
from app.agent.updates import PermissionRequested, Update
from app.conversation.events import Event, TurnEnded
from app.llm.failures.request_errors import RetryPolicy
from app.llm.transport import Timeouts
from app.runtime.model_connection import connect_model, create_or_resume_session
from app.runtime.open_workspace import OpenWorkspace, open_workspace
from app.tools.base.contract import PermissionAnswer
from tests.oracles.reading import VIOLATIONS
from tests.waiting import MAX_WAIT_SECONDS
from tests.wire.endpoints import CLOSING_SILENT
from tests.wire.server import Request, WireServer

FILE = "def greet(name):\n    return 'Hello ' + name\n"

TIMEOUTS = Timeouts(closing=MAX_WAIT_SECONDS)
"""A busy machine may be slow to answer."""
GIVEN_UP_SOON = Timeouts(closing=0.3)
"""For an endpoint that is silent."""
SOON = RetryPolicy(base=0.05, busy_base=0.05)
"""The standard policy without its long gaps."""


class Bench:
    """A workspace with one file, a session in it, and what its requests said."""

    def __init__(self, runtime: OpenWorkspace, session: Session, server: WireServer) -> None:
        self.runtime = runtime
        self.session = session
        self.server = server
        self.updates: list[Update] = []
        session.subscribe(self.updates.append)

    @property
    def root(self) -> Path:
        return self.runtime.workspace.root

    @property
    def file(self) -> str:
        return (self.root / "greet.py").read_text()

    @property
    def events(self) -> list[Event]:
        return list(self.session.log.events)

    @property
    def stopped(self) -> str:
        return next(event.stopped for event in reversed(self.events) if isinstance(event, TurnEnded))

    async def say(self, text: str, *steps: Any, last: str = "") -> None:
        """Send a message and wait until control is back.

        Args:
            text: the message.
            steps: calls that the model makes first; each is a response, a list is one response of several calls.
            last: its last response, by default "Done." if it makes calls; without both, the server is not scripted.
        """
        for step in steps:
            self.server.turn(calls=step if isinstance(step, list) else [step])
        if steps or last:
            self.server.say(last or "Done.")
        await self.settled(self.session.send(text))

    def at(self, kind: type[Any], act: Callable[[Any], object]) -> None:
        """Act at each update of this class, and as each event of this class is recorded."""

        def take(update: Update) -> None:
            for one in (update, getattr(update, "event", None)):
                if isinstance(one, kind):
                    act(one)

        self.session.subscribe(take)

    def allow_everything(self) -> None:
        """Answer each permission request with yes."""
        allowed = PermissionAnswer(allowed=True)
        self.at(PermissionRequested, lambda asked: self.session.answer_permission_request(asked.key, allowed))

    async def settled(self, action: Awaitable[object]) -> None:
        """Let the user do something and wait until control is back."""
        await action
        await self.session.wait_until_idle()

    def check(self) -> None:
        """Every request so far had a valid history."""
        for request in self.server.requests:
            found = VIOLATIONS[request.wire](request.body)
            assert found == []


@contextlib.asynccontextmanager
async def bench(
    server: WireServer,
    folder: Path,
    *,
    retry: RetryPolicy = SOON,
    attended: bool = True,
    template_checked: bool = False,
    **settings: Any,
) -> AsyncIterator[Bench]:
    """Open a workspace below `folder` on the server; the settings are those of the configuration.

    The server is asked for its chat template only if a test wants that: it takes as many requests as a turn.
    """
    root = folder / "workspace"
    if not root.exists():
        root.mkdir()
        (root / "greet.py").write_text(FILE)
    flags = {"base_url": server.base_url, "model": "test-model", "api_key": "key", **settings}
    runtime = open_workspace(root, flags, {})
    timeouts = GIVEN_UP_SOON if server.behaviour is CLOSING_SILENT else TIMEOUTS
    model = connect_model(runtime, timeouts=timeouts, retry=retry)
    if not template_checked:
        model._trials = None
    session = create_or_resume_session(runtime, model, runtime.sessions.latest(), attended=attended)
    try:
        yield Bench(runtime, session, server)
    finally:
        await session.close()
        await model.aclose()
        runtime.close()


def edit(old: str = "'Hello '", new: str = "'Hi '", **more: Any) -> tuple[str, dict[str, Any]]:
    return ("edit_file", {"path": "greet.py", "edits": [{"old": old, "new": new}], **more})


def of_role(request: Request, role: str) -> list[str]:
    return [text for speaker, text in request.said if speaker == role]
