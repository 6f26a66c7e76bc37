"""The way from the first picture to an open session: nothing that the user does meanwhile is lost."""

import asyncio
import contextlib
import gc
import threading
import warnings
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.dom import DOMNode

from app.conversation.events import AssistantMessage, TurnEnded, TurnStarted, UserMessage
from app.runtime.open_workspace import open_workspace
from app.ui.app import SignoffApp
from tests.ui.running_app import Running, running
from tests.wire.replies import Turn
from tests.wire.server import WireServer
from widgets.chat.composer import Composer
from widgets.review.review_messages import DiffsRequested


@contextlib.asynccontextmanager
async def waiting(folder: Path, server: WireServer, **options: Any) -> AsyncIterator[tuple[Running, asyncio.Event]]:
    """An app that shows its first picture and opens its workspace once the event is set."""
    go_on = asyncio.Event()
    async with running(folder, server, go_on=go_on, **options) as run:
        yield run, go_on


def filled(folder: Path) -> str:
    """Put a session into the store; return its id."""
    root = folder / "workspace"
    root.mkdir()
    runtime = open_workspace(root, {}, {})
    record = runtime.sessions.create(model="test-model")
    for number in range(3):
        message, answer = UserMessage(text=f"message {number}"), AssistantMessage(text=f"answer {number}")
        turn = (TurnStarted(cause="message"), message, answer, TurnEnded(stopped="answer"))
        runtime.sessions.append_events(record.id, turn)
    runtime.close()
    return record.id


class Counting(SignoffApp):
    """Counts how often all that is on the screen is styled anew, and the style sheets were read."""

    styled = 0
    read = 0

    def update_styles(self, node: DOMNode, animate: bool = True) -> None:
        self.styled += node is self.workbench
        super().update_styles(node, animate)

    def refresh_css(self, animate: bool = True) -> None:
        self.read += 1
        super().refresh_css(animate)


@pytest.mark.parametrize("size", [(140, 40), (60, 20)])
async def test_the_first_picture_has_no_review(tmp_path: Path, server: WireServer, size: tuple[int, int]) -> None:
    async with waiting(tmp_path, server, size=size, kind=Counting) as (run, _):
        await run.see("Ask for a change")
        assert isinstance(run.app, Counting)
        assert (run.app.styled, run.app.read) == (1, 0), "by Textual, when the screen comes to the front"
        assert not run.app.workbench.query("#parting, #front-review")


async def test_text_typed_while_the_session_opens_is_kept_at_its_place(tmp_path: Path, server: WireServer) -> None:
    filled(tmp_path)
    async with waiting(tmp_path, server, resume=True) as (run, go_on):
        await run.write("one end")
        await run.pilot.press("left", "left", "left")
        go_on.set()
        typed = "one "
        while not run.app.current.workspace_attached.is_set():
            await run.pilot.press("x")
            typed += "x"
        await run.app.wait_until_open()
        await run.write(" two ")
        await run.see("answer 2")
        assert run.app.workbench.composer.draft == f"{typed} two end"


async def test_keys_for_parts_that_are_not_loaded_do_nothing(tmp_path: Path, server: WireServer) -> None:
    async with waiting(tmp_path, server) as (run, go_on):
        bench = run.app.workbench
        bench.show_pane("chat")
        bench.composer.post_message(Composer.PageWanted(1))
        bench.composer.post_message(Composer.PageWanted(-1))
        bench.composer.editor.post_message(events.Paste("/none.png"))
        await run.until(lambda: bench.composer.draft == "/none.png", "what was pasted")
        go_on.set()
        await run.until(lambda: run.app.current_session is not None, "the session")
        assert bench.is_in_composer and bench.composer.draft == "/none.png"


async def test_resizing_during_the_start_works(tmp_path: Path, server: WireServer) -> None:
    filled(tmp_path)
    async with waiting(tmp_path, server, resume=True, size=(80, 24)) as (run, go_on):
        go_on.set()
        sizes = [(200, 50), (60, 20), (111, 30), (109, 30)]
        while not run.app.current.workspace_attached.is_set():
            await run.pilot.resize_terminal(*sizes[0])
            sizes.append(sizes.pop(0))
        await run.app.wait_until_open()
        await run.pilot.resize_terminal(120, 40)
        await run.see("answer 2")
        workbench = run.app.workbench
        await run.until(lambda: workbench.chat.region.width == 120, "the whole width for the chat, as nothing waits")
        assert workbench.chat.region.x == 0
        await run.pilot.press("f4")
        await run.see("answer 2", "Nothing waits for you.")
        assert workbench.chat.region.width + workbench.review.region.width == 119
        assert workbench.review.region.right == 120


async def test_quitting_works_while_the_session_opens(tmp_path: Path, server: WireServer) -> None:
    async with waiting(tmp_path, server) as (run, go_on):
        go_on.set()
        await run.pilot.press("ctrl+q")
        assert run.app.failure is None


async def test_a_damaged_session_ends_the_app_with_one_line(tmp_path: Path, server: WireServer) -> None:
    session = filled(tmp_path)
    async with waiting(tmp_path, server, resume=True) as (run, go_on):
        with run.runtime.database.transaction() as connection:
            connection.execute("UPDATE events SET body = '{' WHERE id = (SELECT max(id) FROM events)")
        go_on.set()
        await run.until(lambda: run.app.failure is not None, "the failure")
        assert session in str(run.app.failure) and len(str(run.app.failure).splitlines()) == 1


async def test_a_damaged_proposal_does_not_stop_the_session_from_opening(tmp_path: Path, server: WireServer) -> None:
    filled(tmp_path)
    async with waiting(tmp_path, server, resume=True) as (run, go_on):
        with run.runtime.database.transaction() as connection:
            connection.execute(
                "INSERT INTO proposals (workspace, number, session, state, waiting, created, body)"
                " VALUES (?, 1, '', 'pending', 1, 0, '{')",
                (run.runtime.sessions.workspace,),
            )
        go_on.set()
        await run.see("A proposal of this workspace cannot be read")
        run.app.clear_notifications()
        await run.see("answer 2")
        await run.until(lambda: run.app.current_session is not None, "the session")


async def test_a_review_key_works_during_the_start_and_a_replaced_task_is_closed(
    tmp_path: Path, server: WireServer
) -> None:
    async with waiting(tmp_path, server) as (run, go_on):
        run.app.workbench.show_pane("approvals")
        go_on.set()
        await run.until(lambda: run.reviewed and run.app.workbench.is_in_review, "the approvals")
        await run.app.wait_until_open()
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for _ in range(3):
                run.app.workbench.review.post_message(DiffsRequested("P1"))
            await run.pilot.pause()
            gc.collect()
            await run.pilot.pause()
        assert not [one.message for one in said if "never awaited" in str(one.message)]


@pytest.mark.parametrize("earlier", ["", "what was written in an earlier run"])
async def test_sent_text_does_not_return_as_draft_while_the_old_draft_loads(
    tmp_path: Path, server: WireServer, monkeypatch: pytest.MonkeyPatch, earlier: str
) -> None:
    session = filled(tmp_path)
    server.always(Turn("An answer."))
    steps = {name: (asyncio.Event(), threading.Event()) for name in ("sent_messages", "setting")}

    async with waiting(tmp_path, server, resume=True) as (run, go_on):
        store, loop = run.runtime.sessions, asyncio.get_running_loop()
        store.set_setting(f"draft:{session}", earlier or None)

        def slow(name: str, read: Callable[..., Any]) -> Callable[..., Any]:
            def reading(*arguments: Any, **named: Any) -> Any:
                found = read(*arguments, **named)
                if name != "setting" or str(arguments[0]).startswith("draft:"):
                    reached, further = steps[name]
                    loop.call_soon_threadsafe(reached.set)
                    further.wait(30)
                return found

            return reading

        for name in steps:
            monkeypatch.setattr(store, name, slow(name, getattr(store, name)))
        go_on.set()
        await steps["sent_messages"][0].wait()
        await run.write("m")
        await run.app.current.host.drafts.flush()
        steps["sent_messages"][1].set()
        await steps["setting"][0].wait()
        await run.write("7")
        await run.pilot.press("enter")
        await run.until(lambda: run.app.workbench.composer.draft == "", "the message taken")
        steps["setting"][1].set()
        await run.app.wait_until_open()
        await run.until(lambda: any("m7" in str(each.messages) for each in server.requests), "the message sent")
        assert run.app.workbench.composer.draft == ""
        for wanted in ("m7", earlier or "message 2"):
            await run.pilot.press("up")
            assert run.app.workbench.composer.draft == wanted


async def test_what_is_sent_during_the_start_arrives_once_in_order(tmp_path: Path, server: WireServer) -> None:
    filled(tmp_path)
    server.always(Turn("An answer."))
    async with waiting(tmp_path, server, resume=True) as (run, go_on):
        await run.write("/rename Early")
        await run.pilot.press("enter")
        go_on.set()
        sent = 0
        while not run.app.current.workspace_attached.is_set():
            # As a terminal hands them on: without a pause, and without waiting for what they do.
            for key in (*f"m{sent}", "comma", "enter"):
                run.app.post_message(events.Key(key, "," if key == "comma" else key if len(key) == 1 else None))
            sent += 1
            await asyncio.sleep(0.01)
        await run.app.wait_until_open()

        def arrived() -> str:
            return "".join(
                event.text for event in run.app.require_session().log.events if isinstance(event, UserMessage)
            ).partition("message 2")[2]

        wanted = "".join(f"m{number}," for number in range(sent))
        await run.until(lambda: arrived().replace("\n", "") == wanted, f"{wanted} in the log")
        assert run.app.workbench.composer.draft == ""
        await run.until(lambda: run.runtime.sessions.all()[0].title == "Early", "the title")
