"""Painting: containers paint what Textual's own would, and an error in it fails the test."""

from collections.abc import Sequence

import pytest
from rich.style import Style
from textual.app import App, ComposeResult
from textual.color import Color
from textual.containers import Horizontal, Vertical
from textual.filter import LineFilter, Monochrome
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Static

from widgets.common.containers import Column, Row


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


class Defective(Static):
    """Can be drawn as long as nothing has changed."""

    def render(self) -> str:
        if self.has_class("changed"):
            raise LookupError("not to be drawn")
        return "fine"


class OneWidget(App[None]):
    def compose(self) -> ComposeResult:
        yield Defective()


@pytest.mark.parametrize("end", [True, False])
async def test_a_render_error_fails_the_test_at_its_next_action_or_its_end(end: bool) -> None:
    app, acted = OneWidget(), False
    with pytest.raises(LookupError, match="not to be drawn"):
        async with app.run_test() as pilot:
            app.query_one(Defective).add_class("changed").refresh()
            await pilot.pause()
            if not end:
                await pilot.press("x")
                acted = True
    assert not acted
