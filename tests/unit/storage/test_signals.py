"""The signals between processes, at their edges."""

import os
import shutil
import signal
import threading
from pathlib import Path

import pytest

from app.storage.signals import Signal, Watch


def test_a_signal_that_cannot_be_given_fails_nothing(tmp_path: Path) -> None:
    giving = Signal(tmp_path / "signals", "/w")
    shutil.rmtree(tmp_path / "signals")
    giving.send()
    assert not giving.path.exists()


def test_who_waits_hears_of_ctrl_c(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Watch(Signal(tmp_path, "/w")) as watch:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
        watch.wait(30)
