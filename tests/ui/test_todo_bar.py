"""The to-do list above the composer: what it shows folded and unfolded, and when it goes."""

from pathlib import Path
from typing import Any

import pytest

from tests.ui.running_app import Running, running
from tests.wire.server import WireServer

HOSTILE = "x[/]y [@click=app.bell]z[/] \x1b]0;owned\x07 \u202egnp"


def todos(*states: str) -> list[dict[str, Any]]:
    return [{"content": f"Step {number}", "status": state} for number, state in enumerate(states, start=1)]


async def keep(run: Running, server: WireServer, listed: list[dict[str, Any]]) -> None:
    server.turn(calls=[("write_todos", {"todos": listed})])
    server.say("Noted.")
    await run.say("go on")


async def test_the_list_is_one_row_unfolds_by_key_and_by_click_and_goes_when_all_is_done(
    tmp_path: Path, server: WireServer
) -> None:
    async with running(tmp_path, server) as run:
        bar = run.app.workbench.chat.todo_bar
        await run.command("todos")
        await run.see("keeps no to-do list")
        await keep(run, server, todos("completed", "in_progress", "pending"))
        await run.see("To do 1/3", "Step 2")
        assert bar.size.height == 1
        assert bar.render().plain == "▸ To do 1/3  Step 2"
        await run.pilot.press("ctrl+o")
        bar.set_max_height(4)
        await run.see("✓ Step 1", "▸ Step 2", "· Step 3")
        await run.pilot.click(bar)
        await run.until(lambda: bar.size.height == 1, "a folded bar")
        await keep(run, server, todos("completed", "completed", "completed"))
        await run.until(lambda: not bar.display, "the bar to go")


async def test_another_session_has_its_own_list_and_a_resumed_one_has_its_list_again(
    tmp_path: Path, server: WireServer
) -> None:
    async with running(tmp_path, server) as run:
        await keep(run, server, todos("pending"))
        await run.see("To do 0/1")
        await run.command("new")
        await run.until(lambda: not run.app.workbench.chat.todo_bar.display, "an empty session")
        await run.command("resume")
        await run.see("To do 0/1", "Step 1")


@pytest.mark.parametrize("size", [(120, 40), (60, 20)])
async def test_a_long_list_shows_what_the_model_is_at_within_a_third_of_the_height(
    tmp_path: Path, server: WireServer, size: tuple[int, int]
) -> None:
    async with running(tmp_path, server, size=size) as run:
        await keep(run, server, todos(*["completed"] * 20, "in_progress", *["pending"] * 20))
        await run.pilot.press("ctrl+o")
        await run.see("▸ Step 21", "more")
        assert run.app.workbench.chat.todo_bar.size.height <= size[1] // 3


async def test_what_the_model_writes_is_shown_as_it_is(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        await keep(run, server, [{"content": HOSTILE, "status": "pending"}])
        await run.see("x[/]y [@click=app.bell]z[/]")
        shown = run.app.workbench.chat.todo_bar.render().plain
        assert "\x1b" not in shown and "\u202e" not in shown
