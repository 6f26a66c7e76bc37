"""Rows that look different are drawn, and looked at once for a picture however often they change."""

from textual.app import App, ComposeResult
from textual.strip import Strip

from widgets.common.containers import StripView


class Rows(StripView):
    """Each row says how often the rows have changed, and counts how often one was made."""

    changes = 0
    made = 0

    def render_line(self, y: int) -> Strip:
        self.made += 1
        return Strip.blank(self.size.width) if y else Strip.blank(self.size.width - self.changes)


class RowsApp(App[None]):
    def compose(self) -> ComposeResult:
        yield Rows()


async def test_rows_that_change_often_before_a_picture_are_made_twice_at_most() -> None:
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
