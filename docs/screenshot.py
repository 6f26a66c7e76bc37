"""Make docs/screenshot.svg from the demo: `uv run python docs/screenshot.py [THEME [COLUMNSxROWS [FILE]]]`."""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from app.agent.updates import SessionPhase
from app.demo.demo_server import create_sample_workspace, demo_server
from app.runtime.open_workspace import open_workspace
from app.ui.app import SignoffApp
from app.ui.startup import WorkspaceWithOptions

HERE = Path(__file__).resolve().parent


async def main(theme: str = "signoff-dark", size: str = "160x45", file: str = str(HERE / "screenshot.svg")) -> None:
    """Ask the demo model for its fix, and take the screenshot when its turn has ended."""
    columns, rows = (int(part) for part in size.split("x"))
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(SIGNOFF_HOME=f"{folder}/home", TERM="xterm-256color", COLORTERM="truecolor")
        root = create_sample_workspace(Path(folder))
        async with demo_server() as settings:
            runtime = open_workspace(root, {**settings, "theme": theme}, {})

            async def opener() -> WorkspaceWithOptions:
                return WorkspaceWithOptions(runtime, runtime.settings, None, True)

            app = SignoffApp(opener, Path(folder) / "log")
            async with app.run_test(size=(columns, rows)) as pilot:
                await pilot.pause()
                for key in "fix the failing tests":
                    await pilot.press("space" if key == " " else key)
                await pilot.press("enter")
                while app.current_session is None or not app.current_session.gate.is_closed:
                    await pilot.pause(0.1)
                while app.current_session.phase is not SessionPhase.IDLE:
                    await pilot.pause(0.1)
                await pilot.press("f3")
                await pilot.pause(1.0)
                app.save_screenshot(file)
            runtime.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
