"""Vim's keys on the screen: in the composer and where a proposed text is edited."""

from pathlib import Path

from textual.events import Paste

from tests.ui.running_app import running
from tests.wire.bench import edit, of_role
from tests.wire.replies import STALL, Turn, chunk, stream
from tests.wire.server import WireServer
from widgets.diff.code_editor import CodeEditor


async def test_vim_keys_are_off_until_enabled(tmp_path: Path, home: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        await run.write("dw")
        await run.pilot.press("escape")
        await run.write("x")
        assert run.app.workbench.composer.draft == "dwx"
        await run.command("vim on")
        await run.see("Escape goes to normal mode", "─ INSERT ─")
        assert "vim = true" in (home / "config/config.toml").read_text()
        await run.write("one two")
        await run.pilot.press("escape")
        await run.see("NORMAL")
        await run.pilot.press("b", "2")
        await run.see("NORMAL 2")
        await run.pilot.press("x")
        assert run.app.workbench.composer.draft == "one o"
        await run.pilot.press("u", "0", "c", "w", *"three", "escape", "v", "b")
        await run.see("VISUAL")
        await run.pilot.press("h", "l", "d")
        assert run.app.workbench.composer.draft == "t two"
        await run.pilot.press("u", "v", "e")
        await run.pilot.press("escape", "u", "ctrl+r")
        assert run.app.workbench.composer.draft == "three two"
        await run.command("vim off")
        await run.until(lambda: run.app.workbench.composer.editor.vim is None, "no keys")
        assert "NORMAL" not in run.text and "INSERT" not in run.text


async def test_vim_mode_keeps_the_keys_of_search_history_and_sending(tmp_path: Path, server: WireServer) -> None:
    server.script([Turn("Fine."), Turn("Fine."), Turn("Fine."), stream(chunk(text="Well"), STALL)])
    async with running(tmp_path, server, vim=True) as run:
        # A search sends nothing and says what is not there.
        await run.write("one two one")
        await run.pilot.press("escape", "0")
        await run.write("/tw")
        await run.see("NORMAL /tw")
        assert not run.app.workbench.composer.popup.is_open
        await run.pilot.press("enter")
        assert run.app.workbench.composer.editor.cursor_location == (0, 4)
        await run.write("/zz")
        await run.pilot.press("enter")
        await run.see("NORMAL no “zz” here")
        assert server.requests == []
        await run.pilot.press("enter")
        await run.until(lambda: run.turns == 1, "the message")
        # Lists history and pastes keep their keys.
        await run.say("first message")
        composer = run.app.workbench.composer
        await run.write("/wi")
        await run.see("› /wire")
        await run.pilot.press("escape")
        assert not composer.popup.is_open and "NORMAL" not in run.text, "the list goes first"
        await run.pilot.press("escape", "d", "d", "k")
        assert composer.draft == "first message"
        await run.pilot.press("d", "d", "i")
        await run.write("see ")
        composer.editor.post_message(Paste("\n".join(map(str, range(50)))))
        await run.see("[pasted 50 lines]")
        await run.pilot.press("escape", "x")
        assert "pasted" not in composer.editor.text, "never half a paste"
        await run.pilot.press("u")
        assert composer.draft.endswith("48\n49")
        # Undo does not go back beyond a recalled message.
        composer.draft = ""
        await run.say("first message")
        await run.write("draft")
        await run.pilot.press("escape", "x", "k")
        assert composer.draft == "first message"
        await run.pilot.press("u")
        assert composer.draft == "first message"
        # Enter sends and escape interrupts.
        composer.draft = ""
        await run.pilot.press("i")
        await run.write("hello there")
        await run.pilot.press("escape", "d", "b", "enter")
        await run.see("Well")
        assert of_role(server.last, "user")[-1] == "hello e"
        await run.write("typed at once")
        assert run.app.workbench.composer.draft == "typed at once", "the next message begins in insert mode"
        await run.pilot.press("escape")
        assert run.app.require_session().is_busy, "from insert to normal mode"
        await run.pilot.press("escape")
        await run.settled()
        assert run.app.require_session().log.events[-1].type == "turn_ended"


async def test_the_edit_screen_has_vim_keys(tmp_path: Path, server: WireServer) -> None:
    server.turn(calls=[edit()])
    server.say("Have a look.")
    async with running(tmp_path, server, vim=True) as run:
        await run.say("Go")
        await run.review()
        await run.screen("EditProposedFileScreen", "e")
        await run.see("NORMAL")
        area = run.app.screen.query_one(CodeEditor)
        await run.pilot.press("g", "g", "d", "w", "A", "#", "escape")
        assert area.text.startswith("greet(name):#\n")
        assert type(run.app.screen).__name__ == "EditProposedFileScreen"
        await run.pilot.press("u", "u")
        assert area.text.startswith("def greet(name):\n")
        await run.pilot.press(*"/return", "enter")
        assert area.cursor_location == (1, 4)
        await run.pilot.press("escape")
        await run.until(lambda: type(run.app.screen).__name__ != "EditProposedFileScreen", "the workbench")
