"""Processes that share a store: one of them has a session, and each hears of the others' changes."""

import os
import shutil
import signal
import threading
from pathlib import Path

import pytest

from app.storage import StorageError
from app.storage.process_coordination import DatabaseChangeSignal, DatabaseChangeWatch, SessionLock, is_session_open


def test_a_session_lock_is_held_by_one_process_and_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "session.lock"
    one, other = SessionLock(path), SessionLock(path)
    assert one.acquire() and one.acquire() and not other.acquire()
    assert (one.is_held, other.is_held, is_session_open(path)) == (True, False, True)
    one.release()
    one.release()
    assert not path.exists() and not is_session_open(path)
    assert other.acquire()


def test_a_lock_on_a_removed_file_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "session.lock"
    first, second = SessionLock(path), SessionLock(path)
    assert first.acquire()
    opened = os.open

    def just_before_the_release(name: Path, flags: int, mode: int = 0o777) -> int:
        descriptor = opened(name, flags, mode)
        monkeypatch.setattr(os, "open", opened)
        first.release()
        return descriptor

    monkeypatch.setattr(os, "open", just_before_the_release)
    assert second.acquire()
    assert not SessionLock(path).acquire(), "what it holds is the file that everybody sees"


def test_a_childs_descriptor_does_not_hold_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "session.lock"
    lock = SessionLock(path)
    assert lock.acquire()
    waiting, going = os.pipe()
    if not (child := os.fork()):
        os.close(going)
        os.read(waiting, 1)
        os._exit(0)
    try:

        def stays(self: Path) -> None:
            raise PermissionError

        # Also where the folder does not let the file go.
        monkeypatch.setattr(Path, "unlink", stays)
        lock.release()
        assert not is_session_open(path)
        assert SessionLock(path).acquire()
    finally:
        os.close(going)
        os.waitpid(child, 0)


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "session.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StorageError, match="cannot be locked"):
        SessionLock(tmp_path / "session.lock").acquire()
    assert not (tmp_path / "elsewhere").exists()


def test_a_change_signal_that_cannot_be_sent_causes_no_error(tmp_path: Path) -> None:
    giving = DatabaseChangeSignal(tmp_path / "signals", "/w")
    shutil.rmtree(tmp_path / "signals")
    giving.send()
    assert not giving.path.exists()


class Stopped(Exception):
    """What a handler of a signal raises."""


def test_a_signal_stops_waiting_for_changes(tmp_path: Path) -> None:
    def stop(number: int, frame: object) -> None:
        raise Stopped

    before = signal.signal(signal.SIGUSR1, stop)
    timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        # It may also come just before or after the wait.
        with (
            pytest.raises((KeyboardInterrupt, Stopped)),
            DatabaseChangeWatch(DatabaseChangeSignal(tmp_path, "/w")) as watch,
        ):
            timer.start()
            watch.wait(30)
            timer.join()
    finally:
        signal.signal(signal.SIGUSR1, before)
