"""Queued messages and folded drafts in the whole app: where they wait, how they come back."""

from pathlib import Path

import pytest
from textual.events import Paste

from tests.ui.running_app import running
from tests.ui.sample_diffs import proposal, retry_change
from tests.wire.replies import STALL, chunk, stream
from tests.wire.server import WireServer

BIG = "\n".join(f"line {number}" for number in range(340))


async def test_queued_messages_can_be_recalled_during_a_turn(tmp_path: Path, server: WireServer) -> None:
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
        await run.write("x")
        await run.until(lambda: "takes back" not in run.text, "no key that works only in the empty composer")
        await run.pilot.press("backspace")
        await run.see("↑ takes back")
        await run.pilot.press("up")
        await run.until(lambda: not composer.is_empty, "the messages")
        assert composer.editor.text == "see [pasted 340 lines]\n\nand another thing"
        assert composer.draft == f"see {BIG}\n\nand another thing"
        assert run.app.require_session().is_busy, "the model works on"
        assert run.app.require_session().queue == ()
        await run.pilot.press("escape")
        await run.settled()
        assert len(server.requests) == 1


@pytest.mark.parametrize("way", ["another session", "a restart"])
async def test_queued_messages_survive_closing_the_session(tmp_path: Path, server: WireServer, way: str) -> None:
    server.script([stream(chunk(text="Well"), STALL)])
    async with running(tmp_path, server) as run:
        await run.write("hello")
        await run.pilot.press("enter")
        await run.see("Well")
        await run.write("and another thing")
        await run.pilot.press("enter")
        await run.see("queued")
        if way == "another session":
            await run.command("new", "ConfirmScreen")
            await run.pilot.press("y")
            await run.until(lambda: not run.app.require_session().log.events, "the new session")
            assert run.app.workbench.composer.is_empty
            await run.command("resume")
            await run.see("Well", "and another thing")
            assert run.app.workbench.composer.draft == "and another thing"
            # Now it is in the draft, which is kept: it is not to come back twice.
            await run.until(lambda: run.app.require_session().log.events[-1].type == "queue_taken", "the record")
    async with running(tmp_path, server, resume=True) as run:
        await run.until(lambda: not run.app.workbench.composer.is_empty, "the message")
        assert run.app.workbench.composer.draft == "and another thing"
        assert len(server.requests) == 1, "nothing is sent by itself"


async def test_a_session_that_is_open_elsewhere_is_followed(tmp_path: Path, server: WireServer) -> None:
    server.say("Good day.")
    async with running(tmp_path, server) as first:
        await first.say("hello")
        async with running(tmp_path, server, resume=True) as second:
            await second.see("open in another window")
            second.app.clear_notifications()
            await second.see("Good day.")
            await second.write("me too")
            await second.pilot.press("enter")
            await second.see("which alone can")
            assert second.app.workbench.composer.draft == "me too", "the words are not lost"
            await second.pilot.press("f4")
            await second.until(lambda: second.app.controllers.review is not None, "the review")
            assert second.app.controllers.review is not None
            after_decision = second.app.controllers.review.actions.after_decision
            goes_on = await after_decision.continue_if_wanted(proposal("P1", retry_change()), is_requested=True)
            assert goes_on == " Let the model go on in the window that has this session open."
            await second.pilot.press("f2")
            assert len(server.requests) == 1
            second.app.workbench.composer.draft = ""
            second.app.clear_notifications()
            await second.command("fork")
            await second.see("This is a copy")
            assert not second.app.require_session().is_follower


async def test_leaving_a_session_during_a_turn_needs_confirmation(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        server.say("Good day.")
        await run.say("an earlier question")
        await run.command("new")
        await run.until(
            lambda: run.app.current_session and not run.app.require_session().log.events, "the new session"
        )

        async def answer(command: str, key: str) -> None:
            session = run.app.require_session()
            await run.command(command)
            if command == "sessions":
                await run.screen("SessionPickerScreen")
                await run.write("earlier")
                await run.pilot.press("enter")
            await run.screen("ConfirmScreen")
            assert run.app.require_session() is session and session.is_busy
            await run.screen("Workbench", key)

        for command in ("sessions", "resume", "new", "fork"):
            server.script([stream(chunk(text=f"Well, {command}"), STALL)])
            await run.submit("hello")
            await run.see(f"Well, {command}")
            session = run.app.require_session()
            await answer(command, "n")
            assert run.app.require_session() is session and session.is_busy, "nothing happened"
            await answer(command, "y")
            await run.until(lambda session=session: run.app.current_session not in (None, session))  # type: ignore[misc]
            assert not session.is_busy
        await run.see("This is a copy")
