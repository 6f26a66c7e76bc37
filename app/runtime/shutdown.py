"""Leaving when the user or the system asks for it: in order if that is soon done, and in any case soon.

Threads can't be ended: one that waits for a file system that has gone away would keep the process for as long. What
signoff writes can be cut off at any instant, so after a while the process just ends.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from app.runtime.terminal_at_start import LEAVE_ALTERNATE_SCREEN, SHOW_CURSOR, read_terminal_attributes

PATIENCE = 1.8
"""Seconds that leaving in order may take."""
_REPORTS = (1000, 1002, 1003, 1004, 1006, 2004, 2048)
"""Modes in which a terminal tells of the mouse, the focus, pastes and its size."""
_PLAIN_TERMINAL = "".join(f"\x1b[?{mode}l" for mode in _REPORTS) + f"\x1b[<u{LEAVE_ALTERNATE_SCREEN}{SHOW_CURSOR}"
"""No reports, no kitty keys, no other screen, and the cursor back."""


def force_exit_soon(code: int, before: Callable[[], None] = lambda: None) -> None:
    """End the process in `PATIENCE` if it is still there then.

    Args:
        code: The exit code: above 128, of a signal.
        before: Called at the very end, on a thread.
    """

    def end() -> None:
        with suppress(Exception):
            before()
        os._exit(code)

    timer = threading.Timer(PATIENCE, end)
    timer.daemon = True
    timer.start()


@contextmanager
def exit_on_signals(
    leave: Callable[[int], None], has_terminal: Callable[[], bool]
) -> Iterator[Callable[[Callable[[], None]], None]]:
    """Let SIGTERM and SIGHUP close the app while the block runs, and end the process if it does not close.

    Args:
        leave: Begins to leave with an exit code; called on the running loop.
        has_terminal: Whether the terminal is drawn on at this moment, so that it has to be given back.

    Yields:
        What ends the app soon when the user leaves it, whatever is stuck; first it calls, on a thread, what it is
        given, to wait for what should not be cut off.
    """
    loop = asyncio.get_running_loop()
    give_back = _terminal_restorer()

    def back() -> None:
        if has_terminal():
            give_back()

    def end_if_stuck(settle: Callable[[], None]) -> None:
        def before() -> None:
            settle()
            back()

        force_exit_soon(0, before)

    def receive(number: int, _: object) -> None:
        force_exit_soon(128 + number, back)
        loop.call_soon_threadsafe(leave, 128 + number)

    # Not `loop.add_signal_handler`: that needs the loop to turn, which is just what may have gone wrong.
    before = {number: signal.signal(number, receive) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield end_if_stuck
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _terminal_restorer() -> Callable[[], None]:
    """Return a function that restores the present state of the terminal."""
    import termios

    try:
        descriptor = sys.__stderr__.fileno() if sys.__stderr__ else 2
        attributes = read_terminal_attributes(descriptor)
    except (OSError, termios.error):
        return lambda: None

    def give_back() -> None:
        os.write(descriptor, _PLAIN_TERMINAL.encode())
        termios.tcsetattr(descriptor, termios.TCSANOW, attributes)

    return give_back
