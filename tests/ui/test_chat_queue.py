"""Queued messages and folded drafts in the whole app: where they wait, how they come back."""

from pathlib import Path

from textual.events import Paste

from tests.ui.running_app import running
from tests.wire.replies import STALL, chunk, stream
from tests.wire.server import WireServer

BIG = "\n".join(f"line {number}" for number in range(340))


async def test_what_is_queued_can_be_taken_back_while_the_model_works(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        server.script([stream(chunk(text="Well"), STALL)])
        await run.write("hello")
        await run.pilot.press("enter")
        await run.see("Well")
        composer = run.app.workbench.composer
        await run.write("see ")
        composer.editor.post_message(Paste(BIG))
        await run.see("[pasted 340 lines]")
        await run.pilot.press("enter")
        await run.write("and another thing")
        await run.pilot.press("enter")
        await run.see("queued", "↑ takes back")
        await run.pilot.press("up")
        await run.until(lambda: not composer.is_empty, "the messages")
        assert composer.editor.text == "see [pasted 340 lines]\n\nand another thing"
        assert composer.draft == f"see {BIG}\n\nand another thing"
        assert run.app.session().busy, "the model works on"
        assert run.app.session().queue == ()
        await run.pilot.press("escape")
        await run.settled()
        assert len(server.requests) == 1


async def test_a_draft_comes_back_folded_after_a_restart(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        server.say("An answer.")
        await run.say("a question")
        await run.write("see ")
        run.app.workbench.composer.editor.post_message(Paste(BIG))
        await run.see("[pasted 340 lines]")
        await run.write(" ok")
        key = f"draft:{run.app.session().id}"
        await run.until(lambda: ' ok"' in (run.runtime.sessions.setting(key) or ""), "the draft in the store")
    async with running(tmp_path, server, resume=True) as run:
        await run.see("see [pasted 340 lines] ok")
        assert run.app.workbench.composer.draft == f"see {BIG} ok"
