"""Every screen in a small terminal, whatever the theme: its frame, its keys and what holds the focus are in sight."""

from pathlib import Path

from textual.widgets import OptionList

from tests.ui.running_app import Running, running, stage
from tests.wire.server import WireServer
from widgets.common.key_hints import WrappedKeyHints

SCREENS = ("sessions", "wire", "model", "settings", "trust", "doctor", "theme", "gate", "help")


def out_of_sight(run: Running) -> list[str]:
    """What should be wholly on the screen and is not."""
    screen = run.app.screen
    dialog, hints = screen.query_one("#dialog"), screen.query_one(WrappedKeyHints)
    needed = {"the dialog": dialog, "its keys": hints} | ({"the focus": screen.focused} if screen.focused else {})
    return [
        f"{what} {widget.region} of {screen.size}"
        for what, widget in needed.items()
        if not widget.region or not screen.region.contains_region(widget.region)
    ]


async def test_every_screen_fits_small_terminals(tmp_path: Path, server: WireServer) -> None:
    """Opened in one size, and then in the other: half of them shrink, half of them grow."""
    sizes = [(80, 24), (60, 20)]
    async with running(tmp_path, server, size=sizes[0]) as run:
        (run.runtime.workspace.root / ".signoff.toml").write_text('model = "other"\n')
        await stage(run, server)
        themes = [name for name in run.app.available_themes if name.startswith("signoff-")] + ["ansi-dark"]
        for number, name in enumerate(SCREENS):
            run.app.theme = themes[number % len(themes)]
            run.app.action_command(name)
            await run.until(lambda: run.app.screen is not run.app.workbench, name)
            await run.pilot.pause()
            assert out_of_sight(run) == [], (name, sizes[0])
            sizes.reverse()
            await run.pilot.resize_terminal(*sizes[0])
            assert out_of_sight(run) == [], (name, sizes[0])
            await run.pilot.press("escape")
            await run.screen("Workbench")


async def test_each_setting_has_one_row(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server, size=(80, 45)) as run:
        run.app.action_command("settings")
        await run.screen("SettingsScreen")
        options = run.app.screen.query_one(OptionList)
        for width in (80, 100, 101, 160):
            await run.pilot.resize_terminal(width, 45)
            assert options.virtual_size.height == options.option_count
            lines = (line for line in run.text.split("\n") if "Base URL" not in line)
            assert [line for line in lines if "…" in line.replace("list …", "")] == []
