"""How fast the diff preview opens, scrolls and answers keys, as ratios to a bare app and a bare line widget.

Run with `pytest tests/benchmarks/test_diff_view_speed.py -n0 -s` to see the figures. Every limit is a ratio to a
baseline measured in the same process, so it holds on a slow or busy machine; the milliseconds are printed for people.
"""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import pytest
from rich.segment import Segment
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.pilot import Pilot
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from app.proposals.models import FileDiff, Proposal
from tests.ui.sample_diffs import blocks, file_diff_of_hunks, many_lines, proposal
from widgets.diff.colours import diff_variable_defaults
from widgets.diff.view import DiffView

SCREEN = (120, 40)
STEPS = 15
REPEATS = 2

OPEN_RATIO = 8.0
"""The most that opening may cost, in units of opening the bare line widget, which has no text to lay out."""
LINE_RATIO = 2.0
"""The most that a frame after a scrolled line may cost, in units of the same frame of the bare line widget."""
PAGE_RATIO = 5.0
"""The same for a page, all of whose lines are new."""
KEY_RATIO = 2.0
"""The same for a key that moves the cursor."""


class BareLines(ScrollView, can_focus=True):
    """The least that a line widget can be: numbered lines in one style."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("down", "step")]

    def __init__(self) -> None:
        super().__init__()
        self.virtual_size = Size(100, 1_000)

    def action_step(self) -> None:
        """As the diff view moves: at once."""
        self.scroll_relative(y=1, animate=False, immediate=True)

    def render_line(self, y: int) -> Strip:
        line = y + self.scroll_offset.y
        text = f"{line:>5} + value_{line} = compute({line})".ljust(self.size.width)
        half = len(text) // 2
        return Strip([Segment(text[:half], self.rich_style), Segment(text[half:], self.rich_style)], self.size.width)


class Bench(App[None]):
    """An empty app into which the measured widget is mounted."""

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return diff_variable_defaults(self.current_theme)

    def compose(self) -> ComposeResult:
        yield from ()


@dataclass(frozen=True)
class Figures:
    """Medians, in milliseconds of CPU time of the event loop's thread."""

    opened: float
    """From the finished diff to the first frame."""
    line: float
    """From a scroll by one line to its frame."""
    page: float
    """From a scroll by one page to its frame."""
    key: float
    """From a key to its frame."""


class Paint:
    """When, in CPU time of the event loop's thread, a widget was drawn last."""

    def __init__(self) -> None:
        self.at = 0.0

    def watch(self, kind: type[Widget]) -> type[Widget]:
        """The same kind of widget, noting when it is drawn."""
        paint = self

        class Watched(kind):  # type: ignore[misc, valid-type]
            def render_lines(self, crop: Region) -> list[Strip]:
                strips: list[Strip] = super().render_lines(crop)
                paint.at = time.thread_time()
                return strips

        return Watched


async def measure(kind: type[Widget], fill: Callable[[Widget], None]) -> Figures:
    """Open, scroll and press, several times; the medians."""
    opened: list[float] = []
    lines: list[float] = []
    pages: list[float] = []
    keys: list[float] = []
    paint = Paint()
    watched = paint.watch(kind)

    async def after(pilot: Pilot[None], act: Callable[[], object]) -> float:
        """Milliseconds of the event loop from an action to its frame."""
        started, paint.at = time.thread_time(), 0.0
        act()
        for _ in range(1_000):
            if paint.at:
                break
            await pilot.pause(0.001)
        else:
            pytest.fail("nothing was drawn")
        return (paint.at - started) * 1000

    for _ in range(REPEATS):
        app = Bench()
        async with app.run_test(size=SCREEN) as pilot:
            gc.collect()
            widget = watched()

            def open_widget(app: Bench = app, widget: Widget = widget) -> None:
                app.mount(widget)
                fill(widget)

            opened.append(await after(pilot, open_widget))
            widget.focus()
            await settled(pilot, widget)
            for step in range(STEPS):
                lines.append(await after(pilot, partial(widget.scroll_relative, y=1, animate=False)))
                if step % 3 == 0:
                    pages.append(await after(pilot, partial(widget.scroll_relative, y=38, animate=False)))
            for _ in range(STEPS):
                keys.append(await after(pilot, partial(app.simulate_key, "down")))
    return Figures(*(statistics.median(values) for values in (opened, lines, pages, keys)))


async def settled(pilot: Pilot[None], widget: Widget) -> None:
    """Wait until background work is done."""
    await widget.workers.wait_for_complete()
    await pilot.pause()


async def measure_diff(diffs: Sequence[FileDiff], wrap: bool = False) -> Figures:
    """The figures of the diff view."""
    value: Proposal = proposal("P1", diffs)

    def fill(widget: Widget) -> None:
        assert isinstance(widget, DiffView)
        widget.set_wrap(wrap)
        widget.show(value, diffs)

    return await measure(DiffView, fill)


def hundred_files() -> list[FileDiff]:
    """A thousand hunks over a hundred files."""
    found = []
    for number in range(100):
        old = [f"    value_{line} = compute({line}, 'text')" for line in range(400)]
        new = list(old)
        spans = []
        for start in range(0, 400, 40):
            new[start] = f"    value_{start} = compute({start}, 'other')"
            spans.append((start, 1, start, 1))
        found.append(file_diff_of_hunks(f"pkg/file_{number}.py", old, new, spans, first=10 * number + 1))
    return found


def minified() -> list[FileDiff]:
    """One line of half a megabyte in which a few characters changed."""
    old = "function a(b){return b+1};" * 20_000
    new = old.replace("b+1", "b+2", 1)[:-10] + "return c};"
    return [file_diff_of_hunks("app.min.js", [old], [new], [(0, 1, 0, 1)])]


CASES = {
    "1,000 lines": lambda: blocks(3_000),
    "10,000 lines": lambda: blocks(30_000),
    "50,000 lines": lambda: blocks(150_000),
    "50,000 new lines": lambda: many_lines(50_000),
    "1,000 hunks in 100 files": hundred_files,
    "a line of 500 kB": minified,
}


@pytest.mark.timeout(300)
async def test_opening_scrolling_and_keys_do_not_depend_on_the_size() -> None:
    bare = await measure(BareLines, lambda widget: None)
    report = [f"{'':>26} {'open':>8} {'line':>8} {'page':>8} {'key':>8}   ms, medians"]
    report.append(f"{'bare line widget':>26} {bare.opened:8.1f} {bare.line:8.2f} {bare.page:8.2f} {bare.key:8.1f}")
    failures = []
    for name, make in CASES.items():
        figures = await measure_diff(make(), wrap="500 kB" in name)
        report.append(
            f"{name:>26} {figures.opened:8.1f} {figures.line:8.2f} {figures.page:8.2f} {figures.key:8.1f}"
            f"   x{figures.opened / bare.opened:.2f} x{figures.line / bare.line:.2f} x{figures.page / bare.page:.2f}"
        )
        limits = {"opened": OPEN_RATIO, "line": LINE_RATIO, "page": PAGE_RATIO, "key": KEY_RATIO}
        failures += [
            f"{name}: {figure} is over {limit} times the bare widget's"
            for figure, limit in limits.items()
            if getattr(figures, figure) > limit * getattr(bare, figure)
        ]
    print("\n" + "\n".join(report))
    assert not failures, "\n".join([*failures, *report])
