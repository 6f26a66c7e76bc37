"""A pilot that goes on when what it did is done and laid out, however fast the machine is.

Textual's own looks whether the process has used little of the processor lately, for at least 40 ms after each key: on
a busy machine it has, before anything was done. Here it asks the event loop, which knows.
"""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor, thread
from typing import Any
from weakref import WeakKeyDictionary

import textual.app
import textual.pilot
from textual.app import App
from textual.pilot import Pilot

from tests.pictures import paint
from tests.waiting import until

_post_mouse_events: Any = Pilot._post_mouse_events
_shutdown: Any = App._shutdown

_BUSY = 1.0
"""Seconds to wait for an app that always has something to do."""
_AT_WORK = 0.3
"""Seconds to wait for its threads: one may wait for the test. What a thread brings is a condition to wait for."""
_LOOK = 0.002
"""Seconds between two looks at a thread, and at a timer."""
_ROUNDS = 5
"""How often a picture may ask for another before a test goes on: a spinner asks for ever."""


_Executor: Any = ThreadPoolExecutor
_WorkItem: Any = thread._WorkItem
_submit, _run = _Executor.submit, _WorkItem.run
_handed: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()
"""What was handed to the threads of an executor, as far as it was not done when somebody looked. How many of them are
idle it knows itself only up to Python 3.11: a busy one may take what another was counted for."""


def _submit_and_note(executor: Any, *arguments: Any, **named: Any) -> Any:
    future = _submit(executor, *arguments, **named)
    _handed.setdefault(executor, []).append(future)
    return future


def _run_and_note(item: Any, *arguments: Any) -> None:
    future = item.future
    try:
        _run(item, *arguments)
    finally:
        future.is_over = True


def _threads_at_work(loop: Any) -> bool:
    """Whether what was handed to a thread is not done, and told to who waits for it."""
    handed = _handed.get(loop._default_executor, []) if loop._default_executor else []
    handed[:] = [future for future in handed if not hasattr(future, "is_over")]
    return bool(handed)


async def _idle() -> None:
    """Wait until the loop has nothing that it could do now."""
    loop: Any = asyncio.get_running_loop()
    end = time.monotonic() + _BUSY
    await asyncio.sleep(0)
    while loop._ready and time.monotonic() < end:
        await asyncio.sleep(0)


def _is_due(app: App[Any]) -> bool:
    """Whether the screen in front has yet to be laid out or painted, or something waits for that."""
    screen = app.screen
    changed = screen._layout_required or screen._scroll_required or screen._repaint_required or screen._dirty_widgets
    return bool(changed or screen._callbacks)


async def _picture_due(pilot: Pilot[Any], timeout: float = 30.0) -> bool:
    """Wait until what a pilot did was handled, the picture could be painted, and what waited for the picture done."""
    app, loop, end = pilot.app, asyncio.get_running_loop(), time.monotonic() + _AT_WORK
    rounds = 0
    await _idle()
    while app._exception is None and app.screen_stack:
        if app._resize_timer is not None or (_threads_at_work(loop) and time.monotonic() < end):
            await asyncio.sleep(_LOOK)
        elif rounds < _ROUNDS and _is_due(app):
            rounds += 1
            app.screen._on_timer_update()
        else:
            break
        await _idle()
    return app._exception is None


async def at_rest(pilot: Pilot[Any]) -> None:
    """Wait until no thread is at work, and all is painted; for tests in which no thread waits for anything."""
    loop = asyncio.get_running_loop()
    await until(lambda: not _threads_at_work(loop), "the end of what threads do")
    await pilot.pause()


async def _press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys one by one, each when the one before was handled and its picture could be on the screen."""
    paint(pilot.app)
    for key in keys:
        await pilot.app._press_keys((key,))
        await pilot._wait_for_screen()


async def _click(pilot: Pilot[Any], *arguments: Any, **how: Any) -> bool:
    """Click on what is on the screen, or move over it."""
    paint(pilot.app)
    hit: bool = await _post_mouse_events(pilot, *arguments, **how)
    return hit


async def _end(app: App[Any]) -> None:
    """Paint the last picture, and end the app."""
    try:
        paint(app)
    finally:
        await _shutdown(app)


async def _no_longer(min_sleep: float = 0.0, max_sleep: float = 0.0) -> None:
    """Wait no longer; what Textual does instead of asking."""


def wait_for_what_was_done() -> None:
    """Have every pilot, whoever runs the app, go on when what it did is done, and its picture could be painted."""
    _Executor.submit, _WorkItem.run = _submit_and_note, _run_and_note
    textual.app.wait_for_idle = textual.pilot.wait_for_idle = _no_longer  # type: ignore[attr-defined]
    Pilot._wait_for_screen = _picture_due  # type: ignore[assignment, method-assign]
    Pilot.press = _press  # type: ignore[assignment, method-assign]
    Pilot._post_mouse_events = _click  # type: ignore[assignment, method-assign]
    App._shutdown = _end  # type: ignore[assignment, method-assign]
