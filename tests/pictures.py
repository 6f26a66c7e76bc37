"""Paint only the frames of an app without a terminal that a test looks at.

An app paints about forty frames in a test, and the test looks at a few; painting took nearly half of the time. With
this module an app paints a frame when a test looks at the screen, when its pilot continues with the next key or
click, and when the app ends. A frame contains all changes since the previous one. Widgets that record what they have
drawn, such as the diff, still draw at once.
"""

from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import pytest
from textual.app import App
from textual.geometry import Region
from textual.screen import Screen

from widgets.diff.diff_view import DiffView

_paint: Callable[[Screen[Any]], None] = Screen._compositor_refresh
_pending_regions: WeakKeyDictionary[Screen[Any], set[Region]] = WeakKeyDictionary()
"""Regions that have changed since the last frame."""
_frame_counts: WeakKeyDictionary[App[Any], int] = WeakKeyDictionary()


def frame_count(app: App[Any]) -> int:
    return _frame_counts.get(app, 0)


def paint(app: App[Any]) -> None:
    """Paint the changes since the last frame; raise the exception of a widget that cannot be drawn."""
    if app._exception is None and app.screen_stack and (changed := _pending_regions.pop(app.screen, None)):
        app.screen._compositor._dirty_regions |= changed
        _paint(app.screen)


def discard_pending_regions(screen: Screen[Any]) -> None:
    """Discard the recorded changes: a test has just drawn the current screen itself."""
    _pending_regions.pop(screen, None)


def _record_changes(screen: Screen[Any]) -> None:
    """Record the changed regions, and draw the widgets that record which lines were visible."""
    app = screen.app
    _frame_counts[app] = frame_count(app) + 1
    if screen is not app.screen or not app.is_headless or app._batch_count:
        _paint(screen)
        return
    compositor = screen._compositor
    changed = compositor._dirty_regions.copy()
    compositor._dirty_regions.clear()
    screen._dirty_widgets.clear()
    if not changed:
        return
    _pending_regions.setdefault(screen, set()).update(changed)
    # Painting also builds the map here; a map that is built later would lack the previous positions.
    _ = compositor.full_map
    crop = Region.from_union(changed)
    for widget, (region, clip) in compositor.visible_widgets.items():
        if isinstance(widget, DiffView) and any(map(region.overlaps, changed)):
            widget.render_lines(region.intersection(clip).intersection(crop).translate(-region.offset))


def paint_on_demand() -> None:
    """Patch screens without a terminal: they paint only when `paint` is called."""
    Screen._compositor_refresh = _record_changes  # type: ignore[method-assign, assignment]


def paint_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Patch all screens to paint each frame at once, as on a terminal, until the end of a test."""
    monkeypatch.setattr(Screen, "_compositor_refresh", _paint)
