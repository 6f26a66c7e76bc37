"""Make docs/agents.svg, an animation of three agents and one reviewer: `uv run python docs/moving_picture.py`.

The agents are scripted. Their calls go through `signoff hook`, like the calls of real agents; each frame shows the
app.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from app.demo.demo_server import create_sample_workspace, demo_server
from app.runtime.open_workspace import open_workspace
from app.ui.app import SignoffApp
from app.ui.startup import WorkspaceWithOptions

HERE = Path(__file__).resolve().parent
SECONDS = 4
"""Duration of each frame in seconds."""
COLUMNS, ROWS = 110, 30
EDITS = (
    (
        "claude",
        "Edit",
        {
            "file_path": "tideline/moon.py",
            "old_string": "timedelta(hours=24)",
            "new_string": "timedelta(hours=24, minutes=50)",
        },
        "The lunar day has 50 minutes more than a day, so the moon is late again.",
    ),
    (
        "codex",
        "apply_patch",
        {
            "command": "*** Begin Patch\n*** Update File: tideline/units.py\n@@\n-FEET_PER_METRE = 3.28084\n"
            "+FEET_PER_METRE = 1 / 0.3048\n*** End Patch\n"
        },
        "Feet are exact by definition now; no height on the screen changes.",
    ),
    (
        "gemini",
        "write_file",
        {"file_path": ".gitignore", "content": "__pycache__/\n*.egg-info/\ndist/\n.venv/\n"},
        "Git ignores .venv/ too.",
    ),
)


def propose_edits(root: Path) -> None:
    """Let each agent propose its edit and end its turn, through its hook."""
    for name, tool, arguments, words in EDITS:
        before, after = ("BeforeTool", "AfterAgent") if name == "gemini" else ("PreToolUse", "Stop")
        common = {"session_id": f"{name}-1", "cwd": str(root), "prompt_id": "1"}
        _call_hook(name, {**common, "hook_event_name": before, "tool_name": tool, "tool_input": arguments})
        last_message = {"last_assistant_message": words, "prompt_response": words}
        _call_hook(name, {**common, "hook_event_name": after, **last_message})


def _call_hook(agent: str, payload: dict[str, object]) -> None:
    command = [sys.executable, "-P", "-m", "signoff", "hook", agent]
    subprocess.run(command, input=json.dumps(payload), text=True, capture_output=True, check=False)


def animate(frames: list[str]) -> str:
    """Return an SVG that shows the frames in a loop; the first frame if the reader prefers reduced motion."""
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', frames[0])[0]
    share = 100 / len(frames)
    style = (
        f"@keyframes turn {{ 0%, {share:.3f}% {{ visibility: visible }} {share + 0.001:.3f}%, 100% "
        f"{{ visibility: hidden }} }} .frame {{ visibility: hidden; animation: turn {SECONDS * len(frames)}s "
        "step-end infinite } .frame:first-of-type { visibility: visible } "
        "@media (prefers-reduced-motion: reduce) { .frame { animation: none } }"
    )
    # The fonts are loaded from a URL, which a picture on GitHub can't do.
    plain = [re.sub(r"@font-face \{.*?\}\s*", "", frame, flags=re.DOTALL) for frame in frames]
    parts = [
        f'<g class="frame" style="animation-delay: {number * SECONDS}s">{frame}</g>'
        for number, frame in enumerate(plain)
    ]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"><style>{style}</style>'
    return "\n".join((head, *parts, "</svg>\n"))


async def take_frames() -> list[str]:
    """Decide on the agents' proposals one by one; return a picture of the app before each step."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(SIGNOFF_HOME=f"{folder}/home", TERM="xterm-256color", COLORTERM="truecolor")
        root = create_sample_workspace(Path(folder))
        propose_edits(root)
        async with demo_server() as settings:
            runtime = open_workspace(root, settings, {})

            async def opener() -> WorkspaceWithOptions:
                return WorkspaceWithOptions(runtime, runtime.settings, None, True)

            app, frames = SignoffApp(opener, Path(folder) / "log"), []
            async with app.run_test(size=(COLUMNS, ROWS)) as pilot:
                while app.current_session is None:
                    await pilot.pause(0.1)
                await pilot.pause(3)
                await pilot.press("f4")
                for keys in (["y"], ["r"], [*"keep 3.28084"], ["ctrl+s"], ["y"], []):
                    await pilot.pause(2)
                    frames.append(app.export_screenshot())
                    await pilot.press(*("space" if key == " " else key for key in keys))
            runtime.close()
    return frames


if __name__ == "__main__":
    (HERE / "agents.svg").write_text(animate(asyncio.run(take_frames())), encoding="utf-8")
