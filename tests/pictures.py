"""Of all the pictures that an app without a terminal would paint, those are painted that somebody looks at.

An app paints some forty pictures in a test, and a test looks at a few: painting took nearly half of its time. Here a
picture is painted when a test looks at the screen, when its pilot goes on with the next key or click, as a user does
who has the picture before them, and when the app ends: with all that has changed since the one before. What a widget
learns from being drawn, as the diff does of what its user has seen, it learns at once.
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
_put_off: WeakKeyDictionary[Screen[Any], set[Region]] = WeakKeyDictionary()
"""What has changed since the last picture."""
_numbers: WeakKeyDictionary[App[Any], int] = WeakKeyDictionary()


def number_of_pictures(app: App[Any]) -> int:
    """How many pictures an app would have painted so far."""
    return _numbers.get(app, 0)


def paint(app: App[Any]) -> None:
    """Paint what has changed since the last picture; raises what a widget raises that cannot be drawn."""
    if app._exception is None and app.screen_stack and (changed := _put_off.pop(app.screen, None)):
        app.screen._compositor._dirty_regions |= changed
        _paint(app.screen)


def painted_whole(screen: Screen[Any]) -> None:
    """Note that a test has just had a screen drawn as it is now, for itself."""
    _put_off.pop(screen, None)


def _note(screen: Screen[Any]) -> None:
    """Note what has changed, as far as it is on the screen, and draw what has to know that it is seen."""
    app = screen.app
    _numbers[app] = number_of_pictures(app) + 1
    if screen is not app.screen or not app.is_headless or app._batch_count:
        _paint(screen)
        return
    compositor = screen._compositor
    changed = compositor._dirty_regions.copy()
    compositor._dirty_regions.clear()
    screen._dirty_widgets.clear()
    if not changed:
        return
    _put_off.setdefault(screen, set()).update(changed)
    # As to paint does: in a map that is made later, what was shown since would pass for what was there before.
    _ = compositor.full_map
    crop = Region.from_union(changed)
    for widget, (region, clip) in compositor.visible_widgets.items():
        if isinstance(widget, DiffView) and any(map(region.overlaps, changed)):
            widget.render_lines(region.intersection(clip).intersection(crop).translate(-region.offset))


def paint_what_is_looked_at() -> None:
    """Have no screen paint by itself where there is no terminal; `paint` does."""
    Screen._compositor_refresh = _note  # type: ignore[method-assign, assignment]


def paint_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every screen paint each picture by itself, as on a terminal, until the end of a test."""
    monkeypatch.setattr(Screen, "_compositor_refresh", _paint)
