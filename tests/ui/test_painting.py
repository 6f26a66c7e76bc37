"""Painting: containers paint what Textual's own would, rows are drawn once, and tests paint few pictures."""

from collections.abc import Awaitable, Callable, Sequence

import pytest
from rich.style import Style
from textual.app import App, ComposeResult
from textual.color import Color
from textual.containers import Horizontal, Vertical
from textual.filter import LineFilter, Monochrome
from textual.geometry import Region
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from tests.ui.screen_text import screen_text
from widgets.common.containers import CachedStripView, Column, Row
from widgets.common.splitter import Splitter


class Colourless(App[None]):
    """Ours and Textual's, alike, in shades of grey."""

    CSS = """
    Column, Vertical, Row, Horizontal { background: $primary; height: 6; &.framed { border: round red; } }
    """
    shades = Monochrome()

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [self.shades]

    def compose(self) -> ComposeResult:
        for name in ("", "framed"):
            for kind in (Column, Vertical, Row, Horizontal):
                yield kind(classes=name)


def cells(strips: Sequence[Strip]) -> list[list[tuple[str, Color | None]]]:
    return [
        [(character, _colour(segment.style)) for segment in strip for character in segment.text] for strip in strips
    ]


def _colour(style: Style | None) -> Color | None:
    return Color.from_rich_color(style.bgcolor) if style is not None and style.bgcolor is not None else None


def painted(widget: Widget) -> list[Strip]:
    return widget.render_lines(Region(0, 0, widget.outer_size.width, widget.outer_size.height))


@pytest.mark.parametrize(("ours", "textuals"), [(Column, Vertical), (Row, Horizontal)])
async def test_our_containers_paint_what_textuals_paint(ours: type[Widget], textuals: type[Widget]) -> None:
    app = Colourless()
    async with app.run_test(size=(40, 60)):
        for name in ("", "framed"):
            mine, other = (
                next(one for one in app.query(kind) if type(one) is kind and one.has_class("framed") == bool(name))
                for kind in (ours, textuals)
            )
            assert cells(painted(mine)) == cells(painted(other))
            assert (len({id(strip) for strip in painted(mine)}) == 1) == (not name)


class Resized(App[None]):
    """A line of each kind."""

    def compose(self) -> ComposeResult:
        yield Splitter()
        yield Splitter(upright=True)


async def test_the_splitter_has_a_handle_in_its_middle() -> None:
    app = Resized()
    async with app.run_test(size=(20, 20)):
        flat, upright = app.query(Splitter)
        assert flat.render_line(0).text == "─" * 8 + "═══" + "─" * 9
        assert upright.size.width == 1
        assert "".join(upright.render_line(y).text for y in range(upright.size.height)) == "│" * 8 + "║║║" + "│" * 8


class Rows(CachedStripView):
    """Each row says how often the rows have changed, and counts how often one was made."""

    changes = 0
    made = 0

    def render_line(self, y: int) -> Strip:
        self.made += 1
        return Strip.blank(self.size.width) if y else Strip.blank(self.size.width - self.changes)


class RowsApp(App[None]):
    def compose(self) -> ComposeResult:
        yield Rows()


async def test_rows_that_change_often_between_paints_are_drawn_twice_at_most() -> None:
    async with RowsApp().run_test(size=(20, 10)) as pilot:
        await pilot.pause()
        view = pilot.app.query_one(Rows)
        # As after a picture.
        view.render_lines(view.size.region)
        view.made = 0
        for _ in range(5):
            view.changes += 1
            view.refresh_changed()
        view.render_lines(view.size.region)
        assert view.made <= 2 * view.size.height


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
async def test_a_render_error_fails_the_test_at_its_next_action(
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


async def test_a_render_error_fails_the_test_at_its_end() -> None:
    app = OneWidget()
    with pytest.raises(LookupError, match="not to be drawn"):
        async with app.run_test() as pilot:
            app.query_one(Defective).add_class("changed").refresh()
            await pilot.pause()
