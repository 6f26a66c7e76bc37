"""What a person reads on the screen of an app that runs without a terminal."""

from typing import Any
from weakref import WeakKeyDictionary

from textual.app import App

from tests.pictures import discard_pending_regions, frame_count

_texts: WeakKeyDictionary[App[Any], tuple[int, Any, str]] = WeakKeyDictionary()
"""The text that was read last: of which picture, of which screen."""


def screen_text(app: App[Any]) -> str:
    """The text on screen, one line for each row of the terminal, once all that is due has been painted.

    A key that a pilot pressed has been handled, but its picture waits for the next frame, late on a loaded machine.
    It is what `App.export_screenshot` draws, without the drawing: tests that wait for a text read it many times, and
    while nothing is painted it is the same.
    """
    screen = app.screen
    screen._on_timer_update()
    number = frame_count(app)
    if (last := _texts.get(app)) and last[:2] == (number, id(screen)):
        return last[2]
    update: Any = screen._compositor.render_update(full=True, screen_stack=app._background_screens)
    discard_pending_regions(screen)
    text = "\n".join("".join(strip.text for strip in row).rstrip() for row in update.strips)
    _texts[app] = (number, id(screen), text)
    return text
