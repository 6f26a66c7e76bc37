"""A pilot that continues when the effects of its action are done and laid out, on machines of any speed.

Textual's pilot waits until the process has used little CPU time, for at least 40 ms after each key. On a busy machine
this is true before anything is done. This pilot asks the event loop.
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

_MAX_LOOP_SECONDS = 1.0
"""Maximum number of seconds to wait for an app that never becomes idle."""
_MAX_THREAD_SECONDS = 0.3
"""Maximum number of seconds to wait for threads: a thread may wait for the test. Tests wait for thread results by
`until`.
"""
_POLL_SECONDS = 0.002
"""Seconds between two checks of a thread or a timer."""
_MAX_REFRESHES = 5
"""How many times a frame may request another before a test continues: a spinner requests frames for ever."""


_Executor: Any = ThreadPoolExecutor
_WorkItem: Any = thread._WorkItem
_submit, _run = _Executor.submit, _WorkItem.run
_submitted: WeakKeyDictionary[Any, list[Any]] = WeakKeyDictionary()
"""Unfinished work items that were submitted to an executor. The executor itself counts its idle threads correctly
only up to Python 3.11; later, a busy thread may take the work that was counted for another.
"""


def _submit_and_record(executor: Any, *arguments: Any, **keywords: Any) -> Any:
    future = _submit(executor, *arguments, **keywords)
    _submitted[executor] = [*_unfinished(executor), future]
    return future


def _run_and_record(item: Any, *arguments: Any) -> None:
    future = item.future
    try:
        _run(item, *arguments)
    finally:
        future.is_over = True


def _unfinished(executor: Any) -> list[Any]:
    return [future for future in _submitted.get(executor, ()) if not hasattr(future, "is_over")]


def _has_thread_work(loop: Any) -> bool:
    """Return whether a thread has unfinished work, or a result that is not delivered yet."""
    return bool(loop._default_executor and _unfinished(loop._default_executor))


async def _wait_for_loop() -> None:
    """Wait until the event loop has nothing to run now."""
    loop: Any = asyncio.get_running_loop()
    end = time.monotonic() + _MAX_LOOP_SECONDS
    await asyncio.sleep(0)
    while loop._ready and time.monotonic() < end:
        await asyncio.sleep(0)


def _needs_refresh(app: App[Any]) -> bool:
    """Return whether the active screen still needs a layout or a frame, or has callbacks that wait for one."""
    screen = app.screen
    changed = screen._layout_required or screen._scroll_required or screen._repaint_required or screen._dirty_widgets
    return bool(changed or screen._callbacks)


async def _wait_for_screen(pilot: Pilot[Any], timeout: float = 30.0) -> bool:
    """Wait until an action is handled, its frame could be painted, and callbacks after the frame are done."""
    app, loop, end = pilot.app, asyncio.get_running_loop(), time.monotonic() + _MAX_THREAD_SECONDS
    end_of_resize = time.monotonic() + _MAX_LOOP_SECONDS
    rounds = 0
    await _wait_for_loop()
    while app._exception is None and app.screen_stack:
        if app._resize_timer is not None and time.monotonic() > end_of_resize:
            # Textual skips a timer if the process is suspended for its interval while it starts.
            app._check_resize()
        elif app._resize_timer is not None or (_has_thread_work(loop) and time.monotonic() < end):
            await asyncio.sleep(_POLL_SECONDS)
        elif rounds < _MAX_REFRESHES and _needs_refresh(app):
            rounds += 1
            app.screen._on_timer_update()
        else:
            break
        await _wait_for_loop()
    return app._exception is None


async def wait_until_idle(pilot: Pilot[Any]) -> None:
    """Wait until no thread works and everything is painted; for tests in which no thread waits for the test."""
    loop = asyncio.get_running_loop()
    await until(lambda: not _has_thread_work(loop), "the end of what threads do")
    await pilot.pause()


async def _press(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys one by one; each after the previous one is handled and its frame could be painted."""
    paint(pilot.app)
    for key in keys:
        await pilot.app._press_keys((key,))
        await pilot._wait_for_screen()


async def _click(pilot: Pilot[Any], *arguments: Any, **keywords: Any) -> bool:
    """Paint, then click on the screen or move the mouse over it."""
    paint(pilot.app)
    hit: bool = await _post_mouse_events(pilot, *arguments, **keywords)
    return hit


async def _shut_down(app: App[Any]) -> None:
    try:
        paint(app)
    finally:
        await _shutdown(app)


async def _skip_wait(min_sleep: float = 0.0, max_sleep: float = 0.0) -> None:
    """Replacement for Textual's wait for idle CPU: return at once."""


def wait_for_effects() -> None:
    """Patch all pilots: they continue when their action is done and its frame could be painted."""
    _Executor.submit, _WorkItem.run = _submit_and_record, _run_and_record
    textual.app.wait_for_idle = textual.pilot.wait_for_idle = _skip_wait  # type: ignore[attr-defined]
    Pilot._wait_for_screen = _wait_for_screen  # type: ignore[assignment, method-assign]
    Pilot.press = _press  # type: ignore[assignment, method-assign]
    Pilot._post_mouse_events = _click  # type: ignore[assignment, method-assign]
    App._shutdown = _shut_down  # type: ignore[assignment, method-assign]
