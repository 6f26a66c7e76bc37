"""Exit on request of the user or the system: orderly if that is quick, and by force otherwise.

Python can't end threads: one that waits for an unreachable file system would keep the process alive. All writes of
signoff may be interrupted at any instant, so after a timeout the process just ends.
"""

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from app.runtime.terminal_at_start import LEAVE_ALTERNATE_SCREEN, SHOW_CURSOR, original_terminal_attributes

PATIENCE = 1.8
"""Seconds that an orderly exit may take."""
_REPORT_MODES = (1000, 1002, 1003, 1004, 1006, 2004, 2048)
"""Modes in which a terminal reports mouse, focus, pastes and size."""
_RESET_SEQUENCE = (
    "".join(f"\x1b[?{mode}l" for mode in _REPORT_MODES) + f"\x1b[<u{LEAVE_ALTERNATE_SCREEN}{SHOW_CURSOR}"
)
"""Disables reports, kitty keys and the alternate screen, and shows the cursor."""


def force_exit_soon(code: int, call_before_exit: Callable[[], None] = lambda: None) -> None:
    """End the process by force if it still runs after `PATIENCE` seconds.

    Args:
        code: The exit code; 128 plus the number after a signal.
        call_before_exit: Called just before the end, on a thread.
    """

    def end() -> None:
        with suppress(Exception):
            call_before_exit()
        os._exit(code)

    timer = threading.Timer(PATIENCE, end)
    timer.daemon = True
    timer.start()


@contextmanager
def exit_on_signals_even_if_stuck(
    leave: Callable[[int], None], has_terminal: Callable[[], bool]
) -> Iterator[Callable[[Callable[[], None]], None]]:
    """Close the app on SIGTERM and SIGHUP while the block runs, and end the process if it does not close.

    Args:
        leave: Starts to leave with an exit code; called on the running loop.
        has_terminal: Returns whether the app draws on the terminal, which then must be restored.

    Yields:
        A function that ends the process after `PATIENCE` seconds when the user quits. Before the end it calls its
        argument, on a thread, to wait for writes that should not be interrupted.
    """
    loop = asyncio.get_running_loop()
    restore = _make_terminal_restorer()

    def restore_if_drawn() -> None:
        if has_terminal():
            restore()

    def end_if_stuck(settle: Callable[[], None]) -> None:
        def settle_and_restore() -> None:
            settle()
            restore_if_drawn()

        force_exit_soon(0, settle_and_restore)

    def receive(number: int, _: object) -> None:
        force_exit_soon(128 + number, restore_if_drawn)
        loop.call_soon_threadsafe(leave, 128 + number)

    # `loop.add_signal_handler` would not work if the event loop hangs.
    former_handlers = {number: signal.signal(number, receive) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield end_if_stuck
    finally:
        for number, handler in former_handlers.items():
            signal.signal(number, handler)


def _make_terminal_restorer() -> Callable[[], None]:
    """Return a function that restores the present state of the terminal."""
    import termios

    try:
        descriptor = sys.__stderr__.fileno() if sys.__stderr__ else 2
        attributes = original_terminal_attributes(descriptor)
    except (OSError, termios.error):
        return lambda: None

    def restore() -> None:
        os.write(descriptor, _RESET_SEQUENCE.encode())
        termios.tcsetattr(descriptor, termios.TCSANOW, attributes)

    return restore
