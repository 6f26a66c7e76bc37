"""The status bar and the to-do list: who is waited for comes first, and nothing is ever cut in two."""

import re
from pathlib import Path
from typing import Any

from textual.app import App, ComposeResult

from app.conversation.token_totals import TokenTotals
from tests.ui.running_app import Running, running
from tests.wire.server import WireServer
from widgets.common.workbench_bars import StatusBar, StatusValues

PARTS = {
    "The model needs your permission  F4",
    "○ model may act",
    "12 proposals waiting",
    "qwen3-coder-480b-instruct high",
    "policy chain 2/3",
    "12.3k in (8.1k cached), 940 out",
    "$1.200",
    "context 63 %",
    "3 proposals denied in a row",
    "⎇ feature/long-name",
}
FULL = StatusValues(
    model="qwen3-coder-480b-instruct",
    effort="high",
    gate_closed=False,
    policy="chain 2/3",
    waiting=12,
    context_tokens=5_700,
    context_window=9_000,
    spent=TokenTotals(12_340, 8_100, 940, 1.2),
    branch="feature/long-name",
    denials=3,
    asks="permission",
    answer_key="F4",
)


class Bar(App[None]):
    def compose(self) -> ComposeResult:
        yield StatusBar()


async def test_status_bar_parts_are_complete_or_left_out_at_every_width() -> None:
    app = Bar()
    shown: set[str] = set()
    async with app.run_test(size=(280, 3)) as pilot:
        bar = app.query_one(StatusBar)
        bar.status = FULL
        for width in range(280, 37, -9):
            await pilot.resize_terminal(width, 3)
            text = bar.render().plain
            assert len(text) <= width - 2
            parts = {part.strip() for part in re.split(r"  ·  |\s{3,}", text) if part.strip()}
            assert parts <= PARTS | {"The model needs your permission"}
            assert shown or parts == PARTS, "there is room for all of them"
            shown |= parts
        await pilot.resize_terminal(40, 3)
        assert bar.render().plain.strip() == "The model needs your permission  F4", "who is waited for goes last"


async def test_the_status_bar_starts_with_what_waits_and_shows_no_gate_before_it_is_known() -> None:
    app = Bar()
    async with app.run_test(size=(120, 3)) as pilot:
        bar = app.query_one(StatusBar)
        for asks, words in (("permission", "needs your permission"), ("question", "asks you")):
            bar.status = StatusValues(model="m", gate_closed=True, waiting=1, asks=asks, answer_key="F2")  # type: ignore[arg-type]
            await pilot.pause()
            assert bar.render().plain.startswith(f" The model {words}  F2  ·  ● model must wait")
        bar.status = StatusValues(model="m")
        assert "model may act" not in bar.render().plain and "model must wait" not in bar.render().plain
        bar.status = StatusValues(model="m", gate_closed=True, follows=True)
        assert "open in another window" in bar.render().plain
        assert "model must wait" in bar.render().plain


HOSTILE = "x[/]y [@click=app.bell]z[/] \x1b]0;owned\x07 \u202egnp"


def todos(*states: str) -> list[dict[str, Any]]:
    return [{"content": f"Step {number}", "status": state} for number, state in enumerate(states, start=1)]


async def keep(run: Running, server: WireServer, listed: list[dict[str, Any]]) -> None:
    server.turn(calls=[("write_todos", {"todos": listed})])
    server.say("Noted.")
    await run.say("go on")


async def test_the_todo_list_unfolds_and_each_session_has_its_own(tmp_path: Path, server: WireServer) -> None:
    async with running(tmp_path, server) as run:
        bar = run.app.workbench.chat.todo_bar
        await run.command("todos")
        await run.see("There is no to-do list")
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
        # Each session has its own list.
        await keep(run, server, todos("pending"))
        await run.see("To do 0/1")
        await run.command("new")
        await run.until(lambda: not run.app.workbench.chat.todo_bar.display, "an empty session")
        await run.command("resume")
        await run.see("To do 0/1", "Step 1")
        # To do items are shown without markup.
        await keep(run, server, [{"content": HOSTILE, "status": "pending"}])
        await run.see("x[/]y [@click=app.bell]z[/]")
        shown = run.app.workbench.chat.todo_bar.render().plain
        assert "\x1b" not in shown and "\u202e" not in shown
        # A long one shows the current item.
        await keep(run, server, todos(*["completed"] * 20, "in_progress", *["pending"] * 20))
        await run.pilot.press("ctrl+o")
        for size in ((120, 40), (60, 20)):
            await run.pilot.resize_terminal(*size)
            await run.see("▸ Step 21", "more")
            assert run.app.workbench.chat.todo_bar.size.height <= size[1] // 3
