"""The tests' own pictures: few are painted, and what cannot be drawn still fails."""

from collections.abc import Awaitable, Callable

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widgets import Static

from tests.ui.screen_text import screen_text


class Defective(Static):
    """Can be drawn as long as nothing has changed."""

    def render(self) -> str:
        if self.has_class("changed"):
            raise LookupError("not to be drawn")
        return "fine"


class OneWidget(App[None]):
    def compose(self) -> ComposeResult:
        yield Defective()


async def press(pilot: Pilot[None]) -> None:
    await pilot.press("x")


async def click(pilot: Pilot[None]) -> None:
    await pilot.click(Defective)


async def look(pilot: Pilot[None]) -> None:
    screen_text(pilot.app)


@pytest.mark.parametrize("act", [press, click, look])
async def test_what_cannot_be_drawn_fails_when_a_test_acts_on_it(
    act: Callable[[Pilot[None]], Awaitable[None]],
) -> None:
    app, acted = OneWidget(), False
    with pytest.raises(LookupError, match="not to be drawn"):
        async with app.run_test() as pilot:
            await act(pilot)
            app.query_one(Defective).add_class("changed").refresh()
            await pilot.pause()
            await act(pilot)
            acted = True
    assert not acted


async def test_what_cannot_be_drawn_fails_at_the_end() -> None:
    app = OneWidget()
    with pytest.raises(LookupError, match="not to be drawn"):
        async with app.run_test() as pilot:
            app.query_one(Defective).add_class("changed").refresh()
            await pilot.pause()
