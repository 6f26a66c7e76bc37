"""The status bar: who is waited for comes first, and nothing is ever cut in two."""

import re

import pytest
from textual.app import App, ComposeResult

from app.conversation.token_totals import TokenTotals
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


async def test_whatever_the_width_every_part_is_whole_or_left_out() -> None:
    app = Bar()
    shown: set[str] = set()
    async with app.run_test(size=(280, 3)) as pilot:
        bar = app.query_one(StatusBar)
        bar.status = FULL
        for width in range(280, 37, -4):
            await pilot.resize_terminal(width, 3)
            await pilot.pause()
            text = bar.render().plain
            assert len(text) <= width - 2
            parts = {part.strip() for part in re.split(r"  ·  |\s{3,}", text) if part.strip()}
            assert parts <= PARTS | {"The model needs your permission"}
            assert shown or parts == PARTS, "there is room for all of them"
            shown |= parts
        assert parts == {"The model needs your permission  F4"}, "who is waited for goes last"


@pytest.mark.parametrize(("asks", "words"), [("permission", "needs your permission"), ("question", "asks you")])
async def test_who_is_waited_for_stands_first_with_the_key_that_answers(asks: str, words: str) -> None:
    app = Bar()
    async with app.run_test(size=(60, 3)) as pilot:
        bar = app.query_one(StatusBar)
        bar.status = StatusValues(model="m", gate_closed=True, waiting=1, asks=asks, answer_key="F2")  # type: ignore[arg-type]
        await pilot.pause()
        assert bar.render().plain.startswith(f" The model {words}  F2  ·  ● model must wait")


async def test_the_gate_is_not_said_to_be_open_before_it_is_known() -> None:
    app = Bar()
    async with app.run_test(size=(120, 3)):
        bar = app.query_one(StatusBar)
        bar.status = StatusValues(model="m")
        assert "gate" not in bar.render().plain
        bar.status = StatusValues(model="m", gate_closed=True, follows=True)
        assert "open in another window" in bar.render().plain
        assert "model must wait" in bar.render().plain
