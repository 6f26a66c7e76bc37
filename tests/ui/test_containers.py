"""Containers paint what Textual's own would, from one strip."""

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

from widgets.common.containers import Column, Row
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
async def test_a_container_paints_what_textuals_paints(ours: type[Widget], textuals: type[Widget]) -> None:
    app = Colourless()
    async with app.run_test(size=(40, 60)):
        for name in ("", "framed"):
            mine, other = (
                next(one for one in app.query(kind) if type(one) is kind and one.has_class("framed") == bool(name))
                for kind in (ours, textuals)
            )
            assert cells(painted(mine)) == cells(painted(other))
            assert (len({id(strip) for strip in painted(mine)}) == 1) == (not name)


class Parted(App[None]):
    """A line of each kind."""

    def compose(self) -> ComposeResult:
        yield Splitter()
        yield Splitter(upright=True)


async def test_the_line_between_panes_has_a_handle_in_its_middle_whichever_way_it_runs() -> None:
    app = Parted()
    async with app.run_test(size=(20, 20)):
        flat, upright = app.query(Splitter)
        assert flat.render_line(0).text == "─" * 8 + "═══" + "─" * 9
        assert upright.size.width == 1
        assert "".join(upright.render_line(y).text for y in range(upright.size.height)) == "│" * 8 + "║║║" + "│" * 8
