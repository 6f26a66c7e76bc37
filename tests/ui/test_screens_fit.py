"""Every screen in a small terminal, whatever the theme and the text: frame, keys and focus are in sight."""

from pathlib import Path

from textual.widgets import OptionList, TextArea

from tests.ui.running_app import Running, running
from tests.wire.bench import FILE, edit
from tests.wire.server import WireServer
from widgets.common.key_hints import WrappedKeyHints

HOSTILE = "x[/]y [@click=app.bell]z[/] [red]r[/] a[0] \x1b]0;owned\x07 \u202egnp [link=https://e]l[/link]"
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


async def test_every_screen_fits_small_terminals_and_shows_hostile_text_as_text(
    tmp_path: Path, server: WireServer
) -> None:
    """Opened in one size, and then in others: half of them shrink, half of them grow."""
    sizes = [(80, 24), (160, 45), (60, 20)]
    async with running(tmp_path, server, size=sizes[0], model=HOSTILE) as run:

        def shows_text() -> bool:
            return "\x1b" not in run.text and "\u202e" not in run.text

        (run.runtime.workspace.root / ".signoff.toml").write_text(f"# {HOSTILE[:20]}\nmodel = {'[/]'!r}\n")
        server.call(*edit(new=f"'{HOSTILE}'", summary=HOSTILE))
        server.say(HOSTILE)
        await run.say("change it")
        run.runtime.sessions.rename(run.app.require_session().id, HOSTILE)
        themes = [name for name in run.app.available_themes if name.startswith("signoff-")] + ["ansi-dark"]
        for number, name in enumerate(SCREENS):
            run.app.theme = themes[number % len(themes)]
            run.app.action_command(name)
            await run.until(lambda: run.app.screen is not run.app.workbench, name)
            await run.painted()
            for size in sizes:
                await run.pilot.resize_terminal(*size)
                assert out_of_sight(run) == [] and shows_text(), (name, size)
            sizes.reverse()
            await run.screen("Workbench", "escape")
        await run.pilot.press("f3")
        await run.until(run.can_decide, "the diff")
        await run.screen("EditProposedFileScreen", "e")
        await run.see("x[/]y", "bidirectional")
        assert shows_text() and "\u202e" in run.app.screen.query_one(TextArea).text
        await run.screen("Workbench", "ctrl+s")
        assert run.proposals[0].revision == 1 and "is yours now" not in run.text
        run.app.notify_user(HOSTILE, problem=True)
        await run.see("x[/]y")
        assert run.file == FILE


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
