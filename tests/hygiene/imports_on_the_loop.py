"""A program: starts the app over a folder and prints what was imported on the event loop after the first picture.

A message is typed and sent. The app is without a screen, and its endpoint cannot be reached: it gets as far as to try
again.
"""

import asyncio
import sys
import threading
from contextlib import AsyncExitStack
from pathlib import Path

from app.agent.updates import SessionPhase
from app.cli.app_arguments import AppArguments
from app.cli.open_app import open_workspace_for_app
from app.ui.app import SignoffApp
from app.ui.startup import WorkspaceWithOptions
from tests.waiting import until

AT_REST = ("app.mcp_client.configured_servers", "watchfiles")
"""What is loaded at last, each on a thread of its own, if the user does nothing."""
FOR_A_TURN = (
    *("openai._client", "httpcore2", "markdown_it", "app.ui.review_side", "pygments.lexers.python"),
    "app.sandbox.sandbox",
)
"""The same once the user writes."""


async def imported_on_the_loop(folder: Path) -> list[str]:
    """Modules, in the order in which they were asked for."""
    found: list[str] = []
    watched = False

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if watched and event == "import" and threading.current_thread() is threading.main_thread():
            found.append(str(arguments[0]))

    async def opener() -> WorkspaceWithOptions:
        nonlocal watched
        watched = True
        return await open_workspace_for_app(
            AppArguments(str(folder), base_url="https://127.0.0.1:9/v1", model="none"), stack
        )

    sys.addaudithook(note)
    app = SignoffApp(opener, folder / "log")
    async with AsyncExitStack() as stack, app.run_test() as pilot:
        await app.wait_until_open()
        await until(lambda: set(AT_REST) <= set(sys.modules), "what is loaded last")
        assert not (early := set(FOR_A_TURN) & set(sys.modules)), early
        await pilot.press("h")
        await until(lambda: set(FOR_A_TURN) <= set(sys.modules), "what a turn needs")
        await pilot.press("enter")
        session = app.require_session()
        await until(lambda: session.phase is SessionPhase.RETRYING, "another try")
        await pilot.pause(0)
        watched = False
    return found


if __name__ == "__main__":
    print(*asyncio.run(imported_on_the_loop(Path(sys.argv[1]))))
