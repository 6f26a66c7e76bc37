"""How fast the diff preview opens, scrolls and answers keys, as ratios to a bare line widget for the same change.

Run with `pytest tests/benchmarks/test_diff_view_speed.py -n0 -s` to see the figures. Every limit is a ratio to a
baseline measured in the same process, so it holds on a slow or busy machine; the milliseconds are printed for people.
"""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget

from app.proposals.models import FileDiff, Proposal
from tests.benchmarks.line_prototype import LinePrototype
from tests.ui.sample_diffs import blocks, file_diff_of_hunks, many_lines, proposal
from widgets.diff.colours import diff_variable_defaults
from widgets.diff.view import DiffView

UNIFIED = (120, 40)
SIDE_BY_SIDE = (200, 50)
STEPS = 6
REPEATS = 3

RATIO = 2.0
"""The most that anything may cost, in units of the same of the line prototype on the same change."""
NOISE = {"opened": 1.5, "line": 1.3, "page": 1.3, "key": 1.3}
"""How far medians of so few runs differ by chance on a busy machine."""


class Bench(App[None]):
    """An empty app into which the measured widget is mounted."""

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return diff_variable_defaults(self.current_theme)

    def compose(self) -> ComposeResult:
        yield from ()


@dataclass(frozen=True)
class Figures:
    """Milliseconds; medians of the CPU time of the event loop's thread, except for the first."""

    opened: float
    """From the finished diff to the end of the first frame, by the clock on the wall."""
    line: float
    """From a scroll by one line to its frame."""
    page: float
    """From a scroll by one page to its frame."""
    key: float
    """From a key to its frame."""


class DrawnView(DiffView):
    """A diff view that knows whether it has been drawn."""

    drawn = False

    def render_lines(self, crop: Region) -> list[Strip]:
        strips = super().render_lines(crop)
        self.drawn = self.drawn or any(len(strip.text.strip()) > 20 for strip in strips)
        return strips


class DrawnPrototype(LinePrototype):
    """The same of the prototype."""

    drawn = False

    def render_lines(self, crop: Region) -> list[Strip]:
        strips = super().render_lines(crop)
        self.drawn = self.drawn or any(len(strip.text.strip()) > 20 for strip in strips)
        return strips


async def frame(widget: Widget, act: Callable[[], object]) -> float:
    """Milliseconds of the event loop from an action to the end of the frame that shows it."""
    started = time.thread_time()
    act()
    await widget.wait_for_refresh()
    return (time.thread_time() - started) * 1000


async def measure(make: Callable[[], DrawnView | DrawnPrototype], size: tuple[int, int]) -> Figures:
    """Open, scroll and press, several times; the medians."""
    opened: list[float] = []
    lines: list[float] = []
    pages: list[float] = []
    keys: list[float] = []
    for _ in range(REPEATS):
        app = Bench()
        async with app.run_test(size=size) as pilot:
            gc.collect()
            started = time.perf_counter()
            widget = make()
            await app.mount(widget)
            await widget.wait_for_refresh()
            while not widget.drawn:
                await widget.wait_for_refresh()
            opened.append((time.perf_counter() - started) * 1000)
            widget.focus()
            await settled(pilot, widget)
            for step in range(STEPS if widget.max_scroll_y > 3 * size[1] else 0):
                lines.append(await frame(widget, partial(widget.scroll_relative, y=1, animate=False)))
                if step % 3 == 0:
                    page = partial(widget.scroll_relative, y=size[1] - 2, animate=False)
                    pages.append(await frame(widget, page))
                    await settled(pilot, widget)
            await pilot.press("down")
            for _ in range(STEPS if lines else 0):
                keys.append(await frame(widget, partial(app.simulate_key, "down")))
    medians = (statistics.median(values) if values else 0.0 for values in (lines, pages, keys))
    return Figures(statistics.median(opened), *medians)


async def settled(pilot: Pilot[None], widget: Widget) -> None:
    """Wait until background work is done."""
    await widget.workers.wait_for_complete()
    await pilot.pause()


async def measure_view(diffs: Sequence[FileDiff], size: tuple[int, int], wrap: bool) -> Figures:
    """The figures of the diff view."""
    value: Proposal = proposal("P1", diffs)

    def make() -> DrawnView:
        widget = DrawnView()
        widget.set_wrap(wrap)
        widget.show(value, diffs)
        return widget

    return await measure(make, size)


async def measure_prototype(diffs: Sequence[FileDiff], size: tuple[int, int]) -> Figures:
    """The figures of the line prototype."""
    return await measure(lambda: DrawnPrototype(diffs), size)


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


CASES: dict[str, Callable[[], list[FileDiff]]] = {
    "1,000 changed lines": lambda: blocks(3_000),
    "10,000 changed lines": lambda: blocks(30_000),
    "50,000 changed lines": lambda: blocks(150_000),
    "50,000 new lines": lambda: many_lines(50_000),
    "1,000 hunks in 100 files": hundred_files,
    "a line of 500 kB": minified,
}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("size", [UNIFIED, SIDE_BY_SIDE], ids=["unified", "side by side"])
async def test_opening_scrolling_and_keys_stay_within_twice_the_prototype_at_every_size(
    size: tuple[int, int],
) -> None:
    report = [f"{'':>26} {'open':>8} {'line':>8} {'page':>8} {'key':>8}   ms, and times the prototype"]
    failures: list[str] = []
    smallest = 0.0
    usual: Figures | None = None
    for name, make in CASES.items():
        diffs = make()
        bare = await measure_prototype(diffs, size)
        figures = await measure_view(diffs, size, wrap="500 kB" in name)
        smallest = smallest or figures.opened
        # A prototype that shows a single line has nothing to scroll; there the first case's is the measure.
        usual = usual or bare
        report.append(f"{name:>26}{_row(figures)}   {_ratios(figures, bare)}")
        report.append(f"{'prototype':>26}{_row(bare)}")
        failures += [
            f"{name}: {figure} is over {RATIO} times the prototype's"
            for figure, noise in NOISE.items()
            if getattr(figures, figure) > RATIO * noise * (getattr(bare, figure) or getattr(usual, figure))
        ]
        if figures.opened > RATIO * NOISE["opened"] * smallest:
            failures.append(f"{name}: opening depends on the size")
    print("\n" + "\n".join(report))
    assert not failures, "\n".join([*failures, *report])


def _row(figures: Figures) -> str:
    return f" {figures.opened:8.1f} {figures.line:8.2f} {figures.page:8.2f} {figures.key:8.2f}"


def _ratios(figures: Figures, bare: Figures) -> str:
    return " ".join(
        f"x{getattr(figures, name) / getattr(bare, name):.2f}" if getattr(bare, name) else "-" for name in NOISE
    )
