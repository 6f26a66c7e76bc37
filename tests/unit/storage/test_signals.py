"""The signals between processes, at their edges."""

import os
import shutil
import signal
import threading
from pathlib import Path

import pytest

from app.storage.change_signals import ChangeSignal, ChangeWatch


def test_a_signal_that_cannot_be_given_fails_nothing(tmp_path: Path) -> None:
    giving = ChangeSignal(tmp_path / "signals", "/w")
    shutil.rmtree(tmp_path / "signals")
    giving.send()
    assert not giving.path.exists()


class Stopped(Exception):
    """What a handler of a signal raises."""


def test_who_waits_is_stopped_by_a_signal(tmp_path: Path) -> None:
    def stop(number: int, frame: object) -> None:
        raise Stopped

    before = signal.signal(signal.SIGUSR1, stop)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        # It may also come just before or after the wait.
        with pytest.raises((KeyboardInterrupt, Stopped)), ChangeWatch(ChangeSignal(tmp_path, "/w")) as watch:
            timer.start()
            watch.wait(30)
            timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
