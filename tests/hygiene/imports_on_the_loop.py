"""A program: starts the app over a folder and prints what was imported on the event loop after the first picture.

The app is without a screen, and its endpoint cannot be reached: it gets as far as it gets without a request.
"""

import asyncio
import sys
import threading
from contextlib import AsyncExitStack
from pathlib import Path

from app.cli.arguments import AppArguments
from app.cli.open_app import _open
from app.ui.app import SignoffApp
from app.ui.start import Opened
from tests.waiting import until

LAST = ("openai._client", "app.servers.known")
"""What is loaded at last, each on a thread of its own."""


async def imported_on_the_loop(folder: Path) -> list[str]:
    """Modules, in the order in which they were asked for."""
    found: list[str] = []
    watched = False

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if watched and event == "import" and threading.current_thread() is threading.main_thread():
            found.append(str(arguments[0]))

    async def opener() -> Opened:
        nonlocal watched
        watched = True
        return await _open(AppArguments(str(folder), base_url="https://127.0.0.1:9/v1", model="none"), stack)

    sys.addaudithook(note)
    app = SignoffApp(opener, folder / "log")
    async with AsyncExitStack() as stack, app.run_test() as pilot:
        await app.opened()
        await until(lambda: set(LAST) <= set(sys.modules), "what is loaded last")
        await pilot.pause(0)
        watched = False
    return found


if __name__ == "__main__":
    print(*asyncio.run(imported_on_the_loop(Path(sys.argv[1]))))
