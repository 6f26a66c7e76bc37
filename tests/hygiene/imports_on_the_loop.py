"""A program: starts the app in a folder and prints the modules that the event loop imports after the first frame.

It types a message and sends it. The app has no screen, and its endpoint cannot be reached: the turn ends with a
retry.
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

LOADED_WHEN_IDLE = ("app.mcp_client.configured_servers", "watchfiles")
"""Modules that threads load last, one after the other, if the user does nothing."""
LOADED_FOR_A_TURN = (
    *("openai._client", "httpcore2", "markdown_it", "app.ui.review_area", "pygments.lexers.python"),
    "app.sandbox.sandbox",
)
"""Modules that threads load when the user begins to write."""


async def imports_on_the_loop(folder: Path) -> list[str]:
    """Return the modules in import order."""
    imported: list[str] = []
    is_recording = False

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if is_recording and event == "import" and threading.current_thread() is threading.main_thread():
            imported.append(str(arguments[0]))

    async def opener() -> WorkspaceWithOptions:
        nonlocal is_recording
        is_recording = True
        return await open_workspace_for_app(
            AppArguments(str(folder), base_url="https://127.0.0.1:9/v1", model="none"), stack
        )

    sys.addaudithook(note)
    app = SignoffApp(opener, folder / "log")
    async with AsyncExitStack() as stack, app.run_test() as pilot:
        await app.wait_until_open()
        await until(lambda: set(LOADED_WHEN_IDLE) <= set(sys.modules), "the modules that are loaded last")
        assert not (early := set(LOADED_FOR_A_TURN) & set(sys.modules)), early
        await pilot.press("h")
        await until(lambda: set(LOADED_FOR_A_TURN) <= set(sys.modules), "the modules of a turn")
        await pilot.press("enter")
        session = app.require_session()
        await until(lambda: session.phase is SessionPhase.RETRYING, "a retry")
        await pilot.pause(0)
        is_recording = False
    return imported


if __name__ == "__main__":
    print(*asyncio.run(imports_on_the_loop(Path(sys.argv[1]))))
