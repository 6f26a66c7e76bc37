"""What is found out about a change after its first frame: only what is wanted, and only for what is still shown."""

import pytest
from textual.geometry import Size

from app.proposals.values.models import FileDiff
from tests.ui.sample_diffs import file_diff, many_lines, proposal
from tests.unit.widgets.diff.diff_canvas import RecordingView
from widgets.diff.background_jobs import BackgroundJobs
from widgets.diff.diff_cursor import Job
from widgets.diff.diff_layout import DiffLayout
from widgets.diff.diff_model import DiffModel


class Desk:
    """A sheet with a change, the jobs that its background has begun, and what it said."""

    def __init__(self, *diffs: FileDiff, white_space: bool = True) -> None:
        self.sheet = DiffModel()
        self.sheet.white_space = white_space
        self.jobs: dict[str, Job] = {}
        self.said: list[str] = []
        self.background = BackgroundJobs(self.sheet, RecordingView(self.jobs, self.said))
        self.sheet.show(proposal("P1", diffs), diffs, versions=False)

    def looked(self) -> "Desk":
        """It has begun what is to be found out about the change."""
        self.background.find_moved_lines()
        self.background.start()
        return self


@pytest.mark.parametrize(
    ("diffs", "white_space", "begun"),
    [
        (many_lines(1_000), True, {"inspect"}),
        (many_lines(1_000), False, {"inspect", "spaces"}),
        ([file_diff("a.py", None, "x" * 100_000)], False, {"inspect", "spaces"}),
        (many_lines(10), False, set()),
    ],
)
def test_what_takes_long_is_found_out_later_and_white_space_only_if_it_is_to_be_left_out(
    diffs: list[FileDiff], white_space: bool, begun: set[str]
) -> None:
    assert Desk(*diffs, white_space=white_space).looked().jobs.keys() == begun


def test_what_differs_in_white_space_is_found_once() -> None:
    desk = Desk(*many_lines(10), white_space=False).looked()
    found = desk.sheet.spaces
    desk.background.find_space_changes()
    assert desk.sheet.spaces is found is not None
    desk = Desk(*many_lines(10)).looked()
    assert desk.sheet.spaces is None


async def test_a_layout_that_is_shown_no_more_is_not_said_to_have_grown() -> None:
    desk = Desk(*many_lines(50_000))
    desk.sheet.lay_out(Size(80, 30), None)
    desk.background.finish_layout()
    desk.background.start()
    desk.sheet.rows = DiffLayout()
    await desk.jobs["layout"]()
    assert desk.said == []
