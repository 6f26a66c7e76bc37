"""The cost of opening, scrolling and keys in the diff view, relative to a bare line widget with the same change.

Run with `pytest tests/benchmarks/test_diff_view_speed.py -n0 -s` to see the figures. Every limit is a ratio to a
baseline that is measured in the same process, alternating with the view: it holds on a slow or busy machine. The
milliseconds are printed for people. Only memory has an absolute limit.
"""

import asyncio
import gc
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import pytest
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.pilot import Pilot
from textual.strip import Strip

from app.copies import replace
from app.proposals.values.models import FileDiff, Proposal
from tests.benchmarks.line_prototype import LinePrototype
from tests.benchmarks.outside import ROOT
from tests.ui.sample_diffs import blocks, file_diff_of_hunks, many_lines, proposal
from widgets.diff.diff_colours import make_diff_variable_defaults
from widgets.diff.diff_view import DiffView

UNIFIED = (120, 40)
SIDE_BY_SIDE = (200, 50)
STEPS = 8
REPEATS = 5

RATIO = 2.0
"""Maximum cost, relative to the line prototype with the same change."""
FIGURES = ("opened", "line", "page", "key")
UNNOTICED_MS = {"opened": 50.0, "line": 8.0, "page": 8.0, "key": 8.0}
"""A difference to the prototype that nobody notices is accepted with any ratio. Opening is measured by wall-clock
time, the others are work within one frame.
"""

GROWTH = 1.4
"""Maximum work of opening a large change, relative to fifty hunks, unless the difference is at most `UNNOTICED_MS`.
Both are minima: medians of five differ by half on a busy machine.
"""

MEGABYTES = 200
"""Maximum memory with fifty thousand changed lines after scrolling through all of them."""
MEMORY_RATIO = 1.5


class EmptyApp(App[None]):
    def get_theme_variable_defaults(self) -> dict[str, str]:
        return make_diff_variable_defaults(self.current_theme)

    def compose(self) -> ComposeResult:
        yield from ()


@dataclass(frozen=True)
class Figures:
    """Milliseconds; medians of the CPU time of the event loop's thread, except for the first."""

    opened: float
    """Wall-clock time from the finished diff to the end of the first frame: the minimum, without load by others."""
    line: float
    """From a scroll by one line to its frame."""
    page: float
    """From a scroll by one page to its frame."""
    key: float
    """From a key that moves the cursor to its frame."""


class DrawnView(DiffView):
    is_drawn = False

    @property
    def row(self) -> int:
        return self.cursor.number

    def render_lines(self, crop: Region) -> list[Strip]:
        self.is_drawn |= has_text(strips := super().render_lines(crop))
        return strips


class DrawnPrototype(LinePrototype):
    is_drawn = False

    @property
    def row(self) -> int:
        return self.cursor

    def render_lines(self, crop: Region) -> list[Strip]:
        self.is_drawn |= has_text(strips := super().render_lines(crop))
        return strips


def has_text(strips: Sequence[Strip]) -> bool:
    return any(len(strip.text.strip()) > 20 for strip in strips)


Drawn = DrawnView | DrawnPrototype


async def frame_time(widget: Drawn, act: Callable[[], object]) -> float:
    """Return the CPU milliseconds of the event loop from an action to the end of its frame."""
    started = time.thread_time()
    before = widget.row, widget.scroll_offset
    act()
    while (widget.row, widget.scroll_offset) == before:
        await asyncio.sleep(0)
    await widget.wait_for_refresh()
    return (time.thread_time() - started) * 1000


class Readings:
    def __init__(self, make: Callable[[], Drawn], size: tuple[int, int]) -> None:
        self._make = make
        self._size = size
        self._opened: list[float] = []
        self.work: list[float] = []
        """CPU milliseconds of the event loop for each opening."""
        self._lines: list[float] = []
        self._pages: list[float] = []
        self._keys: list[float] = []

    async def take(self, *, scroll: bool = True) -> None:
        app = EmptyApp()
        async with app.run_test(size=self._size) as pilot:
            gc.collect()
            started, cpu_started = time.perf_counter(), time.thread_time()
            widget = self._make()
            await app.mount(widget)
            while not widget.is_drawn:
                await widget.wait_for_refresh()
            self._opened.append((time.perf_counter() - started) * 1000)
            self.work.append((time.thread_time() - cpu_started) * 1000)
            widget.focus()
            await wait_until_settled(pilot, widget)
            if not scroll or widget.max_scroll_y <= 3 * self._size[1]:
                return
            page = self._size[1] - 2
            for _ in range(STEPS):
                self._pages.append(await frame_time(widget, partial(widget.scroll_relative, y=page, animate=False)))
                await wait_until_settled(pilot, widget)
                self._lines.append(await frame_time(widget, partial(widget.scroll_relative, y=1, animate=False)))
            await pilot.press("down")
            for _ in range(STEPS):
                self._keys.append(await frame_time(widget, partial(app.simulate_key, "down")))

    @property
    def figures(self) -> Figures:
        samples = (self._lines, self._pages, self._keys)
        return Figures(min(self._opened), *(statistics.median(values) if values else 0.0 for values in samples))


async def wait_until_settled(pilot: Pilot[None], widget: Drawn) -> None:
    await widget.workers.wait_for_complete()
    await pilot.pause()


def view_of(diffs: Sequence[FileDiff], *, wrap: bool = False) -> Callable[[], DrawnView]:
    value: Proposal = proposal("P1", diffs)

    def make() -> DrawnView:
        widget = DrawnView()
        widget.set_wrap(wrap)
        widget.show_change(value, diffs)
        return widget

    return make


async def compare(diffs: Sequence[FileDiff], size: tuple[int, int]) -> tuple[Figures, Figures]:
    """Return the figures of the diff view and of the prototype, measured alternately."""
    # A line that is a whole file is wrapped to make it scrollable. The prototype can't wrap: it shows many lines
    # instead. A key scrolls the wrapped line, therefore it is compared with a scroll by one line.
    single = len(diffs[0].new) == 1
    plain = blocks(3_000) if single else diffs
    view, bare = Readings(view_of(diffs, wrap=single), size), Readings(lambda: DrawnPrototype(plain), size)
    for _ in range(REPEATS):
        await view.take()
        await bare.take()
    figures = bare.figures
    return view.figures, replace(figures, key=figures.line) if single else figures


def hundred_files() -> list[FileDiff]:
    diffs = []
    for number in range(100):
        old = [f"    value_{line} = compute({line}, 'text')" for line in range(400)]
        new = list(old)
        spans = []
        for start in range(0, 400, 40):
            new[start] = f"    value_{start} = compute({start}, 'other')"
            spans.append((start, 1, start, 1))
        diffs.append(file_diff_of_hunks(f"pkg/file_{number}.py", old, new, spans, first=10 * number + 1))
    return diffs


def minified() -> list[FileDiff]:
    """Return one line of half a megabyte with a few changed characters."""
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


@pytest.mark.timeout(400)
@pytest.mark.parametrize("size", [UNIFIED, SIDE_BY_SIDE], ids=["unified", "side by side"])
async def test_opening_scrolling_and_keys_cost_at_most_twice_the_prototype(size: tuple[int, int]) -> None:
    report = [f"{'':>26} {'open':>8} {'line':>8} {'page':>8} {'key':>8}   ms, and times the prototype"]
    failures: list[str] = []
    for name, make in CASES.items():
        figures, bare = await compare(make(), size)
        report.append(f"{name:>26}{_row(figures)}   {_ratios(figures, bare)}")
        report.append(f"{'prototype':>26}{_row(bare)}")
        failures += [
            f"{name}: {figure} is over {RATIO} times the prototype's"
            for figure in FIGURES
            if getattr(figures, figure)
            > max(RATIO * getattr(bare, figure), getattr(bare, figure) + UNNOTICED_MS[figure])
        ]
    print("\n" + "\n".join(report))
    assert not failures, "\n".join([*failures, *report])


LARGE: dict[str, Callable[[], list[FileDiff]]] = {
    "50,000 changed lines": lambda: blocks(150_000),
    "50,000 new lines": lambda: many_lines(50_000),
    "25,000 hunks": lambda: blocks(250_000, every=10, changed=1),
    "1,000 hunks in 100 files": hundred_files,
}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("size", [UNIFIED, SIDE_BY_SIDE], ids=["unified", "side by side"])
@pytest.mark.parametrize("name", LARGE)
async def test_opening_cost_does_not_depend_on_size(name: str, size: tuple[int, int]) -> None:
    small, large = Readings(view_of(blocks(3_000)), size), Readings(view_of(LARGE[name]()), size)
    for _ in range(REPEATS):
        await small.take(scroll=False)
        await large.take(scroll=False)
    few, many = min(small.work), min(large.work)
    print(f"\n{name}: {many:.1f} ms, fifty hunks {few:.1f} ms, x{many / few:.2f}")
    assert many <= max(GROWTH * few, few + UNNOTICED_MS["opened"])


@pytest.mark.timeout(400)
def test_large_change_takes_little_memory_after_scrolling() -> None:
    memory = {kind: _peak_memory(kind) for kind in ("view", "prototype")}
    view, bare = memory["view"], memory["prototype"]
    print(f"\nthe diff pane, scrolled through: {view:.0f} MB, the prototype: {bare:.0f} MB, x{view / bare:.2f}")
    assert view <= MEGABYTES
    assert view <= MEMORY_RATIO * bare


def _peak_memory(kind: str) -> float:
    command = [sys.executable, "-P", "-m", "tests.benchmarks.review_program", kind, "50000"]
    environment = {"PYTHONPATH": str(ROOT), "TEXTUAL_ANIMATIONS": "none"}
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def _row(figures: Figures) -> str:
    return f" {figures.opened:8.1f} {figures.line:8.2f} {figures.page:8.2f} {figures.key:8.2f}"


def _ratios(figures: Figures, bare: Figures) -> str:
    return " ".join(f"x{getattr(figures, name) / getattr(bare, name):.2f}" for name in FIGURES)
