"""A session that says more than the screen can show: keys come before it."""

import asyncio
import threading
from pathlib import Path

import pytest
import textual.screen
from textual import events
from textual.widgets import Static

from app.agent.updates import EventRecorded, ProposalsChanged, TextStreamed
from app.conversation.events import AssistantMessage
from tests.ui.running_app import running
from tests.ui.screen_text import screen_text
from tests.wire.replies import DONE, chunk, stream
from tests.wire.server import WireServer
from widgets.chat import chat_pane


async def test_a_key_is_not_queued_behind_streamed_text(tmp_path: Path, server: WireServer) -> None:
    deltas = [chunk(f"word {number} ") for number in range(1000)]
    server.script([stream(*deltas, chunk(finish="stop"), DONE)])
    queues: list[int] = []

    async def watch() -> None:
        while True:
            queues.append(run.app.message_queue_size)
            await asyncio.sleep(0)

    async with running(tmp_path, server) as run:
        (painting,) = [timer for timer in run.app.workbench._timers if timer.name == "screen_update"]
        # Textual paints at beats, and leaves one out after a pause; a key just after a picture would wait for two.
        assert painting._interval == pytest.approx(textual.screen.UPDATE_PERIOD / 2)
        watching = asyncio.create_task(watch())
        await run.say("pour")
        await run.see("word 999")
        watching.cancel()
    # A key would stand at the end of this queue.
    assert max(queues) < 20


class Slow(Static, can_focus=True):
    """A widget that takes its time over a key."""

    shown = ""

    async def on_key(self, event: events.Key) -> None:
        event.stop()
        await asyncio.sleep(0.3)
        self.shown = screen_text(self.app)


async def test_keys_are_handled_before_streamed_text(
    tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_pane, "_MAX_TYPING_DELAY_SECONDS", 60.0)
    async with running(tmp_path, server) as run:
        slow = Slow()
        await run.app.workbench.mount(slow)
        run.app.workbench.set_focus(slow)
        run.app.post_message(events.Key("w", "w"))
        await run.until(lambda: run.app.input.current_event is not None)
        run.app.workbench.chat.apply_update(TextStreamed("poured"))
        await run.see("poured")
    assert slow.shown
    assert "poured" not in slow.shown


async def test_a_key_is_handled_before_storing_and_late_updates_are_dropped(
    tmp_path: Path, server: WireServer
) -> None:
    async with running(tmp_path, server) as run:
        await run.app.wait_until_open()
        held, release = threading.Event(), threading.Event()

        def write_slowly() -> None:
            with run.runtime.database.transaction():
                held.set()
                release.wait()

        writing = asyncio.create_task(asyncio.to_thread(write_slowly))
        await asyncio.to_thread(held.wait)
        try:
            run.app._update_buffer.put(ProposalsChanged(("P1",)))
            run.app._update_buffer.put(EventRecorded(AssistantMessage(id=1000, text="said later")))
            await run.write("hi")
            await run.see("❯ hi")
            assert "said later" not in run.text
        finally:
            release.set()
            await writing
        await run.see("said later")
        # Late updates do not appear in the next session.
        for number in range(1500):
            run.app._update_buffer.put(EventRecorded(AssistantMessage(id=1000 + number, text=f"stray {number}")))
        await run.app._chat.open_session(None)
        await run.until(lambda: not run.app.message_queue_size)
        await run.app._update_buffer.wait_until_empty()
        assert "stray" not in run.text
        assert not run.app.workbench.chat.transcript.entries
