"""What a person reads on the screen of an app that runs without a terminal."""

from typing import Any

from textual.app import App


def screen_text(app: App[Any]) -> str:
    """The text on screen, one line for each row of the terminal, once all that is due has been painted.

    A key that a pilot pressed has been handled, but its picture waits for the next frame, late on a loaded machine.
    It is what `App.export_screenshot` draws, without the drawing: tests that wait for a text read it many times.
    """
    app.screen._on_timer_update()
    compositor = app.screen._compositor
    update: Any = compositor.render_update(full=True, screen_stack=app._background_screens)
    return "\n".join("".join(strip.text for strip in row).rstrip() for row in update.strips)
