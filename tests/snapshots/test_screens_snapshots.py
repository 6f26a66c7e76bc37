"""Pictures of the app before anything was said, and of the dialogs whose content is signoff's own."""

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from app.main import SignoffApp
from app.opened import Opened
from app.runtime import open_runtime

SIZES = pytest.mark.parametrize("size", [(80, 24), (160, 45)], ids=["80x24", "160x45"])
THEMES = pytest.mark.parametrize("theme", ["signoff-dark", "signoff-light"])


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Makes an app in an empty workspace, with an endpoint that is never asked."""
    monkeypatch.setenv("SIGNOFF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    root = tmp_path / "workspace"
    root.mkdir()

    def made(theme: str) -> SignoffApp:
        flags = {"base_url": "http://127.0.0.1:9/v1", "model": "a-model", "api_key": "key", "theme": theme}
        runtime = open_runtime(root, flags, {})

        async def opener() -> Opened:
            return Opened(runtime, runtime.settings)

        return SignoffApp(opener, runtime.places.log)

    return made


async def opened(pilot: Pilot[Any]) -> SignoffApp:
    """Wait until the session is open; nothing has the focus, so no cursor blinks."""
    app = pilot.app
    assert isinstance(app, SignoffApp)
    for _ in range(200):
        narrow = app.size.width < 110
        if app.current_session is not None and (narrow or "waits&#160;for&#160;you" in app.export_screenshot()):
            break
        await pilot.pause(0.05)
    app.set_focus(None)
    await pilot.pause(0.2)
    return app


@SIZES
@THEMES
def test_an_empty_session(snap_compare: Any, make: Any, theme: str, size: tuple[int, int]) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        await opened(pilot)

    assert snap_compare(make(theme), run_before=before, terminal_size=size)


@SIZES
@THEMES
@pytest.mark.parametrize("command", ["help", "gate", "theme"])
def test_a_dialog(snap_compare: Any, make: Any, command: str, theme: str, size: tuple[int, int]) -> None:
    async def before(pilot: Pilot[Any]) -> None:
        app = await opened(pilot)
        app.action_command(command)
        for _ in range(100):
            if app.screen is not app.workbench:
                break
            await pilot.pause(0.05)
        await pilot.pause(0.2)
        app.set_focus(None)
        await pilot.pause(0.1)

    assert snap_compare(make(theme), run_before=before, terminal_size=size)
